//! `enforcer guard` as a person runs it.

use super::{BUSY, MIB, Tenant, write};
use crate::process::full_pipe;
use enforcer::guard::Found;
use enforcer_vm_tests::scratch::{MOUNT, Scratch};
use enforcer_vm_tests::workload::Workload;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(super) const ENFORCER: &str = "/bin/enforcer";

/// `enforcer guard` in a process of its own.
pub(super) struct Standing {
    pub(super) child: Child,
    lines: BufReader<ChildStdout>,
    first: String,
}

impl Standing {
    /// Starts it and waits until it is armed.
    pub(super) fn start<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> Self {
        let mut child = Command::new(ENFORCER)
            .arg("guard")
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start enforcer guard");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut standing = Self { child, lines, first: String::new() };
        standing.first = standing.line();
        assert!(standing.first.contains("armed"), "{:?}", standing.first);
        standing
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("read a line");
        line
    }

    pub(super) fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        kill(pid, signal).expect("send a signal");
    }

    /// Waits for its end; what it still said, and its exit code.
    pub(super) fn end(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        while self.lines.read_line(&mut rest).expect("read a line") > 0 {}
        (rest, self.child.wait().expect("wait for it").code())
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(super) fn enforcer<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> Output {
    Command::new(ENFORCER).args(args).stdin(Stdio::null()).output().expect("start enforcer")
}

fn status() -> (Value, Option<i32>) {
    let output = enforcer(["guard", "status", "--json"]);
    let text = String::from_utf8(output.stdout).expect("text");
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    (value, output.status.code())
}

pub(super) fn path(cgroup: &Scratch) -> &OsStr {
    cgroup.path().as_os_str()
}

pub(super) fn lines() {
    let tenant = Tenant::new("lines\t\u{1b}[2J");
    let cgroup = &tenant.cgroup;
    let mut standing = Standing::start([OsStr::new("--mode=enforce"), path(cgroup)]);
    assert_eq!(write(cgroup, "memory.max", b"16M\n"), BUSY);
    let line = standing.line();
    for part in [
        "denied: ",
        "lines\\t\\u{1b}[2J memory.max 64Mi -> 16Mi, ",
        "no lease (it must stay 1Mi above",
        " by ",
    ] {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
    standing.signal(Signal::SIGINT);
    let (rest, code) = standing.end();
    assert_eq!((rest.as_str(), code), ("", Some(0)));
    assert_eq!(write(cgroup, "memory.max", b"48M"), Ok(()));
}

pub(super) fn killed() {
    let tenant = Tenant::new("killed");
    let cgroup = &tenant.cgroup;
    let mut standing = Standing::start([
        OsStr::new("--mode=enforce"),
        OsStr::new("--margin=24Mi"),
        OsStr::new("--json"),
        path(cgroup),
    ]);
    assert_eq!(write(cgroup, "memory.max", b"32M"), BUSY);
    let judged = standing.json();
    assert_eq!((&judged["verdict"], &judged["reason"]), (&"denied".into(), &"no lease".into()), "{judged}");
    assert_eq!(
        (&judged["writer"]["pid"], &judged["text"]),
        (&std::process::id().into(), &"32M".into()),
        "{judged}"
    );
    standing.signal(Signal::SIGKILL);
    let (_, code) = standing.end();
    assert_eq!(code, None, "killed");
    assert!(Found::all().expect("list them").is_empty(), "nothing is pinned");
    assert_eq!(write(cgroup, "memory.max", b"32M"), Ok(()), "it fails open");
}

pub(super) fn stopped() {
    let tenant = Tenant::new("stopped");
    let cgroup = &tenant.cgroup;
    let standing = Standing::start([OsStr::new("--mode=enforce"), OsStr::new("--margin=24Mi"), path(cgroup)]);
    standing.signal(Signal::SIGSTOP);
    let began = std::time::Instant::now();
    while Found::all().expect("list them").iter().any(Found::is_armed) {
        assert!(began.elapsed().as_secs() < 60, "it does not become stale");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (report, code) = status();
    assert_eq!((&report["armed"], code), (&false.into(), Some(1)), "{report}");
    assert_eq!(write(cgroup, "memory.max", b"32M"), Ok(()), "a daemon that hangs is in nobody's way");
    standing.signal(Signal::SIGCONT);
}

/// Loading the programs takes its time, and whoever stops it meanwhile does not wait for that.
pub(super) fn stopped_while_loading() {
    let tenant = Tenant::new("loading");
    let mut child = Command::new(ENFORCER)
        .args(["guard", "--mode=enforce", "--no-store"])
        .arg(path(&tenant.cgroup))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start enforcer guard");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("loading")), "it says so");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.signal(), output.stdout.as_slice()), (Some(15), &b""[..]), "it was not armed");
    assert!(Found::all().expect("list them").is_empty(), "nothing is left");
}

/// It stays armed although nobody reads what it prints, and ends when it is told to.
pub(super) fn unread() {
    let tenant = Tenant::new("unread");
    let cgroup = &tenant.cgroup;
    let (_reader, full) = full_pipe();
    let mut child = Command::new(ENFORCER)
        .args(["guard", "--mode=enforce", "--margin=24Mi"])
        .arg(path(cgroup))
        .stdout(full.try_clone().expect("one more"))
        .stderr(full)
        .spawn()
        .expect("start enforcer guard");
    let armed = || Found::all().expect("list them").iter().any(Found::is_armed);
    let mut began = Instant::now();
    while !armed() {
        assert!(began.elapsed() < Duration::from_mins(2), "it does not stand");
        std::thread::yield_now();
    }
    // Longer than it takes to become stale.
    began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        assert_eq!(write(cgroup, "memory.max", b"32M"), BUSY);
        assert!(armed());
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    while child.try_wait().expect("is ours").is_none() {
        assert!(began.elapsed() < Duration::from_mins(1), "{:?}", child.kill());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(child.wait().expect("it ended").code(), Some(1), "lines were lost");
}

/// A limit above kills inside all the same.
pub(super) fn unguarded_above() {
    let pod = Scratch::new("above");
    let container = pod.child("container");
    let name = pod.path().file_name().and_then(OsStr::to_str).expect("a name");
    let (pod_alone, below) = (path(&pod), OsStr::new("--all-below"));
    let inside = path(&container);
    for (words, unguarded) in [
        (&[inside][..], vec![name]),
        (&[below, pod_alone][..], vec![name]),
        (&[inside, pod_alone][..], vec![]),
        (&[pod_alone][..], vec![]),
        (&[inside, below, OsStr::new(MOUNT)][..], vec![]),
    ] {
        let standing = Standing::start(words.iter().copied().chain([OsStr::new("--json")]));
        let armed: Value = serde_json::from_str(&standing.first).expect("is JSON");
        assert_eq!(armed["unguarded_above"], serde_json::json!(unguarded), "{words:?}");
    }
}

pub(super) fn shown() {
    let (report, code) = status();
    assert_eq!(
        (&report["armed"], code, report["guards"].as_array().map(Vec::len)),
        (&false.into(), Some(1), Some(0))
    );
    let tenant = Tenant::new("shown");
    let pods = Scratch::new("pods");
    let standing = Standing::start([
        OsStr::new("--mode=enforce"),
        OsStr::new("--margin=24Mi"),
        OsStr::new("--files=memory.max,memory.high"),
        path(&tenant.cgroup),
        OsStr::new("--all-below"),
        path(&pods),
    ]);
    assert_eq!(write(&tenant.cgroup, "memory.max", b"32M"), BUSY);
    let (report, code) = status();
    assert_eq!((&report["armed"], code), (&true.into(), Some(0)), "{report}");
    let guard = &report["guards"][0];
    assert_eq!((&guard["attached"], &guard["pid"]), (&true.into(), &standing.child.id().into()), "{report}");
    assert!(guard["beat_age"].as_u64().expect("a number") < 5_000_000, "{report}");
    let guarded = guard["guarded"].as_array().expect("a list");
    let of = |cgroup: &Scratch| {
        let found = guarded.iter().find(|entry| entry["cgroup_id"] == cgroup.id());
        found.unwrap_or_else(|| panic!("{report} has no {}", cgroup.id()))
    };
    let tenants = of(&tenant.cgroup);
    assert_eq!(tenants["cgroup"].as_str(), tenant.cgroup.path().to_str());
    assert_eq!(
        (&tenants["mode"], &tenants["margin"], &tenants["own"], &tenants["below"]),
        (&"enforce".into(), &(24 * MIB).into(), &true.into(), &false.into())
    );
    assert_eq!(tenants["files"], serde_json::json!(["memory.max", "memory.high"]));
    assert_eq!((&of(&pods)["own"], &of(&pods)["below"]), (&false.into(), &true.into()));
    let denied = serde_json::json!({"verdict": "denied", "reason": "no lease", "writes": 1});
    assert!(guard["counts"].as_array().expect("a list").contains(&denied), "{report}");
    let text = enforcer(["guard", "status"]);
    let text = String::from_utf8(text.stdout).expect("text");
    for part in ["armed, last beat ", "enforce  all below ", "memory.max, memory.high", "1 denied: no lease"]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// A shrink by enforcer tells the guard first; the same limit by anybody else is refused.
pub(super) fn own_shrink() {
    let cgroup = Scratch::new("own");
    cgroup.write_if_there("memory.swap.max", "0");
    cgroup.write("memory.max", "64M");
    let _workload = Workload::run(&cgroup, "anon --size 12Mi");
    // No limit at all leaves such a margin.
    let args = ["--mode=enforce", "--margin=1Gi", "--files=memory.max,memory.high"].map(OsStr::new);
    let mut standing = Standing::start(args.into_iter().chain([OsStr::new("--json"), path(&cgroup)]));
    assert_eq!(write(&cgroup, "memory.max", b"40M"), BUSY);
    assert_eq!(standing.json()["verdict"], "denied");
    let args = ["shrink", "--to=40Mi", "--observe=500ms", "--window=500ms", "--watch=500ms"].map(OsStr::new);
    let output = enforcer(args.into_iter().chain([path(&cgroup)]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        (cgroup.limit("memory.max"), cgroup.limit("memory.high")),
        ((40 * MIB).to_string(), "max".into())
    );
    let mut leased = Vec::new();
    while leased.len() < 2 {
        let judged = standing.json();
        // Where limits can't be set without blocking (before 6.16), enforcer's own write ends on a page that is not
        // there yet, and the guard goes by the lease alone.
        let reason = judged["reason"].as_str().expect("text");
        assert!(reason == "leased" || reason == "value unavailable, leased", "{judged}");
        assert_eq!(judged["verdict"], "allowed", "{judged}");
        leased.push(judged["file"].as_str().expect("text").to_owned());
    }
    assert_eq!(leased, ["memory.high", "memory.max"], "the brake, then the limit");
    assert_eq!(write(&cgroup, "memory.max", b"40M"), Ok(()), "equal");
    assert_eq!(write(&cgroup, "memory.max", b"39M"), BUSY, "the lease is over");
}

/// A cgroup may be named for itself and for what is below; one that goes is told, and guarded when it is back.
pub(super) fn named_twice() {
    let pod = Scratch::new("twice");
    let container = pod.child("container");
    pod.write("memory.max", "64M");
    pod.write_if_there("memory.swap.max", "0");
    let workload = Workload::run(&container, "anon --size 24Mi");
    let mut standing = Standing::start([
        OsStr::new("--mode=enforce"),
        OsStr::new("--json"),
        path(&pod),
        OsStr::new("--all-below"),
        path(&pod),
    ]);
    for cgroup in [&pod, &container] {
        assert_eq!(write(cgroup, "memory.max", b"16M"), BUSY);
        assert_eq!(standing.json()["cgroup_id"], cgroup.id());
    }
    let (id, folder) = (pod.id(), pod.path().to_owned());
    drop((workload, container, pod));
    let gone = standing.json();
    assert_eq!(gone["cgroup_id"], id, "{gone}");
    std::fs::create_dir(&folder).expect("make it anew");
    let back = standing.json();
    let again = std::fs::metadata(&folder).expect("it is there").ino();
    assert_eq!((&back["cgroup_id"], back["back"].as_str()), (&again.into(), gone["gone"].as_str()), "{back}");
    let (report, _) = status();
    assert_eq!(report["guards"][0]["guarded"][0]["cgroup_id"], again, "{report}");
    standing.signal(Signal::SIGINT);
    std::fs::remove_dir(&folder).expect("it is empty");
    assert_eq!(standing.end().1, Some(0));
}

pub(super) fn whole_node() {
    let standing = Standing::start(["--mode=enforce", "--all-below", MOUNT].map(OsStr::new));
    let tenant = Tenant::new("anywhere");
    assert_eq!(write(&tenant.cgroup, "memory.max", b"16M"), BUSY);
    standing.signal(Signal::SIGTERM);
    assert_eq!(standing.end().1, Some(0));
}
