//! The command line on a real kernel.

use crate::process::full_pipe;
use enforcer::cgroup::Cgroup;
use enforcer::node::pressure_killer;
use enforcer_vm_tests::case::{Case, Tier, at_least, nothing};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ENFORCER: &str = "/bin/enforcer";
const MIB: u64 = 1 << 20;

pub(crate) fn cases() -> Vec<Case> {
    let smoke = |name, run| Case { name, tier: Tier::Smoke, needs: nothing, run };
    let full = |name, run| Case { name, tier: Tier::Full, needs: nothing, run };
    vec![
        smoke("cli::check_finds_this_node_fit", check),
        smoke("cli::floor_names_each_term", floor_terms),
        full("cli::floor_leaves_clean_cache_out", floor_cache),
        full("cli::floor_is_that_of_the_own_cgroup_by_default", floor_own),
        full("cli::floor_shows_the_tighter_ancestor", floor_ancestor),
        full("cli::floor_of_what_is_no_cgroup", floor_nothing),
        full("cli::floor_in_the_root_names_the_way_out", floor_root),
        smoke("cli::a_recording_is_replayed", record_and_replay),
        full("cli::a_recording_that_is_stopped_is_whole", record_stopped),
        full("cli::a_recording_that_is_killed_is_replayed_as_far_as_it_goes", record_killed),
        full("cli::a_capability_that_is_missing_is_named_or_not_needed", capabilities),
        full("cli::who_only_looks_makes_no_folder", no_folder),
        full("cli::too_few_descriptors_are_named_with_advice", few_descriptors),
        full("cli::a_recording_ends_with_its_cgroup", record_gone),
        full("cli::hostile_names_are_escaped", hostile_names),
        smoke("cli::pressure_killers_are_found", killers),
        full("cli::a_pressure_killers_name_alone_is_not_enough", killers_by_name),
        full("cli::a_pressure_killer_is_refused_by_name", killer_refused),
        full("cli::a_dry_run_changes_nothing", dry_run),
        full("cli::a_shrink_can_be_read_by_people", readable),
        full("cli::what_is_no_shrink_is_refused_at_once", not_a_shrink),
        full("cli::a_shrink_whose_output_is_lost_stays_done", output_lost),
        full("cli::a_shrink_that_nobody_reads_can_be_ended", unread),
        full("cli::limits_of_the_process_are_named_or_not_met", limits),
        full("cli::a_read_only_mount_is_named_with_advice", read_only),
        full("cli::a_tree_that_is_too_deep_is_called_deep", deep),
    ]
}

struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

fn enforcer<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> Answer {
    let output = Command::new(ENFORCER).args(args).stdin(Stdio::null()).output().expect("enforcer starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    Answer { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn floor(cgroup: &Path) -> Value {
    let args = [OsStr::new("floor"), cgroup.as_os_str(), OsStr::new("--json"), OsStr::new("--window=500ms")];
    let answer = enforcer(args);
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    json(&answer.out)
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn without_swap(name: &str) -> Scratch {
    let cgroup = Scratch::new(name);
    cgroup.write_if_there("memory.swap.max", "0");
    cgroup
}

fn check() {
    // Makes sure that a cgroup with memory files is there to be looked at.
    let _cgroup = Scratch::new("check");
    let answer = enforcer(["check", "--json"]);
    let report = json(&answer.out);
    let state = |need: &str| {
        let findings = report["node"].as_array().expect("a list");
        let finding = findings.iter().find(|finding| finding["need"] == need).expect("judged");
        finding["state"].as_str().expect("text").to_owned()
    };
    for need in ["kernel", "root", "cgroup_v2_memory", "memory_reclaim", "btf", "psi", "bpf_lsm"] {
        assert_eq!(state(need), "ok", "{need}: {report}");
    }
    let since = |major, minor| if at_least(major, minor).is_ok() { "ok" } else { "degraded" };
    assert_eq!(state("memory_peak"), since(6, 12), "{report}");
    assert_eq!(state("nonblocking_max"), since(6, 16), "{report}");
    assert_eq!((answer.code, &report["supported"]), (Some(0), &Value::Bool(true)), "{report}");
}

fn floor_terms() {
    for (term, line) in [
        ("anon", "anon --size 16Mi"),
        ("shmem", "tmpfs --dir /tmp --size 16Mi"),
        ("unevictable", "mlock --size 16Mi"),
    ] {
        let cgroup = without_swap(term);
        cgroup.write("memory.max", "64M");
        let _workload = Workload::run(&cgroup, line);
        let report = floor(cgroup.path());
        let found = bytes(&report["peak_floor"]["terms"][term]);
        assert!((16 * MIB..18 * MIB).contains(&found), "{term} {found}: {report}");
        assert!(bytes(&report["safe_minimum"]) > found, "{report}");
        assert_eq!(bytes(&report["max"]["bytes"]), 64 * MIB, "{report}");
        let table =
            enforcer([OsStr::new("floor"), cgroup.path().as_os_str(), OsStr::new("--window=500ms")]).out;
        assert!(table.contains(term) && table.contains("safe minimum "), "{table}");
    }
}

fn floor_cache() {
    let cgroup = without_swap("cache");
    let _workload = Workload::run(&cgroup, "cache --file /data/cli-cache --size 32Mi --anon 4Mi");
    let report = floor(cgroup.path());
    assert!(bytes(&report["usage"]) > 36 * MIB, "{report}");
    assert!(bytes(&report["peak_floor"]["bytes"]) < 12 * MIB, "{report}");
}

fn floor_own() {
    let cgroup = without_swap("own");
    let script =
        format!("echo $$ > {}/cgroup.procs && exec {ENFORCER} floor --json", cgroup.path().display());
    let output = Command::new("/bin/busybox").args(["sh", "-c", &script]).output().expect("a shell");
    let report = json(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(bytes(&report["cgroup_id"]), cgroup.id(), "{report}");
}

fn floor_ancestor() {
    let pod = without_swap("pod");
    let container = pod.child("container");
    pod.write("memory.max", "32M");
    container.write("memory.max", "64M");
    let table =
        enforcer([OsStr::new("floor"), container.path().as_os_str(), OsStr::new("--window=200ms")]).out;
    let name = pod.path().file_name().and_then(OsStr::to_str).expect("a name");
    assert!(table.contains(&format!("note: the tighter limit is that of {name}")), "{table}");
    assert!(table.contains("note: no process lives in it"), "{table}");
}

fn floor_nothing() {
    for (path, code, says) in [
        ("no/such", 64, "no/such: no such cgroup"),
        ("/etc", 64, "not below the cgroup mount"),
        ("../etc", 64, "`..` is not taken"),
        ("/sys/fs/cgroup", 64, "the root cgroup has no memory limit"),
    ] {
        let answer = enforcer(["floor", path]);
        assert_eq!(answer.code, Some(code), "{path}: {}", answer.err);
        assert!(answer.err.contains(says), "{path}: {}", answer.err);
    }
}

fn floor_root() {
    let script = format!("echo $$ > /sys/fs/cgroup/cgroup.procs && exec {ENFORCER} floor");
    let output = Command::new("/bin/busybox").args(["sh", "-c", &script]).output().expect("a shell");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{err}");
    for part in ["the root cgroup has no memory limit", "name another: enforcer floor CGROUP"] {
        assert!(err.contains(part), "{err}");
    }
}

/// A file's path that is not taken yet.
fn fresh(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("cli-{name}-{}", std::process::id()));
    drop(std::fs::remove_file(&path));
    path
}

fn record_and_replay() {
    let cgroup = without_swap("record");
    cgroup.write("memory.max", "64M");
    let _workload = Workload::run(&cgroup, "anon --size 16Mi");
    let trace = fresh("record");
    let args =
        [OsStr::new("record"), cgroup.path().as_os_str(), OsStr::new("--duration=2s"), OsStr::new("--out")];
    let answer = enforcer(args.into_iter().chain([trace.as_os_str()]));
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    let replay = |to: &str| replay(&trace, &["--to", to, "--window=1s"]);
    let (code, report) = replay("48Mi");
    assert_eq!((code, &report["certificate"]["verdict"]), (Some(0), &Value::from("feasible")), "{report}");
    let (code, report) = replay("16Mi");
    assert_eq!((code, &report["certificate"]["verdict"]), (Some(2), &Value::from("refused")), "{report}");
    let safe = bytes(&report["certificate"]["safe_minimum"]);
    assert!((17 * MIB..24 * MIB).contains(&safe), "{report}");
    assert_eq!(replay(&safe.to_string()).0, Some(0), "the safe minimum itself is let in");
    assert_eq!(replay(&(safe - 4096).to_string()).0, Some(2), "a page less is not");
    drop(std::fs::remove_file(trace));
}

/// A recorder that has written a reading.
fn recorder(cgroup: &Scratch, trace: &Path) -> Child {
    let mut recorder = Command::new(ENFORCER)
        .arg("record")
        .arg(cgroup.path())
        .args(["--duration=600s", "--json", "--out"])
        .arg(trace)
        .stdout(Stdio::piped())
        .spawn()
        .expect("enforcer starts");
    while std::fs::read_to_string(trace).map_or(0, |text| text.lines().count()) < 2
        && recorder.try_wait().is_ok_and(|end| end.is_none())
    {
        std::thread::yield_now();
    }
    recorder
}

fn replay(trace: &Path, words: &[&str]) -> (Option<i32>, Value) {
    let words = words.iter().chain(&["--json"]).map(OsStr::new);
    let answer = enforcer([OsStr::new("replay"), trace.as_os_str()].into_iter().chain(words));
    (answer.code, json(if answer.out.is_empty() { &answer.err } else { &answer.out }))
}

fn record_stopped() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let cgroup = without_swap("stopped");
        let trace = fresh("stopped");
        let recorder = recorder(&cgroup, &trace);
        kill(Pid::from_raw(recorder.id().cast_signed()), signal).expect("it runs");
        let output = recorder.wait_with_output().expect("it ends");
        let report = json(&String::from_utf8_lossy(&output.stdout));
        assert_eq!((output.status.code(), &report["interrupted"]), (Some(0), &Value::Bool(true)), "{report}");
        let (_, report) = replay(&trace, &["--to=1Mi", "--window=100ms"]);
        assert_eq!(report.get("cut_at_line"), None, "{report}");
        drop(std::fs::remove_file(trace));
    }
}

fn record_killed() {
    let cgroup = without_swap("killed");
    cgroup.write("memory.max", "64M");
    // Without a process in it there would be nothing to wait for.
    let _workload = Workload::run(&cgroup, "anon --size 1Mi");
    let trace = fresh("killed");
    let mut recorder = recorder(&cgroup, &trace);
    recorder.kill().expect("it runs");
    recorder.wait().expect("it ends");
    let whole = std::fs::read(&trace).expect("reads").split(|byte| *byte == b'\n').count() - 1;
    let (code, report) = replay(&trace, &["--to=1Mi", "--window=600s"]);
    let says = format!("cut short at line {}", whole + 1);
    assert_eq!(code, Some(64), "{report}");
    assert!(report.to_string().contains(&says), "{says}: {report}");
    drop(std::fs::remove_file(trace));
}

fn no_folder() {
    let folder = fresh("no-folder");
    let state_dir = folder.join("below");
    let answer = enforcer([OsStr::new("recover"), OsStr::new("--state-dir"), state_dir.as_os_str()]);
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(answer.out.contains("there is no such folder"), "{}", answer.out);
    let cgroup = without_swap("no-folder");
    cgroup.write("memory.max", "64M");
    let dry = ["--to=32Mi", "--dry-run", "--observe=200ms", "--state-dir"].map(OsStr::new);
    let shrink = [OsStr::new("shrink"), cgroup.path().as_os_str()];
    let answer = enforcer(shrink.into_iter().chain(dry).chain([state_dir.as_os_str()]));
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(!folder.exists());
}

/// Without each of the capabilities: refused before anything is touched, or as good as with it.
fn capabilities() {
    let cgroup = without_swap("capabilities");
    let workload = Workload::run(&cgroup, "anon --size 8Mi");
    let folder = tempfile::tempdir_in("/run").expect("a folder");
    let old = if at_least(6, 16).is_ok() { None } else { Some("CAP_SYS_PTRACE") };
    // Numbers of include/uapi/linux/capability.h.
    for (number, named) in [
        (1, Some("CAP_DAC_OVERRIDE")),
        (14, None), // CAP_IPC_LOCK
        (19, old),
        (21, Some("CAP_SYS_ADMIN")),
        (23, None), // CAP_SYS_NICE
        (24, None), // CAP_SYS_RESOURCE
        (38, Some("CAP_PERFMON")),
        (39, Some("CAP_BPF")),
    ] {
        cgroup.write("memory.max", "64M");
        let mut command = Command::new(ENFORCER);
        command.arg("shrink").arg(cgroup.path()).args(QUICK).args(["--to=32Mi", "--state-dir"]);
        command.arg(folder.path());
        // SAFETY: prctl takes numbers only and is async-signal-safe.
        unsafe {
            command.pre_exec(move || match libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let output = command.output().expect("enforcer starts");
        let text = String::from_utf8_lossy(&output.stderr);
        let code = if named.is_some() { 69 } else { 0 };
        assert_eq!(output.status.code(), Some(code), "without {number}: {text}");
        assert!(named.is_none_or(|name| text.contains(name)), "without {number}: {text}");
        unharmed(&cgroup, if named.is_some() { 64 * MIB } else { 32 * MIB });
    }
    drop(workload);
}

/// With the least that is asked for it works; with less, or in too deep a tree, it says what to raise.
fn few_descriptors() {
    let top = without_swap("few");
    let mut levels = vec![top.child("0")];
    for depth in 1..40 {
        levels.push(levels[depth - 1].child(&depth.to_string()));
    }
    let folder = tempfile::tempdir_in("/run").expect("a folder");
    let state_dir = folder.path().display();
    let spans = "--observe=200ms --window=200ms --watch=200ms";
    for (depth, limit, code) in [(9, 256, 0), (9, 255, 69), (9, 4, 69), (39, 256, 1)] {
        let cgroup = &levels[depth];
        cgroup.write("memory.max", "64M");
        let path = cgroup.path().display();
        let script = format!(
            "ulimit -n {limit} && exec {ENFORCER} shrink {path} --to=32Mi --state-dir {state_dir} {spans}"
        );
        let output = Command::new("/bin/busybox").args(["sh", "-c", &script]).output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{depth} {limit}: {text}");
        assert!(code == 0 || text.contains("ulimit -n"), "{depth} {limit}: {text}");
    }
}

fn record_gone() {
    let cgroup = without_swap("gone");
    let trace = fresh("gone");
    let recorder = recorder(&cgroup, &trace);
    drop(cgroup);
    let output = recorder.wait_with_output().expect("it ends");
    let report = json(&String::from_utf8_lossy(&output.stdout));
    assert_eq!((output.status.code(), &report["gone"]), (Some(0), &Value::Bool(true)), "{report}");
    drop(std::fs::remove_file(trace));
}

fn hostile_names() {
    let parent = Scratch::new("hostile");
    parent.write("cgroup.subtree_control", "+memory");
    let mut name = b"x\x1b[2J\x07\xff\xe2\x80\xae".to_vec();
    name.resize(255, b'y');
    let path = parent.path().join(OsStr::from_bytes(&name));
    std::fs::create_dir(&path).expect("cgroup names may be nearly anything");
    let child = path.join("child");
    std::fs::write(path.join("cgroup.subtree_control"), "+memory").expect("writes");
    std::fs::create_dir(&child).expect("makes");
    for json in [false, true] {
        let mut args = vec![OsStr::new("floor"), child.as_os_str(), OsStr::new("--window=200ms")];
        if json {
            args.push(OsStr::new("--json"));
        }
        let answer = enforcer(args);
        assert_eq!(answer.code, Some(0), "{}", answer.err);
        let text = answer.out;
        assert!(text.contains("x\\u{1b}[2J") || text.contains("x\\\\u{1b}[2J"), "{text:?}");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{fffd}']), "{text:?}");
    }
    let answer = enforcer([OsStr::new("floor"), path.join("none").as_os_str()]);
    assert_eq!(answer.code, Some(64));
    assert!(!answer.err.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{:?}", answer.err);
}

fn killers() {
    let pod = Scratch::new("killer");
    let container = pod.child("container");
    let beside = pod.child("beside");
    let inside = Workload::run(&container, "anon --size 1Mi");
    let open = || Cgroup::open(container.path()).expect("is there");
    let found = || pressure_killer(&open()).expect("can be looked for");
    assert_eq!(found(), None);
    // A program that watches its own container's pressure kills nobody else.
    let own = Workload::run(&container, &format!("pressure-killer --watch {}", container.path().display()));
    assert_eq!(found(), None);
    drop(own);
    let killer = Workload::run(&beside, &format!("pressure-killer --watch {}", pod.path().display()));
    let seen = found().expect("a trigger on the pod");
    assert_eq!(seen.pid, killer.pid());
    assert!("enforcer-workload".starts_with(&seen.comm), "{seen:?}");
    assert!(pod.path().ends_with(&seen.cgroup), "{seen:?}");
    // Seen from the pod it is inside, whichever container it lives in.
    let of_pod = Cgroup::open(pod.path()).expect("is there");
    assert_eq!(pressure_killer(&of_pod).expect("can be looked for"), None);
    drop(killer);
    assert_eq!(found(), None);
    drop(inside);
}

/// Anybody can be called so; it counts for who can kill everybody.
fn killers_by_name() {
    let group = Scratch::new("named");
    let cgroup = Cgroup::open(group.path()).expect("is there");
    let folder = tempfile::tempdir().expect("a folder");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody).expect("open to all");
    for name in ["nohang", "oomd", "systemd-oomd"] {
        let program = folder.path().join(name);
        std::fs::copy(enforcer_vm_tests::workload::PROGRAM, &program).expect("a program");
        let found = |prepare: &dyn Fn(&mut Command)| {
            let mut command = Command::new(&program);
            command.args(["anon", "--size", "1Mi"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            prepare(&mut command);
            let mut child = command.spawn().expect("starts");
            let mut line = String::new();
            let out = child.stdout.take().expect("stdout is a pipe");
            BufReader::new(out).read_line(&mut line).expect("says that it is ready");
            assert!(line.starts_with("ready"), "{line}");
            let found = pressure_killer(&cgroup).expect("can be looked for");
            let pid = child.id();
            drop(child.stdin.take());
            child.wait().expect("ends");
            found.map(|killer| (killer.pid == pid, killer.comm))
        };
        assert_eq!(found(&|_| {}), Some((true, name.into())));
        let nobody = |command: &mut Command| {
            command.uid(65_534).gid(65_534);
        };
        assert_eq!(found(&nobody), None, "{name} without privileges");
        // Root in a user namespace of its own has every capability there.
        let contained = |command: &mut Command| {
            // SAFETY: unshare takes a number only and is async-signal-safe.
            unsafe {
                command.pre_exec(|| Ok(unshare(CloneFlags::CLONE_NEWUSER)?));
            }
        };
        assert_eq!(found(&contained), None, "{name} in a user namespace");
    }
}

/// Short, for workloads that do not change; the budget as wide as emulation is slow.
const QUICK: [&str; 4] = ["--observe=600ms", "--window=1s", "--watch=600ms", "--budget=3s"];

fn shrink(cgroup: &Scratch, words: &[&str]) -> Answer {
    let state_dir = std::env::temp_dir().join("cli-state");
    let options =
        [OsStr::new("shrink"), cgroup.path().as_os_str(), OsStr::new("--state-dir"), state_dir.as_os_str()];
    enforcer(options.into_iter().chain(QUICK.iter().chain(words).map(OsStr::new)))
}

/// The limit is this, no brake is on, and nothing was killed.
fn unharmed(cgroup: &Scratch, max: u64) {
    assert_eq!((cgroup.limit("memory.max"), cgroup.limit("memory.high")), (max.to_string(), "max".into()));
    assert_eq!(cgroup.counter("memory.events", "oom_kill"), 0);
}

fn killer_refused() {
    let pod = without_swap("killer");
    let container = pod.child("container");
    let beside = pod.child("beside");
    container.write("memory.max", "64M");
    let mut workload = Workload::run(&container, "anon --size 8Mi");
    let killer = Workload::run(&beside, &format!("pressure-killer --watch {}", pod.path().display()));
    let answer = shrink(&container, &["--to=32Mi", "--json"]);
    let certificate = &json(&answer.out)["certificate"];
    assert_eq!((answer.code, &certificate["verdict"]), (Some(2), &Value::from("refused")), "{certificate}");
    assert_eq!(certificate["reason"]["pressure_killer"]["pid"], killer.pid(), "{certificate}");
    unharmed(&container, 64 * MIB);
    let answer = shrink(&container, &["--to=32Mi", "--json", "--allow-pressure-killer"]);
    let certificate = &json(&answer.out)["certificate"];
    assert_eq!((answer.code, &certificate["verdict"]), (Some(0), &Value::from("committed")), "{certificate}");
    assert!(certificate["notes"].to_string().contains("allowed by policy"), "{certificate}");
    assert!(workload.alive());
}

fn dry_run() {
    let cgroup = without_swap("dry");
    cgroup.write("memory.max", "64M");
    let _workload = Workload::run(&cgroup, "anon --size 16Mi");
    let answer = shrink(&cgroup, &["--to=32Mi", "--dry-run", "--json"]);
    assert_eq!(
        (answer.code, &json(&answer.out)["certificate"]["verdict"]),
        (Some(0), &Value::from("feasible"))
    );
    let answer = shrink(&cgroup, &["--to=8Mi", "--dry-run", "--json"]);
    assert_eq!(
        (answer.code, &json(&answer.out)["certificate"]["verdict"]),
        (Some(2), &Value::from("refused"))
    );
    unharmed(&cgroup, 64 * MIB);
    assert_eq!(cgroup.counter("memory.stat", "pgsteal"), 0);
}

fn not_a_shrink() {
    let cgroup = without_swap("not-a-shrink");
    cgroup.write("memory.max", "64M");
    let _workload = Workload::run(&cgroup, "anon --size 16Mi");
    let trace = fresh("not-a-shrink");
    let to_trace = trace.to_str().expect("text");
    let answer = shrink(&cgroup, &["--to", "64Mi", "--trace", to_trace]);
    assert_eq!(answer.code, Some(2), "{} {}", answer.out, answer.err);
    assert!(answer.out.contains("left at 64Mi") && answer.out.lines().count() == 2, "{}", answer.out);
    assert_eq!(answer.err, "", "no kernel program was loaded for it");
    let (code, report) = replay(&trace, &[]);
    assert_eq!((code, &report["commands"]["diverged"]), (Some(0), &0.into()), "{report}");
    assert_eq!(report["certificate"]["verdict"], "refused", "{report}");
    drop(std::fs::remove_file(trace));
}

fn readable() {
    let cgroup = without_swap("readable");
    cgroup.write("memory.max", "64M");
    let _workload = Workload::run(&cgroup, "anon --size 16Mi");
    let answer = shrink(&cgroup, &["--to", "33000000"]);
    assert_eq!(answer.code, Some(0), "{} {}", answer.out, answer.err);
    unharmed(&cgroup, 32_997_376);
    assert!(answer.err.contains("33000000 bytes are rounded down to whole pages: 32224Ki"), "{}", answer.err);
    assert!(answer.err.contains("loading the kernel programs\n"), "{}", answer.err);
    for state in ["observing", "trial", "watching"] {
        assert!(answer.err.contains(&format!("s] {state}")), "{state}: {}", answer.err);
    }
    for part in ["verdict", "committed", "safe minimum", "floor", "headroom", "stall added", "states"] {
        assert!(answer.out.contains(part), "{part}: {}", answer.out);
    }
}

/// To be run on a cgroup of 64 MiB.
fn shrinking(cgroup: &Scratch, state_dir: &Path) -> Command {
    cgroup.write("memory.max", "64M");
    let mut command = Command::new(ENFORCER);
    command.arg("shrink").arg(cgroup.path()).args(QUICK).args(["--to=32Mi", "--state-dir"]).arg(state_dir);
    command
}

fn output_lost() {
    let cgroup = without_swap("lost");
    let _workload = Workload::run(&cgroup, "anon --size 8Mi");
    let folder = tempfile::tempdir_in("/run").expect("a folder");
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("opens");
    for both in [false, true] {
        let mut command = shrinking(&cgroup, folder.path());
        command.stdout(full()).stderr(if both { full().into() } else { Stdio::piped() });
        let output = command.spawn().and_then(Child::wait_with_output).expect("enforcer starts");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(both || err.contains("what was done stays done"), "{err}");
        unharmed(&cgroup, 32 * MIB);
    }
}

fn unread() {
    let cgroup = without_swap("unread");
    let _workload = Workload::run(&cgroup, "anon --size 8Mi");
    let folder = tempfile::tempdir_in("/run").expect("a folder");
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // On a slow machine it may be taken back; then another is begun.
        let mut limits = (0..3).map(|_| ended_unread(&cgroup, folder.path(), signal));
        assert!(limits.any(|limit| limit == 32 * MIB), "none was committed");
    }
}

/// A shrink that has settled and is then ended; the limit that it leaves.
fn ended_unread(cgroup: &Scratch, state_dir: &Path, signal: Signal) -> u64 {
    let (_reader, full) = full_pipe();
    let mut command = shrinking(cgroup, state_dir);
    let mut child = command.stdout(full).stderr(Stdio::null()).spawn().expect("enforcer starts");
    let began = Instant::now();
    // Until then a signal would stop the shrink.
    while cgroup.limit("memory.max") == (64 * MIB).to_string() || cgroup.limit("memory.high") != "max" {
        assert!(began.elapsed() < Duration::from_mins(2), "nothing is settled");
        std::thread::yield_now();
    }
    let status = loop {
        if let Some(status) = child.try_wait().expect("is ours") {
            break status;
        }
        if began.elapsed() > Duration::from_mins(3) {
            drop(child.kill());
        }
        kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it runs");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.signal(), Some(signal as i32), "{status:?}");
    let is_back = cgroup.limit("memory.max") == (64 * MIB).to_string();
    let limit = if is_back { 64 * MIB } else { 32 * MIB };
    unharmed(cgroup, limit);
    limit
}

/// A small file size and a small stack.
fn limits() {
    let cgroup = without_swap("limits");
    let _workload = Workload::run(&cgroup, "anon --size 8Mi");
    let folder = tempfile::tempdir_in("/run").expect("a folder");
    for (limit, code, says) in [("-f 8", 64, "ulimit -f unlimited"), ("-s 64", 0, "")] {
        cgroup.write("memory.max", "64M");
        let (path, state_dir) = (cgroup.path().display(), folder.path().display());
        let spans = QUICK.join(" ");
        let script = format!(
            "ulimit {limit} && exec {ENFORCER} shrink {path} --to=32Mi --state-dir {state_dir} {spans}"
        );
        let output = Command::new("/bin/busybox").args(["sh", "-c", &script]).output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{limit}: {text}");
        assert!(text.contains(says), "{limit}: {text}");
        unharmed(&cgroup, if code == 0 { 32 * MIB } else { 64 * MIB });
        let left = std::fs::read_dir(folder.path()).expect("is there").flatten();
        let left: Vec<_> = left
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "new"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn read_only() {
    let cgroup = without_swap("read-only");
    cgroup.write("memory.max", "64M");
    let _workload = Workload::run(&cgroup, "anon --size 8Mi");
    let path = cgroup.path().to_str().expect("text");
    for (words, code) in [
        (&["check"][..], 69),
        (&["shrink", path, "--to=32Mi", "--dry-run"][..], 69),
        (&["shrink", path, "--to=32Mi"][..], 69),
        (&["guard", path][..], 69),
        (&["floor", path, "--window=200ms"][..], 0),
    ] {
        let mut command = Command::new(ENFORCER);
        command.args(words);
        // SAFETY: these calls take numbers and constant strings, and are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                let (none, all) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
                let read_only = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
                let mount = |at: &std::ffi::CStr, flags| {
                    libc::mount(none, at.as_ptr(), none, flags, std::ptr::null())
                };
                let done = libc::unshare(libc::CLONE_NEWNS) == 0
                    && mount(c"/", all) == 0
                    && mount(c"/sys/fs/cgroup", read_only) == 0;
                if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let output = command.output().expect("enforcer starts");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(code == 0 || text.contains("mount it for writing"), "{words:?}: {text}");
    }
    unharmed(&cgroup, 64 * MIB);
}

fn deep() {
    let top = without_swap("deep");
    top.write("memory.max", "64M");
    let mut levels = vec![top.child("0")];
    for depth in 1..66 {
        levels.push(levels[depth - 1].child("x"));
    }
    let path = top.path().to_str().expect("text");
    for words in [&["floor", path][..], &["shrink", path, "--to=32Mi", "--dry-run"]] {
        let answer = enforcer(words);
        assert_eq!(answer.code, Some(1), "{words:?}: {}", answer.err);
        assert!(answer.err.contains("more than 64 levels of cgroups below it"), "{words:?}: {}", answer.err);
    }
    while levels.pop().is_some() {}
}
