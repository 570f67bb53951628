//! The one job of this boot.

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Arguments of the job, each ended by a NUL byte; the first is the program.
const JOB: &str = "/job";
/// Is there where a person sits at the other end: the port then keeps its line discipline, with echo and signals.
const TERMINAL: &str = "/terminal";

/// Runs it with its output on `report` and collects orphans until it ends. Returns its exit status, 128 + n
/// where signal n ended it.
pub(crate) fn run(report: &str) -> Result<i32> {
    let words = fs::read(JOB).context("read /job")?;
    let mut words = words.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    let Some(program) = words.next() else { bail!("/job is empty") };
    let mut arguments: Vec<OsString> = words.collect();
    // What follows the last NUL.
    arguments.pop();
    let port = File::options().read(true).write(true).open(report).context("open the report port")?;
    if !Path::new(TERMINAL).exists() {
        let mut terminal = tcgetattr(&port)?;
        cfmakeraw(&mut terminal);
        tcsetattr(&port, SetArg::TCSANOW, &terminal)?;
    }
    let child = Command::new(&program)
        .args(arguments)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/tmp")
        .env("TERM", "dumb")
        .env("RUST_BACKTRACE", "1")
        .env("RUST_LIB_BACKTRACE", "0")
        .stdin(Stdio::from(port.try_clone()?))
        .stdout(Stdio::from(port.try_clone()?))
        .stderr(Stdio::from(port))
        .spawn()
        .with_context(|| format!("start {}", program.display()))?;
    let job = Pid::from_raw(i32::try_from(child.id())?);
    loop {
        match wait() {
            Ok(WaitStatus::Exited(pid, status)) if pid == job => return Ok(status),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == job => return Ok(128 + signal as i32),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => bail!("wait: {errno}"),
        }
    }
}
