//! Leases: who knows a floor may let a limit go below usage, for a moment.

use super::GuardError;
use super::maps::{LEASES, LeaseMap, Plain};
use enforcer_abi::{Lease, LeaseKey, LimitKind};
use enforcer_gate::{Bytes, Certificate, CgroupId, Micros, PAGE_SIZE};

/// What a lease allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The lowest limit: a fresh floor and its headroom, or the target that the gate lets in.
    pub minimum: Bytes,
    /// By how much that rises each second, as the floor was seen to grow.
    pub growth_per_second: Bytes,
    /// How long it holds.
    pub lifetime: Micros,
}

impl Terms {
    /// What the gate's evidence of a moment ago vouches for; `None` where it saw too little for a floor.
    pub fn from_evidence(evidence: &Certificate, lifetime: Micros) -> Option<Self> {
        let growth_per_second = evidence.growth_per_second;
        evidence.safe_minimum.map(|minimum| Self { minimum, growth_per_second, lifetime })
    }

    /// The lease as the kernel program reads it. The minimum is rounded up to whole pages.
    fn lease(self, now_ns: u64) -> Lease {
        Lease {
            granted_ns: now_ns,
            expires_ns: now_ns.saturating_add(self.lifetime.get().saturating_mul(1_000)),
            minimum: self.minimum.page_ceil().get() / PAGE_SIZE,
            growth_per_second: self.growth_per_second.page_ceil().get() / PAGE_SIZE,
        }
    }
}

/// Whose limit a lease is for.
fn key(cgroup: CgroupId, file: LimitKind) -> Plain<LeaseKey> {
    Plain(LeaseKey { cgroup: cgroup.get(), file: file as u64 })
}

/// Puts a lease in force, in the place of the one before.
pub(super) fn grant(
    leases: &mut LeaseMap,
    cgroup: CgroupId,
    file: LimitKind,
    terms: Terms,
) -> Result<(), GuardError> {
    let lease = Plain(terms.lease(super::now_ns()));
    leases.insert(key(cgroup, file), lease, 0).map_err(GuardError::map(LEASES))
}

/// Takes out every lease that is void.
pub(super) fn sweep(leases: &mut LeaseMap) -> Result<(), GuardError> {
    let now = super::now_ns();
    let entries: Result<Vec<_>, _> = leases.iter().collect();
    for (key, Plain(lease)) in entries.map_err(GuardError::map(LEASES))? {
        if lease.minimum_at(now).is_none() {
            // One that was put in its place meanwhile comes from a shrink, which then gets EBUSY and says so.
            let _ = leases.remove(&key);
        }
    }
    Ok(())
}

/// Ends a lease; that there is none is no error.
pub(super) fn revoke(leases: &mut LeaseMap, cgroup: CgroupId, file: LimitKind) {
    let _ = leases.remove(&key(cgroup, file));
}
