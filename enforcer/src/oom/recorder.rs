//! The loop: from the kernel programs into the store.

use super::{
    STORE_DEFAULT,
    follower::{Follower, NEEDS},
    stored::Stored,
};
use crate::{
    cgroup::{CgroupError, Mount},
    clock::nanos,
    labels::labels,
    probe::{Probe, ProbeError, ProbeOptions, Program},
    store::{Bounds, Keeper, StoreError},
};
use enforcer_gate::Micros;
use nix::time::ClockId;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// How the recorder works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecorderOptions {
    /// The store's folder.
    pub store: PathBuf,
    /// How large it may become.
    pub bounds: Bounds,
    /// How long before an OOM a write to a limit file is told with it.
    pub writes: Micros,
    /// Bytes of the kernel programs' ring buffer.
    pub ring_bytes: u32,
    /// Kernel programs that are not to be used, as if the kernel refused them.
    pub disabled: BTreeSet<Program>,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self {
            store: STORE_DEFAULT.into(),
            bounds: Bounds::default(),
            writes: Micros::from_secs(60),
            ring_bytes: ProbeOptions::default().ring_bytes,
            disabled: BTreeSet::new(),
        }
    }
}

/// Why nothing is recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The kernel programs.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The cgroup mount.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// No hook tells of kills.
    #[error("no hook of this kernel tells of OOM kills ({0})")]
    NoHook(String),
}

/// Records OOMs until it is told to stop.
pub struct Recorder {
    probe: Probe,
    follower: Follower,
}

impl Recorder {
    /// Loads the kernel programs, looks at all cgroups and opens the store.
    pub fn open(options: &RecorderOptions) -> Result<(Self, Stored), RecordError> {
        // First of all: where there is another recorder, it is left in peace.
        let keeper = Keeper::open(&options.store, options.bounds)?;
        let mount = Arc::new(Mount::discover()?);
        let probe = Probe::load(&ProbeOptions {
            ring_bytes: options.ring_bytes,
            keep_past: true,
            disabled: options.disabled.clone(),
            ..ProbeOptions::only(NEEDS)
        })?;
        let (follower, began) =
            Follower::begin(keeper, mount, probe.hooks(), options.writes, Box::new(labels))?;
        Ok((Self { probe, follower }, began))
    }

    /// Records until `stop` is done, then takes what is left in the kernel's buffer. `each` is handed every
    /// record, after it was stored.
    pub async fn run(
        &mut self,
        stop: impl Future<Output = ()>,
        mut each: impl FnMut(&Stored),
    ) -> Result<(), RecordError> {
        tokio::pin!(stop);
        loop {
            let due_ns = self.follower.due_ns();
            let quiet = async {
                match due_ns {
                    Some(due_ns) => {
                        let left = due_ns.saturating_sub(nanos(ClockId::CLOCK_MONOTONIC));
                        tokio::time::sleep(Duration::from_nanos(left)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut stop => break,
                event = self.probe.next_event() => self.follower.take(&event?, &mut each),
                () = quiet => {}
            }
            self.batch(&mut each)?;
        }
        self.batch(&mut each)?;
        self.follower.end(&mut each);
        Ok(())
    }

    /// Takes all that is there, notices what was lost, and hands it to the disk.
    fn batch(&mut self, each: &mut impl FnMut(&Stored)) -> Result<(), RecordError> {
        let Self { probe, follower } = self;
        probe.drain(|event| follower.take(&event, each))?;
        // A record is dropped only while the buffer is full, so what was dropped before the last look is seen now.
        let dropped: BTreeMap<String, u64> =
            probe.drops()?.into_iter().map(|(kind, count)| (kind.name().to_owned(), count)).collect();
        follower.settle(dropped, each);
        Ok(())
    }
}
