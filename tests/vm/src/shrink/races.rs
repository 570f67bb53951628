//! What others do to the cgroup meanwhile.

use super::rig::{HIGH, MAX, MIB, QUICK, Rig, Running, Spans, limit};
use enforcer::probe::{LimitKind, Need, Probe, ProbeOptions};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::process::Command;

pub(super) fn cases() -> Vec<Case> {
    let full = |name, run| Case { name, tier: Tier::Full, needs: nothing, run };
    vec![
        full("shrink::gone_in_every_state", gone),
        full("shrink::a_raise_in_every_state_stays", raised),
        full("shrink::another_ones_brake_stays", another_brake),
        full("shrink::cancelled_before_and_after_the_commit", cancelled),
        full("shrink::a_second_shrink_is_refused", second),
        full("shrink::what_is_not_watched_is_said", crowded),
        full("shrink::waiting_for_a_lock_can_be_stopped_and_is_bounded", waiting),
    ]
}

/// Every state that lasts, with the spans that make it last: longer than a node without memory or CPU keeps a test waiting.
pub(super) const STATES: [(&str, Spans); 4] = [
    ("observing", Spans { observe: "600s", ..QUICK }),
    ("reclaiming", Spans { trial: "600s", ..QUICK }),
    ("trial", Spans { trial: "600s", ..QUICK }),
    ("watching", Spans { watch: "600s", ..QUICK }),
];
/// With something to reclaim.
pub(super) const LINE: &str = "cache --file /data/shrink-states --size 40Mi --anon 4Mi";
pub(super) const TO: &str = "24Mi";
pub(super) const TO_BYTES: u64 = 24 * MIB;

/// A shrink in one of [`STATES`], and the workload.
pub(super) fn in_state(rig: &Rig, state: &str, spans: Spans) -> (Running, Workload) {
    let workload = Workload::run(&rig.group, LINE);
    let mut running = rig.start(TO, spans);
    running.reach(state);
    if state == "trial" {
        rig.await_brake();
    }
    (running, workload)
}

fn gone() {
    for (state, spans) in STATES {
        let rig = Rig::new(state);
        let (running, workload) = in_state(&rig, state, spans);
        // Held, so that it can't see the cgroup without a process first, in which case it need not wait.
        running.hold();
        drop(workload);
        let path = rig.group.path().to_owned();
        rig.group.clear();
        std::fs::remove_dir(&path).unwrap_or_else(|error| panic!("{state}: {error}"));
        running.carry_on();
        running.end().assert(1, "failed", "gone");
        assert!(!path.exists());
        rig.assert_settled();
    }
}

fn raised() {
    for (state, spans) in STATES {
        let rig = Rig::new(state);
        let (running, mut workload) = in_state(&rig, state, spans);
        rig.group.write("memory.max", &(96 * MIB).to_string());
        let ended = running.end();
        let lowered = ended.passed("trial");
        ended.assert(2, if lowered { "rolled_back" } else { "refused" }, "limit_written");
        assert!(lowered || state != "watching", "{}", ended.text);
        assert_eq!(rig.limits(), ((96 * MIB).to_string(), HIGH.to_string()), "{state}");
        rig.assert_alive();
        assert!(workload.alive());
        rig.assert_settled();
    }
}

/// Somebody else writes `memory.high` while ours is on.
fn another_brake() {
    for (state, spans) in [STATES[2], STATES[3]] {
        let rig = Rig::new(state);
        let (running, mut workload) = in_state(&rig, state, spans);
        rig.group.write("memory.high", &(48 * MIB).to_string());
        let ended = running.end();
        ended.assert(2, "rolled_back", "limit_written");
        assert_eq!(rig.limits(), (MAX.to_string(), (48 * MIB).to_string()), "{state}");
        rig.assert_alive();
        assert!(workload.alive());
        rig.assert_settled();
    }
}

fn cancelled() {
    for ((state, spans), signal) in [(STATES[1], Signal::SIGTERM), (STATES[3], Signal::SIGINT)] {
        let rig = Rig::new(state);
        let (running, mut workload) = in_state(&rig, state, spans);
        running.signal(signal);
        let ended = running.end();
        let verdict = if ended.passed("trial") { "rolled_back" } else { "refused" };
        ended.assert(2, verdict, "cancelled");
        rig.assert_as_found();
        assert!(workload.alive());
        rig.assert_settled();
    }
}

/// Of the same cgroup, of the one above and of another container of the same pod.
fn second() {
    let node = Scratch::new("node");
    let kubepods = node.child("kubepods");
    let pods = ["pod1", "pod2"].map(|name| kubepods.child(name));
    let rig = Rig::around(pods[0].child("container"));
    let [sibling, other] = [pods[0].child("sibling"), pods[1].child("container")];
    for group in [&rig.group, &sibling, &other, &pods[0]] {
        limit(group);
    }
    let _workloads = [&sibling, &other].map(|group| Workload::run(group, "anon --size 4Mi"));
    let (running, mut workload) = in_state(&rig, "trial", Spans { trial: "600s", ..QUICK });
    let says = format!("already in progress by pid {}", running.pid());
    for group in [&rig.group, &sibling, &pods[0]] {
        let ended = rig.shrink_at(group.path(), "20Mi", QUICK, &[]);
        assert_eq!(ended.code, Some(1), "{}", ended.text);
        assert!(ended.text.contains(&says), "{}", ended.text);
    }
    let mut command = Command::new("/bin/enforcer");
    command.args(["shrink", "--to=20Mi", "--state-dir"]).arg(rig.state_dir()).arg(rig.group.path());
    let output = command.output().expect("enforcer starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&says) && !text.contains("loading"), "it is said at once: {text}");
    // Another pod's is nobody's concern.
    rig.shrink_at(other.path(), "20Mi", QUICK, &[]).assert_committed();
    for group in [&sibling, &pods[0]] {
        assert_eq!(group.limit("memory.max"), MAX.to_string());
    }
    running.signal(Signal::SIGINT);
    running.end().assert(2, "rolled_back", "cancelled");
    rig.assert_as_found();
    assert!(workload.alive());
    // And when it is over, the next may come.
    rig.shrink_at(sibling.path(), "20Mi", QUICK, &[]).assert_committed();
    rig.assert_settled();
}

/// Somebody has the state directory's lock and does not let go.
fn waiting() {
    let rig = Rig::new("waiting");
    let workload = Workload::run(&rig.group, "anon --size 4Mi");
    let lock = File::create(rig.state_dir().join("lock")).expect("makes");
    let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).expect("nobody has it");
    let running = rig.start("20Mi", QUICK);
    // A line with an arrow is of one that waits.
    while !fs::read_to_string("/proc/locks").expect("/proc/locks").contains("-> FLOCK") {
        std::thread::yield_now();
    }
    running.signal(Signal::SIGINT);
    running.end().assert(2, "refused", "cancelled");
    let output = Command::new("/bin/enforcer").args(["recover", "--state-dir"]).arg(rig.state_dir()).output();
    let output = output.expect("enforcer starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("pid {} has it locked", std::process::id())), "{text}");
    drop(lock);
    rig.assert_as_found();
    rig.assert_settled();
    drop(workload);
}

/// The kernel takes so many programs at one function (`BPF_MAX_TRAMP_LINKS`), and others hold them all.
fn crowded() {
    let rig = Rig::new("crowded");
    let _workload = Workload::run(&rig.group, "anon --size 8Mi");
    let need = Need::LimitWrite(LimitKind::MemoryMax);
    let mut others = Vec::new();
    loop {
        let other = Probe::load(&ProbeOptions::only([need])).expect("load the programs");
        if other.hooks().iter().all(|hook| hook.in_use.is_none()) {
            break;
        }
        others.push(other);
        assert!(others.len() < 64, "there is no end to it");
    }
    println!("{} others", others.len());
    let ended = rig.shrink("32Mi", QUICK, &[]);
    ended.assert_committed();
    assert!(
        ended.text.contains("writes to memory.max: who writes this limit is not known"),
        "{}",
        ended.text
    );
    rig.assert_unharmed(32 * MIB);
}
