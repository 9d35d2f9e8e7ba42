//! From bytes to requests, however they arrive.

use super::opcode::{Kind, Opcode};
use super::{Arithmetic, Get, HEADER_BYTES, Head, Packet, REQUEST_MAGIC, Request, Status, Store};
use crate::memcached::expiry::Exptime;
use crate::memcached::key::{KEY_MAX_BYTES, Key};
use crate::memcached::limits::Limits;
use crate::memcached::request::{StoreCommand, StoreHeader, StoreRequest};
use crate::memcached::token::Tokens;

/// An increment with this expiration time creates nothing.
const NO_CREATION: u32 = u32::MAX;

/// The result of parsing the front of the buffer. The caller drops and keeps bytes as with
/// [`super::super::Parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parse<'a> {
    /// Not a whole request yet.
    Incomplete {
        /// At least this many bytes are missing; never 0.
        needed: usize,
    },
    /// A whole request.
    Request {
        /// The request.
        packet: Packet<'a>,
        /// Its length in bytes, value included.
        consumed: usize,
    },
    /// A storage request that will be accepted, but not all of its data.
    ///
    /// The caller may wait for `missing` more bytes and parse again. Or it drops `header_len`
    /// bytes, takes the data itself with [`super::super::DataBlock::bare`] of `header.data_len`
    /// bytes, and parses what follows.
    NeedData {
        /// The item to store and how to store it.
        store: Store<'a>,
        /// Length of header, extras and key in bytes.
        header_len: usize,
        /// Number of bytes of the data that are not in the buffer yet; never 0.
        missing: usize,
    },
    /// A storage request whose item is larger than the limit: to be answered with
    /// [`Status::TooLarge`]. Its data is skipped by the parses that follow. memcached removes what
    /// is stored under the key of a set.
    TooLarge {
        /// The rejected item.
        store: Store<'a>,
        /// Length of header, extras and key in bytes.
        consumed: usize,
    },
    /// A request that cannot be carried out.
    Refused {
        /// The reason, and how to continue.
        refusal: Refusal,
        /// Number of bytes to drop. All of them if the connection is to be closed.
        consumed: usize,
    },
    /// The rest of a request that was refused; there is nothing to answer.
    Skipped {
        /// Number of bytes to drop; never 0.
        consumed: usize,
    },
}

/// The reason why a request was refused, and how to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error response to send; `None` if the bytes are not a request at all.
    pub answer: Option<(Head, Status)>,
    /// Close the connection once that is written.
    pub close: bool,
}

/// Parses the requests of one connection.
#[derive(Clone, Debug)]
pub struct Parser {
    limits: Limits,
    /// This many bytes are still to be skipped.
    skip: usize,
}

/// The header of a request.
#[derive(Clone, Copy, Debug)]
struct RequestHeader {
    head: Head,
    key_len: usize,
    extras_len: usize,
    body_len: usize,
    cas: u64,
}

impl RequestHeader {
    /// `None`: it is none.
    fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let [magic, opcode, k0, k1, extras_len, _, _, _, rest @ ..] = *bytes;
        let [b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = rest;
        (magic == REQUEST_MAGIC).then(|| Self {
            head: Head { opcode: Opcode(opcode), opaque: u32::from_be_bytes([o0, o1, o2, o3]) },
            key_len: usize::from(u16::from_be_bytes([k0, k1])),
            extras_len: usize::from(extras_len),
            body_len: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            cas: u64::from_be_bytes(cas),
        })
    }

    /// Header, extras and key, in bytes.
    const fn front_len(&self) -> usize {
        HEADER_BYTES.saturating_add(self.extras_len).saturating_add(self.key_len)
    }

    /// The value, in bytes.
    const fn value_len(&self) -> usize {
        self.body_len.saturating_sub(self.extras_len).saturating_sub(self.key_len)
    }

    /// Returns whether extras, key and value have the lengths that a request of this kind needs.
    const fn has_shape_of(&self, kind: Kind) -> bool {
        let (key, extras, value) = (self.key_len > 0, self.extras_len, self.value_len() > 0);
        match kind {
            Kind::Get { touch: false, .. } | Kind::Delete => key && extras == 0 && !value,
            Kind::Get { touch: true, .. } | Kind::Touch => key && extras == 4 && !value,
            Kind::Store(StoreCommand::Append | StoreCommand::Prepend) => key && extras == 0,
            Kind::Store(_) => key && extras == 8,
            Kind::Arithmetic(_) => key && extras == 20 && !value,
            Kind::Flush => !key && (extras == 0 || extras == 4) && !value,
            Kind::Stat => extras == 0 && !value,
            Kind::Noop | Kind::Version | Kind::Quit | Kind::AuthenticationList => self.body_len == 0,
            Kind::Authentication => key && extras == 0,
        }
    }

    /// The token to compare with; 0 stands for none.
    const fn compare_cas(&self) -> Option<u64> {
        if self.cas == 0 { None } else { Some(self.cas) }
    }
}

impl Parser {
    /// A parser for a new connection. Of the limits that of items holds; keys have at most
    /// [`super::super::KEY_MAX_BYTES`].
    pub const fn new(limits: Limits) -> Self {
        Self { limits, skip: 0 }
    }

    /// The limits it was made with.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of bytes of a refused request that are still to arrive and to be dropped.
    pub const fn skipping(&self) -> usize {
        self.skip
    }

    /// Parses the front of `buf`, which holds everything that was received and not yet dropped.
    /// Looks at header, extras and key, and never at data.
    #[inline]
    pub fn parse<'a>(&mut self, buf: &'a [u8]) -> Parse<'a> {
        if self.skip != 0 {
            return self.skip_body(buf);
        }
        let Some((bytes, body)) = buf.split_first_chunk::<HEADER_BYTES>() else {
            if buf.first().is_some_and(|magic| *magic != REQUEST_MAGIC) {
                return refuse(None, true, buf.len());
            }
            return Parse::Incomplete { needed: HEADER_BYTES.saturating_sub(buf.len()) };
        };
        let Some(header) = RequestHeader::read(bytes) else { return refuse(None, true, buf.len()) };
        let head = header.head;
        if header.key_len.saturating_add(header.extras_len) > header.body_len {
            return refuse(Some((head, Status::UnknownCommand)), true, buf.len());
        }
        let kind = head.opcode.kind();
        if header.key_len > KEY_MAX_BYTES || kind.is_some_and(|(kind, _)| !header.has_shape_of(kind)) {
            return refuse(Some((head, Status::Invalid)), true, buf.len());
        }
        match kind {
            None | Some((Kind::AuthenticationList | Kind::Authentication, _)) => {
                self.skip = header.body_len;
                refuse(Some((head, Status::UnknownCommand)), false, HEADER_BYTES)
            }
            Some((Kind::Store(command), quiet)) => self.store(&header, command, quiet, body),
            Some((kind, quiet)) => match small(&header, kind, body) {
                Some(request) => Parse::Request {
                    packet: Packet { head, quiet, request },
                    consumed: HEADER_BYTES.saturating_add(header.body_len),
                },
                None => Parse::Incomplete { needed: header.body_len.saturating_sub(body.len()).max(1) },
            },
        }
    }

    #[cold]
    fn skip_body<'a>(&mut self, buf: &'a [u8]) -> Parse<'a> {
        if buf.is_empty() {
            return Parse::Incomplete { needed: self.skip };
        }
        let consumed = self.skip.min(buf.len());
        self.skip = self.skip.saturating_sub(consumed);
        Parse::Skipped { consumed }
    }

    fn store<'a>(
        &mut self,
        header: &RequestHeader,
        command: StoreCommand,
        quiet: bool,
        body: &'a [u8],
    ) -> Parse<'a> {
        let Some((extras, key, after)) = front(header, body) else {
            let front_len = header.extras_len.saturating_add(header.key_len);
            return Parse::Incomplete { needed: front_len.saturating_sub(body.len()).max(1) };
        };
        let (client_flags, extras) = take_u32(extras);
        let (exptime, _) = take_u32(extras);
        let compare_cas = header.compare_cas();
        let replaces = matches!(command, StoreCommand::Set | StoreCommand::Add | StoreCommand::Replace);
        let store = StoreHeader {
            command: if replaces && compare_cas.is_some() { StoreCommand::Cas } else { command },
            key,
            client_flags,
            exptime: Exptime(i64::from(exptime)),
            compare_cas,
            wants_cas: !quiet || compare_cas.is_some(),
            data_len: header.value_len(),
            noreply: quiet,
            meta: None,
        };
        let (head, front_len) = (header.head, header.front_len());
        if !self.limits.item_fits(header.key_len, client_flags, store.data_len) {
            self.skip = store.data_len;
            return Parse::TooLarge { store: Store { head, header: store }, consumed: front_len };
        }
        match after.get(..store.data_len) {
            Some(data) => Parse::Request {
                packet: Packet { head, quiet, request: Request::Store(StoreRequest { header: store, data }) },
                consumed: front_len.saturating_add(store.data_len),
            },
            None => Parse::NeedData {
                store: Store { head, header: store },
                header_len: front_len,
                missing: store.data_len.saturating_sub(after.len()),
            },
        }
    }
}

/// A request without data, of which `body` may not have everything yet. The shape has been checked.
fn small<'a>(header: &RequestHeader, kind: Kind, body: &'a [u8]) -> Option<Request<'a>> {
    if body.len() < header.body_len {
        return None;
    }
    let key = || front(header, body).map(|(_, key, _)| key);
    let (extras, rest) = body.split_at_checked(header.extras_len)?;
    Some(match kind {
        Kind::Get { with_key, touch } => {
            let touch = touch.then(|| exptime(extras));
            Request::Get(Get { key: key()?, with_key, touch })
        }
        Kind::Touch => Request::Touch { key: key()?, exptime: exptime(extras) },
        Kind::Delete => Request::Delete { key: key()?, compare_cas: header.compare_cas() },
        Kind::Arithmetic(direction) => {
            let (delta, extras) = take_u64(extras);
            let (initial, extras) = take_u64(extras);
            let (exptime, _) = take_u32(extras);
            let create = (exptime != NO_CREATION).then_some((Exptime(i64::from(exptime)), initial));
            let compare_cas = header.compare_cas();
            Request::Arithmetic(Arithmetic { key: key()?, direction, delta, create, compare_cas })
        }
        Kind::Flush => Request::Flush { delay: exptime(extras) },
        Kind::Noop => Request::Noop,
        Kind::Version => Request::Version,
        Kind::Stat => Request::Stat(Tokens::new(rest.get(..header.key_len)?)),
        Kind::Quit => Request::Quit,
        Kind::Store(_) | Kind::AuthenticationList | Kind::Authentication => return None,
    })
}

/// Splits the body into extras, key and the rest, if all of them have arrived.
fn front<'a>(header: &RequestHeader, body: &'a [u8]) -> Option<(&'a [u8], Key<'a>, &'a [u8])> {
    let (extras, rest) = body.split_at_checked(header.extras_len)?;
    let (key, after) = rest.split_at_checked(header.key_len)?;
    Some((extras, Key::plain(key)?, after))
}

fn exptime(extras: &[u8]) -> Exptime {
    Exptime(i64::from(take_u32(extras).0))
}

/// Splits off the number at the front; 0 if there is none.
fn take_u32(bytes: &[u8]) -> (u32, &[u8]) {
    bytes.split_first_chunk().map_or((0, bytes), |(number, rest)| (u32::from_be_bytes(*number), rest))
}

/// Splits off the number at the front; 0 if there is none.
fn take_u64(bytes: &[u8]) -> (u64, &[u8]) {
    bytes.split_first_chunk().map_or((0, bytes), |(number, rest)| (u64::from_be_bytes(*number), rest))
}

#[cold]
fn refuse<'a>(answer: Option<(Head, Status)>, close: bool, consumed: usize) -> Parse<'a> {
    Parse::Refused { refusal: Refusal { answer, close }, consumed }
}
