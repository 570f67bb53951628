//! What an agent might say, for tests.

use super::model::{ContainerView, Explanation, Flight, Happening, HappeningKind, Part, PartState, Status};
use enforcer_gate::{Bytes, Limit, Micros};
use std::collections::BTreeMap;

/// 2026-11-30T00:53:20Z
pub(crate) const NOW_US: u64 = 1_796_000_000_000_000;

/// A node on which all is well.
pub(crate) fn status() -> Status {
    let part = |name: &str, state, why: &str| Part { name: name.into(), state, why: why.into() };
    Status {
        version: "0.1.0".into(),
        pid: 42,
        uptime: Micros::from_millis(7_325_000),
        kernel: "6.12.1".into(),
        paused: false,
        parts: vec![
            part("inventory", PartState::Ready, ""),
            part("kernel", PartState::Ready, ""),
            part("guard", PartState::Off, ""),
            part("policy", PartState::Ready, ""),
        ],
        pods: 1,
        containers: 1,
        in_flight: vec![flight()],
        recent: vec![
            happening(
                90,
                "pod/shop/web-1:main",
                HappeningKind::Oom,
                "sh (process 77) was killed: 64Mi of 64Mi",
            ),
            happening(60, "", HappeningKind::Agent, "the container runtime is back"),
            happening(30, "pod/shop/web-1:main", HappeningKind::Verdict, "committed at 128Mi"),
        ],
        lost: BTreeMap::new(),
    }
}

/// Something that happened so many seconds ago.
pub(crate) fn happening(ago: u64, target: &str, kind: HappeningKind, text: &str) -> Happening {
    Happening { at_us: NOW_US - ago * 1_000_000, target: target.into(), kind, text: text.into() }
}

/// A shrink of [`container`].
pub(crate) fn flight() -> Flight {
    Flight {
        target: "pod/shop/web-1:main".into(),
        to: Bytes::from_mib(128),
        from: Limit::Bytes(Bytes::from_mib(256)),
        state: "trial".into(),
        since: Micros::from_millis(3_000),
        by: "policy".into(),
    }
}

/// A container of which all is known.
pub(crate) fn container() -> ContainerView {
    let limit = Some(Limit::Bytes(Bytes::from_mib(256)));
    let scope = "kubepods.slice/kubepods-pod1.slice/cri-containerd-c1.scope";
    ContainerView {
        namespace: "shop".into(),
        pod: "web-1".into(),
        container: "main".into(),
        id: "c1".into(),
        handler: "crun".into(),
        image: "docker.io/library/nginx:1.29".into(),
        cgroup: scope.into(),
        limit_cgroup: format!("{scope}/container"),
        usage: Some(Bytes::from_mib(120)),
        limit,
        high: Some(Limit::Max),
        runtime_limit: limit,
        pod_limit: Some(Limit::Bytes(Bytes::from_mib(512))),
        floor: Some(Bytes::from_mib(90)),
        floor_terms: [("anon".into(), Bytes::from_mib(84)), ("slab".into(), Bytes::from_mib(6))].into(),
        safe_minimum: Some(Bytes::from_mib(106)),
        psi_some_avg10: 1234,
        psi_full_avg10: 56,
        refaults: 789,
        oom_kills: 1,
        policy: "auto-shrink".into(),
        policy_state: "the next look is in 8m".into(),
        last_verdict: "committed at 128Mi".into(),
        drift: Vec::new(),
        missing: String::new(),
    }
}

/// Why [`container`] is at its limit.
pub(crate) fn explanation() -> Explanation {
    Explanation {
        containers: vec![container()],
        in_flight: vec![flight()],
        recent: status().recent.into_iter().filter(|happening| !happening.target.is_empty()).collect(),
        paused: false,
    }
}
