//! Makes a [`Tls`] out of files.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::{Tls, subject};
use crate::config::{ClientAuth, TlsSettings, TlsVersion};
use crate::error::{Error, ErrorKind};

/// What a client resumes with is encrypted by keys that only this process has.
const TICKETS: usize = 1;

/// Reads the files of `settings`, which are those of the section `name`.
///
/// # Errors
/// [`ErrorKind::Config`], naming the setting, the file and what is wrong with it.
pub(super) fn load(name: &str, settings: &TlsSettings) -> Result<Tls, Error> {
    let TlsSettings { certificate, key, client_ca, client_auth, min_version } = settings;
    let refuse = |setting: &str, file: &Path, what: String| {
        Error::new(ErrorKind::Config, format!("{name}.{setting}: {}: {what}", file.display()))
    };
    let chain = certificates(certificate).map_err(|what| refuse("tls_certificate", certificate, what))?;
    let mut expires_secs = i64::MAX;
    for one in &chain {
        let expires =
            subject::expires_secs(one).map_err(|what| refuse("tls_certificate", certificate, what))?;
        expires_secs = expires_secs.min(expires);
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| refuse("tls_key", key, pem_problem(&error, "a private key")))?;
    let verifier = if client_ca.as_os_str().is_empty() {
        None
    } else {
        let verifier = client_verifier(client_ca, *client_auth);
        Some(verifier.map_err(|what| refuse("tls_client_ca", client_ca, what))?)
    };
    let own = chain.first().map(|own| own.to_vec()).unwrap_or_default();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions(*min_version))
        .map_err(|error| refuse("tls_certificate", certificate, error.to_string()))?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let what = format!("this is not the key of the certificate in {}", certificate.display());
            refuse("tls_key", key, what)
        }
        error => refuse("tls_key", key, format!("the key cannot be used: {error}")),
    })?;
    config.send_tls13_tickets = TICKETS;
    config.ticketer = ring::Ticketer::new()
        .map_err(|error| Error::with_source(ErrorKind::System, "no randomness for TLS", error))?;
    Ok(Tls { config: Arc::new(config), certificate: own, expires_secs })
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
    let all: Result<Vec<_>, pem::Error> =
        CertificateDer::pem_file_iter(file).and_then(|certificates| certificates.collect());
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
        error => format!("it is no good PEM: {error}"),
    }
}
