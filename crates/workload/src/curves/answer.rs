//! The memory for a hit ratio: first as read from the curve, then as tried in the engine.
//!
//! The curve is that of one queue over all items. The engine has a queue for each of its classes,
//! among which memory moves by slabs, and policies that the curve of LRU doesn't model. So the
//! answer is tried: the trace is replayed through an engine with that memory and, if it hits less
//! or more than was asked for, with more or less of it.

use std::fmt;
use std::path::Path;

use anyhow::Result;
use base::ByteSize;
use curve::MissRatioCurve;
use millpond::PolicyKind;
use serde::Serialize;

use super::Writes;
use crate::replay::{ReplayOptions, replay};

/// A cache of the engine's with this memory, and what it hit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// Its memory, in bytes.
    pub memory_bytes: u64,
    /// Hits per request, or per read where the curve counts reads alone.
    pub hit_ratio: f64,
}

/// The memory for a hit ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The hit ratio that was asked for.
    pub hits: f64,
    /// The policy whose memory it is.
    pub policy: String,
    /// The memory of the smallest cache that has it, in bytes; `None` where no cache has.
    pub memory_bytes: Option<u64>,
    /// The most that any cache hits, by the curve.
    pub most_hits: f64,
    /// The memory that the curve alone says, in bytes.
    pub by_curve_bytes: Option<u64>,
    /// The caches that were tried, in turn; none where the answer is the curve's alone.
    pub tried: Vec<Tried>,
    /// The reason why no cache was tried, or none that is smaller.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Least memory of an engine, of which an answer may be.
const LEAST: u64 = 8 << 20;
/// Answers are whole numbers of these.
const STEP: u64 = 1 << 20;
/// Most caches that are tried.
const MOST_TRIED: usize = 12;
/// An answer may hit this much less or more than was asked for.
const BELOW: f64 = 0.002;
const ABOVE: f64 = 0.006;

/// Looks up the memory for `hits` on a curve over the engine's memory, and tries it with `options`,
/// whose memory is replaced. `writes` says what the curve counts, and so what is tried: requests,
/// or reads alone.
///
/// # Errors
/// Where the trace cannot be replayed.
pub fn answer(
    curve: &MissRatioCurve,
    trace: &Path,
    hits: f64,
    writes: Writes,
    options: &ReplayOptions,
    most_tried: ByteSize,
) -> Result<Answer> {
    let by_curve_bytes = curve.size_for(1.0 - hits);
    let mut answer = Answer {
        hits,
        policy: options.policy.to_string(),
        memory_bytes: by_curve_bytes,
        most_hits: 1.0 - curve.miss_ratio(curve.max_size() as f64),
        by_curve_bytes,
        tried: Vec::new(),
        note: String::new(),
    };
    if most_tried.as_u64() == 0 {
        return Ok(answer);
    }
    // Where the curve has an answer or nearly has one, the engine decides.
    let Some(first) = by_curve_bytes.or_else(|| curve.size_for(1.0 - hits + 0.005)) else {
        return Ok(answer);
    };
    if first > most_tried.as_u64() {
        answer.note = format!("not tried: that is more than {most_tried} (--most-tried)");
        return Ok(answer);
    }
    let mut search = Search { curve, hits, below: None, enough: None };
    let mut memory = rounded(first);
    while answer.tried.len() < MOST_TRIED && memory <= most_tried.as_u64() {
        let replayed = replay(
            trace,
            &ReplayOptions { memory: ByteSize::new(memory), compare: false, ..options.clone() },
        )?;
        let hit_ratio = if writes == Writes::Count { replayed.hit_ratio } else { replayed.get_hit_ratio };
        let tried = Tried { memory_bytes: memory, hit_ratio };
        answer.tried.push(tried);
        match search.after(tried) {
            Some(next) => memory = next,
            None => break,
        }
    }
    answer.memory_bytes = search.enough.map(|enough| enough.memory_bytes);
    answer.most_hits = answer.tried.iter().map(|tried| tried.hit_ratio).fold(answer.most_hits, f64::max);
    if answer.memory_bytes == Some(LEAST) {
        answer.note = format!("no smaller cache than {} was tried", ByteSize::new(LEAST));
    }
    if let PolicyKind::Lru { refresh_secs } = options.policy
        && refresh_secs > 0
        && options.trace_time.is_none()
    {
        let promotes = format!(
            "lru promotes an item at most once in {refresh_secs} s, which a replay hardly lasts; --policy lru:0 promotes at each hit"
        );
        answer.note = if answer.note.is_empty() { promotes } else { format!("{}; {promotes}", answer.note) };
    }
    Ok(answer)
}

fn rounded(memory: u64) -> u64 {
    memory.div_ceil(STEP).saturating_mul(STEP).max(LEAST)
}

/// Between which memories the answer lies.
struct Search<'c> {
    curve: &'c MissRatioCurve,
    hits: f64,
    below: Option<Tried>,
    enough: Option<Tried>,
}

impl Search<'_> {
    /// Returns the memory to try after this result; `None` if the answer is found.
    fn after(&mut self, tried: Tried) -> Option<u64> {
        let Tried { memory_bytes, hit_ratio } = tried;
        if hit_ratio >= self.hits - BELOW {
            self.enough = Some(tried);
            if hit_ratio <= self.hits + ABOVE || memory_bytes <= LEAST {
                return None;
            }
        } else {
            self.below = Some(tried);
        }
        match (self.below, self.enough) {
            (Some(below), Some(enough)) => between(below, enough, self.hits),
            (Some(_), None) => {
                let next = self.as_far_off(tried).clamp(memory_bytes + memory_bytes / 20, 2 * memory_bytes);
                Some(rounded(next))
            }
            (None, Some(_)) => {
                let next = self.as_far_off(tried).clamp(memory_bytes / 2, memory_bytes - memory_bytes / 20);
                Some(rounded(next)).filter(|next| *next < memory_bytes)
            }
            (None, None) => None,
        }
    }

    /// The memory for the hits, if the engine is as far from the curve there as at what was tried.
    fn as_far_off(&self, tried: Tried) -> u64 {
        let size_for = |hits: f64| self.curve.size_for(1.0 - hits).unwrap_or(self.curve.max_size()).max(1);
        let (here, there) = (size_for(tried.hit_ratio), size_for(self.hits));
        (there as f64 * tried.memory_bytes as f64 / here as f64) as u64
    }
}

/// Returns the memory to try between an engine that hits too little and one that hits enough;
/// `None` if they are next to each other.
fn between(below: Tried, enough: Tried, hits: f64) -> Option<u64> {
    let (low, high) = (below.memory_bytes, enough.memory_bytes);
    if high - low <= STEP || high as f64 <= low as f64 * 1.01 {
        return None;
    }
    // Hits are taken to rise with the logarithm of memory; a tenth of the way at least, since where
    // there is a cliff they do not.
    let way = (hits - below.hit_ratio) / (enough.hit_ratio - below.hit_ratio).max(f64::MIN_POSITIVE);
    let next = low as f64 * (high as f64 / low as f64).powf(way.clamp(0.1, 0.9));
    Some(rounded(next as u64).clamp(rounded(low + 1), high - STEP))
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ratio: f64| format!("{:.1} %", 100.0 * ratio);
        let hits = format!("{:.4}", 100.0 * self.hits);
        let hits = hits.trim_end_matches('0').trim_end_matches('.');
        let Some(memory) = self.memory_bytes else {
            let most = percent(self.most_hits);
            return writeln!(f, "{hits} % hits   no cache has them: {} hits {most} at most", self.policy);
        };
        let size = ByteSize::new(memory);
        write!(f, "{hits} % hits   {size} with {}", self.policy)?;
        match self.tried.iter().rev().find(|tried| tried.memory_bytes == memory) {
            Some(tried) => write!(f, "; replayed through the engine it hits {}", percent(tried.hit_ratio))?,
            None => write!(f, ", by the curve alone")?,
        }
        if let Some(curve) = self.by_curve_bytes.filter(|_| !self.tried.is_empty()) {
            write!(f, " (by the curve: {})", ByteSize::new(curve.next_multiple_of(STEP)))?;
        }
        writeln!(f)?;
        if self.note.is_empty() { Ok(()) } else { writeln!(f, "           {}", self.note) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve::{Point, Unit};

    /// Runs the search against an engine that needs `more` times the memory that the curve says.
    fn found(more: f64, hits: f64) -> (Option<u64>, usize) {
        let points = [(32, 0.5), (64, 0.3), (65, 0.12), (128, 0.08), (256, 0.05)];
        let curve = points.map(|(mib, miss_ratio)| Point { size: mib << 20, miss_ratio });
        let curve = MissRatioCurve::new(Unit::Bytes, curve).unwrap();
        let mut search = Search { curve: &curve, hits, below: None, enough: None };
        let mut memory = rounded(curve.size_for(1.0 - hits).unwrap());
        for tried in 1..=MOST_TRIED {
            let hit_ratio = 1.0 - curve.miss_ratio(memory as f64 / more);
            match search.after(Tried { memory_bytes: memory, hit_ratio }) {
                Some(next) => memory = next,
                None => return (search.enough.map(|enough| enough.memory_bytes >> 20), tried),
            }
        }
        (search.enough.map(|enough| enough.memory_bytes >> 20), MOST_TRIED)
    }

    #[test]
    fn the_search_ends_at_the_least_memory_that_has_the_hits() {
        for (more, hits, low, high) in [
            (1.0, 0.9, 95, 98),
            (1.3, 0.9, 123, 128),
            (0.8, 0.9, 75, 80),
            (1.3, 0.85, 83, 86),
            (1.3, 0.3, 24, 27),
            (1.0, 0.01, LEAST >> 20, LEAST >> 20),
        ] {
            let (found, tried) = found(more, hits);
            assert!(found.is_some_and(|mib| (low..=high).contains(&mib)), "{more}, {hits}: {found:?}");
            assert!(tried <= 8, "{more}, {hits}: {tried} tried");
        }
    }
}
