//! The loop: from the kernel programs into the store.

use super::{
    STORE_DEFAULT,
    assemble::{Assembler, Finished},
    inventory::Inventory,
    look,
    record::{Began, Lost},
    stored::Stored,
    tell::{self, Clock},
    writes::Writes,
};
use crate::{
    cgroup::{CgroupError, Mount, shown},
    clock::{boot_id, kernel_release, nanos, wall_us},
    probe::{Event, HookStatus, Kind, LimitKind, Need, Probe, ProbeError, ProbeOptions, Program},
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

/// What the recorder wants to be told by the kernel.
const NEEDS: [Need; 9] = [
    Need::OomKill,
    Need::OomGroup,
    Need::OomEnd,
    Need::Reclaim,
    Need::LimitWrite(LimitKind::MemoryMax),
    Need::LimitWrite(LimitKind::MemoryHigh),
    Need::LimitWrite(LimitKind::SwapMax),
    Need::LimitWrite(LimitKind::MemoryLow),
    Need::CgroupLife,
];

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
    state: State,
    /// What was lost up to the last note of it.
    lost: BTreeMap<String, u64>,
}

/// Everything but the kernel programs.
struct State {
    assembler: Assembler,
    inventory: Inventory,
    writes: Writes,
    mount: Arc<Mount>,
    keeper: Keeper,
    boot_id: String,
}

impl Recorder {
    /// Loads the kernel programs, looks at all cgroups and opens the store.
    pub fn open(options: &RecorderOptions) -> Result<(Self, Stored), RecordError> {
        // First of all: where there is another recorder, it is left in peace.
        let mut keeper = Keeper::open(&options.store, options.bounds)?;
        let mount = Arc::new(Mount::discover()?);
        let probe = Probe::load(&ProbeOptions {
            ring_bytes: options.ring_bytes,
            keep_past: true,
            disabled: options.disabled.clone(),
            ..ProbeOptions::only(NEEDS)
        })?;
        let is_told = |need| probe.hooks().iter().any(|hook| hook.need == need && hook.in_use.is_some());
        if !is_told(Need::OomKill) {
            let why =
                probe.hooks().iter().filter(|hook| hook.need == Need::OomKill).flat_map(|hook| &hook.tried);
            return Err(RecordError::NoHook(
                why.map(|tried| shown(&tried.why)).collect::<Vec<_>>().join("; "),
            ));
        }
        let began = Began {
            wall_us: wall_us(),
            boot_id: boot_id(),
            kernel: kernel_release(),
            lost: probe.hooks().iter().filter_map(lost).collect(),
        };
        let mut inventory = Inventory::default();
        look::walk(&mount, &mut inventory);
        let boot_id = began.boot_id.clone();
        let began = Stored::Began(began);
        keeper.keep(&began)?;
        keeper.sync()?;
        let state = State {
            assembler: Assembler::new(is_told(Need::OomEnd)),
            inventory,
            writes: Writes::new(options.writes.get().saturating_mul(1000)),
            mount,
            keeper,
            boot_id,
        };
        Ok((Self { probe, state, lost: BTreeMap::new() }, began))
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
            let due_ns = self.state.assembler.due_ns();
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
                event = self.probe.next_event() => self.state.take(&event?, &mut each),
                () = quiet => {}
            }
            self.batch(&mut each)?;
        }
        self.batch(&mut each)?;
        if let Some(finished) = self.state.assembler.flush() {
            self.state.finish(&finished, &mut each);
        }
        let _ = self.state.keeper.sync();
        Ok(())
    }

    /// Takes all that is there, notices what was lost, and hands it to the disk.
    fn batch(&mut self, each: &mut impl FnMut(&Stored)) -> Result<(), RecordError> {
        let Self { probe, state, .. } = self;
        probe.drain(|event| state.take(&event, &mut *each))?;
        if let Some(finished) = state.assembler.quiet(nanos(ClockId::CLOCK_MONOTONIC)) {
            state.finish(&finished, &mut *each);
        }
        // A record is dropped only while the buffer is full, so what was dropped before the last look is seen now.
        let mut lost: BTreeMap<String, u64> =
            self.probe.drops()?.into_iter().map(|(kind, count)| (kind.name().to_owned(), count)).collect();
        let before = |what: &str| self.lost.get(what).copied().unwrap_or(0);
        if lost.get(Kind::CgroupLife.name()).is_some_and(|count| *count > before(Kind::CgroupLife.name())) {
            look::walk(&self.state.mount, &mut self.state.inventory);
        }
        lost.insert("known_cgroup".into(), self.state.inventory.surplus());
        lost.insert("kept_write".into(), self.state.writes.forgotten());
        let new: BTreeMap<String, u64> = lost
            .iter()
            .filter(|(what, count)| **count > before(what))
            .map(|(what, count)| (what.clone(), count - before(what)))
            .collect();
        if !new.is_empty() || self.state.keeper.unstored() > 0 {
            let note = |unstored| Stored::Lost(Lost { wall_us: wall_us(), dropped: new, unstored });
            if let Some(note) = self.state.keeper.note_lost(note) {
                self.lost = lost;
                each(&note);
            }
        }
        let _ = self.state.keeper.sync();
        Ok(())
    }
}

impl State {
    fn take(&mut self, event: &Event, each: &mut impl FnMut(&Stored)) {
        match event {
            Event::OomKill(kill) => {
                if let Some(finished) = self.assembler.kill(kill) {
                    self.finish(&finished, each);
                }
            }
            Event::OomEnd(end) => {
                for finished in self.assembler.end(end) {
                    self.finish(&finished, each);
                }
            }
            Event::LimitWrite(write) => self.writes.told(write, || look::is_ours(write.writer.tgid)),
            Event::CgroupLife(life) => self.inventory.told(life),
            Event::ReclaimBegin(_) | Event::ReclaimEnd(_) | Event::Judged(_) => {}
        }
    }

    fn finish(&mut self, finished: &Finished, each: &mut impl FnMut(&Stored)) {
        let now_ns = nanos(ClockId::CLOCK_MONOTONIC);
        let seen = look::look(finished, &self.inventory, &self.mount, now_ns);
        let clock = Clock {
            wall_ns: nanos(ClockId::CLOCK_REALTIME).saturating_sub(now_ns),
            boot_ns: nanos(ClockId::CLOCK_BOOTTIME).saturating_sub(now_ns),
            boot_id: self.boot_id.clone(),
        };
        let record =
            Stored::Oom(Box::new(tell::tell(finished, &self.inventory, &self.writes, &seen, &clock)));
        // One that is not taken is counted, and told later.
        let _ = self.keeper.keep(&record);
        each(&record);
    }
}

fn lost(hook: &HookStatus) -> Option<String> {
    hook.lost.map(|lost| format!("{}: {lost}", hook.need))
}
