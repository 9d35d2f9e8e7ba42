//! Requests with a known miss-ratio curve: each is for the key at a stack distance that is drawn
//! from a given distribution.
//!
//! The stack distance of a request is the number of different keys requested since the last request
//! for its key, that key included; LRU hits it if it has room for at least that many (Mattson et
//! al., IBM Systems Journal 1970). So the curve of the requests is that of the distribution,
//! whatever shape one likes, cliffs included.

use base::rng::{RngExt, SeededRng, seeded};
use curve::{MissRatioCurve, Point, Unit};

/// The distribution of distances over their range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Density {
    /// Falling, as the inverse of the root: the hit-rate curve is concave there, as of popular
    /// keys.
    Falling,
    /// Evenly: the hit-rate curve is straight there.
    Even,
    /// Rising from 0 in a straight line: the hit-rate curve is convex there, as on a cliff.
    Rising,
}

/// A part of the requests, whose distances are in one range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Its share of all requests.
    pub share: f64,
    /// Distances above this.
    pub above: u64,
    /// Distances up to this.
    pub upto: u64,
    /// Distribution of the distances.
    pub density: Density,
}

/// A distribution of stack distances. The requests that no range covers are for new keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    ranges: Vec<Range>,
}

impl Profile {
    /// Distances in these ranges.
    ///
    /// # Panics
    /// If a range is empty, or shares are negative or add up to more than 1.
    pub fn new(ranges: impl IntoIterator<Item = Range>) -> Self {
        let ranges: Vec<Range> = ranges.into_iter().collect();
        assert!(ranges.iter().all(|range| range.above < range.upto && range.share >= 0.0));
        assert!(ranges.iter().map(|range| range.share).sum::<f64>() <= 1.0 + 1e-9);
        Self { ranges }
    }

    /// One cliff: 35 % of the requests at distances up to 2,000 with falling density, 45 % from
    /// there to 13,500 with rising density, 20 % new. LRU of 8,000 items hits 47.3 %, on a hull of
    /// 58.5 %: the ends and the size of the example in Cliffhanger (NSDI '16, section 4.2).
    pub fn one_cliff() -> Self {
        Self::new([
            Range { share: 0.35, above: 0, upto: 2000, density: Density::Falling },
            Range { share: 0.45, above: 2000, upto: 13_500, density: Density::Rising },
        ])
    }

    /// Hits per request of LRU with room for `size` keys.
    pub fn hit_ratio(&self, size: f64) -> f64 {
        let part = |range: &Range| {
            let width = (range.upto - range.above) as f64;
            let within = ((size - range.above as f64) / width).clamp(0.0, 1.0);
            match range.density {
                Density::Falling => range.share * within.sqrt(),
                Density::Even => range.share * within,
                Density::Rising => range.share * within * within,
            }
        };
        self.ranges.iter().map(part).sum()
    }

    /// The largest distance.
    pub fn depth(&self) -> u64 {
        self.ranges.iter().map(|range| range.upto).max().unwrap_or(0)
    }

    /// The curve of LRU, with `points` points up to the largest distance.
    pub fn curve(&self, points: u64) -> MissRatioCurve {
        let sizes = (1..=points).map(|i| self.depth() * i / points);
        let points = sizes.map(|size| Point { size, miss_ratio: 1.0 - self.hit_ratio(size as f64) });
        MissRatioCurve::new(Unit::Items, points).expect("sizes rise, and hit ratios are between 0 and 1")
    }

    /// Requests with these distances, without end.
    pub fn requests(&self, seed: u64) -> Requests {
        Requests {
            profile: self.clone(),
            stack: Stack::new(self.depth() as usize),
            rng: seeded(seed),
            new: 0,
        }
    }

    fn draw(&self, rng: &mut SeededRng) -> Option<u64> {
        let mut at: f64 = rng.random();
        for range in &self.ranges {
            if at < range.share {
                let within: f64 = rng.random();
                let within = match range.density {
                    Density::Falling => within * within,
                    Density::Even => within,
                    Density::Rising => within.sqrt(),
                };
                return Some(range.above + 1 + (within * (range.upto - range.above) as f64) as u64);
            }
            at -= range.share;
        }
        None
    }
}

/// Requested keys, one after another, each a number from 1 on.
#[derive(Clone, Debug)]
pub struct Requests {
    profile: Profile,
    stack: Stack,
    rng: SeededRng,
    new: u64,
}

impl Iterator for Requests {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let known = self.profile.draw(&mut self.rng).and_then(|distance| self.stack.take(distance as usize));
        let key = known.unwrap_or_else(|| {
            self.new += 1;
            self.new
        });
        self.stack.push(key);
        Some(key)
    }
}

/// Keys in the order of their last use, with access by place: a Fenwick tree over slots in the
/// order of time.
#[derive(Clone, Debug)]
struct Stack {
    depth: usize,
    /// Keys by slot, the newest last; 0 = empty.
    slots: Vec<u64>,
    /// Fenwick tree of how many slots are taken; from 1 on.
    sums: Vec<u32>,
    next: usize,
    len: usize,
}

impl Stack {
    fn new(depth: usize) -> Self {
        let slots = (4 * depth.max(1)).next_power_of_two();
        Self { depth, slots: vec![0; slots], sums: vec![0; slots + 1], next: 0, len: 0 }
    }

    /// Takes out the key at `distance` from the top, if the stack is that deep: 1 = the newest.
    fn take(&mut self, distance: usize) -> Option<u64> {
        if distance > self.len {
            return None;
        }
        // The slot of the (len - distance)th key from the oldest, by descent.
        let mut left = (self.len - distance) as u32;
        let (mut slot, mut step) = (0, self.slots.len());
        while step > 0 {
            if slot + step < self.sums.len() && self.sums[slot + step] <= left {
                slot += step;
                left -= self.sums[slot];
            }
            step /= 2;
        }
        let key = std::mem::take(&mut self.slots[slot]);
        self.add(slot, u32::MAX);
        self.len -= 1;
        Some(key)
    }

    fn push(&mut self, key: u64) {
        if self.next == self.slots.len() {
            self.compact();
        }
        self.slots[self.next] = key;
        self.add(self.next, 1);
        self.next += 1;
        self.len += 1;
    }

    /// Adds 1, or -1 as `u32::MAX`, at a slot.
    fn add(&mut self, slot: usize, by: u32) {
        let mut at = slot + 1;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Keeps the keys down to the depth, in the first slots.
    fn compact(&mut self) {
        let mut keys: Vec<u64> = self.slots.iter().copied().filter(|key| *key != 0).collect();
        keys.drain(..keys.len().saturating_sub(self.depth));
        self.slots.fill(0);
        self.sums.fill(0);
        (self.next, self.len) = (0, 0);
        for key in keys {
            self.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_cliff_has_the_known_ratios() {
        let profile = Profile::one_cliff();
        assert!((profile.hit_ratio(8000.0) - 0.4725).abs() < 1e-3);
        let hull = profile.curve(13_500 / 50).hull();
        assert!((1.0 - hull.miss_ratio(8000.0) - 0.585).abs() < 1e-3);
        assert!((profile.hit_ratio(1e6) - 0.8).abs() < 1e-12);
    }

    /// Against a plain list: the keys come at the distances that were drawn.
    #[test]
    fn requests_have_the_distances_that_were_drawn() {
        let profile = Profile::new([
            Range { share: 0.5, above: 0, upto: 10, density: Density::Even },
            Range { share: 0.3, above: 20, upto: 60, density: Density::Rising },
        ]);
        let mut list: Vec<u64> = Vec::new();
        let (mut near, mut far, mut new) = (0, 0, 0);
        let mut sum_far = 0;
        for key in profile.requests(5).take(30_000).collect::<Vec<_>>() {
            match list.iter().rev().position(|known| *known == key) {
                Some(place) => {
                    list.remove(list.len() - 1 - place);
                    match place + 1 {
                        1..=10 => near += 1,
                        21..=60 => (far, sum_far) = (far + 1, sum_far + place + 1),
                        other => panic!("distance {other}"),
                    }
                }
                None => new += 1,
            }
            list.push(key);
        }
        assert!((14_500..15_500).contains(&near), "{near} at small distances");
        assert!((8_600..9_400).contains(&far), "{far} at large ones");
        assert!((5_500..6_500).contains(&new), "{new} new");
        // Rising density from 20 to 60 has its mean at 20 + 40 * 2 / 3.
        assert!((sum_far as f64 / f64::from(far) - 46.7).abs() < 1.0);
    }
}
