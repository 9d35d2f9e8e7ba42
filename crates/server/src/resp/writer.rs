//! Where commands write their replies, and how they fail.

use std::borrow::Cow;

use millpond::{ErrorKind, ReadHandle};
use protocol::resp::{Version, reply};

use crate::lookup::Value;
use crate::net::Output;

/// An error for the client, with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure(pub(super) Cow<'static, [u8]>);

/// What a command comes to: its reply is written, or an error is to be.
pub(super) type Outcome = Result<(), Failure>;

impl Failure {
    pub(super) const SYNTAX: Self = Self::new("ERR syntax error");
    pub(super) const NOT_AN_INTEGER: Self = Self::new("ERR value is not an integer or out of range");
    pub(super) const NO_SUCH_KEY: Self = Self::new("ERR no such key");
    pub(super) const BAD_DATABASE: Self = Self::new("ERR DB index is out of range");
    pub(super) const TOO_LONG: Self =
        Self::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub(super) const OUT_OF_MEMORY: Self =
        Self::new("OOM command not allowed when used memory > 'maxmemory'.");
    pub(super) const KEY_LENGTH: Self =
        Self::new("ERR the length of the key is out of range: keys have 1 to 255 bytes");

    pub(super) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    pub(super) fn from_text(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }

    pub(super) fn wrong_number(name: &str) -> Self {
        Self::from_text(format!("ERR wrong number of arguments for '{name}' command"))
    }

    pub(super) fn expire_time(name: &str) -> Self {
        Self::from_text(format!("ERR invalid expire time in '{name}' command"))
    }

    /// That a container has no such command.
    pub(super) fn unknown_subcommand(container: &str, name: &[u8]) -> Self {
        let container = container.to_ascii_uppercase();
        let mut text = b"ERR unknown subcommand '".to_vec();
        text.extend_from_slice(name.get(..128).unwrap_or(name));
        text.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
        Self(Cow::Owned(text))
    }
}

impl From<millpond::Error> for Failure {
    fn from(error: millpond::Error) -> Self {
        match error.kind() {
            ErrorKind::TooLarge => Self::TOO_LONG,
            ErrorKind::KeyLength => Self::KEY_LENGTH,
            _ => Self::OUT_OF_MEMORY,
        }
    }
}

/// Writes replies in the version that the client speaks.
pub(super) struct Writer<'o, 'c> {
    pub(super) output: &'o mut Output<ReadHandle<'c>>,
    pub(super) version: Version,
}

impl<'c> Writer<'_, 'c> {
    pub(super) fn ok(&mut self) {
        self.output.write(reply::OK);
    }

    pub(super) fn simple(&mut self, text: &str) {
        self.output.compose(|out| reply::simple(out, text));
    }

    pub(super) fn failure(&mut self, failure: &Failure) {
        self.output.compose(|out| reply::error(out, &failure.0));
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.output.compose(|out| reply::integer(out, number));
    }

    pub(super) fn truth(&mut self, truth: bool) {
        self.integer(i64::from(truth));
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.output.compose(|out| reply::bulk(out, bytes));
    }

    pub(super) fn null(&mut self) {
        self.output.compose(|out| reply::null(out, self.version));
    }

    pub(super) fn null_array(&mut self) {
        self.output.compose(|out| reply::null_array(out, self.version));
    }

    pub(super) fn array(&mut self, len: usize) {
        self.output.compose(|out| reply::array(out, len));
    }

    pub(super) fn map(&mut self, pairs: usize) {
        self.output.compose(|out| reply::map(out, self.version, pairs));
    }

    pub(super) fn set(&mut self, len: usize) {
        self.output.compose(|out| reply::set(out, self.version, len));
    }

    pub(super) fn verbatim(&mut self, text: &[u8]) {
        self.output.compose(|out| reply::verbatim(out, self.version, text));
    }

    /// A value that was found, or nothing.
    #[inline]
    pub(super) fn value(&mut self, value: Option<Value<'_, 'c>>) {
        let Some(value) = value else { return self.null() };
        self.output.compose(|out| reply::bulk_header(out, value.len()));
        value.send(self.output);
        self.output.write(b"\r\n");
    }

    /// The lines of a `HELP`.
    pub(super) fn help(&mut self, container: &str, lines: &[&str]) {
        self.array(lines.len() + 3);
        self.simple(&format!(
            "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            container.to_ascii_uppercase()
        ));
        lines.iter().for_each(|line| self.simple(line));
        self.simple("HELP");
        self.simple("    Print this help.");
    }
}
