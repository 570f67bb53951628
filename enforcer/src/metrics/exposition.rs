//! From the figures to the text that Prometheus reads.

use super::{
    definitions::{Definition, Kind, Metric, Unit},
    series::{Value, each},
    spread::seconds,
    state::State,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet},
    metrics::MetricType,
    registry,
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// A text format of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own, version 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Format {
    /// What an `Accept` header asks for.
    pub fn accepted(accept: &str) -> Self {
        let open = accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind =
                parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"));
            kind && !parts.any(|part| part == "q=0")
        });
        if open { Self::OpenMetrics } else { Self::Text }
    }

    /// Its `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What the registry asks for everything.
#[derive(Debug)]
pub(super) struct Figures(pub(super) Arc<Mutex<State>>);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Metric::ALL.iter().try_for_each(|metric| encode(&state, *metric, &mut encoder))
    }
}

/// A metric without series is not mentioned.
fn encode(state: &State, metric: Metric, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let definition = metric.definition();
    let mut any = false;
    each(state, metric, &mut |_, _| any = true);
    if !any {
        return Ok(());
    }
    let unit = unit(definition.unit);
    let mut family = encoder.encode_descriptor(
        definition.base,
        definition.meaning,
        unit.as_ref(),
        kind(definition.kind),
    )?;
    let mut result = Ok(());
    each(state, metric, &mut |values, value| {
        if result.is_ok() {
            result = series(definition, values, value, &mut family);
        }
    });
    result
}

fn series(
    definition: &Definition,
    values: &[&str],
    value: Value<'_>,
    family: &mut MetricEncoder<'_>,
) -> fmt::Result {
    let names = definition.labels.iter().map(|label| label.name());
    let labels: Vec<(&str, &str)> = names.zip(values.iter().copied()).collect();
    if definition.kind == Kind::Info {
        return family.encode_info(&labels);
    }
    let family = &mut family.encode_family(&labels)?;
    match value {
        Value::Whole(count) => number(definition.kind, &count, family),
        Value::Span(span) => number(definition.kind, &seconds(span), family),
        Value::Nanos(nanos) => number(definition.kind, &from_nanos(nanos), family),
        Value::Spread(spread) => {
            let sum = seconds(spread.sum);
            family.encode_histogram::<NoLabelSet>(sum, spread.count, &spread.buckets, None)
        }
    }
}

fn number<V>(kind: Kind, value: &V, family: &mut MetricEncoder<'_>) -> fmt::Result
where
    V: EncodeCounterValue + EncodeGaugeValue,
{
    match kind {
        Kind::Counter => family.encode_counter::<NoLabelSet, V, f64>(value, None),
        Kind::Gauge => family.encode_gauge(value),
        // These are no numbers; `series` knows them.
        Kind::Histogram | Kind::Info => Err(fmt::Error),
    }
}

fn kind(kind: Kind) -> MetricType {
    match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
        Kind::Info => MetricType::Info,
    }
}

fn unit(unit: Unit) -> Option<registry::Unit> {
    match unit {
        Unit::None => None,
        Unit::Bytes => Some(registry::Unit::Bytes),
        Unit::Seconds => Some(registry::Unit::Seconds),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a float is what Prometheus keeps")]
fn from_nanos(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_those_who_ask_for_it() {
        for (accept, format) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain;version=0.0.4;q=0.3", Format::Text),
            ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2", Format::OpenMetrics),
            ("text/plain, Application/OpenMetrics-Text", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Text),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept:?}");
        }
    }
}
