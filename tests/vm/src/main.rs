//! Tests that need a real kernel; run inside the VM.
//!
//! `ENFORCER_TIER=smoke` leaves out what runs on the default kernel only.

mod guest;

use enforcer_vm_tests::case;

fn main() {
    let smoke = std::env::var("ENFORCER_TIER").is_ok_and(|tier| tier == "smoke");
    let mut cases = Vec::new();
    cases.extend(guest::cases());
    case::run(cases, smoke);
}
