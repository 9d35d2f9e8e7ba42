//! `millpond serve`: a server that lives until it is told to stop by a signal.

use std::io::Write as _;

use base::Clock;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::activation::Activated;
use crate::config::load::Loaded;
use crate::config::{Address, Protocol};
use crate::error::{Error, ErrorKind};
use crate::log::LogControl;
use crate::notify;
use crate::reload::Origin;
use crate::server::Server;

/// Serves until SIGTERM or SIGINT, then drains and returns. On SIGHUP calls `load` again and applies what can be changed
/// while serving.
///
/// # Errors
/// Where the configuration is refused or the server cannot start, and where a worker dies.
pub fn run(load: impl Fn() -> Result<Loaded, Error>) -> Result<(), Error> {
    let activated = Activated::from_environment()?;
    let Loaded { file, config, warnings } = load()?;
    let log = LogControl::start(config.log.level);
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|e| Error::with_source(ErrorKind::System, "signals cannot be received", e))?;
    let server = Server::start_with(config, Clock::System, activated)?;
    server.shared().changing.set_origin(Origin { file, log });
    announce(&server);
    let listening = listening(&server);
    notify::ready(&listening);
    notify::start_watchdog(server.shared());
    let handle = signals.handle();
    server.on_failure(move || handle.close());
    for signal in signals.forever() {
        if signal == SIGHUP {
            notify::reloading();
            reload(&server, &load);
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

/// Whose clients it serves, and where, as one text.
fn listening(server: &Server) -> String {
    let (config, addresses) = (server.config(), server.addresses());
    let shown: Vec<String> = addresses
        .iter()
        .zip(&config.listeners)
        .map(|((name, address), listener)| {
            format!("{} clients on {address} ({name})", clients(listener.protocol))
        })
        .collect();
    shown.join(", ")
}

/// Says where it listens, and one line to try.
fn announce(server: &Server) {
    let config = server.config();
    let addresses = server.addresses();
    let mut text = format!(
        "millpond {} serves {}\n  {} of memory, {} worker threads, pools: {}\n",
        env!("CARGO_PKG_VERSION"),
        listening(server),
        config.memory(),
        config.threads(),
        config.pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", "),
    );
    if let Some(address) = server.admin_address() {
        text.push_str(&format!("  metrics: http://{address}/metrics\n"));
    }
    let speaks_text = |protocol| protocol != Protocol::MemcachedBinary;
    let mut listeners = addresses.iter().zip(&config.listeners);
    if let Some(((_, address), listener)) = listeners.find(|(_, listener)| speaks_text(listener.protocol)) {
        text.push_str(&format!("  try: {}\n", try_line(address, listener.protocol)));
    }
    // Whoever started the server may have closed its standard output; it serves all the same.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Whose clients are served by a protocol.
fn clients(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Auto => "memcached and Redis",
        Protocol::Resp => "Redis",
        Protocol::Memcached | Protocol::MemcachedText | Protocol::MemcachedBinary => "memcached",
    }
}

/// A command that stores and fetches something.
fn try_line(address: &Address, protocol: Protocol) -> String {
    let request = match protocol {
        Protocol::Resp => r"printf 'set hello world\r\nget hello\r\nquit\r\n'",
        _ => r"printf 'set hello 0 0 5\r\nworld\r\nget hello\r\nquit\r\n'",
    };
    match address {
        // Bash can open connections itself, so that nothing needs to be installed.
        Address::Tcp(address) => {
            let (ip, port) = (address.ip(), address.port());
            format!("bash -c \"exec 3<>/dev/tcp/{ip}/{port}; {request} >&3; cat <&3\"")
        }
        Address::Unix(path) => format!("{request} | nc -U {}", path.display()),
    }
}

fn reload(server: &Server, load: &impl Fn() -> Result<Loaded, Error>) {
    match load().and_then(|loaded| server.shared().reload(&loaded.config, "SIGHUP")) {
        Ok(changes) if changes.is_empty() => {
            tracing::info!("The configuration was reloaded; nothing in it has changed.");
        }
        Ok(_) => {}
        Err(error) => tracing::error!(%error, "The configuration was not reloaded."),
    }
}
