//! Listening sockets that a service manager hands over, as systemd does for a `.socket` unit, each
//! under the name of its listener.
//!
//! They are open before the server starts and after it stops, so that clients that connect while it
//! is replaced wait in the kernel's queue and are not refused.

use std::os::fd::OwnedFd;

use config::{Config, Error, ErrorKind};
use listenfd::ListenFd;

/// The name of the admin server's socket.
const ADMIN: &str = "admin";

/// Sockets by name.
#[derive(Debug, Default)]
pub(crate) struct Activated(Vec<(String, OwnedFd)>);

impl Activated {
    /// Returns the sockets that this process was started with. To be called once, before there are
    /// other threads.
    ///
    /// # Errors
    /// [`ErrorKind::Listen`] if one of them is not a listening socket.
    pub(crate) fn from_environment() -> Result<Self, Error> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').map(str::to_owned);
        let mut handed = ListenFd::from_env();
        let mut sockets = Vec::new();
        for number in 0..handed.len() {
            let name = names.next().unwrap_or_default();
            let tcp = handed.take_tcp_listener(number).ok().flatten().map(OwnedFd::from);
            let unix = || handed.take_unix_listener(number).ok().flatten().map(OwnedFd::from);
            let socket = tcp.or_else(unix).ok_or_else(|| {
                Error::new(
                    ErrorKind::Listen,
                    format!("socket {number} (`{name}`) that was handed over is not a listening TCP or unix socket"),
                )
            })?;
            sockets.push((name, socket));
        }
        Ok(Self(sockets))
    }

    /// Checks that each belongs to a listener of `config`, or to the admin server. A single one
    /// needs no name.
    ///
    /// # Errors
    /// [`ErrorKind::Listen`], naming the socket without a listener.
    pub(crate) fn match_names(&mut self, config: &Config) -> Result<(), Error> {
        let is_known = |name: &str| name == ADMIN || config.listeners.iter().any(|it| it.name == name);
        // Listeners that the server may do without are none that a socket without a name is for.
        if let ([(name, _)], [first, others @ ..]) = (self.0.as_mut_slice(), config.listeners.as_slice())
            && !is_known(name)
            && others.iter().all(|it| it.optional)
        {
            name.clone_from(&first.name);
        }
        match self.0.iter().find(|(name, _)| !is_known(name)) {
            None => Ok(()),
            Some((name, _)) => Err(Error::new(
                ErrorKind::Listen,
                format!(
                    "a socket was handed over under the name `{name}`, and there is no such listener; set FileDescriptorName= \
                     in its unit to the listener's name, or to `{ADMIN}`"
                ),
            )),
        }
    }

    /// Returns whether the listener of that name has a socket here.
    pub(crate) fn has(&self, listener: &str, config: &Config) -> bool {
        let is_known = |name: &str| name == ADMIN || config.listeners.iter().any(|it| it.name == name);
        match self.0.as_slice() {
            [(name, _)] if !is_known(name) => config.listeners.first().is_some_and(|it| it.name == listener),
            sockets => sockets.iter().any(|(name, _)| name == listener),
        }
    }

    /// Returns whether the admin server has a socket here.
    pub(crate) fn has_admin(&self) -> bool {
        self.0.iter().any(|(name, _)| name == ADMIN)
    }

    /// The socket of that name.
    pub(crate) fn take(&mut self, name: &str) -> Option<OwnedFd> {
        let at = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// That of the admin server.
    pub(crate) fn take_admin(&mut self) -> Option<OwnedFd> {
        self.take(ADMIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(names: &[&str]) -> Activated {
        let socket = || OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").expect("a socket"));
        Activated(names.iter().map(|name| ((*name).to_owned(), socket())).collect())
    }

    #[test]
    fn sockets_are_told_apart_by_name() {
        let config = Config::default();
        let mut both = handed(&["admin", "main"]);
        both.match_names(&config).expect("both are known");
        assert!(both.has("main", &config) && !both.has("redis", &config) && both.has_admin());
        assert!(both.take("main").is_some() && both.take("main").is_none() && both.take_admin().is_some());
        let mut single = handed(&["millpond.socket"]);
        assert!(single.has("main", &config) && !single.has_admin());
        single.match_names(&config).expect("a single one needs no name");
        assert!(single.take("main").is_some());
        let error = handed(&["main", "other"]).match_names(&config).expect_err("unknown").to_string();
        assert!(error.contains("`other`") && error.contains("FileDescriptorName="), "{error}");
    }
}
