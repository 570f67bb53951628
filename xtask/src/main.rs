//! The project's own tool: set-up, tests, demo, VM, benchmarks.

fn main() {}
