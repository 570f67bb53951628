//! The test VM's init: mounts what is needed, runs one job, reports, powers off.

fn main() {}
