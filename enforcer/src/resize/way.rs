//! Makes way for somebody else who was told to lower a container's memory limit: a kubelet, which refuses as long as usage
//! is not under the new limit, and looks no more once it writes (`pkg/kubelet/kuberuntime`, `doPodResizeAction`).
//!
//! The gate lowers the limit as it would by itself, to the same value. So its reclaim lets the kubelet's check pass, its brake
//! holds while the kubelet comes to it, and what the kubelet writes then is in force already. Where the kubelet is first, its
//! write is watched as the gate's own. What is taken back goes up in the pod's cgroup first.

use super::{Actor, Gate, Of, ResizeError, read::status_memory};
use crate::{
    actuate::{Foretold, SessionOptions},
    cgroup::Cgroup,
    inventory::limited,
    node::pressure_killer,
    shrink::{self, Confirmed, run_confirmed},
};
use enforcer_gate::{Bytes, Certificate, Request};
use std::{pin::Pin, time::Duration};

/// Between two questions to the runtime whether the limit is in its books: no event tells of an update (CRI v1).
const LOOK: Duration = Duration::from_secs(1);

/// For the last of them, when all is to be let go of within a second.
const LAST_LOOK: Duration = Duration::from_millis(300);

/// What came of it.
#[derive(Debug)]
pub struct Way {
    /// The gate's evidence.
    pub certificate: Certificate,
    /// Whether the runtime has the new limit: the other has done it. Nothing where the gate did not commit.
    pub is_taken: Option<bool>,
}

impl Actor {
    /// Lowers a container's memory limit for another, who has so long from the gate's commit on to have the runtime take it too.
    /// Where it does not come to that the limit goes back up.
    pub async fn make_way(
        &self,
        of: Of<'_>,
        to: Bytes,
        within: Duration,
        gate: Gate<'_>,
    ) -> Result<Way, ResizeError> {
        let home = of.container.home.as_ref().map_err(|why| ResizeError::NoHome(why.clone()))?;
        let mount = self.locator().mount();
        let cgroup = limited(mount, home)?;
        let pod = of.pod.cgroup.as_ref();
        let above = pod.map(|pod| Cgroup::open_in(mount, &pod.path)).transpose()?;
        let mut session = SessionOptions::of(&gate.policy);
        session.deadline = session.deadline.saturating_add(within.saturating_mul(2));
        session.foretold = Some(Foretold { max: to, above });
        let killer = pressure_killer(&cgroup)?;
        let plan = shrink::Plan {
            cgroup,
            request: Request { target: to, dry_run: false, pressure_killer: killer, by_other: true },
            policy: gate.policy,
            state_dir: Some(gate.state_dir),
            session,
            cancel: gate.cancel,
        };
        let confirm = async |_: &Certificate, stop: Pin<&mut dyn Future<Output = ()>>| {
            tokio::select! {
                () = self.has(&of.container.id, to) => Confirmed::Keep,
                () = tokio::time::sleep(within) => Confirmed::TakeBack,
                () = stop => self.has_by_now(&of.container.id, to).await,
            }
        };
        let (certificate, confirmed) = run_confirmed(plan, gate.bus, gate.observer, confirm).await?;
        Ok(Way { certificate, is_taken: confirmed.map(|confirmed| confirmed == Confirmed::Keep) })
    }

    /// Ends once the runtime's books have that memory limit.
    async fn has(&self, id: &str, limit: Bytes) {
        while !self.has_now(id, limit).await {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whoever stops it does not undo what the other has done since the last look.
    async fn has_by_now(&self, id: &str, limit: Bytes) -> Confirmed {
        match tokio::time::timeout(LAST_LOOK, self.has_now(id, limit)).await {
            Ok(true) => Confirmed::Keep,
            Ok(false) | Err(_) => Confirmed::TakeBack,
        }
    }

    async fn has_now(&self, id: &str, limit: Bytes) -> bool {
        let limit = i64::try_from(limit.page_floor().get()).ok();
        let status = self.client().container_status(id).await.ok().flatten();
        let memory = status.as_ref().and_then(status_memory);
        memory.is_some() && memory == limit
    }
}
