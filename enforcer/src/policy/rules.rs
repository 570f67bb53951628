//! The rules that hold for one container: what the node says, and what the pod makes of it.

use super::{
    Defaults, Fault, Margin, Mode,
    said::{Figures, PREFIX_END, Said},
};
use crate::inventory::intake::MARKS_MAX;
use enforcer_gate::{Bytes, Limit, Micros};
use std::collections::BTreeMap;

/// The rules of one container.
///
/// The mode is that of the pod's label, else the node's. Each figure is that of the container's annotation, else of the
/// pod's, else of the node; and it is never on the wrong side of the node's: no lower floor, no higher ceiling, no
/// smaller margin, no shorter interval or window. Where floor and ceiling are at odds the floor holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What may be done to it. [`Mode::Observe`] where there is a fault.
    pub mode: Mode,
    /// Why what the pod says can't be used; the figures are the node's then.
    pub fault: Option<Fault>,
    /// What is kept on top of the safe minimum.
    pub margin: Margin,
    /// No target is lower.
    pub floor: Bytes,
    /// No target is higher, unless the floor is. Not under the floor.
    pub ceiling: Limit,
    /// No change saves less.
    pub gain_min: Bytes,
    /// No two changes are closer.
    pub interval: Micros,
    /// What trouble stretches the interval to; not under it.
    pub interval_max: Micros,
    /// How long the need must have been seen.
    pub window: Micros,
    /// Pressure above this is trouble; `some avg10` in hundredths of a per cent.
    pub pressure_avg10: u64,
}

impl Rules {
    /// The rules of the container of that name, in a pod of that namespace with these labels and annotations.
    pub fn resolve(
        node: &Defaults,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        container: &str,
    ) -> Self {
        let said = left_out(node, namespace, labels).and_then(|()| said(node, labels, annotations));
        match said {
            Ok((mode, said)) => Self::with(node, mode, said.of(container)),
            Err(fault) => {
                let rules = Self::with(node, Mode::Observe, Figures::default());
                Self { fault: Some(fault), ..rules }
            }
        }
    }

    fn with(node: &Defaults, mode: Mode, said: Figures) -> Self {
        let floor = said.floor.map_or(node.floor, |floor| floor.max(node.floor));
        let ceiling = said.ceiling.map_or(node.ceiling, |ceiling| ceiling.min(node.ceiling));
        let interval = said.interval.map_or(node.interval, |interval| interval.max(node.interval));
        Self {
            mode,
            fault: None,
            margin: said.margin.map_or(node.margin(), |margin| margin.max(node.margin())),
            floor,
            ceiling: ceiling.max(Limit::Bytes(floor)),
            gain_min: node.gain_min,
            interval,
            interval_max: node.interval_max.max(interval),
            window: said.window.map_or(node.window, |window| window.max(node.window)),
            pressure_avg10: node.pressure_avg10,
        }
    }
}

/// Whether the node's policy is for the pod at all. A label that may be missing is no consent.
fn left_out(node: &Defaults, namespace: &str, labels: &BTreeMap<String, String>) -> Result<(), Fault> {
    if !node.namespaces.has(namespace) {
        return Err(Fault::LeftOut("policy.namespaces"));
    }
    match node.selector.is_all() {
        true => Ok(()),
        false if labels.len() >= MARKS_MAX => Err(Fault::TooMany("labels")),
        false if node.selector.select(labels) => Ok(()),
        false => Err(Fault::LeftOut("policy.selector")),
    }
}

/// What a pod says, all of which must be in order.
fn said(
    node: &Defaults,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<(Mode, Said), Fault> {
    let mode = match labels.get(&node.label) {
        _ if node.label.is_empty() => node.default,
        Some(value) => Mode::from_name(value)
            .ok_or_else(|| Fault::Mode { key: node.label.clone(), value: value.clone() })?,
        None if is_cut(labels, &node.label) => return Err(Fault::TooMany("labels")),
        None => node.default,
    };
    let said = Said::parse(annotations)?;
    if is_cut(annotations, PREFIX_END) { Err(Fault::TooMany("annotations")) } else { Ok((mode, said)) }
}

/// Whether something before `end` may be missing: the inventory keeps the first by name.
fn is_cut(marks: &BTreeMap<String, String>, end: &str) -> bool {
    marks.len() >= MARKS_MAX && marks.last_key_value().is_some_and(|(last, _)| last.as_str() < end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Marks = BTreeMap<String, String>;

    fn marks(of: &[(&str, &str)]) -> Marks {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn node() -> Defaults {
        Defaults { ceiling: Limit::Bytes(Bytes::from_mib(1024)), ..Defaults::default() }
    }

    #[test]
    fn the_label_picks_the_mode() {
        let mode = |node: &Defaults, value: &str| {
            Rules::resolve(node, "shop", &marks(&[("enforcer.dev/policy", value)]), &marks(&[]), "app").mode
        };
        for one in Mode::ALL {
            assert_eq!(mode(&node(), one.name()), one);
            let default = Defaults { default: one, ..node() };
            assert_eq!(Rules::resolve(&default, "shop", &marks(&[]), &marks(&[]), "app").mode, one);
            let deaf = Defaults { label: String::new(), ..default };
            assert_eq!(mode(&deaf, "auto-shrink"), one, "no label, no say");
            assert_eq!(mode(&deaf, "rubbish"), one, "no label, no say");
            let empty = marks(&[("", "auto-shrink")]);
            assert_eq!(Rules::resolve(&deaf, "shop", &empty, &marks(&[]), "app").mode, one);
        }
    }

    #[test]
    fn what_is_wrong_makes_all_of_the_pod_observe() {
        let check = |label: &str, annotation: (&str, &str), fault: &str| {
            let eager = Defaults { default: Mode::AutoShrink, ..node() };
            let labels = marks(&[("enforcer.dev/policy", label)]);
            let annotations = marks(&[annotation, ("enforcer.dev/interval", "2h")]);
            let rules = Rules::resolve(&eager, "shop", &labels, &annotations, "app");
            assert_eq!(rules.mode, Mode::Observe);
            assert_eq!(rules.interval, eager.interval);
            assert_eq!(rules.fault.expect("a fault").to_string(), fault);
        };
        check(
            "auto\u{7}",
            ("enforcer.dev/floor", "1Gi"),
            "label enforcer.dev/policy: \"auto\\u{7}\" is no mode; those are observe, guard and auto-shrink",
        );
        check(
            "guard",
            ("enforcer.dev/floor.other", "x"),
            "annotation enforcer.dev/floor.other: \"x\" does not begin with a number; give a quantity such as 256Mi",
        );
        check(
            "auto-shrink",
            ("enforcer.dev/ceiling.other", "0"),
            "annotation enforcer.dev/ceiling.other: it is zero, which no process survives; a memory limit is at \
             least 4096 bytes (one page)",
        );
    }

    #[test]
    fn a_label_or_annotation_that_may_have_been_left_out_is_no_consent() {
        let many = |prefix: &str, n: usize| -> Marks {
            (0..n).map(|i| (format!("{prefix}{i:03}"), String::new())).collect()
        };
        let eager = Defaults { default: Mode::AutoShrink, ..node() };
        let fault = |labels: Marks, annotations: Marks| {
            Rules::resolve(&eager, "shop", &labels, &annotations, "app").fault
        };
        let none = Marks::new;
        assert_eq!(fault(many("a", MARKS_MAX), none()), Some(Fault::TooMany("labels")));
        assert_eq!(fault(none(), many("a", MARKS_MAX)), Some(Fault::TooMany("annotations")));
        assert_eq!(fault(many("a", MARKS_MAX - 1), many("a", MARKS_MAX - 1)), None);
        assert_eq!(fault(many("z", MARKS_MAX), many("z", MARKS_MAX)), None);
        let mut labels = many("a", MARKS_MAX - 1);
        labels.insert("enforcer.dev/policy".into(), "auto-shrink".into());
        assert_eq!(fault(labels, none()), None);
        let mut annotations = many("a", MARKS_MAX - 1);
        annotations.insert("enforcer.dev/floor".into(), "1Gi".into());
        assert_eq!(fault(none(), annotations), Some(Fault::TooMany("annotations")));
    }

    #[test]
    fn a_pod_stays_within_the_nodes_bounds() {
        let rules = |of: &[(&str, &str)]| {
            let rules = Rules::resolve(&node(), "shop", &marks(&[]), &marks(of), "app");
            assert_eq!(rules.fault, None);
            rules
        };
        let plain = rules(&[]);
        let looser = rules(&[
            ("enforcer.dev/floor", "4Mi"),
            ("enforcer.dev/ceiling", "max"),
            ("enforcer.dev/margin", "0"),
            ("enforcer.dev/interval", "1s"),
            ("enforcer.dev/window", "0s"),
        ]);
        assert_eq!(looser, plain);
        let tighter = rules(&[
            ("enforcer.dev/floor", "64Mi"),
            ("enforcer.dev/ceiling", "512Mi"),
            ("enforcer.dev/margin", "50%"),
            ("enforcer.dev/interval", "3h"),
            ("enforcer.dev/window", "24h"),
        ]);
        let expect = Rules {
            floor: Bytes::from_mib(64),
            ceiling: Limit::Bytes(Bytes::from_mib(512)),
            margin: Margin { percent: 50, bytes: Bytes::from_mib(16) },
            interval: Micros::from_secs(3 * 3600),
            interval_max: Micros::from_secs(3 * 3600),
            window: Micros::from_secs(24 * 3600),
            ..plain.clone()
        };
        assert_eq!(tighter, expect);
        let above = rules(&[("enforcer.dev/floor", "2Gi")]);
        assert_eq!(above.ceiling, Limit::Bytes(Bytes::from_mib(2048)), "the floor holds");
        let below = rules(&[("enforcer.dev/ceiling", "16Mi")]);
        assert_eq!(below.ceiling, Limit::Bytes(plain.floor), "the floor holds");
    }

    #[test]
    fn a_pod_that_the_node_leaves_out_is_observed_whatever_it_says() {
        let node = Defaults {
            default: Mode::Guard,
            namespaces: "!kube-system".parse().expect("parses"),
            selector: "tier in (batch,dev),!critical".parse().expect("parses"),
            ..node()
        };
        let of = |namespace: &str, labels: &[(&str, &str)]| {
            let rules = Rules::resolve(&node, namespace, &marks(labels), &marks(&[]), "app");
            (rules.mode, rules.fault)
        };
        let asks = ("enforcer.dev/policy", "auto-shrink");
        let (observed, selector) = (Mode::Observe, Some(Fault::LeftOut("policy.selector")));
        assert_eq!(of("shop", &[("tier", "batch"), asks]), (Mode::AutoShrink, None));
        assert_eq!(of("shop", &[("tier", "dev")]), (Mode::Guard, None));
        assert_eq!(of("shop", &[("tier", "live"), asks]), (observed, selector.clone()));
        assert_eq!(of("shop", &[("tier", "batch"), ("critical", ""), asks]), (observed, selector));
        let namespaces = Some(Fault::LeftOut("policy.namespaces"));
        assert_eq!(of("kube-system", &[("tier", "batch"), asks]), (observed, namespaces));
        // `critical` may be among those that were not kept.
        let many: Vec<_> = (0..MARKS_MAX).map(|n| format!("a{n:03}")).collect();
        let many: Vec<_> = many.iter().map(|key| (key.as_str(), "")).collect();
        assert_eq!(of("shop", &many), (observed, Some(Fault::TooMany("labels"))));
    }

    proptest! {
        #[test]
        fn no_pod_gets_out_of_the_nodes_bounds(
            of in prop::collection::btree_map(
                "enforcer\\.dev/(floor|ceiling|margin|interval|window)(\\.(app|b))?",
                "[0-9]{1,4}(Mi|Gi|%|s|h|Ei)",
                0..6,
            ),
            label in "(observe|guard|auto-shrink|other)",
        ) {
            let node = node();
            let rules = Rules::resolve(&node, "shop", &marks(&[("enforcer.dev/policy", &label)]), &of, "app");
            prop_assert!(rules.floor >= node.floor);
            prop_assert!(rules.ceiling <= node.ceiling || rules.ceiling == Limit::Bytes(rules.floor));
            prop_assert!(rules.ceiling >= Limit::Bytes(rules.floor));
            prop_assert!(rules.margin.max(node.margin()) == rules.margin);
            prop_assert!(rules.interval >= node.interval && rules.window >= node.window);
            prop_assert!(rules.interval_max >= rules.interval);
            prop_assert_eq!(rules.gain_min, node.gain_min);
            prop_assert!(rules.fault.is_none() || rules.mode == Mode::Observe);
        }
    }
}
