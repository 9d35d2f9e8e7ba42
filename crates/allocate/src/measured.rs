//! The level of a pool's curve, by the misses that the pool had lately.
//!
//! A curve that is learnt from a sample of keys tells what more memory saves better than what is
//! missed with the present memory, which the pool itself counts: keys that many ask for may be in
//! the sample or not, and what was missed while the pool filled counts for minutes. A policy that
//! divides by the miss ratio, as one that goes by throughput or promises does, needs the level too.

use curve::MissRatioCurve;

/// The time in which half of what was measured is forgotten, in seconds: long enough for some ten
/// thousand misses of a busy pool, whose mean is then off by less than a hundredth.
const HALF_LIFE_SECS: f64 = 20.0;

/// The reads of a pool lately, the misses among them, and the memory that it had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    reads: f64,
    misses: f64,
    /// The sum of the memory at each read, in bytes.
    memory: f64,
}

impl Measured {
    /// The measurements after `secs` more seconds, with these reads and misses, and this memory in
    /// bytes.
    #[must_use]
    pub fn after(self, secs: f64, (reads, misses): (u64, u64), memory: u64) -> Self {
        let left = (-secs / HALF_LIFE_SECS).exp2();
        Self {
            reads: self.reads * left + reads as f64,
            misses: self.misses * left + misses as f64,
            memory: self.memory * left + reads as f64 * memory as f64,
        }
    }

    /// The curve, lifted or lowered to what was missed; as it is if nothing was read.
    pub fn level(&self, curve: &MissRatioCurve) -> MissRatioCurve {
        if self.reads < 1.0 {
            return curve.clone();
        }
        let missed = self.misses / self.reads;
        curve.lifted(missed - curve.miss_ratio(self.memory / self.reads))
    }
}

#[cfg(test)]
mod tests {
    use curve::Unit;

    use super::*;

    #[test]
    fn a_curve_has_the_level_of_what_is_missed_and_keeps_its_shape() {
        let curve = MissRatioCurve::uniform(Unit::Bytes, 1_000);
        assert_eq!(Measured::default().level(&curve), curve);
        let mut measured = Measured::default();
        for _ in 0..10 {
            measured = measured.after(2.0, (1_000, 600), 500);
        }
        let level = measured.level(&curve);
        assert!((level.miss_ratio(500.0) - 0.6).abs() < 1e-9);
        assert!((level.miss_ratio(500.0) - level.miss_ratio(700.0) - 0.2).abs() < 1e-9);
        assert_eq!(level.miss_ratio(0.0), 1.0);
        // What was measured with more memory says as much.
        let grown = measured.after(2.0, (1_000, 400), 700);
        assert!((grown.level(&curve).miss_ratio(500.0) - 0.6).abs() < 1e-9);
        // And it is forgotten.
        let later = (0..30).fold(measured, |measured, _| measured.after(10.0, (1_000, 500), 500));
        assert!((later.level(&curve).miss_ratio(500.0) - 0.5).abs() < 1e-3);
    }
}
