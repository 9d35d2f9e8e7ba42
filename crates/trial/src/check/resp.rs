//! A connection that speaks RESP, under check: strings, one request at a time, several keys by
//! `MGET`.

use anyhow::{Context, Result, bail};
use base::Clock;
use bench::targets::resp::{Reply, command, reply};

use super::line::Line;
use super::server::ServerCaller;
use super::subject::{Caller, Touched};

/// The Unix second at which what is touched for ever expires: far off, and one that the server can
/// count.
const FAR_OFF: &[u8] = b"4000000000";

/// A connection.
pub(crate) struct Client {
    line: Line,
    refusal: Option<String>,
    ends_on_seconds: bool,
    /// Pushed messages, which the server sent without a request.
    pub(crate) pushes: Vec<Vec<Reply>>,
}

impl Client {
    /// Lets what is written end on a second of the clock, so that it ends for memcached's clients
    /// of the same keys at that moment, too.
    pub(crate) fn ending_on_seconds(mut self) -> Self {
        self.ends_on_seconds = true;
        self
    }

    /// A lifetime, and whether it is the Unix second of its end.
    fn lifetime(&self, ttl_secs: u32) -> (String, bool) {
        let now = if self.ends_on_seconds { Clock::System.unix_secs() } else { 0 };
        (now.saturating_add(ttl_secs).to_string(), self.ends_on_seconds)
    }

    /// Sends one command and waits for its reply.
    pub(crate) fn ask(&mut self, parts: &[&[u8]]) -> Result<Reply> {
        command(parts, &mut self.line.output);
        self.line.send().context("sending a request")?;
        self.refusal = None;
        self.next()
    }

    /// Sends one command that must not be refused.
    pub(crate) fn demand(&mut self, parts: &[&[u8]]) -> Result<Reply> {
        match self.ask(parts)? {
            Reply::Error(why) => {
                bail!("{}: {why}", String::from_utf8_lossy(parts.first().unwrap_or(&&b""[..])))
            }
            reply => Ok(reply),
        }
    }

    /// Sends several commands as one transaction and waits for their replies; what fails within it
    /// is an error.
    pub(crate) fn transaction(&mut self, commands: &[Vec<&[u8]>]) -> Result<Option<Vec<Reply>>> {
        command(&[b"MULTI"], &mut self.line.output);
        commands.iter().for_each(|parts| command(parts, &mut self.line.output));
        command(&[b"EXEC"], &mut self.line.output);
        self.line.send().context("sending a transaction")?;
        self.refusal = None;
        for _ in 0..=commands.len() {
            if let Reply::Error(why) = self.next()? {
                self.refusal.get_or_insert(why);
            }
        }
        match self.next()? {
            Reply::List(replies) => match replies.iter().find(|reply| matches!(reply, Reply::Error(_))) {
                Some(Reply::Error(why)) => {
                    self.refusal = Some(why.clone());
                    Ok(None)
                }
                _ => Ok(Some(replies)),
            },
            Reply::Error(why) => {
                self.refusal.get_or_insert(why);
                Ok(None)
            }
            other => bail!("the server answered {other:?} to EXEC"),
        }
    }

    fn next(&mut self) -> Result<Reply> {
        loop {
            match reply(self.line.arrived())? {
                Some((next, bytes)) => {
                    self.line.take(bytes);
                    match next {
                        Reply::Push(parts) => self.pushes.push(parts),
                        next => return Ok(next),
                    }
                }
                None => self.line.receive().context("waiting for a reply")?,
            }
        }
    }

    /// Sends a command. Returns whether the server did it, `None` if it refused.
    fn done(&mut self, parts: &[&[u8]]) -> Result<Option<bool>> {
        match self.ask(parts)? {
            Reply::Number(number) => Ok(Some(number > 0)),
            Reply::Error(why) => {
                self.refusal = Some(why);
                Ok(None)
            }
            reply if reply.is_ok() => Ok(Some(true)),
            other => bail!("the server answered {other:?} to a command that changes a key"),
        }
    }
}

impl ServerCaller for Client {
    fn over(line: Line) -> Self {
        Self { line, refusal: None, ends_on_seconds: false, pushes: Vec::new() }
    }

    /// Of the database that the connection begins with; whatever else is on the server stays.
    fn flush(&mut self) -> Result<()> {
        match self.demand(&[b"FLUSHDB"])? {
            reply if reply.is_ok() => Ok(()),
            other => bail!("the server answered {other:?} to FLUSHDB"),
        }
    }
}

impl Caller for Client {
    fn get(&mut self, _pool: u16, keys: &[&[u8]], seen: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let values = match keys {
            [key] => vec![self.demand(&[b"GET", key])?],
            _ => match self.demand(&[&[&b"MGET"[..]], keys].concat())? {
                Reply::List(values) if values.len() == keys.len() => values,
                other => bail!("the server answered {other:?} to MGET"),
            },
        };
        for (i, value) in values.into_iter().enumerate() {
            match value {
                Reply::Text(value) => seen(i, &value),
                Reply::Nothing => {}
                other => bail!("the server answered {other:?} to a get"),
            }
        }
        Ok(())
    }

    fn set(&mut self, _pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> Result<bool> {
        let (ttl, is_end) = self.lifetime(ttl_secs);
        let done = match (ttl_secs, is_end) {
            (0, _) => self.done(&[b"SET", key, value])?,
            (_, false) => self.done(&[b"SET", key, value, b"EX", ttl.as_bytes()])?,
            (_, true) => self.done(&[b"SET", key, value, b"EXAT", ttl.as_bytes()])?,
        };
        Ok(done.unwrap_or(false))
    }

    fn delete(&mut self, _pool: u16, key: &[u8]) -> Result<bool> {
        let done = self.done(&[b"DEL", key])?;
        done.with_context(|| format!("the server refused DEL: {}", self.refusal().unwrap_or_default()))
    }

    fn touch(&mut self, _pool: u16, key: &[u8], ttl_secs: u32) -> Result<Touched> {
        let (ttl, is_end) = self.lifetime(ttl_secs);
        let done = match (ttl_secs, is_end) {
            (0, _) => self.done(&[b"EXPIREAT", key, FAR_OFF])?,
            (_, false) => self.done(&[b"EXPIRE", key, ttl.as_bytes()])?,
            (_, true) => self.done(&[b"EXPIREAT", key, ttl.as_bytes()])?,
        };
        Ok(match done {
            Some(true) => Touched::Done,
            Some(false) => Touched::Nothing,
            None => Touched::NothingOrRefused,
        })
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}
