//! The one process of a container.

use crate::workload::PROGRAM;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Nothing to speak of.
    Sleeps,
    /// It holds so many MiB of anonymous memory.
    Holds(u32),
}

/// It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Starts it in a cgroup, and waits until it holds what it is to hold.
    pub(super) fn start(cgroup: &Path, program: Program) -> Self {
        let mut command = match program {
            Program::Sleeps => {
                let mut command = Command::new("/bin/busybox");
                command.args(["sleep", "1000000"]).stdin(Stdio::null()).stdout(Stdio::null());
                command
            }
            Program::Holds(mib) => {
                let mut command = Command::new(PROGRAM);
                command.arg("anon").arg("--size").arg(format!("{mib}Mi"));
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                command
            }
        };
        let procs = cgroup.join("cgroup.procs");
        let mut procs = File::options().write(true).open(procs).expect("open cgroup.procs");
        // SAFETY: between fork and exec it makes one system call, on a descriptor that is open, and allocates nothing.
        unsafe { command.pre_exec(move || procs.write_all(b"0")) };
        let mut child = command.spawn().expect("start a container's process");
        if let Some(out) = child.stdout.as_mut() {
            let mut line = String::new();
            BufReader::new(out).read_line(&mut line).expect("read a line");
            assert!(line.starts_with("ready"), "{line:?}");
        }
        Self(child)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
