//! Why something is done, waited for or left.

use std::fmt;

/// Why a decision is what it is. The names are stable: metrics have them as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The limit is well above what is needed.
    Gain,
    /// It has not been there for an interval.
    Young,
    /// Its need has not been seen for a whole window.
    Window,
    /// Its turn within the interval is later, so that not all come at once.
    Turn,
    /// An interval has not passed since the last change or attempt.
    Interval,
    /// There is pressure, or was lately.
    Pressure,
    /// The last attempt was refused, taken back or failed.
    Failed,
    /// A process was killed for want of memory.
    OomKill,
    /// Somebody else raised the limit.
    Raised,
    /// A change would save too little.
    SmallGain,
    /// A limit that low was refused, taken back or killed within a week.
    Learned,
    /// The node's budget of changes is used up for now.
    Budget,
    /// The mode is observe.
    Observe,
    /// The mode is guard.
    Guard,
    /// What the pod says can't be used.
    Fault,
    /// The node's policy is not for its pod.
    LeftOut,
    /// All actuation is stopped.
    Paused,
    /// It is being changed.
    InFlight,
    /// Another container of its pod is being changed.
    PodBusy,
    /// It has no limit, and there is no ceiling.
    NoLimit,
    /// The ceiling is under the safe minimum.
    CeilingTooLow,
    /// Its safe minimum is not known.
    Unread,
    /// It uses no memory: nothing lives there.
    Empty,
    /// The node's budget of changes is none.
    NoBudget,
    /// There are more containers than are kept in mind.
    TooMany,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::Gain,
        Self::Young,
        Self::Window,
        Self::Turn,
        Self::Interval,
        Self::Pressure,
        Self::Failed,
        Self::OomKill,
        Self::Raised,
        Self::SmallGain,
        Self::Learned,
        Self::Budget,
        Self::Observe,
        Self::Guard,
        Self::Fault,
        Self::LeftOut,
        Self::Paused,
        Self::InFlight,
        Self::PodBusy,
        Self::NoLimit,
        Self::CeilingTooLow,
        Self::Unread,
        Self::Empty,
        Self::NoBudget,
        Self::TooMany,
    ];

    /// In a word, for metrics.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Gain => ("gain", "the limit is well above what it needs"),
            Self::Young => ("young", "it has not been there for an interval"),
            Self::Window => ("window", "its need has not been seen for a whole window"),
            Self::Turn => ("turn", "its turn within the interval comes later"),
            Self::Interval => ("interval", "the last change is less than an interval ago"),
            Self::Pressure => ("pressure", "it has memory pressure, or had lately"),
            Self::Failed => ("failed", "the last attempt was refused, taken back or failed"),
            Self::OomKill => ("oom_kill", "a process of it was killed for want of memory"),
            Self::Raised => ("raised", "somebody else raised its limit"),
            Self::SmallGain => ("small_gain", "a lower limit would save too little"),
            Self::Learned => ("learned", "a limit that low was refused, taken back or killed within a week"),
            Self::Budget => ("budget", "the node's changes are spread over the hour; none is due yet"),
            Self::Observe => ("observe", "its mode is observe"),
            Self::Guard => ("guard", "its mode is guard"),
            Self::Fault => ("fault", "what its pod's label or annotations say can't be used"),
            Self::LeftOut => ("left_out", "the node's policy leaves its pod out"),
            Self::Paused => ("paused", "all changes are stopped"),
            Self::InFlight => ("in_flight", "it is being changed right now"),
            Self::PodBusy => ("pod_busy", "another container of its pod is being changed right now"),
            Self::NoLimit => ("no_limit", "it has no limit, and no ceiling is set"),
            Self::CeilingTooLow => ("ceiling_too_low", "the ceiling is under the safe minimum"),
            Self::Unread => ("unread", "its safe minimum is not known"),
            Self::Empty => ("empty", "it uses no memory, so its need can't be seen"),
            Self::NoBudget => ("no_budget", "the node's budget of changes is none"),
            Self::TooMany => ("too_many", "there are more containers than are kept in mind"),
        }
    }
}

/// As people read it.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words().1)
    }
}

#[cfg(test)]
mod tests {
    use super::Why;
    use std::collections::BTreeSet;

    #[test]
    fn each_has_a_name_of_its_own_that_metrics_can_have() {
        let names: BTreeSet<_> = Why::ALL.iter().map(|why| why.name()).collect();
        let texts: BTreeSet<_> = Why::ALL.iter().map(ToString::to_string).collect();
        assert_eq!((names.len(), texts.len()), (Why::ALL.len(), Why::ALL.len()));
        for name in names {
            assert!(name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{name}");
        }
        assert!(Why::ALL.is_sorted(), "all of them, in order");
        assert_eq!(Why::ALL.last(), Some(&Why::TooMany));
    }
}
