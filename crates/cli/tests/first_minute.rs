//! The commands of a first minute, and those of operators against a server that requires
//! authentication.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

const BINARY: &str = env!("CARGO_BIN_EXE_millpond");
const PATIENCE: Duration = Duration::from_secs(20);

fn millpond(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MILLPOND_")) {
        command.env_remove(name);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    millpond(arguments).output().expect("the binary runs")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A server that is killed with the test, and what it said when it had started.
struct Running {
    child: Child,
    said: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let usual = ["serve", "--memory", "32MiB", "--threads", "1", "--set", "admin.address=127.0.0.1:0"];
        Self::of(&[&usual[..], arguments].concat())
    }

    /// Runs a server until it has said where it serves.
    fn of(arguments: &[&str]) -> Self {
        let mut child = millpond(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut said = String::new();
        while !said.contains("metrics: ") {
            assert_ne!(output.read_line(&mut said).expect("a line"), 0, "it ended: {said}");
        }
        Self { child, said }
    }

    /// The address that is said behind `before`.
    fn place(&self, before: &str) -> SocketAddr {
        let (_, rest) =
            self.said.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {}", self.said));
        let end = rest.find([' ', '/', ',']).unwrap_or(rest.len());
        rest[..end].parse().unwrap_or_else(|error| panic!("{error}: {rest}"))
    }
}

fn ask(place: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(place).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}

#[test]
fn flags_say_where_and_whom_to_serve() {
    let port = free_port().to_string();
    let server = Running::start(&["--port", &port, "--redis", "127.0.0.1:0"]);
    let both = server.place("memcached and Redis clients on tcp://");
    assert_eq!(both.port().to_string(), port);
    assert_eq!(ask(both, "PING\r\n"), "+PONG");
    assert_eq!(ask(both, "mn\r\n"), "MN");
    let redis = server.place(", Redis clients on tcp://");
    assert_eq!(ask(redis, "get k\r\n"), "$-1");
    assert!(
        server.said.contains("(main), Redis clients") && server.said.contains("(redis)\n"),
        "{}",
        server.said
    );

    let server = Running::start(&["--listen", "memcached://127.0.0.1:0,resp://127.0.0.1:0"]);
    assert_eq!(ask(server.place("serves memcached clients on tcp://"), "PING\r\n"), "ERROR");
    assert_eq!(ask(server.place(", Redis clients on tcp://"), "PING\r\n"), "+PONG");
}

#[test]
fn help_names_both_kinds_of_clients() {
    for arguments in [&["--help"][..], &["serve", "--help"]] {
        let help = String::from_utf8(run(arguments).stdout).expect("text");
        assert!(help.contains("memcached and Redis clients"), "{help}");
    }
    let help = String::from_utf8(run(&["serve", "-h"]).stdout).expect("text");
    assert!(
        help.contains("--port") && help.contains("--redis") && help.contains("redis://IP:PORT"),
        "{help}"
    );
}

/// The usual admin address is another program's, whether this test holds it or somebody else does.
#[test]
fn a_second_server_says_that_the_admin_server_is_the_firsts() {
    loop {
        let first = TcpListener::bind("127.0.0.1:11212");
        let arguments = ["serve", "--memory", "32MiB", "--threads", "1", "--port", "0"];
        let server = Running::of(&arguments);
        if server.said.contains("metrics: http") {
            assert!(first.is_err(), "the address is this test's: {}", server.said);
            continue;
        }
        assert!(
            server.said.contains("none, as another program has tcp://127.0.0.1:11212"),
            "{}",
            server.said
        );
        assert!(server.said.contains("--set admin.address=127.0.0.1:PORT"), "{}", server.said);
        assert_eq!(ask(server.place("clients on tcp://"), "mn\r\n"), "MN");
        return;
    }
}

/// As a start would find it, and without changing anything.
#[test]
fn a_check_finds_what_the_machine_does_not_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| text_of(&folder.path().join(name));
    std::fs::write(at("tokens"), "0123456789abcdef\n").expect("a file");
    let file = |folder: &str, tokens: &str| {
        let text = format!(
            "memory = \"64MiB\"\n[[listener]]\naddress = \"unix://{folder}/socket\"\n[admin]\naddress = \"tcp://127.0.0.1:0\"\n\
             tokens_file = \"{tokens}\"\n[watch]\nrequest_log = \"{folder}/log\"\ntrace_file = \"{folder}/trace\"\n"
        );
        std::fs::write(at("file.toml"), text).expect("a file");
        at("file.toml")
    };
    let bad = file("/nowhere", "/nowhere/tokens");
    for command in [&["config", "check"][..], &["serve"]] {
        let output = run(&[command, &[&bad]].concat());
        let said = error(&output);
        assert!(!output.status.success());
        for (line, setting) in [
            (3, "listener.main.address"),
            (6, "admin.tokens_file"),
            (8, "watch.request_log"),
            (9, "watch.trace_file"),
        ] {
            assert!(said.contains(&format!("{bad}:{line}: {setting}: ")), "{setting} in\n{said}");
        }
        assert_eq!(said.lines().count(), 4, "{said}");
    }
    // To show a configuration nothing of this is needed.
    assert!(run(&["config", "print", &bad]).status.success());
    let good = file(&text_of(folder.path()), &at("tokens"));
    let output = run(&["config", "check", &good]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", error(&output));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2, "no file was made");
}

#[test]
fn variables_that_are_no_text_do_not_matter_unless_they_are_settings() {
    use std::os::unix::ffi::OsStrExt as _;
    let strange = std::ffi::OsStr::from_bytes(b"\xff");
    let check = |variable: &str| {
        millpond(&["config", "check"]).env(variable, strange).output().expect("the binary runs")
    };
    let output = check("FOO");
    assert!(output.status.success(), "{}", error(&output));
    let said = error(&check("MILLPOND_MEMORY"));
    assert!(said.contains("MILLPOND_MEMORY: the variable's value is not UTF-8"), "{said}");
}

/// `head` closes its end after what it wants.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sample-trace.csv.zst");
    let replay = ["bench", "replay", "--memory", "16MiB", "--trace", trace];
    for arguments in [
        &["completions", "bash"][..],
        &["config", "print"],
        &["curve", trace, "--json"],
        &replay,
        &["bench", "generate", "--list"],
    ] {
        let mut child =
            millpond(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        child.wait().expect("it ends");
        assert_eq!(said, "", "{arguments:?}");
    }
}

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
        let root = params.self_signed(&key).expect("a root");
        std::fs::write(folder.path().join("ca.pem"), root.pem()).expect("a file");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// The certificate for `host` and its key.
    fn sign(&self, host: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let write = |name: String, text: String| {
            let file = self.folder.path().join(name);
            std::fs::write(&file, text).expect("a file");
            text_of(&file)
        };
        (write(format!("{host}.pem"), certificate.pem()), write(format!("{host}.key"), key.serialize_pem()))
    }

    fn root(&self) -> String {
        text_of(&self.folder.path().join("ca.pem"))
    }
}

fn text_of(file: &Path) -> String {
    PathBuf::from(file).display().to_string()
}

const COMMANDS: [&[&str]; 4] = [
    &["health"],
    &["top", "--once", "--interval", "100ms"],
    &["tenant", "list"],
    &["config", "get", "memory"],
];

#[test]
fn operators_commands_speak_tls_and_show_certificates() {
    let authority = Authority::new();
    let (certificate, key) = authority.sign("localhost");
    let settings = [
        format!("admin.tls_certificate={certificate}"),
        format!("admin.tls_key={key}"),
        format!("admin.tls_client_ca={}", authority.root()),
    ];
    let set: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting.as_str()]).collect();
    let server = Running::start(&[&set[..], &["--port", "0"]].concat());
    let admin = format!("https://localhost:{}", server.place("metrics: https://").port());
    assert!(server.said.contains("/metrics (with a certificate)"), "{}", server.said);
    let (own, own_key) = authority.sign("operator");
    let root = authority.root();
    for command in COMMANDS {
        let with = [command, &["--admin", &admin, "--ca", &root, "--cert", &own, "--key", &own_key]].concat();
        let output = run(&with);
        assert!(output.status.success(), "{command:?}: {}", error(&output));
        let without = run(&[command, &["--admin", &admin, "--ca", &root]].concat());
        assert!(error(&without).contains("--cert and --key"), "{command:?}: {}", error(&without));
        let untrusted = run(&[command, &["--admin", &admin, "--cert", &own, "--key", &own_key]].concat());
        assert!(error(&untrusted).contains("--ca names the file"), "{command:?}: {}", error(&untrusted));
        let plain = run(&[command, &["--admin", &admin.replace("https", "http")]].concat());
        assert!(error(&plain).contains("https://"), "{command:?}: {}", error(&plain));
    }
    // By variables, as the image's health check.
    let output = millpond(&["health"])
        .env("MILLPOND_ADMIN", &admin)
        .env("MILLPOND_ADMIN_CA", &root)
        .env("MILLPOND_ADMIN_CERT", &own)
        .env("MILLPOND_ADMIN_KEY", &own_key)
        .output();
    assert!(output.expect("it runs").status.success());
    let missing = run(&["health", "--admin", &admin, "--ca", "/nowhere/ca.pem"]);
    assert!(error(&missing).contains("/nowhere/ca.pem"), "{}", error(&missing));
}

#[test]
fn operators_commands_show_tokens() {
    let token = "0123456789abcdef0123456789abcdef";
    let server = Running::start(&["--set", &format!("admin.token={token}"), "--port", "0"]);
    assert!(
        server.said.contains("/metrics (with a token)") && !server.said.contains(token),
        "{}",
        server.said
    );
    let admin = server.place("metrics: http://").to_string();
    for command in COMMANDS.into_iter().filter(|command| command[0] != "health") {
        let without = run(&[command, &["--admin", &admin]].concat());
        assert!(error(&without).contains("MILLPOND_ADMIN_TOKEN"), "{command:?}: {}", error(&without));
        let wrong =
            run(&[command, &["--admin", &admin, "--token", "fedcba98765432100123456789abcdef"]].concat());
        assert!(!wrong.status.success(), "{command:?} with a wrong token");
        assert!(
            run(&[command, &["--admin", &admin, "--token", token]].concat()).status.success(),
            "{command:?}"
        );
        let mut by_variable = millpond(&[command, &["--admin", &admin]].concat());
        let output = by_variable.env("MILLPOND_ADMIN_TOKEN", token).output().expect("it runs");
        assert!(output.status.success(), "{command:?}: {}", error(&output));
    }
    assert!(run(&["health", "--admin", &admin]).status.success(), "health needs none");
}
