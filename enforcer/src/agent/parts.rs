//! The parts that may be missing: begun at the start, and again where they failed.

use super::{
    Agent,
    guards::{Guards, Rule},
    recorder::Recorder,
};
use crate::{
    actuate::recover,
    admin::model::{HappeningKind, PartState},
    chain::chain,
    guard::{GuardMode, log::Log},
    health::PartName,
    oom::{Follower, Labeller, NEEDS},
    probe::{LimitKind, Need, Probe, ProbeOptions},
    shrink::WATCHES,
    store::{Bounds, Keeper},
};
use std::{io, sync::Arc};

/// Beats from a failure to the next try.
const TRY_AGAIN: u64 = 30;

impl Agent {
    /// How a part is from now on. Whether that is news.
    pub(super) fn part(&self, part: PartName, state: PartState, why: &str) -> bool {
        let before = self.health.states().get(&part).copied();
        self.health.set(part, state, why);
        before != Some(state)
    }

    /// Makes the OOM killer look elsewhere first.
    pub(super) fn protect(&mut self) {
        let adj = self.config.agent.oom_score_adj;
        if let Err(error) = std::fs::write("/proc/self/oom_score_adj", adj.to_string()) {
            let text = format!("oom_score_adj is not {adj}: {error}");
            self.happened("", HappeningKind::Agent, &text);
        }
    }

    /// Settles what an earlier agent, or a killed shrink, left.
    pub(super) async fn recover(&mut self) {
        if self.paused {
            return;
        }
        let state = self.state.clone();
        // A cgroup's file may keep whoever writes it waiting.
        let settled = tokio::task::spawn_blocking(move || recover(&state)).await.unwrap_or_default();
        for run in settled {
            self.happened("", HappeningKind::Agent, &format!("an earlier run: {}", run.describe()));
        }
    }

    /// Loads the kernel programs and begins what goes by them.
    pub(super) fn load(&mut self) {
        let off = |on: bool| if on { PartState::Starting } else { PartState::Off };
        self.part(PartName::Policy, PartState::Ready, "");
        self.part(
            PartName::Metrics,
            if self.config.http.listen.is_some() { PartState::Ready } else { PartState::Off },
            "",
        );
        self.part(PartName::Recorder, off(self.config.oom.record), "");
        self.part(PartName::Guard, off(self.config.guard.mode != GuardMode::Off), "");
        self.begin_kernel();
        self.begin_recorder();
        self.begin_guard();
    }

    /// Tries again what failed.
    pub(super) fn begin_again(&mut self) {
        self.beats = self.beats.wrapping_add(1);
        // Loading keeps the loop, which changes in flight need.
        if self.beats % TRY_AGAIN != 0 || self.shrinks.len() > 0 {
            return;
        }
        if self.probe.is_none() {
            self.begin_kernel();
        }
        if self.recorder.is_none() {
            self.begin_recorder();
        }
        if self.guards.is_none() {
            self.begin_guard();
        }
    }

    fn begin_kernel(&mut self) {
        let writes = LimitKind::ALL.iter().map(|file| Need::LimitWrite(*file));
        let needs = NEEDS.into_iter().chain(WATCHES).chain(writes);
        let options = ProbeOptions { keep_past: self.config.oom.record, ..ProbeOptions::only(needs) };
        let (state, why) = match Probe::load(&options) {
            Ok(probe) => {
                let lost =
                    probe.hooks().iter().filter_map(|hook| Some(format!("{}: {}", hook.need, hook.lost?)));
                let lost: Vec<_> = lost.collect();
                self.probe = Some(probe);
                (if lost.is_empty() { PartState::Ready } else { PartState::Degraded }, lost.join("; "))
            }
            Err(error) => (PartState::Failed, chain(&error)),
        };
        if self.part(PartName::Kernel, state, &why) && !why.is_empty() {
            self.happened("", HappeningKind::Agent, &format!("kernel programs: {why}"));
        }
        let (drift, gate) = match state {
            PartState::Failed => (PartState::Failed, PartState::Failed),
            PartState::Ready | PartState::Degraded | PartState::Starting | PartState::Off => {
                (PartState::Ready, PartState::Ready)
            }
        };
        self.part(PartName::Drift, if self.config.drift.watch { drift } else { PartState::Off }, &why);
        self.part(PartName::Gate, gate, &why);
    }

    fn begin_recorder(&mut self) {
        let Some(probe) = self.probe.as_ref().filter(|_| self.config.oom.record) else { return };
        let oom = &self.config.oom;
        let names = self.runtime.names();
        let labeller: Labeller = Box::new(move |place| names.of(place));
        let begun = Keeper::open(&oom.store, Bounds::within(oom.store_max.get()))
            .map_err(|error| chain(&error))
            .and_then(|keeper| {
                Follower::begin(keeper, Arc::clone(&self.mount), probe.hooks(), oom.writes, labeller)
                    .map_err(|error| chain(&error))
            })
            .and_then(|(follower, _)| {
                Recorder::start(follower).map_err(|error: io::Error| error.to_string())
            });
        match begun {
            Ok(recorder) => {
                self.recorder = Some(recorder);
                self.part(PartName::Recorder, PartState::Ready, "");
            }
            Err(why) => {
                if self.part(PartName::Recorder, PartState::Failed, &why) {
                    self.happened("", HappeningKind::Agent, &format!("OOM kills are not recorded: {why}"));
                }
            }
        }
    }

    /// The guard stands where it is asked for by a pod's policy, or may be.
    pub(super) fn begin_guard(&mut self) {
        let guard = &self.config.guard;
        if guard.mode == GuardMode::Off {
            return;
        }
        let rule = Rule { mode: guard.mode, margin: guard.margin };
        let log = Log::open(&guard.store, Bounds::within(guard.store_max.get()));
        let (log, not_kept) = match log {
            Ok(log) => (Some(log), String::new()),
            Err(error) => (None, format!("its verdicts are not kept: {}", chain(&error))),
        };
        match Guards::load(Arc::clone(&self.mount), log, rule) {
            Ok(guards) => {
                self.guards = Some(guards);
                let state = if not_kept.is_empty() { PartState::Ready } else { PartState::Degraded };
                self.part(PartName::Guard, state, &not_kept);
                self.cover();
            }
            Err(error) => self.guard_failed(&chain(&error)),
        }
    }

    /// It is not wanted any more.
    pub(super) fn end_guard(&mut self) {
        if let Some(guards) = self.guards.take() {
            guards.end("the configuration has it off");
        }
        self.part(PartName::Guard, PartState::Off, "");
    }

    /// It stands no longer, and is tried again.
    pub(super) fn guard_failed(&mut self, why: &str) {
        if let Some(guards) = self.guards.take() {
            guards.end(why);
        }
        if self.part(PartName::Guard, PartState::Failed, why) {
            self.happened("", HappeningKind::Guard, &format!("no guard stands: {why}"));
        }
    }

    pub(super) fn guard_beat(&mut self) {
        let Some(guards) = &mut self.guards else { return };
        match guards.beat() {
            Ok(news) => {
                for news in news {
                    let text = match news {
                        crate::guard::log::News::Failing(why) => format!("verdicts are not kept: {why}"),
                        crate::guard::log::News::Lost(lost) => {
                            format!("{} verdicts were lost, {} not kept", lost.dropped, lost.unstored)
                        }
                    };
                    self.happened("", HappeningKind::Guard, &text);
                }
            }
            Err(error) => self.guard_failed(&chain(&error)),
        }
    }

    /// Guards the pods whose policy asks for it.
    pub(super) fn cover(&mut self) {
        let rule = Rule { mode: self.config.guard.mode, margin: self.config.guard.margin };
        let Some(guards) = &mut self.guards else { return };
        if let Err(error) = guards.cover(&self.steward.guarded(&self.book), rule) {
            self.guard_failed(&chain(&error));
        }
    }
}
