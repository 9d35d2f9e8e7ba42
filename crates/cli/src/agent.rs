//! `millpond agent`: an agent of another server until a signal ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::command::{AgentArguments, report, report_json};
use console::text::say;
use signal_hook::consts::{SIGINT, SIGTERM};

/// The time after which a signal is noticed.
const TICK: Duration = Duration::from_millis(100);

/// Runs the agent until SIGTERM or Ctrl-C; without an orchestrator, prints reports.
///
/// # Errors
/// In words, if the server cannot be reached, or a flag is wrong.
pub(crate) fn run(arguments: &AgentArguments) -> Result<(), String> {
    crate::orchestrate::log();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| format!("signals cannot be received: {error}"))?;
    }
    if arguments.orchestrator.is_none() {
        return print(arguments, &stop);
    }
    let service = arguments.start()?;
    say(&format!("The agent of {} listens on {}.\n", arguments.target, service.address()));
    while !stop.load(Ordering::Relaxed) {
        base::thread::sleep(TICK);
    }
    service.stop();
    Ok(())
}

fn print(arguments: &AgentArguments, stop: &AtomicBool) -> Result<(), String> {
    let mut instance = arguments.open()?;
    let ticks = arguments.every_secs * 10;
    let (mut last, mut reports) = (None, 0);
    while !stop.load(Ordering::Relaxed) {
        match instance.look() {
            Ok(look) => {
                say(&if arguments.json { report_json(&look) } else { report(&look, last.as_ref()) });
                last = Some(look);
            }
            // It may be back in the next round.
            Err(error) => eprintln!("millpond: {}", control::access::causes(&error)),
        }
        reports += 1;
        if arguments.reports.is_some_and(|most| reports >= most) {
            break;
        }
        for _ in (0..ticks).take_while(|_| !stop.load(Ordering::Relaxed)) {
            base::thread::sleep(TICK);
        }
    }
    Ok(())
}
