//! The writer of replies, and the errors of commands.

use std::borrow::Cow;

use frontend::lookup::Value;
use frontend::output::Output;
use millpond::structured::Member;
use millpond::{ErrorKind, ReadHandle};
use protocol::resp::commands::Spec;
use protocol::resp::{Version, reply};
use tenancy::metrics::ERROR_CODES;

use super::arguments::arg;

/// An error for the client, with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure(pub(super) Cow<'static, [u8]>);

/// The outcome of a command: its reply is written, or the error is still to be written.
pub(super) type Outcome = Result<(), Failure>;

impl Failure {
    pub(super) const SYNTAX: Self = Self::new("ERR syntax error");
    pub(super) const NOT_AN_INTEGER: Self = Self::new("ERR value is not an integer or out of range");
    pub(super) const NO_SUCH_KEY: Self = Self::new("ERR no such key");
    pub(super) const BAD_DATABASE: Self = Self::new("ERR DB index is out of range");
    pub(super) const TOO_LONG: Self =
        Self::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub(super) const WRONG_TYPE: Self =
        Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(super) const NOT_A_FLOAT: Self = Self::new("ERR value is not a valid float");
    pub(super) const COLLECTION_TOO_LARGE: Self =
        Self::new("ERR the key would take more memory than one item may: split it over several keys");
    pub(super) const REPLY_TOO_LONG: Self =
        Self::new("ERR the reply would be too long: ask for less at once");
    pub(super) const TOO_MANY_MEMBERS: Self =
        Self::new("ERR too many members to be looked at by one command: use fewer or smaller keys");
    pub(super) const OUT_OF_MEMORY: Self =
        Self::new("OOM command not allowed when used memory > 'maxmemory'.");
    pub(super) const TENANT_REMOVED: Self = Self::new("ERR the tenant of this key was removed");
    pub(super) const KEY_LENGTH: Self =
        Self::new("ERR the length of the key is out of range: keys have 1 to 255 bytes");

    pub(super) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    pub(super) fn from_text(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }

    /// The place of its code in [`ERROR_CODES`].
    pub(super) fn code(&self) -> usize {
        let begins_with = |code: &&str| {
            self.0.strip_prefix(code.as_bytes()).is_some_and(|rest| rest.first() == Some(&b' '))
        };
        let code = ERROR_CODES.iter().position(begins_with);
        debug_assert!(code.is_some(), "{}", String::from_utf8_lossy(&self.0));
        code.unwrap_or(0)
    }

    pub(super) fn wrong_number(name: &str) -> Self {
        Self::from_text(format!("ERR wrong number of arguments for '{name}' command"))
    }

    pub(super) fn expire_time(name: &str) -> Self {
        Self::from_text(format!("ERR invalid expire time in '{name}' command"))
    }

    /// That a subcommand has more arguments than it takes, where Redis says so in these words.
    pub(super) fn wrong_form(container: &str, name: &[u8]) -> Self {
        let begin = b"ERR unknown subcommand or wrong number of arguments for '".as_slice();
        let name = name.get(..128).unwrap_or(name);
        Self([begin, name, format!("'. Try {container} HELP.").as_bytes()].concat().into())
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
            ErrorKind::WrongType => Self::WRONG_TYPE,
            ErrorKind::NoSuchPool => Self::TENANT_REMOVED,
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

    /// A score.
    pub(super) fn double(&mut self, number: f64) {
        let text = score_text(number);
        match self.version {
            Version::Resp2 => self.bulk(text.as_bytes()),
            Version::Resp3 => self.output.write(format!(",{text}\r\n").as_bytes()),
        }
    }

    /// The names of entries, as an array.
    pub(super) fn keys(&mut self, members: &[Member]) {
        self.array(members.len());
        members.iter().for_each(|member| self.bulk(&member.key));
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

    /// The answer to a request with the subcommand `HELP`: what the rows of its command say.
    pub(super) fn help(&mut self, args: &[&[u8]]) {
        let Some(spec) = Spec::find(arg(args, 0)) else { return self.null() };
        // A command that may stand alone does what its summary says.
        let alone = spec.takes(1).then_some(("(no subcommand)".to_owned(), spec.summary));
        let subcommands = spec.subcommands.iter().map(|sub| {
            let line = format!("{} {}", sub.name.to_ascii_uppercase(), sub.arguments);
            (line.trim_end().to_owned(), sub.summary)
        });
        self.array(1 + 2 * (usize::from(alone.is_some()) + spec.subcommands.len()));
        self.simple(&format!(
            "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            spec.name.to_ascii_uppercase()
        ));
        for (line, summary) in alone.into_iter().chain(subcommands) {
            self.simple(&line);
            self.simple(&format!("    {summary}"));
        }
    }
}

/// Digits that tell a 64-bit floating-point number from every other.
const DIGITS: i32 = 17;

/// Below it every whole number is a double, of at most 16 digits.
const MAX_EXACT: f64 = (1_i64 << 53) as f64;

/// A score as Redis keeps it in small sorted sets, which `ZSCAN` shows: whole numbers have all
/// their digits.
pub(super) fn whole_score_text(score: f64) -> String {
    const MOST: f64 = (i64::MAX / 2) as f64;
    if score.abs() <= MOST && score.fract() == 0.0 {
        return (score as i64).to_string();
    }
    score_text(score)
}

/// A score as C's `printf` writes it with `%.17g`.
pub(super) fn score_text(score: f64) -> String {
    if score.is_infinite() {
        return if score > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // As Redis has it in small sorted sets: there is one zero.
    let score = score + 0.0;
    // Most scores are whole numbers, which need no rounding.
    if score.abs() < MAX_EXACT && score.fract() == 0.0 {
        return (score as i64).to_string();
    }
    let scientific = format!("{score:.16e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if (-4..DIGITS).contains(&exponent) {
        let places = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return trimmed(&format!("{score:.places$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_written_as_c_writes_them() {
        for (score, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (3.5, "3.5"),
            (0.1, "0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (-1.5e300, "-1.5000000000000001e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (9_007_199_254_740_991.0, "9007199254740991"),
            (-9_007_199_254_740_991.0, "-9007199254740991"),
            (-17.0, "-17"),
        ] {
            assert_eq!(score_text(score), text);
        }
        let whole = [1e17, -1e18, 4e18, 1e19, 0.5, -0.0, f64::INFINITY].map(whole_score_text);
        assert_eq!(
            whole,
            ["100000000000000000", "-1000000000000000000", "4000000000000000000", "1e+19", "0.5", "0", "inf"]
        );
    }
}
