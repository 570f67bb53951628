//! What a pod's annotations say. Their text is anybody's.

use super::{Margin, MarginError};
use crate::{
    cgroup::shown,
    duration::{DurationError, parse_duration},
    quantity::{QuantityError, parse_target},
};
use enforcer_gate::{Bytes, Limit, Micros};
use std::collections::BTreeMap;

/// What every annotation begins with that is read.
pub const PREFIX: &str = "enforcer.dev/";
/// The first name after all that begin with [`PREFIX`].
pub(super) const PREFIX_END: &str = "enforcer.dev0";
/// Longest name of a container (RFC 1123 label).
const CONTAINER_BYTES_MAX: usize = 63;

/// Why what a pod says can't be used. Fit to print, and no longer than [`Fault::BYTES_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The label's value is no mode.
    #[error("label {}: \"{}\" is no mode; those are observe, guard and auto-shrink", shown(.key), shown(.value))]
    Mode {
        /// The label.
        key: String,
        /// Its value.
        value: String,
    },
    /// An annotation's value is not what it should be.
    #[error("annotation {}: {why}", shown(.key))]
    Value {
        /// The annotation.
        key: String,
        /// What is wrong.
        why: ValueError,
    },
    /// A misspelt annotation would otherwise be one that is not there.
    #[error(
        "annotation {} is not known; those are floor, ceiling, margin, interval and window after {PREFIX}, \
         for one container with .CONTAINER at the end", shown(.key)
    )]
    Unknown {
        /// The annotation.
        key: String,
    },
    /// The pod wants more at least than at most.
    #[error("the annotations have a ceiling, {ceiling}, under a floor, {floor}")]
    UpsideDown {
        /// The ceiling.
        ceiling: Bytes,
        /// The floor.
        floor: Bytes,
    },
    /// It is not the pod's doing: the node's policy is not for it.
    #[error("the node's {0} leaves its pod out")]
    LeftOut(&'static str),
    /// The one that is looked for may be among those that were not kept.
    #[error("the pod has so many {0} that not all are known")]
    TooMany(&'static str),
}

impl Fault {
    /// Longest text of a fault.
    pub const BYTES_MAX: usize = 2048;
}

/// What is wrong with an annotation's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A floor or ceiling.
    #[error(transparent)]
    Limit(#[from] QuantityError),
    /// A margin.
    #[error(transparent)]
    Margin(#[from] MarginError),
    /// An interval or window.
    #[error(transparent)]
    Span(#[from] DurationError),
}

/// The figures that a pod gives, for all of its containers or for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Figures {
    pub(super) floor: Option<Bytes>,
    pub(super) ceiling: Option<Limit>,
    pub(super) margin: Option<Margin>,
    pub(super) interval: Option<Micros>,
    pub(super) window: Option<Micros>,
}

impl Figures {
    /// Whether there is a figure of that name.
    fn set(&mut self, name: &str, text: &str) -> Result<bool, ValueError> {
        match name {
            "floor" => self.floor = Some(parse_target(text)?),
            "ceiling" if text == "max" => self.ceiling = Some(Limit::Max),
            "ceiling" => self.ceiling = Some(Limit::Bytes(parse_target(text)?)),
            "margin" => self.margin = Some(Margin::parse(text)?),
            "interval" => self.interval = Some(parse_duration(text)?),
            "window" => self.window = Some(parse_duration(text)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What is not in these is taken from `other`.
    fn or(self, other: Self) -> Self {
        Self {
            floor: self.floor.or(other.floor),
            ceiling: self.ceiling.or(other.ceiling),
            margin: self.margin.or(other.margin),
            interval: self.interval.or(other.interval),
            window: self.window.or(other.window),
        }
    }

    fn checked(self) -> Result<Self, Fault> {
        match (self.floor, self.ceiling) {
            (Some(floor), Some(Limit::Bytes(ceiling))) if ceiling < floor => {
                Err(Fault::UpsideDown { ceiling, floor })
            }
            (Some(_) | None, Some(Limit::Bytes(_) | Limit::Max) | None) => Ok(self),
        }
    }
}

/// All figures of a pod.
#[derive(Debug, Default)]
pub(super) struct Said {
    all: Figures,
    one: BTreeMap<String, Figures>,
}

impl Said {
    /// The first fault, by the annotations' names, is the pod's.
    pub(super) fn parse(annotations: &BTreeMap<String, String>) -> Result<Self, Fault> {
        let mut said = Self::default();
        let ours = annotations.range(PREFIX.to_owned()..PREFIX_END.to_owned());
        for (key, text) in ours {
            let unknown = || Fault::Unknown { key: key.clone() };
            let name = key.strip_prefix(PREFIX).unwrap_or_default();
            let (name, figures) = match name.split_once('.') {
                Some((name, container)) if is_container(container) => {
                    (name, said.one.entry(container.to_owned()).or_default())
                }
                Some(_) => return Err(unknown()),
                None => (name, &mut said.all),
            };
            let known = figures.set(name, text).map_err(|why| Fault::Value { key: key.clone(), why })?;
            if !known {
                return Err(unknown());
            }
        }
        said.all.checked()?;
        for figures in said.one.values() {
            figures.or(said.all).checked()?;
        }
        Ok(said)
    }

    /// What is said of one container goes before what is said of all.
    pub(super) fn of(&self, container: &str) -> Figures {
        self.one.get(container).copied().unwrap_or_default().or(self.all)
    }
}

fn is_container(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=CONTAINER_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marks(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn one_containers_figure_goes_before_the_pods() {
        let said = Said::parse(&marks(&[
            ("a.b/floor", "rubbish"),
            ("enforcer.dev/ceiling", "max"),
            ("enforcer.dev/ceiling.app", "1Gi"),
            ("enforcer.dev/floor", "64Mi"),
            ("enforcer.dev/interval.side-car", "1h"),
            ("enforcer.dev/margin", "25%"),
            ("enforcer.dev/margin.app", "32Mi"),
            ("enforcer.dev/window", "24h"),
            ("enforcer.dev0", "rubbish"),
        ]))
        .expect("figures");
        let hour = Micros::from_secs(3600);
        let pod = Figures {
            floor: Some(Bytes::from_mib(64)),
            ceiling: Some(Limit::Max),
            margin: Some(Margin { percent: 25, bytes: Bytes::ZERO }),
            interval: None,
            window: Some(hour.scaled(24, 1)),
        };
        assert_eq!(said.of("other"), pod);
        assert_eq!(said.of("side-car"), Figures { interval: Some(hour), ..pod });
        let app = Figures {
            ceiling: Some(Limit::Bytes(Bytes::from_mib(1024))),
            margin: Some(Margin { percent: 0, bytes: Bytes::from_mib(32) }),
            ..pod
        };
        assert_eq!(said.of("app"), app);
    }

    #[test]
    fn faults_name_the_annotation() {
        let check = |of: &[(&str, &str)], expect: &str| {
            assert_eq!(Said::parse(&marks(of)).expect_err("a fault").to_string(), expect);
        };
        check(
            &[("enforcer.dev/floor.x", "1Mb")],
            "annotation enforcer.dev/floor.x: \"Mb\" is no suffix; did you mean M?",
        );
        check(
            &[("enforcer.dev/margin", "ten%")],
            "annotation enforcer.dev/margin: \"ten%\" is no share; give whole per cent up to 1000%, such as 10%",
        );
        check(
            &[("enforcer.dev/interval", "1")],
            "annotation enforcer.dev/interval: the unit is missing (us, ms, s, m or h), as in 10s or 500ms",
        );
        check(
            &[("enforcer.dev/window", "")],
            "annotation enforcer.dev/window: it is empty or longer than 64 bytes; give a time such as 10s or 500ms",
        );
        check(
            &[("enforcer.dev/ceiling.a", "31Mi"), ("enforcer.dev/floor", "32Mi")],
            "the annotations have a ceiling, 31Mi, under a floor, 32Mi",
        );
        check(
            &[("enforcer.dev/ceiling", "31Mi"), ("enforcer.dev/floor", "32Mi")],
            "the annotations have a ceiling, 31Mi, under a floor, 32Mi",
        );
        for key in ["flor", "", "policy", "floor.", "floor.A", "floor.a.b", "Floor", "floor.\u{1b}[2J"] {
            let key = format!("{PREFIX}{key}");
            let fault = Said::parse(&marks(&[(&key, "32Mi")])).expect_err("a fault");
            assert_eq!(fault, Fault::Unknown { key });
        }
        check(
            &[("enforcer.dev/a\u{1b}", "")],
            "annotation enforcer.dev/a\\u{1b} is not known; those are floor, ceiling, margin, interval and window \
             after enforcer.dev/, for one container with .CONTAINER at the end",
        );
    }

    proptest! {
        #[test]
        fn any_text_gives_figures_or_a_printable_fault(
            name in prop_oneof![
                "(floor|ceiling|margin|interval|window)(\\.[a-z]{1,3})?",
                "\\PC{0,40}",
                "(?s:.{0,1100})",
            ],
            text in prop_oneof!["[0-9]{1,3}(Mi|%|h|)", "\\PC{0,80}", "(?s:.{0,1100})"],
        ) {
            let key = format!("{PREFIX}{name}");
            if let Err(fault) = Said::parse(&marks(&[(&key, &text)])) {
                let fault = fault.to_string();
                prop_assert!(fault.len() <= Fault::BYTES_MAX, "{}", fault.len());
                prop_assert!(fault.chars().all(|c| !c.is_control()), "{fault:?}");
            }
        }
    }
}
