//! From the kernel's events into the store, without a loop of its own.

use super::{
    assemble::{Assembler, Finished},
    inventory::Inventory,
    look,
    record::{Began, Lost},
    recorder::RecordError,
    stored::Stored,
    tell::{self, Clock},
    writes::Writes,
};
use crate::{
    cgroup::{Mount, shown},
    clock::{boot_id, kernel_release, nanos, wall_us},
    labels::Labels,
    names::Place,
    probe::{Event, HookStatus, Kind, LimitKind, Need},
    store::Keeper,
};
use enforcer_gate::Micros;
use nix::time::ClockId;
use std::{collections::BTreeMap, sync::Arc};

/// What the kernel must tell for OOMs to be recorded whole.
pub const NEEDS: [Need; 9] = [
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

/// Who knows the names of pods and containers.
pub type Labeller = Box<dyn Fn(&Place) -> Labels + Send>;

/// Makes records of events and stores them. It reads what OOMs leave behind and waits for the disk: whoever must not
/// wait has it on a thread of its own.
pub struct Follower {
    assembler: Assembler,
    inventory: Inventory,
    writes: Writes,
    mount: Arc<Mount>,
    keeper: Keeper,
    labeller: Labeller,
    boot_id: String,
    /// What was lost up to the last note of it.
    lost: BTreeMap<String, u64>,
}

impl Follower {
    /// Looks at all cgroups and notes in the store that it begins. `hooks`: what the kernel programs can tell. `writes`:
    /// how long before an OOM a write to a limit file is told with it.
    ///
    /// Fails with [`RecordError::NoHook`] where nothing tells of kills.
    pub fn begin(
        mut keeper: Keeper,
        mount: Arc<Mount>,
        hooks: &[HookStatus],
        writes: Micros,
        labeller: Labeller,
    ) -> Result<(Self, Stored), RecordError> {
        let is_told = |need| hooks.iter().any(|hook| hook.need == need && hook.in_use.is_some());
        if !is_told(Need::OomKill) {
            let why = hooks.iter().filter(|hook| hook.need == Need::OomKill).flat_map(|hook| &hook.tried);
            return Err(RecordError::NoHook(
                why.map(|tried| shown(&tried.why)).collect::<Vec<_>>().join("; "),
            ));
        }
        let began = Began {
            wall_us: wall_us(),
            boot_id: boot_id(),
            kernel: kernel_release(),
            lost: hooks.iter().filter_map(lost).collect(),
        };
        let mut inventory = Inventory::default();
        look::walk(&mount, &mut inventory);
        let boot_id = began.boot_id.clone();
        let began = Stored::Began(began);
        keeper.keep(&began)?;
        keeper.sync()?;
        let follower = Self {
            assembler: Assembler::new(is_told(Need::OomEnd)),
            inventory,
            writes: Writes::new(writes.get().saturating_mul(1000)),
            mount,
            keeper,
            labeller,
            boot_id,
            lost: BTreeMap::new(),
        };
        Ok((follower, began))
    }

    /// Why the last record is not in the store; `None` where it is.
    pub fn trouble(&self) -> Option<&str> {
        self.keeper.trouble()
    }

    /// When there is something to do without a further event (`CLOCK_MONOTONIC`).
    pub fn due_ns(&self) -> Option<u64> {
        self.assembler.due_ns()
    }

    /// Takes an event. `each` is handed every record, after it was stored.
    pub fn take(&mut self, event: &Event, each: &mut dyn FnMut(&Stored)) {
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

    /// After a batch of events: records what waited long enough, notes what was lost, and hands it to the disk.
    /// `dropped`: the kernel's records that had no room since the programs were loaded, by kind, and whatever else was
    /// lost on the way here.
    pub fn settle(&mut self, dropped: BTreeMap<String, u64>, each: &mut dyn FnMut(&Stored)) {
        if let Some(finished) = self.assembler.quiet(nanos(ClockId::CLOCK_MONOTONIC)) {
            self.finish(&finished, each);
        }
        let mut lost = dropped;
        let before = |what: &str| self.lost.get(what).copied().unwrap_or(0);
        if lost.get(Kind::CgroupLife.name()).is_some_and(|count| *count > before(Kind::CgroupLife.name())) {
            look::walk(&self.mount, &mut self.inventory);
        }
        lost.insert("known_cgroup".into(), self.inventory.surplus());
        lost.insert("kept_write".into(), self.writes.forgotten());
        let new: BTreeMap<String, u64> = lost
            .iter()
            .filter(|(what, count)| **count > before(what))
            .map(|(what, count)| (what.clone(), count - before(what)))
            .collect();
        if !new.is_empty() || self.keeper.unstored() > 0 {
            let note = |unstored| Stored::Lost(Lost { wall_us: wall_us(), dropped: new, unstored });
            if let Some(note) = self.keeper.note_lost(note) {
                self.lost = lost;
                each(&note);
            }
        }
        let _ = self.keeper.sync();
    }

    /// Records what has not ended yet, as far as it is known.
    pub fn end(&mut self, each: &mut dyn FnMut(&Stored)) {
        if let Some(finished) = self.assembler.flush() {
            self.finish(&finished, each);
        }
        let _ = self.keeper.sync();
    }

    fn finish(&mut self, finished: &Finished, each: &mut dyn FnMut(&Stored)) {
        let now_ns = nanos(ClockId::CLOCK_MONOTONIC);
        let seen = look::look(finished, &self.inventory, &self.mount, now_ns, &self.labeller);
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
