//! What the agent says of itself and of the node: the JSON of the admin socket. Bytes, microseconds; `_ns` is the
//! kernel's monotonic clock.

use enforcer_gate::{Bytes, Limit, Micros};
use serde::{Deserialize, Serialize};

/// `GET /v1/status`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The agent's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it has run.
    pub uptime: Micros,
    /// The node's kernel.
    pub kernel: String,
    /// Whether all actuation is stopped.
    pub paused: bool,
    /// Its parts, in a fixed order.
    pub parts: Vec<Part>,
    /// Pods that are known.
    pub pods: u64,
    /// Containers that run.
    pub containers: u64,
    /// What is being done right now.
    pub in_flight: Vec<Flight>,
    /// The last things that happened, the latest last; bounded.
    pub recent: Vec<Happening>,
    /// What was lost, by what.
    pub lost: std::collections::BTreeMap<String, u64>,
}

/// A part of the agent, and whether it does its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// `inventory`, `kernel`, `recorder`, `drift`, `guard`, `gate`, `policy`, `metrics`.
    pub name: String,
    /// How it is.
    pub state: PartState,
    /// Why it is not ready, or what of it is lost; empty where all is well.
    pub why: String,
}

/// How a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// It has begun and is not there yet.
    Starting,
    /// It works.
    Ready,
    /// It works with something missing.
    Degraded,
    /// It does not work, and is tried again.
    Failed,
    /// The configuration leaves it off.
    Off,
}

impl PartState {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::Off => "off",
        }
    }
}

/// A shrink or resize that is being carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flight {
    /// `pod/NAMESPACE/NAME:CONTAINER`.
    pub target: String,
    /// The limit asked for.
    pub to: Bytes,
    /// The limit before.
    pub from: Limit,
    /// The gate's state, by its name.
    pub state: String,
    /// How long it has run.
    pub since: Micros,
    /// Who asked: `policy` or `admin`.
    pub by: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// When, in microseconds since 1970.
    pub at_us: u64,
    /// To which target, or which cgroup; empty for the whole node.
    pub target: String,
    /// What kind.
    pub kind: HappeningKind,
    /// One line for people; no control characters.
    pub text: String,
}

/// The kinds of happenings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HappeningKind {
    /// An OOM kill.
    Oom,
    /// A shrink ended: committed, refused, rolled back, failed.
    Verdict,
    /// A limit is not what it should be.
    Drift,
    /// A limit was put back.
    Mended,
    /// The guard judged a write.
    Guard,
    /// The agent or one of its parts changed.
    Agent,
}

impl HappeningKind {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oom => "oom",
            Self::Verdict => "verdict",
            Self::Drift => "drift",
            Self::Mended => "mended",
            Self::Guard => "guard",
            Self::Agent => "agent",
        }
    }
}

/// `GET /v1/containers`: one line of it for each container that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerView {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's name.
    pub container: String,
    /// The container's id.
    pub id: String,
    /// The runtime's handler; empty for the default one.
    pub handler: String,
    /// The image, as the runtime names it.
    pub image: String,
    /// The cgroup that the runtime made, below the mount; empty where there is none.
    pub cgroup: String,
    /// The cgroup whose limit is in force; it may be one below.
    pub limit_cgroup: String,
    /// `memory.current`.
    pub usage: Option<Bytes>,
    /// The limit in force.
    pub limit: Option<Limit>,
    /// `memory.high` of the same cgroup.
    pub high: Option<Limit>,
    /// The limit as the runtime has it.
    pub runtime_limit: Option<Limit>,
    /// The pod's own `memory.max`.
    pub pod_limit: Option<Limit>,
    /// What stays whatever reclaim does, at the last reading.
    pub floor: Option<Bytes>,
    /// The floor's terms that are not zero, by name, at the last reading.
    pub floor_terms: std::collections::BTreeMap<String, Bytes>,
    /// The lowest limit that the gate would let in, by what was read lately.
    pub safe_minimum: Option<Bytes>,
    /// PSI of memory, share of the last ten seconds, in hundredths of a per cent.
    pub psi_some_avg10: u64,
    /// The same of all tasks at once.
    pub psi_full_avg10: u64,
    /// Refaults of the working set since it began.
    pub refaults: u64,
    /// OOM kills that the agent saw in it.
    pub oom_kills: u64,
    /// `observe`, `guard` or `auto-shrink`.
    pub policy: String,
    /// Where the policy stands: what is waited for, until when, or what blocks it.
    pub policy_state: String,
    /// How the last shrink ended, in a line; empty where there was none.
    pub last_verdict: String,
    /// Limits that are not what the runtime has, one a line: `memory.max is 64Mi, the runtime has 128Mi`.
    pub drift: Vec<String>,
    /// Why something of the above is not there; empty where all is.
    pub missing: String,
}

impl ContainerView {
    /// `pod/NAMESPACE/NAME:CONTAINER`.
    pub fn target(&self) -> String {
        format!("pod/{}/{}:{}", self.namespace, self.pod, self.container)
    }
}

/// `GET /v1/explain?target=pod/NAMESPACE/NAME[:CONTAINER]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The containers that the target means.
    pub containers: Vec<ContainerView>,
    /// What is being done to them.
    pub in_flight: Vec<Flight>,
    /// What happened to them lately, the latest last.
    pub recent: Vec<Happening>,
    /// Whether all actuation is stopped.
    pub paused: bool,
}

/// `POST /v1/pause`, `/v1/resume` and `/v1/reload`: what was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Whether all actuation is stopped now.
    pub paused: bool,
    /// One line for people.
    pub text: String,
    /// After a pause: what is not taken back yet, a line each. Ask again to wait for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under_way: Vec<String>,
}

/// Body of any answer that is none of the above.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong.
    pub error: String,
    /// What to do about it; may be empty.
    pub todo: String,
}
