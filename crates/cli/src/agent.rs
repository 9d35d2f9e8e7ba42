//! `millpond agent`: an agent of another server until a signal ends it.

use agent::command::{AgentArguments, report, report_json};
use console::text::say;

use crate::signals::Stop;

/// Runs the agent until SIGTERM or Ctrl-C; without an orchestrator, prints reports.
///
/// # Errors
/// In words, if a flag is wrong, or none of the reports that were asked for could be made.
pub(crate) fn run(arguments: &AgentArguments) -> Result<(), String> {
    let _log = crate::orchestrate::log();
    let stop = Stop::on_signal()?;
    if arguments.orchestrator.is_empty() {
        return print(arguments, &stop);
    }
    let service = arguments.start()?;
    say(&format!("The agent of {} listens on {}.\n", arguments.target, service.address()));
    while !stop.wait(1) {
        if !service.is_up() {
            return Err("the agent has ended by an error, which the log shows; this is a bug".to_owned());
        }
    }
    service.stop();
    Ok(())
}

fn print(arguments: &AgentArguments, stop: &Stop) -> Result<(), String> {
    let mut instance = arguments.open()?;
    let (mut last, mut reports, mut failed) = (None, 0, 0);
    loop {
        match instance.look() {
            Ok(look) => {
                say(&if arguments.json { report_json(&look) } else { report(&look, last.as_ref()) });
                last = Some(look);
            }
            // It may be back in the next round.
            Err(error) => {
                eprintln!("millpond: {}", control::access::causes(&error));
                failed += 1;
            }
        }
        reports += 1;
        if arguments.reports.is_some_and(|most| reports >= most) {
            return if failed < reports {
                Ok(())
            } else {
                Err(format!("no report of {} could be made", arguments.target))
            };
        }
        if stop.wait(arguments.every_secs * 10) {
            return Ok(());
        }
    }
}
