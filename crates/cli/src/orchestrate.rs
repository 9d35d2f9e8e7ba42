//! `millpond orchestrate`: the orchestrator until a signal ends it.

use console::text::say;
use orchestrator::command::OrchestrateArguments;

use crate::signals::Stop;

/// Runs the orchestrator until SIGTERM or Ctrl-C.
///
/// # Errors
/// In words, if it cannot be started.
pub(crate) fn run(arguments: &OrchestrateArguments) -> Result<(), String> {
    log();
    let stop = Stop::on_signal()?;
    let service = arguments.start()?;
    say(&format!("Agents register at {}.\n", service.address()));
    if let Some(admin) = service.admin_address() {
        say(&format!("http://{admin}/ shows what it does, and so does `millpond fleet status`.\n"));
    }
    while !stop.wait(1) {
        if !service.is_up() {
            return Err(
                "the orchestrator has ended by an error, which the log shows; this is a bug".to_owned()
            );
        }
    }
    service.stop();
    Ok(())
}

/// Logs to standard error.
pub(crate) fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("MILLPOND_LOG_LEVEL")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(is_terminal).with_target(false);
    // Something else in the process may log already.
    let _ = log.with_env_filter(filter).try_init();
}
