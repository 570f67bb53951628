//! Workloads with a known memory behaviour, for tests and the demo.

fn main() {}
