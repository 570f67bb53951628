//! The one table of what can be configured. Parsing, `enforcer config default` and docs/configuration.md all come
//! from it. No I/O.

use super::slot::{PATH_BYTES_MAX, Slot};
use crate::{cri::SOCKET_BYTES_MAX, guard::GuardMode, policy::Mode};
use enforcer_gate::{Bytes, Micros, PAGE_SIZE, Policy as GatePolicy};

/// A section of the file.
pub(super) struct Section {
    pub(super) name: &'static str,
    /// What it is about, in a line.
    pub(super) about: &'static str,
    pub(super) keys: &'static [Key],
}

/// A key.
pub(super) struct Key {
    /// With its section: `policy.default`.
    pub(super) path: &'static str,
    pub(super) slot: Slot,
    pub(super) takes: Takes,
    /// What it means, in a line.
    pub(super) about: &'static str,
}

/// When a running agent takes a new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// On SIGHUP.
    Reload,
    /// With the next start.
    Restart,
}

impl Key {
    /// Without its section.
    pub(super) fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }
}

/// The key with this path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    all().find(|key| key.path == path)
}

/// Every key, in the order of the file.
pub(super) fn all() -> impl Iterator<Item = &'static Key> + Clone {
    SECTIONS.iter().flat_map(|section| section.keys)
}

const PAGE: Bytes = Bytes::new(PAGE_SIZE);
const MIB: Bytes = Bytes::from_mib(1);
const SIZE_MAX: Bytes = GatePolicy::HEADROOM_MIN_MAX;
const SECOND: Micros = Micros::from_secs(1);
const HOUR: Micros = Micros::from_secs(3600);

const fn live(path: &'static str, slot: Slot, about: &'static str) -> Key {
    Key { path, slot, takes: Takes::Reload, about }
}

const fn fixed(path: &'static str, slot: Slot, about: &'static str) -> Key {
    Key { path, slot, takes: Takes::Restart, about }
}

pub(super) static SECTIONS: [Section; 10] = [
    Section { name: "agent", about: "the agent itself", keys: &AGENT },
    Section { name: "cri", about: "the container runtime", keys: &CRI },
    Section { name: "http", about: "metrics and health", keys: &HTTP },
    Section { name: "oom", about: "the OOM flight recorder", keys: &OOM },
    Section { name: "drift", about: "the drift sentinel", keys: &DRIFT },
    Section { name: "guard", about: "the guard", keys: &GUARD },
    Section { name: "overhead", about: "what pods cost beyond their containers", keys: &OVERHEAD },
    Section { name: "gate", about: "how limits are lowered", keys: &GATE },
    Section { name: "policy", about: "what is done for a pod without being asked", keys: &POLICY },
    Section {
        name: "kubernetes",
        about: "the Kubernetes API, and the kubelet's own shrinks",
        keys: &KUBERNETES,
    },
];

static AGENT: [Key; 7] = [
    fixed(
        "agent.state_dir",
        Slot::Path(|c| &mut c.agent.state_dir, PATH_BYTES_MAX),
        "where the journal lives",
    ),
    fixed(
        "agent.admin_socket",
        Slot::Path(|c| &mut c.agent.admin_socket, SOCKET_BYTES_MAX),
        "where the agent listens for the other commands of this node; only root can open it",
    ),
    fixed(
        "agent.watch_config",
        Slot::Switch(|c| &mut c.agent.watch_config),
        "true reads the configuration anew by itself once its file is another one, as a changed ConfigMap is; else \
         enforcer reload and SIGHUP do",
    ),
    live(
        "agent.paused",
        Slot::Switch(|c| &mut c.agent.paused),
        "true lifts every brake and stops all actuation",
    ),
    live(
        "agent.settle_timeout",
        Slot::Span(|c| &mut c.agent.settle_timeout, SECOND, Micros::from_secs(600)),
        "how long a shutdown waits until what is in flight is taken back",
    ),
    fixed(
        "agent.oom_score_adj",
        Slot::Score(|c| &mut c.agent.oom_score_adj, -1000, 1000),
        "how soon the kernel picks the agent itself in an OOM; -1000 is never",
    ),
    live(
        "agent.reading_interval",
        Slot::Span(|c| &mut c.agent.reading_interval, Micros::from_millis(100), Micros::from_secs(600)),
        "how often every container's cgroup is read",
    ),
];

static CRI: [Key; 3] = [
    fixed(
        "cri.socket",
        Slot::Socket(|c| &mut c.cri.socket),
        "where the container runtime listens; empty takes the first that there is of containerd's, CRI-O's, k3s' \
         and cri-dockerd's",
    ),
    fixed(
        "cri.deadline",
        Slot::Span(|c| &mut c.cri.deadline, Micros::from_millis(1), Micros::from_secs(600)),
        "what each call to the container runtime may take",
    ),
    fixed(
        "cri.events",
        Slot::Switch(|c| &mut c.cri.events),
        "whether the runtime's event stream is followed; without it only lists and the kernel's events tell",
    ),
];

static HTTP: [Key; 1] = [fixed(
    "http.listen",
    Slot::Listen(|c| &mut c.http.listen),
    "where /metrics, /healthz and /readyz are served; empty is nowhere",
)];

static OOM: [Key; 4] = [
    fixed("oom.record", Slot::Switch(|c| &mut c.oom.record), "whether OOM kills are recorded"),
    fixed("oom.store", Slot::Path(|c| &mut c.oom.store, PATH_BYTES_MAX), "the folder where the records are"),
    fixed(
        "oom.store_max",
        Slot::Size(|c| &mut c.oom.store_max, MIB, SIZE_MAX),
        "the most that all records may take; the oldest go first",
    ),
    fixed(
        "oom.writes",
        Slot::Span(|c| &mut c.oom.writes, Micros::ZERO, HOUR),
        "how long before an OOM a write to a limit file is told with it",
    ),
];

static DRIFT: [Key; 2] = [
    fixed(
        "drift.watch",
        Slot::Switch(|c| &mut c.drift.watch),
        "whether writes to limits are told, with who and why",
    ),
    live(
        "drift.mend",
        Slot::Switch(|c| &mut c.drift.mend),
        "whether a limit that should be another is put back",
    ),
];

static GUARD: [Key; 4] = [
    live(
        "guard.mode",
        Slot::GuardMode(|c| &mut c.guard.mode, GuardMode::ALL),
        "what the guard does about a write that a cgroup can't survive: audit tells, enforce refuses it",
    ),
    live(
        "guard.margin",
        Slot::Size(|c| &mut c.guard.margin, Bytes::ZERO, SIZE_MAX),
        "how far a new limit must stay above usage; what the CPUs can charge unseen where that is more",
    ),
    fixed(
        "guard.store",
        Slot::Path(|c| &mut c.guard.store, PATH_BYTES_MAX),
        "the folder where the guard's verdicts are kept",
    ),
    fixed(
        "guard.store_max",
        Slot::Size(|c| &mut c.guard.store_max, MIB, SIZE_MAX),
        "the most that all kept verdicts may take; the oldest go first",
    ),
];

static OVERHEAD: [Key; 3] = [
    fixed(
        "overhead.watch",
        Slot::Switch(|c| &mut c.overhead.watch),
        "whether what each pod costs beyond its containers is told as metrics",
    ),
    live(
        "overhead.interval",
        Slot::Span(|c| &mut c.overhead.interval, SECOND, HOUR),
        "from one look at a pod to the next, at least",
    ),
    live(
        "overhead.reads_per_second",
        Slot::Count(|c| &mut c.overhead.reads_per_second, 1, 100_000),
        "the most files that are read for it in a second; a look at a pod of one container takes some 40",
    ),
];

static KUBERNETES: [Key; 7] = [
    fixed(
        "kubernetes.enabled",
        Slot::Switch(|c| &mut c.kubernetes.enabled),
        "whether the API server is asked for this node's pods, and way is made for the kubelet's shrinks",
    ),
    fixed(
        "kubernetes.kubeconfig",
        Slot::File(|c| &mut c.kubernetes.kubeconfig, PATH_BYTES_MAX),
        "how the API server is reached; empty takes the pod's service account",
    ),
    fixed(
        "kubernetes.node",
        Slot::Name(|c| &mut c.kubernetes.node),
        "the node's name; empty takes NODE_NAME of the environment, then the host's name",
    ),
    live(
        "kubernetes.watch",
        Slot::Span(|c| &mut c.kubernetes.watch, SECOND, Micros::from_secs(600)),
        "how long the brake stays on under a limit that the kubelet is to lower, so that its own check passes",
    ),
    live(
        "kubernetes.within",
        Slot::Span(|c| &mut c.kubernetes.within, SECOND, Micros::from_secs(600)),
        "how long after that the kubelet is waited for, before the limit goes back up",
    ),
    live(
        "kubernetes.take_back",
        Slot::Switch(|c| &mut c.kubernetes.take_back),
        "whether a limit that had to be given back is patched back in the API (needs patch on pods/resize)",
    ),
    live(
        "kubernetes.events",
        Slot::Switch(|c| &mut c.kubernetes.events),
        "whether a pod gets an event of what was done and refused (needs create on events)",
    ),
];

static GATE: [Key; 6] = [
    live(
        "gate.observe",
        Slot::Span(|c| &mut c.gate.observe, Micros::from_millis(1), GatePolicy::SPAN_MAX),
        "how long a container is looked at before anything is changed",
    ),
    live(
        "gate.window",
        Slot::Span(|c| &mut c.gate.window, Micros::from_millis(1), GatePolicy::SPAN_MAX),
        "the workloads' longest known period: how long the brake is tried before memory.max goes down",
    ),
    live(
        "gate.watch",
        Slot::Span(|c| &mut c.gate.watch, Micros::from_millis(1), GatePolicy::SPAN_MAX),
        "how long the brake stays on after memory.max went down",
    ),
    live(
        "gate.budget",
        Slot::Span(|c| &mut c.gate.budget, Micros::from_millis(1), GatePolicy::SPAN_MAX),
        "the most stall (PSI full) that a shrink may add in all; some may add twice as much",
    ),
    live(
        "gate.headroom",
        Slot::Size(|c| &mut c.gate.headroom, PAGE, SIZE_MAX),
        "least headroom between floor and target",
    ),
    live(
        "gate.allow_pressure_killer",
        Slot::Switch(|c| &mut c.gate.allow_pressure_killer),
        "whether limits are lowered although something kills on memory pressure of an ancestor",
    ),
];

static POLICY: [Key; 14] = [
    live(
        "policy.default",
        Slot::Mode(|c| &mut c.policy.default, &Mode::ALL),
        "the mode of a pod that picks none: observe only tells, guard also guards, auto-shrink also lowers limits",
    ),
    live(
        "policy.label",
        Slot::Label(|c| &mut c.policy.label),
        "the pod label whose value picks the mode; empty is none",
    ),
    live(
        "policy.namespaces",
        Slot::Namespaces(|c| &mut c.policy.namespaces),
        "the namespaces whose pods the policy is for, \"a,b\" or, all but these, \"!a,!b\"; pods of others are observed, whatever they say",
    ),
    live(
        "policy.selector",
        Slot::Labels(|c| &mut c.policy.selector),
        "a label selector as kubectl takes it; pods that it does not select are observed, whatever they say",
    ),
    live(
        "policy.margin_percent",
        Slot::Count(|c| &mut c.policy.margin_percent, 0, 1000),
        "what is left above the safe minimum, in per cent of it",
    ),
    live(
        "policy.margin_min",
        Slot::Size(|c| &mut c.policy.margin_min, Bytes::ZERO, SIZE_MAX),
        "what is left above the safe minimum, at least",
    ),
    live(
        "policy.floor",
        Slot::Size(|c| &mut c.policy.floor, PAGE, SIZE_MAX),
        "no limit is lowered under this",
    ),
    live(
        "policy.ceiling",
        Slot::Ceiling(|c| &mut c.policy.ceiling, PAGE),
        "a limit that is lowered ends at this or under it; max is no ceiling",
    ),
    live(
        "policy.gain_min",
        Slot::Size(|c| &mut c.policy.gain_min, MIB, SIZE_MAX),
        "a shrink that would gain less is not begun",
    ),
    live(
        "policy.interval",
        Slot::Span(|c| &mut c.policy.interval, SECOND, GatePolicy::SPAN_MAX),
        "time between two shrinks of one container",
    ),
    live(
        "policy.interval_max",
        Slot::Span(|c| &mut c.policy.interval_max, SECOND, GatePolicy::SPAN_MAX),
        "what pressure stretches the interval to, at most",
    ),
    live(
        "policy.window",
        Slot::Span(|c| &mut c.policy.window, SECOND, GatePolicy::SPAN_MAX),
        "how long a container's need must have been seen before its limit is lowered to it",
    ),
    live(
        "policy.changes_per_hour",
        Slot::Count(|c| &mut c.policy.changes_per_hour, 0, 1000),
        "the most changes in an hour, on the whole node",
    ),
    live(
        "policy.pressure_avg10",
        Slot::Percent(|c| &mut c.policy.pressure_avg10),
        "PSI some of the last ten seconds, in per cent, above which the interval is stretched",
    ),
];
