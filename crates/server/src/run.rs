//! `millpond serve`: a server that runs until a signal stops it.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use base::Clock;
use config::load::{Loaded, Survey};
use config::{Error, ErrorKind};
use frontend::changing::Origin;
use frontend::log::LogControl;
use frontend::session::Protocols;
use millpond::Cache;
use millpond::secondary::SecondaryCache;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::activation::Activated;
use crate::banner;
use crate::notify;
use crate::preflight;
use crate::server::Server;

/// Serves clients of `protocols` until SIGTERM, SIGINT or SIGUSR1, the signal for a graceful stop
/// of memcached; then drains and returns. On SIGHUP calls `load` again and applies the settings
/// that can be changed while serving. `load` gets the checks to make on this machine.
///
/// # Errors
/// If the configuration is rejected or the server cannot start, and if a worker dies.
pub fn run(protocols: Protocols, load: impl Fn(Survey<'_>) -> Result<Loaded, Error>) -> Result<(), Error> {
    serve(protocols, None, load)
}

/// As [`run`], over a cache beneath memory ([`Server::start_over`]).
///
/// # Errors
/// As [`run`].
#[doc(hidden)]
pub fn run_over(
    protocols: Protocols,
    secondary: Arc<dyn SecondaryCache>,
    begin: impl FnOnce(&Cache),
    load: impl Fn(Survey<'_>) -> Result<Loaded, Error>,
) -> Result<(), Error> {
    serve(protocols, Some((secondary, Box::new(begin))), load)
}

/// A cache beneath memory, and what begins its work once there is the cache above it.
type SecondaryStart<'b> = (Arc<dyn SecondaryCache>, Box<dyn FnOnce(&Cache) + 'b>);

fn serve(
    protocols: Protocols,
    secondary: Option<SecondaryStart<'_>>,
    load: impl Fn(Survey<'_>) -> Result<Loaded, Error>,
) -> Result<(), Error> {
    let activated = Activated::from_environment()?;
    let Loaded { file, config, warnings, overrides } = load(&|config| preflight::start(config, &activated))?;
    let log = LogControl::start(config.log.level);
    let _last_lines = log.last_lines();
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP])
        .map_err(|e| Error::with_source(ErrorKind::System, "signals cannot be received", e))?;
    let (secondary, begin) = secondary.unzip();
    let server = Server::start_with(config, protocols, (Clock::System, secondary), activated)?;
    if let Some(begin) = begin {
        begin(server.cache());
    }
    server.shared().changing.set_origin(Origin { file: file.clone(), overrides, log: log.clone() });
    announce(&server);
    let listening = listening(&server);
    notify::ready(&listening);
    notify::start_watchdog(server.shared());
    let handle = signals.handle();
    server.on_failure(move || handle.close());
    for signal in signals.forever() {
        if signal == SIGHUP {
            notify::reloading();
            reload(&server, file.as_deref(), &load);
            // A program that waits for the reload finds in the log whether the change was made.
            log.flush();
            notify::ready(&listening);
        } else {
            tracing::info!(connections = server.connections(), "Told to stop; answering what has arrived.");
            break;
        }
    }
    notify::stopping();
    let failed = server.has_failed();
    server.stop();
    if failed {
        return Err(Error::new(ErrorKind::System, "a worker panicked"));
    }
    tracing::info!("Stopped.");
    Ok(())
}

/// Returns the kinds of clients and the addresses that are served, as one text.
fn listening(server: &Server) -> String {
    banner::listening(&server.config(), &server.addresses())
}

/// Prints the listeners, what holds there, and a line or two to try.
fn announce(server: &Server) {
    let text = banner::text(&server.config(), &server.addresses(), server.admin_address());
    // The program that started the server may have closed its standard output; it serves all the
    // same.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn reload(server: &Server, file: Option<&Path>, load: &impl Fn(Survey<'_>) -> Result<Loaded, Error>) {
    // A pipe that was read at the start is empty now, and a reader would wait for ever.
    let is_there = file.map_or(Ok(()), |file| config::files::read(file).map(drop)).map_err(|error| {
        Error::with_source(ErrorKind::Config, "the configuration file cannot be read again", error)
    });
    let loaded = is_there.and_then(|()| load(&preflight::files));
    match loaded.and_then(|loaded| server.instance().reload(&loaded.config, "SIGHUP")) {
        Ok(changes) if changes.is_empty() => {
            tracing::info!("The configuration was reloaded; nothing in it has changed.");
        }
        Ok(_) => {}
        Err(error) => {
            // One line of the log for all that is wrong.
            let error = error.to_string().replace('\n', "; ");
            tracing::error!(error, "The configuration was not reloaded.");
        }
    }
}
