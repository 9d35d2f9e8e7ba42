//! Sockets that clients connect to, TCP and unix.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use config::{Address, Error, ErrorKind, FileMode};
use frontend::machine;
use frontend::peer::Peer;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A socket that listens. A unix socket's file is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    address: Address,
    /// The file of a unix socket.
    file: Option<PathBuf>,
}

impl Listener {
    /// Listens on `address`; a unix socket gets the permissions `mode`.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`] if the address is in use, [`ErrorKind::Listen`] if it is not to be had.
    pub(crate) fn bind(address: &Address, mode: FileMode) -> Result<Self, Error> {
        let listener = match address {
            Address::Tcp(tcp) => bind_tcp(*tcp),
            Address::Unix(path) => bind_unix(path, mode),
        };
        listener.map_err(|error| refusal(address, &error))
    }

    /// Returns the error that [`Self::bind`] would return, without listening or making a file.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub(crate) fn probe(address: &Address) -> Result<(), Error> {
        let probed = match address {
            Address::Tcp(tcp) => open_tcp(*tcp).map(drop),
            Address::Unix(path) => probe_unix(path),
        };
        probed.map_err(|error| refusal(address, &error))
    }

    /// Takes over a listening socket that another process has made. That process also removes the
    /// socket's file, if it has one.
    ///
    /// # Errors
    /// [`ErrorKind::Listen`] if its address cannot be read.
    pub(crate) fn take_over(socket: OwnedFd) -> Result<Self, Error> {
        let address = || {
            rustix::io::ioctl_fionbio(&socket, true)?;
            let name = rustix::net::getsockname(&socket)?;
            if let Ok(address) = SocketAddr::try_from(name.clone()) {
                return Ok(Address::Tcp(address));
            }
            let path = SocketAddrUnix::try_from(name)?;
            let path = path.path_bytes().map(OsStr::from_bytes).unwrap_or_default();
            Ok(Address::Unix(path.into()))
        };
        let address = address().map_err(|error: io::Error| {
            Error::with_source(
                ErrorKind::Listen,
                "a socket that was handed over cannot be listened on",
                error,
            )
        })?;
        Ok(Self { socket, address, file: None })
    }

    /// The address that the listener is bound to, with the port that the kernel chose.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The next waiting connection, non-blocking.
    ///
    /// # Errors
    /// As accept(2); `WouldBlock` where none waits.
    pub(crate) fn accept(&self) -> io::Result<(OwnedFd, Peer)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, peer) = rustix::net::acceptfrom_with(&self.socket, flags)?;
        if matches!(self.address, Address::Unix(_)) {
            return Ok((socket, Peer::Unix));
        }
        sockopt::set_tcp_nodelay(&socket, true)?;
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).map_or(Peer::Unix, Peer::Tcp);
        Ok((socket, peer))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Builds the error for an address that can't be listened on, with advice.
fn refusal(address: &Address, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "; another server has it: stop that one, or choose another address",
        io::ErrorKind::PermissionDenied => "; choose a port above 1023 or a directory that may be written",
        io::ErrorKind::NotFound => "; its folder does not exist",
        io::ErrorKind::AddrNotAvailable => "; no interface has this address",
        _ => "",
    };
    let kind = if error.kind() == io::ErrorKind::AddrInUse { ErrorKind::Taken } else { ErrorKind::Listen };
    Error::new(kind, format!("{address} cannot be listened on: {error}{hint}"))
}

/// A socket with that address, which does not listen yet.
fn open_tcp(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = open(family)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    let socket = open_tcp(address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok(Listener { socket, address: Address::Tcp(bound), file: None })
}

fn probe_unix(path: &Path) -> io::Result<()> {
    SocketAddrUnix::new(path)?;
    has_dead_socket(path)?;
    machine::check_folder(path.parent().unwrap_or(Path::new("/")))
}

fn bind_unix(path: &Path, mode: FileMode) -> io::Result<Listener> {
    if has_dead_socket(path)? {
        std::fs::remove_file(path)?;
    }
    let socket = open(AddressFamily::UNIX)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Nobody can connect before listen(2), so nobody gets in under the wrong permissions.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode.0))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(Listener { socket, address: Address::Unix(path.to_owned()), file: Some(path.to_owned()) })
}

fn open(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

/// Returns whether a server that was killed left its socket's file there.
///
/// # Errors
/// `AddrInUse` if a server answers there; `AlreadyExists` if the file is not a socket.
fn has_dead_socket(path: &Path) -> io::Result<bool> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(false) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file of that name exists and is not a socket",
        ));
    }
    let probe = open(AddressFamily::UNIX)?;
    match rustix::net::connect(&probe, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::CONNREFUSED) => Ok(true),
        _ => Err(io::Error::from(io::ErrorKind::AddrInUse)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn port_zero_becomes_a_real_one() {
        let listener = Listener::bind(&Address::loopback(0), FileMode::default()).expect("a port");
        let Address::Tcp(address) = listener.address() else { panic!("tcp stays tcp") };
        assert_ne!(address.port(), 0);
        let error = Listener::bind(listener.address(), FileMode::default()).expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::Taken);
        assert!(error.to_string().contains("another server has it"), "{error}");
    }

    #[test]
    fn unix_sockets_get_their_mode_and_go_away() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sock");
        let address = Address::Unix(path.clone());
        let listener = Listener::bind(&address, FileMode(0o640)).expect("a socket");
        let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let _client = UnixStream::connect(&path).expect("connected");
        let (_, peer) = listener.accept().expect("the client");
        assert_eq!(peer.to_string(), "unix");
        let error = Listener::bind(&address, FileMode(0o640)).expect_err("alive");
        assert!(error.to_string().contains("another server has it"), "{error}");
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_socket_is_replaced_and_another_file_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
        assert!(path.exists(), "std leaves the file");
        Listener::bind(&Address::Unix(path.clone()), FileMode::default()).expect("replaced");
        std::fs::write(&path, "precious").expect("a file");
        assert!(Listener::bind(&Address::Unix(path.clone()), FileMode::default()).is_err());
        assert_eq!(std::fs::read(&path).expect("kept"), b"precious");
    }
}
