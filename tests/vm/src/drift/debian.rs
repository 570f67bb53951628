//! Real writers: systemd, runc and crun, in the guest that has them.

use super::{Sentinel, assert_fields};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const MOUNT: &str = "/sys/fs/cgroup";

/// Runs a program that must succeed.
#[track_caller]
fn run<I: IntoIterator<Item: AsRef<OsStr>>>(program: &str, args: I) {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().expect("start it");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

fn read(cgroup: &Path, file: &str) -> String {
    std::fs::read_to_string(cgroup.join(file)).expect("read a limit").trim().to_owned()
}

fn write(cgroup: &Path, file: &str, value: &str) {
    std::fs::write(cgroup.join(file), value).expect("write a limit");
}

fn watch(cgroup: &Path, expected: &[&str]) -> Sentinel {
    let path = cgroup.to_str().expect("a plain path").to_owned();
    Sentinel::start([path].into_iter().chain(expected.iter().map(|text| format!("--expect={text}"))))
}

/// A scope of systemd's with one process.
struct Scope {
    unit: String,
    child: Child,
}

impl Scope {
    fn start(name: &str, properties: &[&str]) -> Self {
        let unit = format!("{name}.scope");
        let mut child = Command::new("systemd-run")
            .args(["--scope", "--quiet", &format!("--unit={unit}")])
            .args(properties.iter().map(|property| format!("--property={property}")))
            .args(["/bin/busybox", "sh", "-c", "echo ready; exec /bin/busybox sleep 600"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start systemd-run");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("read a line");
        assert_eq!(line, "ready\n");
        Self { unit, child }
    }

    fn cgroup(&self) -> PathBuf {
        Path::new(MOUNT).join("system.slice").join(&self.unit)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        drop(Command::new("systemctl").args(["stop", &self.unit]).status());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A container from the guest's own busybox.
struct Container {
    runtime: &'static str,
    options: &'static [&'static str],
    name: &'static str,
    bundle: tempfile::TempDir,
    cgroup: PathBuf,
}

impl Container {
    fn start(
        runtime: &'static str,
        options: &'static [&'static str],
        name: &'static str,
        path: &str,
    ) -> Self {
        let bundle = tempfile::tempdir().expect("make a folder");
        let programs = bundle.path().join("rootfs/bin");
        std::fs::create_dir_all(&programs).expect("make a root");
        std::fs::copy("/bin/busybox", programs.join("busybox")).expect("copy busybox");
        run("runc", [OsStr::new("spec"), OsStr::new("--bundle"), bundle.path().as_os_str()]);
        let file = bundle.path().join("config.json");
        let mut config: Value =
            serde_json::from_slice(&std::fs::read(&file).expect("read the spec")).expect("is JSON");
        config["process"]["terminal"] = false.into();
        config["process"]["args"] = json!(["/bin/busybox", "sleep", "600"]);
        config["linux"]["cgroupsPath"] = path.into();
        std::fs::write(&file, config.to_string()).expect("write the spec");
        // It hands its output to the container, which outlives it.
        let status = Command::new(runtime)
            .args(options)
            .args(["run", "--detach", "--bundle"])
            .arg(bundle.path())
            .arg(name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("start it");
        let mut container = Self { runtime, options, name, bundle, cgroup: PathBuf::new() };
        assert!(status.success(), "{runtime} run: {status}");
        let output = Command::new(runtime).args(["state", name]).output().expect("start it");
        let state: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        let own = std::fs::read_to_string(format!("/proc/{}/cgroup", state["pid"])).expect("read its cgroup");
        let own = own.trim().strip_prefix("0::/").expect("cgroup v2");
        container.cgroup = Path::new(MOUNT).join(own);
        container
    }

    #[track_caller]
    fn update(&self, args: &[&str]) {
        run(self.runtime, self.options.iter().chain(&["update"]).chain(args).chain(&[self.name]));
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(Command::new(self.runtime).args(["delete", "--force", self.name]).status());
        drop(std::fs::remove_dir(&self.cgroup));
        drop(std::fs::remove_dir_all(self.bundle.path()));
    }
}

/// A bare write that systemd does not know of lasts until the unit's properties are next applied.
pub(super) fn reapplied() {
    let scope = Scope::start("drift-reapplied", &["MemoryMax=128M"]);
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
    let scope = Scope::start("drift-mended", &["MemoryMax=64M"]);
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
    let scope = Scope::start("drift-property", &["MemoryMax=128M"]);
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
    updates(&Container::start("runc", &[], "drift-runc", "/drift-runc"));
}

pub(super) fn crun() {
    updates(&Container::start("crun", &["--cgroup-manager=cgroupfs"], "drift-crun", "/drift-crun"));
}

/// runc writes the quota that it was asked for itself; what it told systemd is rounded, and comes with the next update.
pub(super) fn rounding() {
    let path = "system.slice:drift:rounding";
    let container = Container::start("runc", &["--systemd-cgroup"], "drift-rounding", path);
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
