//! How much weight lies at which distance: buckets that are exact for small distances and have a fixed relative width for large ones.

/// Weight by distance.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    /// Distances below `2^bits` have a bucket of their own; from there on each octave has `2^(bits-1)`.
    bits: u32,
    weights: Vec<f64>,
    /// Of what was never seen before.
    cold: f64,
    /// Of everything.
    total: f64,
}

impl Histogram {
    pub(crate) fn new(bits: u32) -> Self {
        Self { bits, weights: Vec::new(), cold: 0.0, total: 0.0 }
    }

    /// The number of the bucket of a distance.
    #[inline]
    pub(crate) fn bucket(bits: u32, distance: u64) -> usize {
        let width = (64 - distance.leading_zeros()).saturating_sub(bits);
        ((width as usize) << (bits - 1)) + (distance >> width) as usize
    }

    /// The largest distance of a bucket.
    pub(crate) fn last_of(bits: u32, bucket: usize) -> u64 {
        let half = 1_usize << (bits - 1);
        if bucket < 2 * half {
            return bucket as u64;
        }
        let width = bucket / half - 1;
        let first = (bucket % half + half) as u64;
        u64::try_from(((u128::from(first) + 1) << width) - 1).unwrap_or(u64::MAX)
    }

    /// Adds an access at a distance; `None` is one that hits in no cache.
    #[inline]
    pub(crate) fn add(&mut self, distance: Option<u64>, weight: f64) {
        self.total += weight;
        let Some(distance) = distance else {
            self.cold += weight;
            return;
        };
        let bucket = Self::bucket(self.bits, distance);
        if bucket >= self.weights.len() {
            self.weights.resize(bucket + 1, 0.0);
        }
        self.weights[bucket] += weight;
    }

    pub(crate) fn halve(&mut self) {
        self.weights.iter_mut().chain([&mut self.cold, &mut self.total]).for_each(|weight| *weight /= 2.0);
    }

    pub(crate) fn total(&self) -> f64 {
        self.total
    }

    /// Sizes, and the weight of all that misses in a cache of each: where a bucket with weight begins, and where it ends.
    pub(crate) fn misses(&self) -> Vec<(u64, f64)> {
        let mut left: f64 = self.weights.iter().sum::<f64>() + self.cold;
        let mut misses: Vec<(u64, f64)> = Vec::new();
        for (bucket, weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            // Up to the bucket nothing changes, however far it is from the last.
            let before = bucket.checked_sub(1).map_or(0, |before| Self::last_of(self.bits, before));
            if misses.last().is_none_or(|(size, _)| *size < before) {
                misses.push((before, left));
            }
            left = (left - weight).max(self.cold);
            misses.push((Self::last_of(self.bits, bucket), left));
        }
        misses
    }

    pub(crate) fn bytes(&self) -> usize {
        self.weights.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_lies_in_its_bucket_and_buckets_follow_each_other() {
        for bits in [1, 3, 7, 11] {
            let mut before = None;
            for bucket in 0..(20 << bits) {
                let last = Histogram::last_of(bits, bucket);
                assert_eq!(Histogram::bucket(bits, last), bucket, "{bits} bits");
                if let Some(before) = before {
                    assert_eq!(Histogram::bucket(bits, before + 1), bucket, "{bits} bits");
                }
                before = Some(last);
            }
        }
        assert_eq!(Histogram::last_of(7, Histogram::bucket(7, u64::MAX)), u64::MAX);
    }
}
