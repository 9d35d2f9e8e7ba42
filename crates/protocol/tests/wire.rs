//! A table of bytes in and bytes out, held against this crate and against a real memcached.
//!
//! The table assumes an empty cache, and every row starts with one. Rows of [`SAME`] were observed
//! on memcached 1.6.18 and hold for both. Rows of [`DIFFERENT`] are deliberate differences and say
//! what each of the two answers. Both tables are run against the `memcached` in the path where
//! there is one of that version, so that the tables themselves are right.

#[path = "support/empty.rs"]
mod empty;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use empty::answer;
use millpond_protocol::memcached::Limits;

const ERROR: &str = "ERROR\r\n";
const FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const FORMAT_ERROR: &str = "CLIENT_ERROR bad command line format\r\nERROR\r\n";
const DELETE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
const EXPTIME: &str = "CLIENT_ERROR invalid exptime argument\r\n";
const DELTA: &str = "CLIENT_ERROR invalid numeric delta argument\r\n";
const CHUNK_ERROR: &str = "CLIENT_ERROR bad data chunk\r\nERROR\r\n";
const TOKEN: &str = "CLIENT_ERROR bad token in command line format\r\n";
const FLAG: &str = "CLIENT_ERROR invalid flag\r\n";
const DUPLICATE: &str = "CLIENT_ERROR duplicate flag\r\n";
const EITHER: &str = "CLIENT_ERROR invalid or duplicate flag\r\n";
const BASE64: &str = "CLIENT_ERROR error decoding key\r\n";
const OPAQUE: &str = "CLIENT_ERROR opaque token too long\r\n";
const MODE_LENGTH: &str = "CLIENT_ERROR incorrect length for M token\r\n";
const MS_MODE: &str = "CLIENT_ERROR invalid mode for ms M token\r\n";
const MA_MODE: &str = "CLIENT_ERROR invalid mode for ma M token\r\n";
const VERSION: &str = "VERSION 1.6.18\r\n";
const NO_SHUTDOWN: &str = "ERROR: shutdown not enabled\r\n";

/// 31 and 32 bytes behind the letter O; 250 and 251 characters of key.
const O31: &str = "O1111111111111111111111111111111";
const O32: &str = "O11111111111111111111111111111111";

/// Input and output. `{250}` and `{251}` in an input stand for that many letters.
#[rustfmt::skip]
const SAME: &[(&str, &str)] = &[
    // Lines.
    ("\r\n", ERROR), ("\n", ERROR), (" \r\n", ERROR), ("a\r\n", ERROR), ("g\r\n", ERROR), ("auth\r\n", ERROR),
    ("GET a\r\n", ERROR), ("get a\n", "END\r\n"), (" get a\r\n", "END\r\n"), ("get  a\r\n", "END\r\n"),
    ("get\ta\r\n", ERROR), ("get a\tb\r\n", "END\r\n"), ("get a\rb\r\n", "END\r\n"), ("get a\r\r\n", "END\r\n"),
    ("get \0\r\n", ERROR), ("get a\0b\r\n", "END\r\n"), ("version\0junk\r\n", VERSION), ("\0version\r\n", ERROR),
    ("get a\r\nversion\r\nget b\r\n", "END\r\nVERSION 1.6.18\r\nEND\r\n"),
    // Retrieval.
    ("get\r\n", ERROR), ("get \r\n", ERROR), ("gets\r\n", ERROR), ("get a b  c \r\n", "END\r\n"),
    ("gets a b\r\n", "END\r\n"), ("bget a\r\n", "END\r\n"), ("bget\r\n", ERROR), ("get a noreply\r\n", "END\r\n"),
    ("get {250}\r\n", "END\r\n"), ("get {251}\r\n", FORMAT), ("get a {251}\r\nversion\r\n", "CLIENT_ERROR bad command line format\r\nVERSION 1.6.18\r\n"),
    ("gat\r\n", ERROR), ("gat 0\r\n", "END\r\n"), ("gat x\r\n", EXPTIME), ("gat x a\r\n", EXPTIME),
    ("gat 10 a b\r\n", "END\r\n"), ("gats 10 a\r\n", "END\r\n"), ("gats\r\n", ERROR), ("gat -1 a\r\n", "END\r\n"),
    ("gat 0 {251}\r\n", FORMAT), ("gat a 0\r\n", EXPTIME),
    // Storage.
    ("set\r\n", ERROR), ("set a\r\n", ERROR), ("set a 0 0\r\n", ERROR), ("set a 0 0 1\r\n1\r\n", "STORED\r\n"),
    ("set a 0 0 1 noreply\r\n1\r\n", ""), ("set a 0 0 1 foo\r\n1\r\n", "STORED\r\n"),
    ("set a 0 0 1 NOREPLY\r\n1\r\n", "STORED\r\n"), ("set a 0 0 1 noreply x\r\n1\r\n", "ERROR\r\nERROR\r\n"),
    ("set a 0 0 0\r\n\r\n", "STORED\r\n"), ("set a 0 0 1\n1\r\n", "STORED\r\n"),
    ("set a 0 0 -1\r\n", FORMAT), ("set a 0 0 -1 noreply\r\n", ""), ("set a x 0 1\r\n1\r\n", FORMAT_ERROR),
    ("set a 0 x 1\r\n1\r\n", FORMAT_ERROR), ("set a 0 0 x\r\n1\r\n", FORMAT_ERROR), ("set a 0 0 1x\r\n1\r\n", FORMAT_ERROR),
    ("set a -1 0 1\r\n1\r\n", FORMAT_ERROR), ("set a +1 0 1\r\n1\r\n", "STORED\r\n"), ("set a -0 0 1\r\n1\r\n", "STORED\r\n"),
    ("set a 0x1 0 1\r\n1\r\n", FORMAT_ERROR), ("set a 4294967296 0 1\r\n1\r\n", "STORED\r\n"),
    ("set a 18446744073709551616 0 1\r\n1\r\n", FORMAT_ERROR), ("set a 0 9223372036854775808 1\r\n1\r\n", FORMAT_ERROR),
    ("set a 0 -9223372036854775809 1\r\n1\r\n", FORMAT_ERROR), ("set a 0 -1 1\r\n1\r\n", "STORED\r\n"),
    ("set a 0\t 0 1\r\n1\r\n", "STORED\r\n"), ("set a \t0 0 1\r\n1\r\n", "STORED\r\n"), ("set a 0 0 1\r\r\n1\r\n", "STORED\r\n"),
    ("set a 0 0 1\0zzz\r\n1\r\n", "STORED\r\n"), ("set a\0b 0 0 1\r\n1\r\n", "ERROR\r\nERROR\r\n"), ("set\ta\t0\t0\t1\r\n1\r\n", "ERROR\r\nERROR\r\n"),
    ("set a 0 0 1\r\n12\r\n", CHUNK_ERROR), ("set a 0 0 1\r\n123\r\n", CHUNK_ERROR), ("set a 0 0 1\n1\n\nversion\r\n", "CLIENT_ERROR bad data chunk\r\nVERSION 1.6.18\r\n"),
    ("set a 0 0 3\r\nabc\nget a\r\n", CHUNK_ERROR), ("set a 0 0 1 noreply\r\n123\r\n", ERROR),
    ("set {251} 0 0 1\r\n1\r\n", FORMAT_ERROR), ("set {251} 0 0 1 noreply\r\n1\r\n", ERROR), ("set {250} 0 0 1\r\n1\r\n", "STORED\r\n"),
    ("set a 0 0 2147483646\r\n", FORMAT), ("set a 0 0 2147483647\r\n", FORMAT), ("set a 0 0 9223372036854775808\r\n", FORMAT),
    ("add a 0 0 1\r\n1\r\n", "STORED\r\n"), ("add a 0 0 1 noreply\r\n1\r\n", ""), ("add a 0 0\r\n", ERROR),
    ("replace a 0 0 1\r\n1\r\n", "NOT_STORED\r\n"), ("append a 0 0 1\r\n1\r\n", "NOT_STORED\r\n"),
    ("prepend a 0 0 1\r\n1\r\n", "NOT_STORED\r\n"), ("append a 0 0 1 noreply\r\n1\r\n", ""), ("append a x 0 1\r\n1\r\n", FORMAT_ERROR),
    ("cas a 0 0 1 5\r\n1\r\n", "NOT_FOUND\r\n"), ("cas a 0 0 1 5 noreply\r\n1\r\n", ""), ("cas a 0 0 1 5 foo\r\n1\r\n", "NOT_FOUND\r\n"),
    ("cas a 0 0 1\r\n1\r\n", "ERROR\r\nERROR\r\n"), ("cas a 0 0 1 noreply\r\n1\r\n", ERROR), ("cas a 0 0 1 -1\r\n1\r\n", FORMAT_ERROR),
    ("cas a 0 0 1 18446744073709551615\r\n1\r\n", "NOT_FOUND\r\n"), ("cas a 0 0 1 18446744073709551616\r\n1\r\n", FORMAT_ERROR),
    ("cas a 0 0 1 5 noreply x\r\n1\r\n", "ERROR\r\nERROR\r\n"),
    // Arithmetic, touch, delete.
    ("incr\r\n", ERROR), ("incr n\r\n", ERROR), ("incr n 1\r\n", "NOT_FOUND\r\n"), ("incr n x\r\n", DELTA), ("incr n -1\r\n", DELTA),
    ("incr n 18446744073709551615\r\n", "NOT_FOUND\r\n"), ("incr n 18446744073709551616\r\n", DELTA), ("incr n 1 noreply\r\n", ""),
    ("incr n noreply\r\n", ""), ("incr n 1 foo\r\n", "NOT_FOUND\r\n"), ("incr n 1 2 3\r\n", ERROR), ("incr {251} 1\r\n", FORMAT),
    ("incr {251} x\r\n", FORMAT), ("decr n 1\r\n", "NOT_FOUND\r\n"), ("decr n x noreply\r\n", ""), ("decr n\r\n", ERROR),
    ("touch\r\n", ERROR), ("touch a\r\n", ERROR), ("touch a 0\r\n", "NOT_FOUND\r\n"), ("touch a x\r\n", EXPTIME), ("touch a x noreply\r\n", ""),
    ("touch a 0 noreply\r\n", ""), ("touch a 0 foo\r\n", "NOT_FOUND\r\n"), ("touch a 0 0 0\r\n", ERROR), ("touch {251} 0\r\n", FORMAT),
    ("delete\r\n", ERROR), ("delete a\r\n", "NOT_FOUND\r\n"), ("delete a 0\r\n", "NOT_FOUND\r\n"), ("delete a 1\r\n", DELETE), ("delete a 00\r\n", DELETE),
    ("delete a noreply\r\n", ""), ("delete a 0 noreply\r\n", ""), ("delete a 1 noreply\r\n", ""), ("delete a 0 foo\r\n", DELETE),
    ("delete a 0 0\r\n", DELETE), ("delete a foo\r\n", DELETE), ("delete a 0 noreply x\r\n", ERROR), ("delete noreply\r\n", "NOT_FOUND\r\n"),
    ("delete {251}\r\n", FORMAT), ("delete {251} 1\r\n", DELETE), ("delete {251} noreply\r\n", ""),
    // The rest of the classic commands.
    ("flush_all\r\n", "OK\r\n"), ("flush_all 0\r\n", "OK\r\n"), ("flush_all noreply\r\n", ""), ("flush_all 0 noreply\r\n", ""),
    ("flush_all x\r\n", EXPTIME), ("flush_all x noreply\r\n", ""), ("flush_all -1\r\n", "OK\r\n"), ("flush_all 0 0\r\n", "OK\r\n"), ("flush_all 0 0 0\r\n", ERROR),
    ("version\r\n", VERSION), ("version foo\r\n", VERSION), ("versionx\r\n", ERROR),
    ("verbosity\r\n", ERROR), ("verbosity 0\r\n", "OK\r\n"), ("verbosity x\r\n", FORMAT), ("verbosity -1\r\n", FORMAT), ("verbosity 0 noreply\r\n", ""),
    ("verbosity noreply\r\n", ""), ("verbosity 0 0\r\n", "OK\r\n"), ("verbosity 0 0 0\r\n", ERROR),
    ("cache_memlimit\r\n", ERROR), ("cache_memlimit 64\r\n", "OK\r\n"), ("cache_memlimit x\r\n", ERROR), ("cache_memlimit x noreply\r\n", ""),
    ("cache_memlimit 1\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"), ("cache_memlimit 64 noreply\r\n", ""),
    ("cache_memlimit 64 foo\r\n", "OK\r\n"), ("cache_memlimit 64 a b\r\n", ERROR),
    ("shutdown\r\n", NO_SHUTDOWN), ("shutdown graceful\r\n", NO_SHUTDOWN), ("shutdown foo\r\n", NO_SHUTDOWN),
    ("stats reset\r\n", "RESET\r\n"), ("stats reset x\r\n", "RESET\r\n"), ("stats foo\r\n", ERROR), ("stats noreply\r\n", ERROR),
    ("slabs\r\n", ERROR), ("lru\r\n", ERROR), ("lru_crawler\r\n", ERROR), ("watch foo\r\n", ERROR), ("extstore\r\n", ERROR), ("extstore a b\r\n", ERROR),
    ("quit\r\n", ""), ("quit now\r\n", ""), ("get a\r\nquit\r\nversion\r\n", "END\r\n"),
    // Meta get.
    ("mx\r\n", ERROR), ("m\r\n", ERROR), ("mm a\r\n", ERROR), ("mnx\r\n", ERROR), ("mn\r\n", "MN\r\n"), ("mn foo\r\n", "MN\r\n"),
    ("mg\r\n", ERROR), ("mg a\r\n", "EN\r\n"), ("mg a v\r\n", "EN\r\n"), ("mg a  v \r\n", "EN\r\n"), ("mg a q\r\n", ""), ("mg a q k O1\r\n", ""),
    ("mg a k O1 s t\r\n", "EN ka O1\r\n"), ("mg a O1 k\r\n", "EN O1 ka\r\n"), ("mg a s s\r\n", DUPLICATE), ("mg a z\r\n", FLAG), ("mg a A\r\n", FLAG),
    ("mg a 1\r\n", FLAG), ("mg a ~\r\n", FLAG), ("mg a \x7f\r\n", DUPLICATE), ("mg a \u{e9}\r\n", DUPLICATE), ("mg a S1\r\n", FLAG),
    ("mg a W\r\n", FLAG), ("mg a X\r\n", FLAG), ("mg a Z\r\n", FLAG), ("mg a I u P1 L2 F1 MX D1 J1 C1\r\n", "EN\r\n"),
    ("mg a Fx\r\n", FORMAT), ("mg a F-1\r\n", FORMAT), ("mg a M\r\n", MODE_LENGTH), ("mg a Mxx\r\n", MODE_LENGTH),
    ("mg a Dx\r\n", "CLIENT_ERROR invalid numeric delta value\r\n"), ("mg a D J\r\n", "CLIENT_ERROR invalid numeric initial value\r\n"),
    ("mg a Jx Fx\r\n", "CLIENT_ERROR invalid numeric initial value\r\n"), ("mg a Fx Cx\r\n", TOKEN), ("mg a Cx\r\n", TOKEN), ("mg a Tx\r\n", TOKEN),
    ("mg a T\r\n", TOKEN), ("mg a N\r\n", TOKEN), ("mg a R\r\n", TOKEN), ("mg a Nx z\r\n", FLAG), ("mg a sfoo tbar vx q1\r\n", ""),
    ("mg a O\r\n", "EN O\r\n"), ("mg a {O31}\r\n", "EN O1111111111111111111111111111111\r\n"), ("mg a {O32}\r\n", OPAQUE), ("mg a q {O32}\r\n", OPAQUE),
    ("mg {250}\r\n", "EN\r\n"), ("mg {251}\r\n", FORMAT), ("mg {251} q\r\n", FORMAT), ("mg a q z\r\n", FLAG),
    ("mg YQ== s t c f k l h O1 b v q u P1 L1 T0 R30 C0\r\n", ""),
    ("mg YQ== s t c f k l h O1 b v u P1 L1 T0 R30 C1 MX D1\r\n", "CLIENT_ERROR options flags are too long\r\n"),
    ("mg a z z z z z z z z z z z z z z z z z z\r\n", "CLIENT_ERROR options flags are too long\r\n"),
    ("mg YQ== b k v\r\n", "EN kYQ== b\r\n"), ("mg YR== b k v\r\n", "EN kYQ== b\r\n"), ("mg YWFh k b\r\n", "EN kYWFh b\r\n"),
    ("mg YQ b\r\n", BASE64), ("mg Y b\r\n", BASE64), ("mg YQ= b\r\n", BASE64), ("mg !!!! b\r\n", BASE64), ("mg ==== b\r\n", BASE64), ("mg YQ== b b\r\n", DUPLICATE),
    ("mg Y b q\r\n", BASE64), ("mg Y b Tx\r\n", TOKEN), ("mg Y Tx b\r\n", BASE64),
    // Meta set.
    ("ms\r\n", ERROR), ("ms a\r\n", FORMAT), ("ms a\r\n1\r\n", FORMAT_ERROR), ("ms a 1\r\n1\r\n", "HD\r\n"), ("ms a 0\r\n\r\n", "HD\r\n"), ("ms a +1\r\n1\r\n", "HD\r\n"),
    ("ms a x\r\n1\r\n", FORMAT_ERROR), ("ms a -1\r\n1\r\n", FORMAT_ERROR), ("ms a 1x\r\n1\r\n", FORMAT_ERROR), ("ms a 2147483646\r\n", FORMAT),
    ("ms a 1 S1\r\n1\r\n", FLAG), ("ms a 1 1\r\n1\r\n", FLAG), ("ms a 1 z\r\n1\r\n", FLAG), ("ms a 1 T1 T1\r\n1\r\n", DUPLICATE), ("ms a 1 Tx\r\n1\r\n", TOKEN),
    ("ms a 1 Fx\r\n1\r\n", FORMAT), ("ms a 1 M\r\n1\r\n", MODE_LENGTH), ("ms a 1 Mx\r\n1\r\n", MS_MODE), ("ms a 1 Me\r\n1\r\n", MS_MODE),
    ("ms a 1 Cx\r\n1\r\n", TOKEN), ("ms a 1 {O32}\r\n1\r\n", OPAQUE), ("ms a 1 {O32} Mx\r\n1\r\n", MS_MODE), ("ms a 1 N0 I t v h l f\r\n1\r\n", "HD\r\n"),
    ("ms a 1 T0 F5 k O1 q\r\n1\r\n", ""), ("ms a 1 k {O31}\r\n1\r\n", "HD ka O1111111111111111111111111111111\r\n"), ("ms YQ== 1 b k O1\r\n1\r\n", "HD kYQ== b O1\r\n"),
    ("ms Y 1 b\r\n1\r\n", BASE64), ("ms a 1 b\r\n1\r\n", BASE64), ("ms a 1 q\r\n12\r\n", CHUNK_ERROR), ("ms a 1\r\n12\r\n", CHUNK_ERROR),
    ("ms {251} 1\r\n1\r\n", FORMAT_ERROR), ("ms {251} 1 q\r\n1\r\n", FORMAT_ERROR),
    ("ms a 1 t c f k l h O1 v q u P1 L1 T0 R30 N0 I C1\r\n1\r\n", "CLIENT_ERROR options flags too long\r\nERROR\r\n"),
    ("ms a 1 ME\r\n1\r\n", "HD\r\n"), ("ms a 1 MA\r\n1\r\n", "NS\r\n"), ("ms a 1 MP\r\n1\r\n", "NS\r\n"), ("ms a 1 MR k O5\r\n1\r\n", "NS ka O5\r\n"),
    ("ms a 1 MS\r\n1\r\n", "HD\r\n"), ("ms a 1 MR q\r\n1\r\n", "NS\r\n"), ("ms a 1 C5 k O5 c\r\n1\r\n", "NF ka O5 c0\r\n"), ("ms a 1 C5 MR\r\n1\r\n", "NF\r\n"), ("ms a 1 C5 ME\r\n1\r\n", "HD\r\n"),
    // Meta delete.
    ("md\r\n", ERROR), ("md a\r\n", "NF\r\n"), ("md a k O1\r\n", "NF ka O1\r\n"), ("md a q\r\n", "NF\r\n"), ("md a z\r\n", EITHER), ("md a s s\r\n", EITHER), ("md a Tx\r\n", EITHER),
    ("md Y b\r\n", EITHER), ("md YQ== b k\r\n", "NF kYQ== b\r\n"), ("md a {O32}\r\n", OPAQUE), ("md {251}\r\n", FORMAT), ("md a I T30 C1 v t c\r\n", "NF\r\n"),
    ("md a s t c f k l h O1 v q u P1 L1 T0 R30 N0 I C1\r\n", "CLIENT_ERROR options flags too long\r\n"),
    // Meta arithmetic.
    ("ma\r\n", ERROR), ("ma n\r\n", "NF\r\n"), ("ma n k O1\r\n", "NF kn O1\r\n"), ("ma n k O1 q\r\n", "NF kn O1\r\n"), ("ma bg== b k v\r\n", "NF kbg== b\r\n"),
    ("ma n MD\r\n", "NF\r\n"), ("ma n M-\r\n", "NF\r\n"), ("ma n M+\r\n", "NF\r\n"), ("ma n MI\r\n", "NF\r\n"), ("ma n Mi\r\n", MA_MODE), ("ma n Mx\r\n", MA_MODE), ("ma n Mx {O32}\r\n", MA_MODE),
    ("ma n M\r\n", EITHER), ("ma n Mxx\r\n", EITHER), ("ma n Dx\r\n", EITHER), ("ma n D-1\r\n", EITHER), ("ma n D\r\n", EITHER), ("ma n D18446744073709551616\r\n", EITHER), ("ma n Jx\r\n", EITHER),
    ("ma n Nx\r\n", EITHER), ("ma n z\r\n", EITHER), ("ma n s s\r\n", EITHER), ("ma n C1\r\n", "NF\r\n"), ("ma n {O32}\r\n", OPAQUE), ("ma {251}\r\n", FORMAT),
    // Meta debug.
    ("me\r\n", FORMAT), ("me a\r\n", "EN\r\n"), ("me a z\r\n", "EN\r\n"), ("me a k O1\r\n", "EN\r\n"), ("me a q\r\n", "EN\r\n"), ("me Y b\r\n", FORMAT), ("me YQ== b\r\n", "EN\r\n"), ("me a k b\r\n", "EN\r\n"),
    ("me {251}\r\n", FORMAT), ("me {250}\r\n", "EN\r\n"),
];

/// Input, what this crate answers, what memcached 1.6.18 answers. `docs/protocol-memcached.md` has
/// the reasons.
#[rustfmt::skip]
const DIFFERENT: &[(&str, &str, &str)] = &[
    // Flags of later releases.
    ("mg a E1\r\n", "EN\r\n", FLAG), ("mg a x\r\n", "EN\r\n", FLAG), ("ms a 1 E7\r\n1\r\n", "HD\r\n", FLAG), ("md a x E7\r\n", "NF\r\n", EITHER), ("ma n E7\r\n", "NF\r\n", EITHER),
    // The length as a flag, of the first releases.
    ("ms a S1\r\n1\r\n", "HD\r\n", FORMAT_ERROR), ("ms a T0 S1 k\r\n1\r\n", "HD ka\r\n", FORMAT_ERROR),
    // Lengths are not cut to 32 bits.
    ("set a 0 0 4294967297\r\n1\r\n", FORMAT_ERROR, "STORED\r\n"), ("ms a 4294967297\r\n1\r\n", FORMAT_ERROR, "HD\r\n"),
    // A number below zero is not an unsigned number, however far below.
    ("set a -18446744073709551615 0 1\r\n1\r\n", FORMAT_ERROR, "STORED\r\n"),
    // Base64 has its padding at the end.
    ("mg =YQ= b\r\n", BASE64, "EN\r\n"), ("mg YW=h b k\r\n", BASE64, "EN kYWA= b\r\n"), ("mg YQ==YQ== b k\r\n", BASE64, "EN kYQ== b\r\n"),
    // Not built for TLS, memcached says so in its own way.
    ("refresh_certs\r\n", ERROR, "Error TLS not enabled\r\n"),
    ("lru mode flat\r\n", ERROR, "OK\r\n"), ("slabs automove 0\r\n", ERROR, "OK\r\n"),
];

fn expand(input: &str) -> Vec<u8> {
    let input = input.replace("{250}", &"k".repeat(250)).replace("{251}", &"k".repeat(251));
    input.replace("{O31}", O31).replace("{O32}", O32).into_bytes()
}

#[test]
fn answers_are_those_of_the_tables() {
    let ours = DIFFERENT.iter().map(|(input, ours, _)| (input, ours));
    for (input, output) in SAME.iter().map(|(input, output)| (input, output)).chain(ours) {
        let (answered, _) = answer(&expand(input), &Limits::default());
        assert_eq!(
            answered.escape_ascii().to_string(),
            output.as_bytes().escape_ascii().to_string(),
            "{input:?}"
        );
    }
}

#[test]
fn quit_closes() {
    assert_eq!(answer(b"get a\r\nquit\r\nversion\r\n", &Limits::default()), (b"END\r\n".to_vec(), true));
}

/// Lines that memcached cuts off without a word are answered before they are cut off.
#[test]
fn lines_beyond_their_limit_close_the_connection() {
    let too_long = (b"CLIENT_ERROR line too long\r\n".to_vec(), true);
    let limits = Limits::default();
    for name in ["x", "set a", "mg a", "delete a", "stats", "getx"] {
        let line = name.to_owned() + &" k".repeat(1_100);
        assert_eq!(answer(line.as_bytes(), &limits), too_long, "{name}");
        assert_eq!(answer((line + "\r\n").as_bytes(), &limits), too_long, "{name}");
    }
    for name in ["get", "gets", "gat 0", "gats 0", "  get"] {
        let line = name.to_owned() + &" k".repeat(1_100) + "\r\n";
        assert_eq!(answer(line.as_bytes(), &limits), (b"END\r\n".to_vec(), false), "{name}");
        let line = name.to_owned() + &" k".repeat(1 << 19) + "\r\n";
        assert_eq!(answer(line.as_bytes(), &limits), too_long, "{name}");
    }
    let most = "x".repeat(2_047) + "\r\n";
    assert_eq!(answer(most.as_bytes(), &limits), (b"ERROR\r\n".to_vec(), false));
    assert_eq!(answer(("x".to_owned() + &most).as_bytes(), &limits), too_long);
}

/// A memcached of our own, stopped when it is dropped.
struct Memcached {
    child: Child,
    port: u16,
}

impl Memcached {
    /// Starts one, or says why there is none.
    fn start() -> Result<Self, String> {
        let version =
            Command::new("memcached").arg("-V").output().map_err(|error| format!("no memcached: {error}"))?;
        let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
        if version != "memcached 1.6.18" {
            return Err(format!("the tables are those of memcached 1.6.18, and here is {version}"));
        }
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| error.to_string())?.port();
        let child = Command::new("memcached")
            .args([
                "-u",
                "nobody",
                "-l",
                "127.0.0.1",
                "-U",
                "0",
                "-t",
                "1",
                "-m",
                "64",
                "-p",
                &port.to_string(),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let memcached = Self { child, port };
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(memcached);
            }
            base::thread::sleep(Duration::from_millis(10));
        }
        panic!("memcached did not listen on port {port} within five seconds");
    }

    /// Empties the cache, sends `input`, and reads until the answer to a last command that answers
    /// nothing else.
    fn answer(&self, input: &[u8]) -> Vec<u8> {
        const LAST: &[u8] = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n";
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).expect("memcached listens");
        connection.set_nodelay(true).expect("a socket option");
        connection.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket option");
        // The answer is awaited: on an overlong key memcached forgets the answers it has not sent
        // yet.
        connection.write_all(b"flush_all\r\n").expect("memcached reads");
        let mut ok = [0; 4];
        connection.read_exact(&mut ok).expect("memcached answers");
        assert_eq!(&ok, b"OK\r\n");
        connection.write_all(&[input, b"stats detail\r\n"].concat()).expect("memcached reads");
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let len = connection.read(&mut piece).expect("memcached answers");
            answer.extend_from_slice(&piece[..len]);
            if let Some(answer) = answer.strip_suffix(LAST).or((len == 0).then_some(&answer)) {
                return answer.to_vec();
            }
        }
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_tables_are_memcacheds() {
    let memcached = match Memcached::start() {
        Ok(memcached) => memcached,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let theirs = DIFFERENT.iter().map(|(input, _, theirs)| (input, theirs));
    let mut wrong = Vec::new();
    for (input, output) in SAME.iter().map(|(input, output)| (input, output)).chain(theirs) {
        let answered = memcached.answer(&expand(input)).escape_ascii().to_string();
        if answered != output.as_bytes().escape_ascii().to_string() {
            wrong.push(format!("{input:?}: {answered}, not {output:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
