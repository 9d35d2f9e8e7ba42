//! A metric: its name, its help, and its lines.

use prometheus_client::metrics::MetricType;

pub(super) type Labels = Vec<(&'static str, String)>;

/// One line: labels and value.
pub(super) type Sample = (Labels, u64);

/// The value of a line.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Whole(u64),
    Fraction(f64),
}

/// A metric with all its lines.
pub(super) struct Metric {
    /// Without the `_total` that is put behind a counter's.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: MetricType,
    pub(super) samples: Vec<(Labels, Number)>,
}

pub(super) fn whole(samples: Vec<Sample>) -> Vec<(Labels, Number)> {
    samples.into_iter().map(|(labels, value)| (labels, Number::Whole(value))).collect()
}

pub(super) fn gauge(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
    Metric { name, help, kind: MetricType::Gauge, samples: whole(samples) }
}

pub(super) fn counter(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
    Metric { name, help, kind: MetricType::Counter, samples: whole(samples) }
}

/// A gauge of fractions.
pub(super) fn ratio(name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) -> Metric {
    let samples = samples.into_iter().map(|(labels, value)| (labels, Number::Fraction(value))).collect();
    Metric { name, help, kind: MetricType::Gauge, samples }
}
