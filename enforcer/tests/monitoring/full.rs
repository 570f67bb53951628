//! Metrics in which everything has happened.

use enforcer::{
    admin::model::PartState,
    cri::CriError,
    drift::Who,
    guard::{Count, Reason as GuardReason, Verdict as GuardVerdict},
    health::PartName,
    metrics::{
        ApiLimits, ContainerGauges, GuardGauges, Loss, Metrics, NodeGauges, OverheadCost, OverheadGauges, Own,
    },
    names::{Place, Role},
    oom::{CgroupName, OomRecord, Owner},
    overhead::Term,
    probe::{LimitKind, OomConstraint, Program, ProgramCost},
};
use enforcer_gate::{
    Bytes, CgroupId, Instant, Limit, LimitFile, Micros, Pressure, PressureKiller, Reason, State, Verdict,
};
use std::path::Path;

/// A container all of whose figures are there.
pub(crate) fn container(namespace: &str, pod: &str, container: &str) -> ContainerGauges {
    ContainerGauges {
        namespace: namespace.into(),
        pod: pod.into(),
        container: container.into(),
        api: ApiLimits {
            desired: Some(Bytes::from_mib(128)),
            admitted: Some(Bytes::from_mib(128)),
            reported: Some(Bytes::from_mib(256)),
        },
        allocated: Some(Limit::Bytes(Bytes::from_mib(256))),
        limit: Some(Limit::Bytes(Bytes::from_mib(128))),
        usage: Some(Bytes::from_mib(100)),
        floor: Some(Bytes::from_mib(40)),
        safe_minimum: Some(Bytes::from_mib(64)),
        pressure: Some(Pressure {
            some_total: Micros::from_millis(1500),
            full_total: Micros::from_millis(250),
        }),
        refaults: Some(7),
        reclaimed: Some(Bytes::from_mib(3)),
        oom_kills: Some(2),
        drifted: 1,
        policy: "auto-shrink".into(),
    }
}

/// A pod that costs something in each term.
fn overhead(namespace: &str, pod: &str) -> OverheadGauges {
    OverheadGauges {
        namespace: namespace.into(),
        pod: pod.into(),
        terms: Term::ALL.map(|term| (term, Bytes::from_mib(1))).into(),
        residue: Bytes::from_mib(2),
        helpers: 1,
        cpu: Micros::from_millis(30),
    }
}

pub(crate) fn node() -> NodeGauges {
    let cost = |program: &Program| ProgramCost {
        program: *program,
        count: 1_000,
        total_ns: 123_456,
        histogram: [0; 32],
        missed: 3,
        verified_instructions: None,
    };
    let verdicts = GuardReason::ALL.iter().flat_map(|reason| {
        GuardVerdict::ALL.iter().map(|verdict| Count { verdict: *verdict, reason: *reason, writes: 5 })
    });
    NodeGauges {
        paused: true,
        pods: 12,
        containers: 17,
        in_flight: 2,
        parts: PartName::ALL.iter().map(|part| (*part, PartState::Ready)).collect(),
        guard: Some(GuardGauges { armed: true, verdicts: verdicts.collect() }),
        overhead: Some(OverheadCost { reads: 400, cpu: Micros::from_millis(70) }),
        programs: Program::ALL.iter().map(cost).collect(),
        dropped: Loss::all().map(|loss| (loss, 9)).collect(),
        own: Some(Own {
            cpu: Micros::from_millis(12_340),
            resident: Bytes::from_mib(21),
            fds: 33,
            fds_max: 1024,
        }),
    }
}

/// Every reason that there is.
fn reasons() -> Vec<Reason> {
    vec![
        Reason::BelowSafeMinimum,
        Reason::NotAShrink { current: Limit::Max },
        Reason::Frozen,
        Reason::FrozenBelow { cgroup: "a".into() },
        Reason::Unseen { state: State::Trial },
        Reason::PressureKiller(PressureKiller { pid: 1, comm: "a".into(), cgroup: "a".into() }),
        Reason::BackOff { until: Instant::new(1) },
        Reason::ReclaimStuck { usage: Bytes::ZERO },
        Reason::StallBudget,
        Reason::BrakeLivelock,
        Reason::Growth { floor: Bytes::ZERO },
        Reason::Refaults,
        Reason::ProbeFailed,
        Reason::OomKill { victim_pid: 1 },
        Reason::LimitWritten { file: LimitFile::Max, found: Limit::Max },
        Reason::Gone,
        Reason::Cancelled,
        Reason::RestorerGone,
        Reason::Deadline { state: State::Trial },
        Reason::Io { what: "a".into(), errno: 5 },
    ]
}

/// An OOM with `lost` victims.
pub(crate) fn oom(owner: Owner, role: Option<Role>, constraint: &str, lost: u32) -> OomRecord {
    let place = role.map(|role| Place { role, ..Place::of(Path::new("a")) });
    OomRecord {
        version: 1,
        wall_us: 0,
        boot_us: 0,
        boot_id: String::new(),
        seq: 1,
        owner,
        constraint: constraint.into(),
        group: None,
        trigger: None,
        victims: Vec::new(),
        victims_lost: lost,
        survivors: None,
        limits: Vec::new(),
        stat: None,
        reclaim: None,
        writes: Vec::new(),
        cgroups: vec![CgroupName {
            id: CgroupId::new(1),
            path: None,
            place,
            age_us: None,
            gone: false,
            pod: None,
            container: None,
            image: None,
        }],
        says: String::new(),
    }
}

pub(crate) fn cgroup() -> Owner {
    Owner::Cgroup { id: CgroupId::new(1), usage: Bytes::ZERO, limit: Limit::Max, max_events: 0 }
}

/// Everything has happened, at least once.
pub(crate) fn metrics() -> Metrics {
    let metrics = Metrics::new();
    for reason in reasons() {
        for verdict in
            [Verdict::Refused(reason.clone()), Verdict::RolledBack(reason.clone()), Verdict::Failed(reason)]
        {
            metrics.shrink_ended(&verdict, Micros::from_millis(9_800));
        }
    }
    metrics.shrink_ended(&Verdict::Committed, Micros::from_millis(12_300));
    metrics.shrink_ended(&Verdict::Feasible, Micros::from_secs(500));
    for constraint in OomConstraint::ALL {
        for role in Role::ALL {
            metrics.oom(&oom(cgroup(), Some(*role), constraint.name(), 1));
        }
        metrics.oom(&oom(Owner::Node, None, constraint.name(), 1));
        metrics.oom(&oom(Owner::Unknown, None, constraint.name(), 1));
    }
    for file in LimitKind::ALL {
        for who in Who::ALL {
            metrics.limit_written(*file, *who);
            metrics.drifted(*file, *who);
        }
        metrics.mended(*file, true);
        metrics.mended(*file, false);
    }
    metrics.runtime_call_failed(&CriError::NoSocket { looked_for: Vec::new() });
    metrics.config_reloaded(true);
    metrics.config_reloaded(false);
    metrics.dropped(Loss::Event, 4);
    metrics
        .set_containers(vec![container("default", "web-0", "app"), container("default", "web-0", "sidecar")]);
    metrics.set_overheads(vec![overhead("default", "web-0")]);
    metrics.set_node(node());
    metrics
}
