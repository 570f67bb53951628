//! The `enforcer` command.

fn main() {}
