//! `cargo xtask bench`: one benchmark in a guest; its result is kept with kernel, date and command.

use crate::guest::{Boot, Kit};
use crate::{build, debian, kernels, run};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The benchmark that compares with what Debian has, and so needs one.
const AGENT: &str = "agent";

/// Which benchmark.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which kernel the guest has.
    #[arg(long, default_value = kernels::DEFAULT, value_parser = kernels::names())]
    kernel: String,
    /// The guest's memory in MiB.
    #[arg(long, default_value_t = 4096)]
    memory: u32,
    /// Give up after so many seconds.
    #[arg(long, default_value_t = 5400)]
    seconds: u64,
    /// Let the guest's clock count instructions, one nanosecond each.
    #[arg(long)]
    icount: bool,
    /// For `agent`: a static program to compare with, which the guest has as /bin/cadvisor.
    #[arg(long)]
    cadvisor: Option<PathBuf>,
    /// Keep the result under docs/bench.
    #[arg(long)]
    save: bool,
    /// Name and options of the benchmark; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    bench: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<i32> {
    let kit = Kit::optimised(&[build::ENFORCER, build::WORKLOAD, build::BENCH])?;
    let kernel = kernels::find(&options.kernel)?.unpacked()?;
    let mut boot = Boot::new(&["/bin/enforcer-bench"]);
    boot.job.extend(options.bench.clone());
    boot.memory_mib = options.memory;
    boot.time_out = Duration::from_secs(options.seconds);
    boot.icount = options.icount;
    if options.bench[0] == AGENT {
        boot.debian = Some(debian::image_to_compare()?);
        boot.files.extend(options.cadvisor.iter().map(|path| (path.clone(), "/bin/cadvisor".to_owned())));
    }
    let mut text = String::new();
    let mut results = Vec::new();
    let ended = kit.boot(&kernel, boot, |line| {
        if let Some(result) = line.strip_prefix("RESULT ") {
            results.push(result.to_owned());
        } else {
            println!("{line}");
            text.push_str(line);
            text.push('\n');
        }
    })?;
    if options.save && ended.status == 0 {
        let date = run::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
        let folder = build::root().join("docs/bench");
        std::fs::create_dir_all(&folder)?;
        let name = &options.bench[0];
        let (icount, suffix) = if options.icount { (" --icount", "-icount") } else { ("", "") };
        let command = format!(
            "cargo xtask bench --kernel {} --memory {}{icount} {}",
            options.kernel,
            options.memory,
            options.bench.join(" ")
        );
        let page = format!(
            "kernel:  {} (QEMU TCG)\ndate:    {}\ncommand: {command}\n\n{}\n",
            kernel.release,
            date.trim(),
            text.trim_end()
        );
        std::fs::write(folder.join(format!("{name}{suffix}.txt")), page).context("keep the result")?;
        for result in results {
            let (name, json) = result.split_once(' ').context("a result without a name")?;
            std::fs::write(folder.join(format!("{name}{suffix}.json")), format!("{json}\n"))?;
        }
    }
    Ok(ended.status)
}
