//! A client of Redis: authenticates, asks, and says what to do about refusals.

use std::io;
use std::path::PathBuf;

use super::super::wire::{Address, Deadline, Wire};
use super::info::Info;
use super::reply::{self, Reply};
use crate::InstanceError;

/// Bytes of a password file.
const PASSWORD: u64 = 4096;

/// The user and the password file.
#[derive(Clone, Debug)]
pub(in super::super) struct Login {
    pub(in super::super) user: Option<String>,
    pub(in super::super) password_file: Option<PathBuf>,
}

/// An answer that refuses a command.
#[derive(Debug, thiserror::Error)]
#[error("{command} was answered with `{words}`")]
struct Refused {
    command: String,
    words: String,
}

/// A connection that is opened when it is needed.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) address: Address,
    login: Login,
    wire: Option<Wire>,
}

impl Client {
    pub(super) fn new(address: Address, login: Login) -> Self {
        Self { address, login, wire: None }
    }

    /// Opens a connection and authenticates.
    pub(super) fn connect(&self, deadline: Deadline) -> io::Result<Wire> {
        let mut wire = self.address.connect(deadline)?;
        let Login { user, password_file } = &self.login;
        let password = password_file.as_ref().map(read_password).transpose()?;
        if user.is_some() || password.is_some() {
            let password = password.unwrap_or_default();
            let mut words: Vec<&[u8]> = vec![b"AUTH"];
            words.extend(user.as_ref().map(|user| user.as_bytes()));
            words.push(&password);
            ask(&mut wire, &words, deadline)?;
        }
        Ok(wire)
    }

    /// Runs `work` on the connection, and closes it on an error. A connection that was open may
    /// have been closed by the server since: then it is tried once more on a new one.
    pub(super) fn talk<T>(
        &mut self,
        deadline: Deadline,
        mut work: impl FnMut(&mut Wire, Deadline) -> io::Result<T>,
    ) -> io::Result<T> {
        if let Some(mut wire) = self.wire.take() {
            match work(&mut wire, deadline) {
                Ok(done) => {
                    self.wire = Some(wire);
                    return Ok(done);
                }
                Err(error) if is_closed(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let mut wire = self.connect(deadline)?;
        let done = work(&mut wire, deadline)?;
        self.wire = Some(wire);
        Ok(done)
    }

    pub(super) fn info(&mut self, deadline: Deadline) -> io::Result<Info> {
        self.talk(deadline, |wire, deadline| match ask(wire, &[b"INFO"], deadline)? {
            Reply::Bulk(Some(text)) => Info::parse(&text),
            other => Err(refused("INFO", &other)),
        })
    }

    /// An error in words, with the remedy.
    pub(super) fn failed(&self, error: io::Error) -> InstanceError {
        let words = match error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>()) {
            Some(refused) => refused.words.clone(),
            None => return self.address.failed("Redis", error),
        };
        let remedy = match words.split(' ').next().unwrap_or_default() {
            "NOAUTH" => "give the agent a user and a password file",
            "WRONGPASS" => "correct the agent's user or its password file",
            "NOPERM" => {
                "allow its user `+info +config|set +monitor +randomkey +select +object|idletime \
                 +memory|usage` and the keys `~*`"
            }
            "LOADING" | "BUSY" | "MASTERDOWN" => "wait",
            _ => "see that the server lets its clients use this command",
        };
        InstanceError::because(format!("Redis at {} refuses the agent; {remedy}", self.address), error)
    }
}

/// Sends a command and reads its answer. An error of the server is an error.
pub(super) fn ask(wire: &mut Wire, words: &[&[u8]], deadline: Deadline) -> io::Result<Reply> {
    let mut bytes = Vec::new();
    reply::compose(words, &mut bytes);
    wire.send(&bytes, deadline)?;
    let answer = reply::read(wire, deadline)?;
    match answer {
        // The password is not repeated.
        Reply::Error(_) => {
            Err(refused(&String::from_utf8_lossy(words.first().unwrap_or(&&b""[..])), &answer))
        }
        _ => Ok(answer),
    }
}

pub(super) fn refused(command: &str, answer: &Reply) -> io::Error {
    io::Error::other(Refused { command: command.to_owned(), words: answer.shown() })
}

pub(super) fn read_password(path: &PathBuf) -> io::Result<Vec<u8>> {
    use io::Read;
    let file = |error: io::Error| {
        io::Error::new(error.kind(), format!("the password file {} cannot be read: {error}", path.display()))
    };
    let mut password = Vec::new();
    std::fs::File::open(path).map_err(file)?.take(PASSWORD).read_to_end(&mut password).map_err(file)?;
    let end = password.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    password.truncate(end);
    Ok(password)
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}
