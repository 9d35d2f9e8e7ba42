//! A curve as a table, as points and as a chart.

use std::fmt;
use std::path::Path;

use base::ByteSize;
use curve::{Cliff, Estimator, MissRatioCurve, Unit};
use serde::Serialize;

use super::{Answer, CurveOptions, Method, Unsized, Writes};
use crate::engine_memory::EngineMemory;
use crate::plot::{Axis, Chart, Mark, Series, Stroke};

/// Cliffs of less depth are noise.
const LEAST_DEPTH: f64 = 0.02;
/// Points of a curve in reports and pictures.
const POINTS: usize = 256;

/// The curve of a trace, and what is to be said of it.
#[derive(Clone, Debug, Serialize)]
pub struct CurveReport {
    /// The trace.
    pub trace: String,
    /// The policy that the curve is for.
    pub policy: String,
    /// Method by which it was learnt.
    pub method: Method,
    /// The treatment of writes.
    pub writes: Writes,
    /// Requests that were counted.
    pub requests: u64,
    /// Time that reading and learning took.
    pub seconds: f64,
    /// Memory of the estimator at the end, in bytes.
    pub estimator_bytes: usize,
    /// The least size of which anything is known: the first that was simulated or counted. Below it
    /// the curve is a straight line to a miss ratio of 1, which no cache has.
    pub known_from: u64,
    /// True if sizes are those of the engine's whole memory, rather than of items.
    pub of_engine: bool,
    /// Keys whose size no request tells, where others have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_without_size: Option<Unsized>,
    /// The memory for a hit ratio, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// The curve, at a few hundred points at most.
    pub curve: MissRatioCurve,
    /// The ranges in which the curve lies well above its hull.
    pub cliffs: Vec<Cliff>,
}

impl CurveReport {
    pub(super) fn new(
        trace: &Path,
        options: &CurveOptions,
        unit: Unit,
        engine: Option<&EngineMemory>,
        estimator: &dyn Estimator,
        requests: u64,
        seconds: f64,
    ) -> Self {
        let learnt = estimator.curve();
        debug_assert_eq!(learnt.unit(), unit);
        let curve = match engine {
            Some(engine) => learnt.resized(|cost| engine.memory_for(cost)),
            None => learnt,
        };
        let first = curve.points().get(1).map_or(0, |point| point.size);
        let mut cliffs = curve.cliffs(LEAST_DEPTH);
        // Before the first item fits in, everything misses: this isn't a cliff.
        cliffs.retain(|cliff| cliff.to - cliff.from > curve.max_size() / 1000);
        Self {
            trace: trace.display().to_string(),
            policy: options.policy.to_string(),
            method: options.method,
            writes: Writes::default(),
            requests,
            seconds,
            estimator_bytes: estimator.bytes(),
            known_from: if options.method.needs_max_size() { first } else { 0 },
            of_engine: engine.is_some(),
            keys_without_size: None,
            answer: None,
            curve: curve.thinned(POINTS),
            cliffs,
        }
    }

    /// A size in the unit of the curve, as people read it.
    fn size(&self, size: u64) -> String {
        match self.curve.unit() {
            Unit::Items => size.to_string(),
            Unit::Bytes => readable(size),
        }
    }

    /// The step by which one would ask for more: a gigabyte, or where all keys take less than
    /// eight, a tenth of them.
    pub fn default_more(&self) -> u64 {
        let most = self.curve.max_size();
        let gib = ByteSize::gib(1).as_u64();
        if self.curve.unit() == Unit::Bytes && most >= 8 * gib { gib } else { (most / 10).max(1) }
    }

    /// The table: sizes, what they miss, and what `more` units would save there.
    pub fn table(&self, more: u64) -> CurveTable<'_> {
        CurveTable { report: self, more }
    }
}

/// A curve report as text.
pub struct CurveTable<'r> {
    report: &'r CurveReport,
    more: u64,
}

/// Sizes of the table, in thousandths of the largest.
const SHARES: [u64; 14] = [1, 3, 10, 20, 50, 100, 200, 300, 400, 500, 600, 700, 850, 1000];

impl CurveTable<'_> {
    /// Writes the subject of the curve, the method, and the answer if one was asked for.
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        writeln!(f, "trace      {}", report.trace)?;
        writeln!(f, "policy     {}, learnt by {}", report.policy, report.method)?;
        if let Some(known) = report.curve.confidence() {
            let requests = report.requests;
            write!(f, "learnt     from {:.0} of {requests} requests", known.samples)?;
            if known.keys > 0 {
                write!(f, ", {} keys", known.keys)?;
            }
            let memory = readable(report.estimator_bytes as u64);
            writeln!(f, "; off by {:.4} at most (95 %); {memory}; {:.2} s", known.error, report.seconds)?;
        }
        match report.writes {
            Writes::Count => {}
            Writes::Refresh => {
                writeln!(f, "writes     refresh their keys; hits and misses are those of reads")?
            }
            Writes::Ignore => writeln!(f, "writes     ignored; hits and misses are those of reads")?,
            Writes::Fill => {
                writeln!(f, "writes     fill what reads miss; hits and misses are those of reads")?
            }
        }
        if report.of_engine {
            writeln!(
                f,
                "sizes      memory of a whole cache: chunks, index, queues, and what it leaves free"
            )?;
        }
        if let Some(Unsized { keys, of_keys, assumed_bytes }) = report.keys_without_size {
            write!(f, "no size    for {keys} of {of_keys} keys: ")?;
            match assumed_bytes {
                Some(bytes) => writeln!(f, "{} is assumed (--value-size)", readable(u64::from(bytes)))?,
                None => writeln!(f, "nothing fills them")?,
            }
        }
        if let Some(answer) = &report.answer {
            write!(f, "{answer}")?;
        }
        Ok(())
    }
}

impl fmt::Display for CurveTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        let (report, curve) = (self.report, &self.report.curve);
        let hull = curve.hull();
        let more = format!("{} more", report.size(self.more));
        writeln!(
            f,
            "table      miss ratios by size, those of the convex hull, and how far they fall with {more}, in \
             percentage points"
        )?;
        writeln!(f, "\n{:>12} {:>10} {:>10} {:>14}", "size", "misses", "hull", more)?;
        let most = curve.max_size();
        let mut last = 0;
        for share in SHARES {
            let size = (u128::from(most) * u128::from(share) / 1000) as u64;
            if size <= last || size < report.known_from {
                continue;
            }
            last = size;
            let at = size as f64;
            let in_cliff = report.cliffs.iter().any(|cliff| cliff.from < size && size < cliff.to);
            writeln!(
                f,
                "{:>12} {:>10.4} {:>10.4} {:>14} {}",
                report.size(size),
                curve.miss_ratio(at),
                hull.miss_ratio(at),
                saved(curve.gain(at, self.more as f64)),
                if in_cliff { "cliff" } else { "" }
            )?;
        }
        if report.known_from > 0 {
            writeln!(
                f,
                "unknown    below {}, the smallest cache that was looked at",
                report.size(report.known_from)
            )?;
        }
        for cliff in &report.cliffs {
            writeln!(
                f,
                "cliff      from {} to {}: at {} {:.1} points above the hull",
                report.size(cliff.from),
                report.size(cliff.to),
                report.size(cliff.at),
                cliff.depth * 100.0
            )?;
        }
        Ok(())
    }
}

/// Misses saved, in points.
fn saved(misses: f64) -> String {
    if misses < 0.000_05 { "nothing".into() } else { format!("-{:.2} points", misses * 100.0) }
}

/// Bytes in the unit that keeps the number short.
fn readable(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(5) as usize;
    let shown = bytes as f64 / (1_u64 << (10 * unit)) as f64;
    if unit == 0 { format!("{bytes} B") } else { format!("{shown:.1} {}", units[unit]) }
}

/// The curves in one chart: each as a line, its hull dashed, the cliffs of a single one shaded.
pub fn chart(reports: &[CurveReport], log: bool) -> Chart {
    let unit = reports.first().map_or(Unit::Items, |report| report.curve.unit());
    let axis = match unit {
        Unit::Bytes => Axis::bytes("cache size"),
        Unit::Items => Axis::new("cache size (items)"),
    };
    let points = |curve: &MissRatioCurve, from: u64| drawn(curve, from, log);
    let name = |report: &CurveReport| {
        let file = Path::new(&report.trace).file_name().unwrap_or_default().to_string_lossy();
        let stem = file.trim_end_matches(".zst").trim_end_matches(".gz").trim_end_matches(".csv");
        format!("{stem} ({})", report.policy)
    };
    let lines = reports.iter().enumerate().flat_map(|(i, report)| {
        let line = Series::line(name(report), points(&report.curve, report.known_from)).colour(i);
        let hull =
            Series::line(if i == 0 { "hull" } else { "" }, points(&report.curve.hull(), report.known_from));
        [line, hull.stroke(Stroke::Dashed).colour(i)]
    });
    let marks = match reports {
        [only] => {
            let answered = only.answer.as_ref().and_then(|answer| Some((answer.memory_bytes?, answer.hits)));
            let asked = answered.map(|(size, hits)| Mark::At {
                x: size as f64,
                label: format!("{:.4} % hits: {}", hits * 100.0, only.size(size)).replace(".0000", ""),
            });
            let cliffs = cliff_marks(&only.cliffs, only.curve.max_size() as f64, log);
            cliffs.into_iter().chain(asked).collect()
        }
        _ => Vec::new(),
    };
    Chart {
        categories: Vec::new(),
        title: match reports {
            [only] => format!("Misses by cache size: {}", name(only)),
            _ => "Misses by cache size".into(),
        },
        x: if log { axis.log() } else { axis },
        y: Axis::new("miss ratio").range(0.0, 1.0),
        series: lines.collect(),
        marks,
    }
}

/// The points to draw of a curve, from a size on. On a logarithmic axis a straight line is none, so
/// that lines need points between their ends: without them the hull of a cliff would run far above
/// itself.
fn drawn(curve: &MissRatioCurve, from: u64, log: bool) -> Vec<(f64, f64)> {
    const ON_THE_WAY: u32 = 400;
    let mut sizes: Vec<f64> = curve.points().iter().map(|point| point.size as f64).collect();
    if log && let Some(&first) = sizes.iter().find(|size| **size > 0.0) {
        let (first, last) = (first.max(from as f64), curve.max_size() as f64);
        sizes.extend(
            (0..ON_THE_WAY).map(|i| first * (last / first).powf(f64::from(i) / f64::from(ON_THE_WAY))),
        );
        sizes.sort_by(f64::total_cmp);
    }
    sizes.retain(|size| *size >= from as f64);
    sizes.into_iter().map(|size| (size, curve.miss_ratio(size))).collect()
}

/// The share of the axis that a label takes.
const LABEL: f64 = 0.15;

/// The marks of the cliffs. Of those whose labels would overlap, the deepest has one.
fn cliff_marks(cliffs: &[Cliff], max_size: f64, log: bool) -> Vec<Mark> {
    let place = |size: f64| if log { size.max(1.0).ln() / max_size.max(2.0).ln() } else { size / max_size };
    let is_hidden = |cliff: &Cliff| {
        cliffs.iter().any(|other| {
            let apart = (place(other.to as f64) - place(cliff.to as f64)).abs();
            apart < LABEL && other.depth > cliff.depth
        })
    };
    let marks = cliffs.iter().flat_map(|cliff| {
        let label = if is_hidden(cliff) {
            String::new()
        } else {
            format!("cliff, {:.0} points", cliff.depth * 100.0)
        };
        [Mark::Range { from: cliff.from as f64, to: cliff.to as f64 }, Mark::At { x: cliff.to as f64, label }]
    });
    marks.collect()
}
