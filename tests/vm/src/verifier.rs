//! What the kernel's verifier counts in each program, for `cargo xtask verifier`.

use enforcer::probe::{Need, ProbeOptions, verify};

/// Prints a line a program: its name, then the number of instructions, or `-` and why there is none.
pub(crate) fn print() {
    let verified = verify(&ProbeOptions::default(), Need::ALL)
        .unwrap_or_else(|error| panic!("load the object: {error}"));
    for one in verified {
        let name = one.program.name();
        match one.result {
            Ok(Some(count)) => println!("{name} {count}"),
            Ok(None) => println!("{name} - this kernel does not say"),
            Err(why) => println!("{name} - {}", why.escape_debug()),
        }
    }
}
