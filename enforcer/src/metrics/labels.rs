//! The labels of metrics, and every value that each can have.

use super::definitions::CONTAINERS_MAX;
use crate::{
    admin::model::PartState,
    drift::Who,
    guard::{Reason as GuardReason, Verdict as GuardVerdict},
    health::PartName,
    names::Role,
    overhead::Term,
    probe::{Kind, LimitKind, OomConstraint, Program},
};
use enforcer_gate::{Reason, Verdict};

/// A label. Two may have one name in different metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// A pod's namespace.
    Namespace,
    /// A pod's name.
    Pod,
    /// A container's name.
    Container,
    /// A part of what a pod costs.
    Term,
    /// How much of a container waited.
    Extent,
    /// A mode of the policy.
    Mode,
    /// How a shrink ended.
    Verdict,
    /// Why it ended so.
    Reason,
    /// What the cgroup is whose limit was hit.
    Owner,
    /// What an allocation was held to.
    Constraint,
    /// A limit file.
    File,
    /// Who wrote.
    Writer,
    /// What became of a write at the guard.
    GuardVerdict,
    /// Why.
    GuardReason,
    /// A version.
    Version,
    /// A part of the agent.
    Part,
    /// How it is.
    State,
    /// A call of the container runtime.
    Call,
    /// What came of a try.
    Outcome,
    /// What was lost.
    Loss,
    /// A kernel program.
    Program,
}

/// What values a label can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Names that containers and pods have, at most [`CONTAINERS_MAX`] at a time.
    Names,
    /// One at a time, of any text.
    One,
    /// One of these at a time.
    OneOf(Vec<String>),
    /// These.
    Closed(Vec<String>),
}

impl Values {
    /// How many at a time.
    pub fn count_max(&self) -> usize {
        match self {
            Self::Names => CONTAINERS_MAX,
            Self::One | Self::OneOf(_) => 1,
            Self::Closed(values) => values.len(),
        }
    }
}

/// What there is no word for.
pub(super) const NONE: &str = "none";
/// What is not known.
pub(super) const UNKNOWN: &str = "unknown";
/// What has no name of its own.
pub(super) const OTHER: &str = "other";

/// The policy's modes.
pub(super) const MODES: [&str; 4] = ["observe", "guard", "auto-shrink", UNKNOWN];
/// At least one task waited, or all of them at once.
pub(super) const EXTENTS: [&str; 2] = ["some", "full"];
/// What came of a try.
pub(super) const OUTCOMES: [&str; 2] = ["done", "failed"];
/// The calls that the agent makes; `connect` stands for a runtime that takes no connection.
pub(super) const CALLS: [&str; 9] = [
    "connect",
    "Version",
    "ListPodSandbox",
    "PodSandboxStatus",
    "ListContainers",
    "ContainerStatus",
    "UpdateContainerResources",
    "GetContainerEvents",
    OTHER,
];

macro_rules! losses {
    ($($(#[$doc:meta])* $loss:ident = $name:literal,)*) => {
        /// What can be lost, for there was no room or no time.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Loss {
            /// A record of the kernel programs of this kind, for their ring buffer was full.
            Record(Kind),
            $($(#[$doc])* $loss,)*
        }

        impl Loss {
            /// Those that are no record of a kernel program.
            const OTHERS: &'static [Self] = &[$(Self::$loss,)*];

            /// The name that output uses.
            pub const fn name(self) -> &'static str {
                match self {
                    Self::Record(kind) => kind.name(),
                    $(Self::$loss => $name,)*
                }
            }
        }
    };
}

losses! {
    /// An event that found the agent's queue full.
    Event = "event",
    /// Something that happened, out of the list that the admin socket shows.
    Happening = "happening",
    /// A cgroup that the recorder had no room for.
    KnownCgroup = "known_cgroup",
    /// A write that the recorder had no room for.
    KeptWrite = "kept_write",
    /// An OOM record that could not be stored.
    OomRecord = "oom_record",
    /// A verdict of the guard that could not be stored.
    GuardRecord = "guard_record",
    /// A container that has no series of its own, each time that the figures were taken.
    ContainerSeries = "container_series",
    /// A pod whose overhead is not looked at, for there are too many, each time that pods changed.
    OverheadPod = "overhead_pod",
    /// A look at a pod's overhead of which a figure could not be read: the last one stays.
    OverheadLook = "overhead_look",
    /// A connection that was closed at once, for there were too many.
    ConnectionRefused = "connection_refused",
    /// A connection that was cut, for it took too long.
    ConnectionCut = "connection_cut",
    /// A question over the admin socket that was refused, for too many waited.
    Question = "question",
    /// A connection that could not be taken, or whose handler failed.
    ConnectionFailed = "connection_failed",
}

impl Loss {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.iter().map(|kind| Self::Record(*kind)).chain(Self::OTHERS.iter().copied())
    }
}

impl Label {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Term => "term",
            Self::Extent => "extent",
            Self::Mode => "mode",
            Self::Verdict | Self::GuardVerdict => "verdict",
            Self::Reason | Self::GuardReason => "reason",
            Self::Owner => "owner",
            Self::Constraint => "constraint",
            Self::File => "file",
            Self::Writer => "writer",
            Self::Version => "version",
            Self::Part => "part",
            Self::State => "state",
            Self::Call => "call",
            Self::Outcome => "outcome",
            Self::Loss => "what",
            Self::Program => "program",
        }
    }

    /// What values it can have.
    pub fn values(self) -> Values {
        let closed = |values: &[&str]| Values::Closed(values.iter().map(|value| word(value)).collect());
        match self {
            Self::Namespace | Self::Pod | Self::Container => Values::Names,
            Self::Version => Values::One,
            Self::Term => closed(&named(&Term::ALL, Term::name)),
            Self::Extent => closed(&EXTENTS),
            Self::Mode => Values::OneOf(MODES.map(str::to_owned).into()),
            Self::Verdict => closed(Verdict::NAMES),
            Self::Reason => closed(&[Reason::NAMES, &[NONE]].concat()),
            Self::Owner => {
                let roles = Role::ALL.iter().map(|role| role.name());
                closed(&roles.chain([UNKNOWN]).collect::<Vec<_>>())
            }
            Self::Constraint => closed(&named(OomConstraint::ALL, OomConstraint::name)),
            Self::File => closed(&named(LimitKind::ALL, LimitKind::name)),
            Self::Writer => closed(&named(Who::ALL, Who::name)),
            Self::GuardVerdict => closed(&named(GuardVerdict::ALL, GuardVerdict::name)),
            Self::GuardReason => closed(&named(GuardReason::ALL, GuardReason::name)),
            Self::Part => closed(&named(PartName::ALL, PartName::name)),
            Self::State => closed(&named(&STATES, PartState::name)),
            Self::Call => closed(&CALLS),
            Self::Outcome => closed(&OUTCOMES),
            Self::Loss => closed(&Loss::all().map(Loss::name).collect::<Vec<_>>()),
            Self::Program => closed(&named(Program::ALL, Program::name)),
        }
    }
}

/// The states of a part.
pub(super) const STATES: [PartState; 5] =
    [PartState::Starting, PartState::Ready, PartState::Degraded, PartState::Failed, PartState::Off];

fn named<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().map(|one| name(*one)).collect()
}

/// A name of ours as one word: queries are easier to type.
pub(super) fn word(name: &str) -> String {
    name.replace(", ", "_").replace(' ', "_")
}
