//! A pool's curve, corrected by the misses that the pool had in fact, lately and with other
//! memory.
//!
//! A curve that is learnt from a sample of keys can be off. Its level counts what was missed while
//! the pool filled, and hot keys may be in the sample or not. Its shape is that of one queue, and a
//! pool whose size classes favour small items loses more by giving memory than such a queue does.
//! So a pool's own counts come first: at the size that it has, and at sizes that it had, of which
//! each counts less as time goes by. Between these sizes the curve has its shape, and goes through
//! what was measured.

use std::borrow::Cow;

use curve::MissRatioCurve;

/// The time in which half of what was measured with the present memory is forgotten, in seconds:
/// long enough for some ten thousand misses of a busy pool, whose mean is then off by less than a
/// hundredth.
const HALF_LIFE_SECS: f64 = 20.0;
/// The time in which a measurement with other memory loses half of its weight, in seconds.
const FORMER_HALF_LIFE_SECS: f64 = 900.0;
/// The reads from which such a measurement has half of its weight.
const READS_FOR_HALF: f64 = 2_000.0;
/// A pool has one size if it changes by at most one byte in this many.
const STEADY_PART: u64 = 16;
/// And the same size by one in this many.
const SAME_PART: u64 = 256;
/// The difference from a prediction that is a surprise, beyond this many times what chance
/// explains; and the time after one in which there is no other.
const SURPRISE: f64 = 0.03;
const SURPRISE_BY_CHANCE: f64 = 6.0;
const SETTLED_SECS: f64 = 60.0;
/// The same, of a pool that has no prediction: hits of a loop come in bursts.
const CHANGED: f64 = 0.1;
/// The time for which its memory is the same before that counts, in seconds: what is new to it must
/// be read again first.
const SAME_SECS: f64 = 30.0;
/// The weight of a new prediction in the mean of how far they were off, and the time in which half
/// of that mean is forgotten, in seconds.
const NEW_PART: f64 = 0.25;
const OFF_HALF_LIFE_SECS: f64 = 120.0;
/// The distance of a miss ratio from the curve that a cliff explains which is elsewhere by this
/// part of the size at most, and the steps in which that is sought.
const CLIFF: f64 = 0.1;
const CLIFF_PART: f64 = 0.125;
const CLIFF_STEPS: u32 = 32;
/// The most sizes that are kept.
const MOST_SIZES: usize = 16;

/// Reads, the misses among them, and the sum of the memory at each read, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    reads: f64,
    misses: f64,
    memory: f64,
}

impl Counts {
    fn after(self, secs: f64, (reads, misses): (u64, u64), memory: u64) -> Self {
        let left = (-secs / HALF_LIFE_SECS).exp2();
        Self {
            reads: self.reads * left + reads as f64,
            misses: self.misses * left + misses as f64,
            memory: self.memory * left + reads as f64 * memory as f64,
        }
    }

    /// The mean size, and the difference of what was missed from what the curve has there.
    fn offset(&self, curve: &MissRatioCurve) -> (f64, f64) {
        let size = self.memory / self.reads;
        (size, self.misses / self.reads - curve.miss_ratio(size))
    }
}

/// The counts with about one size of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AtSize {
    /// The size is near the fourth root of two to this power.
    power: i32,
    counts: Counts,
    /// The time since it had that size.
    age_secs: f64,
}

/// The reads and misses of a pool, lately and with other memory before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    lately: Counts,
    sizes: Vec<AtSize>,
    /// The time since the load was found to have become another one.
    settled_secs: f64,
    /// The time for which its memory has been the same.
    same_secs: f64,
    /// True if it was so again too soon after that.
    is_due: bool,
    /// The mean distance of what was missed from what had been predicted.
    off: f64,
}

/// Returns whether a pool that had this much memory and then that has the same: on a cliff little
/// makes a difference.
pub fn is_same(from: u64, to: u64) -> bool {
    from.abs_diff(to) <= to / SAME_PART
}

/// Returns whether a pool that had this much memory and then that has about one size.
pub fn is_steady(from: u64, to: u64) -> bool {
    from.abs_diff(to) <= to / STEADY_PART
}

/// Returns whether a miss ratio differs from another by more than chance, or a loop, explains.
fn is_off(expected: f64, missed: f64, reads: u64) -> bool {
    let chance = (missed * (1.0 - missed) / reads.max(1) as f64).sqrt();
    (missed - expected).abs() > SURPRISE + SURPRISE_BY_CHANCE * chance
}

/// The curve with sizes as much larger as chance makes those of a sample of keys wrong, so that a
/// pool that has what it needs is not brought to the very edge of a cliff.
fn with_margin(curve: &MissRatioCurve) -> Cow<'_, MissRatioCurve> {
    match curve.confidence() {
        Some(known) if known.keys > 0 => {
            let margin = (1.0 / (known.keys as f64).sqrt()).min(CLIFF_PART);
            Cow::Owned(curve.scaled(curve.unit(), 1.0 + margin))
        }
        _ => Cow::Borrowed(curve),
    }
}

fn power(memory: f64) -> i32 {
    (4.0 * memory.max(1.0).log2()).round() as i32
}

impl Measured {
    /// The measurements after `secs` more seconds, with these reads and misses, and this memory in
    /// bytes, at first and at last.
    #[must_use]
    pub fn after(&self, secs: f64, counts: (u64, u64), (from, to): (u64, u64)) -> Self {
        let memory = u64::midpoint(from, to);
        // What is missed while memory fills says nothing of a size.
        let is_steady = is_steady(from, to);
        let lately = if is_steady { self.lately.after(secs, counts, memory) } else { self.lately };
        let mut sizes = self.sizes.clone();
        sizes.iter_mut().for_each(|size| size.age_secs += secs);
        if counts.0 > 0 && is_steady {
            let power = power(memory as f64);
            let place = sizes.iter().position(|size| size.power == power).unwrap_or_else(|| {
                if sizes.len() == MOST_SIZES {
                    let oldest =
                        (0..sizes.len()).max_by(|&a, &b| sizes[a].age_secs.total_cmp(&sizes[b].age_secs));
                    sizes.swap_remove(oldest.unwrap_or(0));
                }
                sizes.push(AtSize { power, counts: Counts::default(), age_secs: 0.0 });
                sizes.len() - 1
            });
            let size = &mut sizes[place];
            // What was measured minutes ago with the same memory is forgotten as well.
            size.counts = size.counts.after(size.age_secs, counts, memory);
            size.age_secs = 0.0;
        }
        // In doubt for good, nothing would be tried any more.
        let off = self.off * (-secs / OFF_HALF_LIFE_SECS).exp2();
        let same_secs = if is_same(from, to) { self.same_secs + secs } else { 0.0 };
        Self { lately, sizes, settled_secs: self.settled_secs + secs, same_secs, is_due: self.is_due, off }
    }

    /// Compares what was predicted with what came. Returns whether the two differ by what only a
    /// change of the load explains, and then forgets what was measured with other memory.
    /// After that, nothing is a surprise for a minute.
    pub fn compare(&mut self, predicted: f64, missed: f64, reads: u64) -> bool {
        let is_surprised = is_off(predicted, missed, reads) && self.begin_anew();
        if !is_surprised {
            let distance = (missed - predicted).abs().min(SURPRISE);
            self.off += NEW_PART * (distance - self.off);
        }
        is_surprised
    }

    /// Compares what was missed with as much memory a round ago with what is missed now, of which
    /// no prediction is to tell. Returns the same as [`Self::compare`].
    pub fn compare_with_before(&mut self, before: f64, missed: f64, reads: u64) -> bool {
        self.same_secs >= SAME_SECS
            && (before - missed).abs() > CHANGED
            && is_off(before, missed, reads)
            && self.change()
    }

    /// Forgets what was measured with other memory, as the load has become another one. Returns
    /// false if that was so less than a minute ago: then it is due as soon as the minute is over.
    pub fn change(&mut self) -> bool {
        self.is_due = !self.begin_anew();
        !self.is_due
    }

    /// Does that if it became due.
    pub fn change_if_due(&mut self) -> bool {
        self.is_due && self.settled_secs >= SETTLED_SECS && self.change()
    }

    /// Forgets it, unless that was so less than a minute ago.
    fn begin_anew(&mut self) -> bool {
        let is_settled = self.settled_secs >= SETTLED_SECS;
        if is_settled {
            self.sizes.clear();
            self.settled_secs = 0.0;
            self.is_due = false;
        }
        is_settled
    }

    /// The mean distance of what was missed from what had been predicted, in misses per read.
    pub fn off(&self) -> f64 {
        self.off
    }

    /// The curve with its sizes scaled, if that alone explains what was measured last far off the
    /// curve: a cliff is a little elsewhere. By the difference of miss ratios there is none beyond.
    fn cliff_elsewhere(&self, curve: &MissRatioCurve) -> Option<MissRatioCurve> {
        let known = self.sizes.iter().map(|known| (known.age_secs, known.counts.offset(curve)));
        let mut far: Vec<(f64, (f64, f64))> =
            known.filter(|(_, (_, offset))| offset.abs() >= CLIFF).collect();
        far.sort_by(|a, b| a.0.total_cmp(&b.0));
        let explained = far.into_iter().find_map(|(_, (size, offset))| {
            let missed = curve.miss_ratio(size) + offset;
            let is_near = |miss_ratio: f64| (miss_ratio - missed).abs() <= offset.abs() / 4.0;
            // More was missed than by the curve: what it has for less memory.
            let part_at = |part: f64| if offset > 0.0 { 1.0 - part } else { 1.0 + part };
            let farthest = curve.miss_ratio(size * part_at(CLIFF_PART));
            let is_between = is_near(farthest) || (farthest > missed) == (offset > 0.0);
            let steps = (1..=CLIFF_STEPS).map(|step| f64::from(step) * CLIFF_PART / f64::from(CLIFF_STEPS));
            let mut parts = steps.map(part_at).filter(|_| is_between);
            let part = parts.find(|&part| is_near(curve.miss_ratio(size * part)))?;
            Some((size, curve.scaled(curve.unit(), 1.0 / part)))
        });
        // With more memory the cliff was not there either.
        let (size, scaled) = explained?;
        let mut others = self.sizes.iter().map(|known| known.counts.offset(&scaled));
        let is_refuted = others.any(|(other, offset)| other > size && offset >= CLIFF);
        (!is_refuted).then_some(scaled)
    }

    /// The curve through what was measured; as it is if nothing was read.
    pub fn correct(&self, curve: &MissRatioCurve) -> MissRatioCurve {
        if self.lately.reads < 1.0 {
            return curve.clone();
        }
        let safe = with_margin(curve);
        let moved = self.cliff_elsewhere(&safe);
        let curve = moved.as_ref().unwrap_or(&safe);
        let (present, offset) = self.lately.offset(curve);
        // What was measured elsewhere counts less with time, and the difference from here the more.
        let mut offsets: Vec<(f64, f64)> = self
            .sizes
            .iter()
            .filter(|size| size.power != power(present))
            .map(|size| {
                let (at, there) = size.counts.offset(curve);
                let reads = size.counts.reads;
                let weight =
                    (-size.age_secs / FORMER_HALF_LIFE_SECS).exp2() * reads / (reads + READS_FOR_HALF);
                (at, offset + weight * (there - offset))
            })
            .chain([(present, offset)])
            .collect();
        offsets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let offset_at = |size: f64| {
            let above = offsets.partition_point(|known| known.0 <= size);
            match (above.checked_sub(1).map(|at| offsets[at]), offsets.get(above)) {
                (Some(below), Some(above)) => {
                    below.1 + (above.1 - below.1) * (size - below.0) / (above.0 - below.0)
                }
                (Some(known), None) | (None, Some(&known)) => known.1,
                (None, None) => 0.0,
            }
        };
        // A straight line has a bend if it would leave the range of miss ratios.
        let bends = [1.0 - offset, -offset].map(|bound| curve.size_for(bound).filter(|_| bound < 1.0));
        let measured = offsets.iter().map(|known| known.0 as u64);
        let mut further: Vec<u64> = measured.chain(bends.into_iter().flatten()).chain([1]).collect();
        further.sort_unstable();
        curve.adjusted(&further, |size, missed| missed + offset_at(size))
    }
}

#[cfg(test)]
mod tests {
    use curve::{Confidence, Point, Unit};

    use super::*;

    fn curve() -> MissRatioCurve {
        MissRatioCurve::uniform(Unit::Bytes, 1 << 20)
    }

    /// Some minutes with this memory, of which this part is missed.
    fn with(measured: &Measured, memory: u64, missed: f64) -> Measured {
        let one = |measured: Measured, _| {
            measured.after(2.0, (10_000, (10_000.0 * missed) as u64), (memory, memory))
        };
        (0..60).fold(measured.clone(), one)
    }

    #[test]
    fn a_pool_keeps_a_margin_to_a_cliff_that_a_sample_shows() {
        let points = [(990, 1.0), (1_000, 0.0)].map(|(size, miss_ratio)| Point { size, miss_ratio });
        let known = Confidence { keys: 1_024, samples: 1e4, requests: 8e4, seen: 80_000, error: 0.0 };
        let curve = MissRatioCurve::new(Unit::Bytes, points).expect("it is one").with_confidence(known);
        let least = |missed: f64, memory: u64| {
            let measured = with(&Measured::default(), memory, missed);
            measured.correct(&curve).size_for(0.1).expect("there is one")
        };
        assert!((1_029..=1_031).contains(&least(1.0, 900)), "{}", least(1.0, 900));
        // With 1,010 it misses nothing.
        assert!((1_000..=1_010).contains(&least(0.0, 1_010)), "{}", least(0.0, 1_010));
    }

    /// A loop of 33 parts, by the curve of 32.
    #[test]
    fn a_cliff_that_is_a_little_elsewhere_is_still_there() {
        let part = 1 << 20;
        let points = [(part, 1.0), (32 * part - 1, 1.0), (32 * part, 0.0)];
        let points = points.map(|(size, miss_ratio)| Point { size, miss_ratio });
        let curve = MissRatioCurve::new(Unit::Bytes, points).expect("it is one");
        let measured = with(&with(&Measured::default(), 24 * part, 1.0), 65 * part / 2, 1.0);
        let corrected = measured.correct(&curve);
        let at = |parts: f64| corrected.miss_ratio(parts * part as f64);
        assert!(at(32.5) > 0.9 && at(34.0) < 0.1, "{} and {}", at(32.5), at(34.0));
        // If it is farther, nothing is known to be gained beyond.
        let farther = with(&measured, 40 * part, 1.0).correct(&curve);
        assert!(farther.miss_ratio(80.0 * part as f64) > 0.9);
        // And it may be nearer.
        let nearer = with(&Measured::default(), 30 * part, 0.0).correct(&curve);
        assert!(nearer.miss_ratio(30.0 * part as f64) < 0.1 && nearer.miss_ratio(26.0 * part as f64) > 0.9);
    }

    #[test]
    fn a_curve_has_the_level_of_what_is_missed_and_keeps_its_shape() {
        assert_eq!(Measured::default().correct(&curve()), curve());
        let measured = with(&Measured::default(), 1 << 19, 0.6);
        let level = measured.correct(&curve());
        let at = |part: f64| level.miss_ratio(part * f64::from(1 << 20));
        assert!((at(0.5) - 0.6).abs() < 1e-6);
        assert!((at(0.5) - at(0.7) - 0.2).abs() < 1e-6);
        assert!(at(0.0) == 1.0 && at(0.05) > 0.99999, "{}", at(0.05));
        // And it is forgotten.
        let later = with(&measured, 1 << 19, 0.5);
        assert!((later.correct(&curve()).miss_ratio(f64::from(1 << 19)) - 0.5).abs() < 0.01);
    }

    /// It lost five times as much as the curve had said when it gave half of its memory.
    #[test]
    fn what_a_pool_lost_by_giving_memory_is_known_afterwards() {
        let curve = MissRatioCurve::new(
            Unit::Bytes,
            [(1 << 18, 0.96), (1 << 19, 0.93), (1 << 20, 0.90)]
                .map(|(size, miss_ratio)| Point { size, miss_ratio }),
        );
        let curve = curve.expect("it is one");
        let measured = with(&with(&Measured::default(), 1 << 20, 0.5), 1 << 19, 0.65);
        let corrected = measured.correct(&curve);
        let gained = corrected.miss_ratio(f64::from(1 << 19)) - corrected.miss_ratio(f64::from(1 << 20));
        assert!((0.13..0.15).contains(&gained), "{gained} of 0.15");
        // Not beyond what was tried.
        let more = corrected.miss_ratio(f64::from(1 << 20)) - corrected.miss_ratio(f64::from(1 << 21));
        assert!(more.abs() < 1e-9, "{more}");
        // An hour later it is hardly believed.
        let later =
            (0..4).fold(measured.clone(), |later, _| later.after(900.0, (10_000, 6_500), (1 << 19, 1 << 19)));
        let corrected = later.correct(&curve);
        let gained = corrected.miss_ratio(f64::from(1 << 19)) - corrected.miss_ratio(f64::from(1 << 20));
        assert!((0.03..0.045).contains(&gained), "{gained}");
        let mut forgotten = measured;
        assert!(!forgotten.compare(0.65, 0.67, 10_000) && !forgotten.compare(0.6, 0.7, 100));
        assert!(forgotten.compare(0.65, 0.75, 10_000) && !forgotten.compare(0.65, 0.75, 10_000));
        // It is not lost that it was so again too soon, but for predictions.
        assert!(!forgotten.after(60.0, (0, 0), (1 << 19, 1 << 19)).change_if_due());
        assert!(!forgotten.compare_with_before(0.3, 0.5, 10_000) && !forgotten.change_if_due());
        let mut later = forgotten.after(60.0, (0, 0), (1 << 19, 1 << 19));
        assert!(later.change_if_due() && !later.change_if_due());
        let corrected = forgotten.correct(&curve);
        let gained = corrected.miss_ratio(f64::from(1 << 19)) - corrected.miss_ratio(f64::from(1 << 20));
        assert!((gained - 0.03).abs() < 1e-6, "{gained}");
    }
}
