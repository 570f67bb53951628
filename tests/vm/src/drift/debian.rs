//! Real writers: systemd, runc and crun, in the guest that has them.

use super::{Sentinel, assert_fields};
use crate::debian::{Container, Job, Scope, read, run, write};
use std::path::Path;

fn watch(cgroup: &Path, expected: &[&str]) -> Sentinel {
    let path = cgroup.to_str().expect("a plain path").to_owned();
    Sentinel::start([path].into_iter().chain(expected.iter().map(|text| format!("--expect={text}"))))
}

/// A bare write that systemd does not know of lasts until the unit's properties are next applied.
pub(super) fn reapplied() {
    let scope = Scope::start("drift-reapplied", &["MemoryMax=128M"], Job::Idle);
    let cgroup = scope.cgroup();
    write(&cgroup, "memory.max", "64M");
    let mut sentinel = watch(&cgroup, &["memory.max=64Mi"]);
    run("systemctl", ["daemon-reload"]);
    run("systemctl", ["set-property", "--runtime", &scope.unit, "CPUWeight=50"]);
    let line = sentinel.about("memory.max");
    assert_fields(
        &line,
        [
            ("old", "67108864"),
            ("new", "134217728"),
            ("cause", "systemd"),
            ("drift", "new"),
            ("expected", "67108864"),
        ],
    );
    assert_eq!((&line["writer"]["pid"], &line["writer"]["comm"]), (&1.into(), &"systemd".into()), "{line}");
    assert_eq!(read(&cgroup, "memory.max"), "134217728");
}

/// Through systemd, so that it lasts: what is applied next is the mended value.
pub(super) fn mended() {
    let scope = Scope::start("drift-mended", &["MemoryMax=64M"], Job::Idle);
    let cgroup = scope.cgroup();
    write(&cgroup, "memory.max", "128M");
    let path = cgroup.to_str().expect("a plain path");
    let mut sentinel = Sentinel::start([path, "--expect=memory.max=128Mi", "--mend"]);
    run("systemctl", ["set-property", "--runtime", &scope.unit, "CPUWeight=50"]);
    assert_fields(
        &sentinel.about("memory.max"),
        [("new", "67108864"), ("cause", "systemd"), ("drift", "new")],
    );
    let line = sentinel.about("memory.max");
    assert_fields(&line, [("event", "mended"), ("new", "134217728"), ("through", "systemd")]);
    run("systemctl", ["set-property", "--runtime", &scope.unit, "CPUWeight=60"]);
    run("systemctl", ["daemon-reload"]);
    assert_eq!(read(&cgroup, "memory.max"), "134217728");
}

pub(super) fn set_property() {
    let scope = Scope::start("drift-property", &["MemoryMax=128M"], Job::Idle);
    let cgroup = scope.cgroup();
    let mut sentinel = watch(&cgroup, &["memory.max=96Mi", "cpu.max=12340 100000"]);
    assert_fields(&sentinel.about("memory.max"), [("event", "found"), ("new", "134217728")]);
    assert_fields(&sentinel.about("cpu.max"), [("event", "found"), ("new", "max 100000")]);
    run("systemctl", ["set-property", "--runtime", &scope.unit, "MemoryMax=96M"]);
    assert_fields(
        &sentinel.about("memory.max"),
        [("new", "100663296"), ("cause", "as expected"), ("drift", "no")],
    );
    run("systemctl", ["set-property", "--runtime", &scope.unit, "CPUQuota=13%"]);
    assert_fields(
        &sentinel.about("cpu.max"),
        [("new", "13000 100000"), ("cause", "runtime rounding"), ("drift", "no")],
    );
    run("systemctl", ["set-property", "--runtime", &scope.unit, "TasksMax=55"]);
    let line = sentinel.about("pids.max");
    assert_fields(&line, [("new", "55"), ("cause", "systemd"), ("drift", "no")]);
}

/// What an update does is the same in both: memory alone leaves swap, memory with as much swap turns swap off, and
/// shares become a weight in proportion.
fn updates(container: &Container) {
    let cgroup = &container.cgroup;
    write(cgroup, "memory.swap.max", "4096");
    let mut sentinel = watch(cgroup, &["memory.swap.max=4096", "cpu.shares=512"]);
    assert_fields(&sentinel.about("cpu.weight"), [("event", "found"), ("new", "100")]);
    container.update(&["--memory", "67108864"]);
    let line = sentinel.about("memory.max");
    assert_fields(&line, [("old", "max"), ("new", "67108864"), ("cause", "unknown"), ("drift", "no")]);
    let comm = line["writer"]["comm"].as_str().expect("a name");
    assert!(comm.starts_with(container.runtime), "{line}");
    assert_eq!(read(cgroup, "memory.swap.max"), "4096");
    container.update(&["--memory", "33554432", "--memory-swap", "33554432"]);
    let line = sentinel.about("memory.swap.max");
    assert_fields(&line, [("old", "4096"), ("new", "0"), ("drift", "new")]);
    assert_eq!(line["cause"], "swap reset by a memory update", "{line}");
    container.update(&["--cpu-share", "512"]);
    let line = sentinel.about("cpu.weight");
    assert_fields(&line, [("new", "20"), ("cause", "shares to weight (linear)"), ("drift", "no")]);
    assert!(
        line["writer"]["comm"].as_str().is_some_and(|comm| comm.starts_with(container.runtime)),
        "{line}"
    );
}

pub(super) fn runc() {
    updates(&Container::start("runc", &[], "drift-runc", "/drift-runc", Job::Idle));
}

pub(super) fn crun() {
    updates(&Container::start(
        "crun",
        &["--cgroup-manager=cgroupfs"],
        "drift-crun",
        "/drift-crun",
        Job::Idle,
    ));
}

/// runc writes the quota that it was asked for itself; what it told systemd is rounded, and comes with the next update.
pub(super) fn rounding() {
    let path = "system.slice:drift:rounding";
    let container = Container::start("runc", &["--systemd-cgroup"], "drift-rounding", path, Job::Idle);
    let mut sentinel = watch(&container.cgroup, &["cpu.max=12345 100000"]);
    assert_fields(&sentinel.about("cpu.max"), [("event", "found")]);
    container.update(&["--cpu-quota", "12345", "--cpu-period", "100000"]);
    container.update(&["--cpu-share", "512"]);
    let (mut asked, mut rounded) = (false, false);
    while !(asked && rounded) {
        let line = sentinel.about("cpu.max");
        assert_eq!(line["drift"], "no", "{line}");
        asked |= line["new"] == "12345 100000" && line["cause"] == "as expected";
        rounded |= line["new"] == "13000 100000" && line["cause"] == "runtime rounding";
    }
    assert_eq!(read(&container.cgroup, "cpu.max"), "13000 100000");
}

/// A resize to what no node has is refused by nobody, and put in force by the next start.
pub(super) fn restarted() {
    let mut container = Container::start("runc", &[], "drift-restart", "/drift-restart", Job::Idle);
    container.update(&["--cpu-quota", "100000", "--cpu-period", "100000"]);
    let mut sentinel = watch(&container.cgroup, &["cpu.max=100000 100000"]);
    container.change(|config| {
        config["linux"]["resources"]["cpu"] = serde_json::json!({"quota": 10_000_000, "period": 100_000});
    });
    container.restart();
    let line = sentinel.about("cpu.max");
    assert_fields(&line, [("new", "10000000 100000"), ("cause", "restart"), ("drift", "new")]);
    assert!(line["writer"]["comm"].as_str().is_some_and(|comm| comm.starts_with("runc")), "{line}");
    assert_eq!(read(&container.cgroup, "cpu.max"), "10000000 100000");
}
