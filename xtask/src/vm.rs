//! One boot of a guest: an initramfs with our files, a job, its output and its exit status.

use crate::cpio::Archive;
use crate::kernels::Unpacked;
use crate::lines::{Lines, Next};
use crate::qemu::{Disk, Machine};
use crate::{cache, kmod, run};
use anyhow::{Context, Result, anyhow};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// What a job may print in all.
const OUTPUT_MAX: usize = 256 << 20;
/// Lines of the kernel's log that are shown where a guest dies.
const LOG_TAIL: usize = 40;
/// Disk with a file system, and disk to swap to.
const DATA_BYTES: u64 = 1 << 30;
const SWAP_BYTES: u64 = 512 << 20;
/// After so long nobody uses a scratch folder any more: it was left by a command that was killed.
const STALE: Duration = Duration::from_hours(24);
/// How often a guest is started whose emulator dies before the job prints anything.
const STARTS_MAX: usize = 3;

/// The emulator itself died, by a failed assertion of its own say (`iotlb_to_section` of QEMU 10.0.2
/// is one that was seen): that tells nothing about the guest.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct EmulatorDied(String);

/// SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
const FAULTS: [i32; 5] = [4, 6, 7, 8, 11];

/// Whether a process ended by a fault of its own, and not because somebody ended it.
fn crashed(status: ExitStatus) -> bool {
    status.signal().is_some_and(|signal| FAULTS.contains(&signal))
}

/// What a guest is made of.
pub(crate) struct Guest<'a> {
    pub(crate) kernel: &'a Unpacked,
    /// The static init program.
    pub(crate) init: &'a Path,
    /// Files of the host and where they go in the guest.
    pub(crate) files: Vec<(PathBuf, String)>,
    /// Program and arguments.
    pub(crate) job: Vec<String>,
    pub(crate) memory_mib: u32,
    pub(crate) time_out: Duration,
    /// The root file system of a guest with systemd; without it our init is all there is.
    pub(crate) debian: Option<PathBuf>,
    /// Further disks, after that one; what is written to them is gone after the boot.
    pub(crate) disks: Vec<PathBuf>,
    /// Count instructions instead of time: the guest's clock then runs one nanosecond an instruction.
    pub(crate) icount: bool,
}

/// How a boot ended.
pub(crate) struct Ended {
    /// The job's exit status; 128 + n for signal n.
    pub(crate) status: i32,
    /// Launch to power-off.
    pub(crate) took: Duration,
}

/// Files of one boot, gone after it.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Result<Self> {
        let folder = cache::folder("run")?;
        remove_stale(&folder);
        Ok(Self(tempfile::Builder::new().prefix("guest-").tempdir_in(folder)?))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Guest<'_> {
    /// Boots, hands every line that the job prints to `line`, and waits for power-off. Where the emulator dies before the
    /// first line it boots again.
    pub(crate) fn boot(&self, mut line: impl FnMut(&str)) -> Result<Ended> {
        let mut starts = 0;
        loop {
            let mut silent = true;
            let ended = self.boot_once(|text| {
                silent = false;
                line(text);
            });
            starts += 1;
            match ended {
                Err(error) if silent && starts < STARTS_MAX && error.is::<EmulatorDied>() => {
                    println!("{error}\n    starting the guest again");
                }
                ended => return ended,
            }
        }
    }

    fn boot_once(&self, mut line: impl FnMut(&str)) -> Result<Ended> {
        let scratch = Scratch::new()?;
        let mut qemu = self.prepare(&scratch, false)?;
        qemu.stdin(Stdio::null()).stdout(Stdio::piped());
        let began = Instant::now();
        let mut child = start(&mut qemu)?;
        let lines = Lines::of(child.stdout.take().context("qemu has no standard output")?);
        let mut printed = 0_usize;
        let mut stopped = None;
        loop {
            let rest = self.time_out.saturating_sub(began.elapsed());
            let why = match lines.next(if stopped.is_some() { Duration::MAX } else { rest }) {
                Next::Line(text) => {
                    printed = printed.saturating_add(text.len() + 1);
                    line(&text);
                    (printed > OUTPUT_MAX).then(|| format!("the job printed more than {OUTPUT_MAX} bytes"))
                }
                Next::Silence => Some(format!("the guest did not end within {} s", self.time_out.as_secs())),
                Next::End => break,
            };
            if stopped.is_none() && why.is_some() {
                // What it printed until now still comes, an unfinished line too.
                child.kill()?;
                stopped = why;
            }
        }
        self.ended(&scratch, child, began, stopped)
    }

    /// Boots with the caller's terminal (or whatever standard input and output are) as the guest's.
    pub(crate) fn boot_on_terminal(&self) -> Result<Ended> {
        let scratch = Scratch::new()?;
        let mut qemu = self.prepare(&scratch, true)?;
        let began = Instant::now();
        let child = start(&mut qemu)?;
        self.ended(&scratch, child, began, None)
    }

    fn ended(
        &self,
        scratch: &Scratch,
        mut child: Child,
        began: Instant,
        stopped: Option<String>,
    ) -> Result<Ended> {
        let qemu = child.wait()?;
        let took = began.elapsed();
        let status = std::fs::read_to_string(scratch.path("status")).unwrap_or_default();
        let died = stopped.is_none() && crashed(qemu);
        let why = match (stopped, status.trim().parse()) {
            (None, Ok(status)) => return Ok(Ended { status, took }),
            (Some(why), _) => why,
            (None, Err(_)) => format!("the guest ended without a report (qemu: {qemu})"),
        };
        let log = scratch.path("kernel.log");
        let kept = cache::folder("log")?.join(format!("{}.log", self.kernel.release));
        std::fs::copy(&log, &kept).with_context(|| format!("keep the guest's log as {}", kept.display()))?;
        let why = format!(
            "{why} (kernel {}); its log is {} and ends with:\n{}",
            self.kernel.release,
            kept.display(),
            tail(&String::from_utf8_lossy(&std::fs::read(&log)?))
        );
        Err(if died { EmulatorDied(why).into() } else { anyhow!(why) })
    }

    fn prepare(&self, scratch: &Scratch, terminal: bool) -> Result<Command> {
        let initramfs = scratch.path("initramfs");
        self.pack(&initramfs, terminal)?;
        let disk = scratch.path("disk");
        let swap = scratch.path("swap");
        File::create(&disk)?.set_len(DATA_BYTES)?;
        File::create(&swap)?.set_len(SWAP_BYTES)?;
        run::checked(Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4", "-F"]).arg(&disk))?;
        // A swap area is made here: the guest has no tools for it.
        run::output(Command::new("/sbin/mkswap").arg(&swap))?;
        let own = [&disk, &swap].map(|image| Disk { image, snapshot: false });
        let others = self.debian.iter().chain(&self.disks).map(|image| Disk { image, snapshot: true });
        let disks: Vec<_> = own.into_iter().chain(others).collect();
        let machine = Machine {
            kernel: self.kernel,
            initramfs: &initramfs,
            memory_mib: self.memory_mib,
            icount: self.icount,
            disks: &disks,
            log: &scratch.path("kernel.log"),
            status: &scratch.path("status"),
        };
        Ok(machine.command())
    }

    fn pack(&self, to: &Path, terminal: bool) -> Result<()> {
        let mut archive = Archive::new(BufWriter::new(File::create(to)?));
        archive.copy("/init", self.init)?;
        for (from, path) in &self.files {
            archive.copy(path, from)?;
        }
        for (index, module) in kmod::ordered(&self.kernel.modules, &kmod::WANTED)?.iter().enumerate() {
            archive.file(&format!("/modules/{index:03}.ko"), &kmod::content(module)?)?;
        }
        archive.link("/bin/sh", "busybox")?;
        let job: Vec<u8> = self.job.iter().flat_map(|word| word.bytes().chain([0])).collect();
        archive.file("/job", &job)?;
        if terminal {
            archive.file("/terminal", b"")?;
        }
        if self.debian.is_some() {
            // All that is to be on its disk as well, besides what lies in /bin.
            let others = self.files.iter().map(|(_, path)| path).filter(|path| !path.starts_with("/bin/"));
            let others: Vec<u8> = others.flat_map(|path| path.bytes().chain([0])).collect();
            archive.file("/debian", &others)?;
        }
        archive.finish()?.flush().context("write the initramfs")
    }
}

fn start(qemu: &mut Command) -> Result<Child> {
    qemu.spawn().context("start setpriv qemu-system-x86_64 (packages util-linux, qemu-system-x86)")
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n")
}

/// Removes what killed commands left behind; what can't be removed is the next one's.
fn remove_stale(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|data| data.modified());
        let age = changed.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age > STALE) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_died_of_itself() {
        let ended = |script| Command::new("sh").args(["-c", script]).status().expect("a shell");
        assert!(crashed(ended("kill -ABRT $$")) && crashed(ended("kill -SEGV $$")));
        assert!(
            !crashed(ended("exit 1")) && !crashed(ended("kill -KILL $$")) && !crashed(ended("kill -TERM $$"))
        );
    }

    #[test]
    fn the_end_of_a_log() {
        let log = (0..100).map(|number| number.to_string()).collect::<Vec<_>>().join("\n");
        let end = tail(&log);
        assert_eq!(end.lines().count(), LOG_TAIL);
        assert!(end.starts_with("60\n") && end.ends_with("\n99"), "{end}");
        assert_eq!(tail("one"), "one");
        assert_eq!(tail(""), "");
    }
}
