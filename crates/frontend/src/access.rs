//! The tokens and host names of operators, as the admin server checks them.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use config::Config;
use config::MIN_TOKEN_BYTES;
use config::acl::Password;
use http::{HeaderMap, header};

/// The tokens of operators, and the host names by which the server may be addressed.
#[derive(Default)]
pub struct Access {
    tokens: Vec<Password>,
    hosts: Vec<String>,
}

/// The rules that hold now.
#[derive(Default)]
pub struct AccessSlot(RwLock<Arc<Access>>);

impl AccessSlot {
    /// Puts rules in force.
    pub fn set(&self, access: Access) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
    }

    /// Returns the rules in force.
    pub fn get(&self) -> Arc<Access> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Access {
    /// Returns whether operators have tokens.
    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Loads the tokens and names of `config` and of the file that it names; empty if the admin
    /// server is off.
    ///
    /// # Errors
    /// The faults of the file: it cannot be read, or has tokens that can be guessed.
    pub fn load(config: &Config) -> Result<Self, Vec<String>> {
        let admin = &config.admin;
        if !admin.enabled {
            return Ok(Self::default());
        }
        let mut tokens = Vec::new();
        if !admin.token.0.is_empty() {
            tokens.push(Password::of_plain(admin.token.0.as_bytes()));
        }
        if !admin.tokens_file.as_os_str().is_empty() {
            tokens.extend(tokens_of(&admin.tokens_file)?);
        }
        Ok(Self { tokens, hosts: admin.hosts.clone() })
    }

    /// Returns whether the request carries a token; `None` if its token is not a valid one.
    pub fn shows_token(&self, headers: &HeaderMap) -> Option<bool> {
        let Some(shown) = headers.get(header::AUTHORIZATION) else { return Some(false) };
        if self.tokens.is_empty() {
            return Some(false);
        }
        let bytes = shown.as_bytes();
        let token =
            bytes.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "))?.1;
        // All are compared, so that time tells nothing of which it is.
        let is_one = self.tokens.iter().fold(false, |is_one, known| known.is(token.trim_ascii()) | is_one);
        is_one.then_some(true)
    }

    /// Returns the reason to refuse a request without credentials, if there is one.
    pub fn refusal(
        &self,
        is_tls: bool,
        local: Option<SocketAddr>,
        headers: &HeaderMap,
    ) -> Option<&'static str> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        if !is_tls && !self.is_own(host_name(host), local) {
            return Some(
                "the Host of the request is not this server's: ask by its address, or name this one in admin.hosts\n",
            );
        }
        let is_same =
            |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host));
        if text(header::ORIGIN).is_some_and(|origin| !is_same(origin)) {
            return Some("the request is by a page of another server\n");
        }
        let (site, mode) = (headers.get("sec-fetch-site"), headers.get("sec-fetch-mode"));
        let is_by_other = site.is_some_and(|site| site == "cross-site" || site == "same-site");
        // Following a link from another page is no more than typing the address.
        (is_by_other && mode.is_none_or(|mode| mode != "navigate"))
            .then_some("the request is by a page of another server\n")
    }

    fn is_own(&self, name: &str, local: Option<SocketAddr>) -> bool {
        let is_named = |known: &String| known == "*" || known.eq_ignore_ascii_case(name);
        let is_here =
            |ip: IpAddr| ip.is_loopback() || local.is_some_and(|local| local.ip().to_canonical() == ip);
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|ip| is_here(ip.to_canonical()))
            || (!name.is_empty() && self.hosts.iter().any(is_named))
    }
}

/// The name in a Host, without its port.
fn host_name(host: &str) -> &str {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
    name.trim_start_matches('[').trim_end_matches(']')
}

/// The tokens of a file, one a line.
fn tokens_of(file: &Path) -> Result<Vec<Password>, Vec<String>> {
    let refuse = |what: String| format!("admin.tokens_file: {} {what}", file.display());
    let cannot = |error: std::io::Error| vec![refuse(format!("cannot be read: {error}"))];
    let text = config::files::read_text(file).map_err(cannot)?;
    let (mut tokens, mut problems) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let token = line.trim();
        if token.is_empty() || token.starts_with('#') {
            continue;
        }
        if token.len() < MIN_TOKEN_BYTES {
            let what = format!("has a token of less than {MIN_TOKEN_BYTES} bytes in line {number}");
            problems.push(refuse(what));
        }
        tokens.push(Password::of_plain(token.as_bytes()));
    }
    if tokens.is_empty() {
        problems.push(refuse("has no token".to_owned()));
    }
    if problems.is_empty() { Ok(tokens) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn a_request_names_the_server_and_comes_from_no_other_page() {
        let access = Access { hosts: vec!["cache.example".to_owned()], ..Access::default() };
        let local = Some("10.0.0.1:11212".parse().expect("an address"));
        let refusal = |list: &[(&'static str, &str)]| access.refusal(false, local, &headers(list));
        for host in ["localhost:11212", "127.0.0.1", "[::1]:11212", "10.0.0.1:11212", "Cache.example:80"] {
            assert_eq!(refusal(&[("host", host)]), None, "{host}");
            let own =
                [("host", host), ("origin", &format!("http://{host}")), ("sec-fetch-site", "same-origin")];
            assert_eq!(refusal(&own), None, "{host}");
        }
        for host in ["evil.example", "8.8.8.8", "127.0.0.1.evil.example", "127.1", "", "10.0.0.2:11212"] {
            assert!(refusal(&[("host", host)]).is_some(), "{host}");
        }
        assert!(refusal(&[]).is_some(), "no Host");
        for foreign in [
            [("host", "localhost:1"), ("origin", "http://evil.example")],
            [("host", "localhost:1"), ("origin", "http://localhost:2")],
            [("host", "localhost:1"), ("origin", "null")],
            [("host", "localhost:1"), ("sec-fetch-site", "cross-site")],
        ] {
            assert!(refusal(&foreign).is_some(), "{foreign:?}");
        }
        let link = [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(refusal(&link), None);
        assert_eq!(access.refusal(true, local, &headers(&[("host", "by.certificate")])), None);
        let any = Access { hosts: vec!["*".to_owned()], ..Access::default() };
        assert_eq!(any.refusal(false, local, &headers(&[("host", "x")])), None);
    }

    #[test]
    fn tokens_are_compared_whole() {
        let access = Access { tokens: vec![Password::of_plain(b"0123456789abcdef")], ..Access::default() };
        let shows = |value: &str| access.shows_token(&headers(&[("authorization", value)]));
        assert_eq!(shows("Bearer 0123456789abcdef"), Some(true));
        assert_eq!(shows("bearer  0123456789abcdef "), Some(true));
        for wrong in
            ["Bearer 0123456789abcde", "Bearer 0123456789abcdeff", "Basic 0123456789abcdef", "Bearer ", ""]
        {
            assert_eq!(shows(wrong), None, "{wrong}");
        }
        assert_eq!(access.shows_token(&HeaderMap::new()), Some(false));
        assert_eq!(Access::default().shows_token(&headers(&[("authorization", "Bearer x")])), Some(false));
    }

    #[test]
    fn a_file_has_a_token_a_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tokens");
        std::fs::write(&file, "# of the robots\n0123456789abcdef\n\n fedcba9876543210 \n").expect("a file");
        let tokens = tokens_of(&file).expect("two tokens");
        assert!(tokens.len() == 2 && tokens[1].is(b"fedcba9876543210"));
        for (text, what) in [("", "has no token"), ("short\n", "in line 1")] {
            std::fs::write(&file, text).expect("a file");
            let error = tokens_of(&file).map(drop).expect_err("refused").join("\n");
            assert!(
                error.contains(what) && error.contains("admin.tokens_file") && !error.contains("short"),
                "{error}"
            );
        }
    }
}
