//! Spans of a served cache, as a collector gets them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that is killed with the test.
struct Running {
    child: Child,
    address: SocketAddr,
    admin: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Every turn is traced, and every command.
    fn start(endpoint: &str, arguments: &[&str]) -> Self {
        let endpoint = format!("telemetry.otlp_endpoint={endpoint}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
        command.args(["serve", "--memory", "32MiB", "--threads", "2", "--listen", "127.0.0.1:0"]);
        command.args(["--set", "admin.address=127.0.0.1:0", "--set", "telemetry.sample_one_in=1"]);
        command.args(["--set", "telemetry.slow_command_micros=0", "--set", &endpoint]);
        command.args(arguments).env_remove("MILLPOND_CONFIG").env_remove("MILLPOND_LISTEN");
        // Spans must not go through this proxy.
        command.env("HTTP_PROXY", "http://127.0.0.1:9").env("http_proxy", "http://127.0.0.1:9");
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-token=opaque");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut text = String::new();
        while !text.contains("try: ") {
            assert_ne!(output.read_line(&mut text).expect("a line"), 0, "it ended: {text}");
        }
        let after = |mark: &str, end: &str| {
            let (_, rest) = text.split_once(mark).expect("it is said");
            rest.split(end).next().expect("an end").to_owned()
        };
        let address = after("tcp://", " ").parse().expect("an address");
        Self { child, address, admin: after("metrics: ", "/metrics") }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream
    }

    /// Stops it and waits until it has ended, by when everything is sent.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the process is there");
        assert!(self.child.wait().expect("an end").success());
    }

    /// A counter of its metrics.
    fn counter(&self, name: &str) -> u64 {
        let url = format!("{}/metrics", self.admin);
        let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
        let text = agent.get(&url).call().expect("a page").body_mut().read_to_string().expect("text");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("{} "));
        value.unwrap_or_else(|| panic!("there is no {name}")).parse().expect("a number")
    }
}

/// Sends `request` and expects exactly `answer`.
fn ask(stream: &mut TcpStream, request: &str, answer: &str) {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut received = vec![0; answer.len()];
    stream.read_exact(&mut received).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&received), answer);
}

/// A request of HTTP as it came.
struct Posted {
    head: String,
    body: Vec<u8>,
}

/// Takes what is posted to it until the test ends.
fn collector() -> (SocketAddr, Receiver<Posted>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    let (sender, posted) = channel();
    base::thread::spawn("collector", move || {
        for stream in socket.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            base::thread::spawn("taking", move || take(stream, &sender)).expect("a thread");
        }
    })
    .expect("a thread");
    (address, posted)
}

/// Takes the requests of one connection.
fn take(stream: TcpStream, posted: &Sender<Posted>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.expect("a length").parse().expect("a number")];
        stream.read_exact(&mut body).expect("a body");
        let _ = posted.send(Posted { head, body });
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("answered");
    }
}

fn shown(attributes: &[KeyValue]) -> HashMap<&str, String> {
    let shown = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|any| any.value.clone()) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.as_str(), shown(attribute))).collect()
}

/// All spans that came, as they should come.
fn spans(posted: &Receiver<Posted>) -> Vec<Span> {
    let mut spans = Vec::new();
    for Posted { head, body } in posted.try_iter() {
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
        assert!(head.contains("\r\nx-token: opaque\r\n"), "{head}");
        assert!(!body.windows(6).any(|bytes| bytes == b"secret"), "a key has left");
        let request = ExportTraceServiceRequest::decode(&body[..]).expect("a request of OTLP");
        for resource in request.resource_spans {
            let attributes = resource.resource.expect("a resource").attributes;
            assert_eq!(shown(&attributes)["service.name"], "pond");
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    spans
}

#[test]
fn turns_and_their_commands_reach_a_collector_without_keys() {
    let (address, posted) = collector();
    let server = Running::start(
        &format!("http://{address}"),
        &["--set", "telemetry.service_name=pond", "--set", "listener.main.protocol=auto"],
    );
    let mut client = server.connect();
    ask(
        &mut client,
        "set secret-key 0 0 5\r\nvalue\r\nget secret-key none\r\nmn\r\n",
        "STORED\r\nVALUE secret-key 0 5\r\nvalue\r\nEND\r\nMN\r\n",
    );
    let mut client = server.connect();
    ask(&mut client, "*3\r\n$5\r\nSETNX\r\n$10\r\nsecret-key\r\n$6\r\nsecret\r\n", ":0\r\n");
    ask(
        &mut client,
        "*2\r\n$6\r\nsecret\r\n$1\r\nx\r\n",
        "-ERR unknown command 'secret', with args beginning with: 'x' \r\n",
    );
    server.stop();

    let spans = spans(&posted);
    let roots: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id.is_empty()).collect();
    let below = |root: &Span| -> Vec<&Span> {
        let is_below = |span: &&Span| span.parent_span_id == root.span_id && span.trace_id == root.trace_id;
        spans.iter().filter(is_below).collect()
    };
    let names = |root: &Span| below(root).iter().map(|span| span.name.clone()).collect::<Vec<_>>().join(" ");
    let told: Vec<String> = roots
        .iter()
        .map(|root| {
            let told = shown(&root.attributes);
            let of = |name: &str| told[name].as_str();
            assert_eq!([of("millpond.tenant"), of("millpond.listener")], ["default", "main"]);
            assert!(root.end_time_unix_nano >= root.start_time_unix_nano);
            format!(
                "{} ({}): {} in {} bytes, answered in {}: {}",
                root.name,
                of("network.protocol.name"),
                of("millpond.requests"),
                of("millpond.received_bytes"),
                of("millpond.sent_bytes"),
                names(root)
            )
        })
        .collect();
    let mut sorted = told.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        [
            "memcached turn (memcached): 4 in 54 bytes, answered in 46: set get mn",
            "resp turn (resp): 1 in 23 bytes, answered in 63: unknown",
            "resp turn (resp): 1 in 44 bytes, answered in 4: setnx",
        ]
    );
    let of_command = |name: &str| spans.iter().find(|span| span.name == name).expect("a span");
    let (set, get, setnx) = (of_command("set"), of_command("get"), of_command("setnx"));
    assert_eq!(shown(&get.attributes)["millpond.lookups"], "2");
    let keys = [set, get, setnx].map(|span| shown(&span.attributes)["millpond.key"].clone());
    assert!(keys.iter().all(|key| *key == keys[0]), "one key has one number: {keys:?}");
    assert_eq!(shown(&set.attributes)["millpond.key_bytes"], "10");
}

#[test]
fn a_collector_that_does_not_answer_holds_up_no_client() {
    // The kernel accepts connections, and nobody reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
    let server = Running::start(&endpoint, &["--set", "telemetry.timeout_millis=60000"]);
    let mut client = server.connect();
    // More than all buffers hold, while the sending thread waits.
    for _ in 0..5_000 {
        ask(&mut client, "mn\r\n", "MN\r\n");
    }
    assert!(server.counter("millpond_telemetry_spans_dropped_total") > 0);
    assert_eq!(server.counter("millpond_telemetry_spans_sent_total"), 0);
}

#[test]
fn tracing_begins_and_ends_while_serving() {
    let (address, posted) = collector();
    let server = Running::start("", &[]);
    let set = |name: &str, value: &str| {
        let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
        let body = format!("{{\"telemetry.{name}\": \"{value}\"}}");
        let url = format!("{}/config", server.admin);
        agent.put(&url).content_type("application/json").send(&body).expect("it is changed");
    };
    let mut client = server.connect();
    ask(&mut client, "mn\r\n", "MN\r\n");
    set("otlp_endpoint", &format!("http://{address}/elsewhere"));
    ask(&mut client, "version\r\n", concat!("VERSION 1.6.18-millpond-", env!("CARGO_PKG_VERSION"), "\r\n"));
    let first = posted.recv_timeout(PATIENCE).expect("spans");
    assert!(first.head.starts_with("post /elsewhere http/1.1\r\n"), "{}", first.head);
    assert!(first.body.windows(7).any(|bytes| bytes == b"version"));
    set("sample_one_in", "0");
    ask(&mut client, "mn\r\n", "MN\r\n");
    server.stop();
    assert_eq!(posted.try_iter().count(), 0, "nothing is traced any more");
}
