//! Who may see and change settings. Whoever changes them may make the server useless, so it is for operators alone: those on this
//! machine, and those who have shown a certificate.

use std::net::SocketAddr;

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;

use super::serve::PatientListener;

/// Who has connected.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    address: SocketAddr,
    /// Whether it has shown a certificate.
    is_verified: bool,
}

impl Connected<IncomingStream<'_, PatientListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, PatientListener>) -> Self {
        Self { address: *stream.remote_addr(), is_verified: stream.io().is_verified() }
    }
}

impl Caller {
    /// Says why it is no operator, if it is none. A page in a browser on this machine that had its own name lead here would show by
    /// that name.
    fn refusal(&self, headers: &HeaderMap) -> Option<&'static str> {
        if !self.address.ip().is_loopback() && !self.is_verified {
            return Some("only from this machine, or with a certificate (admin.tls_client_ca)\n");
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if !self.is_verified && name != "localhost" && name.parse::<std::net::IpAddr>().is_err() {
            return Some("the Host of the request is no address: ask for the server by its address\n");
        }
        None
    }
}

/// A caller who may. A handler that takes one refuses everybody else before it looks at the request.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) address: SocketAddr,
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let caller = ConnectInfo::<Caller>::from_request_parts(parts, state).await;
        let ConnectInfo(caller) = caller.map_err(IntoResponse::into_response)?;
        match caller.refusal(&parts.headers) {
            Some(why) => Err((StatusCode::FORBIDDEN, why).into_response()),
            None => Ok(Self { address: caller.address }),
        }
    }
}
