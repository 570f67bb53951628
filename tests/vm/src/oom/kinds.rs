//! One kind of kill each: what the record says.

use super::rig::{
    GROW, Recording, cgroup, fall, json, limit_to, limited, number, ooms, shown, store, text, victims,
};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::{PROGRAM, Workload};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const MIB: u64 = 1 << 20;
const UID: &str = "1d2c3b4a_1111_2222_3333_444455556666";
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A shell in the cgroup, as a container's first process; it ends with its standard input.
fn shell(cgroup: &Scratch, script: &str, own_namespace: bool) -> Child {
    let script = format!("echo $$ > {}/cgroup.procs; {script}", cgroup.path().display());
    let mut command = Command::new("/bin/busybox");
    command.args(["sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if own_namespace {
        // SAFETY: unshare is one system call.
        unsafe { command.pre_exec(|| unshare(CloneFlags::CLONE_NEWPID).map_err(std::io::Error::from)) };
    }
    command.spawn().expect("start a shell")
}

/// Waits for the shell's one line.
fn answer(shell: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(shell.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("read");
    line.trim().to_owned()
}

fn end(mut shell: Child) {
    drop(shell.stdin.take());
    shell.wait().expect("wait for the shell");
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_micros()).expect("before 500000")
}

pub(super) fn child() {
    let store = store();
    let mut recording = Recording::start(store.path());
    let cgroup_ = limited("child", "16M");
    let before = now_us();
    let mut shell = shell(&cgroup_, &format!("{PROGRAM} {GROW} & wait; echo waited; read line"), false);
    assert_eq!(answer(&mut shell), "waited", "the shell outlives its child");
    let oom = recording.oom_of(&cgroup_);
    assert!(shell.try_wait().expect("look at the shell").is_none(), "the container lives");
    let victim = &oom["victims"][0];
    assert_eq!((victims(&oom).len(), &oom["victims_lost"]), (1, &Value::from(0)));
    assert_ne!(number(&victim["pid"]), u64::from(shell.id()), "the child fell");
    assert_eq!(text(&victim["comm"]), "enforcer-worklo");
    assert_eq!(oom["survivors"], 1, "{oom}");
    assert!(text(&oom["says"]).contains("one other process lives on"), "{oom}");
    assert!((before..=now_us()).contains(&number(&oom["wall_us"])), "{oom}");
    // The figures: all of the limit was in use, and nearly all of it the victim's.
    let owner = &oom["owner"];
    assert_eq!(number(&owner["limit"]["bytes"]), 16 * MIB);
    assert!(number(&owner["usage"]) > 15 * MIB && number(&owner["max_events"]) > 0, "{owner}");
    assert!(number(&victim["anon"]) > 12 * MIB, "{victim}");
    let stat = &oom["stat"];
    assert_eq!(text(&stat["from"]), "kernel", "{stat}");
    let anon = number(&stat["terms"]["anon"]);
    assert!((12 * MIB..=16 * MIB).contains(&anon), "{stat}");
    assert!(number(&stat["terms"]["kernel"]) > 0 && number(&stat["terms"]["kernel"]) < 4 * MIB, "{stat}");
    // An allocation reclaims in vain several times before it kills.
    assert!(number(&oom["reclaim"]["count"]) > 0, "{oom}");
    assert!(number(&cgroup(&oom, cgroup_.id())["age_us"]) > 0, "it was made under the recorder's eyes");
    end(shell);
    assert_eq!(recording.stop(), Vec::<Value>::new(), "one kill, one record");
    assert_eq!(ooms(store.path()), [oom], "what is told is what is stored");
}

pub(super) fn first_of_namespace() {
    let store = store();
    let mut recording = Recording::start(store.path());
    let cgroup_ = limited("first", "16M");
    // The shell's first child is the first process of the new namespace.
    let mut shell = shell(&cgroup_, &format!("{PROGRAM} {GROW}; echo over; read line"), true);
    assert_eq!(answer(&mut shell), "over");
    let oom = recording.oom_of(&cgroup_);
    assert_eq!(oom["victims"][0]["first_of_namespace"], true, "{oom}");
    assert!(text(&oom["says"]).contains("which ends with it"), "{oom}");
    end(shell);
    // One of the host's own namespace is nobody's first.
    fall(&cgroup_);
    let oom = recording.oom_of(&cgroup_);
    assert_eq!(oom["victims"][0]["first_of_namespace"], Value::Null, "{oom}");
}

pub(super) fn group(count: usize) {
    let store = store();
    let mut recording = Recording::start(store.path());
    let cgroup_ = limited("group", "256M");
    cgroup_.write("memory.oom.group", "1");
    let mut members: Vec<Workload> =
        (1..count).map(|_| Workload::run(&cgroup_, "anon --size 64Ki")).collect();
    let usage: u64 = cgroup_.limit("memory.current").parse().expect("a number");
    // Little room, so that it comes soon.
    cgroup_.write("memory.max", &(usage + 8 * MIB).to_string());
    let mut expected: BTreeSet<u64> = members.iter().map(|member| member.pid().into()).collect();
    expected.insert(fall(&cgroup_).into());
    let oom = recording.oom_of(&cgroup_);
    let told = victims(&oom);
    assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), expected);
    assert_eq!((told.len(), &oom["victims_lost"]), (count, &Value::from(0)), "each once");
    assert_eq!(oom["group"], cgroup_.id());
    assert!(text(&oom["says"]).contains(&format!("took all {count} processes")), "{}", oom["says"]);
    for member in &mut members {
        assert_eq!(member.wait().signal(), Some(9));
    }
    // Not oom_kill: the kernel counts the one that it chose first once more as a member.
    assert_eq!(cgroup_.counter("memory.events.local", "oom_group_kill"), 1);
    assert_eq!(recording.stop(), Vec::<Value>::new(), "one record");
}

/// `<scratch>/kubepods.slice/kubepods-burstable.slice/<pod>/<container>`, with the four cgroups.
fn pod(name: &str) -> [Scratch; 5] {
    let top = Scratch::new(name);
    let pods = top.child("kubepods.slice");
    let qos = pods.child("kubepods-burstable.slice");
    let pod = qos.child(&format!("kubepods-burstable-pod{UID}.slice"));
    let container = pod.child(&format!("cri-containerd-{ID}.scope"));
    [top, pods, qos, pod, container]
}

pub(super) fn pod_limit() {
    let store = store();
    let mut recording = Recording::start(store.path());
    let [_top, _pods, _qos, pod, container] = pod("pod");
    limit_to(&pod, "183500800");
    container.write("memory.max", "1536M");
    let mut workload = Workload::launch(PROGRAM, &container, "anon --size 220Mi");
    assert_eq!(workload.wait().signal(), Some(9));
    let oom = recording.oom_of(&pod);
    assert_eq!(number(&oom["owner"]["limit"]["bytes"]), 183_500_800);
    let says = text(&oom["says"]);
    let lag = "the pod limit of 175Mi, not the container's 1.5Gi, was the one hit: raise the limit of the pod, which \
               lags behind it";
    assert!(says.starts_with(lag), "{says}");
    let place = &cgroup(&oom, pod.id())["place"];
    assert_eq!(place["role"], "pod");
    assert_eq!(text(&place["pod"]), UID.replace('_', "-"));
    assert_eq!(place["qos"], "burstable");
    let place = &cgroup(&oom, container.id())["place"];
    assert_eq!((&place["role"], &place["container"]), (&Value::from("container"), &Value::from(ID)));
    // For people: the table, the log line and the filters know the pod.
    let table = shown(store.path(), ["--pod", &UID.replace('_', "-")]);
    assert!(table.contains(lag) && table.contains(&format!("pod {}", UID.replace('_', "-"))), "{table}");
}

/// Nobody can look at anything: the recorder is stopped until the cgroups are gone.
pub(super) fn removed_at_once() {
    let store = store();
    let mut recording = Recording::start(store.path());
    recording.signal(Signal::SIGSTOP);
    let [top, pods, qos, pod, container] = pod("gone");
    limit_to(&container, "16M");
    let id = container.id();
    let pid = fall(&container);
    for cgroup in [&container, &pod, &qos, &pods, &top] {
        cgroup.clear();
        // The kernel lets go of a killed process's cgroup a little after its parent is told.
        while let Err(error) = std::fs::remove_dir(cgroup.path()) {
            assert_eq!(error.raw_os_error(), Some(libc::EBUSY), "{}: {error}", cgroup.path().display());
            std::thread::yield_now();
        }
    }
    recording.signal(Signal::SIGCONT);
    let oom = loop {
        let line = recording.line().expect("the recorder goes on");
        if line["oom"]["owner"]["id"] == id {
            break line["oom"].clone();
        }
    };
    assert_eq!(victims(&oom), [u64::from(pid)]);
    let told = cgroup(&oom, id);
    assert_eq!(told["gone"], true, "{told}");
    let path = text(&told["path"]);
    assert!(path.ends_with(&format!("pod{UID}.slice/cri-containerd-{ID}.scope")), "{path}");
    assert_eq!(text(&told["place"]["container"]), ID);
    assert_eq!((&oom["survivors"], text(&oom["stat"]["from"])), (&Value::Null, "kernel"));
    assert!(text(&oom["says"]).starts_with("the container's own limit of 16Mi was hit"), "{}", oom["says"]);
}

pub(super) fn killing_write() {
    let store = store();
    let mut recording = Recording::start(store.path());
    let cgroup_ = limited("write", "64M");
    let mut workload = Workload::run(&cgroup_, GROW);
    let file = cgroup_.path().join("memory.max");
    let status = Command::new("/bin/busybox")
        .args(["sh", "-c", &format!("echo 16M > {}", file.display())])
        .status()
        .expect("a shell");
    assert!(status.success());
    assert_eq!(workload.wait().signal(), Some(9), "the write killed it");
    let oom = recording.oom_of(&cgroup_);
    let write = &oom["writes"][0];
    assert_eq!((&write["during"], &write["ours"]), (&Value::from(true), &Value::from(false)), "{oom}");
    assert_eq!((text(&write["file"]), text(&write["asked"])), ("memory.max", "16M"));
    assert_eq!(number(&write["old"]["bytes"]), 64 * MIB);
    assert_eq!(write["writer"]["pid"], oom["trigger"]["pid"], "the writer ran into the OOM itself");
    let says = text(&oom["says"]);
    assert!(says.contains("wrote 16M to memory.max of the cgroup while"), "{says}");
}

pub(super) fn fifty() {
    let store = store();
    let recording = Recording::start(store.path());
    let cgroups: Vec<Scratch> = (0..50).map(|number| limited(&format!("many{number}"), "8M")).collect();
    let mut workloads: Vec<Workload> =
        cgroups.iter().map(|cgroup| Workload::launch(PROGRAM, cgroup, GROW)).collect();
    for workload in &mut workloads {
        assert_eq!(workload.wait().signal(), Some(9));
    }
    recording.stop();
    let ooms = ooms(store.path());
    for (cgroup, workload) in cgroups.iter().zip(&workloads) {
        let own: Vec<&Value> = ooms.iter().filter(|oom| oom["owner"]["id"] == cgroup.id()).collect();
        let [oom] = own[..] else { panic!("one OOM, not {own:?}") };
        assert_eq!(victims(oom), [u64::from(workload.pid())]);
        assert_eq!(cgroup.kills(), 1);
    }
}

/// A name that would clear the screen, is no UTF-8 and has quotes.
pub(super) fn hostile() {
    let store = store();
    let mut recording = Recording::start(store.path());
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join(OsStr::from_bytes(b"a\x1b[2J\xff\"\n'"));
    std::fs::copy(PROGRAM, &program).expect("copy the workload");
    let top = limited("hostile", "16M");
    let cgroup_ = top.child("x\u{1b}[31m\u{202e}y");
    let mut workload = Workload::launch(&program, &cgroup_, GROW);
    assert_eq!(workload.wait().signal(), Some(9));
    let oom = recording.oom_of(&top);
    assert_eq!(text(&oom["victims"][0]["comm"]), "a\\u{1b}[2J\\xff\"\\n'");
    assert!(text(&cgroup(&oom, cgroup_.id())["path"]).ends_with("x\\u{1b}[31m\\u{202e}y"), "{oom}");
    recording.stop();
    let table = shown(store.path(), [""; 0]);
    assert!(table.contains("a\\u{1b}[2J"), "{table}");
    assert!(table.chars().all(|c| c == '\n' || !c.is_control()) && !table.contains('\u{202e}'), "{table:?}");
    assert_eq!(shown(store.path(), ["--json"]).lines().map(json).count(), 2, "each record is one line");
}
