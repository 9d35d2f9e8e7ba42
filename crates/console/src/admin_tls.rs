//! TLS to the admin server: the roots it is verified against, and the certificate it is shown.

use std::path::Path;

use std::sync::Arc;

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig};

/// The files in which systems keep the roots that they trust.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Trusts the roots in the file `ca`, or else those of the system, and shows the certificate of
/// `client` with its key.
pub(crate) fn config(ca: Option<&Path>, client: Option<(&Path, &Path)>) -> Result<TlsConfig, String> {
    let ca = match ca {
        Some(ca) => ca,
        None => SYSTEM_ROOTS.into_iter().map(Path::new).find(|path| path.exists()).ok_or(
            "this system has no roots of certificates; name the file with those of the admin server by --ca",
        )?,
    };
    let roots = certificates(ca)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(provider);
    if let Some((certificate, key)) = client {
        let key_text = read(key)?;
        let key = PrivateKey::from_pem(&key_text)
            .map_err(|error| format!("{}: this is not a private key in PEM: {error}", key.display()))?;
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&certificates(certificate)?, key)));
    }
    Ok(tls.build())
}

/// All certificates of a file in PEM.
fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let text = read(file)?;
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(&text) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(format!("{}: this is not PEM: {error}", file.display())),
        }
    }
    if found.is_empty() {
        Err(format!("{}: there is no certificate in PEM in it", file.display()))
    } else {
        Ok(found)
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}
