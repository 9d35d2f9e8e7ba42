//! Requests of a client, appended to an output buffer.
//!
//! Keys are the caller's to keep legal: at most [`super::KEY_MAX_BYTES`] bytes, no spaces, no
//! control characters. Nothing is checked here.

use super::expiry::Exptime;
use super::key::{Key, write_base64};
use super::number::write_u64;
use super::request::{Direction, MetaCommand, Request, ShutdownMode, StoreCommand, StoreHeader};

/// Appends `get` or `gets`.
pub fn get<'k>(out: &mut Vec<u8>, with_cas: bool, keys: impl IntoIterator<Item = &'k [u8]>) {
    words(out, if with_cas { b"gets" } else { b"get" }, keys);
    end(out);
}

/// Appends `gat` or `gats`.
pub fn get_and_touch<'k>(
    out: &mut Vec<u8>,
    with_cas: bool,
    exptime: Exptime,
    keys: impl IntoIterator<Item = &'k [u8]>,
) {
    out.extend_from_slice(if with_cas { b"gats" } else { b"gat" });
    signed(out, exptime.0);
    words(out, b"", keys);
    end(out);
}

/// Appends a classic storage command. `compare_cas` is for [`StoreCommand::Cas`] alone, which takes
/// 0 if it is `None`.
#[expect(clippy::too_many_arguments, reason = "they are the words of the command, in its order")]
pub fn store(
    out: &mut Vec<u8>,
    command: StoreCommand,
    key: &[u8],
    client_flags: u32,
    exptime: Exptime,
    compare_cas: Option<u64>,
    data: &[u8],
    noreply: bool,
) {
    let name: &[u8] = match command {
        StoreCommand::Set => b"set",
        StoreCommand::Add => b"add",
        StoreCommand::Replace => b"replace",
        StoreCommand::Append => b"append",
        StoreCommand::Prepend => b"prepend",
        StoreCommand::Cas => b"cas",
    };
    words(out, name, [key]);
    unsigned(out, u64::from(client_flags));
    signed(out, exptime.0);
    unsigned(out, data.len() as u64);
    if command == StoreCommand::Cas {
        unsigned(out, compare_cas.unwrap_or(0));
    }
    end_of_command(out, noreply);
    out.extend_from_slice(data);
    end(out);
}

/// Appends `delete`.
pub fn delete(out: &mut Vec<u8>, key: &[u8], noreply: bool) {
    words(out, b"delete", [key]);
    end_of_command(out, noreply);
}

/// Appends `incr` or `decr`.
pub fn arithmetic(out: &mut Vec<u8>, direction: Direction, key: &[u8], delta: u64, noreply: bool) {
    let name = match direction {
        Direction::Increment => b"incr",
        Direction::Decrement => b"decr",
    };
    words(out, name, [key]);
    unsigned(out, delta);
    end_of_command(out, noreply);
}

/// Appends `touch`.
pub fn touch(out: &mut Vec<u8>, key: &[u8], exptime: Exptime, noreply: bool) {
    words(out, b"touch", [key]);
    signed(out, exptime.0);
    end_of_command(out, noreply);
}

/// Appends a command that has no parameters but these words.
pub fn line<'k>(out: &mut Vec<u8>, name: &[u8], parameters: impl IntoIterator<Item = &'k [u8]>) {
    words(out, name, parameters);
    end(out);
}

/// Appends a meta command without data: `mg`, `md`, `ma` or `me`. Flags are written as given, each
/// with its token; with `base64` the key is encoded and flag `b` is put in front of them.
pub fn meta<'k>(
    out: &mut Vec<u8>,
    name: &[u8; 2],
    key: &[u8],
    base64: bool,
    flags: impl IntoIterator<Item = &'k [u8]>,
) {
    meta_key(out, name, key, base64);
    words(out, if base64 { b" b" } else { b"" }, flags);
    end(out);
}

/// Appends `ms` with its data. Flags and key as in [`meta`].
pub fn meta_set<'k>(
    out: &mut Vec<u8>,
    key: &[u8],
    base64: bool,
    data: &[u8],
    flags: impl IntoIterator<Item = &'k [u8]>,
) {
    meta_key(out, b"ms", key, base64);
    unsigned(out, data.len() as u64);
    words(out, if base64 { b" b" } else { b"" }, flags);
    end(out);
    out.extend_from_slice(data);
    end(out);
}

/// Appends a request as it was parsed, in the shortest spelling that means the same.
pub fn request(out: &mut Vec<u8>, request: &Request<'_>) {
    match request {
        Request::Get(get_) => match get_.touch {
            None => get(out, get_.with_cas, get_.keys),
            Some(exptime) => get_and_touch(out, get_.with_cas, exptime, get_.keys),
        },
        Request::Store(store) => parsed_store(out, &store.header, store.data),
        Request::Delete(request) => delete(out, request.key.wire(), request.noreply),
        Request::Arithmetic(request) => {
            arithmetic(out, request.direction, request.key.wire(), request.delta, request.noreply);
        }
        Request::Touch(request) => touch(out, request.key.wire(), request.exptime, request.noreply),
        Request::Meta(request) => {
            let name = match request.command {
                MetaCommand::Get => b"mg",
                MetaCommand::Delete => b"md",
                MetaCommand::Arithmetic(_) => b"ma",
                MetaCommand::Debug => b"me",
            };
            meta_wire(out, name, request.key);
            for flag in request.flags.iter() {
                words(out, b"", [&[flag.letter][..]]);
                out.extend_from_slice(flag.argument);
            }
            end(out);
        }
        Request::FlushAll { delay, noreply } => {
            out.extend_from_slice(b"flush_all");
            signed(out, delay.0);
            end_of_command(out, *noreply);
        }
        Request::Verbosity { level, noreply } => {
            out.extend_from_slice(b"verbosity");
            unsigned(out, u64::from(*level));
            end_of_command(out, *noreply);
        }
        Request::CacheMemlimit { mebibytes, noreply } => {
            out.extend_from_slice(b"cache_memlimit");
            unsigned(out, *mebibytes);
            end_of_command(out, *noreply);
        }
        Request::Stats(arguments) => line(out, b"stats", *arguments),
        Request::Unsupported { name, arguments } => line(out, name, *arguments),
        Request::MetaNoop => line(out, b"mn", []),
        Request::Version => line(out, b"version", []),
        Request::Quit => line(out, b"quit", []),
        Request::Shutdown(mode) => {
            let word = match mode {
                ShutdownMode::Immediate => None,
                ShutdownMode::Graceful => Some(&b"graceful"[..]),
                ShutdownMode::Unknown => Some(&b"?"[..]),
            };
            line(out, b"shutdown", word);
        }
    }
}

fn parsed_store(out: &mut Vec<u8>, header: &StoreHeader<'_>, data: &[u8]) {
    let Some(flags) = header.meta else {
        return store(
            out,
            header.command,
            header.key.wire(),
            header.client_flags,
            header.exptime,
            header.compare_cas,
            data,
            header.noreply,
        );
    };
    meta_wire(out, b"ms", header.key);
    unsigned(out, data.len() as u64);
    // Flag S gave the length in the first releases; now the length stands before the flags.
    for flag in flags.iter().filter(|flag| flag.letter != b'S') {
        words(out, b"", [&[flag.letter][..]]);
        out.extend_from_slice(flag.argument);
    }
    end(out);
    out.extend_from_slice(data);
    end(out);
}

fn words<'k>(out: &mut Vec<u8>, name: &[u8], parameters: impl IntoIterator<Item = &'k [u8]>) {
    out.extend_from_slice(name);
    for word in parameters {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}

fn meta_key(out: &mut Vec<u8>, name: &[u8; 2], key: &[u8], base64: bool) {
    out.extend_from_slice(name);
    out.push(b' ');
    if base64 {
        write_base64(out, key);
    } else {
        out.extend_from_slice(key);
    }
}

fn meta_wire(out: &mut Vec<u8>, name: &[u8; 2], key: Key<'_>) {
    meta_key(out, name, key.wire(), false);
}

fn unsigned(out: &mut Vec<u8>, value: u64) {
    out.push(b' ');
    write_u64(out, value);
}

fn signed(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(if value < 0 { b" -" } else { b" " });
    write_u64(out, value.unsigned_abs());
}

fn end_of_command(out: &mut Vec<u8>, noreply: bool) {
    if noreply {
        out.extend_from_slice(b" noreply");
    }
    end(out);
}

fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(compose: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        compose(&mut out);
        out.escape_ascii().to_string()
    }

    #[test]
    fn classic_commands() {
        assert_eq!(written(|out| get(out, false, [&b"a"[..], b"b"])), r"get a b\r\n");
        assert_eq!(written(|out| get(out, true, [&b"a"[..]])), r"gets a\r\n");
        assert_eq!(written(|out| get_and_touch(out, true, Exptime(-5), [&b"a"[..]])), r"gats -5 a\r\n");
        let set = |out: &mut Vec<u8>| store(out, StoreCommand::Set, b"k", 7, Exptime(60), None, b"v\r", true);
        assert_eq!(written(set), r"set k 7 60 2 noreply\r\nv\r\r\n");
        let cas = |out: &mut Vec<u8>| store(out, StoreCommand::Cas, b"k", 0, Exptime(0), Some(9), b"", false);
        assert_eq!(written(cas), r"cas k 0 0 0 9\r\n\r\n");
        assert_eq!(written(|out| delete(out, b"k", false)), r"delete k\r\n");
        assert_eq!(written(|out| touch(out, b"k", Exptime(0), true)), r"touch k 0 noreply\r\n");
        let decr = |out: &mut Vec<u8>| arithmetic(out, Direction::Decrement, b"n", u64::MAX, false);
        assert_eq!(written(decr), r"decr n 18446744073709551615\r\n");
        assert_eq!(written(|out| line(out, b"stats", [&b"items"[..]])), r"stats items\r\n");
    }

    #[test]
    fn meta_commands() {
        assert_eq!(written(|out| meta(out, b"mg", b"k", false, [&b"v"[..], b"O7"])), r"mg k v O7\r\n");
        assert_eq!(written(|out| meta(out, b"md", b"mill pond", true, [])), r"md bWlsbCBwb25k b\r\n");
        let set = |out: &mut Vec<u8>| meta_set(out, b"k", false, b"xyz", [&b"T0"[..]]);
        assert_eq!(written(set), r"ms k 3 T0\r\nxyz\r\n");
    }
}
