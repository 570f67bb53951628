//! A pod with a container that has something to lose.

use crate::cri::rig::{Containerd, LONG, MIB, NAMESPACE};
use crate::debian::{output, read};
use enforcer::cgroup::Mount;
use enforcer::cri::message::LinuxContainerResources;
use enforcer::drift::raw;
use enforcer::inventory::{Container, Inventory, Locator, Pod, Survey};
use enforcer::probe::{Event, LimitKind, LimitWrite, Need, Probe, ProbeOptions};
use enforcer_vm_tests::scratch::MOUNT;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Both programs that make containers, by their handlers.
pub(super) const HANDLERS: [&str; 2] = ["", "crun"];
/// Short spans, a stall budget for an emulated machine, and patience with its runtime.
pub(super) const SPANS: [&str; 5] =
    ["--budget=3s", "--observe=500ms", "--window=1s", "--watch=500ms", "--deadline=60s"];

/// What a container has at first.
pub(super) fn resources(mib: i64) -> LinuxContainerResources {
    LinuxContainerResources {
        memory_limit_in_bytes: mib * MIB,
        memory_swap_limit_in_bytes: mib * MIB,
        cpu_quota: 25_000,
        cpu_period: 100_000,
        cpu_shares: 256,
        ..LinuxContainerResources::default()
    }
}

/// A container, where it is.
pub(super) struct Home {
    pub(super) id: String,
    /// As it is named on the command line.
    pub(super) target: String,
    pub(super) scope: PathBuf,
    /// Where its processes are.
    pub(super) inner: PathBuf,
}

/// Runs a pod with one container of 64 MiB, of which it uses so much.
pub(super) async fn start(containerd: &mut Containerd, handler: &str, anon_mib: u32) -> Home {
    let name = format!("web{handler}");
    containerd.run_pod(&name, handler).await;
    let job = format!("/bin/busybox tail -f /dev/null | /bin/enforcer-workload anon --size {anon_mib}Mi");
    let id = containerd.run_job("main", &["/bin/busybox", "sh", "-c", &job], resources(64)).await;
    let home = find(containerd, &name, "main").await;
    assert_eq!(home.id, id);
    let began = Instant::now();
    while number(&home.scope, "memory.current") < i64::from(anon_mib) * MIB {
        assert!(began.elapsed() < LONG, "the workload does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    home
}

/// All that the runtime has.
pub(super) async fn inventory(containerd: &Containerd) -> Inventory {
    let locator = Locator::new(Arc::new(Mount::discover().expect("cgroup v2")));
    let survey = Survey::new(containerd.client().await, locator);
    let mut inventory = Inventory::default();
    inventory.replace(survey.all().await.expect("the runtime answers"));
    inventory
}

/// A pod and its container of that name.
pub(super) async fn known(containerd: &Containerd, pod: &str, name: &str) -> (Pod, Container) {
    let inventory = inventory(containerd).await;
    let pod = inventory.pods().find(|found| found.name == pod).expect("it runs").clone();
    let container = inventory.containers_of(&pod.sandbox).find(|container| container.name == name);
    let container = container.expect("it runs").clone();
    (pod, container)
}

pub(super) async fn find(containerd: &Containerd, pod: &str, name: &str) -> Home {
    let (_, container) = known(containerd, pod, name).await;
    let home = container.home.expect("has a cgroup");
    Home {
        id: container.id,
        target: format!("pod/{NAMESPACE}/{pod}:{name}"),
        scope: Path::new(MOUNT).join(home.scope.path),
        inner: Path::new(MOUNT).join(home.processes.path),
    }
}

pub(super) fn number(cgroup: &Path, file: &str) -> i64 {
    read(cgroup, file).parse().expect("a number")
}

/// What a command says and how it ends.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: i32,
    pub(super) report: Value,
    pub(super) error: String,
}

impl Answer {
    fn of(output: &std::process::Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        Self {
            code: output.status.code().expect("no signal"),
            report: serde_json::from_str(&text).unwrap_or(Value::Null),
            error: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Ended so.
    #[track_caller]
    pub(super) fn assert(&self, code: i32) -> &Value {
        assert_eq!(self.code, code, "{}\n{}", self.error, self.report);
        &self.report
    }
}

/// `enforcer` with these words, as JSON, in the background. Spans that they name are theirs.
pub(super) fn spawn(words: &[&str], folder: &Path) -> Child {
    let name = |word: &str| word.split('=').next().map(str::to_owned);
    let spans = SPANS.iter().filter(|span| !words.iter().any(|word| name(word) == name(span)));
    Command::new("/bin/enforcer")
        .args(words)
        .args(spans)
        .arg("--json")
        .arg("--state-dir")
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start enforcer")
}

pub(super) fn ended(child: Child) -> Answer {
    Answer::of(&child.wait_with_output().expect("it ends"))
}

/// The same to its end.
pub(super) fn enforcer(words: &[&str], folder: &Path) -> Answer {
    ended(spawn(words, folder))
}

/// The runtime's word for a container's memory limit: the status, and the stored specification.
pub(super) async fn books(containerd: &Containerd, id: &str) -> (i64, i64) {
    let said = containerd.client().await.container_status(id).await.expect("answers").expect("is there");
    let status = said.status.and_then(|status| status.resources).and_then(|resources| resources.linux);
    let info: Value = serde_json::from_str(&said.info["info"]).expect("JSON");
    let spec = info.pointer("/runtimeSpec/linux/resources/memory/limit").and_then(Value::as_i64);
    (status.expect("is told").memory_limit_in_bytes, spec.expect("is told"))
}

/// A property of a unit of systemd's.
pub(super) fn property(unit: &Path, name: &str) -> String {
    let unit = unit.file_name().and_then(|name| name.to_str()).expect("a unit");
    let said = output("systemctl", ["show", "--value", "-p", name, unit]).stdout;
    String::from_utf8(said).expect("text").trim().to_owned()
}

/// Listens to writes of limits.
pub(super) fn listen() -> Probe {
    let needs = Need::ALL.iter().copied().filter(|need| matches!(need, Need::LimitWrite(_)));
    Probe::load(&ProbeOptions::only(needs)).expect("load the probe")
}

/// The writes so far that have ended, with their cgroup below the mount, in order.
pub(super) fn writes(probe: &mut Probe, below: &Path) -> Vec<(PathBuf, LimitWrite)> {
    let mut all = Vec::new();
    probe
        .drain(|event| {
            if let Event::LimitWrite(write) = event
                && write.end.is_some()
            {
                all.push(write);
            }
        })
        .expect("every record makes sense");
    let of_id = |id: u64| {
        let found = walk(below).into_iter().find(|path| inode(path) == id)?;
        Some(found.strip_prefix(MOUNT).expect("below the mount").to_owned())
    };
    all.into_iter().filter_map(|write| Some((of_id(write.cgroup.get())?, write))).collect()
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("is there"))
}

/// A cgroup and all below it.
fn walk(top: &Path) -> Vec<PathBuf> {
    let mut all = vec![top.to_owned()];
    for entry in std::fs::read_dir(top).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(walk(&entry.path()));
        }
    }
    all
}

/// Waits for a write of this file in this cgroup by a process of this name (its beginning: the value is not in force
/// yet) for which `is_it` holds.
pub(super) async fn until(
    probe: &mut Probe,
    cgroup: &Path,
    file: LimitKind,
    by: &str,
    is_it: impl Fn(&str) -> bool,
) {
    let id = inode(cgroup);
    let waited = tokio::time::timeout(LONG, async {
        loop {
            let event = probe.next_event().await.expect("a record");
            if let Event::LimitWrite(write) = event
                && write.cgroup.get() == id
                && write.file == file
                && String::from_utf8_lossy(write.writer.comm.as_bytes()).starts_with(by)
                && is_it(String::from_utf8_lossy(write.asked.as_bytes()).trim())
            {
                return;
            }
        }
    });
    assert!(waited.await.is_ok(), "{} of {} is not written by {by}", file.name(), cgroup.display());
}

/// As the file shows it.
pub(super) fn text(value: enforcer::probe::LimitValue) -> String {
    raw(value).to_string()
}
