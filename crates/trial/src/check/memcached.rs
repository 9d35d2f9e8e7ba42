//! A connection that speaks memcached's text protocol, under check: one request at a time.

use anyhow::{Context, Result, bail};
use bench::targets::memcached::Memcached;
use bench::targets::{Event, Wire as _};

use super::line::Line;
use super::server::ServerCaller;
use super::subject::{Caller, Touched};

/// A connection that speaks the text protocol.
pub(crate) struct Client {
    line: Line,
    refusal: Option<String>,
}

impl Client {
    /// Sends a request that isn't a read. Returns whether the server did it, `None` if it refused.
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

impl ServerCaller for Client {
    fn over(line: Line) -> Self {
        Self { line, refusal: None }
    }

    fn flush(&mut self) -> Result<()> {
        self.line.output.extend_from_slice(b"flush_all\r\n");
        self.ask("flush_all")?.map(drop).context("the server refuses flush_all")
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
