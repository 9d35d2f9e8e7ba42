//! The contents of certificates: the subject and the expiry time.

use std::fmt;

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The subject of a client's certificate. It comes from a certificate that a configured root
/// vouches for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The common name (CN) of its subject.
    pub common_name: Option<String>,
    /// Its alternative names (SAN) that are names: of hosts, mailboxes and URIs.
    pub names: Vec<String>,
}

impl Subject {
    /// Reads a certificate in DER; `None` if it cannot be read, which never happens to a verified
    /// one.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let common_name = certificate.subject().iter_common_name().next();
        let common_name = common_name.and_then(|name| name.as_str().ok()).map(str::to_owned);
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let name = |name: &GeneralName<'_>| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
                Some((*name).to_owned())
            }
            _ => None,
        };
        let names = alternatives
            .map(|names| names.value.general_names.iter().filter_map(name).collect())
            .unwrap_or_default();
        Some(Self { common_name, names })
    }

    /// Memory that it has taken, in bytes.
    pub fn held_bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.capacity() + size_of::<String>()).sum();
        names + self.common_name.as_ref().map_or(0, String::capacity)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.common_name.as_deref().unwrap_or_default().escape_debug())?;
        for name in &self.names {
            write!(f, " {}", name.escape_debug())?;
        }
        Ok(())
    }
}

/// Returns the expiry time of a certificate in DER, Unix seconds.
pub(super) fn expires_secs(certificate: &[u8]) -> Result<i64, String> {
    let (_, certificate) = X509Certificate::from_der(certificate)
        .map_err(|error| format!("a certificate in it cannot be read: {error}"))?;
    Ok(certificate.validity().not_after.timestamp())
}
