//! Certificates and keys: read from files, put in force, and described.
//!
//! A [`Tls`] is the state with which connections of one listener begin: certificate chain, key,
//! versions, and the requirements for clients. It is made as a whole or not at all, so that files
//! that do not go together leave the one in force as it is; connections keep the one that they
//! began with. Encryption is rustls's, with the primitives of ring.

mod buffers;
mod load;
mod subject;

use std::sync::{Arc, PoisonError, RwLock};

use config::{Config, TlsSettings};
use rustls::ServerConfig;

pub use self::buffers::{RECORDS, TlsBuffers};
pub use self::subject::Subject;

/// The TLS configuration of a listener's new connections.
pub struct Tls {
    /// rustls's configuration.
    pub config: Arc<ServerConfig>,
    /// The server's own certificate, without those that lead to its root.
    certificate: Vec<u8>,
    /// Expiry time of the first of the chain's certificates to expire, Unix seconds.
    pub expires_secs: i64,
}

/// The place of a [`Tls`]; empty: TLS is not spoken. Locked for the moment of reading or exchanging
/// it, once a connection.
#[derive(Default)]
pub struct TlsSlot(RwLock<Option<Arc<Tls>>>);

impl TlsSlot {
    /// Returns the configuration in force, if TLS is spoken.
    pub fn get(&self) -> Option<Arc<Tls>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts `new` in force, and logs it if its certificate differs from the one before.
    pub fn set(&self, name: &str, new: Option<Tls>, now_secs: u32) {
        let new = new.map(Arc::new);
        let old = {
            let mut slot = self.0.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *slot, new.clone())
        };
        let Some(new) = new else { return };
        if new.expires_secs < i64::from(now_secs) {
            tracing::warn!(listener = name, "The certificate has expired; clients will refuse it.");
        }
        if old.is_some_and(|old| old.certificate != new.certificate) {
            let days = (new.expires_secs - i64::from(now_secs)) / 86_400;
            tracing::info!(
                listener = name,
                expires_in_days = days,
                "New connections get another certificate."
            );
        }
    }
}

/// The contents of the files that `config` names: for each listener in turn, and for the admin
/// server.
pub struct Loaded {
    /// Those of listeners, in the order of the configuration.
    pub listeners: Vec<Option<Tls>>,
    /// That of the admin server.
    pub admin: Option<Tls>,
}

/// Reads all files that `config` names.
///
/// # Errors
/// The fault of each of them, beginning with the name of its setting.
pub fn load(config: &Config) -> Result<Loaded, Vec<String>> {
    let mut problems = Vec::new();
    let mut section = |name: &str, tls: Option<TlsSettings>| {
        tls.and_then(|tls| load::load(name, &tls).map_err(|found| problems.extend(found)).ok())
    };
    let of_listeners = config.listeners.iter();
    let listeners = of_listeners.map(|it| section(&format!("listener.{}", it.name), it.tls())).collect();
    // Without the admin server its certificate is not used.
    let admin = section("admin", config.admin.tls().filter(|_| config.admin.enabled));
    if problems.is_empty() { Ok(Loaded { listeners, admin }) } else { Err(problems) }
}
