//! A pool's curve, corrected by the misses that the pool had in fact, lately and with other
//! memory.
//!
//! A curve that is learnt from a sample of keys can be off. Its level counts what was missed while
//! the pool filled, and hot keys may be in the sample or not. Its shape is that of one queue, and a
//! pool whose size classes favour small items loses more by giving memory than such a queue does.
//! So a pool's own counts come first: at the size that it has, and at sizes that it had, of which
//! each counts less as time goes by. Between these sizes the curve has its shape, and goes through
//! what was measured.

use curve::{MissRatioCurve, Point};

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
/// The difference from a prediction that is a surprise, beyond this many times what chance
/// explains; and the time after one in which there is no other.
const SURPRISE: f64 = 0.03;
const SURPRISE_BY_CHANCE: f64 = 6.0;
const SETTLED_SECS: f64 = 60.0;
/// The weight of a new prediction in the mean of how far they were off, and the time in which half
/// of that mean is forgotten, in seconds.
const NEW_PART: f64 = 0.25;
const OFF_HALF_LIFE_SECS: f64 = 120.0;
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
    /// The mean distance of what was missed from what had been predicted.
    off: f64,
}

/// Returns whether a pool that had this much memory and then that has about one size.
pub fn is_steady(from: u64, to: u64) -> bool {
    from.abs_diff(to) <= to / STEADY_PART
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
        Self { lately, sizes, settled_secs: self.settled_secs + secs, off }
    }

    /// Compares what was predicted with what came. Returns whether the two differ by what only a
    /// change of the load explains, and then forgets what was measured with other memory.
    /// After that, nothing is a surprise for a minute.
    pub fn compare(&mut self, predicted: f64, missed: f64, reads: u64) -> bool {
        let chance = (missed * (1.0 - missed) / reads.max(1) as f64).sqrt();
        let is_off = (missed - predicted).abs() > SURPRISE + SURPRISE_BY_CHANCE * chance;
        let is_surprised = is_off && self.settled_secs >= SETTLED_SECS;
        if is_surprised {
            self.sizes.clear();
            self.settled_secs = 0.0;
        } else {
            let distance = (missed - predicted).abs().min(SURPRISE);
            self.off += NEW_PART * (distance - self.off);
        }
        is_surprised
    }

    /// The mean distance of what was missed from what had been predicted, in misses per read.
    pub fn off(&self) -> f64 {
        self.off
    }

    /// The curve through what was measured; as it is if nothing was read.
    pub fn correct(&self, curve: &MissRatioCurve) -> MissRatioCurve {
        if self.lately.reads < 1.0 {
            return curve.clone();
        }
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
        let own = curve.points().iter().map(|point| point.size);
        let measured = offsets.iter().map(|known| known.0 as u64);
        let mut sizes: Vec<u64> = own.chain(measured).chain(bends.into_iter().flatten()).chain([1]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut near = 0;
        let points = sizes.into_iter().filter(|&size| size > 0).map(|size| {
            let (missed, at) = curve.miss_ratio_near(size as f64, near);
            near = at;
            Point { size, miss_ratio: (missed + offset_at(size as f64)).clamp(0.0, 1.0) }
        });
        let points = [curve.points()[0]].into_iter().chain(points);
        match (MissRatioCurve::new(curve.unit(), points), curve.confidence()) {
            (Ok(corrected), Some(known)) => corrected.with_confidence(known),
            (Ok(corrected), None) => corrected,
            (Err(_), _) => curve.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use curve::Unit;

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
        let corrected = forgotten.correct(&curve);
        let gained = corrected.miss_ratio(f64::from(1 << 19)) - corrected.miss_ratio(f64::from(1 << 20));
        assert!((gained - 0.03).abs() < 1e-6, "{gained}");
    }
}
