//! A server that speaks memcached's text protocol, under check: one connection per caller, one request at a time.

use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use base::Clock;

use super::line::Line;
use super::subject::{Caller, Subject, Touched};
use crate::run::Stream;
use crate::target::memcached::Memcached;
use crate::target::{Address, Event, Wire as _};

/// memcached's clock ticks once a second and is asked before a lifetime is added, so that an item may outlive it by
/// one tick; the second is for the server's idea of the time.
const SLACK_SECS: u64 = 2;

/// A server.
pub(crate) struct ServerSubject {
    address: Address,
    name: String,
    clock: Clock,
    /// For flushes.
    client: Mutex<Client>,
}

impl ServerSubject {
    /// Connects.
    pub(crate) fn open(address: &Address, name: String) -> Result<Self> {
        let client = Mutex::new(Client::open(address)?);
        Ok(Self { address: address.clone(), name, clock: Clock::System, client })
    }
}

impl Subject for ServerSubject {
    fn caller(&self) -> Result<Box<dyn Caller + '_>> {
        Ok(Box::new(Client::open(&self.address)?))
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
        let mut client = self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        client.line.output.extend_from_slice(b"flush_all\r\n");
        client.ask("flush_all")?.context("the server refuses flush_all")
    }
}

/// A connection that speaks the text protocol.
pub(crate) struct Client {
    line: Line,
    refusal: Option<String>,
}

impl Client {
    pub(crate) fn over(line: Line) -> Self {
        Self { line, refusal: None }
    }

    fn open(address: &Address) -> Result<Self> {
        let stream = Stream::open(address).with_context(|| format!("connecting to {address}"))?;
        Ok(Self::over(Line::new(stream)))
    }

    /// Sends a request that is no read. Whether it was done; `None` where it was refused.
    fn ask(&mut self, what: &str) -> Result<Option<bool>> {
        self.line.send().context("sending a request")?;
        self.refusal = None;
        loop {
            self.line.receive().context("waiting for a reply")?;
            if let Some((event, bytes)) = Memcached.event(self.line.arrived())? {
                let answer = match event {
                    Event::Done => Some(true),
                    Event::NotDone => Some(false),
                    Event::Refused(why) => {
                        self.refusal = Some(String::from_utf8_lossy(why).into_owned());
                        None
                    }
                    other => bail!("the server answered {other:?} to a {what}"),
                };
                self.line.take(bytes);
                return Ok(answer);
            }
        }
    }
}

impl Caller for Client {
    fn get(&mut self, _pool: u16, keys: &[&[u8]], seen: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        Memcached.get(keys, &mut self.line.output);
        self.line.send().context("sending a request")?;
        let mut next = 0;
        loop {
            self.line.receive().context("waiting for a reply")?;
            while let Some((event, bytes)) = Memcached.event(self.line.arrived())? {
                match event {
                    Event::Value(key, value) => {
                        let place = keys.iter().skip(next).position(|wanted| *wanted == key);
                        let Some(place) = place else {
                            bail!("the server sent a value that nobody asked for")
                        };
                        next += place + 1;
                        seen(next - 1, value);
                    }
                    Event::End => {
                        self.line.take(bytes);
                        return Ok(());
                    }
                    other => bail!("the server answered {other:?} to a get"),
                }
                self.line.take(bytes);
            }
        }
    }

    fn set(&mut self, _pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> Result<bool> {
        Memcached.set(key, value, ttl_secs, &mut self.line.output);
        Ok(self.ask("set")?.unwrap_or(false))
    }

    fn delete(&mut self, _pool: u16, key: &[u8]) -> Result<bool> {
        Memcached.delete(key, &mut self.line.output);
        self.ask("delete")?.context("the server refused a delete")
    }

    fn touch(&mut self, _pool: u16, key: &[u8], ttl_secs: u32) -> Result<Touched> {
        Memcached.touch(key, ttl_secs, &mut self.line.output);
        Ok(match self.ask("touch")? {
            Some(true) => Touched::Done,
            Some(false) => Touched::Nothing,
            None => Touched::NothingOrRefused,
        })
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}
