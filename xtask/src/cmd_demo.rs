//! `cargo xtask demo`: three real shrinks, told as a story.

use crate::guest::{Boot, Kit};
use crate::{build, kernels, run};
use anyhow::Result;
use clap::Args;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the story plays.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Always in the VM, with this kernel.
    #[arg(long, value_parser = kernels::names())]
    kernel: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<i32> {
    println!("== set-up");
    let here = if options.kernel.is_some() { Err("a kernel was named".to_owned()) } else { host_can() };
    let why = match here {
        Ok(()) => match on_host()? {
            Some(status) => return Ok(status),
            None => "`enforcer check` says so above".to_owned(),
        },
        Err(why) => why,
    };
    println!("    this machine can't run it itself ({why}); a VM can");
    let kit = Kit::ready(&build::DEMO_PROGRAMS)?;
    let kernel = kernels::find(options.kernel.as_deref().unwrap_or(kernels::DEFAULT))?.unpacked()?;
    println!("    booting Linux {} under QEMU, which takes some seconds without KVM", kernel.release);
    let ended =
        kit.boot(&kernel, Boot::new(&[&format!("/bin/{}", build::DEMO)]), |line| println!("{line}"))?;
    Ok(ended.status)
}

/// Whether cgroup v2 with the memory controller is mounted here, and this is root. Whether the kernel takes the
/// programs is the command's own to say.
fn host_can() -> Result<(), String> {
    let root = run::output(Command::new("id").arg("-u")).map_err(|error| format!("{error:#}"))?;
    if root.trim() != "0" {
        return Err("not root".into());
    }
    let controllers = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
        .map_err(|_| "no cgroup v2 at /sys/fs/cgroup".to_owned())?;
    if !controllers.split_whitespace().any(|controller| controller == "memory") {
        return Err("the memory controller is not on cgroup v2".into());
    }
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    if btf.exists() { Ok(()) } else { Err("the kernel has no BTF".into()) }
}

/// The story on this machine; `None` where the command itself finds that it can't be done here.
fn on_host() -> Result<Option<i32>> {
    crate::setup::build()?;
    build::kernel_programs()?;
    let programs = build::guest_programs(&build::DEMO_PROGRAMS, build::Profile::Guest)?;
    // The kernel may still refuse: the command knows, and says why.
    if !Command::new(programs.join(build::ENFORCER)).arg("check").stdin(Stdio::null()).status()?.success() {
        return Ok(None);
    }
    let disk = tempfile::Builder::new().prefix("demo-").tempdir_in(build::target_folder())?;
    let status = Command::new(programs.join(build::DEMO))
        .arg("--enforcer")
        .arg(programs.join(build::ENFORCER))
        .arg("--workload")
        .arg(programs.join(build::WORKLOAD))
        .arg("--dir")
        .arg(disk.path())
        .status()?;
    Ok(Some(status.code().unwrap_or(1)))
}
