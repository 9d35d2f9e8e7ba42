//! Figures of a run: medians, ratios within rounds, and tables.

use std::fmt::Write as _;

use serde::Serialize;

/// The middle of several figures and their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Middle {
    /// The median.
    pub(crate) median: f64,
    /// The least.
    pub(crate) min: f64,
    /// The greatest.
    pub(crate) max: f64,
}

impl Middle {
    /// Of `figures`; all 0 where there is none.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else { return Self::default() };
        Self { median: (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0, min: *min, max: *max }
    }

    /// The median, and the ends in brackets, with `decimals` digits.
    pub(crate) fn show(&self, decimals: usize) -> String {
        format!("{:.decimals$} ({:.decimals$}–{:.decimals$})", self.median, self.min, self.max)
    }
}

/// Ratios of two series that were measured round by round: each round's own, then their middle.
pub(crate) fn ratio(above: &[f64], below: &[f64]) -> Middle {
    Middle::of(above.iter().zip(below).filter(|(_, below)| **below > 0.0).map(|(above, below)| above / below))
}

/// A table in Markdown, columns aligned.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these heads.
    pub(crate) fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![heads.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as text. The first column is aligned to the left, the others to the right.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |i: usize| self.rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|i| width(i).unwrap_or(0).max(3)).collect();
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for (i, width) in widths.iter().enumerate() {
                let cell = row.get(i).map_or("", String::as_str);
                let _ =
                    if i == 0 { write!(out, "| {cell:<width$} ") } else { write!(out, "| {cell:>width$} ") };
            }
            out.push_str("|\n");
            if number == 0 {
                for (i, width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width - 1);
                    let _ = if i == 0 { write!(out, "|:{dashes}- ") } else { write!(out, "| {dashes}:") };
                    out.push_str(if i == 0 { "" } else { " " });
                }
                out.push_str("|\n");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_figures() {
        assert_eq!(Middle::of([3.0, 1.0, 2.0]), Middle { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Middle::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Middle::of([]), Middle::default());
        assert_eq!(Middle::of([1.0, 2.0, 4.0]).show(1), "2.0 (1.0–4.0)");
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let middle = ratio(&[2.0, 20.0, 3.0], &[1.0, 10.0, 1.0]);
        assert_eq!(middle, Middle { median: 2.0, min: 2.0, max: 3.0 });
    }

    #[test]
    fn tables_are_aligned() {
        let mut table = Table::new(["who", "n"]);
        table.row(["somebody", "1"]);
        assert_eq!(table.text(), "| who      |   n |\n|:-------- | --: |\n| somebody |   1 |\n");
    }
}
