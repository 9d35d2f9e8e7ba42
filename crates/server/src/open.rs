//! The resources that a server opens before it serves: its sockets, and the contents of the files
//! that its configuration names.
//!
//! All that cannot be opened is reported together.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use config::{Address, Auto, Config, Error, ErrorKind, ListenerConfig};
use frontend::access::Access;
use frontend::{files, tls};

use crate::activation::Activated;
use crate::net::Listener;

/// Sockets and files of a server that starts.
pub(crate) struct Opened {
    /// Those of the listeners, in their order.
    pub(crate) sockets: Vec<Arc<Listener>>,
    /// The names of the listeners that the server does without.
    pub(crate) absent: Vec<String>,
    pub(crate) admin_socket: Option<TcpListener>,
    pub(crate) certificates: tls::Loaded,
    pub(crate) access: Access,
}

/// Opens all that `config` names, and takes out of it the optional listeners whose addresses other
/// programs have.
///
/// # Errors
/// As [`Listener::bind`] and [`files::read`]: with everything that cannot be opened, of the kind of
/// the first.
pub(crate) fn open(config: &mut Config, activated: &mut Activated) -> Result<Opened, Error> {
    let mut refused = Vec::new();
    let listeners = listen(config, activated).map_err(|errors| refused.extend(errors));
    let admin = listen_for_operators(config, activated).map_err(|error| refused.push(error));
    let files = files::read(config).map_err(|error| refused.push(error));
    let (Ok((sockets, absent)), Ok(admin_socket), Ok((certificates, access))) = (listeners, admin, files)
    else {
        return Err(Error::all(&refused));
    };
    Ok(Opened { sockets, absent, admin_socket, certificates, access })
}

/// The sockets of the listeners, and the names of those that the server does without.
type Listeners = (Vec<Arc<Listener>>, Vec<String>);

/// Listens on all addresses of `config`, and takes out of it the optional listeners whose addresses
/// other programs have.
///
/// # Errors
/// As [`Listener::bind`], of all listeners; also if no listener is left.
fn listen(config: &mut Config, activated: &mut Activated) -> Result<Listeners, Vec<Error>> {
    let mut sockets = Vec::new();
    let mut absent = Vec::new();
    let (mut missing, mut refused) = (Vec::new(), Vec::new());
    for listener in &config.listeners {
        let opened = match activated.take(&listener.name) {
            Some(socket) => take_over(socket, config, listener),
            None => Listener::bind(&listener.address, listener.mode).map(Arc::new),
        };
        match opened {
            Ok(socket) => sockets.push(socket),
            Err(error) if listener.optional && error.kind() == ErrorKind::Taken => {
                absent.push(listener.name.clone());
                missing.push(error);
            }
            Err(error) => refused.push(error),
        }
    }
    if sockets.is_empty() {
        refused.append(&mut missing);
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    for listener in config.listeners.extract_if(.., |listener| absent.contains(&listener.name)) {
        tracing::warn!(
            listener = listener.name,
            address = %listener.address,
            "Another program has this address; the server goes on without this listener. Name an address with --listen, --port or --redis to have another."
        );
    }
    Ok((sockets, absent))
}

/// Listens for operators. Without the usual address, if another program has that, the server goes
/// on; a configured address is required.
///
/// # Errors
/// [`ErrorKind::Taken`] or [`ErrorKind::Listen`] if the address is not available.
fn listen_for_operators(config: &Config, activated: &mut Activated) -> Result<Option<TcpListener>, Error> {
    let Address::Tcp(address) = config.admin.address() else { return Ok(None) };
    if !config.admin.enabled {
        return Ok(None);
    }
    if let Some(socket) = activated.take_admin() {
        return Ok(Some(socket.into()));
    }
    let error = match TcpListener::bind(address) {
        Ok(socket) => return Ok(Some(socket)),
        Err(error) => error,
    };
    let is_taken = error.kind() == std::io::ErrorKind::AddrInUse;
    if is_taken && config.admin.address == Auto::Auto {
        tracing::warn!(
            %address,
            "Another program has the usual address of the admin server; the server goes on without one. Set admin.address to have another."
        );
        return Ok(None);
    }
    let context = format!(
        "the admin address {address} cannot be listened on; choose another by --set admin.address=127.0.0.1:PORT, or none by \
         --set admin.enabled=false"
    );
    Err(Error::with_source(if is_taken { ErrorKind::Taken } else { ErrorKind::Listen }, context, error))
}

/// Listens on a socket that was handed over, under the same rule as one that is made here.
fn take_over(socket: OwnedFd, config: &Config, settings: &ListenerConfig) -> Result<Arc<Listener>, Error> {
    let listener = Listener::take_over(socket)?;
    if listener.address().is_remote() && !config.allow_remote && !config.needs_users_at(settings) {
        let problem = listener.address().remote_problem("a socket that was handed over");
        return Err(Error::new(ErrorKind::Config, problem));
    }
    Ok(Arc::new(listener))
}
