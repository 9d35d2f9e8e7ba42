//! Charts: lines over two axes, or bars in groups, written as SVG or PNG.
//!
//! A [`Chart`] is a plain value that says what to show; a [`Figure`] is several of them in a grid.
//! Drawing is kuva's. Its fonts are part of the binary, so that a chart looks the same on a machine
//! without any, and nothing is fetched. A point that is not a number is left out, as is one at or
//! below 0 on a logarithmic axis.
//!
//! ```no_run
//! use millpond_workload::plot::{Axis, Chart, Series};
//!
//! let hits = [(0.0, 0.0), (100.0, 0.4), (200.0, 0.6)];
//! let chart = Chart {
//!     title: "Zipf 0.9".into(),
//!     x: Axis::bytes("cache size"),
//!     y: Axis::new("hit ratio").range(0.0, 1.0),
//!     series: vec![Series::line("LRU", hits)],
//!     ..Chart::default()
//! };
//! chart.write("hits.svg".as_ref())?;
//! # Ok::<(), millpond_workload::plot::PlotError>(())
//! ```

mod draw;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

/// The quantity of an axis, which decides the place and the format of its ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Numbers: 0.25, 40, 30k, 2M.
    #[default]
    Number,
    /// Bytes: in powers of two on a linear axis (64 MiB), of ten on a logarithmic one (100 MB).
    Bytes,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The label beside the axis, including the unit if `scale` does not give it.
    pub label: String,
    /// The quantity that the axis counts.
    pub scale: Scale,
    /// True if the axis is logarithmic. Points at or below 0 are then left out.
    pub log: bool,
    /// Its first and last value. Without: what the series need, and 0 on a linear axis of nothing
    /// negative.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis of numbers.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// A linear axis of bytes.
    pub fn bytes(label: impl Into<String>) -> Self {
        Self { scale: Scale::Bytes, ..Self::new(label) }
    }

    /// The same axis, logarithmic.
    #[must_use]
    pub fn log(self) -> Self {
        Self { log: true, ..self }
    }

    /// The same axis from `from` to `to`.
    #[must_use]
    pub fn range(self, from: f64, to: f64) -> Self {
        Self { range: Some((from, to)), ..self }
    }
}

/// The stroke of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stroke {
    /// A line through the points.
    #[default]
    Solid,
    /// A dashed one.
    Dashed,
    /// A dotted one.
    Dotted,
    /// A line that stays at a point's height until the next point.
    Steps,
    /// The points alone.
    Dots,
}

/// A named list of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name in the legend; without one it is not in it.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// Stroke.
    pub stroke: Stroke,
    /// Its colour, as a number: series of the same number have the same one. Without: that of its
    /// place among the series.
    pub colour: Option<usize>,
}

impl Series {
    /// A solid line.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), ..Self::default() }
    }

    /// The same points, drawn otherwise.
    #[must_use]
    pub fn stroke(self, stroke: Stroke) -> Self {
        Self { stroke, ..self }
    }

    /// The same points in the colour of this number.
    #[must_use]
    pub fn colour(self, colour: usize) -> Self {
        Self { colour: Some(colour), ..self }
    }
}

/// A mark in a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A vertical line at `x`.
    At {
        /// Position.
        x: f64,
        /// Text beside the mark.
        label: String,
    },
    /// A horizontal line at `y`.
    Level {
        /// Position.
        y: f64,
        /// Text beside the mark.
        label: String,
    },
    /// A shaded range.
    Range {
        /// Its left edge.
        from: f64,
        /// Its right edge.
        to: f64,
    },
    /// A text whose middle is at a point.
    Text {
        /// Position.
        x: f64,
        /// Position.
        y: f64,
        /// Text of the mark.
        label: String,
    },
}

/// A chart of lines, or of bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The title above the chart.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// Without: a chart of lines. With: one of bars, a group for each of these names, in which each
    /// series has a bar; `x` of a point is then the number of its group, from 0 on. Bars beyond the
    /// range of `y` are cut.
    pub categories: Vec<String>,
    /// Upwards.
    pub y: Axis,
    /// The series to draw.
    pub series: Vec<Series>,
    /// The marks to draw.
    pub marks: Vec<Mark>,
}

/// Checks that a chart can be written under this name, before work is done for it.
///
/// # Errors
/// [`PlotError::Extension`] if the name ends in neither `.svg` nor `.png`.
pub fn check_name(path: &Path) -> Result<(), PlotError> {
    Format::of(path).map(|_| ())
}

impl Chart {
    /// Writes the chart as `path`, whose extension says how: `.svg` or `.png`. Replaces a file that
    /// is there.
    ///
    /// # Errors
    /// Where the extension is another, there is no point to draw, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PlotError> {
        let format = Format::of(path)?;
        let scene = draw::chart(self)?;
        format.write(&scene, path)
    }
}

/// Several charts in a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The title above all charts.
    pub title: String,
    /// Row by row.
    pub charts: Vec<Chart>,
    /// Number of charts beside each other. 0: as many as make the grid about square.
    pub columns: usize,
}

impl Figure {
    /// Writes the figure as `path`, whose extension says how: `.svg` or `.png`. Replaces a file
    /// that is there.
    ///
    /// # Errors
    /// Where the extension is another, a chart has no point to draw, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PlotError> {
        let format = Format::of(path)?;
        let scene = draw::figure(self)?;
        format.write(&scene, path)
    }
}

/// The reason why there is no chart.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The file's name has another extension.
    #[error("{}: a chart is written as .svg or .png; give the file a name that ends in one of these", .0.display())]
    Extension(PathBuf),
    /// No series has a point that can be shown.
    #[error("the chart \"{0}\" has no point to draw")]
    Empty(String),
    /// The picture could not be made.
    #[error("{}: {reason}", path.display())]
    Render {
        /// The file that was to be written.
        path: PathBuf,
        /// The error of the drawing library.
        reason: String,
    },
    /// The file could not be written.
    #[error("{}: the chart cannot be written; check its folder and the permissions", path.display())]
    Io {
        /// The file that was to be written.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// The file formats of charts.
#[derive(Clone, Copy)]
enum Format {
    Svg,
    Png,
}

impl Format {
    fn of(path: &Path) -> Result<Self, PlotError> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => Err(PlotError::Extension(path.into())),
        }
    }

    fn write(self, scene: &draw::Scene, path: &Path) -> Result<(), PlotError> {
        let bytes = match self {
            Self::Svg => draw::svg(scene).into_bytes(),
            Self::Png => {
                draw::png(scene).map_err(|reason| PlotError::Render { path: path.into(), reason })?
            }
        };
        std::fs::write(path, bytes).map_err(|source| PlotError::Io { path: path.into(), source })
    }
}
