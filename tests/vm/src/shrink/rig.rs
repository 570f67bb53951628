//! A cgroup, the command at work on it, and what came of it.

use enforcer_vm_tests::processes::child_of;
use enforcer_vm_tests::scratch::Scratch;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::cell::Cell;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use tempfile::TempDir;

pub(super) const MIB: u64 = 1 << 20;
/// What a rig's cgroup has as its limits; `memory.high` is set so that a restore to `max` shows.
pub(super) const MAX: u64 = 64 * MIB;
pub(super) const HIGH: u64 = 60 * MIB;
const ENFORCER: &str = "/bin/enforcer";

/// How long the states of a shrink are.
#[derive(Clone, Copy)]
pub(super) struct Spans {
    pub(super) observe: &'static str,
    pub(super) trial: &'static str,
    pub(super) watch: &'static str,
}

/// Short, for workloads that do not change or have a period of less.
pub(super) const QUICK: Spans = Spans { observe: "500ms", trial: "1s", watch: "500ms" };
/// The budget of stall, as much wider than a node's as emulation is slower.
const BUDGET: &str = "--budget=3s";

/// A cgroup with limits, and a folder for journals and traces.
pub(super) struct Rig {
    pub(super) group: Scratch,
    folder: TempDir,
    traces: Cell<u32>,
}

impl Rig {
    /// `memory.max` is [`MAX`], `memory.high` is [`HIGH`], and there is no swap.
    pub(super) fn new(name: &str) -> Self {
        let group = Scratch::new(name);
        limit(&group);
        Self::around(group)
    }

    pub(super) fn around(group: Scratch) -> Self {
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        Self { group, folder, traces: Cell::new(0) }
    }

    fn command(&self, cgroup: &Path, to: &str, spans: Spans) -> (Command, PathBuf) {
        let number = self.traces.replace(self.traces.get() + 1);
        let trace = self.folder.path().join(format!("trace-{number}"));
        let mut command = Command::new(ENFORCER);
        command.arg("shrink").arg(cgroup).args(["--to", to, BUDGET]);
        command.args(["--observe", spans.observe, "--window", spans.trial, "--watch", spans.watch]);
        command.arg("--trace").arg(&trace).arg("--state-dir").arg(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        (command, trace)
    }

    /// The whole command on the rig's cgroup, answered in JSON.
    pub(super) fn shrink(&self, to: &str, spans: Spans, more: &[&str]) -> Ended {
        self.shrink_at(self.group.path(), to, spans, more)
    }

    /// The whole command on another cgroup.
    pub(super) fn shrink_at(&self, cgroup: &Path, to: &str, spans: Spans, more: &[&str]) -> Ended {
        let (mut command, trace) = self.command(cgroup, to, spans);
        let output = command.arg("--json").args(more).output().expect("enforcer starts");
        Ended::new(&output, trace)
    }

    /// The command on its way, which tells of its states.
    pub(super) fn start(&self, to: &str, spans: Spans) -> Running {
        let (mut command, trace) = self.command(self.group.path(), to, spans);
        let mut child = command.spawn().expect("enforcer starts");
        let lines = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        Running { child, lines, said: String::new(), trace }
    }

    /// Where its journals live.
    pub(super) fn state_dir(&self) -> &Path {
        self.folder.path()
    }

    /// `enforcer recover`.
    pub(super) fn recover(&self) -> (Option<i32>, Value) {
        let mut command = Command::new(ENFORCER);
        command.args(["recover", "--json", "--state-dir"]).arg(self.folder.path());
        let output = command.stdin(Stdio::null()).output().expect("enforcer starts");
        (output.status.code(), parsed(&output.stdout)["runs"].take())
    }

    /// Fails unless nothing is left to settle.
    pub(super) fn assert_settled(&self) {
        assert_eq!(self.recover(), (Some(0), Value::Array(Vec::new())));
    }

    pub(super) fn limits(&self) -> (String, String) {
        (self.group.limit("memory.max"), self.group.limit("memory.high"))
    }

    /// Waits until `memory.high` is lower than found: a trial is told of before its brake is written.
    pub(super) fn await_brake(&self) {
        while self.limits().1 == HIGH.to_string() {
            std::thread::yield_now();
        }
    }

    /// Fails unless both limits are as they were found and nobody died.
    pub(super) fn assert_as_found(&self) {
        self.assert_unharmed(MAX);
    }

    /// Waits until both limits are as they were found: nothing tells when the restorer has put them back for a command that
    /// lives on.
    pub(super) fn becomes_as_found(&self) {
        let began = std::time::Instant::now();
        while self.limits() != (MAX.to_string(), HIGH.to_string()) {
            assert!(began.elapsed() < std::time::Duration::from_mins(1), "{:?}", self.limits());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        self.assert_as_found();
    }

    /// Fails unless `memory.max` is `max`, `memory.high` as found, and nobody died.
    pub(super) fn assert_unharmed(&self, max: u64) {
        assert_eq!(self.limits(), (max.to_string(), HIGH.to_string()));
        self.assert_alive();
    }

    /// Fails if anybody was killed.
    pub(super) fn assert_alive(&self) {
        assert_eq!(self.group.kills(), 0);
        assert_eq!(self.group.counter("memory.events", "oom_kill"), 0);
    }
}

/// Gives a cgroup the limits of a rig.
pub(super) fn limit(group: &Scratch) {
    group.write("memory.max", &MAX.to_string());
    group.write("memory.high", &HIGH.to_string());
    group.write_if_there("memory.swap.max", "0");
}

/// A shrink on its way.
pub(super) struct Running {
    child: Child,
    lines: BufReader<ChildStderr>,
    said: String,
    trace: PathBuf,
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says that it is in `state`.
    pub(super) fn reach(&mut self, state: &str) {
        loop {
            let from = self.said.len();
            let read = self.lines.read_line(&mut self.said).expect("it says something");
            assert!(read > 0, "it ended before {state}: {}", self.said);
            if self.said[from..].split_once("] ").is_some_and(|(_, line)| line.starts_with(state)) {
                return;
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
    }

    /// Stops it where it is, until [`Self::carry_on`]. One that has ended stays so.
    pub(super) fn hold(&self) {
        self.signal(Signal::SIGSTOP);
        // The signal is taken when a thread next returns to user space.
        let status = format!("/proc/{}/status", self.child.id());
        let is_still = |said: &str| ["State:\tT", "State:\tZ"].iter().any(|state| said.contains(state));
        while !is_still(&fs::read_to_string(&status).expect("it is not waited for")) {
            std::thread::yield_now();
        }
    }

    pub(super) fn carry_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Its restorer: the one child that it has.
    pub(super) fn restorer(&self) -> u32 {
        child_of(self.child.id()).expect("it has a restorer")
    }

    /// Whether it still runs.
    pub(super) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("wait for it").is_none()
    }

    /// SIGKILL, and waits until it is dead.
    pub(super) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Waits for its end.
    pub(super) fn end(mut self) -> Ended {
        self.lines.read_to_string(&mut self.said).expect("it says something");
        let mut out = Vec::new();
        self.child.stdout.take().expect("stdout is a pipe").read_to_end(&mut out).expect("it answers");
        let code = self.child.wait().expect("it ends").code();
        let text = format!("{}{}", self.said, String::from_utf8_lossy(&out));
        let certificate = replayed(&self.trace)["certificate"].clone();
        Ended { code, text, certificate, trace: self.trace.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failed assertion only: it has ended else.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How a shrink ended.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    /// Everything that it printed.
    pub(super) text: String,
    /// Null where there is none.
    pub(super) certificate: Value,
    trace: PathBuf,
}

impl Ended {
    fn new(output: &Output, trace: PathBuf) -> Self {
        let text = [&output.stderr[..], &output.stdout].map(String::from_utf8_lossy).concat();
        let code = output.status.code();
        if output.stdout.is_empty() {
            return Self { code, text, certificate: Value::Null, trace };
        }
        let certificate = parsed(&output.stdout)["certificate"].clone();
        assert_eq!(certificate, replayed(&trace)["certificate"], "the trace tells something else");
        Self { code, text, certificate, trace }
    }

    /// Fails unless it ended so; `reason` is part of the reason's JSON.
    pub(super) fn assert(&self, code: i32, verdict: &str, reason: &str) {
        let Self { text, certificate, .. } = self;
        assert_eq!((self.code, certificate["verdict"].as_str()), (Some(code), Some(verdict)), "{text}");
        let found = certificate["reason"].to_string();
        assert!(found.contains(reason), "{found} is not {reason}: {text}");
    }

    pub(super) fn assert_committed(&self) {
        self.assert(0, "committed", "");
    }

    pub(super) fn safe_minimum(&self) -> u64 {
        number(&self.certificate["safe_minimum"])
    }

    /// A term of the highest floor.
    pub(super) fn term(&self, name: &str) -> u64 {
        number(&self.certificate["peak"]["floor"]["terms"][name])
    }

    pub(super) fn passed(&self, state: &str) -> bool {
        self.certificate["states"]
            .as_array()
            .is_some_and(|states| states.iter().any(|time| time["state"] == state))
    }

    pub(super) fn notes(&self) -> String {
        self.certificate["notes"].to_string()
    }

    /// The entries of its trace.
    pub(super) fn trace(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.trace).expect("a trace");
        text.lines().skip(1).map(|line| parsed(line.as_bytes())).collect()
    }
}

/// What the same gate says of a trace. Its commands must be those that were carried out.
fn replayed(trace: &Path) -> Value {
    let output = Command::new(ENFORCER).arg("replay").arg(trace).arg("--json").output().expect("starts");
    let report = parsed(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report}");
    report
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text)
        .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(text)))
}
