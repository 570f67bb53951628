//! What a query asks for, as far as the definitions can say whether it is there.

use enforcer::metrics::{
    definitions::{Definition, Kind, Metric},
    labels::Values,
};
use std::collections::BTreeSet;

/// How every metric's name begins.
const PREFIXES: [&str; 2] = ["enforcer_", "process_"];
/// Labels that a scrape adds, and a bucket's bound.
const FOREIGN: [&str; 3] = ["job", "instance", "le"];

/// Panics where a query, or a text with templates, names a metric, a label or a label's value that there is not.
pub(crate) fn check(query: &str) {
    check_names(query);
    for (at, word) in words(query) {
        if ["by", "on", "without", "ignoring"].contains(&word) {
            let after = query[at + word.len()..].trim_start();
            let Some((list, _)) = after.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
                continue;
            };
            list.split(',').for_each(|label| check_label(label.trim(), query));
        }
    }
}

/// The same for any text in which there are metrics and templates.
pub(crate) fn check_names(text: &str) {
    for (at, name) in words(text).filter(|(_, name)| PREFIXES.iter().any(|prefix| name.starts_with(prefix))) {
        let definition = defined(name).unwrap_or_else(|| panic!("there is no metric {name}: {text}"));
        if let Some(matchers) = text[at + name.len()..].strip_prefix('{') {
            matchers_of(matchers).for_each(|matcher| check_matcher(definition, matcher, text));
        }
    }
    // Templates of legends and of annotations.
    for template in text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
        let name = template.trim();
        let label = name.strip_prefix("$labels.").unwrap_or(name);
        if !name.starts_with("$value") {
            check_label(label, text);
        }
    }
}

/// The metrics that `text` names.
pub(crate) fn named(text: &str) -> BTreeSet<&'static str> {
    words(text).filter_map(|(_, word)| defined(word)).map(|definition| definition.base).collect()
}

fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_part)?;
        let end = text[start..].find(|c| !is_part(c)).map_or(text.len(), |len| start + len);
        at = end;
        Some((start, &text[start..end]))
    })
}

fn defined(name: &str) -> Option<&'static Definition> {
    let all = Metric::ALL.iter().map(|metric| metric.definition());
    all.into_iter().find(|one| match one.kind {
        Kind::Histogram => {
            ["_bucket", "_sum", "_count"].iter().any(|end| name == format!("{}{end}", one.name()))
        }
        Kind::Counter | Kind::Gauge | Kind::Info => name == one.name(),
    })
}

/// Each `label op "value"`, up to the brace.
fn matchers_of(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        text = text.trim_start_matches([',', ' ']);
        if text.starts_with('}') {
            return None;
        }
        let quote = text.find('"').expect("a matcher has a value");
        let end = quote + 1 + text[quote + 1..].find('"').expect("a value ends");
        let (matcher, rest) = text.split_at(end);
        text = &rest[1..];
        Some(matcher)
    })
}

fn check_matcher(definition: &Definition, matcher: &str, text: &str) {
    let (left, value) = matcher.split_once('"').expect("a matcher has a value");
    let name = left.trim_end_matches(['=', '!', '~']);
    if FOREIGN.contains(&name) {
        return;
    }
    let label = definition.labels.iter().find(|label| label.name() == name);
    let label = label.unwrap_or_else(|| panic!("{} has no label {name}: {text}", definition.name()));
    // A variable of the dashboard stands for any value.
    if let (Values::Closed(values) | Values::OneOf(values), false) = (label.values(), value.contains('$')) {
        for one in if left.ends_with('~') { value.split('|').collect() } else { vec![value] } {
            assert!(values.iter().any(|known| known == one), "{name} is never {one:?}: {text}");
        }
    }
}

fn check_label(name: &str, text: &str) {
    let mut all = Metric::ALL.iter().flat_map(|metric| metric.definition().labels);
    assert!(FOREIGN.contains(&name) || all.any(|label| label.name() == name), "no label {name:?}: {text}");
}

#[test]
fn what_is_there_passes() {
    check(
        r#"sum by (job, verdict) (rate(enforcer_shrink_verdicts_total{job="a", reason!="none",verdict=~"refused|failed"}[5m]))"#,
    );
    check(r#"enforcer_container_policy{namespace=~"$namespace", pod="a}b"} and on (instance) up == 1"#);
    check("histogram_quantile(0.5, sum by (le) (enforcer_shrink_duration_seconds_bucket))");
    check("{{namespace}}/{{ $labels.pod }} {{ $value | humanize }}");
    assert_eq!(
        named("enforcer_paused + enforcer_pods"),
        BTreeSet::from(["enforcer_paused", "enforcer_pods"])
    );
}

#[test]
fn what_is_not_there_does_not() {
    for (text, says) in [
        ("enforcer_nonsense", "no metric enforcer_nonsense"),
        ("rate(enforcer_shrink_verdicts[5m])", "no metric enforcer_shrink_verdicts"),
        (r#"enforcer_paused{verdict="failed"}"#, "has no label verdict"),
        (r#"enforcer_shrink_verdicts_total{verdict="fialed"}"#, "never \"fialed\""),
        (r#"enforcer_shrink_verdicts_total{verdict=~"failed|refusd"}"#, "never \"refusd\""),
        ("sum by (nonsense) (enforcer_paused)", "no label \"nonsense\""),
        ("{{ $labels.nonsense }}", "no label \"nonsense\""),
    ] {
        let panic = std::panic::catch_unwind(|| check(text)).expect_err(text);
        let message = panic.downcast_ref::<String>().expect("says why");
        assert!(message.contains(says), "{text}: {message}");
    }
}
