//! Process 1 of the test VM: mounts what is needed, loads modules, runs one job, reports its exit status and
//! powers off. In a Debian guest it hands over to systemd, which starts it again as the unit that does the rest.
//!
//! The kernel's log goes to the first serial port, the job's output to the second, its exit status to the third.

mod debian;
mod job;
mod mounts;

use anyhow::{Context, Result};
use nix::sys::reboot::{RebootMode, reboot};
use std::fs::File;
use std::io::Write;

/// Where the job's output goes.
const OUTPUT: &str = "/dev/ttyS1";
/// Where its exit status goes.
const STATUS: &str = "/dev/ttyS2";

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
    if std::env::args().nth(1).is_some_and(|word| word == debian::RUN_JOB) {
        return job::run(OUTPUT);
    }
    mounts::all()?;
    mounts::modules()?;
    mounts::disks()?;
    if debian::is_wanted() {
        match debian::hand_over()? {}
    }
    mounts::controllers()?;
    mounts::loopback();
    job::run(OUTPUT)
}

fn report(status: i32) -> Result<()> {
    let output = File::options().write(true).open(OUTPUT).context("open the output port")?;
    nix::sys::termios::tcdrain(&output).context("drain the output port")?;
    let mut port = File::options().write(true).open(STATUS).context("open the status port")?;
    writeln!(port, "{status}")?;
    nix::sys::termios::tcdrain(&port).context("drain the status port")
}
