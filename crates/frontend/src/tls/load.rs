//! Makes a [`Tls`] out of files.

use std::path::Path;
use std::sync::Arc;

use config::{ClientAuth, NO_TLS_KEY, TlsSettings, TlsVersion};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::{Tls, subject};

/// The number of tickets per handshake. A client resumes with a ticket that is encrypted by keys
/// that only this process has.
const TICKETS: usize = 1;

/// Reads the files of `settings`, which are those of the section `name`.
///
/// # Errors
/// The fault of each file, beginning with the name of its setting.
pub(super) fn load(name: &str, settings: &TlsSettings) -> Result<Tls, Vec<String>> {
    let TlsSettings { certificate, key, client_ca, client_auth, min_version } = settings;
    let refuse =
        |setting: &str, file: &Path, what: String| format!("{name}.{setting}: {}: {what}", file.display());
    let chain = chain(certificate).map_err(|what| refuse("tls_certificate", certificate, what));
    let private = match key.as_os_str().is_empty() {
        true => Err(format!("{name}.tls_key: {NO_TLS_KEY}")),
        false => config::files::read(key)
            .map_err(pem::Error::Io)
            .map_err(|error| pem_problem(&error, "a private key"))
            .and_then(|pem| {
                let read = PrivateKeyDer::from_pem_slice(&pem);
                read.map_err(|error| {
                    if is_encrypted(&pem) {
                        ENCRYPTED.to_owned()
                    } else {
                        pem_problem(&error, "a private key")
                    }
                })
            })
            .map_err(|what| refuse("tls_key", key, what)),
    };
    let verifier = match client_ca.as_os_str().is_empty() {
        true => Ok(None),
        false => client_verifier(client_ca, *client_auth).map(Some),
    };
    let verifier = verifier.map_err(|what| refuse("tls_client_ca", client_ca, what));
    let ((chain, expires_secs), private, verifier) = match (chain, private, verifier) {
        (Ok(chain), Ok(private), Ok(verifier)) => (chain, private, verifier),
        (chain, private, verifier) => {
            return Err([chain.err(), private.err(), verifier.err()].into_iter().flatten().collect());
        }
    };
    let own = chain.first().map(|own| own.to_vec()).unwrap_or_default();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions(*min_version))
        .map_err(|error| vec![refuse("tls_certificate", certificate, error.to_string())])?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|error| {
        vec![match error {
            rustls::Error::InconsistentKeys(_) => {
                let what = format!("this is not the key of the certificate in {}", certificate.display());
                refuse("tls_key", key, what)
            }
            rustls::Error::InvalidCertificate(_) => {
                let what =
                    format!("the certificate cannot be used, which has to be of X.509 version 3: {error}");
                refuse("tls_certificate", certificate, what)
            }
            error => refuse("tls_key", key, format!("the key cannot be used: {error}")),
        }]
    })?;
    config.send_tls13_tickets = TICKETS;
    config.ticketer = ring::Ticketer::new()
        .map_err(|error| vec![format!("{name}.tls_key: the system has no randomness for TLS: {error}")])?;
    Ok(Tls { config: Arc::new(config), certificate: own, expires_secs })
}

/// The problem of a key that is encrypted.
const ENCRYPTED: &str = "the key is encrypted, and there is nobody to ask for its passphrase; write it without one: \
                         openssl pkey -in FILE -out NEW";

fn is_encrypted(pem: &[u8]) -> bool {
    let has = |text: &[u8]| pem.windows(text.len()).any(|window| window == text);
    has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED")
}

/// The certificates in `file`, and when the first of them expires, in Unix seconds.
fn chain(file: &Path) -> Result<(Vec<CertificateDer<'static>>, i64), String> {
    let chain = certificates(file)?;
    let expires: Result<Vec<i64>, String> = chain.iter().map(|one| subject::expires_secs(one)).collect();
    let first = expires?.into_iter().min().unwrap_or(i64::MAX);
    Ok((chain, first))
}

fn versions(least: TlsVersion) -> &'static [&'static rustls::SupportedProtocolVersion] {
    match least {
        TlsVersion::V1_2 => rustls::ALL_VERSIONS,
        TlsVersion::V1_3 => const { &[&rustls::version::TLS13] },
    }
}

fn client_verifier(file: &Path, auth: ClientAuth) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates(file)? {
        roots.add(root).map_err(|error| format!("a certificate in it cannot be a root: {error}"))?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match auth {
        ClientAuth::Required => builder,
        ClientAuth::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map(|verifier| verifier as Arc<dyn ClientCertVerifier>).map_err(|error| error.to_string())
}

/// The certificates in `file`, of which there is at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wanted = "a certificate";
    let all: Result<Vec<_>, pem::Error> = config::files::read(file)
        .map_err(pem::Error::Io)
        .and_then(|pem| CertificateDer::pem_slice_iter(&pem).collect());
    match all {
        Ok(all) if all.is_empty() => Err(pem_problem(&pem::Error::NoItemsFound, wanted)),
        Ok(all) => Ok(all),
        Err(error) => Err(pem_problem(&error, wanted)),
    }
}

fn pem_problem(error: &pem::Error, wanted: &str) -> String {
    match error {
        pem::Error::Io(error) => format!("the file cannot be read: {error}"),
        pem::Error::NoItemsFound => {
            format!(
                "there is not {wanted} in it; it should be in PEM, with a line that starts with -----BEGIN"
            )
        }
        error => format!("it is not valid PEM: {error}"),
    }
}
