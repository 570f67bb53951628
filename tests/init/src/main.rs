//! Process 1 of the test VM: mounts what is needed, loads modules, runs one job, reports its exit status and
//! powers off.
//!
//! The job's output and status go to the second serial port, the kernel's log to the first.

mod job;
mod mounts;

use anyhow::{Context, Result};
use nix::sys::reboot::{RebootMode, reboot};
use std::fs::File;
use std::io::Write;

/// Where the job's output goes.
const REPORT: &str = "/dev/ttyS1";
/// Comes before the exit status, on a line of its own. No job prints it by accident.
const STATUS_MARK: &str = "\u{1}exit ";

fn main() {
    let status = match work() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("init: {error:#}");
            125
        }
    };
    if let Err(error) = report(status) {
        eprintln!("init: can't report: {error:#}");
    }
    // It returns only to say that it failed.
    let Err(errno) = reboot(RebootMode::RB_POWER_OFF);
    eprintln!("init: can't power off: {errno}");
}

fn work() -> Result<i32> {
    mounts::all()?;
    mounts::modules()?;
    mounts::disks()?;
    mounts::controllers()?;
    job::run(REPORT)
}

fn report(status: i32) -> Result<()> {
    let mut port = File::options().write(true).open(REPORT).context("open the report port")?;
    writeln!(port, "\n{STATUS_MARK}{status}")?;
    nix::sys::termios::tcdrain(&port).context("drain the report port")
}
