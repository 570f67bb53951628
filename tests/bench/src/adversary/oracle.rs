//! The true minimum, found by trying: bare writes on a twin, bisected.

use crate::instance::Instance;
use anyhow::{Result, ensure};
use enforcer_gate::Bytes;

/// The bisection ends within this.
const RESOLUTION: Bytes = Bytes::from_mib(1);

/// The least `memory.max` (to a mebibyte) under which nobody dies for two periods of the workload.
pub(crate) async fn true_minimum(twin: &mut Instance) -> Result<Bytes> {
    let mut survives = twin.class().limit;
    let mut kills = Bytes::ZERO;
    ensure!(holds(twin, survives).await?, "{} dies under its first limit", twin.class().name);
    while survives.saturating_sub(kills) > RESOLUTION {
        let middle = Bytes::new(kills.get().midpoint(survives.get())).page_floor();
        if holds(twin, middle).await? {
            survives = middle;
        } else {
            kills = middle;
        }
    }
    Ok(survives)
}

/// Whether everybody lives under `limit`. A task that dies of it does so inside the write or at its next
/// need, which comes within a period.
pub(crate) async fn holds(twin: &mut Instance, limit: Bytes) -> Result<bool> {
    twin.reset().await?;
    twin.write_max(limit).await?;
    // The workload's own rhythm is what is waited for here; there is no event for "nothing happened".
    tokio::time::sleep(twin.class().period * 2).await;
    Ok(!twin.killed()?)
}
