//! What the agent does by itself: changes that the policy asks for, figures for who scrapes, a configuration read anew.

use super::{
    Agent, overheads,
    shrinks::{Ask, Failed, Given},
};
use crate::{
    actuate::StateDir,
    admin::model::{HappeningKind, PartState, Refusal},
    cgroup::Mount,
    chain::chain,
    config::{self, Config},
    cri::Client,
    guard::GuardMode,
    health::PartName,
    inventory::{Container, Pod},
    metrics::{ContainerGauges, GuardGauges, Loss, NodeGauges, OverheadCost, Own},
    node::node_policy,
    probe::Probe,
    resize::{Actor, Ended, Gate, Via},
    shrink::{Bus, now},
};
use enforcer_gate::{Bytes, Policy, Verdict};
use std::{path::PathBuf, sync::Arc, time::Duration};

impl Agent {
    /// Begins the changes whose turn it is.
    pub(super) fn policy_turn(&mut self) {
        // Nothing is lowered unseen, without a journal, or while the runtime could not be told of it.
        let is_asked = self.health.states().get(&PartName::Inventory) == Some(&PartState::Ready);
        if self.probe.is_none() || self.state.settled().is_none() || !is_asked {
            return;
        }
        let asks = self.steward.turn(&mut self.book, &self.shrinks, &self.policy, now());
        for ask in asks {
            self.start_shrink(ask);
        }
    }

    fn start_shrink(&mut self, ask: Ask) {
        if let Some(with) = self.with(&ask) {
            self.begin(ask, move |given: Given| with.carry_out(given));
        }
    }

    /// What carrying that out takes; nothing where it can't be had now.
    pub(super) fn with(&self, ask: &Ask) -> Option<With> {
        let entry = self.book.get(&ask.id)?;
        Some(With {
            pod: Arc::clone(&entry.pod),
            container: Arc::clone(&entry.container),
            to: ask.to,
            socket: self.runtime.socket()?.clone(),
            deadline: Duration::from_micros(self.config.cri.deadline.get()),
            mount: Arc::clone(&self.mount),
            bus: self.bus.clone(),
            policy: self.policy.clone(),
            state_dir: self.state.settled()?.clone(),
        })
    }

    /// Begins a change, unless its pod has one in flight or too many are.
    pub(super) fn begin<F>(&mut self, ask: Ask, work: impl FnOnce(Given) -> F) -> bool
    where
        F: Future<Output = Result<Verdict, Failed>> + 'static,
    {
        let (id, target) = (ask.id.clone(), ask.target.clone());
        let for_whom = if ask.by == super::kubelet::BY { ", for the kubelet" } else { "" };
        let text = format!("{} -> {} begins{for_whom}", ask.from, ask.to);
        let begun = self.shrinks.start(ask, work);
        if begun {
            if let Some(entry) = self.book.get_mut(&id) {
                entry.in_flight = true;
            }
            self.happened(&target, HappeningKind::Verdict, &text);
        }
        begun
    }

    /// Has the figures be those of now.
    pub(super) fn refresh(&mut self) {
        let api = self.kubelet.limits();
        let gauges = self.book.iter().map(|(id, entry)| {
            let mut gauges = ContainerGauges::from(&self.view_of(id, entry));
            gauges.api = api.get(id).copied().unwrap_or_default();
            if let Some(reading) = &entry.reading {
                gauges.read(&reading.sample);
            }
            gauges
        });
        self.metrics.set_containers(gauges.collect());
        let probes = self.probe.iter().chain(self.guards.iter().map(super::guards::Guards::probe));
        let programs = probes.filter_map(|probe| Probe::costs(probe).ok()).flatten().collect();
        let mut dropped: std::collections::BTreeMap<_, _> =
            self.kernel_drops().into_iter().map(|(kind, count)| (Loss::Record(kind), count)).collect();
        if let Some(recorder) = &self.recorder {
            dropped.insert(Loss::Event, recorder.unqueued());
        }
        dropped.insert(Loss::Question, self.asked.unasked());
        let overhead = self.overheads.as_ref().map(|overheads| {
            let (figures, spent) = overheads.figures();
            self.metrics.set_overheads(figures);
            dropped.insert(Loss::OverheadPod, spent.left_out);
            dropped.insert(Loss::OverheadLook, spent.incomplete);
            OverheadCost { reads: spent.reads, cpu: spent.cpu }
        });
        let guard = self.guards.as_ref();
        self.metrics.set_node(NodeGauges {
            paused: self.paused,
            pods: self.runtime.inventory().map_or(0, |shared| shared.inventory().pods().count() as u64),
            containers: self.book.len() as u64,
            in_flight: self.shrinks.len() as u64,
            parts: self.health.states(),
            guard: guard.map(|guards| GuardGauges { armed: true, verdicts: guards.verdicts() }),
            overhead,
            programs,
            dropped,
            own: Own::read().ok(),
        });
    }

    /// Reads the configuration anew; what needs a restart is told. Nothing changes where it has an error.
    pub(super) fn reload(&mut self) -> Result<String, Refusal> {
        let loaded = Config::load(self.source.file.as_deref(), &self.source.overrides);
        let (new, warnings) = match loaded {
            Ok(loaded) => loaded,
            Err(errors) => {
                self.metrics.config_reloaded(false);
                let text = format!("the configuration is as it was: {}", errors.in_short());
                self.happened("", HappeningKind::Agent, &text);
                return Err(Refusal {
                    error: errors.to_string(),
                    todo: "mend it: enforcer config check".into(),
                });
            }
        };
        self.metrics.config_reloaded(true);
        for warning in warnings.warnings {
            self.happened("", HappeningKind::Agent, &format!("warning: {warning}"));
        }
        let stays = config::changes_needing_restart(&self.config, &new);
        let text = match stays.as_slice() {
            [] => "the configuration was read anew".to_owned(),
            stays => format!("the configuration was read anew; a restart is needed for {}", stays.join(", ")),
        };
        let (was_to, is_to) = (self.config.agent.paused, new.agent.paused);
        self.take(new);
        // What a person paused is not resumed by a file that never paused it.
        match (was_to, is_to) {
            (_, true) => self.pause(),
            (true, false) => self.resume(),
            (false, false) => {}
        }
        self.happened("", HappeningKind::Agent, &text);
        Ok(text)
    }

    /// What can change while it runs.
    fn take(&mut self, new: Config) {
        self.reader.set_interval(Duration::from_micros(new.agent.reading_interval.get()));
        if let Some(overheads) = &self.overheads {
            overheads.set_pace(overheads::pace(&new.overhead));
        }
        self.sentinel.mends_drift = new.drift.mend;
        self.steward.reload(new.policy.clone(), &self.book);
        self.config = config::taken(&self.config, new);
        self.policy = self.config.gate.policy(&node_policy());
        self.reader.set_policy(self.policy.clone());
        if self.config.guard.mode == GuardMode::Off {
            self.end_guard();
        } else if self.guards.is_none() {
            self.begin_guard();
        }
        self.cover();
    }
}

/// What a change takes.
pub(super) struct With {
    pub(super) pod: Arc<Pod>,
    pub(super) container: Arc<Container>,
    pub(super) to: Bytes,
    socket: PathBuf,
    deadline: Duration,
    mount: Arc<Mount>,
    pub(super) bus: Bus,
    pub(super) policy: Policy,
    pub(super) state_dir: StateDir,
}

impl With {
    /// Who carries it out, over a connection of its own.
    pub(super) async fn actor(&self, given: &mut Given) -> Result<Actor, Failed> {
        let client = tokio::select! {
            client = Client::connect(&self.socket, self.deadline) => client.map_err(|error| error.to_string())?,
            () = given.cancel.cancelled() => return Err("it was stopped before it began".to_owned().into()),
        };
        Ok(Actor::new(client, Arc::clone(&self.mount)))
    }

    /// One shrink through the gate and the runtime.
    async fn carry_out(self, mut given: Given) -> Result<Verdict, Failed> {
        let actor = self.actor(&mut given).await?;
        let Self { pod, container, to, bus, policy, state_dir, .. } = self;
        let (observer, cancel) = (&mut given.observer, Some(given.cancel));
        let gate = Gate { bus: &bus, policy, state_dir, observer, cancel };
        let done = actor.shrink(&container, &pod, to, Via::Cri, gate).await;
        let outcome = done.map_err(|error| chain(&error))?;
        match (outcome.ended(), outcome.why()) {
            (Ended::Failed, Some(why)) => Err(Failed { why, stands: outcome.stands() }),
            (Ended::Done | Ended::Refused | Ended::Failed, _) => match outcome.certificate {
                Some(certificate) => Ok(certificate.verdict),
                None => Err("the limit in force is the one asked for already".to_owned().into()),
            },
        }
    }
}
