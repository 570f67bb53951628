//! What a kernel event means for the shrink of one cgroup.

use super::bus::Heard;
use crate::probe::{
    CgroupLife, Event, LifeEvent, LimitKind, LimitValue, LimitWrite, Need, OomKill, OomOwner, ReclaimCause,
};
use enforcer_gate::{CgroupId, LimitFile, Signal};
use std::collections::BTreeSet;

/// What a shrink listens to. Each program costs time to attach, and more to detach.
pub const WATCHES: [Need; 5] = [
    Need::OomKill,
    Need::Reclaim,
    Need::LimitWrite(LimitKind::MemoryMax),
    Need::LimitWrite(LimitKind::MemoryHigh),
    Need::CgroupLife,
];

/// Cgroups below the target that are known at most; a kill in one more counts as somewhere else.
pub(super) const BELOW_MAX: usize = 4096;

/// Knows the target, who acts on its behalf, and what lies below it.
pub(super) struct Interpreter {
    target: CgroupId,
    ours: BTreeSet<u32>,
    below: BTreeSet<CgroupId>,
}

impl Interpreter {
    /// `ours`: processes whose writes and reclaim are our own doing; `below`: the target's descendants now.
    pub(super) fn new(
        target: CgroupId,
        ours: impl IntoIterator<Item = u32>,
        below: impl IntoIterator<Item = CgroupId>,
    ) -> Self {
        Self { target, ours: ours.into_iter().collect(), below: below.into_iter().take(BELOW_MAX).collect() }
    }

    /// The signal for the gate, if it is one.
    pub(super) fn signal(&mut self, heard: &Heard) -> Option<Signal> {
        match heard {
            // Whatever it was, the files show what came of it.
            Heard::Missed(_) => Some(Signal::EventsChanged),
            Heard::Event(event) => match &**event {
                Event::OomKill(kill) => self.kill(kill),
                Event::ReclaimBegin(begin) => self
                    .foreign_reclaim(begin.cgroup, begin.tgid, begin.cause)
                    .then_some(Signal::ReclaimBegin),
                Event::ReclaimEnd(end) => self
                    .foreign_reclaim(end.cgroup, end.tgid, end.cause)
                    .then_some(Signal::ReclaimEnd { reclaimed: end.reclaimed, took: end.took() }),
                Event::LimitWrite(write) => self.write(write),
                Event::CgroupLife(life) => self.life(life),
                // A shrink's own programs guard nothing; the victims of an OOM were told one by one.
                Event::Judged(_) | Event::OomEnd(_) => None,
            },
        }
    }

    /// Reclaim that an allocation had to wait for, as against what somebody asked for.
    fn foreign_reclaim(&self, cgroup: CgroupId, tgid: u32, cause: ReclaimCause) -> bool {
        let asked_for = match cause {
            ReclaimCause::Limit | ReclaimCause::Unknown => false,
            ReclaimCause::Proactive => true,
        };
        cgroup == self.target && !asked_for && !self.ours.contains(&tgid)
    }

    fn kill(&self, kill: &OomKill) -> Option<Signal> {
        let own_limit = match kill.owner {
            OomOwner::Cgroup { id, .. } => id == self.target,
            OomOwner::Node | OomOwner::Unknown => false,
        };
        let inside = |id: CgroupId| id == self.target || self.below.contains(&id);
        let concerns = own_limit || kill.victim.cgroup.is_some_and(inside);
        concerns.then_some(Signal::OomKill { victim_pid: kill.victim.tgid, own_limit })
    }

    fn write(&self, write: &LimitWrite) -> Option<Signal> {
        let file = match write.file {
            LimitKind::MemoryMax => LimitFile::Max,
            LimitKind::MemoryHigh => LimitFile::High,
            LimitKind::SwapMax
            | LimitKind::MemoryMin
            | LimitKind::MemoryLow
            | LimitKind::CpuMax
            | LimitKind::CpuWeight
            | LimitKind::CpusetCpus
            | LimitKind::PidsMax => {
                return None;
            }
        };
        if write.cgroup != self.target || self.ours.contains(&write.writer.tgid) {
            return None;
        }
        let end = write.end?;
        // A refused string changes nothing; an interrupted write may have. What is written once more is somebody's will too.
        match end.new {
            LimitValue::Memory(new) if end.new != write.old || end.result.is_ok() => {
                Some(Signal::LimitWritten { file, new, writer_pid: write.writer.tgid })
            }
            LimitValue::Memory(_)
            | LimitValue::Cpu { .. }
            | LimitValue::Weight(_)
            | LimitValue::Cpus(_)
            | LimitValue::Count(_) => None,
        }
    }

    fn life(&mut self, life: &CgroupLife) -> Option<Signal> {
        match life.event {
            LifeEvent::Mkdir => {
                let inside = life.parent == self.target || self.below.contains(&life.parent);
                if inside && self.below.len() < BELOW_MAX {
                    self.below.insert(life.cgroup);
                }
                None
            }
            // Its id stays known: a kill in it may be told after its removal.
            LifeEvent::Rmdir | LifeEvent::Release => (life.cgroup == self.target).then_some(Signal::Gone),
        }
    }
}
