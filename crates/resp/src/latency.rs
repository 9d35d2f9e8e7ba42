//! `LATENCY`: the latency of commands, and slow requests. A client sees those of its own tenant.

use std::fmt::Write as _;

use super::arguments::{arg, is, subcommand};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use protocol::resp::commands::{NUMBERS, name_of, numbers_named};
use tenancy::spikes::{Event, Series};

/// Columns of a graph; what is more goes below.
const COLUMNS: usize = 80;
/// Lines of a graph, and the marks of a line: the higher, the more is behind.
const ROWS: u64 = 4;
const MARKS: [char; 3] = ['_', 'o', '#'];
/// Marks a column that continues above.
const BELOW: char = '|';

impl<'c> Commands<'_, 'c> {
    pub(super) fn latency(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let names = args.get(2..).unwrap_or_default();
        match subcommand(args) {
            "histogram" => self.tell_histograms(names, w),
            "latest" => {
                let known: Vec<(Event, Series)> = self.events().collect();
                w.array(known.len());
                for (event, series) in known {
                    w.array(4);
                    w.bulk(event.name().as_bytes());
                    let latest = series.spikes.back();
                    w.integer(latest.map_or(0, |spike| spike.at_secs.into()));
                    w.integer(latest.map_or(0, |spike| spike.millis as i64));
                    w.integer(series.worst_millis as i64);
                }
            }
            "history" => {
                let spikes =
                    self.event(arg(names, 0)).map_or_else(Default::default, |(_, series)| series.spikes);
                w.array(spikes.len());
                for spike in spikes {
                    w.array(2);
                    w.integer(spike.at_secs.into());
                    w.integer(spike.millis as i64);
                }
            }
            "graph" => {
                let Some((event, series)) = self.event(arg(names, 0)) else {
                    let event = String::from_utf8_lossy(arg(names, 0)).into_owned();
                    let text = format!("ERR No samples available for event '{event}'");
                    return Err(Failure::from_text(text));
                };
                w.verbatim(graph(event, &series, self.shared.clock.unix_secs()).as_bytes());
            }
            "reset" => {
                let is_meant =
                    |event: &Event| names.is_empty() || names.iter().any(|name| is(name, event.name()));
                let (spikes, ledger) = (&self.account.tenant.spikes, self.shared.cache.ledger());
                let gone =
                    Event::ALL.into_iter().filter(is_meant).filter(|event| spikes.forget(*event, ledger));
                w.integer(gone.count() as i64);
            }
            "doctor" => w.verbatim(self.diagnosis().as_bytes()),
            _ => w.help(args),
        }
        Ok(())
    }

    /// The events of the tenant that there were.
    fn events(&self) -> impl Iterator<Item = (Event, Series)> {
        let spikes = &self.account.tenant.spikes;
        Event::ALL.into_iter().filter_map(|event| Some((event, spikes.of(event)?)))
    }

    /// The event of that name, if there was one.
    fn event(&self, name: &[u8]) -> Option<(Event, Series)> {
        self.events().find(|(event, _)| event.name().as_bytes() == name)
    }

    /// Writes the latency histograms of all commands that were called, or of those that are named.
    fn tell_histograms(&self, names: &[&[u8]], w: &mut Writer<'_, 'c>) {
        let figures = self.figures_seen();
        let wanted: Vec<usize> = if names.is_empty() {
            (0..NUMBERS).collect()
        } else {
            names.iter().flat_map(|name| numbers_named(name)).collect()
        };
        let known = wanted.into_iter().filter_map(|number| Some((number, figures.get(number)?)));
        let known: Vec<_> = known.filter(|(_, figures)| figures.times.timed() > 0).collect();
        w.map(known.len());
        for (number, figures) in known {
            w.bulk(name_of(number).as_bytes());
            w.map(2);
            w.bulk(b"calls");
            w.integer(figures.calls() as i64);
            w.bulk(b"histogram_usec");
            let bounds = figures.times.cumulative(figures.calls());
            w.map(bounds.len());
            for (micros, calls) in bounds {
                w.integer(micros as i64);
                w.integer(calls as i64);
            }
        }
    }

    /// Explains the events in prose.
    fn diagnosis(&self) -> String {
        let threshold = self.settings.latency_nanos;
        let mut text = String::new();
        for (event, Series { spikes, worst_millis }) in self.events() {
            let count = spikes.len().max(1) as u64;
            let mean = spikes.iter().map(|spike| spike.millis).sum::<u64>() / count;
            let deviation = spikes.iter().map(|spike| spike.millis.abs_diff(mean)).sum::<u64>() / count;
            let _ = writeln!(
                text,
                "{}: {count} seconds with slow requests, of {mean} ms in the mean, {deviation} ms from it in the mean; the slowest took \
                 {worst_millis} ms.",
                event.name()
            );
            text.push_str(match event {
                Event::Command => {
                    "  SLOWLOG GET has the requests that took longer than slowlog-log-slower-than. Large collections, KEYS and long \
                     transactions take time in proportion to what they look at.\n"
                }
                Event::FastCommand => {
                    "  These commands do little: their worker had no processor, or memory was short. Look at the machine's load, and \
                     whether it swaps.\n"
                }
            });
        }
        match (text.is_empty(), threshold) {
            (true, None) => "Nothing is noted: the latency monitor is off. CONFIG SET latency-monitor-threshold <milliseconds> \
                             switches it on.\n"
                .to_owned(),
            (true, Some(nanos)) => format!("No request has taken {} ms or longer.\n", nanos / 1_000_000),
            _ => text,
        }
    }
}

/// Draws the latency of requests, a column for each second in which one was slow, with the age of
/// that second below.
fn graph(event: Event, series: &Series, now_secs: u32) -> String {
    let millis = || series.spikes.iter().map(|spike| spike.millis);
    let (high, low) = (millis().max().unwrap_or(0), millis().min().unwrap_or(0));
    let mut text = format!(
        "{} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        event.name(),
        series.worst_millis,
        "-".repeat(COLUMNS)
    );
    let levels = ROWS * MARKS.len() as u64;
    let columns: Vec<(u64, String)> = series
        .spikes
        .iter()
        .map(|spike| {
            let level = (spike.millis - low) * levels / (high - low).max(1);
            (level.min(levels - 1), ago(now_secs.saturating_sub(spike.at_secs)))
        })
        .collect();
    for (at, part) in columns.chunks(COLUMNS).enumerate() {
        if at > 0 {
            text.push('\n');
        }
        for row in (0..ROWS).rev() {
            let bottom = row * MARKS.len() as u64;
            let mark = |level: u64| match level.checked_sub(bottom) {
                None => ' ',
                Some(above) => MARKS.get(above as usize).copied().unwrap_or(BELOW),
            };
            text.extend(part.iter().map(|(level, _)| mark(*level)));
            text.push('\n');
        }
        text.push_str(&" ".repeat(part.len()));
        text.push('\n');
        let longest = part.iter().map(|(_, label)| label.len()).max().unwrap_or(0);
        for place in 0..longest {
            text.extend(part.iter().map(|(_, label)| label.chars().nth(place).unwrap_or(' ')));
            text.push('\n');
        }
    }
    text
}

/// A time in the largest unit that it has one of.
fn ago(secs: u32) -> String {
    match secs {
        0..60 => format!("{secs}s"),
        60..3_600 => format!("{}m", secs / 60),
        3_600..86_400 => format!("{}h", secs / 3_600),
        _ => format!("{}d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenancy::spikes::Spike;

    #[test]
    fn a_graph_is_drawn_as_redis_draws_it() {
        let spikes = [(100, 10), (150, 130), (40, 70), (190, 10)];
        let spikes = spikes.map(|(at_secs, millis)| Spike { at_secs, millis });
        let series = Series { spikes: spikes.into_iter().collect(), worst_millis: 500 };
        let drawn = graph(Event::Command, &series, 200);
        let expected = [
            "command - high 130 ms, low 10 ms (all time high 500 ms)",
            &"-".repeat(80),
            " #  ",
            " |_ ",
            " || ",
            "_||_",
            "    ",
            "1521",
            "m0m0",
            " s s",
        ];
        assert_eq!(drawn.lines().collect::<Vec<_>>(), expected);
    }
}
