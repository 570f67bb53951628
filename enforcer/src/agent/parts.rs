//! The parts that may be missing: begun at the start, and again where they failed.

use super::{
    Agent, memory,
    recorder::{Recorder, Told},
    state::Opened,
};
use crate::{
    admin::model::{HappeningKind, PartState},
    cgroup::shown,
    chain::chain,
    config::{self, Changes},
    guard::GuardMode,
    health::PartName,
    oom::{Follower, Labeller, NEEDS},
    probe::{LimitKind, Need, Probe, ProbeOptions},
    shrink::WATCHES,
    store::{Bounds, Keeper},
};
use std::{path::Path, sync::Arc};

/// Beats from a failure to the next try.
const TRY_AGAIN: u64 = 30;
/// What is waited for at the start.
pub(super) const LOADING: &str = "the kernel programs are being loaded";

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

    /// Has the agent see by itself that its configuration's file is another one, where that is asked for.
    pub(super) fn watch_config(&mut self) {
        if !self.config.agent.watch_config {
            return;
        }
        let file = self.source.file.as_deref().unwrap_or(Path::new(config::FILE_DEFAULT));
        match Changes::watch(file, self.source.version) {
            Ok(changes) => self.changes = Some(changes),
            Err(error) => {
                let file = shown(file);
                let text = format!("changes of {file} are not seen: {error}; enforcer reload reads it anew");
                self.happened("", HappeningKind::Agent, &text);
            }
        }
    }

    /// The journals' folder was opened and settled, or could not be.
    pub(super) fn opened(&mut self, opened: Opened) {
        self.gate_part();
        for run in opened.unwrap_or_default() {
            self.happened("", HappeningKind::Agent, &format!("an earlier run: {}", run.describe()));
        }
        if let Some(why) = self.state.news() {
            self.happened("", HappeningKind::Agent, &format!("nothing is lowered: {why}"));
        }
    }

    /// Limits are lowered with the kernel programs and the journals.
    pub(super) fn gate_part(&self) {
        let (state, why) = match &self.probe {
            Some(_) => self.state.part(),
            None if self.is_first_load() => match self.state.part() {
                (PartState::Ready | PartState::Starting | PartState::Off, _) => {
                    (PartState::Starting, LOADING.into())
                }
                trouble @ (PartState::Degraded | PartState::Failed, _) => trouble,
            },
            None => (PartState::Failed, "there are no kernel programs, and nothing is lowered unseen".into()),
        };
        self.part(PartName::Gate, state, &why);
    }

    /// Whether the kernel programs are being loaded and have not failed before.
    fn is_first_load(&self) -> bool {
        self.kernel_loading.is_busy()
            && self.health.states().get(&PartName::Kernel) == Some(&PartState::Starting)
    }

    /// Begins to load the kernel programs, and all that needs none.
    pub(super) fn load(&mut self) {
        let off = |on: bool| if on { PartState::Starting } else { PartState::Off };
        self.part(PartName::Policy, PartState::Ready, "");
        self.part(
            PartName::Metrics,
            if self.config.http.listen.is_some() { PartState::Ready } else { PartState::Off },
            "",
        );
        self.part(PartName::Kernel, PartState::Starting, LOADING);
        self.part(PartName::Recorder, off(self.config.oom.record), LOADING);
        self.part(PartName::Drift, off(self.config.drift.watch), LOADING);
        self.part(PartName::Guard, off(self.config.guard.mode != GuardMode::Off), LOADING);
        self.part(PartName::Kubernetes, off(self.config.kubernetes.enabled), "the API server is looked for");
        self.begin_kernel();
        self.begin_kubernetes();
        self.gate_part();
    }

    /// Tries again what failed.
    pub(super) fn begin_again(&mut self) {
        self.beats = self.beats.wrapping_add(1);
        if !self.beats.is_multiple_of(TRY_AGAIN) {
            return;
        }
        if self.probe.is_none() {
            self.begin_kernel();
        }
        self.begin_reader();
        self.begin_overheads();
        self.state.begin();
        if self.recorder.is_none() {
            self.begin_recorder();
        }
        if self.guards.is_none() {
            self.begin_guard();
        }
        self.begin_kubernetes();
    }

    fn begin_reader(&mut self) {
        match self.reader.begin() {
            Ok(()) if self.health.states().get(&PartName::Policy) == Some(&PartState::Failed) => {
                self.part(PartName::Policy, PartState::Ready, "");
                self.happened("", HappeningKind::Agent, "containers are read again");
            }
            Ok(()) => {}
            Err(error) => self.reader_failed(&chain(&error)),
        }
    }

    /// Where its thread has ended, which it should not.
    fn begin_overheads(&mut self) {
        let text = match self.overheads.as_mut().map(super::overheads::Overheads::begin) {
            None | Some(Ok(false)) => return,
            Some(Ok(true)) => {
                "the thread that looks at pods' overhead had ended, and was begun again".to_owned()
            }
            Some(Err(error)) => format!("pods' overhead is not told: {error}"),
        };
        self.happened("", HappeningKind::Agent, &text);
    }

    fn begin_kernel(&mut self) {
        let writes = LimitKind::ALL.iter().map(|file| Need::LimitWrite(*file));
        let needs = NEEDS.into_iter().chain(WATCHES).chain(writes);
        let options = ProbeOptions { keep_past: self.config.oom.record, ..ProbeOptions::only(needs) };
        self.kernel_loading.begin(move || {
            let loaded = Probe::load(&options).map_err(|error| chain(&error));
            memory::give_back();
            loaded
        });
    }

    /// The kernel programs are there, or can't be: what goes by them begins.
    pub(super) fn kernel_loaded(&mut self, loaded: Result<Box<Probe>, String>) {
        let (state, why) = match loaded {
            Ok(probe) => {
                let lost =
                    probe.hooks().iter().filter_map(|hook| Some(format!("{}: {}", hook.need, hook.lost?)));
                let lost: Vec<_> = lost.collect();
                self.probe = Some(*probe);
                (if lost.is_empty() { PartState::Ready } else { PartState::Degraded }, lost.join("; "))
            }
            Err(why) => (PartState::Failed, why),
        };
        if self.part(PartName::Kernel, state, &why) {
            let text = match why.as_str() {
                "" => "the kernel programs are loaded".to_owned(),
                why => format!("kernel programs: {why}"),
            };
            self.happened("", HappeningKind::Agent, &text);
        }
        let drift = match state {
            _ if !self.config.drift.watch => PartState::Off,
            PartState::Failed => PartState::Failed,
            PartState::Ready | PartState::Degraded | PartState::Starting | PartState::Off => PartState::Ready,
        };
        self.part(PartName::Drift, drift, &why);
        self.gate_part();
        if self.probe.is_none() && self.config.oom.record {
            self.recorder_failed("there are no kernel programs");
        }
        if self.recorder.is_none() {
            self.begin_recorder();
        }
        if self.guards.is_none() {
            self.begin_guard();
        }
    }

    fn begin_recorder(&mut self) {
        let Some(probe) = self.probe.as_ref().filter(|_| self.config.oom.record) else { return };
        let oom = &self.config.oom;
        let names = self.runtime.names();
        let labeller: Labeller = Box::new(move |place| names.of(place));
        let (store, bounds, writes) = (oom.store.clone(), Bounds::within(oom.store_max.get()), oom.writes);
        let (mount, hooks) = (Arc::clone(&self.mount), probe.hooks().to_vec());
        let begun = Recorder::start(move || {
            let keeper = Keeper::open(&store, bounds).map_err(|error| chain(&error))?;
            let begun = Follower::begin(keeper, mount, &hooks, writes, labeller);
            begun.map(|(follower, _)| follower).map_err(|error| chain(&error))
        });
        match begun {
            Ok(recorder) => {
                self.recorder = Some(recorder);
                if self.health.states().get(&PartName::Recorder) == Some(&PartState::Starting) {
                    self.part(PartName::Recorder, PartState::Starting, "its store is being opened");
                }
            }
            Err(error) => self.recorder_failed(&error.to_string()),
        }
    }

    /// What the recorder says of itself.
    pub(super) fn recorder_told(&mut self, told: Option<Told>) {
        match told.unwrap_or_else(|| Told::Failed("its thread has ended".into())) {
            Told::Begun => {
                self.part(PartName::Recorder, PartState::Ready, "");
            }
            Told::Failed(why) => {
                self.recorder = None;
                self.recorder_failed(&why);
            }
            Told::Record(stored) => self.recorded(&stored),
            Told::Trouble(Some(why)) => {
                if self.part(PartName::Recorder, PartState::Degraded, &why) {
                    self.happened(
                        "",
                        HappeningKind::Agent,
                        &format!("OOM kills are told and not kept: {why}"),
                    );
                }
            }
            Told::Trouble(None) => {
                if self.part(PartName::Recorder, PartState::Ready, "") {
                    self.happened("", HappeningKind::Agent, "OOM kills are kept again");
                }
            }
        }
    }

    fn recorder_failed(&mut self, why: &str) {
        if self.part(PartName::Recorder, PartState::Failed, why) {
            self.happened("", HappeningKind::Agent, &format!("OOM kills are not recorded: {why}"));
        }
    }
}
