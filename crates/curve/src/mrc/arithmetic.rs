//! Operations on curves: scaling, ageing, merging and thinning.

use super::{Confidence, CurveError, MissRatioCurve, Point, Unit};
use crate::MonotoneCubic;

impl MissRatioCurve {
    /// The curve of a cache whose keys take `factor` times the room: the miss ratio at a size moves
    /// to `factor` times that size. Converts items into bytes, given the bytes per item, and a
    /// shard's curve into that of all shards together.
    ///
    /// # Panics
    /// If `factor` is not a positive number.
    #[must_use]
    pub fn scaled(&self, unit: Unit, factor: f64) -> Self {
        assert!(
            factor > 0.0 && factor.is_finite(),
            "a curve is scaled by a positive number, not by {factor}"
        );
        let mut points: Vec<Point> = Vec::with_capacity(self.points.len());
        for point in &self.points {
            let size = (point.size as f64 * factor).round() as u64;
            match points.last_mut() {
                Some(last) if last.size >= size => last.miss_ratio = point.miss_ratio,
                _ => points.push(Point { size, ..*point }),
            }
        }
        Self { unit, points, confidence: self.confidence }
    }

    /// The same curve with each size replaced by `size_of` of it, which must not fall as sizes
    /// rise.
    #[must_use]
    pub fn resized(&self, size_of: impl Fn(u64) -> u64) -> Self {
        let mut points: Vec<Point> = Vec::with_capacity(self.points.len());
        for point in &self.points {
            let size = if point.size == 0 { 0 } else { size_of(point.size) };
            match points.last_mut() {
                Some(last) if last.size >= size => last.miss_ratio = point.miss_ratio,
                _ => points.push(Point { size, ..*point }),
            }
        }
        Self { unit: self.unit, points, confidence: self.confidence }
    }

    /// The same curve with each miss ratio replaced by `missed` of its size and itself, but for
    /// that of size 0. The sizes of `further`, which rise, get points of their own. Results above 1
    /// or below 0 count as these, and one that exceeds that of a smaller size counts as that.
    #[must_use]
    pub fn adjusted(&self, further: &[u64], missed: impl Fn(f64, f64) -> f64) -> Self {
        let mut points = Vec::with_capacity(self.points.len() + further.len());
        let (mut least, mut last) = (self.points[0].miss_ratio, 0);
        points.push(self.points[0]);
        let mut add = |size: u64, before: f64| {
            if size > last {
                least = missed(size as f64, before).clamp(0.0, least);
                points.push(Point { size, miss_ratio: least });
                last = size;
            }
        };
        let mut further = further.iter().copied().peekable();
        for pair in self.points.windows(2) {
            let (left, right) = (pair[0], pair[1]);
            while let Some(size) = further.next_if(|&size| size < right.size) {
                let share = size.saturating_sub(left.size) as f64 / (right.size - left.size) as f64;
                add(size, left.miss_ratio + share * (right.miss_ratio - left.miss_ratio));
            }
            add(right.size, right.miss_ratio);
        }
        let end = self.points[self.points.len() - 1].miss_ratio;
        further.for_each(|size| add(size, end));
        Self { points, ..*self }
    }

    /// The smallest size with at most this `miss_ratio`; `None` if there is no such size.
    pub fn size_for(&self, miss_ratio: f64) -> Option<u64> {
        let after = self.points.partition_point(|point| point.miss_ratio > miss_ratio);
        let right = self.points.get(after)?;
        let Some(left) = after.checked_sub(1).map(|i| self.points[i]) else { return Some(right.size) };
        let share = (left.miss_ratio - miss_ratio) / (left.miss_ratio - right.miss_ratio);
        Some(left.size + ((right.size - left.size) as f64 * share).ceil() as u64)
    }

    /// The same curve, with the weight of its observations multiplied by `factor`, from 0 to 1. Its
    /// miss ratios do not change, only its weight in a merge.
    #[must_use]
    pub fn aged(&self, factor: f64) -> Self {
        let aged = |confidence: Confidence| Confidence {
            samples: confidence.samples * factor,
            requests: confidence.requests * factor,
            ..confidence
        };
        Self { confidence: self.confidence.map(aged), ..self.clone() }
    }

    /// The weighted mean of curves: the miss ratio of requests that go to one of several caches of
    /// the same size. Weights are request rates, or the requests of [`Confidence`]. A curve of
    /// weight 0 changes nothing.
    ///
    /// ```
    /// use millpond_curve::{MissRatioCurve, Unit};
    ///
    /// let (few, many) =
    ///     (MissRatioCurve::uniform(Unit::Bytes, 100), MissRatioCurve::uniform(Unit::Bytes, 400));
    /// let both = MissRatioCurve::merge([(&few, 3.0), (&many, 1.0)])?;
    /// assert_eq!(both.miss_ratio(100.0), 0.25 * 0.75);
    /// # Ok::<(), millpond_curve::CurveError>(())
    /// ```
    ///
    /// # Errors
    /// If there is no curve of positive weight, or units differ.
    pub fn merge<'a>(curves: impl IntoIterator<Item = (&'a Self, f64)>) -> Result<Self, CurveError> {
        let curves: Vec<_> =
            curves.into_iter().filter(|(_, weight)| *weight > 0.0 && weight.is_finite()).collect();
        let Some(&(first, _)) = curves.first() else {
            return Err(CurveError::Empty);
        };
        if curves.iter().any(|(curve, _)| curve.unit != first.unit) {
            return Err(CurveError::Units);
        }
        let total: f64 = curves.iter().map(|(_, weight)| weight).sum();
        let mut sizes: Vec<u64> =
            curves.iter().flat_map(|(curve, _)| &curve.points).map(|point| point.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let points = sizes.into_iter().map(|size| {
            let sum: f64 = curves.iter().map(|(curve, weight)| weight * curve.miss_ratio(size as f64)).sum();
            Point { size, miss_ratio: (sum / total).clamp(0.0, 1.0) }
        });
        let merged = Self::new(first.unit, points)?;
        let parts: Option<Vec<_>> = curves
            .iter()
            .map(|(curve, weight)| curve.confidence.map(|known| (known, weight / total)))
            .collect();
        Ok(Self { confidence: parts.map(|parts| joined(&parts)), ..merged })
    }

    /// The same curve with smooth interpolation between its points, which never rises either.
    pub fn smooth(&self) -> MonotoneCubic {
        MonotoneCubic::new(self.points.iter().map(|point| (point.size as f64, point.miss_ratio)))
    }

    /// A curve of at most `points` points, at least 2, that approximates this one: the omitted
    /// point that lies farthest from the line between its neighbours is added until there are
    /// enough. Costs `O(n log n)` on most curves.
    ///
    /// # Panics
    /// If fewer than 2 points are asked for.
    #[must_use]
    pub fn thinned(&self, points: usize) -> Self {
        assert!(points >= 2, "a curve of {points} points says nothing");
        if self.points.len() <= points {
            return self.clone();
        }
        let mut kept = vec![0, self.points.len() - 1];
        let mut spans = std::collections::BinaryHeap::new();
        spans.extend(self.farthest(0, self.points.len() - 1));
        while kept.len() < points
            && let Some(span) = spans.pop()
        {
            kept.push(span.at);
            spans.extend(self.farthest(span.from, span.at));
            spans.extend(self.farthest(span.at, span.to));
        }
        kept.sort_unstable();
        Self { points: kept.into_iter().map(|at| self.points[at]).collect(), ..self.clone() }
    }

    /// The point between two others that lies farthest from the line between them.
    fn farthest(&self, from: usize, to: usize) -> Option<Span> {
        let (a, b) = (self.points[from], self.points[to]);
        let slope = (b.miss_ratio - a.miss_ratio) / (b.size - a.size) as f64;
        let off = |at: usize| {
            let point = self.points[at];
            (point.miss_ratio - a.miss_ratio - slope * (point.size - a.size) as f64).abs()
        };
        let at = (from + 1..to).max_by(|&a, &b| off(a).total_cmp(&off(b)))?;
        Some(Span { off: off(at), at, from, to })
    }
}

/// The confidence of a merge of curves, given their shares of the whole.
fn joined(parts: &[(Confidence, f64)]) -> Confidence {
    let sum = |field: fn(&Confidence) -> f64| parts.iter().map(|(part, _)| field(part)).sum::<f64>();
    Confidence {
        keys: parts.iter().map(|(part, _)| part.keys).sum(),
        samples: sum(|part| part.samples),
        requests: sum(|part| part.requests),
        seen: parts.iter().map(|(part, _)| part.seen).sum(),
        // The errors of different samples are independent.
        error: parts.iter().map(|(part, share)| (part.error * share).powi(2)).sum::<f64>().sqrt(),
    }
}

/// A stretch between two kept points, and the point within it that lies farthest from the line.
struct Span {
    off: f64,
    at: usize,
    from: usize,
    to: usize,
}

impl Ord for Span {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.off.total_cmp(&other.off).then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Span {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Span {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Span {}
