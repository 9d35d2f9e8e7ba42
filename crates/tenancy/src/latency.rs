//! How long requests take in the server: from when a worker has received them until their answers
//! are ready to send.
//!
//! One turn in [`ONE_IN`] is timed, so that it costs next to nothing; each request of a turn is
//! counted with all of its time, since their answers leave together.

use base::counter::Counters;

/// One turn in this many is timed.
pub const ONE_IN: u32 = 8;
/// Bounds double from a microsecond on; the last bucket has none.
const BUCKETS: usize = 24;
/// Behind the buckets: the sum.
const SUM: usize = BUCKETS;

/// The protocols, as latencies distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolFamily {
    /// Either of memcached's protocols.
    Memcached,
    /// Redis's protocol.
    Resp,
}

impl ProtocolFamily {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Memcached, Self::Resp];

    /// Returns the name by which metrics and logs show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Resp => "resp",
        }
    }
}

/// The latencies of both.
#[derive(Default)]
pub struct RequestLatencies {
    memcached: Counters<{ BUCKETS + 1 }>,
    resp: Counters<{ BUCKETS + 1 }>,
}

/// Bounds of a tenant's histogram double twice: there may be many tenants, and each bound is a line
/// of `/metrics`.
const TENANT_BUCKETS: usize = 12;

/// How long the requests of one tenant take.
#[derive(Default)]
pub struct TenantLatencies(Counters<{ TENANT_BUCKETS + 1 }>);

impl TenantLatencies {
    /// Counts a turn that took `nanos` and answered this many requests.
    pub fn add(&self, nanos: u64, requests: u64) {
        self.0.add(bucket(nanos).div_ceil(2).min(TENANT_BUCKETS - 1), requests);
        self.0.add(TENANT_BUCKETS, nanos.saturating_mul(requests));
    }

    /// Those of several tenants together.
    pub fn histogram<'t>(tenants: impl IntoIterator<Item = &'t Self>) -> Histogram {
        let mut sums = [0_u64; TENANT_BUCKETS + 1];
        for tenant in tenants {
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(tenant.0.sum(at));
            }
        }
        let [counts @ .., nanos] = sums;
        let bound = |at: usize| {
            if at + 1 == TENANT_BUCKETS { f64::INFINITY } else { (1_u64 << (2 * at)) as f64 * 1e-6 }
        };
        let buckets: Vec<(f64, u64)> =
            counts.iter().enumerate().map(|(at, count)| (bound(at), *count)).collect();
        Histogram { sum_secs: nanos as f64 * 1e-9, count: counts.iter().sum(), buckets }
    }
}

/// A histogram as Prometheus wants it.
pub struct Histogram {
    /// The sum of all latencies.
    pub sum_secs: f64,
    /// Requests in all buckets.
    pub count: u64,
    /// Upper bounds in seconds, and how many are in each and not in the one before.
    pub buckets: Vec<(f64, u64)>,
}

impl RequestLatencies {
    /// Counts a turn that took `nanos` and answered this many requests.
    pub fn add(&self, spoken: ProtocolFamily, nanos: u64, requests: u64) {
        let counters = self.of(spoken);
        counters.add(bucket(nanos), requests);
        counters.add(SUM, nanos.saturating_mul(requests));
    }

    /// Returns the latencies of one protocol.
    pub fn histogram(&self, spoken: ProtocolFamily) -> Histogram {
        let counters = self.of(spoken);
        let bound = |at: usize| if at + 1 == BUCKETS { f64::INFINITY } else { (1_u64 << at) as f64 * 1e-6 };
        let buckets: Vec<(f64, u64)> = (0..BUCKETS).map(|at| (bound(at), counters.sum(at))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Histogram { sum_secs: counters.sum(SUM) as f64 * 1e-9, count, buckets }
    }

    fn of(&self, spoken: ProtocolFamily) -> &Counters<{ BUCKETS + 1 }> {
        match spoken {
            ProtocolFamily::Memcached => &self.memcached,
            ProtocolFamily::Resp => &self.resp,
        }
    }
}

/// The first bucket whose bound is not below `nanos`.
fn bucket(nanos: u64) -> usize {
    let micros = nanos.div_ceil(1000).max(1);
    (micros.next_power_of_two().trailing_zeros() as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_within_their_bounds() {
        assert_eq!([0, 1, 1000, 1001, 2000, 2001].map(bucket), [0, 0, 0, 1, 1, 2]);
        assert_eq!(bucket(u64::MAX / 2), BUCKETS - 1);
        let latencies = RequestLatencies::default();
        latencies.add(ProtocolFamily::Resp, 3_000, 2);
        latencies.add(ProtocolFamily::Resp, 900, 1);
        let histogram = latencies.histogram(ProtocolFamily::Resp);
        assert_eq!(histogram.count, 3);
        assert!((histogram.sum_secs - 6.9e-6).abs() < 1e-12);
        let filled: Vec<(f64, u64)> = histogram.buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(1e-6, 1), (4e-6, 2)]);
        assert_eq!(latencies.histogram(ProtocolFamily::Memcached).count, 0);
    }

    #[test]
    fn those_of_tenants_have_wider_bounds_and_can_be_added_up() {
        let (a, b) = (TenantLatencies::default(), TenantLatencies::default());
        a.add(900, 1);
        a.add(1_001, 2);
        b.add(4_000, 3);
        b.add(4_001, 4);
        b.add(u64::MAX / 100, 1);
        let filled = |histogram: Histogram| -> Vec<(f64, u64)> {
            histogram.buckets.into_iter().filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(filled(TenantLatencies::histogram([&a])), [(1e-6, 1), (4e-6, 2)]);
        assert_eq!(
            filled(TenantLatencies::histogram([&a, &b])),
            [(1e-6, 1), (4e-6, 5), (16e-6, 4), (f64::INFINITY, 1)]
        );
        assert_eq!(TenantLatencies::histogram([&a, &b]).count, 11);
    }
}
