//! The screen of `millpond top`: the server in a few lines, the memory bill, and one table, in as
//! much room as there is.

use base::Part;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Widget as _};

use super::figures::{Pair, Summary};
use super::sample::Sample;
use super::table::{Look, View};
use super::text::{bytes, bytes_per_sec, count, latency, percent, rate, time};

/// Places for a figure with its name, and for a part of the bill with its bar.
const FIGURE_WIDTH: u16 = 19;
const PART_WIDTH: u16 = 39;

/// The latest samples of the server.
#[derive(Default)]
pub(super) struct Known {
    pub(super) address: String,
    pub(super) before: Option<Sample>,
    pub(super) now: Option<Sample>,
    /// The reason why the last question was not answered, if it was not.
    pub(super) trouble: Option<String>,
}

impl Known {
    /// Takes an answer in, or why there was none.
    pub(super) fn learn(&mut self, answer: Result<Sample, String>) {
        match answer {
            Ok(sample) => {
                self.before = self.now.replace(sample);
                self.trouble = None;
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }
}

/// The views and options that the user has chosen.
pub(super) struct Screen {
    looks: [Look; View::ALL.len()],
    chosen: usize,
    pub(super) has_help: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { looks: View::ALL.map(Look::new), chosen: 0, has_help: false }
    }

    pub(super) fn look(&mut self) -> &mut Look {
        &mut self.looks[self.chosen]
    }

    /// Switches to the view after this one, or the one before.
    pub(super) fn turn(&mut self, forward: bool) {
        self.chosen = (self.chosen + if forward { 1 } else { View::ALL.len() - 1 }) % View::ALL.len();
    }

    /// Switches to the view with this number, counted from 0.
    pub(super) fn choose(&mut self, view: usize) {
        self.chosen = if view < View::ALL.len() { view } else { self.chosen };
    }

    /// Draws all of it.
    pub(super) fn draw(&mut self, known: &Known, area: Rect, buffer: &mut Buffer) {
        let Some(now) = &known.now else {
            let waiting = format!(" Asking {} …", known.address);
            let text = known.trouble.as_ref().map_or(waiting, |trouble| format!(" {trouble}"));
            return Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }).render(area, buffer);
        };
        let pair = Pair::new(known.before.as_ref(), now);
        let head = Head::new(known, pair, now, area.width);
        let [above, tabs, table, keys] = Layout::vertical([
            Constraint::Length(head.height()),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(area);
        head.draw(above, buffer);
        self.tabs().render(tabs, buffer);
        let look = &mut self.looks[self.chosen];
        look.draw(pair, now, inner(table), buffer);
        Line::from(" q quit  tab view  ←→ sort  r reverse  ↑↓ scroll  ? help").dim().render(keys, buffer);
        if self.has_help {
            draw_help(area, buffer);
        }
    }

    /// The names of the views, the one that is shown marked.
    fn tabs(&self) -> Line<'static> {
        let mut spans = vec![Span::from(" ")];
        for (at, view) in View::ALL.into_iter().enumerate() {
            let name = Span::from(format!(" {} {} ", at + 1, view.name()));
            spans.push(if at == self.chosen { name.reversed() } else { name.bold() });
        }
        Line::from(spans)
    }
}

/// Draws the whole screen in as many lines as it takes. Tables are `width` wide; so are the lines
/// above them, or, if `grows`, as wide as they are long.
pub(super) fn whole(known: &Known, width: u16, grows: bool) -> Buffer {
    let empty = Sample::default();
    let now = known.now.as_ref().unwrap_or(&empty);
    let pair = Pair::new(known.before.as_ref(), now);
    let head = Head::new(known, pair, now, width);
    let mut looks = View::ALL.map(Look::new);
    let tables: u16 =
        looks.iter().map(|look| look.height(pair, now).saturating_add(2)).fold(0, u16::saturating_add);
    let longest = if grows { head.longest() } else { 0 };
    let height = head.height().saturating_add(tables);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width.max(longest), height));
    let mut rest = buffer.area;
    let mut take = |height: u16| {
        let [taken, left] = Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(rest);
        rest = left;
        taken
    };
    head.draw(take(head.height()), &mut buffer);
    for look in &mut looks {
        take(1);
        Line::from(format!(" {}", look.view.name())).render(take(1), &mut buffer);
        let table = Rect { width, ..take(look.height(pair, now)) };
        look.draw(pair, now, inner(table), &mut buffer);
    }
    buffer
}

/// A place left free on both sides.
fn inner(area: Rect) -> Rect {
    Rect { x: area.x + area.width.min(1), width: area.width.saturating_sub(2), ..area }
}

/// The lines above the table.
struct Head<'a> {
    known: &'a Known,
    now: &'a Sample,
    summary: Summary,
    /// Figures, and parts of the bill, in a row.
    figures_across: u16,
    parts_across: u16,
}

impl<'a> Head<'a> {
    fn new(known: &'a Known, pair: Pair<'_>, now: &'a Sample, width: u16) -> Self {
        let across = |place: u16| (width.saturating_sub(1) / place).max(1);
        Self {
            known,
            now,
            summary: pair.summary(),
            figures_across: across(FIGURE_WIDTH),
            parts_across: across(PART_WIDTH),
        }
    }

    fn figures(&self) -> [(&'static str, String); 8] {
        let Summary { requests, hit_ratio, received, sent, evictions, refusals, slow, .. } = self.summary;
        [
            ("requests/s", rate(requests)),
            ("hits", percent(hit_ratio)),
            ("in", bytes_per_sec(received)),
            ("out", bytes_per_sec(sent)),
            ("connections", count(self.now.connections)),
            ("evictions/s", rate(evictions)),
            ("refusals/s", rate(refusals)),
            ("slow/s", rate(slow)),
        ]
    }

    /// The parts of the bill, and the free memory.
    fn parts(&self) -> Vec<(&'static str, u64)> {
        let of = |part: &Part| self.now.memory_bytes.get(part.name()).copied().unwrap_or(0);
        let mut parts: Vec<_> = Part::ALL.iter().map(|part| (part.name(), of(part))).collect();
        parts.push(("free", self.free() - self.lacking()));
        if self.lacking() > 0 {
            parts.push(("no room", self.lacking()));
        }
        parts
    }

    /// Returns the free bytes within the limit.
    fn free(&self) -> u64 {
        self.now.memory_limit_bytes.saturating_sub(self.used())
    }

    /// Returns the free bytes that the file system of shared memory does not have.
    fn lacking(&self) -> u64 {
        let room = self.now.shared_memory.as_ref().map_or(u64::MAX, |there| there.free_bytes);
        self.free().saturating_sub(room)
    }

    fn used(&self) -> u64 {
        self.now.memory_bytes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn height(&self) -> u16 {
        let rows = |places: usize, across: u16| (places as u16).div_ceil(across);
        let figures = rows(self.figures().len(), self.figures_across);
        let parts = rows(self.parts().len(), self.parts_across);
        3 + u16::from(self.lacking() > 0) + figures + self.summary.latencies.len() as u16 + parts
    }

    fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let mut lines = vec![self.server(), self.state()];
        lines.extend((self.lacking() > 0).then(|| self.shortage()));
        let figures = self.figures();
        for row in figures.chunks(usize::from(self.figures_across)) {
            let mut line = vec![Span::from(" ")];
            for (name, value) in row {
                let width = usize::from(FIGURE_WIDTH).saturating_sub(name.len() + 1);
                line.push(Span::from(format!("{name} ")).dim());
                line.push(Span::from(format!("{value:<width$}")).bold());
            }
            lines.push(Line::from(line));
        }
        lines.extend(self.summary.latencies.iter().map(|it| {
            let [half, most, nearly_all] = it.quantiles.map(latency);
            let protocol = Span::from(format!(" {:<11}", it.protocol)).dim();
            Line::from(vec![protocol, Span::from(format!("p50 {half:<9} p99 {most:<9} p99.9 {nearly_all}"))])
        }));
        let parts = self.parts();
        lines.extend(parts.chunks(usize::from(self.parts_across)).map(|row| {
            let mut line = vec![Span::from(" ")];
            row.iter().for_each(|part| line.extend(self.bar(part)));
            Line::from(line)
        }));
        Paragraph::new(lines).render(area, buffer);
    }

    /// The length of the longest line that names addresses or troubles, in columns.
    fn longest(&self) -> u16 {
        let longest = self.server().width().max(self.state().width()).max(self.shortage().width());
        u16::try_from(longest).unwrap_or(u16::MAX)
    }

    fn server(&self) -> Line<'_> {
        let Sample { version, uptime_secs, threads, .. } = self.now;
        let name = Span::from(format!(" millpond {version}")).bold();
        let rest = format!("  {}  up {}  threads {threads}", self.known.address, time(*uptime_secs));
        Line::from(vec![name, Span::from(rest)])
    }

    /// Returns the line that says whether the server answers, and how full it is.
    fn state(&self) -> Line<'_> {
        match &self.known.trouble {
            Some(trouble) => Line::from(format!(" The figures are old: {trouble}")).fg(Color::Red),
            None => {
                let (used, limit) = (self.used(), self.now.memory_limit_bytes);
                let share = (limit > 0).then(|| used as f64 / limit as f64);
                let places: Vec<&str> =
                    self.now.listeners.iter().map(|it| plain_address(&it.address)).collect();
                let memory = format!("memory {} of {}, {}", bytes(used), bytes(limit), percent(share));
                Line::from(format!(" {memory}  serves {}", places.join(", ")))
            }
        }
    }

    /// Returns the line about the memory that the file system of the cache lacks.
    fn shortage(&self) -> Line<'_> {
        let lacking = bytes(self.lacking());
        Line::from(format!(" The file system of shared_memory is too full for {lacking} of the memory."))
            .fg(Color::Yellow)
    }

    /// A part of the bill as `slabs       ████▌      1.5 GiB`.
    fn bar(&self, (name, part): &(&'static str, u64)) -> [Span<'static>; 3] {
        const CELLS: u64 = 14;
        const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let limit = self.now.memory_limit_bytes.max(1);
        let eighths = (u128::from(*part) * u128::from(CELLS * 8) / u128::from(limit))
            .min(u128::from(CELLS * 8)) as usize;
        let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
        let color = if *name == "free" { Color::DarkGray } else { Color::Cyan };
        [
            Span::from(format!("{name:<12}")).dim(),
            Span::styled(format!("{bar:<width$}", width = CELLS as usize), Style::from(color)),
            Span::from(format!(" {:>9}   ", bytes(*part))),
        ]
    }
}

/// `127.0.0.1:11211` for `tcp://127.0.0.1:11211`.
fn plain_address(address: &str) -> &str {
    address.strip_prefix("tcp://").unwrap_or(address)
}

fn draw_help(area: Rect, buffer: &mut Buffer) {
    const LINES: [&str; 16] = [
        " millpond top",
        "",
        " tab, shift-tab, 1-4   the next view, the one before, a view",
        " left, right           sort by another column",
        " r                     sort the other way round",
        " up, down, page keys   scroll",
        " q, esc, ctrl-c        quit",
        "",
        " Rates, hits and latencies are of the last interval; a dash is",
        " what is not known. Tail age is for how long what leaves next",
        " was not used, or under policies that do not know that, for how",
        " long the oldest item is there; of a pool, in its largest class.",
        " Waits are of connections whose tenant's rate is spent. More",
        " memory: the miss ratio of an LRU of other sizes.",
        "",
        " Any key closes this.",
    ];
    let size = Rect::new(0, 0, 68.min(area.width), (LINES.len() as u16).min(area.height));
    let place = Rect {
        x: area.x + (area.width - size.width) / 2,
        y: area.y + (area.height - size.height) / 2,
        ..size
    };
    Clear.render(place, buffer);
    Paragraph::new(LINES.map(Line::from).to_vec()).reversed().render(place, buffer);
}
