//! The tables of `millpond top`: their columns, how they are sorted, and which columns there is
//! room for.

use std::cmp::Ordering;

use percent_encoding::percent_decode_str;
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Stylize as _;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Row, Table, Widget as _};

use super::figures::Pair;
use super::sample::Sample;
use super::text::{UNKNOWN, bytes, count, percent, rate, time};
use crate::text::printable;

/// The views that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Tenants,
    Classes,
    HotKeys,
    Curves,
}

impl View {
    pub(super) const ALL: [Self; 4] = [Self::Tenants, Self::Classes, Self::HotKeys, Self::Curves];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tenants => "tenants",
            Self::Classes => "size classes",
            Self::HotKeys => "hot keys",
            Self::Curves => "misses with more memory",
        }
    }

    /// Returns the text shown if the table is empty.
    const fn excuse(self) -> &'static str {
        match self {
            Self::Tenants | Self::Classes => "There are none.",
            Self::HotKeys => "None are looked for, or none were found: set watch.hot_keys.",
            Self::Curves => "No pool learns its curve: set watch.curve_keys.",
        }
    }

    const fn columns(self) -> &'static [Column] {
        match self {
            Self::Tenants => TENANTS,
            Self::Classes => CLASSES,
            Self::HotKeys => HOT_KEYS,
            Self::Curves => CURVES,
        }
    }

    /// The column by which the view is sorted until the user chooses another.
    const fn usual_sort(self) -> usize {
        match self {
            Self::Tenants => 5,
            Self::Classes => 5,
            Self::HotKeys => 1,
            Self::Curves => 0,
        }
    }

    fn rows(self, pair: Pair<'_>, sample: &Sample) -> Vec<Vec<Entry>> {
        match self {
            Self::Tenants => tenants(pair),
            Self::Classes => classes(pair),
            Self::HotKeys => hot_keys(sample),
            Self::Curves => curves(sample),
        }
    }
}

/// A column.
struct Column {
    title: &'static str,
    /// Text is aligned to the left and sorted from A on, numbers to the right and the largest
    /// first.
    is_text: bool,
    /// The first column takes the remaining width.
    width: u16,
}

const fn name(title: &'static str, width: u16) -> Column {
    Column { title, is_text: true, width }
}

const fn number(title: &'static str, width: u16) -> Column {
    Column { title, is_text: false, width }
}

// The columns of each view, the most important first: columns without room are left out from the
// end.
const TENANTS: &[Column] = &[
    name("tenant", 10),
    number("items", 6),
    number("memory", 9),
    number("limit", 9),
    number("hits", 7),
    number("ops/s", 7),
    number("evict/s", 7),
    number("waits/s", 7),
    number("tail age", 8),
    number("connections", 11),
    name("pool", 12),
    name("policy", 12),
];
const CLASSES: &[Column] = &[
    name("pool", 10),
    number("class", 5),
    number("chunk", 9),
    number("memory", 9),
    number("items", 7),
    number("bytes", 9),
    number("hits/s", 7),
    number("sets/s", 7),
    number("evict/s", 7),
    number("expired/s", 9),
    number("tail age", 9),
];
const HOT_KEYS: &[Column] = &[name("key", 30), number("accesses", 9), number("share", 8), name("pool", 12)];
const CURVES: &[Column] = &[
    name("pool", 10),
    number("half", 8),
    number("present", 8),
    number("1 GiB more", 10),
    number("double", 8),
    number("error", 8),
    number("reads", 8),
];

/// A cell of a table, and the value it is sorted by.
struct Entry {
    shown: String,
    value: Option<f64>,
}

impl Entry {
    fn text(shown: &str) -> Self {
        Self { shown: shown.to_owned(), value: None }
    }

    fn new(shown: String, value: f64) -> Self {
        Self { shown, value: Some(value) }
    }

    fn count(value: u64) -> Self {
        Self::new(count(value), value as f64)
    }

    fn bytes(value: u64) -> Self {
        Self::new(bytes(value), value as f64)
    }

    fn rate(value: Option<f64>) -> Self {
        Self { shown: rate(value), value }
    }

    fn percent(value: Option<f64>) -> Self {
        Self { shown: percent(value), value }
    }

    fn age(secs: Option<u64>) -> Self {
        let shown = secs.map_or_else(|| UNKNOWN.to_owned(), time);
        Self { shown, value: secs.map(|secs| secs as f64) }
    }

    /// Larger numbers first, unknown ones last; texts as in a dictionary.
    fn order(&self, other: &Self) -> Ordering {
        match (self.value, other.value) {
            (Some(one), Some(two)) => two.total_cmp(&one),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.shown.cmp(&other.shown),
        }
    }
}

fn tenants(pair: Pair<'_>) -> Vec<Vec<Entry>> {
    let row = |row: super::figures::TenantRow| {
        let limit = match row.limit_bytes {
            Some(limit) => Entry::bytes(limit),
            None => Entry::new("none".to_owned(), f64::INFINITY),
        };
        vec![
            Entry::text(&row.tenant),
            Entry::count(row.items),
            Entry::bytes(row.memory_bytes),
            limit,
            Entry::percent(row.hit_ratio),
            Entry::rate(row.requests),
            Entry::rate(row.evictions),
            Entry::rate(row.throttled),
            Entry::age(row.age_secs),
            Entry::count(row.connections),
            Entry::text(&row.pool),
            Entry::text(&row.policy),
        ]
    };
    pair.tenants().into_iter().map(row).collect()
}

fn classes(pair: Pair<'_>) -> Vec<Vec<Entry>> {
    let row = |row: super::figures::ClassRow| {
        vec![
            Entry::text(&row.pool),
            Entry::new(row.number.to_string(), row.number as f64),
            Entry::bytes(row.chunk_bytes),
            Entry::bytes(row.bytes),
            Entry::count(row.items),
            Entry::bytes(row.item_bytes),
            Entry::rate(row.hits),
            Entry::rate(row.inserts),
            Entry::rate(row.evictions),
            Entry::rate(row.expired),
            Entry::age(row.age_secs),
        ]
    };
    pair.classes().into_iter().map(row).collect()
}

/// Returns the key that the server has percent-encoded, with what a terminal does not show escaped.
pub(super) fn readable(encoded: &str) -> String {
    let key = percent_decode_str(encoded).collect::<Vec<u8>>();
    match str::from_utf8(&key) {
        Ok(text) => printable(text, &[]),
        Err(_) => key.escape_ascii().to_string(),
    }
}

fn hot_keys(sample: &Sample) -> Vec<Vec<Entry>> {
    let of_pool = |(pool, keys): (&String, &Vec<super::sample::HotKey>)| -> Vec<Vec<Entry>> {
        let row = |hot: &super::sample::HotKey| {
            let (accesses, share) = (Entry::count(hot.accesses), Entry::percent(Some(hot.share)));
            vec![Entry::text(&readable(&hot.key)), accesses, share, Entry::text(pool)]
        };
        keys.iter().map(row).collect()
    };
    sample.hot_keys.iter().flat_map(of_pool).collect()
}

fn curves(sample: &Sample) -> Vec<Vec<Entry>> {
    let known = sample.pools.iter().filter_map(|pool| Some((pool, pool.curve.as_ref()?)));
    let row = |(pool, curve): (&super::sample::Pool, &super::sample::Curve)| {
        let misses = |size: &str| Entry::percent(curve.miss_ratio.get(size).copied());
        vec![
            Entry::text(&pool.name),
            misses("half"),
            misses("present"),
            misses("gib_more"),
            misses("double"),
            Entry::percent((curve.samples > 0).then_some(curve.error)),
            Entry::count(curve.samples),
        ]
    };
    known.map(row).collect()
}

/// The display of a view: its sort order and its scroll position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) view: View,
    sort: usize,
    is_reversed: bool,
    /// Rows that are passed over.
    scrolled: usize,
}

impl Look {
    pub(super) const fn new(view: View) -> Self {
        Self { view, sort: view.usual_sort(), is_reversed: false, scrolled: 0 }
    }

    /// Sorts by the next column, or the one before.
    pub(super) fn turn(&mut self, forward: bool) {
        let columns = self.view.columns().len();
        self.sort = (self.sort + if forward { 1 } else { columns - 1 }) % columns;
        self.is_reversed = false;
    }

    pub(super) fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
    }

    pub(super) fn scroll(&mut self, rows: isize) {
        self.scrolled = self.scrolled.saturating_add_signed(rows);
    }

    /// Returns the height of the whole table in lines.
    pub(super) fn height(&self, pair: Pair<'_>, sample: &Sample) -> u16 {
        let rows = self.view.rows(pair, sample).len().max(1);
        u16::try_from(rows + 1).unwrap_or(u16::MAX)
    }

    /// Draws the columns and rows that there is room for.
    pub(super) fn draw(&mut self, pair: Pair<'_>, sample: &Sample, area: Rect, buffer: &mut Buffer) {
        let mut rows = self.view.rows(pair, sample);
        if rows.is_empty() {
            return Line::from(self.view.excuse()).dim().render(area, buffer);
        }
        let sort = |one: &Vec<Entry>, two: &Vec<Entry>| match (one.get(self.sort), two.get(self.sort)) {
            (Some(one), Some(two)) => one.order(two),
            _ => Ordering::Equal,
        };
        rows.sort_by(sort);
        if self.is_reversed {
            rows.reverse();
        }
        let room = usize::from(area.height.saturating_sub(1)).max(1);
        self.scrolled = self.scrolled.min(rows.len().saturating_sub(room));

        let columns = self.fitting(area.width);
        let align = |column: &Column, text: String| {
            Text::from(text).alignment(if column.is_text { Alignment::Left } else { Alignment::Right })
        };
        let header = columns.iter().enumerate().map(|(at, column)| {
            let title = align(column, column.title.to_owned());
            if at == self.sort { title.reversed() } else { title }
        });
        let widths = columns.iter().enumerate().map(|(at, column)| match at {
            0 => Constraint::Min(column.width),
            _ => Constraint::Length(column.width),
        });
        let body =
            rows.into_iter().skip(self.scrolled).take(room).map(|row| {
                Row::new(columns.iter().zip(row).map(|(column, entry)| align(column, entry.shown)))
            });
        Table::new(body.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
            .header(Row::new(header.collect::<Vec<_>>()).bold())
            .render(area, buffer);
    }

    /// The columns for which there is room.
    fn fitting(&self, width: u16) -> &'static [Column] {
        let columns = self.view.columns();
        let mut taken = 0;
        let fits = |column: &&Column| {
            taken += column.width + 1;
            taken <= width + 1
        };
        let count = columns.iter().take_while(fits).count().max(1);
        columns.get(..count).unwrap_or(columns)
    }
}
