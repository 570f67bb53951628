//! Building what goes into a guest: static programs.

use crate::long;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The one target whose programs run in a guest.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The command itself.
pub(crate) const ENFORCER: &str = "enforcer";
/// Processes with a known memory behaviour.
pub(crate) const WORKLOAD: &str = "enforcer-workload";
/// The story.
pub(crate) const DEMO: &str = "enforcer-demo";
/// The VM tier's runner.
pub(crate) const VM_TESTS: &str = "enforcer-vm-tests";
/// What needs a real Kubernetes.
pub(crate) const E2E_TESTS: &str = "enforcer-e2e-tests";
/// The benchmarks.
pub(crate) const BENCH: &str = "enforcer-bench";
/// Programs that can go into a guest's `/bin`; each is a package of that name.
pub(crate) const PROGRAMS: [&str; 6] = [ENFORCER, BENCH, DEMO, E2E_TESTS, VM_TESTS, WORKLOAD];
/// What the demo shows.
pub(crate) const DEMO_PROGRAMS: [&str; 3] = [ENFORCER, WORKLOAD, DEMO];
/// The guest's process 1.
pub(crate) const INIT: &str = "enforcer-test-init";

/// Where this repository lies.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Builds the kernel programs ahead of user space, whose build script does so without a word, for minutes.
pub(crate) fn kernel_programs() -> Result<()> {
    let this = std::env::current_exe().context("find this very program")?;
    let mut command = Command::new(this);
    long::cargo("building the kernel programs", command.arg("build-ebpf"))
        .context("build the kernel programs")
}

/// How guest programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Quick to build: for tests.
    Guest,
    /// As it is shipped: for figures.
    Release,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::Release => "release",
        }
    }
}

/// Builds guest programs and returns their folder.
///
/// Static, for the guest has no libraries; in a target folder of their own, so that these flags and those of
/// the host's build don't undo each other.
pub(crate) fn guest_programs(programs: &[&str], profile: Profile) -> Result<PathBuf> {
    let mut cargo = guest_cargo("build", profile);
    for package in programs {
        cargo.args(["--package", package]);
    }
    let what = format!("building {} (static, {})", programs.join(", "), profile.name());
    long::cargo(&what, &mut cargo).context("build the guest's programs")?;
    Ok(guest_folder().join(TARGET).join(profile.name()))
}

/// Cargo for what runs in a guest, and for what would else build the same dependencies once more.
pub(crate) fn guest_cargo(job: &str, profile: Profile) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args([job, "--profile", profile.name(), "--target", TARGET]);
    cargo.env("CARGO_TARGET_DIR", guest_folder());
    for flags in ["RUSTFLAGS", "RUSTDOCFLAGS"] {
        cargo.env(flags, "-C target-feature=+crt-static");
    }
    // The kernel programs are the same for both; their `core` alone takes minutes.
    cargo.env(enforcer_ebpf_build::TARGET_DIR_ENV, target_folder());
    cargo
}

fn guest_folder() -> PathBuf {
    target_folder().join("guest")
}

/// Cargo's target folder, as this command itself was built with.
pub(crate) fn target_folder() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}
