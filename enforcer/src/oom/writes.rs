//! The limit writes of the last minute. No I/O, no clock.

use crate::probe::{LimitKind, LimitValue, LimitWrite};
use enforcer_gate::{CgroupId, Limit};
use std::collections::{BTreeSet, VecDeque};

/// Writes that are kept at most; the oldest is forgotten first.
const KEPT_MAX: usize = 4096;
/// Writes that one OOM is told with at most.
const TOLD_MAX: usize = 8;

/// A write, and whether it was our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) write: LimitWrite,
    pub(super) ours: Option<bool>,
}

/// What was written lately.
#[derive(Debug)]
pub(super) struct Writes {
    kept: VecDeque<Kept>,
    keep_ns: u64,
    forgotten: u64,
}

impl Writes {
    /// Keeps what is not older than this.
    pub(super) fn new(keep_ns: u64) -> Self {
        Self { kept: VecDeque::new(), keep_ns, forgotten: 0 }
    }

    /// A write began or ended. `ours` is asked only where it is news.
    pub(super) fn told(&mut self, write: &LimitWrite, ours: impl FnOnce() -> Option<bool>) {
        if !is_memory(write.file) {
            return;
        }
        let is_it = |kept: &&mut Kept| {
            kept.write.begin_ns == write.begin_ns && kept.write.writer.pid == write.writer.pid
        };
        if let Some(kept) = self.kept.iter_mut().rev().find(is_it) {
            kept.write = *write;
            return;
        }
        while self.kept.front().is_some_and(|oldest| self.is_old(oldest, write.begin_ns)) {
            self.kept.pop_front();
        }
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
            self.forgotten = self.forgotten.saturating_add(1);
        }
        self.kept.push_back(Kept { write: *write, ours: ours() });
    }

    /// Writes that were forgotten although they are not old.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn is_old(&self, kept: &Kept, now_ns: u64) -> bool {
        // One that still goes on is of the present, however long ago it began.
        kept.write.end.is_some() && now_ns.saturating_sub(kept.write.at_ns) > self.keep_ns
    }

    /// Those to files of `cgroups` that began before `at_ns`, newest first.
    pub(super) fn before(&self, at_ns: u64, cgroups: &BTreeSet<CgroupId>) -> Vec<Kept> {
        let concerns = |kept: &&Kept| {
            cgroups.contains(&kept.write.cgroup) && kept.write.begin_ns <= at_ns && !self.is_old(kept, at_ns)
        };
        self.kept.iter().rev().filter(concerns).take(TOLD_MAX).copied().collect()
    }
}

/// The value of a memory file.
pub(super) fn limit(value: LimitValue) -> Limit {
    match value {
        LimitValue::Memory(limit) => limit,
        LimitValue::Cpu { .. } | LimitValue::Weight(_) | LimitValue::Cpus(_) | LimitValue::Count(_) => {
            Limit::Max
        }
    }
}

fn is_memory(file: LimitKind) -> bool {
    match file {
        LimitKind::MemoryMax
        | LimitKind::MemoryHigh
        | LimitKind::SwapMax
        | LimitKind::MemoryMin
        | LimitKind::MemoryLow => true,
        LimitKind::CpuMax | LimitKind::CpuWeight | LimitKind::CpusetCpus | LimitKind::PidsMax => false,
    }
}
