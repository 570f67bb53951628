//! Many threads, each with memory of its own.

use crate::args::Args;
use crate::life::Life;
use crate::memory::Memory;
use crate::say;
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// Keeps `--n` threads busy with `--size` bytes each.
pub(crate) fn run(mut args: Args, mut life: Life) -> Result<()> {
    let count = args.number("n")?.unwrap_or(4) as usize;
    let size = args.needed_size("size")?;
    let period = args.span("period")?.unwrap_or(Duration::from_millis(100));
    args.finish()?;
    let over = Arc::new(AtomicBool::new(false));
    let touched = Arc::new(Barrier::new(count + 1));
    let mut threads = Vec::new();
    for _ in 0..count {
        let mut memory = Memory::reserve(size, false)?;
        let (over, touched) = (Arc::clone(&over), Arc::clone(&touched));
        let body = move || {
            memory.grow_to(size);
            touched.wait();
            while !over.load(Ordering::Relaxed) {
                memory.rewrite();
                thread::sleep(period);
            }
        };
        threads.push(thread::Builder::new().stack_size(64 * 1024).spawn(body).context("starting a thread")?);
    }
    touched.wait();
    say::ready(count * size);
    life.rest();
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        // A thread of ours does not panic; if one did, its message is on standard error.
        let _ = thread.join();
    }
    Ok(())
}
