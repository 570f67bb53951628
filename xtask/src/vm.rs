//! One boot of a guest: an initramfs with our files, a job, its output and its exit status.

use crate::cpio::Archive;
use crate::kernels::Unpacked;
use crate::{cache, kmod, run};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Comes before the exit status on the report port; see tests/init.
const STATUS_MARK: &str = "\u{1}exit ";
/// The longest line of a job that is passed on whole.
const LINE_MAX: u64 = 1 << 20;

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

impl Guest<'_> {
    /// Boots, hands every line that the job prints to `line`, and waits for power-off.
    pub(crate) fn boot(&self, mut line: impl FnMut(&str)) -> Result<Ended> {
        let scratch = tempfile::Builder::new().prefix("guest-").tempdir_in(cache::folder("run")?)?;
        let initramfs = scratch.path().join("initramfs");
        self.pack(&initramfs)?;
        let disk = scratch.path().join("disk");
        let swap = scratch.path().join("swap");
        File::create(&disk)?.set_len(1 << 30)?;
        File::create(&swap)?.set_len(512 << 20)?;
        run::checked(Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4", "-F"]).arg(&disk))?;
        // A swap area is made here: the guest has no tools for it.
        run::output(Command::new("/sbin/mkswap").arg(&swap))?;
        let log = scratch.path().join("kernel.log");
        let began = Instant::now();
        let mut qemu = self.qemu(&initramfs, &disk, &swap, &log);
        let mut child = qemu.spawn().context("start qemu-system-x86_64")?;
        let stdout = child.stdout.take().context("qemu has no standard output")?;
        let (lines, queue) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || read_lines(stdout, &lines));
        let mut status = None;
        let result = loop {
            let rest = self.time_out.saturating_sub(began.elapsed());
            match queue.recv_timeout(rest) {
                Ok(text) => match text.strip_prefix(STATUS_MARK) {
                    Some(number) => status = number.trim().parse().ok(),
                    None => line(&text),
                },
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break Ok(()),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    break Err(format!("the guest did not end within {} s", self.time_out.as_secs()));
                }
            }
        };
        child.wait()?;
        drop(reader.join());
        match (result, status) {
            (Ok(()), Some(status)) => Ok(Ended { status, took: began.elapsed() }),
            (result, _) => {
                let why = result.err().unwrap_or_else(|| "the guest ended without a report".to_owned());
                bail!("{why} (kernel {}); the end of its log:\n{}", self.kernel.release, tail(&log))
            }
        }
    }

    fn pack(&self, to: &Path) -> Result<()> {
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
        archive.finish()?.flush().context("write the initramfs")
    }

    fn qemu(&self, initramfs: &Path, disk: &Path, swap: &Path, log: &Path) -> Command {
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-M", "q35", "-cpu", "max", "-display", "none", "-monitor", "none", "-no-reboot"]);
        if self.icount {
            qemu.args([
                "-smp",
                "1",
                "-accel",
                "tcg,thread=single,tb-size=256",
                "-icount",
                "shift=0,sleep=off",
            ]);
        } else {
            qemu.args(["-smp", "2", "-accel", "tcg,thread=multi,tb-size=256"]);
        }
        qemu.arg("-m").arg(self.memory_mib.to_string());
        qemu.arg("-serial").arg(format!("file:{}", log.display())).args(["-serial", "stdio"]);
        qemu.arg("-kernel").arg(&self.kernel.image).arg("-initrd").arg(initramfs);
        for drive in [disk, swap] {
            qemu.arg("-drive").arg(format!("file={},if=virtio,format=raw,cache=unsafe", drive.display()));
        }
        qemu.arg("-append").arg(
            "console=ttyS0 panic=-1 quiet nokaslr mitigations=off cgroup_no_v1=all psi=1 lsm=landlock,yama,bpf \
             audit=0 tsc=reliable net.ifnames=0 cryptomgr.notests \
             initcall_blacklist=jent_mod_init,load_system_certificate_list",
        );
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        qemu
    }
}

fn read_lines(from: impl std::io::Read, lines: &std::sync::mpsc::Sender<String>) {
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = std::io::Read::by_ref(&mut reader).take(LINE_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(length) if length > 0) {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        if lines.send(text.trim_end_matches(['\r', '\n']).to_owned()).is_err() {
            return;
        }
    }
}

fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
