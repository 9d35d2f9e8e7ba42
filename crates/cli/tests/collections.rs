//! Collections of a server that is killed while clients write to them, time and again: the next
//! process finds each whole, with all that was acknowledged, or not at all.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::hash::mix64;
use rustix::process::Signal;
use trial::served::Served;

const KILLS: u64 = 12;
const WRITERS: u64 = 3;
/// Collections of each kind that a writer has for itself.
const EACH: u64 = 3;
/// Fields of a hash, and members of a sorted set; every command writes all of them.
const FIELDS: u64 = 128;
/// Elements that a list, and members that a set, is given by a command.
const PART: usize = 3;
const PATIENCE: Duration = Duration::from_secs(20);

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Self(BufReader::new(stream))
    }

    /// Sends a command; the parts of its reply, without their lengths. `None`: the server is gone.
    fn ask(&mut self, words: &[String]) -> Option<Vec<String>> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        let head = self.line()?;
        let (kind, rest) = head.split_at(1);
        match kind {
            ":" | "+" => Some(vec![rest.to_owned()]),
            "*" => (0..rest.parse::<usize>().expect("a length")).map(|_| self.bulk()).collect(),
            _ => panic!("{words:?}: {head}"),
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    fn bulk(&mut self) -> Option<String> {
        let length = self.line()?.strip_prefix('$')?.parse::<usize>().ok()?;
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).ok()?;
        bytes.truncate(length);
        String::from_utf8(bytes).ok()
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The value that a round writes: of many lengths, so that items grow and shrink.
fn value(round: u64) -> String {
    format!("{round}:{}", "x".repeat((mix64(round) % 700) as usize))
}

/// The round that wrote it.
fn round_of(value: &str) -> u64 {
    let (round, _) = value.split_once(':').expect("one of ours");
    round.parse().expect("a number")
}

/// The command by which a round changes a collection.
fn command(key: &str, round: u64) -> Vec<String> {
    match &key[..1] {
        "h" => {
            let fields = (0..FIELDS).flat_map(|field| [format!("field{field}"), value(round)]);
            ["HSET".to_owned(), key.to_owned()].into_iter().chain(fields).collect()
        }
        "z" => {
            let members = (0..FIELDS).flat_map(|member| [round.to_string(), format!("member{member}")]);
            ["ZADD".to_owned(), key.to_owned()].into_iter().chain(members).collect()
        }
        "s" => {
            let members = (0..PART).map(|member| format!("{}{member}", value(round)));
            ["SADD".to_owned(), key.to_owned()].into_iter().chain(members).collect()
        }
        _ if is_removal(key, round) => words(&format!("LTRIM {key} -{} -1", 10 * PART)),
        _ => {
            let elements = (0..PART).map(|_| value(round));
            ["RPUSH".to_owned(), key.to_owned()].into_iter().chain(elements).collect()
        }
    }
}

/// Returns whether a round removes elements from a list.
fn is_removal(key: &str, round: u64) -> bool {
    key.starts_with('l') && mix64(round).is_multiple_of(3)
}

fn keys(writer: u64) -> Vec<String> {
    let of_kind = |kind: char| (0..EACH).map(move |number| format!("{kind}{writer}-{number}"));
    ['h', 'z', 's', 'l'].into_iter().flat_map(of_kind).collect()
}

/// Writes until the server is gone. Returns the round that was not acknowledged, and of each
/// collection the last that was and put something into it.
fn write(
    address: SocketAddr,
    writer: u64,
    first: u64,
    acknowledged: &AtomicU64,
) -> (u64, BTreeMap<String, u64>) {
    let (mut client, keys, mut done) = (Client::connect(address), keys(writer), BTreeMap::new());
    let mut round = first;
    loop {
        let key = &keys[(mix64(round * WRITERS + writer) % keys.len() as u64) as usize];
        if client.ask(&command(key, round)).is_none() {
            return (round, done);
        }
        if !is_removal(key, round) {
            done.insert(key.clone(), round);
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
        round += 1;
    }
}

/// The last round that a collection shows, which is whole. `None`: it is not there.
fn last_round(client: &mut Client, key: &str) -> Option<u64> {
    let mut ask = |text: &str| client.ask(&words(text)).expect("the server is there");
    match &key[..1] {
        "h" => {
            let pairs = ask(&format!("HGETALL {key}"));
            assert!([0, 2 * FIELDS as usize].contains(&pairs.len()), "{key} has {} words", pairs.len());
            let values: Vec<&String> = pairs.iter().skip(1).step_by(2).collect();
            assert!(values.iter().all(|value| *value == values[0]), "{key} is torn: {values:?}");
            values.first().map(|value| round_of(value))
        }
        "z" => {
            let pairs = ask(&format!("ZRANGE {key} 0 -1 WITHSCORES"));
            assert!([0, 2 * FIELDS as usize].contains(&pairs.len()), "{key} has {} words", pairs.len());
            let scores: Vec<&String> = pairs.iter().skip(1).step_by(2).collect();
            assert!(scores.iter().all(|score| *score == scores[0]), "{key} is torn: {scores:?}");
            scores.first().map(|score| score.parse().expect("a number"))
        }
        "s" => {
            let mut rounds = BTreeMap::<u64, usize>::new();
            ask(&format!("SMEMBERS {key}"))
                .iter()
                .for_each(|member| *rounds.entry(round_of(member)).or_default() += 1);
            assert!(rounds.values().all(|members| *members == PART), "{key} is torn: {rounds:?}");
            rounds.last_key_value().map(|(round, _)| *round)
        }
        _ => {
            let elements = ask(&format!("LRANGE {key} 0 -1"));
            let rounds: Vec<u64> = elements.iter().map(|element| round_of(element)).collect();
            let (parts, rest) = rounds.as_chunks::<PART>();
            assert!(
                rest.is_empty() && parts.iter().all(|part| part[0] == part[2]),
                "{key} is torn: {rounds:?}"
            );
            assert!(rounds.is_sorted(), "{key} has lost its order: {rounds:?}");
            rounds.last().copied()
        }
    }
}

#[test]
fn collections_of_a_killed_server_are_whole_or_gone() {
    let parent = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let folder = tempfile::tempdir_in(parent).expect("a folder");
    // Few size classes, so that each has a slab and nothing is evicted.
    let config = format!(
        "memory = \"256MiB\"\nthreads = 2\nshared_memory = \"{}\"\n[[listener]]\nname = \"main\"\naddress = \"tcp://127.0.0.1:0\"\n\
         protocol = \"resp\"\n[[pool]]\nname = \"default\"\nclass_factor = 2.0\n",
        folder.path().join("cache").display()
    );
    let mut served = Served::start(Path::new(env!("CARGO_BIN_EXE_millpond")), &config).expect("a server");
    let (mut first, mut whole, mut gone) = (1, 0, 0);
    let mut known = vec![BTreeMap::new(); WRITERS as usize];
    for kill in 0..KILLS {
        let address = served.address("main").expect("a listener");
        let acknowledged = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let acknowledged = Arc::clone(&acknowledged);
                let body = move || write(address, writer, first, &acknowledged);
                base::thread::spawn("writer", body).expect("a thread")
            })
            .collect();
        while acknowledged.load(Ordering::Relaxed) < 600 + mix64(kill) % 600 {
            assert!(served.is_up(), "it runs until it is killed");
            base::thread::sleep(Duration::from_millis(1));
        }
        assert!(!served.restart(Signal::KILL).expect("it comes back").success());
        let mut client = Client::connect(served.address("main").expect("a listener"));
        for (writer, known) in writers.into_iter().zip(&mut known) {
            let (next, done) = writer.join().expect("no panic");
            known.extend(done);
            first = first.max(next + 1);
            let before = known.len();
            known.retain(|key, acknowledged| match last_round(&mut client, key) {
                None => false,
                Some(last) => {
                    assert!(
                        last >= *acknowledged && last <= next,
                        "kill {kill}, {key}: {last} after {acknowledged}"
                    );
                    true
                }
            });
            let lost = before - known.len();
            assert!(lost <= 1, "kill {kill}: a writer was at one collection, and {lost} are gone");
            (whole, gone) = (whole + known.len(), gone + lost);
        }
    }
    println!("{whole} collections were whole after {KILLS} kills, {gone} were gone");
    assert!(whole > gone);
}
