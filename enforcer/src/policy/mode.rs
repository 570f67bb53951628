//! What enforcer may do to a container.

use serde::Serialize;
use std::fmt;

/// What enforcer may do to a container, by itself; each allows what those before it allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing: it is looked at and told of.
    Observe,
    /// A write of its limit that would kill is kept from happening.
    Guard,
    /// Its limit is lowered to what it needs and a margin, on a schedule.
    AutoShrink,
}

impl Mode {
    /// All of them, the most careful first.
    pub const ALL: [Self; 3] = [Self::Observe, Self::Guard, Self::AutoShrink];

    /// As configuration, labels and output have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Guard => "guard",
            Self::AutoShrink => "auto-shrink",
        }
    }

    /// The mode of that name; nothing but the very name will do.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn names_are_one_everywhere() {
        for (mode, name) in
            [(Mode::Observe, "observe"), (Mode::Guard, "guard"), (Mode::AutoShrink, "auto-shrink")]
        {
            assert_eq!(Mode::from_name(name), Some(mode));
            assert_eq!(mode.to_string(), name);
            assert_eq!(serde_json::to_value(mode).expect("JSON"), name);
        }
        for other in ["", "Observe", " guard", "auto_shrink", "autoshrink", "auto-shrink\n"] {
            assert_eq!(Mode::from_name(other), None, "{other:?}");
        }
    }
}
