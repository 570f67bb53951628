//! `kill -9` of the command, in every state, with nobody to restart it.

use super::races::{STATES, TO, TO_BYTES, in_state};
use super::rig::{HIGH, MAX, MIB, QUICK, Rig, Spans};
use crate::process::Other;
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

pub(super) fn cases() -> Vec<Case> {
    let smoke = |name, run| Case { name, tier: Tier::Smoke, needs: nothing, run };
    let full = |name, run| Case { name, tier: Tier::Full, needs: nothing, run };
    vec![
        full("shrink::kill_9_in_every_state_leaves_all_as_found", killed),
        full("shrink::both_killed_is_settled_by_recover", both_killed),
        full("shrink::both_killed_is_settled_by_the_next_shrink", next_shrink),
        full("shrink::what_a_killed_run_left_is_said_by_who_only_looks", looked_at),
        full("shrink::a_raise_after_the_crash_is_never_undone", raised_after),
        full("shrink::a_killed_restorer_takes_everything_back_at_once", restorer_killed),
        full("shrink::killed_beside_a_stopped_restorer_it_is_said_who_has_it", beside_stopped_restorer),
        full("shrink::a_stopped_run_is_undone_while_it_is_stopped", stopped),
        full("shrink::stopped_at_its_end_it_says_what_is_in_force", stopped_at_its_end),
        smoke("shrink::a_stopped_run_kills_nobody_that_grows", stopped_beside_growth),
        full("shrink::a_run_whose_cgroup_is_frozen_or_killed_is_undone", with_its_cgroup),
    ]
}

/// The restorer acts for it; when it goes on it finds everything as it was, and says so.
fn stopped() {
    for (state, spans) in STATES.into_iter().filter(|(state, _)| ["trial", "watching"].contains(state)) {
        let rig = Rig::new(state);
        let (running, mut workload) = in_state(&rig, state, spans);
        let restorer = Other::new(running.restorer());
        running.hold();
        rig.becomes_as_found();
        running.carry_on();
        restorer.wait();
        running.end().assert(2, "rolled_back", "");
        rig.assert_as_found();
        assert!(workload.alive(), "{state}");
        rig.assert_settled();
    }
}

/// How often it is stopped between the end of the watch and its own, a moment of milliseconds that is not met each time.
const STOPS: usize = 2;

/// What a restorer takes to act for a session that is silent, several times over. To one that rests its restorer leaves the
/// limit.
const SILENT: Duration = Duration::from_secs(8);

/// The restorer puts the limit back while the command is stopped with the brake off and nothing left to do but to say that it
/// is done.
fn stopped_at_its_end() {
    let mut met = 0;
    for _ in 0..STOPS {
        let rig = Rig::new("end");
        // Time enough to be told of its first state before it is at its end.
        let (mut running, mut workload) = in_state(&rig, "observing", Spans { observe: "3s", ..QUICK });
        let restorer = Other::new(running.restorer());
        running.reach("watching");
        let lowered = (TO_BYTES.to_string(), HIGH.to_string());
        while rig.limits() != lowered && !restorer.has_ended() {
            std::thread::yield_now();
        }
        running.hold();
        let held = Instant::now();
        while rig.limits() == lowered && !restorer.has_ended() && held.elapsed() < SILENT {
            std::thread::sleep(Duration::from_millis(10));
        }
        running.carry_on();
        restorer.wait();
        let ended = running.end();
        let is_undone = rig.limits().0 == MAX.to_string();
        met += usize::from(is_undone);
        if is_undone {
            ended.assert(2, "rolled_back", "restorer_gone");
            rig.assert_as_found();
        } else {
            ended.assert_committed();
            rig.assert_unharmed(TO_BYTES);
        }
        assert!(workload.alive());
        rig.assert_settled();
    }
    println!("put back in {met} of {STOPS} stops");
}

/// With the lower limit in force, and long before the command's silence tells: the restorer looks by itself.
fn stopped_beside_growth() {
    let rig = Rig::new("growth");
    let mut workload = Workload::run(&rig.group, "steps");
    workload.tell("grow 12Mi");
    assert!(workload.line().starts_with("ok"));
    let mut running = rig.start(TO, Spans { watch: "120s", ..QUICK });
    running.reach("watching");
    let restorer = Other::new(running.restorer());
    running.hold();
    workload.tell("grow 32Mi");
    let said = workload.line();
    assert!(said.starts_with("ok"), "{said:?}, {:?}", rig.limits());
    rig.becomes_as_found();
    running.carry_on();
    restorer.wait();
    running.end().assert(2, "rolled_back", "");
    rig.assert_as_found();
    rig.assert_alive();
    assert!(workload.alive());
    rig.assert_settled();
}

/// What is done to the cgroup that the command runs in is not done to its restorer.
fn with_its_cgroup() {
    for file in ["cgroup.freeze", "cgroup.kill"] {
        let rig = Rig::new("target");
        let agent = Scratch::new("agent");
        let own = std::process::id().to_string();
        agent.write("cgroup.procs", &own);
        let (state, spans) = STATES[3];
        let (mut running, mut workload) = in_state(&rig, state, spans);
        std::fs::write("/sys/fs/cgroup/cgroup.procs", own).expect("leave it");
        let restorer = Other::new(running.restorer());
        assert_eq!(rig.limits().0, TO_BYTES.to_string());
        agent.write(file, "1");
        rig.becomes_as_found();
        assert!(workload.alive(), "{file}");
        running.kill();
        restorer.wait();
        rig.assert_as_found();
        rig.assert_settled();
    }
}

/// The command itself lives on: it takes back what it lowered, and says why.
fn restorer_killed() {
    for (state, spans) in STATES {
        let rig = Rig::new(state);
        let (running, mut workload) = in_state(&rig, state, spans);
        Other::new(running.restorer()).signal(Signal::SIGKILL);
        let ended = running.end();
        let verdict = if ended.passed("trial") { "rolled_back" } else { "refused" };
        ended.assert(2, verdict, "restorer_gone");
        rig.assert_as_found();
        assert!(workload.alive(), "{state}");
        rig.assert_settled();
    }
}

/// Nobody can put back what is in force then, and no other may take it from who is about to.
fn beside_stopped_restorer() {
    let (state, spans) = STATES[3];
    let rig = Rig::new("stopped-restorer");
    let (mut running, mut workload) = in_state(&rig, state, spans);
    let pid = running.restorer();
    let restorer = Other::new(pid);
    restorer.signal(Signal::SIGSTOP);
    running.kill();
    let (code, runs) = rig.recover();
    assert_eq!((code, &runs[0]["result"]), (Some(1), &Value::from("restorer")), "{runs}");
    assert!(runs[0]["why"].as_str().is_some_and(|why| why.contains(&pid.to_string())), "{runs}");
    assert_eq!(rig.limits().0, TO_BYTES.to_string());
    let ended = rig.shrink(TO, QUICK, &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.text);
    assert!(ended.text.contains(&format!("already in progress by pid {pid}")), "{}", ended.text);
    restorer.signal(Signal::SIGCONT);
    restorer.wait();
    rig.assert_as_found();
    assert!(workload.alive());
    rig.assert_settled();
}

/// A state that is over soon: what is killed there may be on its way to the next.
const COMMITTING: (&str, Spans) = ("committing", Spans { watch: "60s", ..QUICK });

fn killed() {
    for (state, spans) in STATES.into_iter().chain([COMMITTING]) {
        let rig = Rig::new(state);
        let (mut running, mut workload) = in_state(&rig, state, spans);
        let restorer = Other::new(running.restorer());
        if state == "watching" {
            assert_eq!(rig.limits().0, TO_BYTES.to_string(), "nothing is lowered in {state}");
        }
        running.kill();
        restorer.wait();
        rig.assert_as_found();
        assert!(workload.alive(), "{state}");
        rig.assert_settled();
    }
}

/// The command and its restorer die in `state`; neither can act for the other.
fn leave(rig: &Rig, state: &str, spans: Spans) -> Workload {
    let (mut running, workload) = in_state(rig, state, spans);
    running.hold();
    let restorer = Other::new(running.restorer());
    restorer.signal(Signal::SIGKILL);
    running.kill();
    restorer.wait();
    workload
}

fn both_killed() {
    for (state, spans) in STATES {
        let rig = Rig::new(state);
        let mut workload = leave(&rig, state, spans);
        let left = rig.limits();
        match state {
            "observing" => assert_eq!(left, (MAX.to_string(), HIGH.to_string())),
            "watching" => assert_eq!(left.0, TO_BYTES.to_string()),
            _ => assert_eq!(left.0, MAX.to_string()),
        }
        if state == "trial" || state == "watching" {
            assert!(left.1.parse::<u64>().is_ok_and(|high| high < TO_BYTES), "{state}: {left:?}");
        }
        let (code, runs) = rig.recover();
        assert_eq!(code, Some(0), "{runs}");
        let files: Vec<_> = runs
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|run| run["files"].as_array())
            .flatten()
            .collect();
        let restored = files.iter().filter(|file| file["result"] == "restored").count();
        let expected = usize::from(left.0 != MAX.to_string()) + usize::from(left.1 != HIGH.to_string());
        assert_eq!(restored, expected, "{state}: {runs}");
        rig.assert_as_found();
        assert!(workload.alive(), "{state}");
        rig.assert_settled();
    }
}

/// Nobody calls `enforcer recover`: the next shrink finds the leftover, and what it puts back is what it was.
fn next_shrink() {
    let rig = Rig::new("next");
    let (state, spans) = STATES[3];
    let mut workload = leave(&rig, state, spans);
    assert_eq!(rig.limits().0, TO_BYTES.to_string());
    let ended = rig.shrink(TO, QUICK, &[]);
    ended.assert_committed();
    assert!(ended.notes().contains("settled an earlier run"), "{}", ended.notes());
    assert_eq!(ended.certificate["previous_max"]["bytes"], MAX, "{}", ended.text);
    assert_eq!(ended.certificate["previous_high"]["bytes"], HIGH, "{}", ended.text);
    rig.assert_unharmed(TO_BYTES);
    assert!(workload.alive());
    rig.assert_settled();
}

/// Who only looks leaves it as it is, and says that the limits are no one's choice.
fn looked_at() {
    let rig = Rig::new("looked-at");
    let (state, spans) = STATES[3];
    let mut workload = leave(&rig, state, spans);
    let left = rig.limits();
    let said = |args: &[&str]| {
        let output = Command::new("/bin/enforcer")
            .arg(args[0])
            .arg(rig.group.path())
            .args(&args[1..])
            .arg("--state-dir")
            .arg(rig.state_dir())
            .output()
            .expect("enforcer starts");
        String::from_utf8(output.stdout).expect("text")
    };
    let floor = ["floor", "--window=500ms"];
    let dry = ["shrink", "--to=48Mi", "--observe=500ms", "--dry-run"];
    for args in [&floor[..], &dry] {
        let unsettled = |text: &str| serde_json::from_str::<Value>(text).expect("JSON")["unsettled"].clone();
        let json = [args, &["--json"]].concat();
        let (text, before) = (said(args), unsettled(&said(&json)));
        assert!(text.contains("an earlier run was killed and left its limits here"), "{args:?}: {text}");
        assert_eq!(before, true, "{args:?}");
    }
    assert_eq!(rig.limits(), left);
    assert_eq!(rig.recover().0, Some(0));
    rig.assert_as_found();
    for args in [&floor[..], &dry] {
        let text = said(args);
        assert!(text.contains("safe minimum") && !text.contains("an earlier run"), "{args:?}: {text}");
    }
    assert!(workload.alive());
}

fn raised_after() {
    // Both are dead, somebody raises, then somebody recovers.
    let rig = Rig::new("raised");
    let (state, spans) = STATES[3];
    let mut workload = leave(&rig, state, spans);
    rig.group.write("memory.max", &(128 * MIB).to_string());
    let (code, runs) = rig.recover();
    assert_eq!(code, Some(0), "{runs}");
    let superseded = runs[0]["files"].as_array().expect("a list").iter().find(|f| f["file"] == "memory.max");
    assert_eq!(superseded.expect("of memory.max")["result"], "superseded", "{runs}");
    assert_eq!(rig.limits(), ((128 * MIB).to_string(), HIGH.to_string()));
    assert!(workload.alive());
    rig.assert_settled();
    drop(workload);

    // The restorer lives, but somebody raises before it can act.
    let rig = Rig::new("raised");
    let (mut running, mut workload) = in_state(&rig, state, spans);
    let restorer = Other::new(running.restorer());
    restorer.signal(Signal::SIGSTOP);
    running.kill();
    rig.group.write("memory.max", "max");
    restorer.signal(Signal::SIGCONT);
    restorer.wait();
    assert_eq!(rig.limits(), ("max".into(), HIGH.to_string()));
    rig.assert_alive();
    assert!(workload.alive());
    rig.assert_settled();
}
