//! Tests that need a real kernel; run inside the VM.

fn main() {}
