//! The guard of the agent: of the pods whose policy asks for it.

use crate::{
    cgroup::Mount,
    guard::{
        Count, Cover, Guard, GuardError, GuardMode, GuardOptions, Keeper, Kept,
        log::{Log, News, Standing, Stored, VerdictRecord, tell},
    },
    probe::{Judged, LimitKind},
};
use enforcer_gate::{Bytes, CgroupId};
use std::{collections::BTreeSet, sync::Arc};

/// The files that are guarded. Not `memory.swap.max`: runtimes write 0 to it with every update of memory.
const GUARDED: [LimitKind; 2] = [LimitKind::MemoryMax, LimitKind::MemoryHigh];

/// How pods are guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) mode: GuardMode,
    pub(super) margin: Bytes,
}

/// What the guard has to say.
#[derive(Debug)]
pub(super) enum Told {
    /// It judged a write.
    Judged(Box<VerdictRecord>, Judged),
    /// systemd was told what is in force.
    Kept(Kept),
}

/// The guard in the kernel, and what it said.
pub(super) struct Guards {
    guard: Guard,
    mount: Arc<Mount>,
    log: Log,
    keeper: Keeper,
    rule: Rule,
    covered: BTreeSet<CgroupId>,
}

impl Guards {
    /// Loads it. It guards nothing yet.
    pub(super) fn load(mount: Arc<Mount>, log: Log, rule: Rule) -> Result<Self, GuardError> {
        let mut guard = Guard::load(GuardOptions::default())?;
        guard.beat()?;
        let mut guards =
            Self { guard, mount, log, keeper: Keeper::default(), rule, covered: BTreeSet::new() };
        let mode = rule.mode.name().into();
        guards.log.begin(Standing { mode, margin: rule.margin, ..Standing::default() });
        Ok(guards)
    }

    /// Guards exactly these cgroups and all below them.
    pub(super) fn cover(&mut self, wanted: &BTreeSet<CgroupId>, rule: Rule) -> Result<(), GuardError> {
        for gone in self.covered.difference(wanted).copied().collect::<Vec<_>>() {
            self.guard.uncover(gone);
            self.covered.remove(&gone);
        }
        let is_other = std::mem::replace(&mut self.rule, rule) != rule;
        for cgroup in wanted {
            if is_other || !self.covered.contains(cgroup) {
                let cover = Cover {
                    mode: rule.mode,
                    files: GUARDED.to_vec(),
                    margin: rule.margin,
                    own: true,
                    below: true,
                };
                self.guard.cover(*cgroup, &cover)?;
                self.covered.insert(*cgroup);
            }
        }
        Ok(())
    }

    /// How many writes were judged how.
    pub(super) fn verdicts(&self) -> Vec<Count> {
        self.guard.counts().unwrap_or_default()
    }

    /// The guard lives on, for five seconds from here.
    pub(super) fn beat(&mut self) -> Result<Vec<News>, GuardError> {
        self.guard.beat()?;
        self.guard.sweep()?;
        let dropped = self.guard.dropped()?;
        self.log.beat(dropped);
        Ok(self.log.news())
    }

    /// Verdicts that had no room in the kernel's buffer.
    pub(super) fn dropped(&self) -> u64 {
        self.guard.dropped().unwrap_or(0)
    }

    /// The kernel programs, for what they cost.
    pub(super) fn probe(&self) -> &crate::probe::Probe {
        self.guard.probe()
    }

    /// What it has to say next. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Told, GuardError> {
        tokio::select! {
            judged = self.guard.next() => {
                let judged = judged?;
                let record = tell(&judged, &self.mount);
                self.log.keep(Stored::Verdict(Box::new(record.clone())));
                self.keeper.after(&judged, &self.mount);
                Ok(Told::Judged(Box::new(record), judged))
            }
            Some(kept) = self.keeper.next(&self.mount) => Ok(Told::Kept(kept)),
        }
    }

    /// Disarms it. How many records were not kept.
    pub(super) fn end(mut self, why: &str) -> u64 {
        // It ends with its process anyhow.
        let _ = self.guard.disarm();
        let dropped = self.dropped();
        let told = self.log.not_kept();
        self.log.end(why, dropped).saturating_sub(told)
    }
}
