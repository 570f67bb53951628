//! What a Debian guest has besides: units of systemd's, containers of runc's and crun's.

use enforcer_vm_tests::scratch::MOUNT;
use enforcer_vm_tests::workload::PROGRAM;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// What runs in a unit or container: it says `ready` and stays.
#[derive(Clone, Copy)]
pub(crate) enum Job {
    /// Nothing to speak of.
    Idle,
    /// Anonymous memory: so many MiB.
    Anon(u32),
}

impl Job {
    fn command(self) -> Vec<String> {
        let script = match self {
            Self::Idle => "echo ready; exec /bin/busybox sleep 600".into(),
            // It ends with its standard input.
            Self::Anon(mib) => format!("/bin/busybox tail -f /dev/null | {PROGRAM} anon --size {mib}Mi"),
        };
        ["/bin/busybox", "sh", "-c"].map(String::from).into_iter().chain([script]).collect()
    }
}

/// What a program says and how it ends.
pub(crate) fn output<I: IntoIterator<Item: AsRef<OsStr>>>(program: &str, args: I) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().expect("start it")
}

/// Runs a program that must succeed.
#[track_caller]
pub(crate) fn run<I: IntoIterator<Item: AsRef<OsStr>>>(program: &str, args: I) {
    let output = output(program, args);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) fn read(cgroup: &Path, file: &str) -> String {
    std::fs::read_to_string(cgroup.join(file)).expect("read a limit").trim().to_owned()
}

pub(crate) fn write(cgroup: &Path, file: &str, value: &str) {
    std::fs::write(cgroup.join(file), value).expect("write a limit");
}

/// How many processes were killed for memory in the cgroup and below.
pub(crate) fn kills(cgroup: &Path) -> String {
    let events = read(cgroup, "memory.events");
    events.lines().find_map(|line| line.strip_prefix("oom_kill ")).expect("a count").to_owned()
}

/// Waits until the line comes that says that a job is ready.
fn ready(out: impl std::io::Read) {
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).expect("read a line");
    assert!(line.starts_with("ready"), "{line:?}");
}

/// A scope of systemd's with one job.
pub(crate) struct Scope {
    pub(crate) unit: String,
    child: Child,
}

impl Scope {
    pub(crate) fn start(name: &str, properties: &[&str], job: Job) -> Self {
        let unit = format!("{name}.scope");
        let mut child = Command::new("systemd-run")
            .args(["--scope", "--quiet", &format!("--unit={unit}")])
            .args(properties.iter().map(|property| format!("--property={property}")))
            .args(job.command())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start systemd-run");
        ready(child.stdout.take().expect("a pipe"));
        Self { unit, child }
    }

    pub(crate) fn cgroup(&self) -> PathBuf {
        Path::new(MOUNT).join("system.slice").join(&self.unit)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        drop(Command::new("systemctl").args(["stop", &self.unit]).status());
        drop(Command::new("systemctl").args(["revert", &self.unit]).status());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A container from the guest's own busybox.
pub(crate) struct Container {
    pub(crate) runtime: &'static str,
    options: &'static [&'static str],
    name: &'static str,
    bundle: tempfile::TempDir,
    /// Of its first process.
    pub(crate) cgroup: PathBuf,
}

impl Container {
    /// `path` is the specification's `cgroupsPath`.
    pub(crate) fn start(
        runtime: &'static str,
        options: &'static [&'static str],
        name: &'static str,
        path: &str,
        job: Job,
    ) -> Self {
        let bundle = tempfile::tempdir().expect("make a folder");
        let programs = bundle.path().join("rootfs/bin");
        std::fs::create_dir_all(&programs).expect("make a root");
        for program in ["/bin/busybox", PROGRAM] {
            let name = Path::new(program).file_name().expect("a name");
            std::fs::copy(program, programs.join(name)).expect("copy a program");
        }
        run("runc", [OsStr::new("spec"), OsStr::new("--bundle"), bundle.path().as_os_str()]);
        let mut container = Self { runtime, options, name, bundle, cgroup: PathBuf::new() };
        container.change(|config| {
            config["process"]["terminal"] = false.into();
            config["process"]["args"] = json!(job.command());
            config["linux"]["cgroupsPath"] = path.into();
        });
        container.launch();
        container
    }

    /// Changes its specification, for the next start.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Value)) {
        let file = self.bundle.path().join("config.json");
        let mut config: Value =
            serde_json::from_slice(&std::fs::read(&file).expect("read the spec")).expect("is JSON");
        change(&mut config);
        std::fs::write(&file, config.to_string()).expect("write the spec");
    }

    /// Ends it and starts it anew, in a cgroup of the same path.
    pub(crate) fn restart(&mut self) {
        run(self.runtime, ["delete", "--force", self.name]);
        self.launch();
    }

    fn launch(&mut self) {
        // It hands its output to the container, which outlives it.
        let mut child = Command::new(self.runtime)
            .args(self.options)
            .args(["run", "--detach", "--bundle"])
            .arg(self.bundle.path())
            .arg(self.name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start it");
        let out = child.stdout.take().expect("a pipe");
        let status = child.wait().expect("it ends");
        assert!(status.success(), "{} run: {status}", self.runtime);
        ready(out);
        let state: Value =
            serde_json::from_slice(&output(self.runtime, ["state", self.name]).stdout).expect("is JSON");
        let own = std::fs::read_to_string(format!("/proc/{}/cgroup", state["pid"])).expect("read its cgroup");
        let own = own.trim().strip_prefix("0::/").expect("cgroup v2");
        self.cgroup = Path::new(MOUNT).join(own);
    }

    /// `update` with these arguments, whatever comes of it.
    pub(crate) fn try_update(&self, args: &[&str]) -> Output {
        output(self.runtime, self.options.iter().chain(&["update"]).chain(args).chain(&[self.name]))
    }

    /// `update`, which must succeed.
    #[track_caller]
    pub(crate) fn update(&self, args: &[&str]) {
        let output = self.try_update(args);
        assert!(output.status.success(), "{}: {}", self.runtime, String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(Command::new(self.runtime).args(["delete", "--force", self.name]).status());
        drop(std::fs::remove_dir(&self.cgroup));
        drop(std::fs::remove_dir_all(self.bundle.path()));
    }
}
