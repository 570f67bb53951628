//! Names are those of JSON.

use enforcer_gate::{Bytes, Instant, Limit, LimitFile, PressureKiller, Reason, State, Verdict};
use serde_json::Value;
use std::collections::BTreeSet;

fn reasons() -> Vec<Reason> {
    let limit = Limit::Max;
    vec![
        Reason::BelowSafeMinimum,
        Reason::NotAShrink { current: limit },
        Reason::Frozen,
        Reason::FrozenBelow { cgroup: "a".into() },
        Reason::Unseen { state: State::Trial },
        Reason::PressureKiller(PressureKiller { comm: "oomd".into(), pid: 1, cgroup: "a".into() }),
        Reason::BackOff { until: Instant::new(1) },
        Reason::ReclaimStuck { usage: Bytes::ZERO },
        Reason::StallBudget,
        Reason::BrakeLivelock,
        Reason::Growth { floor: Bytes::ZERO },
        Reason::Refaults,
        Reason::ProbeFailed,
        Reason::OomKill { victim_pid: 1 },
        Reason::LimitWritten { file: LimitFile::Max, found: limit },
        Reason::Gone,
        Reason::Cancelled,
        Reason::RestorerGone,
        Reason::Deadline { state: State::Trial },
        Reason::Io { what: "a".into(), errno: 5 },
    ]
}

#[test]
fn a_reason_has_the_name_that_json_has() {
    for reason in reasons() {
        let told = serde_json::to_value(&reason).expect("is told");
        let tag = |told: &Value| told.as_object()?.keys().next().cloned();
        let name = told.as_str().map(str::to_owned).or_else(|| tag(&told));
        assert_eq!(Some(reason.name()), name.as_deref());
    }
}

#[test]
fn a_verdict_has_the_name_that_json_has() {
    let reason = Reason::Gone;
    for verdict in [
        Verdict::Committed,
        Verdict::Feasible,
        Verdict::Refused(reason.clone()),
        Verdict::RolledBack(reason.clone()),
        Verdict::Failed(reason.clone()),
    ] {
        let told = serde_json::to_value(&verdict).expect("is told");
        assert_eq!(told["verdict"], verdict.name());
        assert_eq!(verdict.reason(), told.get("reason").map(|_| &reason));
    }
}

#[test]
fn the_lists_are_whole_and_have_no_name_twice() {
    let seen: BTreeSet<&str> = reasons().iter().map(Reason::name).collect();
    assert_eq!(seen, Reason::NAMES.iter().copied().collect());
    assert_eq!(seen.len(), Reason::NAMES.len());
    assert_eq!(Verdict::NAMES.len(), 5);
}
