//! Access control of the admin server.
//!
//! Without tokens and certificates it answers every client that connects, and lets those on this
//! machine change settings. Browsers run on this machine too, and they run pages of any origin. So
//! a request must have a Host that is the server's own, which keeps out a page whose name was made
//! to resolve to this server, and no Origin but that. A page has neither tokens nor certificates,
//! and its name is not in the server's certificate: with either, and with TLS, names do not matter.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use frontend::shared::Shared;

use super::serve::PatientListener;

/// The paths that need neither token nor name: they only reveal that a server is there, which every
/// client that reached it knows.
const OPEN: [&str; 1] = ["/healthz"];
/// The path that needs no token, beside the files of the page: a page without a figure in it, which
/// asks for a token itself.
const TOKENLESS: &str = "/";

/// A client that has connected.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    address: SocketAddr,
    /// The address to which the client has connected.
    local: Option<SocketAddr>,
    is_tls: bool,
    /// True if the client has presented a certificate.
    is_verified: bool,
}

impl Connected<IncomingStream<'_, PatientListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, PatientListener>) -> Self {
        let io = stream.io().get_ref();
        Self {
            address: *stream.remote_addr(),
            local: io.local_address(),
            is_tls: io.is_tls(),
            is_verified: io.is_verified(),
        }
    }
}

/// A caller who may see and change settings: on this machine, or with a token or a certificate. A
/// handler that takes one rejects every other caller before it looks at the request.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    pub(super) address: SocketAddr,
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        const WHY: &str =
            "only from this machine, or with a token (admin.token) or a certificate (admin.tls_client_ca)\n";
        parts.extensions.get::<Self>().cloned().ok_or_else(|| (StatusCode::FORBIDDEN, WHY).into_response())
    }
}

/// Passes on the requests that may be answered.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    mut request: Request,
    next: Next,
) -> Response {
    if OPEN.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let access = shared.admin_access.get();
    let Some(has_token) = access.shows_token(request.headers()) else {
        return unauthorised("this token is none of the server's\n");
    };
    if !has_token && !caller.is_verified {
        if let Some(why) = access.refusal(caller.is_tls, caller.local, request.headers()) {
            return (StatusCode::FORBIDDEN, why).into_response();
        }
        if access.has_tokens() && !is_tokenless(request.uri().path()) {
            return unauthorised("a token is needed: Authorization: Bearer TOKEN, or millpond --token\n");
        }
    }
    if has_token || caller.is_verified || caller.address.ip().to_canonical().is_loopback() {
        request.extensions_mut().insert(Operator { address: caller.address });
    }
    next.run(request).await
}

fn is_tokenless(path: &str) -> bool {
    path == TOKENLESS || path.starts_with(page::FILES)
}

fn unauthorised(why: &'static str) -> Response {
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], why).into_response()
}
