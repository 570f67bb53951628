//! The project's own tool: set-up, tests, demo, VM, benchmarks.

mod apt;
mod build;
mod cache;
mod cmd_test;
mod cmd_vm;
mod cpio;
mod guest;
mod kernels;
mod kmod;
mod run;
mod setup;
mod vm;

use clap::Parser;
use std::process::ExitCode;

/// One task.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// Run every test that this machine can run.
    Test(cmd_test::Options),
    /// Run a command, or a shell script, in a VM with its own kernel.
    Vm(cmd_vm::Options),
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Test(options) => cmd_test::run(&options),
        Task::Vm(options) => cmd_vm::run(options),
    };
    match result {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
