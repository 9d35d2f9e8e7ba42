//! A client that shows replies as text.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use protocol::resp::{reply, split_words};

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    reader: BufReader<TcpStream>,
}

/// A command, written as one types it, as it is sent.
pub(crate) fn request(command: &str) -> Vec<u8> {
    let words = split_words(command.as_bytes()).expect("words");
    let mut out = Vec::new();
    reply::request(&mut out, words.iter().map(Vec::as_slice));
    out
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        Self { stream, reader }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("sent");
    }

    /// Sends a command and returns its reply.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(request(command));
        self.reply()
    }

    /// The next reply; `closed` at the end of the connection.
    pub(crate) fn reply(&mut self) -> String {
        let mut line = Vec::new();
        match self.reader.read_until(b'\n', &mut line) {
            Ok(0) => return "closed".to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return "closed".to_owned(),
            read => read.expect("a reply"),
        };
        let line = line.strip_suffix(b"\r\n").expect("a whole line").escape_ascii().to_string();
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().expect("a number");
        match kind {
            "$" | "=" if number() >= 0 => {
                let mut data = vec![0; number() as usize + 2];
                self.reader.read_exact(&mut data).expect("data");
                data.truncate(data.len() - 2);
                format!("{kind}{}", data.escape_ascii())
            }
            "*" | "~" | ">" if number() >= 0 => self.several(kind, number()),
            "%" => self.several(kind, 2 * number()),
            _ => line,
        }
    }

    fn several(&mut self, kind: &str, count: i64) -> String {
        let parts: Vec<String> = (0..count).map(|_| self.reply()).collect();
        format!("{kind}[{}]", parts.join(" "))
    }
}
