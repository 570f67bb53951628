//! A running recorder, victims, and what was recorded.

use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::{PROGRAM, Workload};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

pub(super) const ENFORCER: &str = "/bin/enforcer";
/// A process that grows to this meets any limit of these tests.
pub(super) const GROW: &str = "anon --size 32Mi";

/// A folder for a store.
pub(super) fn store() -> TempDir {
    tempfile::Builder::new().prefix("oom-store").tempdir().expect("make a folder")
}

/// A cgroup with this limit and no swap.
pub(super) fn limited(name: &str, limit: &str) -> Scratch {
    let cgroup = Scratch::new(name);
    limit_to(&cgroup, limit);
    cgroup
}

pub(super) fn limit_to(cgroup: &Scratch, limit: &str) {
    cgroup.write("memory.max", limit);
    cgroup.write_if_there("memory.swap.max", "0");
}

/// Lets a process grow in the cgroup until it is killed; its id.
pub(super) fn fall(cgroup: &Scratch) -> u32 {
    let mut workload = Workload::launch(PROGRAM, cgroup, GROW);
    let pid = workload.pid();
    assert_eq!(workload.wait().signal(), Some(9), "killed");
    pid
}

/// `enforcer oom record`, killed when it is dropped.
pub(super) struct Recording {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Recording {
    /// Starts it and waits until it records.
    pub(super) fn start(store: &Path) -> Self {
        Self::with(store, &[])
    }

    pub(super) fn with(store: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(ENFORCER)
            .args(["oom", "record", "--json", "--store"])
            .arg(store)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the recorder");
        let lines = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut recording = Self { child, lines };
        let first = recording.line().expect("it says that it began");
        assert!(first["began"]["boot_id"].is_string(), "{first}");
        recording
    }

    /// The next thing that it tells; `None` when it has ended.
    pub(super) fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("read what the recorder says");
        (!line.is_empty()).then(|| json(&line))
    }

    /// The next OOM for which this cgroup's limit was hit.
    pub(super) fn oom_of(&mut self, cgroup: &Scratch) -> Value {
        let id = cgroup.id();
        loop {
            let line = self.line().expect("the recorder goes on");
            if line["oom"]["owner"]["id"] == id {
                return line["oom"].clone();
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")), signal)
            .expect("signal the recorder");
    }

    /// Ends it as Ctrl-C does; what it still told.
    pub(super) fn stop(mut self) -> Vec<Value> {
        self.signal(Signal::SIGINT);
        let rest = std::iter::from_fn(|| self.line()).collect();
        let status = self.child.wait().expect("wait for the recorder");
        assert!(status.success(), "it ends cleanly: {status}");
        rest
    }

    /// `kill -9`.
    pub(super) fn kill(mut self) {
        self.child.kill().expect("kill the recorder");
        self.child.wait().expect("wait for the recorder");
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(super) fn json(line: &str) -> Value {
    assert!(line.is_ascii(), "{line:?}");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// What `enforcer oom` with these arguments prints.
pub(super) fn shown<I: IntoIterator<Item: AsRef<OsStr>>>(store: &Path, arguments: I) -> String {
    let output = Command::new(ENFORCER)
        .arg("oom")
        .arg("--store")
        .arg(store)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("enforcer starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).expect("output is text")
}

/// Everything in the store.
pub(super) fn stored(store: &Path) -> Vec<Value> {
    shown(store, ["--json"]).lines().map(json).collect()
}

/// The OOMs in the store.
pub(super) fn ooms(store: &Path) -> Vec<Value> {
    stored(store).into_iter().filter_map(|mut line| line.get_mut("oom").map(Value::take)).collect()
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

pub(super) fn victims(oom: &Value) -> Vec<u64> {
    let victims = oom["victims"].as_array().expect("a list");
    victims.iter().map(|victim| number(&victim["pid"])).collect()
}

/// What is said of a cgroup.
pub(super) fn cgroup(oom: &Value, id: u64) -> &Value {
    let cgroups = oom["cgroups"].as_array().expect("a list");
    cgroups.iter().find(|cgroup| cgroup["id"] == id).unwrap_or_else(|| panic!("{id} is not told: {oom}"))
}
