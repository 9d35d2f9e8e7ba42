//! The certificates of the listener with TLS: a root of the run's own, and what it signs anew again
//! and again.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const HOST: &str = "localhost";

/// A root, and the files that the server reads.
pub(super) struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    signed: u64,
    client: Arc<ClientConfig>,
}

impl Authority {
    /// Makes a root, and the first certificate in `folder`.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let key = KeyPair::generate().context("making a root's key")?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "millpond soak");
        let root = params.self_signed(&key).context("making a root")?;
        let mut roots = RootCertStore::empty();
        roots.add(root.der().clone()).context("trusting the root")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("TLS")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let issuer = Issuer::new(params, key);
        let mut made = Self { folder: folder.to_owned(), issuer, signed: 0, client: Arc::new(client) };
        made.renew()?;
        Ok(made)
    }

    /// Puts a new certificate with a new key in the place of the old, and returns it.
    pub(super) fn renew(&mut self) -> Result<CertificateDer<'static>> {
        self.signed += 1;
        let key = KeyPair::generate().context("making a key")?;
        let mut params = CertificateParams::new(vec![HOST.to_owned()]).context("naming a certificate")?;
        params.distinguished_name.push(DnType::CommonName, format!("soak {}", self.signed));
        let signed = params.signed_by(&key, &self.issuer).context("signing a certificate")?;
        std::fs::write(self.certificate(), signed.pem()).context("writing a certificate")?;
        std::fs::write(self.key(), key.serialize_pem()).context("writing a key")?;
        Ok(signed.der().clone())
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("server.pem")
    }

    pub(super) fn key(&self) -> PathBuf {
        self.folder.join("server.key")
    }

    /// The TLS configuration of a client that trusts the root.
    pub(super) fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.client)
    }
}

/// A client's connection by TLS.
pub(super) struct TlsStream(StreamOwned<ClientConnection, TcpStream>);

impl TlsStream {
    /// Connects over `socket`, handshake included.
    pub(super) fn open(client: &Arc<ClientConfig>, mut socket: TcpStream) -> Result<Self> {
        let name = ServerName::try_from(HOST).context("naming the server")?;
        let mut connection = ClientConnection::new(Arc::clone(client), name).context("TLS")?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).context("the handshake of TLS")?;
        }
        Ok(Self(StreamOwned::new(connection, socket)))
    }

    /// The server's certificate.
    pub(super) fn certificate(&self) -> Option<CertificateDer<'static>> {
        Some(self.0.conn.peer_certificates()?.first()?.clone().into_owned())
    }
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for TlsStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
