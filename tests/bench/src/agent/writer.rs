//! A process that writes limits at a rate.

use anyhow::{Context, Result};
use clap::Args;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Writes come in bunches of this time.
const BUNCH: Duration = Duration::from_millis(10);

/// What it writes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Cgroups, in turn.
    #[arg(long, value_delimiter = ',')]
    cgroups: Vec<PathBuf>,
    /// What it writes into their memory.max.
    #[arg(long)]
    value: String,
    /// Writes a second; 0 is as many as it can.
    #[arg(long)]
    rate: u32,
    /// How long.
    #[arg(long)]
    seconds: u64,
}

/// Says how often it wrote.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut files = Vec::new();
    for cgroup in &options.cgroups {
        files.push(File::options().write(true).open(cgroup.join("memory.max")).context("open memory.max")?);
    }
    let span = Duration::from_secs(options.seconds);
    let (began, mut written) = (Instant::now(), 0_u64);
    for turn in 1.. {
        let wanted = match options.rate {
            0 => written + 100,
            rate => u64::from(rate) * turn / 100,
        };
        while written < wanted {
            let index = usize::try_from(written)? % files.len();
            files[index].write_all(options.value.as_bytes()).context("write memory.max")?;
            written += 1;
        }
        let now = began.elapsed();
        if now >= span {
            break;
        }
        if options.rate > 0 {
            // One that is late does not try to make up for it with more at once than it is late by.
            std::thread::sleep((BUNCH * u32::try_from(turn)?).saturating_sub(now));
        }
    }
    println!("{written}");
    Ok(())
}

/// A running writer.
pub(super) struct Writer(Child);

impl Writer {
    pub(super) fn start(cgroups: &[PathBuf], value: u64, rate: u32, seconds: u64) -> Result<Self> {
        let names: Vec<_> = cgroups.iter().map(|cgroup| cgroup.display().to_string()).collect();
        let child = Command::new(std::env::current_exe()?)
            .arg("write-limits")
            .arg(format!("--cgroups={}", names.join(",")))
            .arg(format!("--value={value}"))
            .arg(format!("--rate={rate}"))
            .arg(format!("--seconds={seconds}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a writer")?;
        Ok(Self(child))
    }

    /// Waits for its end. How often it wrote.
    pub(super) fn end(self) -> Result<u64> {
        let output = self.0.wait_with_output()?;
        anyhow::ensure!(output.status.success(), "a writer failed: {}", output.status);
        String::from_utf8(output.stdout)?.trim().parse().context("a writer says no number")
    }
}
