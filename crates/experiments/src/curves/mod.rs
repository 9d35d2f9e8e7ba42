//! Experiments on the accuracy of miss-ratio curves that are learnt from a stream of requests.

mod answers;
mod ghost;
mod policies;
mod shards;
mod told;

use curve::MissRatioCurve;

use super::Experiment;

/// The experiments of this family.
pub const EXPERIMENTS: &[Experiment] = &[ghost::H12, shards::P7, told::X40, answers::X41, policies::X42];

/// The distances between two curves at these sizes: their mean, and the largest.
fn errors(exact: &MissRatioCurve, estimated: &MissRatioCurve, sizes: &[u64]) -> (f64, f64) {
    let off = |size: &u64| (exact.miss_ratio(*size as f64) - estimated.miss_ratio(*size as f64)).abs();
    let (sum, most) =
        sizes.iter().map(off).fold((0.0, 0.0_f64), |(sum, most), off| (sum + off, most.max(off)));
    (sum / sizes.len() as f64, most)
}

/// The points of a curve that are within `most`, for a chart.
fn points(curve: &MissRatioCurve, most: u64) -> Vec<(f64, f64)> {
    let points = curve.thinned(200);
    let within = points.points().iter().filter(|point| point.size <= most);
    within.map(|point| (point.size as f64, point.miss_ratio)).collect()
}
