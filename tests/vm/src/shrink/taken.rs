//! A shrink for somebody else, who writes the same limit: stopped, it leaves what they have written.

use crate::agent::block_on;
use enforcer::actuate::{Foretold, SessionOptions, StateDir, recover};
use enforcer::cgroup::Cgroup;
use enforcer::probe::{Probe, ProbeOptions};
use enforcer::shrink::{self, Bus, Cancel, Observer, Plan, WATCHES};
use enforcer_gate::{
    Bytes, Command as Asked, Instant, LimitFile, Micros, Outcome, Policy, Progress, Reason, Request, Signal,
    State, Verdict,
};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use std::path::PathBuf;
use std::process::Command;

pub(super) fn cases() -> Vec<Case> {
    vec![Case {
        name: "shrink::stopped_it_leaves_what_another_has_written_too",
        tier: Tier::Full,
        needs: nothing,
        run: left,
    }]
}

const TARGET: Bytes = Bytes::from_mib(100);

/// Has another process write the target once a state is reached, and stops the shrink when the gate has been told of it.
struct Stops {
    file: PathBuf,
    at: State,
    wrote: bool,
    cancel: Cancel,
}

impl Observer for Stops {
    fn signal(&mut self, _now: Instant, signal: &Signal) {
        if matches!(signal, Signal::LimitWritten { file: LimitFile::Max, .. }) {
            self.cancel.cancel();
        }
    }
    fn progress(&mut self, _now: Instant, progress: &Progress) {
        if progress.state == self.at && !std::mem::replace(&mut self.wrote, true) {
            let script = format!("echo {} > {}", TARGET.get(), self.file.display());
            let ended = Command::new("/bin/busybox").args(["sh", "-c", &script]).status().expect("a shell");
            assert!(ended.success(), "{ended}");
        }
    }
    fn outcome(&mut self, _now: Instant, _outcome: &Outcome) {}
    fn note(&mut self, _now: Instant, _text: &str) {}
    fn afterwards(&mut self, _text: &str) {}
    fn command(&mut self, _now: Instant, _command: &Asked) {}
    fn timeout(&mut self, _now: Instant) {}
}

/// Before the gate's own write, and after it.
fn left() {
    block_on(async {
        let (bus, probe) = Bus::start(Probe::load(&ProbeOptions::only(WATCHES)).expect("loads"));
        for (at, foretold) in [(State::Trial, true), (State::Watching, true), (State::Watching, false)] {
            let group = Scratch::new("taken");
            group.write("memory.max", "160M");
            group.write_if_there("memory.swap.max", "0");
            let mut workload = Workload::run(&group, "steps");
            workload.tell("grow 10Mi");
            assert!(workload.line().starts_with("ok"));
            let folder = tempfile::tempdir_in("/run").expect("a folder");
            let state_dir = StateDir::open(folder.path()).expect("opens");
            let cancel = Cancel::new();
            let mut stops =
                Stops { file: group.path().join("memory.max"), at, wrote: false, cancel: cancel.clone() };
            let plan = Plan {
                cgroup: Cgroup::open(group.path()).expect("opens"),
                request: Request {
                    target: TARGET,
                    dry_run: false,
                    pressure_killer: None,
                    by_other: foretold,
                },
                policy: Policy {
                    observe_window: Micros::from_millis(500),
                    trial_window: Micros::from_secs(5),
                    watch_window: Micros::from_secs(60),
                    ..Policy::default()
                },
                state_dir: Some(state_dir.clone()),
                session: SessionOptions {
                    foretold: foretold.then_some(Foretold { max: TARGET, above: None }),
                    ..SessionOptions::default()
                },
                cancel: Some(cancel),
            };
            let certificate = shrink::run(plan, &bus, &mut stops).await.expect("ends");
            let limits = [group.limit("memory.max"), group.limit("memory.high")];
            let what = format!("written in {at}, foretold: {foretold}: {certificate:#?}");
            if foretold {
                assert!(certificate.is_left(), "{what}");
                assert_eq!(limits, [TARGET.get().to_string(), "max".into()], "{what}");
            } else {
                // Who is not expected has no say; the value is the gate's own.
                assert_eq!(certificate.verdict, Verdict::RolledBack(Reason::Cancelled), "{what}");
                assert_eq!(limits, [Bytes::from_mib(160).get().to_string(), "max".into()], "{what}");
            }
            assert_eq!(certificate.check(), [""; 0], "{what}");
            assert_eq!((group.kills(), recover(&state_dir)), (0, vec![]), "{what}");
            assert!(workload.alive());
        }
        drop(bus);
        drop(probe.await.expect("it does not panic").expect("detaches"));
    });
}
