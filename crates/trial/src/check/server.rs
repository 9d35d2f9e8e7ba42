//! A server under check, whatever it speaks: one connection per caller, one request at a time.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use base::Clock;
use bench::run::Stream;
use bench::targets::Address;

use super::line::Line;
use super::subject::{Caller, Subject};

/// memcached's clock ticks once a second and is asked before a lifetime is added, so that an item
/// may outlive it by one tick. What speaks RESP counts in milliseconds, and the second in which a
/// call ends here may be over by nearly one. The other second is for the server's idea of the time.
const SLACK_SECS: u64 = 2;

/// A connection to a server.
pub(crate) trait ServerCaller: Caller + Send + 'static {
    /// Speaks over this line, on which nothing was said yet.
    fn over(line: Line) -> Self;

    /// Removes all keys.
    ///
    /// # Errors
    /// Where the server cannot be reached, or refuses.
    fn flush(&mut self) -> Result<()>;
}

/// A server, whose clients are `C`s.
pub(crate) struct ServerSubject<C> {
    address: Address,
    name: String,
    clock: Clock,
    /// For flushes.
    client: Mutex<C>,
}

impl<C: ServerCaller> ServerSubject<C> {
    /// Connects, and empties the server: a value that a former check left behind would be one that
    /// nobody has written.
    ///
    /// # Errors
    /// Where there is no server, or it refuses to be emptied.
    pub(crate) fn open(address: &Address, name: String) -> Result<Self> {
        let mut client: C = connect(address)?;
        client.flush().context("emptying the server")?;
        Ok(Self { address: address.clone(), name, clock: Clock::System, client: Mutex::new(client) })
    }
}

fn connect<C: ServerCaller>(address: &Address) -> Result<C> {
    let stream = Stream::open(address).with_context(|| format!("connecting to {address}"))?;
    Ok(C::over(Line::new(stream)))
}

impl<C: ServerCaller> Subject for ServerSubject<C> {
    fn caller(&self) -> Result<Box<dyn Caller + '_>> {
        Ok(Box::new(connect::<C>(&self.address)?))
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn slack_secs(&self) -> u64 {
        SLACK_SECS
    }

    fn flush(&self) -> Result<bool> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).flush()?;
        Ok(true)
    }
}
