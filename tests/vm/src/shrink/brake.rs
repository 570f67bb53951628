//! What the brake does to a workload, and for how long.

use super::rig::{HIGH, MAX, MIB, QUICK, Rig, Spans, number};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::workload::Workload;
use serde_json::Value;

pub(super) fn cases() -> Vec<Case> {
    let smoke = |name, run| Case { name, tier: Tier::Smoke, needs: nothing, run };
    let full = |name, run| Case { name, tier: Tier::Full, needs: nothing, run };
    vec![
        smoke("shrink::the_breaker_lifts_the_brake_within_a_second", breaker),
        full("shrink::a_leak_under_the_brake_is_taken_back", leak),
        smoke("shrink::cache_goes_first", cache_at_full_size),
        full("shrink::probes_answer_beside_cache", probe_beside_cache),
        full("shrink::probes_answer_beside_bursts", probe_beside_bursts),
        full("shrink::bursts_in_the_window_take_it_back", burst_in_trial),
        full("shrink::bursts_in_the_watch_take_it_back", burst_in_watch),
    ]
}

/// When an entry was made, in microseconds.
fn at(entry: &Value) -> u64 {
    number(&entry["at_us"])
}

fn is_command(entry: &Value, action: &str) -> bool {
    entry["command"]["action"].get(action).is_some()
}

/// From the first sign that the brake bites to `memory.high` back as found, in microseconds; `None` where it was off
/// before anything came up to it.
fn brake_time(trace: &[Value]) -> Option<u64> {
    let on = trace.iter().position(|entry| is_command(entry, "set_brake")).expect("the brake was on");
    let brake = number(&trace[on]["command"]["action"]["set_brake"]["high"]["bytes"]);
    let bites = |entry: &&Value| {
        let over = entry["outcome"]["kind"]["sampled"]["current"].as_u64().is_some_and(|usage| usage > brake);
        over || entry["signal"] == "reclaim_begin"
    };
    let bite = trace[on..].iter().find(bites)?;
    let back = trace.iter().rfind(|entry| is_command(entry, "restore")).expect("nothing was put back");
    let id = &back["command"]["id"];
    let done = trace.iter().find(|entry| entry["outcome"]["id"] == *id).expect("the restore has an outcome");
    assert_eq!(done["outcome"]["kind"], "done", "{done}");
    Some(at(done).saturating_sub(at(bite)))
}

/// A process that allocates and allocates, from when `memory.high` goes down; nothing can be reclaimed.
fn breaker() {
    let rig = Rig::new("breaker");
    let mut workload = Workload::run(&rig.group, "gap --base 12Mi --burst 40Mi --on high");
    let ended = rig.shrink("24Mi", Spans { trial: "60s", ..QUICK }, &[]);
    ended.assert(2, "rolled_back", "");
    let reason = ended.certificate["reason"].to_string();
    assert!(
        ["growth", "brake_livelock", "stall_budget"].iter().any(|known| reason.contains(known)),
        "{reason}"
    );
    rig.assert_as_found();
    // The case itself is about time: a second, of which this leaves nothing to the emulator.
    let took = brake_time(&ended.trace());
    let high = number(&ended.certificate["deltas"]["high"]);
    println!("the brake bit for {took:?} us, {high} high events");
    match took {
        Some(took) => assert!(took <= 1_000_000, "{took} us"),
        // It was seen on its way.
        None => assert!(reason.contains("growth"), "{reason}"),
    }
    assert!(workload.line().starts_with("gap "), "the workload never got its memory");
    assert!(workload.alive());
}

/// Lets `workload` grow in small steps until the limits are back as found.
pub(super) fn grow_until_taken_back(rig: &Rig, workload: &mut Workload) {
    let as_found = (MAX.to_string(), HIGH.to_string());
    for step in 0..96 {
        workload.tell("grow 256Ki");
        let said = workload.line();
        assert!(
            said.starts_with("ok"),
            "killed in step {step} while the brake was on: {said:?}, {:?}",
            rig.limits()
        );
        if rig.limits() == as_found {
            return;
        }
    }
    panic!("24 MiB more, and the brake is still on");
}

fn leak() {
    let rig = Rig::new("leak");
    let mut workload = Workload::run(&rig.group, "steps");
    workload.tell("grow 12Mi");
    assert!(workload.line().starts_with("ok"));
    let mut running = rig.start("24Mi", Spans { trial: "60s", ..QUICK });
    running.reach("trial");
    rig.await_brake();
    grow_until_taken_back(&rig, &mut workload);
    let ended = running.end();
    ended.assert(2, "rolled_back", "");
    assert!(!ended.passed("committing"), "{}", ended.text);
    rig.assert_as_found();
    assert!(workload.alive());
}

/// 10 MiB of anonymous memory and 120 MiB of clean cache, 160 -> 100 MiB.
fn cache_at_full_size() {
    let rig = Rig::new("cache");
    rig.group.write("memory.high", "max");
    rig.group.write("memory.max", &(160 * MIB).to_string());
    let mut workload = Workload::run(&rig.group, "cache --file /data/shrink-cache --size 120Mi --anon 10Mi");
    let ended = rig.shrink("100Mi", QUICK, &[]);
    ended.assert_committed();
    assert_eq!(rig.limits(), ((100 * MIB).to_string(), "max".into()));
    rig.assert_alive();
    assert!(workload.alive());
    let certificate = &ended.certificate;
    let freed = certificate["reclaim"].as_array().expect("a list").iter().map(|step| number(&step["freed"]));
    assert!(freed.sum::<u64>() > 25 * MIB, "{certificate}");
    assert_eq!(number(&certificate["stall"]["full_total"]), 0, "{certificate}");
}

/// A probe may take so long; a second on a node, five where fork and exec are emulated.
const PROBE: &str = "probe --period 200ms --timeout 5s";

fn probe_beside(line: &str, to: &str, spans: Spans) {
    let rig = Rig::new("probe");
    let mut workload = Workload::run(&rig.group, line);
    let mut probe = Workload::run(&rig.group, PROBE);
    let ended = rig.shrink(to, spans, &[]);
    ended.assert_committed();
    assert!(ended.passed("trial"));
    rig.assert_unharmed(to.trim_end_matches("Mi").parse::<u64>().expect("a number") * MIB);
    assert!(workload.alive());
    assert!(probe.finish().success());
    let mut last = probe.line();
    while !last.starts_with("probe runs") {
        assert!(!last.is_empty(), "the probe gave no count");
        last = probe.line();
    }
    println!("{last}");
    let word = |n: usize| last.split(' ').nth(n).and_then(|word| word.parse::<u64>().ok()).expect("a number");
    assert!(word(2) >= 3, "{last}");
    assert_eq!(word(4), 0, "{last}");
}

fn probe_beside_cache() {
    probe_beside(
        "cache --file /data/shrink-probe --size 40Mi --anon 6Mi",
        "24Mi",
        Spans { trial: "3s", ..QUICK },
    );
}

fn probe_beside_bursts() {
    let line = "bursts --base 8Mi --burst 8Mi --period 1s --duty 300ms";
    probe_beside(line, "32Mi", Spans { observe: "2s", trial: "3s", watch: "1s" });
}

/// What looks idle as long as it is observed, and then is not: a heap that is touched within the trial.
fn burst_in_trial() {
    let rig = Rig::new("burst");
    let mut workload = Workload::run(&rig.group, "steps");
    workload.tell("grow 8Mi");
    assert!(workload.line().starts_with("ok"));
    let mut running = rig.start("20Mi", Spans { trial: "60s", ..QUICK });
    running.reach("trial");
    workload.tell("grow 24Mi");
    let ended = running.end();
    ended.assert(2, "rolled_back", "");
    assert!(!ended.passed("committing"), "{}", ended.text);
    rig.assert_as_found();
    assert!(workload.line().starts_with("ok"), "killed");
    assert!(workload.alive());
}

/// The limit is in force already when it grows: no faster than the brake can hold.
fn burst_in_watch() {
    let rig = Rig::new("watch");
    let mut gap = Workload::run(&rig.group, "gap --base 8Mi --burst 6Mi --on max --poll 1ms");
    let mut slow = Workload::run(&rig.group, "steps");
    let mut running = rig.start("24Mi", Spans { watch: "60s", ..QUICK });
    running.reach("watching");
    // Within what was let in.
    assert!(gap.line().starts_with("gap "));
    grow_until_taken_back(&rig, &mut slow);
    let ended = running.end();
    ended.assert(2, "rolled_back", "");
    assert!(ended.passed("watching"), "{}", ended.text);
    rig.assert_as_found();
    assert!(gap.alive() && slow.alive());
}
