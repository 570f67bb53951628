//! The maps that the guard's kernel program shares with user space.

use super::GuardError;
use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use enforcer_abi::{GuardLife, Guarded, Kind, Lease, LeaseKey, Reason, Verdict};

/// Name of the map with the guarded cgroups.
pub(super) const GUARDED: &str = "GUARDED";
/// Name of the map with the leases.
pub(super) const LEASES: &str = "LEASES";
/// Name of the map with the heartbeat.
pub(super) const LIFE: &str = "GUARD_LIFE";
/// Name of the map with the counters.
pub(super) const COUNTS: &str = "GUARD_COUNTS";

/// Name of the map with what had no room in the ring buffer.
pub(super) const DROPS: &str = "DROPS";

/// A type of the kernel's side as a map's key or value.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Plain<T>(pub(super) T);

// SAFETY: `repr(C)`, integers only, no padding (held by the tests of `enforcer-abi`). Here and below.
unsafe impl aya::Pod for Plain<Guarded> {}
// SAFETY: as above.
unsafe impl aya::Pod for Plain<LeaseKey> {}
// SAFETY: as above.
unsafe impl aya::Pod for Plain<Lease> {}
// SAFETY: as above.
unsafe impl aya::Pod for Plain<GuardLife> {}

pub(super) type GuardedMap = HashMap<MapData, u64, Plain<Guarded>>;
pub(super) type LeaseMap = HashMap<MapData, Plain<LeaseKey>, Plain<Lease>>;
pub(super) type LifeMap = Array<MapData, Plain<GuardLife>>;
pub(super) type CountMap = PerCpuArray<MapData, u64>;

/// Writes that were judged alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// What became of them.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// How many since the guard was loaded.
    pub writes: u64,
}

/// Verdicts that had no room in the ring buffer.
pub(super) fn dropped(map: &CountMap) -> Result<u64, GuardError> {
    let cpus = map.get(&(Kind::GuardVerdict as u32), 0).map_err(GuardError::map(DROPS))?;
    Ok(cpus.iter().fold(0_u64, |sum, cpu| sum.saturating_add(*cpu)))
}

/// All counters that are not zero.
pub(super) fn counts(map: &CountMap) -> Result<Vec<Count>, GuardError> {
    let mut counts = Vec::new();
    for reason in Reason::ALL {
        for verdict in Verdict::ALL {
            let cpus = map.get(&verdict.slot(*reason), 0).map_err(GuardError::map(COUNTS))?;
            let writes = cpus.iter().fold(0_u64, |sum, cpu| sum.saturating_add(*cpu));
            if writes > 0 {
                counts.push(Count { verdict: *verdict, reason: *reason, writes });
            }
        }
    }
    Ok(counts)
}
