//! From events of the kernel to one report for each write. No I/O, no clock.

use super::cause::{Cause, Change, Context, Who, classify};
use super::value::Expected;
use crate::probe::{CgroupLife, LifeEvent, LimitKind, LimitValue, LimitWrite, WriteEnd};
use enforcer_gate::{Bytes, CgroupId, Limit, Micros};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

/// A process that writes `memory.max` and `memory.swap.max` within this time updates both at once.
const TOGETHER_NS: u64 = 500_000_000;
/// A write that runs for longer is told before it ends: it may never do so.
const LONG_NS: u64 = 2_000_000_000;
/// Writes that run at once, as many as the kernel programs keep; more are told when they end.
const RUNNING_MAX: usize = 1024;
/// Writes of `memory.max` that are remembered.
const MEMORY_MAX: usize = 1024;
/// Limits whose drift is remembered, and values of each.
const DRIFTED_MAX: usize = 65_536;
const VALUES_MAX: usize = 16;
/// Whoever writes more values than are remembered has a new one told once in this time.
const MORE_NS: u64 = 10_000_000_000;
/// Cgroups whose birth is remembered; of more it is not known that they are new.
const MADE_MAX: usize = 65_536;

/// What is known about a write besides what the kernel told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The cgroup's path, if it has one.
    pub cgroup: Option<PathBuf>,
    /// The path of the writer's cgroup, if it has one.
    pub writer_cgroup: Option<PathBuf>,
    /// Who wrote.
    pub who: Who,
    /// What the file should hold, if anybody said so.
    pub expected: Option<Expected>,
}

/// Whether the value in force differs from what is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    /// It does not, or nothing is expected.
    No,
    /// It does.
    New,
    /// It does, and this value of this limit was told before, or so many others that it is nothing new.
    Known,
}

/// How far a write is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It has not returned yet.
    Running,
    /// It has returned.
    Ended {
        /// With what.
        end: WriteEnd,
        /// Why the limit is what it is.
        cause: Cause,
        /// Whether that is what it should be.
        drift: Drift,
    },
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What the kernel told.
    pub write: LimitWrite,
    /// What else is known.
    pub about: About,
    /// How far it is.
    pub outcome: Outcome,
}

#[derive(Debug)]
struct Running {
    write: LimitWrite,
    about: About,
    told: bool,
}

/// The drift of one limit.
#[derive(Debug, Default)]
struct Drifted {
    /// What was told, the latest last.
    values: VecDeque<LimitValue>,
    /// When that was (`CLOCK_MONOTONIC`).
    told_ns: u64,
}

/// Joins the events of writes.
#[derive(Debug, Default)]
pub struct Watch {
    /// By thread: one has one write at a time.
    running: BTreeMap<u32, Running>,
    /// Writes of zero to `memory.swap.max`, until it is clear whether `memory.max` goes along.
    held: Vec<(LimitWrite, About)>,
    /// Process, cgroup and begin of writes to `memory.max`.
    memory: VecDeque<(u32, CgroupId, u64)>,
    drifted: BTreeMap<(CgroupId, LimitKind), Drifted>,
    /// When cgroups were made (`CLOCK_MONOTONIC`).
    made: BTreeMap<CgroupId, u64>,
    ready: Vec<Report>,
}

impl Watch {
    /// A write began or ended. `about` is asked once a write, at its begin if that is told; `None` from it leaves the
    /// write out.
    pub fn told(&mut self, write: &LimitWrite, about: impl FnOnce() -> Option<About>) {
        let known = self.running.remove(&write.writer.pid);
        let known = known.filter(|running| running.write.begin_ns == write.begin_ns).map(|run| run.about);
        let Some(about) = known.or_else(about) else { return };
        if write.file == LimitKind::MemoryMax {
            self.memory_written(write);
        }
        match write.end {
            None if self.running.len() < RUNNING_MAX => {
                self.running.insert(write.writer.pid, Running { write: *write, about, told: false });
            }
            None => {}
            Some(_) if is_swap_off(write) && !self.goes_along(write) => self.held.push((*write, about)),
            Some(end) => self.ended(write, end, about),
        }
    }

    /// A cgroup came or went.
    pub fn life(&mut self, life: &CgroupLife) {
        match life.event {
            LifeEvent::Mkdir if self.made.len() < MADE_MAX => {
                self.made.insert(life.cgroup, life.at_ns);
            }
            LifeEvent::Mkdir | LifeEvent::Release => {}
            LifeEvent::Rmdir => {
                self.made.remove(&life.cgroup);
                self.drifted.retain(|(of, _), _| *of != life.cgroup);
            }
        }
    }

    /// What there is to tell by now (nanoseconds of `CLOCK_MONOTONIC`).
    pub fn take(&mut self, now_ns: u64) -> Vec<Report> {
        let waited = |(write, _): &mut (LimitWrite, About)| write.at_ns.saturating_add(TOGETHER_NS) <= now_ns;
        for (write, about) in self.held.extract_if(.., waited).collect::<Vec<_>>() {
            if let Some(end) = write.end {
                self.ended(&write, end, about);
            }
        }
        for running in self.running.values_mut() {
            if !running.told && running.write.begin_ns.saturating_add(LONG_NS) <= now_ns {
                running.told = true;
                let Running { write, about, .. } = running;
                self.ready.push(Report { write: *write, about: about.clone(), outcome: Outcome::Running });
            }
        }
        std::mem::take(&mut self.ready)
    }

    /// When [`Watch::take`] has something to tell without a further event.
    pub fn due_ns(&self) -> Option<u64> {
        let held = self.held.iter().map(|(write, _)| write.at_ns.saturating_add(TOGETHER_NS));
        let running = self.running.values().filter(|running| !running.told);
        held.chain(running.map(|running| running.write.begin_ns.saturating_add(LONG_NS))).min()
    }

    /// Whether a write of this limit is to be told yet: it is under way, or has ended.
    pub fn is_to_be_told(&self, cgroup: CgroupId, file: LimitKind) -> bool {
        let running = self.running.values().filter(|running| !running.told).map(|running| &running.write);
        let held = self.held.iter().map(|(write, _)| write);
        let ready = self.ready.iter().map(|report| &report.write);
        running.chain(held).chain(ready).any(|write| (write.cgroup, write.file) == (cgroup, file))
    }

    fn memory_written(&mut self, write: &LimitWrite) {
        if self.memory.len() >= MEMORY_MAX {
            self.memory.pop_front();
        }
        self.memory.push_back((write.writer.tgid, write.cgroup, write.at_ns));
        let along = |(held, _): &mut (LimitWrite, About)| {
            (held.writer.tgid, held.cgroup) == (write.writer.tgid, write.cgroup)
        };
        for (held, about) in self.held.extract_if(.., along).collect::<Vec<_>>() {
            if let Some(end) = held.end {
                self.ended(&held, end, about);
            }
        }
    }

    /// Whether its process writes `memory.max` of the same cgroup at about the same time.
    fn goes_along(&self, write: &LimitWrite) -> bool {
        self.memory.iter().any(|(tgid, cgroup, at_ns)| {
            (*tgid, *cgroup) == (write.writer.tgid, write.cgroup)
                && at_ns.abs_diff(write.at_ns) <= TOGETHER_NS
        })
    }

    fn ended(&mut self, write: &LimitWrite, end: WriteEnd, about: About) {
        let made_ns = self.made.get(&write.cgroup);
        let age = made_ns.map(|made_ns| Micros::new(write.begin_ns.saturating_sub(*made_ns) / 1000));
        let context =
            Context { who: about.who, age, with_memory: is_swap_off(write) && self.goes_along(write) };
        let change = Change { file: write.file, old: write.old, new: end.new };
        let (cause, drifts) = classify(&change, about.expected.as_ref(), &context);
        let drift =
            if drifts { self.drift(write.cgroup, write.file, end.new, write.at_ns) } else { Drift::No };
        let outcome = Outcome::Ended { end, cause, drift };
        self.ready.push(Report { write: *write, about, outcome });
    }

    /// A limit does not drift after all, or any more: what it does from now on is news.
    pub fn forget(&mut self, cgroup: CgroupId, file: LimitKind) {
        self.drifted.remove(&(cgroup, file));
    }

    /// A value of a limit drifts, at this time (`CLOCK_MONOTONIC`).
    pub fn drift(&mut self, cgroup: CgroupId, file: LimitKind, value: LimitValue, at_ns: u64) -> Drift {
        let full = self.drifted.len() >= DRIFTED_MAX && !self.drifted.contains_key(&(cgroup, file));
        if full {
            // Told twice is better than not at all.
            return Drift::New;
        }
        let drifted = self.drifted.entry((cgroup, file)).or_default();
        if drifted.values.contains(&value) {
            return Drift::Known;
        }
        if drifted.values.len() >= VALUES_MAX {
            // Another value each time would be a flood.
            if at_ns < drifted.told_ns.saturating_add(MORE_NS) {
                return Drift::Known;
            }
            drifted.values.pop_front();
        }
        drifted.values.push_back(value);
        drifted.told_ns = at_ns;
        Drift::New
    }
}

/// Whether the write took the swap limit to zero.
fn is_swap_off(write: &LimitWrite) -> bool {
    let zero = LimitValue::Memory(Limit::Bytes(Bytes::ZERO));
    write.file == LimitKind::SwapMax && write.old != zero && write.end.is_some_and(|end| end.new == zero)
}

#[cfg(test)]
mod tests;
