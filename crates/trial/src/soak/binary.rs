//! A client of memcached's binary protocol.

use anyhow::{Context, Result, bail};

use crate::check::line::Line;
use crate::check::subject::{Caller, Touched};

const HEADER_BYTES: usize = 24;
const GET: u8 = 0x00;
const SET: u8 = 0x01;
const DELETE: u8 = 0x04;
const TOUCH: u8 = 0x1c;
const DONE: u16 = 0x00;
const NOT_FOUND: u16 = 0x01;

/// A connection.
pub(super) struct Client {
    line: Line,
    refusal: Option<String>,
}

/// A reply: its status, and where its value lies in what has arrived, of `bytes` in all.
struct Reply {
    status: u16,
    value: std::ops::Range<usize>,
    bytes: usize,
}

impl Client {
    pub(super) fn over(line: Line) -> Self {
        Self { line, refusal: None }
    }

    fn request(&mut self, opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) {
        let body = extras.len() + key.len() + value.len();
        let out = &mut self.line.output;
        out.extend_from_slice(&[0x80, opcode]);
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
        out.extend_from_slice(&(body as u32).to_be_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(&[extras, key, value].concat());
    }

    fn reply(&mut self, opcode: u8) -> Result<Reply> {
        while self.line.arrived().len() < HEADER_BYTES {
            self.line.receive().context("waiting for a reply")?;
        }
        let header = &self.line.arrived()[..HEADER_BYTES];
        if header[..2] != [0x81, opcode] {
            bail!("the server answered {header:02x?} to opcode {opcode}");
        }
        let status = u16::from_be_bytes([header[6], header[7]]);
        let before = usize::from(u16::from_be_bytes([header[2], header[3]])) + usize::from(header[4]);
        let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
        if before > body {
            bail!("the server answered a body of {body} bytes with {before} before its value");
        }
        let bytes = HEADER_BYTES + body;
        while self.line.arrived().len() < bytes {
            self.line.receive().context("waiting for a reply")?;
        }
        Ok(Reply { status, value: HEADER_BYTES + before..bytes, bytes })
    }

    /// Sends a request. Whether it was done; `None` where it was refused.
    fn ask(&mut self, opcode: u8) -> Result<Option<bool>> {
        self.line.send().context("sending a request")?;
        self.refusal = None;
        let reply = self.reply(opcode)?;
        let text = String::from_utf8_lossy(&self.line.arrived()[reply.value]).into_owned();
        self.line.take(reply.bytes);
        Ok(match reply.status {
            DONE => Some(true),
            NOT_FOUND => Some(false),
            _ => {
                self.refusal = Some(text);
                None
            }
        })
    }
}

impl Caller for Client {
    fn get(&mut self, _pool: u16, keys: &[&[u8]], seen: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        keys.iter().for_each(|key| self.request(GET, &[], key, &[]));
        self.line.send().context("sending a request")?;
        for place in 0..keys.len() {
            let reply = self.reply(GET)?;
            match reply.status {
                DONE => seen(place, &self.line.arrived()[reply.value]),
                NOT_FOUND => {}
                status => bail!("the server answered status {status} to a get"),
            }
            self.line.take(reply.bytes);
        }
        Ok(())
    }

    fn set(&mut self, _pool: u16, key: &[u8], value: &[u8], ttl_secs: u32) -> Result<bool> {
        let extras = [[0; 4], ttl_secs.to_be_bytes()].concat();
        self.request(SET, &extras, key, value);
        Ok(self.ask(SET)?.unwrap_or(false))
    }

    fn delete(&mut self, _pool: u16, key: &[u8]) -> Result<bool> {
        self.request(DELETE, &[], key, &[]);
        self.ask(DELETE)?.context("the server refused a delete")
    }

    fn touch(&mut self, _pool: u16, key: &[u8], ttl_secs: u32) -> Result<Touched> {
        self.request(TOUCH, &ttl_secs.to_be_bytes(), key, &[]);
        Ok(match self.ask(TOUCH)? {
            Some(true) => Touched::Done,
            Some(false) => Touched::Nothing,
            None => Touched::NothingOrRefused,
        })
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}
