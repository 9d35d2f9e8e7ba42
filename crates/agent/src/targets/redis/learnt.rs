//! The state of learning about a Redis.

use curve::MissRatioCurve;

use super::super::learn::Learner;
use super::info::Info;

/// The state that all threads share.
#[derive(Debug)]
pub(super) struct Learnt {
    /// From `MONITOR`.
    pub(super) learner: Learner,
    /// The mean memory of a key, for reads of keys of unknown size.
    pub(super) mean: u32,
    /// From idle times.
    pub(super) by_age: Option<MissRatioCurve>,
    /// Look-ups that the sampling of idle times has caused in a server's run.
    pub(super) caused: Caused,
}

/// Hits and misses that are not those of clients, in one run of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Caused {
    pub(super) run_id: String,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Caused {
    /// The reads and the misses of clients.
    pub(super) fn without(&self, info: &Info) -> (u64, u64) {
        let (hits, misses) = if self.run_id == info.run_id { (self.hits, self.misses) } else { (0, 0) };
        let misses = info.misses.saturating_sub(misses);
        (info.hits.saturating_sub(hits).saturating_add(misses), misses)
    }
}
