//! Servers that are not what the address says.

use std::io::{Read, Write};
use std::net::TcpListener;

use millpond_agent::targets::{Sampling, TargetSettings};
use std::time::Duration;

use crate::support::{failure, open};

/// Settings of an agent that only asks.
fn without_learning() -> TargetSettings {
    let sampling = Sampling { window: Some(Duration::ZERO), ..Sampling::default() };
    TargetSettings { sampling, ..TargetSettings::default() }
}

/// Looks at a server that sends `answer` to whatever comes, and then closes or stays silent.
fn against(scheme: &str, answer: Vec<u8>, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port");
    let server = base::thread::spawn("fake", move || {
        let (mut socket, _) = listener.accept().expect("a client");
        let _ = socket.read(&mut [0; 4096]);
        let _ = socket.write_all(&answer);
        if !closes {
            // Until the agent gives up.
            let _ = socket.read(&mut [0; 1]);
        }
    });
    let mut instance = open(scheme, address, without_learning());
    let (words, secs) = failure(&mut *instance);
    drop(instance);
    server.expect("a thread").join().expect("a server");
    assert!(words.contains(&address.to_string()), "{words}");
    assert!(secs < 5.0, "{secs} s: {words}");
    words
}

#[test]
fn garbage_is_an_error() {
    let many_lines = b"STAT a 1\r\n".repeat(10_000);
    let answers = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        b"VERSION 1.6\r\nEND\r\nEND\r\nEND\r\nEND\r\n".to_vec(),
        [&b"VERSION 1.6\r\n"[..], &many_lines].concat(),
        vec![b'x'; 1 << 20],
        vec![0; 100],
        b"\n\n\n\n\n\n".to_vec(),
        b"$12\r\nused_memory:\r\n\r\n".to_vec(),
        b"*1000\r\n".repeat(1000),
        b"$-9223372036854775808\r\n".to_vec(),
        Vec::new(),
    ];
    for answer in answers {
        for scheme in ["memcached", "redis"] {
            against(scheme, answer.clone(), true);
        }
    }
}

#[test]
fn an_answer_that_does_not_come_is_an_error() {
    for scheme in ["memcached", "redis"] {
        let words = against(scheme, b"VERSION 1".to_vec(), false);
        assert!(words.contains("no answer in time") || words.contains("temporarily"), "{words}");
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    for scheme in ["memcached", "valkey"] {
        let (words, _) = failure(&mut *open(scheme, address, without_learning()));
        assert!(words.contains("start it, or correct the address"), "{words}");
    }
}
