//! Latencies, kept in an HDR histogram.
//!
//! A histogram covers 1 ns to 10 minutes with three significant digits in about 200 KiB, so that
//! each thread has its own and they are added up at the end. In open loop a latency is counted from
//! the moment at which its request was *due*, not from when it could be sent: a server that stalls
//! is charged for every request that it kept waiting (no coordinated omission).

use std::fmt;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest latency that is told apart from longer ones.
const MOST_NANOS: u64 = 600_000_000_000;

/// A set of measured latencies. Recording costs a few nanoseconds and never allocates.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        match Histogram::new_with_bounds(1, MOST_NANOS, 3) {
            Ok(histogram) => Self { histogram },
            Err(_) => unreachable!("the bounds are constants that a histogram accepts"),
        }
    }
}

impl Latencies {
    /// Counts one latency; what is above ten minutes counts as ten minutes.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos.max(1));
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so that nothing can be out of range.
        let _ = self.histogram.add(&other.histogram);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.histogram.clear();
    }

    /// Returns the number of latencies counted.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns whether the histogram is empty.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// The latency, in nanoseconds, at or below which the share `quantile` (0 to 1) lies.
    pub fn at(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile)
    }

    /// The figures that reports show; `None` where nothing was counted.
    pub fn summary(&self) -> Option<LatencySummary> {
        let us = |quantile| self.at(quantile) as f64 / 1e3;
        (!self.is_empty()).then(|| LatencySummary {
            count: self.len(),
            mean_us: self.histogram.mean() / 1e3,
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p999_us: us(0.999),
            p9999_us: us(0.9999),
            max_us: self.histogram.max() as f64 / 1e3,
        })
    }
}

/// A summary of a set of latencies, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Number of latencies measured.
    pub count: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// One in ten is longer.
    pub p90_us: f64,
    /// One in a hundred is longer.
    pub p99_us: f64,
    /// One in a thousand is longer.
    pub p999_us: f64,
    /// One in ten thousand is longer.
    pub p9999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl fmt::Display for LatencySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "mean {}  p50 {}  p90 {}  p99 {}  p99.9 {}  p99.99 {}  max {}",
            Micros(self.mean_us),
            Micros(self.p50_us),
            Micros(self.p90_us),
            Micros(self.p99_us),
            Micros(self.p999_us),
            Micros(self.p9999_us),
            Micros(self.max_us)
        )
    }
}

/// Microseconds with three digits and the unit that suits them.
struct Micros(f64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            us if us < 1.0 => (us * 1e3, "ns"),
            us if us < 1e3 => (us, "us"),
            us if us < 1e6 => (us / 1e3, "ms"),
            us => (us / 1e6, "s"),
        };
        let decimals = if value >= 99.95 { 0 } else { 1 };
        write!(f, "{value:.decimals$}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let (mut odd, mut even) = (Latencies::default(), Latencies::default());
        for nanos in 1..=100_000 {
            if nanos % 2 == 0 { even.record(nanos) } else { odd.record(nanos) }
        }
        odd.add(&even);
        for (quantile, wanted) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            assert!((odd.at(quantile) as f64 / wanted - 1.0).abs() < 0.001, "{quantile}");
        }
        let summary = odd.summary().expect("latencies");
        assert_eq!(summary.count, 100_000);
        assert!((summary.mean_us - 50.0).abs() < 0.1 && (summary.max_us - 100.0).abs() < 0.1);
        odd.clear();
        assert_eq!(odd.summary(), None);
    }

    #[test]
    fn what_is_out_of_range_is_counted_at_its_end() {
        let mut latencies = Latencies::default();
        latencies.record(0);
        latencies.record(u64::MAX);
        assert_eq!(latencies.len(), 2);
        assert!(latencies.at(1.0) >= MOST_NANOS);
    }

    #[test]
    fn figures_have_a_unit_that_suits_them() {
        let texts: Vec<String> = [0.04, 1.25, 123.4, 4_560.0, 2.5e6].map(|us| Micros(us).to_string()).into();
        assert_eq!(texts, ["40.0ns", "1.2us", "123us", "4.6ms", "2.5s"]);
    }
}
