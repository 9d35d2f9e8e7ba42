//! A server that speaks memcached's text protocol, under check: one connection per caller, one request at a time.

use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use base::Clock;

use super::subject::{Caller, Subject, Touched};
use crate::run::Stream;
use crate::target::memcached::Memcached;
use crate::target::{Address, Event, Wire as _};

/// memcached's clock ticks once a second and is asked before a lifetime is added, so that an item may outlive it by
/// one tick; the second is for the server's idea of the time.
const SLACK_SECS: u64 = 2;
/// More than any value that is written here.
const MOST_REPLY_BYTES: usize = 64 << 20;

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
        client.output.extend_from_slice(b"flush_all\r\n");
        client.ask("flush_all")?.context("the server refuses flush_all")
    }
}

/// A connection with room for a request and its reply.
struct Client {
    stream: Stream,
    output: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
}

impl Client {
    fn open(address: &Address) -> Result<Self> {
        let stream = Stream::open(address).with_context(|| format!("connecting to {address}"))?;
        Ok(Self { stream, output: Vec::new(), input: vec![0; 64 << 10], filled: 0 })
    }

    fn send(&mut self) -> Result<()> {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]).context("sending a request")? {
                0 => bail!("the server takes no more bytes"),
                n => sent += n,
            }
        }
        self.output.clear();
        self.filled = 0;
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        if self.filled == self.input.len() {
            if self.input.len() >= MOST_REPLY_BYTES {
                bail!("a reply of more than {MOST_REPLY_BYTES} bytes");
            }
            self.input.resize(self.input.len() * 2, 0);
        }
        match self.stream.read(&mut self.input[self.filled..]).context("waiting for a reply")? {
            0 => bail!("the server closed the connection"),
            n => self.filled += n,
        }
        Ok(())
    }

    /// Sends a request that is no read. Whether it was done; `None` where it was refused.
    fn ask(&mut self, what: &str) -> Result<Option<bool>> {
        self.send()?;
        loop {
            self.receive()?;
            if let Some((event, _)) = Memcached.event(&self.input[..self.filled])? {
                return match event {
                    Event::Done => Ok(Some(true)),
                    Event::NotDone => Ok(Some(false)),
                    Event::Refused(_) => Ok(None),
                    other => bail!("the server answered {other:?} to a {what}"),
                };
            }
        }
    }
}

impl Caller for Client {
    fn get(&mut self, _pool: u16, keys: &[&[u8]], seen: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        Memcached.get(keys, &mut self.output);
        self.send()?;
        let (mut read, mut next) = (0, 0);
        loop {
            self.receive()?;
            while let Some((event, bytes)) = Memcached.event(&self.input[read..self.filled])? {
                match event {
                    Event::Value(key, value) => {
                        let place = keys.iter().skip(next).position(|wanted| *wanted == key);
                        let Some(place) = place else {
                            bail!("the server sent a value that nobody asked for")
                        };
                        next += place + 1;
                        seen(next - 1, value);
                    }
                    Event::End => return Ok(()),
                    other => bail!("the server answered {other:?} to a get"),
                }
                read += bytes;
            }
        }
    }

    fn set(&mut self, _pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> Result<bool> {
        Memcached.set(key, value, ttl_secs, &mut self.output);
        Ok(self.ask("set")?.unwrap_or(false))
    }

    fn delete(&mut self, _pool: u16, key: &[u8]) -> Result<bool> {
        Memcached.delete(key, &mut self.output);
        self.ask("delete")?.context("the server refused a delete")
    }

    fn touch(&mut self, _pool: u16, key: &[u8], ttl_secs: u32) -> Result<Touched> {
        Memcached.touch(key, ttl_secs, &mut self.output);
        Ok(match self.ask("touch")? {
            Some(true) => Touched::Done,
            Some(false) => Touched::Nothing,
            None => Touched::NothingOrRefused,
        })
    }
}
