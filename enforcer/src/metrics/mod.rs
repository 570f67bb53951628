//! What Prometheus is told. [`definitions`] has every metric; docs/metrics.md is made of it.
//!
//! The agent counts what happens by the methods of [`Metrics`], and hands over all gauges as a whole before they are
//! told. Label values are of closed sets, but for the names of at most [`definitions::CONTAINERS_MAX`] containers.

pub mod definitions;
#[cfg(test)]
mod documented;
mod exposition;
mod gauges;
pub mod labels;
mod own;
mod series;
mod spread;
mod state;

pub use exposition::Format;
pub use gauges::{ApiLimits, ContainerGauges, GuardGauges, NodeGauges, OverheadCost, OverheadGauges};
pub use labels::Loss;
pub use own::{Own, OwnError};

use crate::{
    clock::wall_us,
    cri::CriError,
    drift::Who,
    http::Losses,
    names::Role,
    oom::{OomRecord, Owner},
    probe::{LimitKind, OomConstraint},
};
use definitions::Metric;
use enforcer_gate::{Micros, Verdict};
use exposition::Figures;
use labels::{OUTCOMES, UNKNOWN};
use prometheus_client::{encoding, registry::Registry};
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Everything that Prometheus is told. A clone shares it.
#[derive(Debug, Clone)]
pub struct Metrics {
    state: Arc<Mutex<State>>,
    registry: Arc<Registry>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing has happened, and the agent begins now.
    pub fn new() -> Self {
        Self::since(Micros::new(wall_us()))
    }

    /// The same, but the agent began then, since 1970.
    fn since(began: Micros) -> Self {
        let state = Arc::new(Mutex::new(State::new(began)));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Figures(Arc::clone(&state))));
        Self { state, registry: Arc::new(registry) }
    }

    /// A shrink ended, so long after it was asked for.
    pub fn shrink_ended(&self, verdict: &Verdict, took: Micros) {
        self.state().shrink_ended(verdict, took);
    }

    /// The recorder told of an OOM: each of its victims counts.
    pub fn oom(&self, record: &OomRecord) {
        let owner = match record.owner {
            Owner::Cgroup { id, .. } => {
                let place = record.cgroup(id).and_then(|cgroup| cgroup.place.as_ref());
                place.map_or(UNKNOWN, |place| place.role.name())
            }
            Owner::Node => Role::Node.name(),
            Owner::Unknown => UNKNOWN,
        };
        let constraint = OomConstraint::ALL.iter().find(|known| known.name() == record.constraint);
        let constraint = constraint.copied().unwrap_or(OomConstraint::None).name();
        let victims = u64::try_from(record.victims.len()).unwrap_or(u64::MAX);
        let killed = victims.saturating_add(record.victims_lost.into());
        self.state().add(Metric::OomKills, [owner, constraint], killed);
    }

    /// A limit file was written.
    pub fn limit_written(&self, file: LimitKind, who: Who) {
        self.state().add(Metric::LimitWrites, [file.name(), who.name()], 1);
    }

    /// A write left a limit other than it should be.
    pub fn drifted(&self, file: LimitKind, who: Who) {
        self.state().add(Metric::Drifts, [file.name(), who.name()], 1);
    }

    /// A limit that had drifted was put back, or could not be.
    pub fn mended(&self, file: LimitKind, is_done: bool) {
        self.state().add(Metric::Mends, [file.name(), outcome(is_done)], 1);
    }

    /// A call of the container runtime failed.
    pub fn runtime_call_failed(&self, error: &CriError) {
        self.state().runtime_call_failed(error.call());
    }

    /// The configuration was read again, and taken or not.
    pub fn config_reloaded(&self, is_done: bool) {
        self.state().add(Metric::Reloads, [outcome(is_done), ""], 1);
    }

    /// So many more were lost.
    pub fn dropped(&self, loss: Loss, more: u64) {
        self.state().dropped(loss, more);
    }

    /// Where a server counts the connections that it did not serve; they are told with [`Loss`].
    pub fn connections(&self) -> Losses {
        self.state().connections.clone()
    }

    /// All containers, in place of those before. At most [`definitions::CONTAINERS_MAX`] are told, in the order given,
    /// and each name once.
    pub fn set_containers(&self, all: Vec<ContainerGauges>) {
        self.state().set_containers(all);
    }

    /// What all pods take beyond their containers, in place of what was told before. At most [`definitions::PODS_MAX`] are
    /// told, and each name once.
    pub fn set_overheads(&self, all: Vec<OverheadGauges>) {
        self.state().set_overheads(all);
    }

    /// The node's and the agent's figures, in place of those before.
    pub fn set_node(&self, node: NodeGauges) {
        self.state().node = node;
    }

    /// The whole as `OpenMetrics`.
    pub fn render(&self) -> String {
        self.render_as(Format::OpenMetrics)
    }

    /// The whole in a format.
    pub fn render_as(&self, format: Format) -> String {
        let mut text = String::new();
        let told = match format {
            Format::Text => encoding::prometheus_text::encode(&mut text, &self.registry),
            Format::OpenMetrics => encoding::text::encode(&mut text, &self.registry),
        };
        // A String takes everything.
        debug_assert!(told.is_ok(), "a metric's value does not fit its type");
        text
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn outcome(is_done: bool) -> &'static str {
    if is_done { OUTCOMES[0] } else { OUTCOMES[1] }
}
