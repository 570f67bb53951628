//! What is read of one container, again and again.

use crate::{
    cgroup::{Cgroup, CgroupError, Mount, Sampler, parse},
    inventory::{Home, Located, in_force},
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
        mount: &Arc<Mount>,
        home: &Home,
        policy: &Policy,
        now: Instant,
    ) -> Result<Self, CgroupError> {
        let limit = in_force(mount, home)?;
        let cgroup = Cgroup::open_in(mount, &limit.cgroup)?;
        let sample = Sampler::new(&cgroup)?.sample()?;
        let psi_avg10 = match cgroup.file_optional("memory.pressure")? {
            Some(file) => file.parse(&mut [0; 256], parse::pressure_avg10)?,
            None => (0, 0),
        };
        Ok(Self {
            at: now,
            cgroup: Located { path: limit.cgroup, id: cgroup.id() },
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
