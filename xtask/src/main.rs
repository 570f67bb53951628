//! The project's own tool: set-up, tests, demo, VM, benchmarks.

mod apt;
mod build;
mod cache;
mod cmd_bench;
mod cmd_ci;
mod cmd_demo;
mod cmd_e2e;
mod cmd_ebpf;
mod cmd_image;
mod cmd_manifests;
mod cmd_test;
mod cmd_vm;
mod cpio;
mod debian;
#[cfg(test)]
mod deploy;
mod go;
mod guest;
mod helm;
mod image;
mod kernels;
mod kmod;
mod kubernetes;
mod lanes;
mod lines;
mod long;
mod qemu;
mod run;
mod setup;
mod vm;

use clap::Parser;
use std::process::ExitCode;

/// Everything around the program: set-up, the demo, tests, benchmarks, guests.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// See three real shrinks of real cgroups, on this machine where it can, else in a VM.
    Demo(cmd_demo::Options),
    /// Run every test that this machine can run.
    Test(cmd_test::Options),
    /// Run the tests that need a real Kubernetes: API server, kubelet and containerd in a VM.
    E2e(cmd_e2e::Options),
    /// Run a command, or a shell script, in a VM with its own kernel.
    Vm(cmd_vm::Options),
    /// Build the kernel programs, and say with which toolchain.
    BuildEbpf(cmd_ebpf::BuildOptions),
    /// Show what the kernels' verifiers count in each program, against the snapshot.
    Verifier(cmd_ebpf::VerifierOptions),
    /// Formatting, lints, licences, then every test.
    Ci(cmd_ci::Options),
    /// Render the plain manifests of deploy/kubernetes from the chart.
    Manifests(cmd_manifests::Options),
    /// Build the agent's container image, as an archive that runtimes import.
    Image(cmd_image::Options),
    /// Run a benchmark in a VM.
    Bench(cmd_bench::Options),
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Demo(options) => cmd_demo::run(&options),
        Task::Test(options) => cmd_test::run(&options),
        Task::E2e(options) => cmd_e2e::run(&options),
        Task::Vm(options) => cmd_vm::run(options),
        Task::BuildEbpf(options) => cmd_ebpf::build(&options),
        Task::Verifier(options) => cmd_ebpf::verifier(&options),
        Task::Manifests(options) => cmd_manifests::run(&options),
        Task::Image(options) => cmd_image::run(&options),
        Task::Ci(options) => cmd_ci::run(&options),
        Task::Bench(options) => cmd_bench::run(&options),
    };
    match result {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
