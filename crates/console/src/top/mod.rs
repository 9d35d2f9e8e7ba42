//! `millpond top`: the activity of a running server, as a live view in a terminal or as one frame
//! of text.
//!
//! It is a client of the admin API and nothing more: one thread asks for `/stats.json` and
//! `/hotkeys.json` at each interval, and the figures are the differences of the last two answers.

mod draw;
mod figures;
mod live;
mod sample;
mod table;
mod text;

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use ratatui::buffer::Buffer;
use ratatui::text::Span;

use self::draw::Known;
use self::sample::Sample;
use crate::admin::AdminArguments;
use crate::text::say;

/// The width of tables if there is no terminal to ask.
const PLAIN_WIDTH: u16 = 120;
const SHORTEST: Duration = Duration::from_millis(100);

/// The arguments of `millpond top`.
#[derive(Debug, Args)]
pub struct TopArguments {
    #[command(flatten)]
    admin: AdminArguments,
    /// Interval at which the server is asked.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one frame as text, of one interval, and exit; the default if standard output is not a
    /// terminal.
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = workload::length::duration(text)?;
    if interval < SHORTEST { Err("at least 100ms".to_owned()) } else { Ok(interval) }
}

impl TopArguments {
    /// Shows the server until the user has seen enough.
    ///
    /// # Errors
    /// Why the server cannot be asked, or the terminal not be used.
    pub fn show(self) -> Result<(), String> {
        if self.once || !std::io::stdout().is_terminal() {
            return self.print();
        }
        live::run(self.admin, self.interval)
    }

    /// One frame, as text.
    fn print(&self) -> Result<(), String> {
        let mut known = Known { address: self.admin.address().to_owned(), ..Known::default() };
        known.learn(Ok(ask(&self.admin)?));
        base::thread::sleep(self.interval);
        known.learn(Ok(ask(&self.admin)?));
        let size = ratatui::crossterm::terminal::size().ok().filter(|_| std::io::stdout().is_terminal());
        let width = size.map_or(PLAIN_WIDTH, |(width, _)| width);
        say(&plain(&draw::whole(&known, width, size.is_none())));
        Ok(())
    }
}

/// Fetches a sample of the server.
fn ask(admin: &AdminArguments) -> Result<Sample, String> {
    let (stats, hot_keys) = (admin.page("/stats.json")?, admin.page("/hotkeys.json")?);
    Sample::read(&stats, &hot_keys)
        .map_err(|error| format!("{} does not answer as a server of Millpond: {error}", admin.address()))
}

/// A frame without colours.
fn plain(frame: &Buffer) -> String {
    let width = usize::from(frame.area.width).max(1);
    let mut text = String::new();
    for row in frame.content.chunks(width) {
        let mut line = String::new();
        let mut place = 0;
        while let Some(cell) = row.get(place) {
            line.push_str(cell.symbol());
            // A wide character has the cells behind its own as well.
            place += Span::raw(cell.symbol()).width().max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
