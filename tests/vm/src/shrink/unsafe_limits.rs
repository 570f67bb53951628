//! Limits that would kill: a bare write does, the command never makes one.

use super::rig::{MAX, MIB, QUICK, Rig, Spans};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use std::os::unix::process::ExitStatusExt as _;

pub(super) fn cases() -> Vec<Case> {
    let smoke = |name, run| Case { name, tier: Tier::Smoke, needs: nothing, run };
    let full = |name, run| Case { name, tier: Tier::Full, needs: nothing, run };
    vec![
        smoke("shrink::a_bare_write_kills_the_twin", twins),
        full("shrink::a_limit_far_under_usage_is_never_written", far_under),
        full("shrink::up_and_down_as_in_the_report", up_and_down),
        full("shrink::the_same_cause_kills_no_second_time", again),
        full("shrink::one_of_two_containers", two_containers),
        full("shrink::tmpfs_at_full_size", || names("shmem", "tmpfs --dir /tmp --size 120Mi")),
        full("shrink::locked_memory_at_full_size", || names("unevictable", "mlock --size 120Mi")),
        full("shrink::wrong_targets_change_nothing", wrong),
    ]
}

const ANON: &str = "anon --size 32Mi";

/// The same target for two that are the same: by a bare write, and by the command.
fn twins() {
    let twin = Rig::new("twin");
    let mut victim = Workload::run(&twin.group, ANON);
    twin.group.write("memory.max", &(16 * MIB).to_string());
    assert_eq!(victim.wait().signal(), Some(9), "a bare write left the twin alive");
    assert!(twin.group.kills() >= 1);

    let rig = Rig::new("ours");
    let mut workload = Workload::run(&rig.group, ANON);
    let refused = rig.shrink("16Mi", QUICK, &[]);
    refused.assert(2, "refused", "below_safe_minimum");
    rig.assert_as_found();
    let asked = refused.trace().into_iter().filter_map(|entry| entry.get("command").cloned());
    let wrote = asked.filter(|command| command["action"] != "observe");
    assert_eq!(wrote.count(), 0, "something was written before the refusal");

    // The safe minimum that it names is one, and not one that any limit would be.
    let safe = refused.safe_minimum();
    assert!((33 * MIB..44 * MIB).contains(&safe), "{safe}");
    rig.shrink(&safe.to_string(), QUICK, &[]).assert_committed();
    rig.assert_unharmed(safe);
    assert!(workload.alive());
}

/// 27,033 bytes where 270,336 are in use and 6,082,560 once were.
fn far_under() {
    let rig = Rig::new("far");
    let mut workload = Workload::run(&rig.group, "steps");
    for step in ["grow 5Mi", "free"] {
        workload.tell(step);
        assert!(workload.line().starts_with("ok"));
    }
    let refused = rig.shrink("27033", QUICK, &[]);
    refused.assert(2, "refused", "below_safe_minimum");
    rig.assert_as_found();
    assert!(workload.alive());
}

/// About 14 MiB in use; 15, 20, 15 and 10 MiB, then a sane one.
fn up_and_down() {
    let rig = Rig::new("up-and-down");
    let mut workload = Workload::run(&rig.group, "anon --size 13Mi");
    let limit = |mib: u64| rig.group.write("memory.max", &(mib * MIB).to_string());
    limit(15);
    limit(20);
    // So near to usage nothing is left for the next burst.
    let near = rig.shrink("15Mi", QUICK, &[]);
    near.assert(2, "refused", "below_safe_minimum");
    rig.assert_unharmed(20 * MIB);
    let refused = rig.shrink("10Mi", QUICK, &[]);
    refused.assert(2, "refused", "below_safe_minimum");
    rig.assert_unharmed(20 * MIB);
    let safe = refused.safe_minimum();
    assert!((15 * MIB..19 * MIB).contains(&safe), "{safe}");
    rig.shrink("19Mi", QUICK, &[]).assert_committed();
    rig.assert_unharmed(19 * MIB);
    rig.shrink("20Mi", QUICK, &[]).assert(2, "refused", "not_a_shrink");
    rig.assert_unharmed(19 * MIB);
    assert!(workload.alive());
}

/// 93 MiB are needed; 64 are asked for, then 47.
fn again() {
    let rig = Rig::new("again");
    rig.group.write("memory.high", "max");
    rig.group.write("memory.max", &(128 * MIB).to_string());
    let mut workload = Workload::run(&rig.group, "anon --size 93Mi");
    for to in ["64Mi", "47Mi"] {
        rig.shrink(to, QUICK, &[]).assert(2, "refused", "below_safe_minimum");
        assert_eq!(rig.limits(), ((128 * MIB).to_string(), "max".into()));
    }
    rig.assert_alive();
    assert!(workload.alive());
}

fn two_containers() {
    let pod = Scratch::new("pod");
    let sibling = pod.child("sibling");
    let rig = Rig::around(pod.child("container"));
    for group in [&sibling, &rig.group] {
        super::rig::limit(group);
    }
    let mut workloads = [&sibling, &rig.group].map(|group| Workload::run(group, ANON));
    rig.shrink("16Mi", QUICK, &[]).assert(2, "refused", "below_safe_minimum");
    rig.assert_as_found();
    assert_eq!(sibling.limit("memory.max"), MAX.to_string());
    assert_eq!(pod.counter("memory.events", "oom_kill"), 0);
    assert!(workloads.iter_mut().all(Workload::alive));
}

/// 120 MiB that nothing reclaims, 160 -> 100 MiB.
fn names(term: &str, line: &str) {
    let rig = Rig::new(term);
    rig.group.write("memory.high", "max");
    rig.group.write("memory.max", &(160 * MIB).to_string());
    let mut workload = Workload::run(&rig.group, line);
    let refused = rig.shrink("100Mi", QUICK, &[]);
    refused.assert(2, "refused", "below_safe_minimum");
    let found = refused.term(term);
    assert!((120 * MIB..122 * MIB).contains(&found), "{term} {found}: {}", refused.text);
    assert_eq!(rig.limits(), ((160 * MIB).to_string(), "max".into()));
    rig.assert_alive();
    assert!(workload.alive());
}

fn wrong() {
    let rig = Rig::new("wrong");
    for (to, says) in [
        ("0", "zero"),
        ("1", "less than a page"),
        ("4095", "less than a page"),
        ("1e3", "less than a page"),
        ("12x", "no suffix"),
        ("-1", "negative"),
        ("", "empty"),
        ("9999999Ti", "more than"),
    ] {
        let ended = rig.shrink(to, QUICK, &[]);
        assert_eq!(ended.code, Some(64), "{to:?}: {}", ended.text);
        assert!(ended.text.contains(says), "{to:?}: {}", ended.text);
    }
    rig.shrink("0.5Gi", QUICK, &[]).assert(2, "refused", "not_a_shrink");
    let backwards = rig.shrink("16Mi", Spans { trial: "0s", ..QUICK }, &[]);
    assert_eq!(backwards.code, Some(64), "{}", backwards.text);
    rig.assert_as_found();
    rig.assert_settled();
}
