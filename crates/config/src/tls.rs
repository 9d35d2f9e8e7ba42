//! The settings of TLS, which listeners and the admin server have alike.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Config;

/// Why a section with `tls_certificate` alone is refused.
pub const NO_TLS_KEY: &str = "there is a certificate without its key; name the key's file";

/// How a listener speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The file with the server's certificate and those that lead to its root, in PEM.
    pub certificate: PathBuf,
    /// The file with its private key, in PEM.
    pub key: PathBuf,
    /// The file with the roots of clients' certificates, in PEM; empty = clients are not asked for
    /// one.
    pub client_ca: PathBuf,
    /// How strictly clients need a certificate.
    pub client_auth: ClientAuth,
    /// The oldest version that is spoken.
    pub min_version: TlsVersion,
}

/// Reports for each section whose `tls_` keys are incomplete which ones are missing.
pub(super) fn check(config: &Config, problems: &mut Vec<String>) {
    let mut section = |name: &str, certificate: &PathBuf, key: &PathBuf, client_ca: &PathBuf| {
        let [certificate, key, client_ca] =
            [certificate, key, client_ca].map(|path| !path.as_os_str().is_empty());
        if certificate && !key {
            problems.push(format!("{name}.tls_key: {NO_TLS_KEY}"));
        }
        if key && !certificate {
            problems.push(format!(
                "{name}.tls_certificate: there is a key without its certificate; name the certificate's file"
            ));
        }
        if client_ca && !certificate {
            problems.push(format!(
                "{name}.tls_client_ca: clients can be asked for a certificate within TLS only; set tls_certificate and tls_key"
            ));
        }
    };
    for it in &config.listeners {
        section(&format!("listener.{}", it.name), &it.tls_certificate, &it.tls_key, &it.tls_client_ca);
    }
    let admin = &config.admin;
    section("admin", &admin.tls_certificate, &admin.tls_key, &admin.tls_client_ca);
}

choices! {
    /// How strictly clients need a certificate.
    ClientAuth {
        /// It must.
        Required = "required",
        /// It may; one that it has must be good.
        Optional = "optional",
    }
}

choices! {
    /// The oldest version of TLS that is spoken.
    TlsVersion {
        /// 1.2 and 1.3.
        V1_2 = "1.2",
        /// 1.3 alone.
        V1_3 = "1.3",
    }
}
