//! Figures from two samples: rates per second, percentages and times. Pure.
//!
//! Counters only grow while a server runs. A counter that went back is that of another process, and
//! yields no figure.

use super::sample::{Class, Pool, Sample, Tenant, Timed};

/// The figures in the lines above the tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) requests: Option<f64>,
    pub(super) hit_ratio: Option<f64>,
    pub(super) received: Option<f64>,
    pub(super) sent: Option<f64>,
    pub(super) evictions: Option<f64>,
    pub(super) refusals: Option<f64>,
    pub(super) slow: Option<f64>,
    pub(super) latencies: Vec<Latency>,
}

/// Latency of one protocol, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) protocol: String,
    /// Of half of the requests, of 99 % and of 99.9 %.
    pub(super) quantiles: [Option<f64>; 3],
}

/// A tenant and its pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TenantRow {
    pub(super) tenant: String,
    pub(super) pool: String,
    pub(super) policy: String,
    pub(super) connections: u64,
    pub(super) items: u64,
    pub(super) memory_bytes: u64,
    pub(super) limit_bytes: Option<u64>,
    pub(super) hit_ratio: Option<f64>,
    pub(super) requests: Option<f64>,
    pub(super) evictions: Option<f64>,
    pub(super) throttled: Option<f64>,
    pub(super) age_secs: Option<u64>,
}

/// A size class of a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClassRow {
    pub(super) pool: String,
    pub(super) number: u64,
    pub(super) chunk_bytes: u64,
    pub(super) bytes: u64,
    pub(super) items: u64,
    pub(super) item_bytes: u64,
    pub(super) hits: Option<f64>,
    pub(super) inserts: Option<f64>,
    pub(super) evictions: Option<f64>,
    pub(super) expired: Option<f64>,
    pub(super) age_secs: Option<u64>,
}

/// Two samples of one process, the earlier perhaps missing.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    before: Option<&'a Sample>,
    now: &'a Sample,
}

impl<'a> Pair<'a> {
    /// `before` is ignored if it is of another process, or not earlier.
    pub(super) fn new(before: Option<&'a Sample>, now: &'a Sample) -> Self {
        let is_earlier =
            |before: &&Sample| before.pid == now.pid && before.monotonic_nanos < now.monotonic_nanos;
        Self { before: before.filter(is_earlier), now }
    }

    /// Returns the growth of a counter per second.
    fn rate(self, of: impl Fn(&Sample) -> Option<u64>) -> Option<f64> {
        let before = self.before?;
        let secs = (self.now.monotonic_nanos - before.monotonic_nanos) as f64 * 1e-9;
        Some(grown(of(before)?, of(self.now)?)? as f64 / secs)
    }

    /// The share of hits in the lookups of the interval; without an earlier sample since the start.
    fn hit_ratio(self, of: impl Fn(&Sample) -> Option<(u64, u64)>) -> Option<f64> {
        let (hits, misses) = of(self.now)?;
        let (old_hits, old_misses) = self.before.and_then(&of).unwrap_or((0, 0));
        let (hits, misses) = (grown(old_hits, hits)?, grown(old_misses, misses)?);
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }

    /// Returns the figures of the whole server.
    pub(super) fn summary(self) -> Summary {
        let counter = |name: &'static str| self.rate(move |sample| Some(sample.counter(name)));
        let lookups =
            |sample: &Sample| Some((sample.counter("requests_get_hit"), sample.counter("requests_get_miss")));
        Summary {
            requests: counter("answered_requests"),
            hit_ratio: self.hit_ratio(lookups),
            received: counter("received_bytes"),
            sent: counter("sent_bytes"),
            evictions: self.rate(|sample| Some(sample.evictions())),
            refusals: self.rate(|sample| Some(sample.counters("refusals_"))),
            slow: self.rate(|sample| Some(sample.slow_requests)),
            latencies: self.now.requests.keys().map(|protocol| self.latency(protocol)).collect(),
        }
    }

    fn latency(self, protocol: &str) -> Latency {
        let buckets =
            |sample: &Sample| sample.requests.get(protocol).map(|timed: &Timed| timed.buckets.clone());
        let mut counts = buckets(self.now).unwrap_or_default();
        let earlier = self.before.and_then(buckets).unwrap_or_default();
        for ((_, count), (_, before)) in counts.iter_mut().zip(earlier) {
            *count = count.saturating_sub(before);
        }
        let quantiles = [0.5, 0.99, 0.999].map(|share| quantile(&counts, share));
        Latency { protocol: protocol.to_owned(), quantiles }
    }

    /// A row for each tenant, with the contents of its pool.
    pub(super) fn tenants(self) -> Vec<TenantRow> {
        self.now.tenants.iter().map(|tenant| self.tenant(tenant)).collect()
    }

    fn tenant(self, tenant: &Tenant) -> TenantRow {
        let find = |sample: &'a Sample| sample.tenants.iter().find(|it| it.name == tenant.name);
        let same = |sample: &Sample, of: fn(&Tenant) -> u64| {
            sample.tenants.iter().find(|it| it.name == tenant.name).map(of)
        };
        let pool_of = |sample: &Sample, of: fn(&Pool) -> u64| {
            sample.pools.iter().find(|pool| pool.name == tenant.pool).map(of)
        };
        let pool = self.now.pools.iter().find(|pool| pool.name == tenant.pool);
        // A tenant that came since the earlier sample has done all of it since then.
        let is_new = self.before.is_some_and(|before| find(before).is_none());
        let rate = |of: fn(&Tenant) -> u64| self.rate(|sample| same(sample, of).or(is_new.then_some(0)));
        TenantRow {
            tenant: tenant.name.clone(),
            pool: tenant.pool.clone(),
            policy: pool.map(|pool| pool.policy.clone()).unwrap_or_default(),
            connections: tenant.connections,
            items: pool.map_or(0, |pool| pool.items),
            memory_bytes: pool.map_or(0, |pool| pool.slab_bytes),
            limit_bytes: pool.and_then(|pool| pool.limit_bytes),
            hit_ratio: self
                .hit_ratio(|sample| Some((same(sample, |it| it.hits)?, same(sample, |it| it.misses)?))),
            requests: rate(|tenant| tenant.requests),
            evictions: self.rate(|sample| pool_of(sample, |pool| pool.evictions)),
            throttled: rate(|tenant| tenant.throttled),
            age_secs: pool.and_then(Pool::age_secs),
        }
    }

    /// A row for each size class.
    pub(super) fn classes(self) -> Vec<ClassRow> {
        let pools = self.now.pools.iter();
        pools.flat_map(|pool| pool.classes.iter().map(move |class| self.class(pool, class))).collect()
    }

    fn class(self, pool: &Pool, class: &Class) -> ClassRow {
        let rate = |of: fn(&Class) -> u64| {
            self.rate(|sample| {
                let pool = sample.pools.iter().find(|it| it.name == pool.name)?;
                pool.classes.iter().find(|it| it.number == class.number).map(of)
            })
        };
        ClassRow {
            pool: pool.name.clone(),
            number: class.number,
            chunk_bytes: class.chunk_bytes,
            bytes: class.bytes,
            items: class.items,
            item_bytes: class.item_bytes,
            hits: rate(|class| class.hits),
            inserts: rate(|class| class.inserts),
            evictions: rate(|class| class.evictions),
            expired: rate(|class| class.expired),
            age_secs: class.age_secs(),
        }
    }
}

/// By how much a counter grew, unless it went back.
fn grown(before: u64, now: u64) -> Option<u64> {
    now.checked_sub(before)
}

/// Returns the value below which this share lies, evenly spread within a bucket as in Prometheus's
/// `histogram_quantile`. In a bucket without an upper bound it is the lower one. `None` if nothing
/// was counted.
fn quantile(buckets: &[(Option<f64>, u64)], share: f64) -> Option<f64> {
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return None;
    }
    let wanted = share * total as f64;
    let (mut below, mut lower) = (0, 0.0);
    for (upper, count) in buckets {
        let Some(upper) = upper else { return Some(lower) };
        if *count > 0 && (below + count) as f64 >= wanted {
            return Some(lower + (upper - lower) * (wanted - below as f64) / *count as f64);
        }
        below += count;
        lower = *upper;
    }
    Some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that was asked so often, a while after it was started.
    fn sample(pid: u64, secs: u64, hits: u64, misses: u64) -> Sample {
        let text = format!(
            r#"{{"pid": {pid}, "monotonic_nanos": {secs}000000000,
                "requests": {{"memcached": {{"buckets": [[1e-6, {hits}], [2e-6, {misses}], [null, 0]]}}}},
                "listeners": [{{"counters": {{"requests_get_hit": {hits}, "requests_get_miss": {misses},
                    "answered_requests": {hits}, "refusals_a": {misses}, "refusals_b": {misses}}}}}],
                "tenants": [{{"name": "shop", "pool": "p", "requests": {hits}, "hits": {hits}, "misses": {misses}}}],
                "pools": [{{"name": "p", "limit_bytes": null, "evictions": {misses}, "unheard_of": [1],
                    "classes": [{{"number": 3, "hits": {hits}, "item_bytes": 9, "queues": [{{"age_secs": 7}}, {{}}]}}]}}]}}"#
        );
        Sample::read(&text, "{}").expect("a sample")
    }

    #[test]
    fn rates_are_the_differences_of_two_samples() {
        let (before, now) = (sample(1, 10, 100, 20), sample(1, 12, 400, 120));
        let pair = Pair::new(Some(&before), &now);
        let summary = pair.summary();
        assert_eq!(
            (summary.requests, summary.evictions, summary.refusals),
            (Some(150.0), Some(50.0), Some(100.0))
        );
        assert_eq!(summary.hit_ratio, Some(0.75));
        // 300 took at most a microsecond, 100 more at most two.
        let [half, most, nearly_all] = summary.latencies[0].quantiles.map(|it| it.map(|secs| secs * 1e9));
        assert_eq!((half.map(f64::round), most.map(f64::round)), (Some(667.0), Some(1960.0)));
        assert_eq!(nearly_all.map(f64::round), Some(1996.0));
        let tenants = pair.tenants();
        assert_eq!((tenants[0].requests, tenants[0].hit_ratio), (Some(150.0), Some(0.75)));
        assert_eq!((tenants[0].evictions, tenants[0].age_secs), (Some(50.0), Some(7)));
        let classes = pair.classes();
        assert_eq!((classes[0].pool.as_str(), classes[0].hits), ("p", Some(150.0)));
    }

    #[test]
    fn one_sample_makes_no_rates_but_shares_since_the_start() {
        let now = sample(1, 12, 30, 10);
        let summary = Pair::new(None, &now).summary();
        assert_eq!((summary.requests, summary.hit_ratio), (None, Some(0.75)));
        assert!(summary.latencies[0].quantiles[0].is_some());
    }

    #[test]
    fn a_server_that_was_started_anew_begins_anew() {
        let (before, now) = (sample(1, 1_000, 500, 50), sample(2, 3, 20, 20));
        assert_eq!(Pair::new(Some(&before), &now).summary(), Pair::new(None, &now).summary());
        // The same number may be given to another process.
        let again = sample(1, 3, 20, 20);
        assert_eq!(Pair::new(Some(&before), &again).summary().requests, None);
        let later = sample(1, 2_000, 20, 20);
        let summary = Pair::new(Some(&before), &later).summary();
        assert_eq!(
            (summary.requests, summary.hit_ratio),
            (None, None),
            "counters that went back say nothing"
        );
    }

    #[test]
    fn a_server_that_says_nothing_has_no_figures() {
        let (empty, other) = (Sample::read("{}", "{}").expect("empty"), sample(0, 1, 2, 3));
        for pair in
            [Pair::new(None, &empty), Pair::new(Some(&other), &empty), Pair::new(Some(&empty), &other)]
        {
            pair.tenants();
            pair.classes();
            pair.summary();
        }
        assert_eq!(Pair::new(None, &empty).summary(), Summary::default());
        assert!(Sample::read("7", "{}").is_err() && Sample::read(r#"{"pid": "x"}"#, "{}").is_err());
    }

    #[test]
    fn a_tenant_that_came_meanwhile_did_all_of_it_meanwhile() {
        let (mut before, now) = (sample(1, 10, 100, 20), sample(1, 12, 400, 120));
        before.tenants.clear();
        let tenants = Pair::new(Some(&before), &now).tenants();
        assert_eq!((tenants[0].requests, tenants[0].hit_ratio), (Some(200.0), Some(400.0 / 520.0)));
    }

    #[test]
    fn quantiles_lie_within_their_buckets() {
        let buckets = [(Some(1.0), 0), (Some(2.0), 4), (None, 4)];
        assert_eq!(quantile(&buckets, 0.25), Some(1.5));
        assert_eq!(quantile(&buckets, 0.99), Some(2.0), "the last bound that is known");
        assert_eq!(quantile(&[(Some(1.0), 0)], 0.5), None);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
