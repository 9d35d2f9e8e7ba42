//! TLS on listeners and on the admin server: what is spoken within it, who is let in, and how
//! certificates are exchanged.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Clock;
use millpond_server::Config;
use millpond_server::config::{Address, Auto, ClientAuth, Protocol, TlsVersion};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustix::fs::{CWD, FileType, mknodat};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use support::{Client, PATIENCE, address, config, metric, wait_until};

/// A certificate of X.509 version 1, as `openssl x509 -req` makes without extensions.
const OLD_CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBJDCBywIUQz0/C9qxnBsOJJYaT9eKi04xxv0wCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyODEzMzk0NFoYDzIwODEwODMxMTMzOTQ0
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQWOYc/dOh7/mSLDAUsq9ctRR7bGSWA06f6Og2BwKTD9tMHdBtQK/KjQTuLF5dq
LP/MiwOHMdqCrHlXN5QrfmTiMAoGCCqGSM49BAMCA0gAMEUCIQCOG5myWX+Zk6MO
kW9yjqQVoCMfQtuUlZ3Mfnt9tqmx2AIgRR89zRZ8WTOA7/793M8kTjQmu58Pgieg
zMlcCaaKvX0=
-----END CERTIFICATE-----
";

/// Files of a server that are broken, and why they are refused.
const BROKEN: &[(&str, &str, &str)] = &[
    ("server.key", "no key", "there is not a private key in it"),
    ("server.pem", "no certificate", "there is not a certificate in it"),
    ("server.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "cannot be read"),
    ("server.pem", "-----BEGIN CERTIFICATE-----\nAAAA", "not valid PEM"),
    ("server.pem", OLD_CERTIFICATE, "X.509 version 3"),
    (
        "server.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "is encrypted",
    ),
    (
        "server.key",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        "is encrypted",
    ),
];

const CLOSES: &str = "millpond_server_closes_total{listener=\"main\",reason=";
const FAILURES: &str = "millpond_server_tls_failures_total{listener=\"main\",reason=";
const HANDSHAKES: &str = "millpond_server_tls_handshakes_total{listener=\"main\",kind=";
const EXPIRY: &str = "millpond_server_tls_certificate_expiry_time_seconds{listener=\"main\"}";

/// A root, and what it has signed, as files.
struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test root");
        let root = params.self_signed(&key).expect("a root");
        std::fs::write(folder.path().join("ca.pem"), root.pem()).expect("a file");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `NAME.pem` and `NAME.key` for `host`, good until the first of January of `year`.
    fn sign(&self, name: &str, host: &str, year: i32) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, format!("cn of {host}"));
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        std::fs::write(self.file(&format!("{name}.pem")), certificate.pem()).expect("a file");
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).expect("a file");
    }

    /// A configuration with TLS on its first listener.
    fn config(&self) -> Config {
        self.sign("server", "localhost", 2200);
        let mut config = config();
        config.listeners[0].tls_certificate = self.file("server.pem");
        config.listeners[0].tls_key = self.file("server.key");
        config
    }

    /// The TLS configuration of a client, with a certificate or without.
    fn client(&self, own: Option<&str>, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.file("ca.pem"))).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(self.file(&format!("{name}.key"))).expect("a key");
                let chain = vec![certificate(&self.file(&format!("{name}.pem")))];
                builder.with_client_auth_cert(chain, key).expect("a certificate and its key")
            }
        })
    }
}

fn certificate(file: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).expect("a certificate")
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, client: &Arc<ClientConfig>) -> Stream {
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    socket.set_nodelay(true).expect("no delay");
    let name = ServerName::try_from("localhost").expect("a name");
    StreamOwned::new(ClientConnection::new(Arc::clone(client), name).expect("a client"), socket)
}

/// Sends `request` and expects exactly `answer`.
fn ask(stream: &mut Stream, request: impl AsRef<[u8]>, answer: impl AsRef<[u8]>) {
    stream.write_all(request.as_ref()).expect("sent");
    stream.flush().expect("sent");
    let mut received = vec![0; answer.as_ref().len()];
    stream.read_exact(&mut received).expect("an answer");
    assert_eq!(received.escape_ascii().to_string(), answer.as_ref().escape_ascii().to_string());
}

/// A value in which no part is like another.
fn value(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 + at % 251) as u8).collect()
}

#[test]
fn all_protocols_and_sizes_are_served_in_both_versions() {
    let authority = Authority::new();
    let mut config = authority.config();
    config.listeners[0].protocol = Protocol::Auto;
    let server = support::start(config).expect("a server");
    for versions in [&[&rustls::version::TLS12], &[&rustls::version::TLS13]] {
        let client = authority.client(None, versions);
        let mut text = connect(address(&server), &client);
        let mut resp = connect(address(&server), &client);
        let mut binary = connect(address(&server), &client);
        // Around the bounds of records, of what is received in place, and of what is sent from
        // where it lies.
        for len in [0, 1, 4095, 4096, 16_383, 16_384, 16_385, 40_000, 200_000, 1_000_000] {
            let value = value(len);
            let set = [format!("set key{len} 5 0 {len}\r\n").as_bytes(), &value, b"\r\n"].concat();
            ask(&mut text, set, "STORED\r\n");
            let found = [format!("VALUE key{len} 5 {len}\r\n").as_bytes(), &value, b"\r\nEND\r\n"].concat();
            ask(&mut text, format!("get key{len}\r\n"), &found);
            let found = [format!("${len}\r\n").as_bytes(), &value, b"\r\n"].concat();
            ask(
                &mut resp,
                format!("*2\r\n$3\r\nGET\r\n${}\r\nkey{len}\r\n", 3 + len.to_string().len()),
                &found,
            );
            let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n");
            ask(&mut resp, [set.as_bytes(), &value, b"\r\n"].concat(), "+OK\r\n");
            ask(&mut resp, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", &found);
        }
        // A binary no-op and its answer.
        let mut noop = [0_u8; 24];
        (noop[0], noop[1], noop[15]) = (0x80, 0x0a, 7);
        let mut answer = noop;
        answer[0] = 0x81;
        ask(&mut binary, noop, answer);
        // Many small requests and answers, both in as few records as may be.
        ask(&mut text, "mn\r\n".repeat(10_000), "MN\r\n".repeat(10_000));
        // The client already has a ticket.
        ask(&mut connect(address(&server), &client), "mn\r\n", "MN\r\n");
    }
    assert_eq!(metric(&server, &format!("{HANDSHAKES}\"full\"}}")), 6);
    assert_eq!(metric(&server, &format!("{HANDSHAKES}\"resumed\"}}")), 2);
}

#[test]
fn many_large_values_at_once_wait_for_a_client_that_reads_late() {
    let authority = Authority::new();
    let server = support::start(authority.config()).expect("a server");
    let mut client = connect(address(&server), &authority.client(None, rustls::ALL_VERSIONS));
    let value = value(500_000);
    ask(&mut client, [b"set k 0 0 500000\r\n", &value[..], b"\r\n"].concat(), "STORED\r\n");
    client.write_all("get k k k k k k k k k k\r\nmn\r\n".as_bytes()).expect("sent");
    wait_until("the server waits for the client", || {
        metric(&server, "millpond_server_connection_memory_bytes{}") > 400_000
    });
    let one = [b"VALUE k 0 500000\r\n", &value[..], b"\r\n"].concat();
    let all = [one.repeat(10), b"END\r\nMN\r\n".to_vec()].concat();
    ask(&mut client, "", &all);
    drop(client);
    wait_until("the memory is given back", || {
        metric(&server, "millpond_server_connection_memory_bytes{}") == 0
    });
}

#[test]
fn requests_may_come_byte_by_byte() {
    let authority = Authority::new();
    let server = support::start(authority.config()).expect("a server");
    let client = authority.client(None, rustls::ALL_VERSIONS);
    let mut tls =
        ClientConnection::new(client, ServerName::try_from("localhost").expect("a name")).expect("TLS");
    let mut socket = TcpStream::connect(address(&server)).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket.set_nodelay(true).expect("no delay");
    tls.writer().write_all(b"set a 0 0 1\r\nx\r\nget a\r\n").expect("buffered");
    let answer = b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n";
    let mut received = Vec::new();
    while received.len() < answer.len() {
        let mut records = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut records).expect("records");
        }
        for byte in records {
            socket.write_all(&[byte]).expect("sent");
        }
        tls.read_tls(&mut socket).expect("received");
        let state = tls.process_new_packets().expect("good records");
        let mut plain = vec![0; state.plaintext_bytes_to_read()];
        tls.reader().read_exact(&mut plain).expect("plain");
        received.extend(plain);
    }
    assert_eq!(received, answer);
}

/// The first message of a client, as its records.
fn client_hello(client: &Arc<ClientConfig>) -> Vec<u8> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut tls = ClientConnection::new(Arc::clone(client), name).expect("TLS");
    let mut records = Vec::new();
    tls.write_tls(&mut records).expect("a hello");
    records
}

/// The same message in records of one byte each.
fn in_small_records(hello: &[u8]) -> Vec<u8> {
    hello[5..].iter().flat_map(|byte| [22, 3, 1, 0, 1, *byte]).collect()
}

#[test]
fn records_that_break_the_rules_harm_their_connection_only() {
    let authority = Authority::new();
    let server = support::start(authority.config()).expect("a server");
    let client = authority.client(None, rustls::ALL_VERSIONS);
    let hello = client_hello(&client);
    let mut random = base::rng::seeded(7);
    for round in 0..400 {
        let mut bytes = if round % 3 == 0 { in_small_records(&hello) } else { hello.clone() };
        let mut pick = |below: usize| base::rng::RngExt::random_range(&mut random, 0..below);
        for _ in 0..1 + pick(3) {
            match pick(4) {
                0 => {
                    let at = pick(bytes.len());
                    bytes[at] ^= 1 << pick(8);
                }
                1 => {
                    let at = pick(bytes.len());
                    bytes.truncate(at.max(6));
                }
                2 => {
                    let again = bytes.clone();
                    bytes.extend(again);
                }
                _ => {
                    let at = pick(bytes.len());
                    bytes.splice(at..at, [22, 3, 3, 0, 2, 1, 0]);
                }
            }
        }
        let mut socket = TcpStream::connect(address(&server)).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let _ = socket.read_to_end(&mut Vec::new());
    }
    // After the handshake too: a record that was not encrypted with the keys.
    for record in [&[23, 3, 3, 0, 20][..], &[22, 3, 3, 0, 4, 0, 0, 0, 0], &[23, 3, 3, 255, 255], &[0; 40]] {
        let mut open = connect(address(&server), &client);
        ask(&mut open, "mn\r\n", "MN\r\n");
        open.sock.write_all(&[record, &[7; 20]].concat()).expect("sent");
        let error = open.read_exact(&mut [0]).expect_err("closed").to_string();
        assert!(error.contains("alert"), "the client is told: {error}");
    }
    let mut good = connect(address(&server), &client);
    ask(&mut good, "mn\r\n", "MN\r\n");
    drop(good);
    wait_until("all are gone", || server.connections() == 0);
}

#[test]
fn both_sides_say_goodbye() {
    let authority = Authority::new();
    let server = support::start(authority.config()).expect("a server");
    let client = authority.client(None, rustls::ALL_VERSIONS);
    let mut quits = connect(address(&server), &client);
    ask(&mut quits, "mn\r\n", "MN\r\n");
    quits.write_all(b"quit\r\n").expect("sent");
    // Without a close_notify this is an error of the kind UnexpectedEof.
    assert_eq!(quits.read_to_end(&mut Vec::new()).expect("a clean end"), 0);

    let mut leaves = connect(address(&server), &client);
    ask(&mut leaves, "mn\r\n", "MN\r\n");
    leaves.conn.send_close_notify();
    leaves.flush().expect("sent");
    assert_eq!(leaves.read_to_end(&mut Vec::new()).expect("a clean end"), 0);
    wait_until("both are gone", || server.connections() == 0);
    assert_eq!(metric(&server, &format!("{CLOSES}\"quit\"}}")), 1);
    assert_eq!(metric(&server, &format!("{CLOSES}\"client\"}}")), 1);
}

#[test]
fn whoever_does_not_finish_the_handshake_is_closed_and_counted() {
    let authority = Authority::new();
    let mut config = authority.config();
    config.limits.handshake_timeout_secs = 7;
    let clock = Clock::manual(1_000_000);
    let server = support::start_with_clock(config, clock.clone()).expect("a server");
    let mut silent = TcpStream::connect(address(&server)).expect("a connection");
    silent.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut slow = TcpStream::connect(address(&server)).expect("a connection");
    slow.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    // The start of a ClientHello that says it is longer.
    slow.write_all(&[22, 3, 1, 2, 0, 1, 0]).expect("sent");
    let mut open = connect(address(&server), &authority.client(None, rustls::ALL_VERSIONS));
    ask(&mut open, "mn\r\n", "MN\r\n");
    wait_until("all three are there", || server.connections() == 3);
    // A connection that is counted may yet be on its way to its worker, and then begins at a later
    // time.
    wait_until("both are gone", || {
        clock.advance(std::time::Duration::from_secs(8));
        server.connections() == 1
    });
    assert_eq!(silent.read(&mut [0]).expect("closed"), 0);
    let _ = slow.read_to_end(&mut Vec::new());
    assert_eq!(metric(&server, &format!("{FAILURES}\"timeout\"}}")), 2);
    assert_eq!(metric(&server, &format!("{CLOSES}\"tls\"}}")), 2);
    ask(&mut open, "mn\r\n", "MN\r\n");
}

#[test]
fn what_is_no_tls_is_told_by_an_alert_and_counted() {
    let authority = Authority::new();
    let server = support::start(authority.config()).expect("a server");
    let mut plain = Client::connect(address(&server));
    plain.send("get something\r\n");
    let mut alert = Vec::new();
    plain.stream.read_to_end(&mut alert).expect("an end, not a reset");
    assert_eq!(alert.first(), Some(&21), "an alert: {alert:?}");
    wait_until("it is counted", || metric(&server, &format!("{FAILURES}\"not_tls\"}}")) == 1);

    let mut config = authority.config();
    config.listeners[0].tls_min_version = TlsVersion::V1_3;
    let server = support::start(config).expect("a server");
    let mut old = connect(address(&server), &authority.client(None, &[&rustls::version::TLS12]));
    assert!(old.write_all(b"mn\r\n").is_err());
    wait_until("it is counted", || metric(&server, &format!("{FAILURES}\"incompatible\"}}")) == 1);
}

#[test]
fn clients_show_certificates_where_they_must() {
    let authority = Authority::new();
    authority.sign("alice", "alice.example", 2200);
    let stranger = Authority::new();
    stranger.sign("alice", "alice.example", 2200);
    let mut config = authority.config();
    config.listeners[0].tls_client_ca = authority.file("ca.pem");
    let server = support::start(config.clone()).expect("a server");
    for versions in [&[&rustls::version::TLS12], &[&rustls::version::TLS13]] {
        ask(&mut connect(address(&server), &authority.client(Some("alice"), versions)), "mn\r\n", "MN\r\n");
        for wrong in [None, Some("stranger")] {
            let client = match wrong {
                None => authority.client(None, versions),
                Some(_) => {
                    for end in ["pem", "key"] {
                        let from = stranger.file(&format!("alice.{end}"));
                        std::fs::copy(from, authority.file(&format!("stranger.{end}"))).expect("copied");
                    }
                    authority.client(wrong, versions)
                }
            };
            let mut refused = connect(address(&server), &client);
            // Within 1.3 the client learns of it after it has sent its first request.
            let error = refused.write_all(b"mn\r\n").and_then(|()| refused.read_exact(&mut [0; 4]));
            let error = error.expect_err("no entry").to_string();
            assert!(error.contains("alert"), "the client is told: {error}");
        }
    }
    wait_until("all are counted", || metric(&server, &format!("{FAILURES}\"client_certificate\"}}")) == 4);

    config.listeners[0].tls_client_auth = ClientAuth::Optional;
    server.reload(&config).expect("reloaded");
    ask(&mut connect(address(&server), &authority.client(None, rustls::ALL_VERSIONS)), "mn\r\n", "MN\r\n");
    let mut wrong = connect(address(&server), &authority.client(Some("stranger"), rustls::ALL_VERSIONS));
    let outcome = wrong.write_all(b"mn\r\n").and_then(|()| wrong.read_exact(&mut [0; 4]));
    assert!(outcome.is_err(), "a certificate that is shown must be good");
}

#[test]
fn certificates_are_exchanged_while_serving_and_broken_ones_are_not() {
    let authority = Authority::new();
    let config = authority.config();
    let server = support::start(config.clone()).expect("a server");
    let client = authority.client(None, rustls::ALL_VERSIONS);
    let served = |stream: &Stream| stream.conn.peer_certificates().expect("a chain")[0].to_vec();
    let mut before = connect(address(&server), &client);
    ask(&mut before, "mn\r\n", "MN\r\n");
    let first = served(&before);
    let expires = metric(&server, EXPIRY);

    for (file, text, reason) in BROKEN {
        let good = std::fs::read(authority.file(file)).expect("the file");
        std::fs::write(authority.file(file), text).expect("broken");
        let error = server.reload(&config).expect_err("refused").to_string();
        assert!(
            error.contains(file) && error.contains(reason) && error.contains("listener.main.tls_"),
            "{error}"
        );
        std::fs::write(authority.file(file), good).expect("mended");
    }
    // Nobody will ever write to the pipe, and the device has no end.
    let pipe = authority.file("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    for path in [pipe, PathBuf::from("/dev/zero")] {
        let mut strange = config.clone();
        strange.listeners[0].tls_client_ca.clone_from(&path);
        strange.listeners[0].tls_key = path;
        let error = server.reload(&strange).expect_err("refused").to_string();
        assert_eq!(error.matches("has to be a file").count(), 2, "{error}");
    }
    authority.sign("other", "localhost", 2300);
    let mut other = config.clone();
    other.listeners[0].tls_key = authority.file("other.key");
    let error = server.reload(&other).expect_err("refused").to_string();
    assert!(error.contains("not the key of the certificate"), "{error}");
    other.listeners[0].tls_key = authority.file("missing.key");
    let error = server.reload(&other).expect_err("refused").to_string();
    assert!(error.contains("missing.key") && error.contains("cannot be read"), "{error}");
    let mut still = connect(address(&server), &client);
    ask(&mut still, "mn\r\n", "MN\r\n");
    assert_eq!(served(&still), first, "the old certificate is kept");

    // The same files with other contents, as tools that renew them leave behind.
    authority.sign("server", "localhost", 2300);
    assert_eq!(server.reload(&config).expect("reloaded"), Vec::new());
    ask(&mut before, "mn\r\n", "MN\r\n");
    let mut after = connect(address(&server), &authority.client(None, rustls::ALL_VERSIONS));
    ask(&mut after, "mn\r\n", "MN\r\n");
    assert_ne!(served(&after), first);
    assert!(metric(&server, EXPIRY) > expires);

    // Off and on again.
    let mut off = config.clone();
    off.listeners[0].tls_certificate = PathBuf::new();
    off.listeners[0].tls_key = PathBuf::new();
    server.reload(&off).expect("reloaded");
    assert_eq!(Client::connect(address(&server)).ask("mn\r\n"), "MN");
    ask(&mut after, "mn\r\n", "MN\r\n");
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let authority = Authority::new();
    let good = authority.config();
    let change = |change: fn(&mut millpond_server::config::ListenerConfig)| {
        let mut config = good.clone();
        change(&mut config.listeners[0]);
        support::start(config).err().expect("refused").to_string()
    };
    let error = change(|listener| listener.tls_key = PathBuf::new());
    assert!(error.contains("listener.main.tls_key"), "{error}");
    let error = change(|listener| listener.tls_certificate = PathBuf::new());
    assert!(error.contains("listener.main.tls_certificate"), "{error}");
    let error = change(|listener| listener.tls_client_ca = listener.tls_key.clone());
    assert!(error.contains("listener.main.tls_client_ca"), "{error}");
}

#[test]
fn the_admin_server_speaks_tls_too() {
    let authority = Authority::new();
    authority.sign("alice", "alice.example", 2200);
    let mut config = authority.config();
    config.admin.tls_certificate = authority.file("server.pem");
    config.admin.tls_key = authority.file("server.key");
    config.admin.tls_client_ca = authority.file("ca.pem");
    let server = support::start(config).expect("a server");
    let admin = server.admin_address().expect("an admin server");
    // Those that say nothing hold nobody up.
    let _silent: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(admin).expect("a connection")).collect();
    let mut operator = connect(admin, &authority.client(Some("alice"), rustls::ALL_VERSIONS));
    operator.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    operator.read_to_string(&mut answer).expect("an answer with a clean end");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "{answer}");
    let mut stranger = connect(admin, &authority.client(None, rustls::ALL_VERSIONS));
    let outcome =
        stranger.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").and_then(|()| stranger.read_exact(&mut [0]));
    assert!(outcome.is_err());
}

#[test]
fn tls_is_in_the_bill() {
    let authority = Authority::new();
    let mut config = authority.config();
    config.threads = Auto::Set(1);
    let mut plain = config.clone();
    plain.listeners[0].tls_certificate = PathBuf::new();
    plain.listeners[0].tls_key = PathBuf::new();
    plain.listeners[0].address = Address::loopback(0);
    let idle = |config: Config, is_tls: bool| {
        let server = support::start(config).expect("a server");
        let before = metric(&server, "millpond_memory_bytes{part=\"connections\"}");
        let client = authority.client(None, rustls::ALL_VERSIONS);
        let mut streams: Vec<Stream> = Vec::new();
        let mut clients: Vec<Client> = Vec::new();
        for _ in 0..10 {
            if is_tls {
                streams.push(connect(address(&server), &client));
                ask(streams.last_mut().expect("one"), "mn\r\n", "MN\r\n");
            } else {
                clients.push(Client::connect(address(&server)));
                assert_eq!(clients.last_mut().expect("one").ask("mn\r\n"), "MN");
            }
        }
        metric(&server, "millpond_memory_bytes{part=\"connections\"}") - before
    };
    let (plain, tls) = (idle(plain, false), idle(config, true));
    assert!(tls > plain + 10 * 2048, "TLS is charged: {plain} without, {tls} with");
}
