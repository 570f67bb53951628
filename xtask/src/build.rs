//! Building what goes into a guest: static programs.

use crate::run;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The one target whose programs run in a guest.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Programs that go into every guest's `/bin`; each is a package of that name.
pub(crate) const PROGRAMS: [&str; 5] =
    ["enforcer", "enforcer-bench", "enforcer-demo", "enforcer-vm-tests", "enforcer-workload"];
/// The VM tier's runner.
pub(crate) const VM_TESTS: &str = "enforcer-vm-tests";
/// The guest's process 1.
pub(crate) const INIT: &str = "enforcer-test-init";

/// Where this repository lies.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Builds guest programs, process 1 among them, and returns their folder.
///
/// Static, for the guest has no libraries; in a target folder of their own, so that these flags and those of
/// the host's build don't undo each other.
pub(crate) fn guest_programs(programs: &[&str]) -> Result<PathBuf> {
    println!("    building the guest's programs");
    let target = target_folder().join("guest");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args(["build", "--quiet", "--profile", "guest", "--target", TARGET]);
    cargo.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-C target-feature=+crt-static");
    // The kernel programs are the same for both; their `core` alone takes minutes.
    cargo.env(enforcer_ebpf_build::TARGET_DIR_ENV, target_folder());
    for package in programs.iter().chain([&INIT]) {
        cargo.args(["--package", package]);
    }
    run::checked(&mut cargo).context("build the guest's programs")?;
    Ok(target.join(TARGET).join("guest"))
}

/// Cargo's target folder, as this command itself was built with.
pub(crate) fn target_folder() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}
