//! Cgroups that are not simply a container with a process: each has a defined answer.

use super::rig::{MIB, QUICK, Rig, Spans, limit};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;

pub(super) fn cases() -> Vec<Case> {
    let full = |name, run| Case { name, tier: Tier::Full, needs: nothing, run };
    vec![
        full("shrink::a_pod_counts_what_is_below_it", nested),
        full("shrink::what_a_child_protects_is_in_the_floor", protected),
        full("shrink::a_frozen_cgroup_is_refused", frozen),
        full("shrink::frozen_in_trial_is_taken_back", frozen_midway),
        full("shrink::a_paused_container_in_a_pod_is_refused", paused),
        full("shrink::a_container_paused_in_trial_is_taken_back", paused_midway),
        full("shrink::an_empty_cgroup_needs_no_window", empty),
        full("shrink::a_workload_that_ends_in_trial_is_no_reason_to_commit", ended_midway),
        full("shrink::a_trial_that_nobody_watched_is_not_committed", held),
        full("shrink::a_threaded_cgroup_is_told_what_it_lacks", threaded),
        full("shrink::an_ancestor_with_the_tighter_limit_is_named", tighter),
        full("shrink::a_kill_below_for_its_own_limit_is_told_apart", kill_below),
    ]
}

fn nested() {
    let rig = Rig::new("pod");
    let containers = ["first", "second"].map(|name| rig.group.child(name));
    let mut workloads = [0, 1].map(|n: usize| Workload::run(&containers[n], "anon --size 12Mi"));
    containers[0].write("memory.max", &(32 * MIB).to_string());
    let refused = rig.shrink("20Mi", QUICK, &[]);
    refused.assert(2, "refused", "below_safe_minimum");
    assert!(refused.term("anon") >= 24 * MIB, "{}", refused.text);
    rig.assert_as_found();
    rig.shrink("40Mi", QUICK, &[]).assert_committed();
    rig.assert_unharmed(40 * MIB);
    assert_eq!(containers[0].limit("memory.max"), (32 * MIB).to_string());
    assert_eq!(containers[1].limit("memory.max"), "max");
    assert!(workloads.iter_mut().all(Workload::alive));
}

fn protected() {
    let rig = Rig::new("protected");
    let container = rig.group.child("container");
    container.write("memory.min", &(24 * MIB).to_string());
    let _workload = Workload::run(&container, "cache --file /data/shrink-protected --size 32Mi --anon 2Mi");
    let refused = rig.shrink("20Mi", QUICK, &[]);
    refused.assert(2, "refused", "below_safe_minimum");
    let found = refused.term("protected");
    assert!((16 * MIB..=24 * MIB).contains(&found), "{found}: {}", refused.text);
    rig.assert_as_found();
    // Without the protection the same cache is no reason.
    container.write("memory.min", "0");
    rig.shrink("20Mi", QUICK, &[]).assert_committed();
    rig.assert_unharmed(20 * MIB);
}

fn freeze(group: &Scratch, on: bool) {
    group.write("cgroup.freeze", if on { "1" } else { "0" });
    while group.counter("cgroup.events", "frozen") != u64::from(on) {
        std::thread::yield_now();
    }
}

fn frozen() {
    let rig = Rig::new("frozen");
    let _workload = Workload::run(&rig.group, "anon --size 8Mi");
    freeze(&rig.group, true);
    rig.shrink("32Mi", QUICK, &[]).assert(2, "refused", "frozen");
    rig.assert_as_found();
    assert_eq!(rig.group.counter("cgroup.events", "frozen"), 1, "it was thawed");
    freeze(&rig.group, false);
    rig.shrink("32Mi", QUICK, &[]).assert_committed();
    rig.assert_unharmed(32 * MIB);
}

fn frozen_midway() {
    let rig = Rig::new("midway");
    let _workload = Workload::run(&rig.group, "anon --size 8Mi");
    let mut running = rig.start("32Mi", Spans { trial: "60s", ..QUICK });
    running.reach("trial");
    freeze(&rig.group, true);
    running.end().assert(2, "rolled_back", "frozen");
    rig.assert_as_found();
}

/// A pod with a container that runs and one to be paused.
fn pod(name: &str) -> (Rig, [Scratch; 2], [Workload; 2]) {
    let rig = Rig::new(name);
    let containers = ["idle", "busy"].map(|name| rig.group.child(name));
    let workloads = [0, 1].map(|n: usize| Workload::run(&containers[n], "anon --size 4Mi"));
    (rig, containers, workloads)
}

fn paused() {
    let (rig, [container, _busy], _workloads) = pod("paused");
    freeze(&container, true);
    let refused = rig.shrink("32Mi", QUICK, &[]);
    refused.assert(2, "refused", "frozen_below");
    refused.assert(2, "refused", "/idle");
    rig.assert_as_found();
    assert_eq!(container.counter("cgroup.events", "frozen"), 1, "it was thawed");
    freeze(&container, false);
    rig.shrink("32Mi", QUICK, &[]).assert_committed();
    rig.assert_unharmed(32 * MIB);
}

fn paused_midway() {
    let (rig, [container, _busy], _workloads) = pod("pausing");
    let mut running = rig.start("32Mi", Spans { trial: "60s", ..QUICK });
    running.reach("trial");
    freeze(&container, true);
    running.end().assert(2, "rolled_back", "frozen_below");
    rig.assert_as_found();
}

/// It may be about to start again.
fn ended_midway() {
    let rig = Rig::new("restart");
    let workload = Workload::run(&rig.group, "anon --size 8Mi");
    let mut running = rig.start("32Mi", QUICK);
    running.reach("trial");
    drop(workload);
    running.end().assert(2, "rolled_back", "unseen");
    rig.assert_as_found();
}

/// Longer than the trial and than what is left for another, shorter than the deadline. The restorer does not wait so
/// long for a sign of life: who comes first gives the reason.
fn held() {
    let rig = Rig::new("held");
    let _workload = Workload::run(&rig.group, "anon --size 8Mi");
    let mut running = rig.start("32Mi", Spans { trial: "4s", ..QUICK });
    running.reach("trial");
    running.hold();
    // Time that passes unwatched is what this is about.
    std::thread::sleep(std::time::Duration::from_secs(7));
    running.carry_on();
    let ended = running.end();
    ended.assert(2, "rolled_back", "");
    let said =
        ["readings stopped", "out of time", "restorer is gone"].iter().any(|why| ended.text.contains(why));
    assert!(said, "{}", ended.text);
    rig.assert_as_found();
}

fn empty() {
    let rig = Rig::new("empty");
    // A day: nobody is there whom a window could show.
    let ended = rig.shrink("4Mi", Spans { observe: "24h", trial: "24h", watch: "24h" }, &[]);
    ended.assert_committed();
    assert!(ended.notes().contains("no process lives in the cgroup"), "{}", ended.notes());
    rig.assert_unharmed(4 * MIB);
}

fn threaded() {
    let rig = Rig::new("threaded");
    let thread = rig.group.path().join("thread");
    std::fs::create_dir(&thread).expect("makes a cgroup");
    std::fs::write(thread.join("cgroup.type"), "threaded").expect("becomes threaded");
    let ended = rig.shrink_at(&thread, "32Mi", QUICK, &[]);
    std::fs::remove_dir(&thread).expect("goes");
    assert_eq!(ended.code, Some(64), "{}", ended.text);
    assert!(ended.text.contains("it is threaded"), "{}", ended.text);
    rig.assert_as_found();
}

fn tighter() {
    let pod = Scratch::new("pod");
    let rig = Rig::around(pod.child("container"));
    limit(&rig.group);
    pod.write("memory.max", &(24 * MIB).to_string());
    let _workload = Workload::run(&rig.group, "anon --size 8Mi");
    let ended = rig.shrink("32Mi", QUICK, &[]);
    ended.assert_committed();
    let name = pod.path().file_name().and_then(|name| name.to_str()).expect("a name");
    let note = format!("{name} has the tighter limit: memory.max 24Mi");
    assert!(ended.notes().contains(&note), "{}", ended.notes());
    rig.assert_unharmed(32 * MIB);
    assert_eq!(pod.limit("memory.max"), (24 * MIB).to_string());
}

/// A child that dies of its own limit during a trial is no reason to take the parent's shrink back.
fn kill_below() {
    let rig = Rig::new("below");
    let [calm, tight] = ["calm", "tight"].map(|name| rig.group.child(name));
    tight.write("memory.max", &(4 * MIB).to_string());
    let mut workload = Workload::run(&calm, "anon --size 8Mi");
    let mut running = rig.start("32Mi", Spans { trial: "4s", ..QUICK });
    running.reach("trial");
    let mut victim = Workload::launch(enforcer_vm_tests::workload::PROGRAM, &tight, "anon --size 16Mi");
    victim.wait();
    assert_eq!(tight.kills(), 1);
    let ended = running.end();
    ended.assert_committed();
    assert!(ended.notes().contains("was killed for another cgroup's limit"), "{}", ended.notes());
    assert_eq!(rig.limits().0, (32 * MIB).to_string());
    assert_eq!(rig.group.kills(), 0);
    assert!(workload.alive());
}
