//! The findings of an experiment: criteria with verdicts, and the tables and charts beside them.
//!
//! A criterion sets a paper's figure beside ours and states what ours had to be. A criterion that
//! is missed stays in the report with its reason.

use std::fmt::Write as _;

use serde::Serialize;
use simulate::table::Table;
use workload::plot::{Axis, Stroke};

/// The outcome of a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not.
    Missed,
    /// Nothing was demanded; the figure is written down.
    Recorded,
}

impl Verdict {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Missed => "MISSED",
            Self::Recorded => "recorded",
        }
    }
}

/// A figure or statement of an experiment, with the requirement on it, if there is one.
///
/// ```
/// use millpond_experiments::report::{Criterion, Verdict};
///
/// let gain = Criterion::number("least normalised throughput at 4 M keys", 1.58)
///     .paper("1.56")
///     .within(1.58, 0.05);
/// assert_eq!(gain.verdict(), Verdict::Passed);
/// assert_eq!(gain.bound(), "1.580 ± 0.050");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Criterion {
    what: String,
    paper: String,
    ours: String,
    value: Option<f64>,
    bound: String,
    verdict: Verdict,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip)]
    decimals: usize,
    #[serde(skip)]
    unit: String,
}

impl Criterion {
    /// A figure, written down; one of [`Self::within`], [`Self::between`], [`Self::at_least`] and
    /// [`Self::at_most`] demands something of it.
    pub fn number(what: impl Into<String>, value: f64) -> Self {
        let criterion = Self {
            what: what.into(),
            paper: String::new(),
            ours: String::new(),
            value: Some(value),
            bound: String::new(),
            verdict: Verdict::Recorded,
            reason: String::new(),
            decimals: 3,
            unit: String::new(),
        };
        criterion.worded()
    }

    /// A statement that holds or does not. `ours` is the finding, `bound` the requirement.
    pub fn holds(
        what: impl Into<String>,
        holds: bool,
        ours: impl Into<String>,
        bound: impl Into<String>,
    ) -> Self {
        let verdict = if holds { Verdict::Passed } else { Verdict::Missed };
        let (ours, bound) = (ours.into(), bound.into());
        Self { value: None, ours, bound, verdict, ..Self::number(what, 0.0) }
    }

    /// Sets the paper's figure; empty by default.
    #[must_use]
    pub fn paper(mut self, figure: impl Into<String>) -> Self {
        self.paper = figure.into();
        self
    }

    /// The unit of the figure; call it before the bound.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self.worded()
    }

    /// Sets the number of decimals that are shown, 3 by default; call it before the bound.
    #[must_use]
    pub fn decimals(mut self, decimals: usize) -> Self {
        self.decimals = decimals;
        self.worded()
    }

    /// The figure must be `target`, give or take `tolerance`.
    #[must_use]
    pub fn within(self, target: f64, tolerance: f64) -> Self {
        let bound = format!("{} ± {}", self.show(target), self.show(tolerance));
        // A value that is exactly at the edge as written is not outside for a rounding error.
        let slack = 1e-9 * target.abs().max(tolerance);
        self.bounded(bound, |value| (value - target).abs() <= tolerance + slack)
    }

    /// The figure must be neither below `least` nor above `most`.
    #[must_use]
    pub fn between(self, least: f64, most: f64) -> Self {
        let bound = format!("{} to {}", self.show(least), self.show(most));
        self.bounded(bound, |value| (least..=most).contains(&value))
    }

    /// The figure must not be below `least`.
    #[must_use]
    pub fn at_least(self, least: f64) -> Self {
        let bound = format!("at least {}", self.show(least));
        self.bounded(bound, |value| value >= least)
    }

    /// The figure must not be above `most`.
    #[must_use]
    pub fn at_most(self, most: f64) -> Self {
        let bound = format!("at most {}", self.show(most));
        self.bounded(bound, |value| value <= most)
    }

    /// Sets why it is missed, if it is; left out of the report if it passes.
    #[must_use]
    pub fn missed_because(mut self, reason: impl Into<String>) -> Self {
        if self.verdict == Verdict::Missed {
            self.reason = reason.into();
        }
        self
    }

    /// Returns the subject of the criterion.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns our finding, in words or as a figure with its unit.
    pub fn ours(&self) -> &str {
        &self.ours
    }

    /// Returns the requirement, in words; empty if there is none.
    pub fn bound(&self) -> &str {
        &self.bound
    }

    /// Returns the outcome.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The reason for a miss; empty if the criterion was met, or if the reason is unknown.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    fn show(&self, value: f64) -> String {
        let gap = if self.unit.is_empty() { "" } else { " " };
        format!("{value:.*}{gap}{}", self.decimals, self.unit)
    }

    fn worded(mut self) -> Self {
        self.ours = self.value.map_or(self.ours.clone(), |value| self.show(value));
        self
    }

    /// NaN passes no bound.
    fn bounded(mut self, bound: String, holds: impl Fn(f64) -> bool) -> Self {
        self.bound = bound;
        self.verdict = if self.value.is_some_and(holds) { Verdict::Passed } else { Verdict::Missed };
        self
    }
}

/// The style of a chart's points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Joined by straight lines.
    #[default]
    Line,
    /// Each holds until the next.
    Step,
    /// Not joined.
    Dots,
}

/// A named row of points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, as x and y.
    pub points: Vec<(f64, f64)>,
    /// Style of the points.
    pub style: Style,
}

/// A chart: its data, to be drawn at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// The label of the horizontal axis, with its unit.
    pub x: String,
    /// The label of the vertical axis, with its unit.
    pub y: String,
    /// True if x is logarithmic.
    pub log_x: bool,
    /// The largest y that is shown; points beyond are left out or, of bars, cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<f64>,
    /// Names along x, if bars are shown; the x of a point is then the number of its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// The series of the chart.
    pub series: Vec<Series>,
}

impl Chart {
    /// An empty chart with linear axes.
    pub fn new(title: impl Into<String>, x: impl Into<String>, y: impl Into<String>) -> Self {
        Self { title: title.into(), x: x.into(), y: y.into(), ..Self::default() }
    }

    /// Adds points joined by lines.
    #[must_use]
    pub fn line(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name, points, Style::Line)
    }

    /// Adds points in a given style.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
        style: Style,
    ) -> Self {
        let points = points.into_iter().collect();
        self.series.push(Series { name: name.into(), points, style });
        self
    }

    /// Makes it one of bars, with a group of them for each of these names.
    #[must_use]
    pub fn over<C: Into<String>>(mut self, categories: impl IntoIterator<Item = C>) -> Self {
        self.categories = categories.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a bar for each name.
    #[must_use]
    pub fn bars(self, name: impl Into<String>, heights: impl IntoIterator<Item = f64>) -> Self {
        let points: Vec<_> = heights.into_iter().enumerate().map(|(i, height)| (i as f64, height)).collect();
        self.line(name, points)
    }

    /// Shows nothing above `top`.
    #[must_use]
    pub fn up_to(mut self, top: f64) -> Self {
        self.top = Some(top);
        self
    }

    /// Makes x logarithmic.
    #[must_use]
    pub fn log_x(mut self) -> Self {
        self.log_x = true;
        self
    }

    /// The chart as it is drawn.
    pub fn drawn(&self) -> workload::plot::Chart {
        let series = self.series.iter().map(|series| {
            let stroke = match series.style {
                Style::Line => Stroke::Solid,
                Style::Step => Stroke::Steps,
                Style::Dots => Stroke::Dots,
            };
            workload::plot::Series::line(series.name.clone(), series.points.iter().copied()).stroke(stroke)
        });
        let x = Axis { log: self.log_x, ..Axis::new(self.x.clone()) };
        workload::plot::Chart {
            title: self.title.clone(),
            x,
            y: Axis { range: self.top.map(|top| (0.0, top)), ..Axis::new(self.y.clone()) },
            categories: self.categories.clone(),
            series: series.collect(),
            ..workload::plot::Chart::default()
        }
    }

    /// The points as CSV: series, x, y.
    pub fn csv(&self) -> String {
        let mut text = String::from("series,x,y\n");
        for series in &self.series {
            let name = series.name.replace('"', "\"\"");
            for (x, y) in &series.points {
                let _ = match self.categories.get(*x as usize) {
                    Some(category) => writeln!(text, "\"{name}\",\"{}\",{y}", category.replace('"', "\"\"")),
                    None => writeln!(text, "\"{name}\",{x},{y}"),
                };
            }
        }
        text
    }
}

/// All that an experiment found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    criteria: Vec<Criterion>,
    tables: Vec<Table>,
    charts: Vec<Chart>,
    notes: Vec<String>,
}

impl Report {
    /// An empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a criterion.
    pub fn check(&mut self, criterion: Criterion) -> &mut Self {
        self.criteria.push(criterion);
        self
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.tables.push(table);
        self
    }

    /// Adds a chart.
    pub fn chart(&mut self, chart: Chart) -> &mut Self {
        self.charts.push(chart);
        self
    }

    /// Adds a sentence that a reader of the figures must know.
    pub fn note(&mut self, sentence: impl Into<String>) -> &mut Self {
        self.notes.push(sentence.into());
        self
    }

    /// Its criteria.
    pub fn criteria(&self) -> &[Criterion] {
        &self.criteria
    }

    /// Its charts.
    pub fn charts(&self) -> &[Chart] {
        &self.charts
    }

    /// Returns the number of criteria with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.criteria.iter().filter(|criterion| criterion.verdict == verdict).count()
    }

    /// The report as text: criteria side by side with the paper, reasons, tables, notes.
    pub fn render(&self) -> String {
        let mut table = Table::new("", ["criterion", "paper", "ours", "bound", "verdict"]);
        for criterion in &self.criteria {
            let Criterion { what, paper, ours, bound, verdict, .. } = criterion;
            table.row([what, paper, ours, bound, verdict.name()]);
        }
        let mut text = table.render(2);
        for criterion in self.criteria.iter().filter(|criterion| !criterion.reason.is_empty()) {
            let _ = writeln!(text, "  missed: {}: {}", criterion.what, criterion.reason);
        }
        for table in &self.tables {
            text.push('\n');
            text.push_str(&table.render(2));
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_decide_and_are_said_in_words() {
        let at = |value: f64| Criterion::number("x", value).decimals(1).unit("s");
        let verdicts = [
            (at(1.0).at_least(1.0), Verdict::Passed, "at least 1.0 s"),
            (at(0.9).at_least(1.0), Verdict::Missed, "at least 1.0 s"),
            (at(1.1).at_most(1.0), Verdict::Missed, "at most 1.0 s"),
            (at(1.1).within(1.0, 0.1), Verdict::Passed, "1.0 s ± 0.1 s"),
            (at(1.2).between(1.0, 1.1), Verdict::Missed, "1.0 s to 1.1 s"),
            (at(f64::NAN).at_most(1.0), Verdict::Missed, "at most 1.0 s"),
            (at(1.0), Verdict::Recorded, ""),
        ];
        for (criterion, verdict, bound) in verdicts {
            assert_eq!((criterion.verdict(), criterion.bound()), (verdict, bound));
        }
        assert_eq!(at(1.25).ours(), "1.2 s");
    }

    #[test]
    fn a_reason_is_kept_only_where_something_was_missed() {
        let passed = Criterion::number("x", 1.0).at_least(0.5).missed_because("never");
        let missed = Criterion::number("x", 0.0).at_least(0.5).missed_because("too little");
        assert_eq!((passed.reason(), missed.reason()), ("", "too little"));
        let mut report = Report::new();
        report.check(passed).check(missed);
        assert!(report.render().contains("missed: x: too little"));
        assert_eq!((report.count(Verdict::Passed), report.count(Verdict::Missed)), (1, 1));
    }
}
