//! What those who set limits on a node make of EBUSY, and that nobody dies of what they keep in mind.

use super::command::Standing;
use crate::debian::{Container, Job, Scope, kills, output, read, run};
use enforcer_vm_tests::scratch::MOUNT;
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Output;

const BEFORE: &str = "134217728";
/// Under what the job has in use.
const DEADLY: &str = "16777216";
const JOB: Job = Job::Anon(24);

/// With what is below: crun sets limits there as well.
fn guard(cgroup: &Path) -> Standing {
    let path = cgroup.as_os_str();
    Standing::start([
        OsStr::new("--mode=enforce"),
        OsStr::new("--json"),
        path,
        OsStr::new("--all-below"),
        path,
    ])
}

/// The guard goes without a word, and all that systemd has in mind is applied.
fn assert_nobody_dies_without(guard: Standing, cgroup: &Path) {
    guard.signal(Signal::SIGKILL);
    assert_eq!(guard.end().1, None, "killed");
    run("systemctl", ["daemon-reload"]);
    let unit = cgroup.file_name().and_then(OsStr::to_str).expect("a plain name");
    if matches!(unit.rsplit_once('.'), Some((_, "scope" | "slice"))) {
        run("systemctl", ["set-property", "--runtime", unit, "CPUWeight=70"]);
    }
    assert_eq!((read(cgroup, "memory.max").as_str(), kills(cgroup).as_str()), (BEFORE, "0"));
}

fn property(unit: &str) -> String {
    let output = output("systemctl", ["show", unit, "--property=MemoryMax", "--value"]);
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Waits until systemd was made to hold what is in force.
fn await_kept(guard: &mut Standing) {
    let mut line = guard.json();
    while line["verdict"] == "denied" {
        line = guard.json();
    }
    assert_eq!((&line["event"], &line["value"]), (&"kept".into(), &BEFORE.into()), "{line}");
}

/// systemd writes a warning to its journal, says that all is well, and keeps the refused value; the guard has it keep
/// what is in force.
fn systemd(unit: &str, cgroup: &Path, words: &[&str]) {
    let mut guard = guard(cgroup);
    let args = ["set-property"].iter().chain(words).copied().chain([unit, "MemoryMax=16M"]);
    let said = output("systemctl", args);
    assert_eq!(
        (said.status.code(), said.stdout.as_slice(), said.stderr.as_slice()),
        (Some(0), &b""[..], &b""[..])
    );
    let denied = guard.json();
    assert_eq!((&denied["verdict"], &denied["writer"]["pid"]), (&"denied".into(), &1.into()), "{denied}");
    await_kept(&mut guard);
    assert_eq!(property(unit), BEFORE);
    let journal = output("journalctl", ["--boot", "--quiet", "--grep=memory.max"]);
    let journal = String::from_utf8_lossy(&journal.stdout).into_owned();
    assert!(journal.contains("Device or resource busy"), "{journal:?}");
    assert_nobody_dies_without(guard, cgroup);
}

pub(super) fn systemd_for_now() {
    let scope = Scope::start("guard-runtime", &["MemoryMax=128M", "MemorySwapMax=0"], JOB);
    systemd(&scope.unit, &scope.cgroup(), &["--runtime"]);
}

pub(super) fn systemd_for_ever() {
    // What systemd is told of a scope ends with it; a slice is there for ever.
    const SLICE: &str = "guardlasting.slice";
    let scope = Scope::start("guard-lasting", &["Slice=guardlasting.slice", "MemorySwapMax=0"], JOB);
    run("systemctl", ["set-property", SLICE, "MemoryMax=128M"]);
    systemd(SLICE, &Path::new(MOUNT).join(SLICE), &[]);
    run("systemctl", ["revert", SLICE]);
    drop(scope);
    run("systemctl", ["stop", SLICE]);
}

/// What it says, on both channels.
fn said(Output { stdout, stderr, .. }: &Output) -> String {
    [stdout, stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

/// An update that is refused fails and says so in these words; it changes nothing.
fn refused(container: &Container, words: &str) {
    container.update(&["--memory", BEFORE, "--memory-swap", BEFORE]);
    let cgroup = &container.cgroup;
    let mut guard = guard(cgroup);
    let update = container.try_update(&["--memory", DEADLY]);
    let said = said(&update);
    println!("{} says {said:?}", container.runtime);
    assert_eq!(update.status.code(), Some(1), "{said}");
    assert!(said.contains(words), "{said:?} does not say {words:?}");
    let denied = guard.json();
    assert_eq!(denied["verdict"], "denied", "{denied}");
    if denied["writer"]["pid"] == 1 {
        await_kept(&mut guard);
    }
    assert_eq!(read(cgroup, "memory.max"), BEFORE);
    container.update(&["--cpu-share", "512"]);
    assert_nobody_dies_without(guard, cgroup);
    container.update(&["--cpu-share", "256"]);
    assert_eq!((read(cgroup, "memory.max").as_str(), kills(cgroup).as_str()), (BEFORE, "0"));
}

pub(super) fn runc() {
    refused(&Container::start("runc", &[], "guard-runc", "/guard-runc", JOB), "device or resource busy");
}

pub(super) fn runc_by_systemd() {
    let path = "system.slice:guard:runc";
    let container = Container::start("runc", &["--systemd-cgroup"], "guard-runc-systemd", path, JOB);
    refused(&container, "device or resource busy");
}

pub(super) fn crun() {
    let options = &["--cgroup-manager=cgroupfs"];
    let container = Container::start("crun", options, "guard-crun", "/guard-crun", JOB);
    refused(&container, "Device or resource busy");
}

pub(super) fn crun_by_systemd() {
    let path = "system.slice:guard:crun";
    let mut container =
        Container::start("crun", &["--cgroup-manager=systemd"], "guard-crun-systemd", path, JOB);
    // Its processes are one cgroup deeper than its limits.
    assert!(container.cgroup.ends_with("guard-crun.scope/container"), "{}", container.cgroup.display());
    container.cgroup.pop();
    refused(&container, "Device or resource busy");
}
