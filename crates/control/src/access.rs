//! Access to the control plane: tokens in the metadata of calls, and certificates.
//!
//! An address off the loopback interface asks for a token or for mutual TLS ([`Access::check`]).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use subtle::ConstantTimeEq;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig};
use tonic::{Request, Status};

/// The longest that a TLS handshake takes.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(5);
/// A connection is pinged this often.
const ALIVE_EVERY: Duration = Duration::from_secs(5);
/// A ping that is not answered for this long closes the connection.
const LONGEST_PING: Duration = Duration::from_secs(3);
/// The fewest characters of a token.
const LEAST_TOKEN: usize = 16;

/// An error with its causes, in words.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

/// The reason why access cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// The file, in words.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A token is too short, or has characters that a header cannot have.
    #[error(
        "the token in {} must be one line of {LEAST_TOKEN} or more printable characters; `openssl rand -hex 32` makes one",
        path.display()
    )]
    Token {
        /// The file.
        path: PathBuf,
    },
    /// An address without TLS that others can reach, and no token.
    #[error(
        "{address} can be reached from other machines, and is served without TLS: give a token file, or listen on 127.0.0.1"
    )]
    OpenFigures {
        /// The address.
        address: SocketAddr,
    },
    /// An address that others can reach, and nothing that they must show.
    #[error(
        "{address} can be reached from other machines: give a token file, or certificates of both ends, \
         or listen on 127.0.0.1"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
}

/// Flags that name the files.
#[derive(Clone, Debug, Default, Args)]
pub struct AccessArguments {
    /// The file with the token that agents, orchestrators and operators show one another: one line
    /// of 16 or more characters
    #[arg(long, value_name = "FILE", env = "MILLPOND_FLEET_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// This end's certificate, in PEM; the other end must have its authority
    #[arg(long, value_name = "FILE", env = "MILLPOND_FLEET_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = "MILLPOND_FLEET_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The authority of the other end's certificate, in PEM; with it, connections are encrypted,
    /// and whoever calls must show a certificate
    #[arg(long, value_name = "FILE", env = "MILLPOND_FLEET_CA", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
}

impl AccessArguments {
    /// The files.
    pub fn files(&self) -> Files {
        Files {
            token: self.token_file.clone(),
            certificate: self.tls_cert.clone().zip(self.tls_key.clone()),
            authority: self.tls_ca.clone(),
        }
    }
}

/// The files that say who may speak.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// A token, which both ends have.
    pub token: Option<PathBuf>,
    /// This end's certificate and its key, PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Certificates of the authority that has signed the other end's, PEM.
    pub authority: Option<PathBuf>,
}

/// The credentials of one end, and those that it asks of the other.
#[derive(Clone, Default)]
pub struct Access {
    token: Option<MetadataValue<Ascii>>,
    identity: Option<Identity>,
    authority: Option<Certificate>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (token, identity) = (self.token.is_some(), self.identity.is_some());
        f.debug_struct("Access").field("token", &token).field("identity", &identity).finish_non_exhaustive()
    }
}

fn read(what: &'static str, path: &Path) -> Result<String, AccessError> {
    std::fs::read_to_string(path).map_err(|source| AccessError::File { what, path: path.to_owned(), source })
}

impl Access {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read, or the token is not valid.
    pub fn read(files: &Files) -> Result<Self, AccessError> {
        let token = files.token.as_deref().map(|path| {
            let text = read("the token", path)?;
            let token = text.trim_end_matches(['\r', '\n']);
            let value = format!("Bearer {token}").parse().ok();
            let is_fit = token.len() >= LEAST_TOKEN && token.chars().all(|c| c.is_ascii_graphic());
            value.filter(|_| is_fit).ok_or_else(|| AccessError::Token { path: path.to_owned() })
        });
        let identity = files.certificate.as_ref().map(|(certificate, key)| {
            Ok(Identity::from_pem(read("the certificate", certificate)?, read("the key", key)?))
        });
        let authority = files.authority.as_deref().map(|path| {
            Ok::<_, AccessError>(Certificate::from_pem(read("the authority's certificate", path)?))
        });
        Ok(Self {
            token: token.transpose()?,
            identity: identity.transpose()?,
            authority: authority.transpose()?,
        })
    }

    /// Checks that nobody on another machine is let in who shows nothing.
    ///
    /// # Errors
    /// [`AccessError::Open`].
    pub fn check(&self, address: SocketAddr) -> Result<(), AccessError> {
        let asks = self.token.is_some() || self.identity.is_some() && self.authority.is_some();
        if asks || address.ip().is_loopback() { Ok(()) } else { Err(AccessError::Open { address }) }
    }

    /// The same for an address that is served without TLS: there is only the token to show.
    ///
    /// # Errors
    /// [`AccessError::OpenFigures`].
    pub fn check_token(&self, address: SocketAddr) -> Result<(), AccessError> {
        let is_kept = self.token.is_some() || address.ip().is_loopback();
        is_kept.then_some(()).ok_or(AccessError::OpenFigures { address })
    }

    /// Returns whether there is a token to show.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// TLS of a server: with an authority, clients must show a certificate. `None` without one's
    /// own.
    pub fn server_tls(&self) -> Option<ServerTlsConfig> {
        let mut config = ServerTlsConfig::new().identity(self.identity.clone()?).timeout(LONGEST_HANDSHAKE);
        if let Some(authority) = &self.authority {
            config = config.client_ca_root(authority.clone());
        }
        Some(config)
    }

    /// TLS of a client: `None` if there is no authority to check the server by.
    fn client_tls(&self) -> Option<ClientTlsConfig> {
        let mut config = ClientTlsConfig::new().ca_certificate(self.authority.clone()?);
        if let Some(identity) = &self.identity {
            config = config.identity(identity.clone());
        }
        Some(config)
    }

    /// The other end at `HOST:PORT`, which is waited for no longer than `deadline`: to connect, and
    /// for each answer.
    ///
    /// # Errors
    /// In words, if that is not an address, or certificates are refused.
    pub fn endpoint(&self, address: &str, deadline: Duration) -> Result<Endpoint, String> {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"));
        let endpoint = endpoint.map_err(|error| format!("{address} is not an address: {error}"))?;
        let endpoint = endpoint.connect_timeout(deadline).timeout(deadline).tcp_nodelay(true);
        // One that was cut without a word is noticed, and made again.
        let endpoint = endpoint
            .http2_keep_alive_interval(ALIVE_EVERY)
            .keep_alive_timeout(LONGEST_PING)
            .keep_alive_while_idle(true);
        match self.client_tls() {
            Some(tls) => endpoint.tls_config(tls).map_err(|error| causes(&error)),
            None => Ok(endpoint),
        }
    }

    /// Returns whether a call with this `authorization` header, if it has one, is let in.
    pub fn lets_in(&self, authorization: Option<&[u8]>) -> bool {
        let Some(token) = &self.token else { return true };
        authorization.is_some_and(|shown| bool::from(shown.ct_eq(token.as_encoded_bytes())))
    }

    /// Adds the token to each call of a client.
    pub fn shown(&self) -> impl Interceptor + Clone + 'static + use<> {
        let token = self.token.clone();
        move |mut request: Request<()>| {
            if let Some(token) = &token {
                request.metadata_mut().insert("authorization", token.clone());
            }
            Ok(request)
        }
    }

    /// Refuses calls of a server without the token.
    pub fn asked(&self) -> impl Interceptor + Clone + 'static + use<> {
        let access = self.clone();
        move |request: Request<()>| {
            let shown = request.metadata().get("authorization").map(MetadataValue::as_encoded_bytes);
            let refused = || Status::unauthenticated("the token is missing or wrong");
            access.lets_in(shown).then_some(request).ok_or_else(refused)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_must_show_something_off_the_loopback() {
        let open = Access::default();
        open.check("127.0.0.1:1".parse().unwrap()).unwrap();
        open.check("[::1]:1".parse().unwrap()).unwrap();
        let error = open.check("0.0.0.0:1".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("0.0.0.0:1 can be reached"), "{error}");
        let with_token = Access { token: Some("Bearer abc".parse().unwrap()), ..open };
        with_token.check("0.0.0.0:1".parse().unwrap()).unwrap();
        with_token.check_token("0.0.0.0:1".parse().unwrap()).unwrap();
        let identity = Some(Identity::from_pem("", ""));
        let with_tls = Access { token: None, identity, authority: Some(Certificate::from_pem("")) };
        with_tls.check("0.0.0.0:1".parse().unwrap()).unwrap();
        with_tls.check_token("0.0.0.0:1".parse().unwrap()).unwrap_err();
    }

    #[test]
    fn only_the_right_token_is_let_in() {
        let server = Access { token: Some("Bearer abc".parse().unwrap()), ..Access::default() };
        let let_in = |client: &Access| {
            let shown = client.shown().call(Request::new(())).unwrap();
            server.asked().call(shown).is_ok()
        };
        assert!(let_in(&server));
        assert!(!let_in(&Access::default()));
        assert!(!let_in(&Access { token: Some("Bearer abd".parse().unwrap()), ..Access::default() }));
    }

    #[test]
    fn a_token_is_one_long_line() {
        let file = std::env::temp_dir().join(format!("millpond-token-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Access::read(&Files { token: Some(file.clone()), ..Files::default() })
        };
        assert!(read("0123456789abcdef\n").is_ok());
        for text in ["short", "", "0123456789abcdef\n0123456789abcdef", "0123456789 abcdef"] {
            assert!(matches!(read(text), Err(AccessError::Token { .. })), "{text:?}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(read("0123456789abcdef").is_ok());
        std::fs::remove_file(&file).unwrap();
    }
}
