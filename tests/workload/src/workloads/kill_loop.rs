//! OOM kills in a row, counted by the parent: the truth that recorders are measured against.

use crate::args::Args;
use crate::life::Life;
use crate::memory::Memory;
use crate::say;
use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{ForkResult, fork};
use std::fs;

/// Forks `--n` children, `--parallel` at a time, that grow until the kernel kills them. Prints
/// `kill-loop killed <n> other <n>`, and ends by itself.
pub(crate) fn run(mut args: Args, _life: Life) -> Result<()> {
    let count = args.number("n")?.unwrap_or(1);
    let parallel = args.number("parallel")?.unwrap_or(1).max(1);
    let size = args.size("size")?.unwrap_or(1 << 30);
    let thp = args.flag("thp");
    args.finish()?;
    say::ready(0);
    let (mut started, mut killed, mut other) = (0, 0, 0);
    while killed + other < count {
        while started < count && started - killed - other < parallel {
            child(size, thp)?;
            started += 1;
        }
        let status = wait().context("waiting for a child")?;
        if let WaitStatus::Signaled(_, Signal::SIGKILL, _) = status {
            killed += 1;
        } else {
            other += 1;
        }
    }
    say::line(format_args!("kill-loop killed {killed} other {other}"));
    Ok(())
}

fn child(size: usize, thp: bool) -> Result<()> {
    // SAFETY: this process has one thread, so the child may go on as the parent could.
    match unsafe { fork() }.context("forking")? {
        ForkResult::Parent { .. } => Ok(()),
        ForkResult::Child => {
            // The child must be the victim, however small the limit, and never its parent.
            let chosen = fs::write("/proc/self/oom_score_adj", "1000");
            let memory = chosen.map_err(anyhow::Error::from).and_then(|()| Memory::filled(size, thp));
            std::process::exit(i32::from(memory.is_err()))
        }
    }
}
