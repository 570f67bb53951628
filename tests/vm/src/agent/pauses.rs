//! The stop switch: what it lifts, and what it does not wait for.

use super::acts::{HELD, LABEL, braked, limit, wasteful};
use super::{MIB, block_on, cgroup_of, holds, is_under, memory};
use crate::cri::rig::{Containerd, LONG, STOPPING, stopped_update, updates_go_on};
use crate::debian::{kills, read, write};
use enforcer::admin::model::ContainerView;
use enforcer_gate::{Bytes, Limit};
use enforcer_vm_tests::agent_rig::{AT_ONCE, Agent, says, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::{Duration, Instant};

const WHOLE: u64 = 128 * MIB;

fn limits(cgroup: &Path) -> (u64, String) {
    (limit(cgroup), read(cgroup, "memory.high"))
}

/// Pauses; by the answer nothing is braked and nothing is on its way.
async fn pause(agent: &Agent, cgroup: &Path, what: &str) {
    let asked = Instant::now();
    let watched = cgroup.to_owned();
    let lifted = std::thread::spawn(move || {
        while read(&watched, "memory.high") != "max" {
            assert!(asked.elapsed() < LONG, "the brake is lifted");
            std::thread::yield_now();
        }
        asked.elapsed()
    });
    let (code, out, err) = agent.ask(&["pause"]);
    let answered = asked.elapsed();
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(read(cgroup, "memory.high"), "max");
    println!(
        "{what}: the brake was off after {:?}, the answer came after {answered:?}",
        lifted.join().expect("lifted")
    );
    let status = agent.status().await;
    assert!(status.paused);
    assert!(status.in_flight.iter().all(|flight| flight.state == "ending"), "{:?}", status.in_flight);
}

/// A flight in this state.
async fn comes_to(agent: &Agent, state: &str) {
    let began = Instant::now();
    while !agent.status().await.in_flight.iter().any(|flight| flight.state == state) {
        assert!(began.elapsed() < LONG, "it comes to {state}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Containerd is stopped under the brake, and while it is asked whether it takes the limit that the gate has committed.
pub(super) fn hung_runtime() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&[&AT_ONCE[..], &["gate.window=600s"]].concat());
        wasteful(&mut containerd, &[LABEL]).await;
        let cgroup = cgroup_of(&braked(&agent).await);
        containerd.signal(Signal::SIGSTOP);
        pause(&agent, &cgroup, "containerd stopped in the trial").await;
        assert_eq!(limits(&cgroup), (WHOLE, "max".into()));
        containerd.signal(Signal::SIGCONT);
        agent.end();

        let agent = Agent::ready(&[&AT_ONCE[..], &["gate.watch=5s"]].concat());
        comes_to(&agent, "watching").await;
        containerd.signal(Signal::SIGSTOP);
        // The gate is done with it, and the runtime is asked.
        let began = Instant::now();
        while read(&cgroup, "memory.high") != "max" {
            assert!(began.elapsed() < LONG, "the watch ends");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(limit(&cgroup) < WHOLE);
        pause(&agent, &cgroup, "containerd stopped before the update").await;
        agent.heard("how it ended", |said| said["kind"] == "verdict" && !text(said).contains("begins"));
        assert_eq!(
            (limits(&cgroup), kills(&cgroup).as_str()),
            ((WHOLE, "max".into()), "0"),
            "it was not told to the runtime"
        );
        containerd.signal(Signal::SIGCONT);
        agent.end();
        containerd.end().await;
    });
}

/// The runtime's own program hangs in the middle of the update: what it was sent may come into force at any time, so the limit
/// stays, which is the one that the gate has found safe.
pub(super) fn hung_update() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&AT_ONCE);
        containerd.run_pod_with("web", STOPPING[0], &[LABEL], &[]).await;
        let program = holds(20);
        let program: Vec<_> = program.iter().map(String::as_str).collect();
        containerd.run_job("app", &program, memory(WHOLE)).await;
        let view: ContainerView = agent.seen("app", "lower", |view| is_under(view, Bytes::new(WHOLE))).await;
        let cgroup = cgroup_of(&view);
        let stopped = stopped_update().await;
        let lower = limit(&cgroup);
        assert!(lower < WHOLE);
        pause(&agent, &cgroup, "the update hung").await;
        assert_eq!(limits(&cgroup), (lower, "max".into()));
        assert_eq!(agent.page("/healthz").0, 200);
        updates_go_on(stopped);
        // The runtime has it now, or has let it go.
        let view = agent.seen("app", "as it was left", |view| view.drift.is_empty()).await;
        let had = [view.limit, Some(Limit::Bytes(Bytes::new(WHOLE)))];
        assert!(had.contains(&view.runtime_limit), "{view:#?}");
        assert_eq!(limits(&cgroup), (lower, "max".into()));
        assert_eq!(kills(&cgroup), "0");
        agent.end();
        containerd.end().await;
    });
}

/// A refusal is a brake on others: paused it lets through what it tells of, also in pods that come meanwhile.
pub(super) fn guard() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let agent = Agent::ready(&[&AT_ONCE[..], &["guard.mode=enforce"]].concat());
        let guarded = [("enforcer.dev/policy", "guard")];
        wasteful(&mut containerd, &guarded).await;
        let app = cgroup_of(&agent.seen("app", "with its memory", |view| view.usage > HELD).await);
        let refused = |cgroup: &Path| std::fs::write(cgroup.join("memory.high"), "4M").is_err();
        assert!(refused(&app));
        agent.heard("the verdict", |said| says(said, "guard", "denied"));
        assert_eq!(agent.ask(&["pause"]).0, Some(0));
        containerd.run_pod_with("late", "", &guarded, &[]).await;
        containerd.run_container("late", memory(64 * MIB)).await;
        let late = cgroup_of(
            &agent.seen("late", "guarded", |view| view.policy == "guard" && view.usage.is_some()).await,
        );
        assert!(!refused(&app) && !refused(&late), "a brake of somebody else's");
        agent.heard("what it would have said", |said| says(said, "guard", "would"));
        for cgroup in [&app, &late] {
            write(cgroup, "memory.high", "max");
        }
        assert_eq!(agent.ask(&["resume"]).0, Some(0));
        assert!(refused(&app));
        assert_eq!((limits(&app), kills(&app).as_str()), ((WHOLE, "max".into()), "0"));
        agent.end();
        containerd.end().await;
    });
}

/// A brake that an earlier one left is lifted, for a pause lifts every brake. Nothing else is done, whatever others do:
/// nothing is shrunk, mended or refused before it is resumed.
pub(super) fn from_the_start() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let mut agent = Agent::ready(&[&AT_ONCE[..], &["gate.window=600s"]].concat());
        wasteful(&mut containerd, &[LABEL]).await;
        let cgroup = cgroup_of(&braked(&agent).await);
        // Both, so that nobody can act for it.
        let restorer = agent.restorer().expect("a shrink has one");
        agent.signal(Signal::SIGSTOP);
        kill(Pid::from_raw(restorer.cast_signed()), Signal::SIGKILL).expect("it runs");
        agent.signal(Signal::SIGKILL);
        agent.ended();
        assert_ne!(limits(&cgroup).1, "max", "it left its brake");
        let paused = ["guard.mode=enforce", "drift.mend=true", "agent.paused=true", "gate.window=600s"];
        agent.again(&[&AT_ONCE[..], &paused].concat());
        agent.is_current();
        let said = agent.heard("that it is settled", |said| text(said).starts_with("an earlier run:"));
        assert!(text(&said).contains("memory.high"), "{said}");
        assert_eq!(limits(&cgroup), (WHOLE, "max".into()));
        let view = agent
            .seen("app", "to be shrunk", |view| view.policy == "auto-shrink" && view.usage.is_some())
            .await;
        assert_eq!(view.limit, Some(Limit::Bytes(Bytes::new(WHOLE))));
        // Neither refused nor put back.
        write(&cgroup, "memory.max", "100M");
        agent.heard("the drift", |said| says(said, "drift", "100Mi"));
        let (from, beats) = (agent.status().await.uptime, enforcer_gate::Micros::from_secs(5));
        while agent.status().await.uptime.saturating_sub(from) <= beats {
            assert_eq!(limits(&cgroup), (100 * MIB, "max".into()));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let status = agent.status().await;
        assert_eq!((status.paused, status.in_flight.len()), (true, 0));
        write(&cgroup, "memory.max", "128M");
        assert_eq!(agent.ask(&["resume"]).0, Some(0));
        // What it was kept from.
        braked(&agent).await;
        agent.end();
        assert_eq!((limits(&cgroup), kills(&cgroup).as_str()), ((WHOLE, "max".into()), "0"));
        containerd.end().await;
    });
}
