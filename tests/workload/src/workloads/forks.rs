//! Children without end, within a bound.

use crate::args::Args;
use crate::life::Life;
use crate::memory::Memory;
use crate::say;
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::time::Duration;

/// Keeps up to `--n` children alive, reaps every one, and counts the forks that the pids limit refused.
pub(crate) fn run(mut args: Args, mut life: Life) -> Result<()> {
    let most = args.number("n")?.unwrap_or(8);
    let size = args.size("size")?.unwrap_or(0);
    let hold = args.span("hold")?.unwrap_or(Duration::from_millis(10));
    args.finish()?;
    let (mut alive, mut started, mut refused) = (0, 0_u64, 0_u64);
    say::ready(0);
    loop {
        while alive < most {
            match child(size, hold) {
                Ok(()) => (alive, started) = (alive + 1, started + 1),
                Err(Errno::EAGAIN | Errno::ENOMEM) => {
                    refused += 1;
                    break;
                }
                Err(error) => return Err(error).context("forking"),
            }
        }
        let on = life.wait(Duration::from_millis(1));
        alive -= reap(if on { WaitPidFlag::WNOHANG } else { WaitPidFlag::empty() });
        if !on {
            break;
        }
    }
    say::line(format_args!("forks started {started} refused {refused} left {alive}"));
    Ok(())
}

fn child(size: usize, hold: Duration) -> Result<(), Errno> {
    // SAFETY: this process has one thread, so the child may go on as the parent could.
    match unsafe { fork() }? {
        ForkResult::Parent { .. } => Ok(()),
        ForkResult::Child => {
            let memory = Memory::filled(size, false);
            std::thread::sleep(hold);
            drop(memory);
            std::process::exit(0)
        }
    }
}

fn reap(flags: WaitPidFlag) -> u32 {
    let mut count = 0;
    while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) = waitpid(None, Some(flags)) {
        count += 1;
    }
    count
}
