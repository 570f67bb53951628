//! A workload that a test leads step by step.

use super::files;
use crate::args::{Args, size};
use crate::life::Life;
use crate::memory::Memory;
use crate::say;
use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{self, BufRead};
use std::path::PathBuf;

/// Most mappings kept at a time.
const MAPPINGS_MAX: usize = 4096;

/// Does what each line of standard input says and answers `ok <bytes held>` or `error <why>`. Ends with
/// standard input.
pub(crate) fn run(mut args: Args, _life: Life) -> Result<()> {
    let file = args.text("file")?.map(PathBuf::from);
    args.finish()?;
    let mut held: Vec<Memory> = Vec::new();
    say::ready(0);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let done = step(&mut held, file.as_ref(), words.next().unwrap_or(""), words.next().and_then(size));
        match done {
            Ok(()) => say::line(format_args!("ok {}", held.iter().map(Memory::touched).sum::<usize>())),
            Err(error) => say::line(format_args!("error {error:#}")),
        }
    }
    Ok(())
}

fn step(held: &mut Vec<Memory>, file: Option<&PathBuf>, verb: &str, bytes: Option<usize>) -> Result<()> {
    match (verb, bytes, file) {
        ("grow" | "lock", Some(bytes), _) => {
            anyhow::ensure!(held.len() < MAPPINGS_MAX, "too many steps");
            let mut memory = Memory::filled(bytes, false)?;
            if verb == "lock" {
                memory.lock()?;
            }
            held.push(memory);
        }
        ("cache", Some(bytes), Some(file)) => {
            files::read(&mut files::clean(file, bytes)?, bytes)?;
        }
        ("kill", Some(pid), _) => kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?,
        ("free", None, _) => held.clear(),
        ("touch", None, _) => held.iter_mut().for_each(Memory::rewrite),
        ("report", None, _) => {}
        _ => anyhow::bail!("want grow S, lock S, cache S (with --file), kill PID, free, touch or report"),
    }
    Ok(())
}
