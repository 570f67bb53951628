//! What the node's configuration says: the figures that hold where a pod says nothing, and the bounds where it does.

use super::{
    Margin, Mode,
    select::{Labels, Namespaces},
};
use enforcer_gate::{Bytes, Limit, Micros, PAGE_SIZE};

/// No interval is shorter.
pub const INTERVAL_MIN: Micros = Micros::from_secs(1);
/// No interval and no window is longer.
pub const SPAN_MAX: Micros = Micros::from_secs(7 * 24 * 3600);
/// No node changes more than this in an hour.
pub const CHANGES_PER_HOUR_MAX: u32 = 1000;
/// Longest key of a label: a prefix (RFC 1123 subdomain), a slash and a name.
const LABEL_BYTES_MAX: usize = 253 + 1 + 63;
/// No change is smaller: targets are whole ones of these.
pub(super) const MIB: Bytes = Bytes::from_mib(1);
/// All of the time, in hundredths of a per cent.
const ALWAYS: u64 = 10_000;

/// The policy of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// What is done to a pod that does not say.
    pub default: Mode,
    /// The label of a pod whose value is its mode; empty: no pod has a say in that.
    pub label: String,
    /// Pods of other namespaces are observed, whatever they say.
    pub namespaces: Namespaces,
    /// And so are those that this does not select.
    pub selector: Labels,
    /// The margin on top of the safe minimum, in per cent of it.
    pub margin_percent: u32,
    /// The margin is at least this.
    pub margin_min: Bytes,
    /// No limit is lowered under this.
    pub floor: Bytes,
    /// A limit above this is lowered to it, margin or not, where the safe minimum is under it.
    pub ceiling: Limit,
    /// A change that saves less is not made.
    pub gain_min: Bytes,
    /// A container's limit is not changed twice within this.
    pub interval: Micros,
    /// What trouble stretches the interval to, at most.
    pub interval_max: Micros,
    /// How long a container's need must have been seen before its limit is lowered to it.
    pub window: Micros,
    /// Changes that are begun within any hour, on the whole node.
    pub changes_per_hour: u32,
    /// Pressure above this stretches the interval: the share of the last ten seconds in which some task waited for
    /// memory (`some avg10` of PSI), in hundredths of a per cent.
    pub pressure_avg10: u64,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            default: Mode::Observe,
            label: "enforcer.dev/policy".into(),
            namespaces: Namespaces::All,
            selector: Labels::default(),
            margin_percent: 10,
            margin_min: Bytes::from_mib(16),
            floor: Bytes::from_mib(32),
            ceiling: Limit::Max,
            gain_min: Bytes::from_mib(16),
            interval: Micros::from_secs(600),
            interval_max: Micros::from_secs(7200),
            window: Micros::from_secs(3600),
            changes_per_hour: 6,
            pressure_avg10: 100,
        }
    }
}

impl Defaults {
    /// The margin that no pod can go below.
    pub(super) const fn margin(&self) -> Margin {
        Margin { percent: self.margin_percent, bytes: self.margin_min }
    }

    /// Every fault, with the field that has it. What has faults is safe to use all the same: nothing wraps, and
    /// nothing is done more often than once in [`INTERVAL_MIN`].
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let spans = [
            ("interval", self.interval, INTERVAL_MIN),
            ("interval_max", self.interval_max, self.interval.min(SPAN_MAX)),
            ("window", self.window, INTERVAL_MIN),
        ];
        for (field, value, least) in spans {
            if value < least || value > SPAN_MAX {
                faults.push((field, format!("{value} must be from {least} to {SPAN_MAX}")));
            }
        }
        let numbers = [
            ("margin_percent", u64::from(self.margin_percent), u64::from(Margin::PERCENT_MAX)),
            ("changes_per_hour", u64::from(self.changes_per_hour), u64::from(CHANGES_PER_HOUR_MAX)),
            ("pressure_avg10", self.pressure_avg10, ALWAYS),
        ];
        for (field, value, most) in numbers {
            if value > most {
                faults.push((field, format!("{value} must be at most {most}")));
            }
        }
        let amounts = [("floor", self.floor, Bytes::new(PAGE_SIZE)), ("gain_min", self.gain_min, MIB)];
        for (field, value, least) in amounts {
            if value < least {
                faults.push((field, format!("{value} must be at least {least}")));
            }
        }
        if self.ceiling < Limit::Bytes(self.floor) {
            faults.push(("ceiling", format!("{} is under the floor, {}", self.ceiling, self.floor)));
        }
        if !self.label.is_empty() && !is_key(&self.label) {
            faults.push(("label", "it can't be the key of a label".into()));
        }
        faults
    }
}

fn is_key(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    text.len() <= LABEL_BYTES_MAX && text.chars().all(plain) && text.matches('/').count() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_have_no_fault_and_every_fault_is_named() {
        assert_eq!(Defaults::default().faults(), []);
        let bad = Defaults {
            default: Mode::AutoShrink,
            label: "a b".into(),
            namespaces: Namespaces::All,
            selector: Labels::default(),
            margin_percent: 1001,
            margin_min: Bytes::new(u64::MAX),
            floor: Bytes::ZERO,
            ceiling: Limit::Bytes(Bytes::ZERO),
            gain_min: Bytes::new(1),
            interval: Micros::ZERO,
            interval_max: Micros::new(u64::MAX),
            window: Micros::ZERO,
            changes_per_hour: 1001,
            pressure_avg10: 10_001,
        };
        let mut fields: Vec<_> = bad.faults().into_iter().map(|(field, _)| field).collect();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "changes_per_hour",
                "floor",
                "gain_min",
                "interval",
                "interval_max",
                "label",
                "margin_percent",
                "pressure_avg10",
                "window"
            ]
        );
        let upside_down = Defaults {
            ceiling: Limit::Bytes(Bytes::from_mib(31)),
            interval_max: MINUTE,
            ..Defaults::default()
        };
        assert_eq!(
            upside_down.faults(),
            [
                ("interval_max", "1m must be from 10m to 168h".to_owned()),
                ("ceiling", "31Mi is under the floor, 32Mi".to_owned())
            ]
        );
    }

    const MINUTE: Micros = Micros::from_secs(60);

    #[test]
    fn keys_of_labels() {
        for key in ["policy", "enforcer.dev/policy", "a.b-c/d_e"] {
            assert!(is_key(key), "{key}");
        }
        for key in ["a/b/c", "a b", "ä", "a\n", &"x".repeat(LABEL_BYTES_MAX + 1)] {
            assert!(!is_key(key), "{key}");
        }
    }
}
