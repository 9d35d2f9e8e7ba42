//! A client of memcached's meta commands.

use anyhow::{Context, Result, bail};

use crate::check::line::Line;
use crate::check::subject::{Caller, Touched};

/// A connection.
pub(super) struct Client {
    line: Line,
    refusal: Option<String>,
}

impl Client {
    pub(super) fn over(line: Line) -> Self {
        Self { line, refusal: None }
    }

    /// Waits for a line; what is behind it stays.
    fn reply(&mut self) -> Result<String> {
        loop {
            let arrived = self.line.arrived();
            if let Some(end) = arrived.iter().position(|byte| *byte == b'\n') {
                let text = String::from_utf8_lossy(&arrived[..end]).trim_end().to_owned();
                self.line.take(end + 1);
                return Ok(text);
            }
            self.line.receive().context("waiting for a reply")?;
        }
    }

    /// Sends a command. Whether it was done; `None` where it was refused.
    fn ask(&mut self) -> Result<Option<bool>> {
        self.line.send().context("sending a request")?;
        self.refusal = None;
        let reply = self.reply()?;
        match reply.split(' ').next() {
            Some("HD") => Ok(Some(true)),
            Some("NF" | "NS" | "EN") => Ok(Some(false)),
            _ if reply.contains("ERROR") => {
                self.refusal = Some(reply);
                Ok(None)
            }
            _ => bail!("the server answered `{reply}` to a meta command"),
        }
    }
}

impl Caller for Client {
    fn get(&mut self, _pool: u16, keys: &[&[u8]], seen: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for key in keys {
            self.line.output.extend_from_slice(&[&b"mg "[..], key, b" v\r\n"].concat());
        }
        self.line.send().context("sending a request")?;
        for place in 0..keys.len() {
            let reply = self.reply()?;
            let mut words = reply.split(' ');
            match words.next() {
                Some("EN") => continue,
                Some("VA") => {}
                _ => bail!("the server answered `{reply}` to mg"),
            }
            let size: usize =
                words.next().and_then(|size| size.parse().ok()).context("a value without a size")?;
            while self.line.arrived().len() < size + 2 {
                self.line.receive().context("waiting for a value")?;
            }
            seen(place, &self.line.arrived()[..size]);
            self.line.take(size + 2);
        }
        Ok(())
    }

    fn set(&mut self, _pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> Result<bool> {
        let rest = format!(" {} T{ttl_secs}\r\n", value.len());
        self.line.output.extend_from_slice(&[&b"ms "[..], key, rest.as_bytes(), value, b"\r\n"].concat());
        Ok(self.ask()?.unwrap_or(false))
    }

    fn delete(&mut self, _pool: u16, key: &[u8]) -> Result<bool> {
        self.line.output.extend_from_slice(&[&b"md "[..], key, b"\r\n"].concat());
        self.ask()?.context("the server refused md")
    }

    fn touch(&mut self, _pool: u16, key: &[u8], ttl_secs: u32) -> Result<Touched> {
        let rest = format!(" T{ttl_secs}\r\n");
        self.line.output.extend_from_slice(&[&b"mg "[..], key, rest.as_bytes()].concat());
        Ok(match self.ask()? {
            Some(true) => Touched::Done,
            Some(false) => Touched::Nothing,
            None => Touched::NothingOrRefused,
        })
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}
