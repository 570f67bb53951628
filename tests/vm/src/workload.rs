//! A running workload program.

use crate::scratch::Scratch;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// Where the guest has it.
pub const PROGRAM: &str = "/bin/enforcer-workload";

/// A process of the workload program; it ends when this is dropped.
#[derive(Debug)]
pub struct Workload {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Workload {
    /// Starts `line` (sub-command and options) in `cgroup` and waits until it says that it is ready. Panics
    /// where it does not.
    pub fn start(program: impl AsRef<Path>, cgroup: &Scratch, line: &str) -> Self {
        let mut workload = Self::launch(program, cgroup, line);
        let first = workload.line();
        assert!(first.starts_with("ready"), "workload {line:?} says {first:?}");
        workload
    }

    /// Starts the program in the guest's usual place.
    pub fn run(cgroup: &Scratch, line: &str) -> Self {
        Self::start(PROGRAM, cgroup, line)
    }

    /// Starts it and waits for nothing.
    pub fn launch(program: impl AsRef<Path>, cgroup: &Scratch, line: &str) -> Self {
        let program: PathBuf = program.as_ref().to_owned();
        let mut child = Command::new(&program)
            .args(line.split_whitespace())
            .arg("--cgroup")
            .arg(cgroup.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", program.display()));
        let stdout = child.stdout.take().expect("stdout is a pipe");
        Self { child, lines: BufReader::new(stdout) }
    }

    /// The next line that it prints; empty when it has ended.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("read the workload's output");
        line.trim_end().to_owned()
    }

    /// Hands it a line on its standard input.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is a pipe");
        writeln!(stdin, "{line}").expect("write to the workload");
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn alive(&mut self) -> bool {
        self.child.try_wait().expect("wait for the workload").is_none()
    }

    /// Closes its standard input, which ends it, and waits.
    pub fn finish(&mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().expect("wait for the workload")
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("wait for the workload")
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
