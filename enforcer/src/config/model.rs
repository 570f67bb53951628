//! What can be configured, as values. No I/O.

use crate::{
    actuate::STATE_DIR_DEFAULT,
    admin::SOCKET_DEFAULT,
    cri,
    guard::{self, GuardMode},
    oom::{self, RecorderOptions},
    policy::Defaults,
    store::Bounds,
};
use enforcer_gate::{Bytes, Micros, Policy as GatePolicy, StallBudget};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

/// Everything that the agent can be told, by section. What each value means and may be: docs/configuration.md.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// `[agent]`
    pub agent: Agent,
    /// `[cri]`
    pub cri: Cri,
    /// `[http]`
    pub http: Http,
    /// `[oom]`
    pub oom: Oom,
    /// `[drift]`
    pub drift: Drift,
    /// `[guard]`
    pub guard: Guard,
    /// `[overhead]`
    pub overhead: Overhead,
    /// `[gate]`
    pub gate: Gate,
    /// `[policy]`
    pub policy: Defaults,
    /// `[kubernetes]`
    pub kubernetes: Kubernetes,
}

/// The Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// Whether it is asked at all.
    pub enabled: bool,
    /// How it is reached; `None` takes the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The node whose pods are followed; `None` takes `NODE_NAME` of the environment, then the host's name.
    pub node: Option<String>,
    /// How long the brake stays on after the commit, so that the kubelet's own check passes.
    pub watch: Micros,
    /// How long after that the kubelet is waited for.
    pub within: Micros,
    /// Whether a limit that was given back is given back in the API too.
    pub take_back: bool,
    /// Whether pods get events.
    pub events: bool,
}

/// The agent itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Where the journal lives.
    pub state_dir: PathBuf,
    /// Where the admin socket is made.
    pub admin_socket: PathBuf,
    /// Whether a changed file is read anew without being told.
    pub watch_config: bool,
    /// Whether all actuation is stopped.
    pub paused: bool,
    /// How long a shutdown waits for shrinks in flight.
    pub settle_timeout: Micros,
    /// Its own `oom_score_adj`.
    pub oom_score_adj: i32,
    /// How often every container's cgroup is read.
    pub reading_interval: Micros,
}

/// The container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cri {
    /// Its socket, a path or `unix:///path`; `None` where it is searched ([`cri::find`]).
    pub socket: Option<String>,
    /// What one call may take.
    pub deadline: Micros,
    /// Whether its event stream is followed beside the kernel's own word.
    pub events: bool,
}

/// Metrics and health over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Where to listen; `None` where not at all.
    pub listen: Option<SocketAddr>,
}

/// The OOM flight recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oom {
    /// Whether OOM kills are recorded.
    pub record: bool,
    /// The store's folder.
    pub store: PathBuf,
    /// The most that all records may take.
    pub store_max: Bytes,
    /// How long before an OOM a write to a limit is told with it.
    pub writes: Micros,
}

/// The drift sentinel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Whether writes to limits are told.
    pub watch: bool,
    /// Whether a limit that somebody else changed is put back.
    pub mend: bool,
}

/// The guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// What it does about an unsafe write.
    pub mode: GuardMode,
    /// How far a new limit must stay above usage, at least.
    pub margin: Bytes,
    /// The folder where verdicts are kept.
    pub store: PathBuf,
    /// The most that all kept verdicts may take.
    pub store_max: Bytes,
}

/// What pods cost beyond their containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overhead {
    /// Whether it is told, as metrics.
    pub watch: bool,
    /// From one look at a pod to the next, at least.
    pub interval: Micros,
    /// The most files that are read for it in a second.
    pub reads_per_second: u32,
}

/// How limits are lowered: the options of `enforcer shrink`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// How long a container is looked at before anything is changed.
    pub observe: Micros,
    /// How long the brake is tried before `memory.max` goes down.
    pub window: Micros,
    /// How long the brake stays on after that.
    pub watch: Micros,
    /// The most stall (PSI `full`) that a shrink may add in all.
    pub budget: Micros,
    /// Least headroom between floor and target.
    pub headroom: Bytes,
    /// Whether limits are lowered although something kills on memory pressure of an ancestor.
    pub allow_pressure_killer: bool,
}

impl Default for Gate {
    fn default() -> Self {
        let policy = GatePolicy::default();
        Self {
            observe: policy.observe_window,
            window: policy.trial_window,
            watch: policy.watch_window,
            budget: policy.stall.full_total,
            headroom: policy.headroom_min,
            allow_pressure_killer: policy.allow_pressure_killer,
        }
    }
}

impl Gate {
    /// The gate's thresholds, on top of a node's.
    pub fn policy(&self, node: &GatePolicy) -> GatePolicy {
        GatePolicy {
            observe_window: self.observe,
            trial_window: self.window,
            watch_window: self.watch,
            headroom_min: self.headroom,
            allow_pressure_killer: self.allow_pressure_killer,
            stall: StallBudget {
                full_per_second: node.stall.full_per_second.min(self.budget),
                full_total: self.budget,
                some_total: self.budget.scaled(2, 1),
            },
            ..node.clone()
        }
    }
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            state_dir: STATE_DIR_DEFAULT.into(),
            admin_socket: SOCKET_DEFAULT.into(),
            watch_config: false,
            paused: false,
            settle_timeout: Micros::from_secs(10),
            oom_score_adj: -999,
            reading_interval: Micros::from_secs(15),
        }
    }
}

impl Default for Cri {
    fn default() -> Self {
        Self { socket: None, deadline: Micros::from_secs(cri::DEADLINE.as_secs()), events: true }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9464))) }
    }
}

impl Default for Oom {
    fn default() -> Self {
        Self {
            record: true,
            store: oom::STORE_DEFAULT.into(),
            store_max: Bytes::new(Bounds::default().total_bytes),
            writes: RecorderOptions::default().writes,
        }
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self { watch: true, mend: false }
    }
}

impl Default for Overhead {
    fn default() -> Self {
        Self { watch: false, interval: Micros::from_secs(60), reads_per_second: 200 }
    }
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            enabled: false,
            kubeconfig: None,
            node: None,
            // The kubelet's figures of a pod are up to 15 s old, and it tries again each 10 to 15 s.
            watch: Micros::from_secs(45),
            within: Micros::from_secs(60),
            take_back: false,
            events: true,
        }
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            mode: GuardMode::Audit,
            margin: guard::MARGIN_MIN,
            store: guard::log::STORE_DEFAULT.into(),
            store_max: Bytes::new(Bounds::default().total_bytes),
        }
    }
}
