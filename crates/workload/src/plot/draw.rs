//! From a chart to kuva's scene: colours, ranges and ticks.

use std::sync::Arc;

use kuva::backend::png::PngBackend;
use kuva::backend::svg::SvgBackend;
use kuva::plot::legend::LegendPosition;
use kuva::plot::{BarPlot, LinePlot, ScatterPlot};
use kuva::render::annotations::{ReferenceLine, ShadedRegion, TextAnnotation};
use kuva::render::figure::Figure as Grid;
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;
pub(super) use kuva::render::render::Scene;
use kuva::render::render::render_multiple;

use super::{Axis, Chart, Figure, Mark, PlotError, Scale, Series, Stroke};

/// The plotted area with its labels, without the legend.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
/// The same in a grid.
const PANEL: (f64, f64) = (520.0, 340.0);
/// Number of letters that fit beside each other below a chart; longer names of bars are turned.
const LETTERS: usize = 70;
/// About as many ticks on an axis.
const TICKS: f64 = 7.0;

/// Colours that differ for the colour-blind too: Okabe and Ito, "Color Universal Design", 2008, the
/// yellow darkened, and four more.
const COLOURS: [&str; 11] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f3c8d", "#b8a500",
    "#80604d", "#888888",
];

pub(super) fn svg(scene: &Scene) -> String {
    SvgBackend::new().render_scene(scene)
}

pub(super) fn png(scene: &Scene) -> Result<Vec<u8>, String> {
    PngBackend::new().with_scale(2.0).render_scene(scene)
}

pub(super) fn chart(chart: &Chart) -> Result<Scene, PlotError> {
    let (plots, layout) = parts(chart)?;
    Ok(render_multiple(plots, layout.with_width(WIDTH).with_height(HEIGHT)))
}

pub(super) fn figure(figure: &Figure) -> Result<Scene, PlotError> {
    let count = figure.charts.len();
    if count == 0 {
        return Err(PlotError::Empty(figure.title.clone()));
    }
    let columns = match figure.columns {
        0 => (1..).find(|columns| columns * columns >= count).unwrap_or(1),
        columns => columns.min(count),
    };
    let parts = figure.charts.iter().map(parts).collect::<Result<Vec<_>, _>>()?;
    let (plots, layouts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let mut grid = Grid::new(count.div_ceil(columns), columns)
        .with_structure((0..count).map(|cell| vec![cell]).collect())
        .with_plots(plots)
        .with_layouts(layouts)
        .with_cell_size(PANEL.0, PANEL.1);
    if !figure.title.is_empty() {
        grid = grid.with_title(figure.title.clone());
    }
    Ok(grid.render())
}

/// Returns the plots and the layout that kuva needs for one chart.
fn parts(chart: &Chart) -> Result<(Vec<Plot>, Layout), PlotError> {
    let bars = !chart.categories.is_empty();
    let series: Vec<Series> = chart
        .series
        .iter()
        .map(|series| if bars { cut(chart, series) } else { shown(chart, series) })
        .collect();
    let x = extent(&chart.x, series.iter().flat_map(|series| series.points.iter().map(|point| point.0)));
    let y = extent(&chart.y, series.iter().flat_map(|series| series.points.iter().map(|point| point.1)));
    let (Some(x), Some(y)) = (x, y) else {
        return Err(PlotError::Empty(chart.title.clone()));
    };
    let y = with_headroom(chart, &series, y);
    let plots: Vec<Plot> = if bars {
        vec![groups(chart, &series)]
    } else {
        let drawn = series.iter().enumerate().filter(|(_, series)| !series.points.is_empty());
        drawn.map(|(place, series)| plot(series, colour(place, series))).collect()
    };
    let mut layout = Layout::auto_from_plots(&plots)
        .with_title(chart.title.clone())
        .with_x_label(chart.x.label.clone())
        .with_y_label(chart.y.label.clone())
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_title_size(15)
        .with_clamp_axis();
    layout = layout.with_y_axis_min(y.0).with_y_axis_max(y.1).with_y_tick_format(format(&chart.y));
    layout = if chart.y.log { layout.with_log_y() } else { layout.with_y_tick_step(step(&chart.y, y)) };
    if bars {
        let is_wide = chart.categories.iter().map(|name| name.chars().count() + 2).sum::<usize>() > LETTERS;
        layout = if is_wide { layout.with_x_tick_rotate(-40.0) } else { layout };
    } else {
        layout = layout.with_x_axis_min(x.0).with_x_axis_max(x.1).with_x_tick_format(format(&chart.x));
        layout = if chart.x.log { layout.with_log_x() } else { layout.with_x_tick_step(step(&chart.x, x)) };
    }
    Ok((plots, chart.marks.iter().fold(layout, mark)))
}

fn colour(place: usize, series: &Series) -> &'static str {
    COLOURS[series.colour.unwrap_or(place) % COLOURS.len()]
}

/// The bars of all series, group by group; where a series has none for a group, one of no height.
fn groups(chart: &Chart, series: &[Series]) -> Plot {
    let height = |series: &Series, group: usize| {
        let point = series.points.iter().find(|point| point.0 == group as f64);
        point.map_or(0.0, |point| point.1)
    };
    let bars = chart.categories.iter().enumerate().fold(BarPlot::new(), |bars, (group, name)| {
        let each = series.iter().enumerate();
        bars.with_group(name, each.map(|(place, series)| (height(series, group), colour(place, series))))
    });
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    Plot::Bar(if names == [""] { bars } else { bars.with_legend(names) })
}

/// The bars of a series that the chart can show, cut where they leave it.
fn cut(chart: &Chart, series: &Series) -> Series {
    let (from, to) = chart.y.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let points = series.points.iter().filter(|point| point.1.is_finite());
    Series { points: points.map(|&(x, y)| (x, y.clamp(from, to))).collect(), ..series.clone() }
}

/// The points of a series that the chart can show.
fn shown(chart: &Chart, series: &Series) -> Series {
    let fits = |axis: &Axis, value: f64| {
        let inside = axis.range.is_none_or(|(from, to)| (from..=to).contains(&value));
        value.is_finite() && inside && !(axis.log && value <= 0.0)
    };
    let points = series.points.iter().copied().filter(|&(x, y)| fits(&chart.x, x) && fits(&chart.y, y));
    Series { points: points.collect(), ..series.clone() }
}

fn plot(series: &Series, colour: &str) -> Plot {
    if series.stroke == Stroke::Dots {
        let plot =
            ScatterPlot::new().with_data(series.points.iter().copied()).with_color(colour).with_size(2.0);
        return Plot::Scatter(if series.name.is_empty() { plot } else { plot.with_legend(&series.name) });
    }
    let plot =
        LinePlot::new().with_data(series.points.iter().copied()).with_color(colour).with_stroke_width(2.0);
    let plot = match series.stroke {
        Stroke::Dashed => plot.with_dashed(),
        Stroke::Dotted => plot.with_dotted(),
        Stroke::Steps => plot.with_step(),
        Stroke::Solid | Stroke::Dots => plot,
    };
    Plot::Line(if series.name.is_empty() { plot } else { plot.with_legend(&series.name) })
}

fn mark(layout: Layout, mark: &Mark) -> Layout {
    match mark {
        Mark::At { x, label } => {
            layout.with_reference_line(ReferenceLine::vertical(*x).with_color("#555555").with_label(label))
        }
        Mark::Level { y, label } => {
            layout.with_reference_line(ReferenceLine::horizontal(*y).with_color("#555555").with_label(label))
        }
        Mark::Range { from, to } => layout
            .with_shaded_region(ShadedRegion::vertical(*from, *to).with_color("#d55e00").with_opacity(0.12)),
        Mark::Text { x, y, label } => layout.with_annotation(TextAnnotation::new(label, *x, *y)),
    }
}

/// From where to where an axis runs; `None` where nothing is on it.
fn extent(axis: &Axis, values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (least, most) = values.fold(None, |span: Option<(f64, f64)>, value| {
        Some(span.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
    })?;
    if let Some(range) = axis.range {
        return Some(range);
    }
    if axis.log {
        return Some(if least < most { (least, most) } else { (least / 2.0, most * 2.0) });
    }
    let least = least.min(0.0);
    let most = if most > least { most } else { least + 1.0 };
    let step = step(axis, (least, most));
    Some(((least / step).floor() * step, (most / step).ceil() * step))
}

/// The range of `y` with a step more, where a line would run along the upper edge, which is hard to
/// see. A share that ends at 1 stays so.
fn with_headroom(chart: &Chart, series: &[Series], (from, to): (f64, f64)) -> (f64, f64) {
    let step = step(&chart.y, (from, to));
    let at_the_edge =
        |points: &[(f64, f64)]| points.windows(2).any(|pair| pair.iter().all(|p| to - p.1 < 0.02 * step));
    let is_free = chart.y.range.is_none() && !chart.y.log && (to - 1.0).abs() > 1e-9;
    if is_free && series.iter().any(|series| at_the_edge(&series.points)) {
        (from, to + step)
    } else {
        (from, to)
    }
}

/// A round distance between ticks.
fn step(axis: &Axis, (from, to): (f64, f64)) -> f64 {
    let rough = (to - from).abs().max(f64::MIN_POSITIVE) / TICKS;
    if axis.scale == Scale::Bytes && rough >= 1.0 {
        return rough.log2().ceil().exp2();
    }
    let decade = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|factor| factor * decade >= rough * 0.999);
    factor.unwrap_or(10.0) * decade
}

/// The format of an axis's ticks.
fn format(axis: &Axis) -> TickFormat {
    match (axis.scale, axis.log) {
        (Scale::Number, _) => {
            TickFormat::Custom(Arc::new(|value| scaled(value, 1000.0, &["", "k", "M", "G", "T"])))
        }
        (Scale::Bytes, true) => {
            TickFormat::Custom(Arc::new(|value| scaled(value, 1000.0, &[" B", " kB", " MB", " GB", " TB"])))
        }
        (Scale::Bytes, false) => TickFormat::Custom(Arc::new(|value| {
            scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
        })),
    }
}

/// A number with as many digits as it needs, in the unit that keeps it short. Below 10,000 a bare
/// number is written out.
fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut unit = 0;
    let mut shown = value;
    while unit + 1 < units.len()
        && shown.abs() >= base
        && (!units[0].is_empty() || unit > 0 || value.abs() >= 1e4)
    {
        shown /= base;
        unit += 1;
    }
    let digits = match shown.abs() {
        0.0 => 0,
        size if size < 0.001 => return format!("{shown:e}{}", units[unit]),
        size if size < 1.0 => 4,
        _ => 2,
    };
    let text = format!("{shown:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{}", units[unit])
}
