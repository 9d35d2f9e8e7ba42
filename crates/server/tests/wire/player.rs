//! Plays a case against a server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use base::rng::{Rng, SeededRng, seeded};

use protocol::memcached::binary::{Answer, Frame, Opcode};

use crate::frame::Packet;
use crate::script::{Case, Numbers, Step, fill, matches};

/// Longest time for an answer before the case has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The address of a server.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// The way in which a case is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As it is written.
    Plain,
    /// The requests are sent in pieces, cut by a generator with this seed.
    Pieces(u64),
    /// All requests are sent before the first answer is read.
    Pipelined,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn connect(place: &Place) -> io::Result<Self> {
        match place {
            Place::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Self::Tcp(stream))
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Self::Unix(stream))
            }
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }
}

/// A connection that is read line by line.
struct Connection {
    stream: Stream,
    buffer: Vec<u8>,
}

impl Connection {
    fn new(place: &Place) -> io::Result<Self> {
        Ok(Self { stream: Stream::connect(place)?, buffer: Vec::new() })
    }

    /// The next line with its end; what there is where the connection ends before.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.buffer[looked..].iter().position(|b| *b == b'\n') {
                return Ok(self.buffer.drain(..=looked + end).collect());
            }
            looked = self.buffer.len();
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk)? {
                0 => return Ok(std::mem::take(&mut self.buffer)),
                n => self.buffer.extend_from_slice(&chunk[..n]),
            }
        }
    }

    /// Reads the next answer of the binary protocol, and gives it to `seen`; nothing where the
    /// connection ends before.
    fn packet<R>(&mut self, seen: impl FnOnce(&Answer<'_>) -> R) -> io::Result<Option<R>> {
        loop {
            let answer = Answer::read(&self.buffer).map_err(io::Error::other)?;
            if let Some((answer, len)) = answer {
                let result = seen(&answer);
                self.buffer.drain(..len);
                return Ok(Some(result));
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk)? {
                0 => return Ok(None),
                n => self.buffer.extend_from_slice(&chunk[..n]),
            }
        }
    }

    fn is_at_end(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 1];
        Ok(self.buffer.is_empty()
            && match self.stream.read(&mut chunk) {
                Ok(n) => n == 0,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => true,
                Err(error) => return Err(error),
            })
    }
}

fn send(stream: &mut Stream, bytes: &[u8], pieces: Option<&mut SeededRng>) -> io::Result<()> {
    let Some(rng) = pieces else { return stream.write_all(bytes) };
    let most = if bytes.len() < 4096 { 7 } else { 60_000 };
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + rng.next_u64() as usize % most).min(rest.len()));
        stream.write_all(piece)?;
        // Lets the server see the piece alone, mostly.
        std::thread::yield_now();
        rest = after;
    }
    Ok(())
}

/// Plays `case` at `place`.
///
/// # Errors
/// What went differently.
pub(crate) fn play(case: &Case, place: &Place, mode: Mode) -> Result<(), String> {
    let failed = |error: io::Error| format!("{error}");
    let mut connection = Connection::new(place).map_err(failed)?;
    connection.stream.write_all(b"flush_all\r\n").map_err(failed)?;
    let cleared = connection.line().map_err(failed)?;
    if cleared != b"OK\r\n" {
        return Err(format!("flush_all gave {}", show(&cleared)));
    }
    if case.is_binary() {
        // What that connection speaks is settled.
        connection = Connection::new(place).map_err(failed)?;
    }
    if mode == Mode::Pipelined {
        return play_pipelined(case, connection);
    }
    let mut rng = match mode {
        Mode::Pieces(seed) => Some(seeded(seed)),
        _ => None,
    };
    let mut numbers = Numbers::new();
    let mut unsent = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        if !unsent.is_empty() && !matches!(step, Step::Send(_) | Step::SendPacket(_)) {
            send(&mut connection.stream, &unsent, rng.as_mut()).map_err(failed)?;
            unsent.clear();
        }
        match step {
            Step::Send(template) => unsent.extend(fill(template, &numbers)),
            Step::SendPacket(packet) => unsent.extend(packet.bytes(&numbers)),
            Step::Connect => connection = Connection::new(place).map_err(failed)?,
            Step::Sleep(millis) => base::thread::sleep(Duration::from_millis(*millis)),
            _ => expect(&mut connection, step, index, &mut numbers)?,
        }
    }
    send(&mut connection.stream, &unsent, rng.as_mut()).map_err(failed)?;
    expect_nothing_more(case, &mut connection)
}

/// Sends everything from a thread of its own, so that a server that waits for its answers to be
/// read is not waited for.
fn play_pipelined(case: &Case, mut connection: Connection) -> Result<(), String> {
    let mut numbers = Numbers::new();
    let all: Vec<u8> = case
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Send(template) => Some(fill(template, &Numbers::new())),
            Step::SendPacket(packet) => Some(packet.bytes(&Numbers::new())),
            _ => None,
        })
        .flatten()
        .collect();
    let mut writer = connection.stream.try_clone().map_err(|e| e.to_string())?;
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || writer.write_all(&all));
        for (index, step) in case.steps.iter().enumerate() {
            expect(&mut connection, step, index, &mut numbers)?;
        }
        sending.join().expect("no panic").map_err(|e| format!("sending: {e}"))?;
        expect_nothing_more(case, &mut connection)
    })
}

fn expect(
    connection: &mut Connection,
    step: &Step,
    index: usize,
    numbers: &mut Numbers,
) -> Result<(), String> {
    match step {
        Step::Expect(template) => {
            let line = connection.line().map_err(|e| format!("step {index}, {}: {e}", show_step(step)))?;
            if matches(template, &line, numbers) {
                return Ok(());
            }
            Err(format!("step {index}: expected {}, got {}", show_step(step), show(&line)))
        }
        Step::ExpectPacket(packet) => expect_packet(connection, packet, index, numbers),
        Step::ExpectEnd => match connection.is_at_end() {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(format!("step {index}: expected the end, got more: {}", show(&connection.buffer)))
            }
            Err(error) => Err(format!("step {index}: expected the end: {error}")),
        },
        _ => Ok(()),
    }
}

fn expect_packet(
    connection: &mut Connection,
    packet: &Packet,
    index: usize,
    numbers: &mut Numbers,
) -> Result<(), String> {
    let seen =
        connection.packet(|answer| (packet.matches(answer, numbers), show(format!("{answer:?}").as_bytes())));
    match seen {
        Ok(Some((true, _))) => Ok(()),
        Ok(Some((false, got))) => Err(format!("step {index}: expected {packet:?}, got {got}")),
        Ok(None) => Err(format!("step {index}: expected {packet:?}, got the end")),
        Err(error) => Err(format!("step {index}, {packet:?}: {error}")),
    }
}

/// A request with a known answer shows that no answer was left over.
fn expect_nothing_more(case: &Case, connection: &mut Connection) -> Result<(), String> {
    if case.steps.last() == Some(&Step::ExpectEnd) {
        return Ok(());
    }
    if case.is_binary() {
        let mut noop = Vec::new();
        Frame { opcode: Opcode::NOOP.0, opaque: 1, ..Frame::default() }.write(&mut noop);
        connection.stream.write_all(&noop).map_err(|e| e.to_string())?;
        let left = connection.packet(|answer| (answer.head.opaque != 1).then(|| format!("{answer:?}")));
        return match left.map_err(|e| format!("after the last step: {e}"))? {
            Some(None) => Ok(()),
            Some(Some(answer)) => Err(format!("after the last step: {answer} is left over")),
            None => Err("after the last step: the end".to_owned()),
        };
    }
    connection.stream.write_all(b"mn\r\n").map_err(|e| e.to_string())?;
    let line = connection.line().map_err(|e| format!("after the last step: {e}"))?;
    if line == b"MN\r\n" { Ok(()) } else { Err(format!("after the last step: {} is left over", show(&line))) }
}

fn show_step(step: &Step) -> String {
    let text = format!("{step:?}");
    text.chars().take(200).collect()
}

fn show(bytes: &[u8]) -> String {
    let text = bytes.escape_ascii().to_string();
    if text.len() > 200 { format!("{}… ({} bytes)", &text[..200], bytes.len()) } else { text }
}
