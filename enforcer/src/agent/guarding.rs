//! The guard as a part of the agent: loaded, told whom to guard, ended.

use super::{
    Agent,
    guards::{Guards, Rule},
    memory,
    parts::LOADING,
};
use crate::{
    admin::model::{HappeningKind, PartState},
    chain::chain,
    guard::{
        GuardMode,
        log::{Log, News},
        unseen,
    },
    health::PartName,
    store::Bounds,
};
use std::sync::Arc;

impl Agent {
    /// The guard stands where it is asked for by a pod's policy, or may be. It is loaded after the other kernel programs:
    /// each takes its memory while it is.
    pub(super) fn begin_guard(&mut self) {
        let guard = &self.config.guard;
        if guard.mode == GuardMode::Off || self.kernel_loading.is_busy() || self.guard_loading.is_busy() {
            return;
        }
        if self.health.states().get(&PartName::Guard) == Some(&PartState::Off) {
            self.part(PartName::Guard, PartState::Starting, LOADING);
        }
        let (store, bounds) = (guard.store.clone(), Bounds::within(guard.store_max.get()));
        let (mount, rule) = (Arc::clone(&self.mount), self.guard_rule());
        self.guard_loading.begin(move || {
            let log = Log::opening(&store, bounds).map_err(|error| chain(&error))?;
            let loaded = Guards::load(mount, log, rule).map_err(|error| chain(&error));
            memory::give_back();
            loaded
        });
    }

    /// The guard is there, or can't be.
    pub(super) fn guard_loaded(&mut self, loaded: Result<Box<Guards>, String>) {
        match loaded {
            Ok(guards) => {
                self.guards = Some(*guards);
                if self.config.guard.mode == GuardMode::Off {
                    self.end_guard();
                    return;
                }
                self.part(PartName::Guard, PartState::Ready, "");
                self.cover();
            }
            Err(why) if self.config.guard.mode == GuardMode::Off => {
                self.part(PartName::Guard, PartState::Off, &why);
            }
            Err(why) => self.guard_failed(&why),
        }
    }

    /// How pods are guarded: no margin is smaller than what the CPUs can charge unseen. A pause lifts every brake, and a
    /// refusal is a brake on others: then it only tells.
    fn guard_rule(&self) -> Rule {
        let guard = &self.config.guard;
        let mode = match guard.mode {
            GuardMode::Enforce if self.paused => GuardMode::Audit,
            mode @ (GuardMode::Off | GuardMode::Audit | GuardMode::Enforce) => mode,
        };
        Rule { mode, margin: guard.margin.max(unseen(&self.policy)) }
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
                        News::Failing(why) => {
                            self.part(
                                PartName::Guard,
                                PartState::Degraded,
                                &format!("its verdicts are not kept: {why}"),
                            );
                            format!("verdicts are not kept: {why}")
                        }
                        News::Keeping => {
                            self.part(PartName::Guard, PartState::Ready, "");
                            "verdicts are kept again".into()
                        }
                        News::Lost(lost) => {
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
        let rule = self.guard_rule();
        let Some(guards) = &mut self.guards else { return };
        if let Err(error) = guards.cover(&self.steward.guarded(&self.book), rule) {
            self.guard_failed(&chain(&error));
        }
    }
}
