//! The weight at each distance, in buckets that are exact for small distances and have a fixed
//! relative width for large ones.
//!
//! A bucket records its least and its greatest distance. So a loop, whose distances are all equal,
//! has its cliff at that distance and not at the end of the bucket: a cache that just holds the
//! loop hits every time, and the curve must not say that it misses every time.

/// The weight of the distances in a range.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    weight: f64,
    /// The least and the greatest distance that was added, from the beginning of the bucket on, in
    /// units of 2^[`unit`](Self::unit).
    least: u32,
    greatest: u32,
}

impl Bucket {
    const EMPTY: Self = Self { weight: 0.0, least: Self::OLD, greatest: Self::OLD };
    /// Set in both if they are older than the last ageing: the next added distance then replaces
    /// them.
    const OLD: u32 = 1 << 31;

    /// Buckets of more than 2^31 distances distinguish 2^31 of them.
    #[inline]
    fn unit(width: u32) -> u32 {
        width.saturating_sub(31)
    }

    #[inline]
    fn add(&mut self, offset: u32, weight: f64) {
        self.weight += weight;
        if self.least >= Self::OLD {
            (self.least, self.greatest) = (offset, offset);
        } else {
            (self.least, self.greatest) = (self.least.min(offset), self.greatest.max(offset));
        }
    }

    fn halve(&mut self) {
        self.weight /= 2.0;
        self.least |= Self::OLD;
        self.greatest |= Self::OLD;
    }

    /// The least and the greatest distance, of a bucket with weight that begins at `first`.
    fn ends(&self, first: u64, width: u32) -> (u64, u64) {
        let unit = Self::unit(width);
        let at = |offset: u32| first + (u64::from(offset & !Self::OLD) << unit);
        // A unit covers several distances, of which the greatest counts.
        (at(self.least), at(self.greatest) + ((1 << unit) - 1))
    }
}

/// The width of the bucket of this distance, which has `2^width` distances.
#[inline]
fn width<const BITS: u32>(distance: u64) -> u32 {
    // The bit keeps the width from becoming negative.
    (distance | 1 << (BITS - 1)).ilog2() - (BITS - 1)
}

/// The number of the bucket of a distance. Distances below `2^BITS` have a bucket of their own;
/// from there on each octave has `2^(BITS-1)`.
#[inline]
pub(crate) fn bucket<const BITS: u32>(distance: u64) -> usize {
    let width = width::<BITS>(distance);
    ((width as usize) << (BITS - 1)) + (distance >> width) as usize
}

/// The first distance of a bucket, and the number of its distances, as a power of two.
fn range<const BITS: u32>(bucket: usize) -> (u64, u32) {
    let half = 1_usize << (BITS - 1);
    if bucket < 2 * half {
        return (bucket as u64, 0);
    }
    let width = bucket / half - 1;
    (((bucket % half + half) as u64) << width, width as u32)
}

/// The largest distance of a bucket.
pub(crate) fn last_of<const BITS: u32>(bucket: usize) -> u64 {
    let (first, width) = range::<BITS>(bucket);
    first + ((1 << width) - 1)
}

/// Weight by distance, in buckets as [`bucket`] numbers them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram<const BITS: u32> {
    buckets: Vec<Bucket>,
    /// The weight of first accesses to keys.
    cold: f64,
}

impl<const BITS: u32> Histogram<BITS> {
    /// Adds an access at a distance; `None` is an access that hits in no cache. Returns its bucket.
    #[inline]
    pub(crate) fn add(&mut self, distance: Option<u64>, weight: f64) -> Option<usize> {
        let Some(distance) = distance else {
            self.cold += weight;
            return None;
        };
        let width = width::<BITS>(distance);
        let number = bucket::<BITS>(distance);
        let offset = ((distance & ((1 << width) - 1)) >> Bucket::unit(width)) as u32;
        if number >= self.buckets.len() {
            self.widen(number);
        }
        self.buckets[number].add(offset, weight);
        Some(number)
    }

    #[cold]
    #[inline(never)]
    fn widen(&mut self, number: usize) {
        // It seldom grows, and what a vector has in reserve would be half of a small curve.
        self.buckets.reserve_exact(number + 1 - self.buckets.len());
        self.buckets.resize(number + 1, Bucket::EMPTY);
    }

    pub(crate) fn halve(&mut self) {
        self.buckets.iter_mut().for_each(Bucket::halve);
        self.cold /= 2.0;
    }

    /// The total weight.
    pub(crate) fn total(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.weight).sum::<f64>() + self.cold
    }

    /// Sizes, with the weight of the misses in a cache of each: for each bucket with weight, just
    /// before its least distance and at its greatest. Within a bucket the weight is assumed to be
    /// spread evenly.
    pub(crate) fn misses(&self) -> Vec<(u64, f64)> {
        let mut left = self.total();
        let mut misses: Vec<(u64, f64)> = Vec::new();
        for (number, bucket) in self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.weight > 0.0) {
            let (first, width) = range::<BITS>(number);
            let (least, greatest) = bucket.ends(first, width);
            // Up to the least distance the misses do not change, however far it is from the
            // previous point.
            let before = least.saturating_sub(1);
            if misses.last().is_none_or(|(size, _)| *size < before) {
                misses.push((before, left));
            }
            left = (left - bucket.weight).max(self.cold);
            misses.push((greatest, left));
        }
        misses
    }

    /// Memory for the distances of an octave.
    pub(crate) fn bytes_per_octave() -> usize {
        size_of::<Bucket>() << (BITS - 1)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const BITS: u32>() {
        let mut before = None;
        for number in 0..(20 << BITS) {
            let last = last_of::<BITS>(number);
            assert_eq!(bucket::<BITS>(last), number, "{BITS} bits");
            if let Some(before) = before {
                assert_eq!(bucket::<BITS>(before + 1), number, "{BITS} bits");
            }
            before = Some(last);
        }
    }

    #[test]
    fn every_distance_lies_in_its_bucket_and_buckets_follow_each_other() {
        check::<1>();
        check::<3>();
        check::<7>();
        check::<11>();
        assert_eq!(last_of::<7>(bucket::<7>(u64::MAX)), u64::MAX);
    }

    #[test]
    fn a_cliff_is_where_the_distances_are_and_not_where_a_bucket_ends() {
        for distance in [1, 127, 128, 8 << 20, (8 << 20) - 4096, 1_000_000_007, u64::MAX / 3] {
            let mut histogram = Histogram::<7>::default();
            for _ in 0..10 {
                histogram.add(Some(distance), 1.0);
            }
            let misses = histogram.misses();
            let unit = 1_u64 << Bucket::unit(width::<7>(distance));
            let ends = misses[0].0 + 1..=misses[1].0;
            assert!(ends.contains(&distance) && ends.end() - ends.start() < unit, "{distance}: {misses:?}");
            assert_eq!([misses[0].1, misses[1].1], [10.0, 0.0]);
        }
    }

    #[test]
    fn where_distances_were_before_the_last_ageing_is_forgotten_with_the_next_one() {
        let mut histogram = Histogram::<3>::default();
        histogram.add(Some(1_200), 4.0);
        histogram.halve();
        assert_eq!(histogram.misses(), [(1_199, 2.0), (1_200, 0.0)], "until another comes");
        histogram.add(Some(1_100), 1.0);
        assert_eq!(histogram.misses(), [(1_099, 3.0), (1_100, 0.0)]);
    }

    #[test]
    fn distances_of_one_bucket_are_spread_between_the_least_and_the_greatest() {
        let mut histogram = Histogram::<3>::default();
        for distance in [1_030, 1_100, 1_200] {
            histogram.add(Some(distance), 1.0);
        }
        histogram.add(None, 1.0);
        assert_eq!(histogram.misses(), [(1_029, 4.0), (1_200, 1.0)]);
    }
}
