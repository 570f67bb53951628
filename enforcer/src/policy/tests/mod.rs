//! The schedule: what it does in a known case, and what it never does in any.

mod cases;
mod steady;
mod traces;
mod world;

use super::{Decision, Defaults, Ended, Mode, Rules, Scheduler, Seen, Slot, Why};
use enforcer_gate::{Bytes, CgroupId, Instant, Limit, Micros};
use std::collections::BTreeMap;

const MINUTE: Micros = Micros::from_secs(60);
const HOUR: Micros = Micros::from_secs(3600);

fn defaults() -> Defaults {
    Defaults { default: Mode::AutoShrink, ..Defaults::default() }
}

fn rules() -> Rules {
    Rules::resolve(&defaults(), "shop", &BTreeMap::new(), &BTreeMap::new(), "app")
}

fn slot(pod: &str, container: &str) -> Slot {
    Slot { pod: pod.into(), container: container.into() }
}

const fn mib(n: u64) -> Bytes {
    Bytes::from_mib(n)
}

const fn limit(n: u64) -> Limit {
    Limit::Bytes(Bytes::from_mib(n))
}

const fn seen() -> Seen {
    Seen {
        cgroup: CgroupId::new(1),
        limit: limit(512),
        usage: mib(300),
        safe_minimum: Some(mib(100)),
        psi_some_avg10: 0,
        in_flight: false,
        paused: false,
        pod_busy: false,
    }
}
