//! An instance as the orchestrator knows it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use allocate::measured::{Measured, is_same, is_steady};
use allocate::{Place, Pool, demand};
use control::v1::{Amount, Holding, Instance, PoolGrant, PoolReport, StatsResponse};
use control::{MOST_CURVE_POINTS, amounts, curve as messages};
use curve::{MissRatioCurve, Point, Unit};

use crate::Nanos;
use crate::exchange::{Call, Key, Record, Request};
use crate::hold::Hold;
use crate::names::pool_name;

/// Reads that a curve is learnt from before it counts.
const LEAST_SAMPLES: f64 = 100.0;
/// Reads in a round below which no miss ratio is told.
const LEAST_READS: u64 = 100;
/// Amounts and rates above these are taken for these.
const MOST_BYTES: u64 = 1 << 50;
const MOST_RATE: f64 = 1e12;
/// The weight of former measurements against those of the last round.
const SMOOTHING: f64 = 0.3;
/// A prediction is compared with what came if the pool had its grant but for one byte in this many.
pub(crate) const NEAR_PART: u64 = 16;
/// A pool's grant is told again if it differs by one byte in this many.
const GRANT_PART: u64 = 64;

/// An instance that is registered, or that was when an earlier orchestrator ended.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) instance: Instance,
    pub(crate) address: String,
    /// The agent.
    pub(crate) session: u64,
    pub(crate) lease_until: Nanos,
    /// True if the log has it that its lease runs.
    pub(crate) is_told_leased: bool,
    /// The latest time at which its agent may yet count on a lease that it was sent.
    pub(crate) obeys_until: Nanos,
    pub(crate) hold: Hold,
    /// Its record, as it was saved last.
    pub(crate) saved: Option<Record>,
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// True if the last attempt to reach its agent found nobody there.
    pub(crate) is_refused: bool,
    /// When it registered last.
    pub(crate) came_at: Nanos,
    /// True if it answered in the present round.
    pub(crate) is_present: bool,
    /// The number of the last report; 0 = none.
    pub(crate) known: u64,
    pub(crate) reported_at: Option<Nanos>,
    pub(crate) pools: BTreeMap<u32, PoolState>,
    /// Pools of a former session by the names that were told, until the first report of this one.
    pub(crate) former: HashMap<String, PoolState>,
    /// The limit that was asked for last since the last report.
    pub(crate) asked_limit: Option<u64>,
    /// The grants of pools that were told last.
    pub(crate) told_grants: BTreeMap<u32, u64>,
    /// The limit that was decided.
    pub(crate) target: Option<u64>,
}

/// A pool of an instance.
#[derive(Clone, Debug)]
pub(crate) struct PoolState {
    /// Its name in decisions.
    pub(crate) name: Arc<str>,
    pub(crate) report: PoolReport,
    /// Its name in the latest decision about it; before the first one, [`Self::name`].
    pub(crate) decided_name: Arc<str>,
    pub(crate) curve: Option<Arc<MissRatioCurve>>,
    /// True if that is of a former session: the present one has yet to learn from reads enough.
    has_former_curve: bool,
    pub(crate) samples: f64,
    /// A bound on the mean error of the curve; 0 = unknown.
    pub(crate) error: f64,
    /// When the curve was told.
    pub(crate) curve_at: Nanos,
    /// Reads and misses at the last report but one, and when the reporter read these.
    before: (u64, u64),
    counted_at_millis: u64,
    pub(crate) reads_per_sec: f64,
    /// Their mean over the last minutes, once a rate is known.
    mean_rate: Option<f64>,
    /// Its reads and misses lately, and the bytes that it used at the report before.
    measured: Measured,
    used_before: u64,
    /// True if it used about as much at the last report as at the one before.
    pub(crate) is_steady: bool,
    /// True if its load has become another one since the last decision.
    has_changed: bool,
    /// The curve, corrected by these.
    corrected: Option<Arc<MissRatioCurve>>,
    /// Misses per second, smoothed, and the most that there were lately.
    pub(crate) misses_per_sec: f64,
    carried_per_sec: f64,
    /// The miss ratio between the last two reports, if there were reads enough, and these reads
    /// until they were compared with what was predicted.
    pub(crate) missed: Option<f64>,
    reads: u64,
    /// Its grant as decided, in bytes.
    pub(crate) granted: Option<u64>,
    /// The miss ratio that was predicted for that.
    pub(crate) expected: Option<f64>,
}

impl PoolState {
    /// A pool that is reported first, and what was known of it in a former session.
    fn new(name: Arc<str>, told: &PoolReport, former: Option<Self>, now: Nanos) -> Self {
        let new = Self {
            name: Arc::clone(&name),
            report: PoolReport::default(),
            decided_name: name,
            curve: None,
            has_former_curve: false,
            samples: 0.0,
            error: 0.0,
            curve_at: now,
            before: (told.reads, told.misses),
            counted_at_millis: 0,
            reads_per_sec: 0.0,
            mean_rate: None,
            measured: Measured::default(),
            used_before: 0,
            is_steady: false,
            has_changed: false,
            corrected: None,
            misses_per_sec: 0.0,
            carried_per_sec: 0.0,
            missed: None,
            reads: 0,
            granted: None,
            expected: None,
        };
        let Some(former) = former else { return new };
        Self {
            has_former_curve: former.curve.is_some(),
            curve: former.curve,
            samples: former.samples,
            error: former.error,
            curve_at: former.curve_at,
            mean_rate: former.mean_rate,
            misses_per_sec: former.misses_per_sec,
            carried_per_sec: former.carried_per_sec,
            granted: former.granted,
            ..new
        }
    }

    /// The memory that it has before anything is decided about it: what it was granted by others,
    /// as it says, if that is no more than its share or what it uses.
    pub(crate) fn present(&self, share: u64) -> u64 {
        match amounts::memory(&self.report.granted) {
            0 => share,
            granted => granted.min(share.max(self.used())),
        }
    }

    pub(crate) fn used(&self) -> u64 {
        amounts::memory(&self.report.used).min(MOST_BYTES)
    }

    /// The least that it may be granted, in bytes.
    pub(crate) fn floor(&self) -> u64 {
        amounts::memory(&self.report.floors).min(MOST_BYTES)
    }

    /// True if its curve was learnt from reads enough.
    pub(crate) fn is_known(&self) -> bool {
        self.curve.is_some() && self.samples >= LEAST_SAMPLES
    }

    /// A bound on the mean error of its curve; `None`: it is not known.
    pub(crate) fn error(&self) -> Option<f64> {
        Some(self.error).filter(|error| *error > 0.0)
    }

    /// The mean cost of a miss, as told.
    pub(crate) fn miss_cost_secs(&self) -> Option<f64> {
        let secs = finite(self.report.miss_cost_micros) / 1e6;
        (secs > 0.0).then_some(secs)
    }

    /// The misses per second that its backend carries, as told, or else the most that it carried
    /// lately.
    pub(crate) fn backend_per_sec(&self) -> f64 {
        match finite(self.report.backend_per_sec) {
            0.0 => self.carried_per_sec,
            told => told,
        }
    }

    /// The miss ratio with these bytes: as measured with what it uses, and changed as its curve
    /// changes between that and these. `None`: its curve is not known.
    pub(crate) fn would_miss(&self, bytes: u64) -> Option<f64> {
        let curve = self.known_curve()?;
        let at = |bytes: u64| curve.miss_ratio(bytes as f64);
        let missed = self.missed.unwrap_or_else(|| at(self.used()));
        Some((missed + at(bytes) - at(self.used())).clamp(0.0, 1.0))
    }

    /// The curve, as corrected by what was measured. `None`: it is not known.
    pub(crate) fn known_curve(&self) -> Option<&Arc<MissRatioCurve>> {
        self.corrected.as_ref().or(self.curve.as_ref()).filter(|_| self.is_known())
    }

    /// The miss ratio that was predicted for the time since, if it had its grant.
    pub(crate) fn prediction(&self) -> Option<f64> {
        let near = |bytes: u64| bytes.abs_diff(self.used()) <= bytes / NEAR_PART;
        self.expected.filter(|_| self.granted.is_some_and(near))
    }

    /// Compares what was predicted with what came, once. Returns whether the load has become
    /// another one: then what was measured with other memory is forgotten.
    pub(crate) fn compare(&mut self) -> bool {
        let reads = std::mem::take(&mut self.reads);
        let has_changed = std::mem::take(&mut self.has_changed);
        let compared = self.prediction().zip(self.missed).filter(|_| reads > 0);
        let is_off =
            compared.is_some_and(|(predicted, missed)| self.measured.compare(predicted, missed, reads));
        if is_off {
            self.correct();
        }
        is_off || has_changed
    }

    /// The mean distance of what it missed from what had been predicted, in misses per read.
    pub(crate) fn off(&self) -> f64 {
        self.measured.off()
    }

    fn correct(&mut self) {
        self.corrected = self.curve.as_ref().map(|curve| Arc::new(self.measured.correct(curve)));
    }

    /// The pool as a policy sees it.
    pub(crate) fn seen(&self, place: Place) -> Pool {
        let unknown = || Arc::new(MissRatioCurve::uniform(Unit::Bytes, 1));
        let curve = self.known_curve().cloned().unwrap_or_else(unknown);
        let mut pool = Pool::new(Arc::clone(&self.name), curve, self.granted.unwrap_or_else(|| self.used()));
        pool.place = place;
        pool.used = self.used();
        pool.floor = self.floor();
        pool.ceiling = none_is_any(&self.report.ceilings).max(pool.floor);
        pool.weight = finite(self.report.weight);
        let rate = self.reads_per_sec.max(self.mean_rate.unwrap_or(0.0));
        pool.request_rate = rate.min(MOST_RATE);
        pool.min_request_rate = finite(self.report.promised_per_sec);
        pool
    }

    /// Takes the counters of a report, which comes this long after the last one. Returns whether
    /// that added to what is measured.
    fn note(&mut self, secs: f64) -> bool {
        let secs = match self.report.counted_at_millis {
            0 => secs,
            // Read at other moments than reported: by a reporter that speaks for others.
            at => {
                let before = std::mem::replace(&mut self.counted_at_millis, at);
                if before == at {
                    // Not read since then: that says nothing about requests.
                    return false;
                }
                // The first ones are compared with none.
                let is_later = before > 0 && before < at;
                if is_later { (at - before) as f64 / 1e3 } else { 0.0 }
            }
        };
        let reads = self.report.reads.saturating_sub(self.before.0);
        let misses = self.report.misses.saturating_sub(self.before.1).min(reads);
        self.before = (self.report.reads, self.report.misses);
        let used = self.used();
        let used_before = std::mem::replace(&mut self.used_before, used);
        self.is_steady = is_steady(used_before, used);
        self.reads = reads;
        let before = self.missed.take().filter(|_| is_same(used_before, used));
        self.missed = (reads >= LEAST_READS).then(|| misses as f64 / reads as f64);
        if secs > 0.0 {
            self.reads_per_sec = reads as f64 / secs;
            self.measured = self.measured.after(secs, (reads, misses), (used_before, used));
            let both = before.zip(self.missed);
            self.has_changed = both
                .is_some_and(|(before, missed)| self.measured.compare_with_before(before, missed, reads))
                || self.measured.change_if_due();
            let former = self.mean_rate.unwrap_or(self.reads_per_sec);
            self.mean_rate = Some(demand::mean_rate(former, self.reads_per_sec, secs));
            let now = misses as f64 / secs;
            self.misses_per_sec = now + SMOOTHING * (self.misses_per_sec - now);
            self.carried_per_sec = demand::carried(self.carried_per_sec, now, secs);
        }
        secs > 0.0
    }
}

/// The memory of a bound; one that is not named is none.
pub(crate) fn none_is_any(amounts: &[Amount]) -> u64 {
    match amounts::memory(amounts) {
        0 => u64::MAX,
        bytes => bytes,
    }
}

/// The name of a pool in decisions.
fn name(instance: &str, pool: &str) -> Arc<str> {
    if pool.is_empty() { instance.into() } else { format!("{instance}/{pool}").into() }
}

/// A figure of a message, which may be anything.
fn finite(figure: f64) -> f64 {
    if figure.is_finite() && figure > 0.0 { figure.min(MOST_RATE) } else { 0.0 }
}

impl Member {
    pub(crate) fn new(instance: Instance, address: String, hold: Hold) -> Self {
        Self {
            instance,
            address,
            session: 0,
            lease_until: 0,
            is_told_leased: false,
            obeys_until: 0,
            asked_limit: None,
            told_grants: BTreeMap::new(),
            hold,
            saved: None,
            least: 0,
            most: u64::MAX,
            is_refused: false,
            came_at: 0,
            is_present: false,
            known: 0,
            reported_at: None,
            pools: BTreeMap::new(),
            former: HashMap::new(),
            target: None,
        }
    }

    /// Returns whether the lease runs of an agent that has answered.
    pub(crate) fn is_leased(&self, now: Nanos) -> bool {
        self.reported_at.is_some() && now < self.lease_until
    }

    pub(crate) fn call(&self, key: &Key, request: Request, made_at: Nanos) -> Call {
        Call { key: key.clone(), address: self.address.clone(), made_at, request }
    }

    /// Another agent speaks for the instance from now on. It may number pools in another way, so
    /// nothing that is known of a number holds any more. Pools that it reports by the same names
    /// keep their grants and curves: to learn anew takes a while, in which they would take memory
    /// from others or lose it.
    pub(crate) fn begin_session(&mut self, session: u64, holding: &Holding) {
        self.hold.begin_session(holding);
        (self.session, self.known, self.reported_at) = (session, 0, None);
        if !self.pools.is_empty() {
            let former = std::mem::take(&mut self.pools).into_values();
            self.former = former.map(|pool| (pool.report.name.clone(), pool)).collect();
        }
        self.told_grants.clear();
    }

    /// Of instances with several pools, what each of them is granted.
    pub(crate) fn grants(&self) -> Vec<PoolGrant> {
        if self.pools.len() < 2 {
            return Vec::new();
        }
        let granted = self.pools.iter().filter_map(|(&id, pool)| Some((id, pool.granted?)));
        granted.map(|(id, bytes)| PoolGrant { id, amounts: amounts::of_memory(bytes) }).collect()
    }

    /// Notes that the grants are told.
    pub(crate) fn note_told_grants(&mut self) {
        let granted = self.pools.iter().filter_map(|(&id, pool)| Some((id, pool.granted?)));
        self.told_grants = granted.collect();
    }

    /// Returns whether a pool's grant is about to change. After a request that is not seen to have
    /// had an effect, the next round tries again.
    pub(crate) fn grants_differ(&self) -> bool {
        self.pools.len() >= 2
            && self.pools.iter().any(|(id, pool)| {
                let told = self.told_grants.get(id).copied();
                let said = told.unwrap_or_else(|| amounts::memory(&pool.report.granted));
                pool.granted.is_some_and(|granted| granted.abs_diff(said) > granted / GRANT_PART)
            })
    }

    /// The record, if it must be saved: as the instance can have more than was saved, or is another
    /// one; with `all`, also if it can have less.
    pub(crate) fn unsaved(&mut self, held: u64, all: bool) -> Option<Record> {
        let is_saved = self.saved.as_ref().is_some_and(|saved| {
            (saved.held_bytes == held || !all && saved.held_bytes > held)
                && saved.session == self.session
                && saved.address == self.address
                && saved.instance == self.instance
        });
        if is_saved {
            return None;
        }
        let record = Record {
            instance: self.instance.clone(),
            session: self.session,
            address: self.address.clone(),
            held_bytes: held,
        };
        self.saved = Some(record.clone());
        Some(record)
    }

    /// Takes the report of a round.
    pub(crate) fn report(&mut self, response: &StatsResponse, now: Nanos) {
        if response.is_whole {
            let here: HashSet<u32> = response.pools.iter().map(|pool| pool.id).collect();
            self.pools.retain(|id, _| here.contains(id));
        }
        for gone in &response.gone {
            self.pools.remove(gone);
        }
        for pool in &response.pools {
            if self.pools.len() < control::MOST_POOLS || self.pools.contains_key(&pool.id) {
                self.report_pool(pool, now);
            }
        }
        if response.is_whole {
            self.former.clear();
        }
        let secs = self.reported_at.map_or(0.0, |before| now.saturating_sub(before) as f64 / 1e9);
        for pool in self.pools.values_mut() {
            if pool.note(secs) || pool.curve_at == now {
                pool.correct();
            }
        }
        self.told_grants.clear();
        self.reported_at = Some(now);
        self.known = response.number;
    }

    fn report_pool(&mut self, told: &PoolReport, now: Nanos) {
        let learnt = told.curve.as_ref().and_then(|told| {
            let points = messages::read(told).ok()?;
            let points = points.into_iter().map(|(size, miss_ratio)| Point { size, miss_ratio });
            let curve = MissRatioCurve::new(Unit::Bytes, points).ok()?;
            // Agents of ours send no more; of others, all pools together would take too much.
            let is_long = curve.points().len() > MOST_CURVE_POINTS + 1;
            let curve = Arc::new(if is_long { curve.thinned(MOST_CURVE_POINTS) } else { curve });
            Some((curve, finite(told.samples), finite(told.error).min(1.0)))
        });
        let told_name = pool_name(&told.name);
        let pool = self.pools.entry(told.id).or_insert_with(|| {
            let name = name(&self.instance.name, &told_name);
            PoolState::new(name, told, self.former.remove(&*told_name), now)
        });
        if let Some((curve, samples, error)) =
            learnt.filter(|(_, samples, _)| !pool.has_former_curve || *samples >= LEAST_SAMPLES)
        {
            (pool.curve, pool.samples, pool.error, pool.curve_at) = (Some(curve), samples, error, now);
            pool.has_former_curve = false;
        }
        let name = if told_name.is_empty() || told_name == pool.report.name {
            std::mem::take(&mut pool.report.name)
        } else {
            pool.name = name(&self.instance.name, &told_name);
            told_name.into_owned()
        };
        pool.report = PoolReport {
            name,
            curve: None,
            granted: told.granted.clone(),
            used: told.used.clone(),
            floors: told.floors.clone(),
            ceilings: told.ceilings.clone(),
            ..*told
        };
    }

    /// The memory that the instance uses beside its pools: for index and connections.
    pub(crate) fn overhead(&self) -> u64 {
        let pools: u64 = self.pools.values().map(PoolState::used).fold(0, u64::saturating_add);
        self.hold.used().saturating_sub(pools)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_carries_as_much_under_another_agent() {
        let told = PoolReport::default();
        let mut former = PoolState::new("shop".into(), &told, None, 0);
        former.carried_per_sec = 500.0;
        assert_eq!(PoolState::new("shop".into(), &told, Some(former), 1).backend_per_sec(), 500.0);
    }
}
