//! What is read of one container, again and again.

use crate::{
    cgroup::{CgroupError, Herd, Mount},
    inventory::{Home, Located, limited},
};
use enforcer_gate::{Bytes, Floor, Instant, Limit, Policy, Sample};
use std::sync::Arc;

/// A container at one time.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// When.
    pub(super) at: Instant,
    /// The cgroup whose `memory.max` is in force, which is the one that is read.
    pub(super) cgroup: Located,
    /// Everything that the gate looks at.
    pub(super) sample: Sample,
    /// What stays of it.
    pub(super) floor: Floor,
    /// PSI of its memory: share of the last ten seconds, in hundredths of a per cent, of some and of all tasks.
    pub(super) psi_avg10: (u64, u64),
}

impl Reading {
    /// Reads a container where its limit is in force.
    pub(super) fn take(
        herd: &mut Herd,
        mount: &Arc<Mount>,
        home: &Home,
        policy: &Policy,
        now: Instant,
    ) -> Result<Self, CgroupError> {
        let cgroup = limited(mount, home)?;
        let (sample, psi_avg10) = herd.read(&cgroup, now)?;
        Ok(Self {
            at: now,
            cgroup: Located { path: cgroup.path().into(), id: cgroup.id() },
            floor: Floor::of(&sample, policy),
            sample,
            psi_avg10,
        })
    }

    /// The limit in force.
    pub(super) fn limit(&self) -> Limit {
        self.sample.max
    }

    /// What is in use.
    pub(super) fn usage(&self) -> Bytes {
        self.sample.current
    }

    /// The nearest limit above, which is the pod's where it has one.
    pub(super) fn limit_above(&self, path: &str) -> Option<Limit> {
        self.sample.ancestors.iter().find(|above| above.path == path).map(|above| above.max)
    }
}
