//! `cargo xtask ci`: formatting, lints, then every test, that of licences among them.

use crate::build::Profile;
use crate::{build, cmd_test, long, run, setup};
use anyhow::Result;
use clap::Args;
use enforcer_ebpf_build::Toolchain;
use std::path::Path;
use std::process::Command;

/// What to leave out.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only the checks that need no test.
    #[arg(long)]
    lint_only: bool,
}

pub(crate) fn run(options: &Options) -> Result<i32> {
    lint()?;
    if options.lint_only { Ok(0) } else { cmd_test::run(&cmd_test::Options::default()) }
}

/// Formatting and lints of user space and kernel programs.
fn lint() -> Result<()> {
    println!("== set-up");
    let toolchain = setup::build()?;
    let root = build::root();
    println!("== formatting");
    run::checked(cargo(&root).args(["fmt", "--all", "--check"]))?;
    let programs = root.join("enforcer-ebpf/programs");
    run::checked(cargo(&programs).args(["fmt", "--check"]))?;
    println!("== lints");
    // Macros and build scripts are built once for this and for the tests.
    let mut clippy = build::guest_cargo("clippy", Profile::Guest);
    clippy.args(["--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    long::cargo("user space", &mut clippy)?;
    println!("    the kernel programs");
    match &toolchain {
        None => println!("SKIP lints of the kernel programs: a prebuilt object is named"),
        Some(toolchain) if setup::kernel_lints(toolchain)? => {
            let mut options = enforcer_ebpf_build::Options::new(&root);
            options.verbose = true;
            enforcer_ebpf_build::lint(&options)?;
        }
        Some(Toolchain { rustc, .. }) => {
            println!("SKIP lints of the kernel programs: {} has no clippy beside it", rustc.display());
        }
    }
    Ok(())
}

fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    cargo
}
