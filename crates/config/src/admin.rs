//! The HTTP server for operators.

use std::path::PathBuf;

use super::users::Secret;
use super::values::{self, Address, Auto};
use super::{ClientAuth, Config};

/// The fewest bytes of a token: fewer can be guessed.
pub const MIN_TOKEN_BYTES: usize = 16;

settings! {
    /// The HTTP server for operators: metrics, health, statistics and changes.
    pub struct Admin in "admin." and tls {
        /// Starts the HTTP server with /metrics, /healthz, /stats.json, /hotkeys.json and
        /// /curves.json.
        restart enabled: bool = true;

        /// Its address, "tcp://IP:PORT". "auto": "tcp://127.0.0.1:11212"; if another program has
        /// that, the server warns and has no /metrics and other pages.
        restart address: Auto<Address> = Auto::Auto;

        /// Accepted host names and addresses besides its own, as in `["cache-1.example"]`; others
        /// are rejected, so that no web page can read it through a name that resolves to this
        /// server. "*" is any.
        online hosts: Vec<String> = Vec::new();

        /// A token that operators must send, as in `Authorization: Bearer TOKEN` or `millpond
        /// --token` (docs/security.md#the-admin-server), unless they have a certificate. At least
        /// 16 bytes. Empty: no token is needed.
        online token: Secret = Secret::default();

        /// A file with further tokens, one per line, # before comments; read again on SIGHUP.
        online tokens_file: PathBuf = PathBuf::new();
    }
}

impl Admin {
    /// Returns the address it listens on.
    pub fn address(&self) -> Address {
        self.address.or(|| Address::loopback(values::ADMIN_PORT))
    }
}

/// Reports an admin server that cannot work, or that unauthenticated clients could use.
pub(super) fn check(config: &Config, problems: &mut Vec<String>) {
    if !config.admin.enabled {
        return;
    }
    let address = &config.admin.address();
    if matches!(address, Address::Unix(_)) {
        problems.push(format!("admin.address: {address} is not tcp://IP:PORT, which is all that it can be"));
    }
    let admin = &config.admin;
    let token = admin.token.0.len();
    if token > 0 && token < MIN_TOKEN_BYTES {
        problems.push(format!(
            "admin.token: it has {token} bytes and can be guessed; give at least {MIN_TOKEN_BYTES}"
        ));
    }
    let has_tokens = token > 0 || !admin.tokens_file.as_os_str().is_empty();
    let has_certificates =
        !admin.tls_client_ca.as_os_str().is_empty() && admin.tls_client_auth == ClientAuth::Required;
    if address.is_remote() && !config.allow_remote && !has_tokens && !has_certificates {
        problems.push(format!(
            "admin.address: {address} can be reached from other machines, and whoever does sees keys and figures. Use a loopback \
             address, set admin.token or require certificates (admin.tls_client_ca), or set allow_remote = true if the \
             network is trusted"
        ));
    }
    if config.listeners.iter().any(|listener| listener.address.clashes_with(address)) {
        problems.push(format!("admin.address: {address} is also a listener's; give it its own port"));
    }
}
