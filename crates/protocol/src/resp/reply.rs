//! Replies, composed into a buffer. If the two versions of the protocol differ, the function takes
//! the version.

/// The version that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// RESP2, with which every connection begins.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

impl Version {
    /// 2 or 3.
    pub const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// `+OK\r\n`.
pub const OK: &[u8] = b"+OK\r\n";
/// `+QUEUED\r\n`.
pub const QUEUED: &[u8] = b"+QUEUED\r\n";
/// `+PONG\r\n`.
pub const PONG: &[u8] = b"+PONG\r\n";

/// Longest decimal of 64 bits, with a sign.
const DIGITS: usize = 20;

/// Appends `number` in decimal.
#[inline]
pub fn decimal(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0_u8; DIGITS];
    let mut rest = number.unsigned_abs();
    let mut len = 0_usize;
    for slot in digits.iter_mut().rev() {
        *slot = b'0'.wrapping_add((rest % 10) as u8);
        rest /= 10;
        len = len.saturating_add(1);
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(digits.get(DIGITS.saturating_sub(len)..).unwrap_or_default());
}

fn header(out: &mut Vec<u8>, kind: u8, number: i64) {
    out.push(kind);
    decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

/// Writes a line as it is, except that line ends in it become spaces.
fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// `+text`.
pub fn simple(out: &mut Vec<u8>, text: &str) {
    line(out, b'+', text.as_bytes());
}

/// `-text`. The text begins with its code, as in `ERR syntax error`.
pub fn error(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'-', text);
}

/// `:number`.
#[inline]
pub fn integer(out: &mut Vec<u8>, number: i64) {
    header(out, b':', number);
}

/// `$length`, behind which the caller appends that many bytes and a line end.
#[inline]
pub fn bulk_header(out: &mut Vec<u8>, len: usize) {
    header(out, b'$', len as i64);
}

/// A bulk string.
#[inline]
pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    bulk_header(out, bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Nothing, in the place of a value.
#[inline]
pub fn null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"$-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Nothing, in the place of an array.
pub fn null_array(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"*-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Writes the head of an array of `len` replies.
#[inline]
pub fn array(out: &mut Vec<u8>, len: usize) {
    header(out, b'*', len as i64);
}

/// Writes the head of a map of `pairs` pairs; in RESP2 an array of twice as many replies.
pub fn map(out: &mut Vec<u8>, version: Version, pairs: usize) {
    match version {
        Version::Resp2 => array(out, pairs.saturating_mul(2)),
        Version::Resp3 => header(out, b'%', pairs as i64),
    }
}

/// Writes the head of a set of `len` replies; in RESP2 an array.
pub fn set(out: &mut Vec<u8>, version: Version, len: usize) {
    match version {
        Version::Resp2 => array(out, len),
        Version::Resp3 => header(out, b'~', len as i64),
    }
}

/// Writes the head of a message that is not a reply; in RESP2 an array.
pub fn push(out: &mut Vec<u8>, version: Version, len: usize) {
    match version {
        Version::Resp2 => array(out, len),
        Version::Resp3 => header(out, b'>', len as i64),
    }
}

/// A truth; in RESP2 1 or 0.
pub fn boolean(out: &mut Vec<u8>, version: Version, truth: bool) {
    match version {
        Version::Resp2 => integer(out, i64::from(truth)),
        Version::Resp3 => out.extend_from_slice(if truth { b"#t\r\n" } else { b"#f\r\n" }),
    }
}

/// A number with a fraction, in the shortest decimal that reads back as the same; in RESP2 a bulk
/// string.
pub fn double(out: &mut Vec<u8>, version: Version, number: f64) {
    let text = if number.is_nan() {
        "nan".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() }
    } else {
        number.to_string()
    };
    match version {
        Version::Resp2 => bulk(out, text.as_bytes()),
        Version::Resp3 => line(out, b',', text.as_bytes()),
    }
}

/// A whole number of any length, in decimal; in RESP2 a bulk string.
pub fn big_number(out: &mut Vec<u8>, version: Version, digits: &str) {
    match version {
        Version::Resp2 => bulk(out, digits.as_bytes()),
        Version::Resp3 => line(out, b'(', digits.as_bytes()),
    }
}

/// Text for people; in RESP2 a bulk string.
pub fn verbatim(out: &mut Vec<u8>, version: Version, text: &[u8]) {
    match version {
        Version::Resp2 => bulk(out, text),
        Version::Resp3 => {
            header(out, b'=', text.len().saturating_add(4) as i64);
            out.extend_from_slice(b"txt:");
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// A request as a client sends it.
pub fn request<'a>(out: &mut Vec<u8>, args: impl ExactSizeIterator<Item = &'a [u8]>) {
    array(out, args.len());
    args.for_each(|arg| bulk(out, arg));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(compose: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        compose(&mut out);
        out.escape_ascii().to_string().replace("\\r\\n", "|")
    }

    #[test]
    fn every_kind_is_written_as_its_version_has_it() {
        use Version::{Resp2, Resp3};
        for (written, expected) in [
            (composed(|out| simple(out, "OK")), "+OK|"),
            (composed(|out| error(out, b"ERR a\r\nb")), "-ERR a  b|"),
            (composed(|out| integer(out, i64::MIN)), ":-9223372036854775808|"),
            (composed(|out| integer(out, i64::MAX)), ":9223372036854775807|"),
            (composed(|out| integer(out, 0)), ":0|"),
            (composed(|out| bulk(out, b"a\xff")), "$2|a\\xff|"),
            (composed(|out| null(out, Resp2)), "$-1|"),
            (composed(|out| null(out, Resp3)), "_|"),
            (composed(|out| null_array(out, Resp2)), "*-1|"),
            (composed(|out| null_array(out, Resp3)), "_|"),
            (composed(|out| array(out, 10)), "*10|"),
            (composed(|out| map(out, Resp2, 3)), "*6|"),
            (composed(|out| map(out, Resp3, 3)), "%3|"),
            (composed(|out| set(out, Resp2, 3)), "*3|"),
            (composed(|out| set(out, Resp3, 3)), "~3|"),
            (composed(|out| push(out, Resp2, 3)), "*3|"),
            (composed(|out| push(out, Resp3, 3)), ">3|"),
            (composed(|out| boolean(out, Resp2, true)), ":1|"),
            (composed(|out| boolean(out, Resp3, false)), "#f|"),
            (composed(|out| double(out, Resp2, 1.5)), "$3|1.5|"),
            (composed(|out| double(out, Resp3, 10.0)), ",10|"),
            (composed(|out| double(out, Resp3, f64::NEG_INFINITY)), ",-inf|"),
            (composed(|out| double(out, Resp3, f64::NAN)), ",nan|"),
            (composed(|out| big_number(out, Resp2, "123")), "$3|123|"),
            (composed(|out| big_number(out, Resp3, "123")), "(123|"),
            (composed(|out| verbatim(out, Resp2, b"abc")), "$3|abc|"),
            (composed(|out| verbatim(out, Resp3, b"abc")), "=7|txt:abc|"),
            (composed(|out| request(out, [&b"GET"[..], b"k"].into_iter())), "*2|$3|GET|$1|k|"),
        ] {
            assert_eq!(written, expected);
        }
    }
}
