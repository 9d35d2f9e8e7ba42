//! The live view: a thread that asks, a loop that draws and reads keys, and a terminal that is
//! restored afterwards, however the view ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::draw::{Known, Screen};
use super::sample::Sample;
use crate::admin::AdminArguments;

/// For how long a key is waited for before answers are looked for again.
const PATIENCE: Duration = Duration::from_millis(50);
/// Rows that a page key scrolls by.
const PAGE: isize = 10;

type Answers = Receiver<Result<Sample, String>>;

/// Shows the server until the user has seen enough.
pub(super) fn run(admin: AdminArguments, interval: Duration) -> Result<(), String> {
    let failed = |error: io::Error| format!("the terminal cannot be used: {error}");
    let known = Known { address: admin.address().to_owned(), ..Known::default() };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
    }
    let answers = ask_again_and_again(admin, interval).map_err(failed)?;
    // From here on a panic restores the terminal before it says anything.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let end = show(&mut terminal, known, &answers, &stop);
    ratatui::restore();
    end.map_err(failed)
}

/// Asks on a thread of its own, so that a server that does not answer delays no key. The thread
/// ends when its receiver is dropped.
fn ask_again_and_again(admin: AdminArguments, interval: Duration) -> io::Result<Answers> {
    let (teller, answers) = channel();
    base::thread::spawn("ask", move || {
        while teller.send(super::ask(&admin)).is_ok() {
            base::thread::sleep(interval);
        }
    })?;
    Ok(answers)
}

fn show(
    terminal: &mut DefaultTerminal,
    mut known: Known,
    answers: &Answers,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut screen = Screen::new();
    let mut is_changed = true;
    while !stop.load(Ordering::Relaxed) {
        if is_changed {
            terminal.draw(|frame| screen.draw(&known, frame.area(), frame.buffer_mut()))?;
        }
        is_changed = false;
        while let Ok(answer) = answers.try_recv() {
            known.learn(answer);
            is_changed = true;
        }
        if !wait()? {
            continue;
        }
        is_changed = true;
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && !press(&mut screen, key)
        {
            break;
        }
    }
    Ok(())
}

/// Waits, and returns whether a key was pressed or the size changed.
///
/// # Errors
/// If the terminal is gone: crossterm would read from it for ever.
fn wait() -> io::Result<bool> {
    let screen = io::stdout();
    let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(PATIENCE.subsec_nanos()) };
    let mut fds = [PollFd::new(&screen, PollFlags::IN)];
    match poll(&mut fds, Some(&patience)) {
        // One of the signals of `run`.
        Err(Errno::INTR) => return Ok(false),
        result => result?,
    };
    if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    event::poll(Duration::ZERO)
}

/// Handles a key; false if the view is to close.
pub(super) fn press(screen: &mut Screen, key: KeyEvent) -> bool {
    if matches!(key.code, KeyCode::Char('c')) && key.modifiers.contains(KeyModifiers::CONTROL) {
        return false;
    }
    if std::mem::take(&mut screen.has_help) {
        return true;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('?' | 'h') => screen.has_help = true,
        KeyCode::Tab => screen.turn(true),
        KeyCode::BackTab => screen.turn(false),
        KeyCode::Char(digit @ '1'..='9') => screen.choose(digit as usize - '1' as usize),
        KeyCode::Right => screen.look().turn(true),
        KeyCode::Left => screen.look().turn(false),
        KeyCode::Char('r') => screen.look().reverse(),
        KeyCode::Down => screen.look().scroll(1),
        KeyCode::Up => screen.look().scroll(-1),
        KeyCode::PageDown => screen.look().scroll(PAGE),
        KeyCode::PageUp => screen.look().scroll(-PAGE),
        _ => {}
    }
    true
}
