//! `cargo xtask vm`: a command, or a shell, in a guest.

use crate::guest::{Boot, Kit};
use crate::kernels;
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// What to boot and what to run there.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A kernel of the list in xtask/src/kernels.rs.
    #[arg(long, default_value = kernels::DEFAULT)]
    kernel: String,
    /// A file of the host to have in the guest; lands in /bin unless `:PATH` says otherwise.
    #[arg(long = "file", value_name = "HOST[:GUEST]")]
    files: Vec<String>,
    /// The guest's memory in MiB.
    #[arg(long, default_value_t = 2048)]
    memory: u32,
    /// Give up after so many seconds.
    #[arg(long, default_value_t = 1200)]
    seconds: u64,
    /// Let the guest's clock count instructions, one nanosecond each.
    #[arg(long)]
    icount: bool,
    /// Program and arguments; `sh -c '...'` gives a shell script.
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

pub(crate) fn run(options: Options) -> Result<i32> {
    let kit = Kit::ready()?;
    let kernel = kit.kernel(&options.kernel)?;
    let mut boot = Boot::new(&[]);
    boot.job = options.command;
    if let Some(program) = boot.job.first_mut().filter(|program| !program.contains('/')) {
        *program = format!("/bin/{program}");
    }
    for file in &options.files {
        let (host, guest) = match file.split_once(':') {
            Some((host, guest)) => (PathBuf::from(host), guest.to_owned()),
            None => {
                let host = PathBuf::from(file);
                let name = host.file_name().with_context(|| format!("{file} names no file"))?;
                let guest = format!("/bin/{}", name.to_string_lossy());
                (host, guest)
            }
        };
        boot.files.push((host, guest));
    }
    boot.memory_mib = options.memory;
    boot.time_out = Duration::from_secs(options.seconds);
    boot.icount = options.icount;
    let ended = kit.boot(&kernel, boot, |line| println!("{line}"))?;
    eprintln!("[{} ended with {} after {:.1} s]", kernel.release, ended.status, ended.took.as_secs_f64());
    Ok(ended.status)
}
