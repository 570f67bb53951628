//! Three real shrinks of real cgroups, told as a story.
//!
//! Each act starts a workload in a cgroup of its own, runs the `enforcer` command on it as a user would,
//! and then looks at the kernel's own counters to see whether the answer was true.

mod act;
mod acts;

use act::Told;
use anyhow::{Result, ensure};
use clap::Parser;
use std::path::PathBuf;

/// Where the programs and a disk are.
#[derive(Debug, Parser)]
struct Options {
    /// The `enforcer` command.
    #[arg(long, default_value = "/bin/enforcer")]
    enforcer: PathBuf,
    /// The workload program.
    #[arg(long, default_value = "/bin/enforcer-workload")]
    workload: PathBuf,
    /// A directory on a disk file system, for page cache.
    #[arg(long, default_value = "/data")]
    dir: PathBuf,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("enforcer on Linux {}: real workloads, real limits, real eBPF", kernel.trim());
    let mut told: Vec<Told> = Vec::new();
    for act in acts::all(&options.dir) {
        told.push(act.play(&options.enforcer, &options.workload)?);
    }
    println!("\n{:-<100}", "");
    for line in &told {
        println!("{line}");
    }
    let wrong = told.iter().filter(|line| !line.as_promised).count();
    ensure!(wrong == 0, "{wrong} of {} acts did not end as promised", told.len());
    Ok(())
}
