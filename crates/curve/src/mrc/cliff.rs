//! Performance cliffs: ranges of sizes where the curve lies well above its hull (Cliffhanger, NSDI
//! 2016, section 3.5).
//!
//! Within a cliff, a little more memory saves next to nothing, and enough more saves a lot. A
//! policy that follows only the slope stops there.

use serde::Serialize;

use super::MissRatioCurve;

/// A range of sizes over which the hull is a straight line below the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cliff {
    /// The size at which the curve leaves its hull.
    pub from: u64,
    /// The size at which the curve meets its hull again.
    pub to: u64,
    /// The size in between at which the curve lies highest above its hull.
    pub at: u64,
    /// The height of the curve above its hull there, in misses per request: the savings from
    /// splitting the keys between two partitions.
    pub depth: f64,
}

impl MissRatioCurve {
    /// The cliffs that are at least `depth` deep, in misses per request, by size. Noise of an
    /// estimate causes shallow cliffs: 0.02 is a good minimum depth for sampled curves.
    pub fn cliffs(&self, depth: f64) -> Vec<Cliff> {
        let hull = self.hull();
        let cliffs = hull.points.windows(2).filter_map(|ends| {
            let (from, to) = (ends[0].size, ends[1].size);
            let within = self.points.iter().filter(|point| from < point.size && point.size < to);
            let above =
                within.map(|point| (point.size, point.miss_ratio - hull.miss_ratio(point.size as f64)));
            let (at, most) = above.max_by(|a, b| a.1.total_cmp(&b.1))?;
            (most >= depth).then_some(Cliff { from, to, at, depth: most })
        });
        cliffs.collect()
    }
}
