//! Recognises HTTP on a port of a cache.
//!
//! A web page can have a browser send an HTTP request to any port, with a body that it chooses. A
//! server that answers the lines of the head with errors and reads on would execute the body as
//! commands. memcached and Redis close the connection instead, and so does a server that asks this
//! module about each line that is not a command.

/// Methods whose names a browser or a proxy may send, and the first word of HTTP/2.
const METHODS: [&[u8]; 10] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH", b"PRI"];

/// Returns whether a first word is that of an HTTP request and never that of a command: `POST` or
/// the header `Host:`, as Redis has it.
pub fn is_first_word(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"POST") || word.eq_ignore_ascii_case(b"Host:")
}

/// Returns whether the words of a line are those of a request line of HTTP, or begin as such a
/// request does.
///
/// A command may end with a word that looks like a version of HTTP. So the first word must be a
/// method in capitals, of three words.
pub fn is_request<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let mut words = words.into_iter();
    let Some(first) = words.next() else { return false };
    if is_first_word(first) {
        return true;
    }
    let (last, count) = words.fold((first, 1_usize), |(_, count), word| (word, count.saturating_add(1)));
    count == 3 && METHODS.contains(&first) && last.starts_with(b"HTTP/")
}

/// Returns whether a line that is not a command was meant for a web server: it ends with a version
/// of HTTP, or begins as a request does.
pub fn is_line<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let mut words = words.into_iter();
    let Some(first) = words.next() else { return false };
    is_first_word(first) || words.last().is_some_and(|last| last.starts_with(b"HTTP/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = &[u8]> {
        line.split(' ').map(str::as_bytes)
    }

    #[test]
    fn request_lines_and_host_headers_are_http() {
        for line in [
            "GET / HTTP/1.1",
            "PUT /asdf HTTP/1.0",
            "PRI * HTTP/2.0",
            "POST / HTTP/1.1",
            "post",
            "Host: localhost",
            "host: x",
        ] {
            assert!(is_request(words(line)) && is_line(words(line)), "{line}");
        }
    }

    #[test]
    fn commands_are_not_http() {
        for line in ["SET proto HTTP/1.1", "GET HTTP/1.1", "GET k", "get / HTTP/1.1", "host", ""] {
            assert!(!is_request(words(line)), "{line}");
        }
        assert!(is_line(words("BREW /pot HTCPCP HTTP/1.0")));
        assert!(!is_line(words("HTTP/1.0")) && !is_line(words("nosuch command")));
    }
}
