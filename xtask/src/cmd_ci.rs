//! `cargo xtask ci`: formatting, lints, licences, then every test.

use crate::{build, cmd_test, run, setup};
use anyhow::{Context, Result};
use clap::Args;
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

/// Formatting and lints of user space and kernel programs, and the dependencies' licences and sources.
pub(crate) fn lint() -> Result<()> {
    setup::build()?;
    let root = build::root();
    let cargo = || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&root);
        cargo
    };
    println!("== formatting");
    run::checked(cargo().args(["fmt", "--all", "--check"]))?;
    run::checked(cargo().args(["fmt", "--check", "--manifest-path", "enforcer-ebpf/programs/Cargo.toml"]))?;
    println!("== lints");
    run::checked(cargo().args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))
        .context("lints of user space")?;
    println!("== dependencies");
    if run::output(cargo().args(["deny", "--version"])).is_ok() {
        run::checked(cargo().args(["deny", "--offline", "check", "licenses", "bans", "sources"]))?;
    } else {
        println!("SKIP dependencies: cargo-deny is not installed (cargo install cargo-deny --locked)");
    }
    Ok(())
}
