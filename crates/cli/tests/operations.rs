//! `millpond` under a service manager: sockets that are handed over, a server that is replaced
//! without losing its cache or a client, what the manager is told, and the commands that ask a
//! running server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

const BINARY: &str = env!("CARGO_BIN_EXE_millpond");
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that is killed with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts `millpond serve` as systemd does: with `socket` as descriptor 3, and what the
    /// variables say of it.
    fn activated(socket: &TcpListener, name: &str, notify: Option<&Path>, arguments: &[&str]) -> Self {
        // The shell's own number becomes the server's.
        let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ WATCHDOG_PID=$$; exec \"$0\" serve \"$@\"";
        let socket = OwnedFd::from(socket.try_clone().expect("a second handle"));
        let mut command = Command::new("sh");
        command.args(["-c", script, BINARY]).args(arguments).stdin(Stdio::from(socket));
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", name).env("WATCHDOG_USEC", "300000");
        command.env_remove("MILLPOND_CONFIG").env_remove("MILLPOND_LISTEN").stdout(Stdio::piped());
        match notify {
            Some(path) => command.env("NOTIFY_SOCKET", path),
            None => command.env_remove("NOTIFY_SOCKET"),
        };
        Self(command.stderr(Stdio::null()).spawn().expect("the server starts"))
    }

    /// Returns the admin server's address, as `http://IP:PORT`, from the first lines of the output.
    fn admin(&mut self) -> String {
        let greeting = self.greeting();
        let (_, page) = greeting.split_once("metrics: ").expect("an admin server");
        page.split_once("/metrics").expect("its page").0.to_owned()
    }

    /// Reads the output up to its last line, which says what to try.
    fn greeting(&mut self) -> String {
        let mut output = BufReader::new(self.0.stdout.take().expect("a pipe"));
        let mut text = String::new();
        while !text.contains("try: ") {
            assert_ne!(output.read_line(&mut text).expect("a line"), 0, "it ended: {text}");
        }
        text
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("the process is there");
    }

    fn wait(&mut self) {
        assert!(self.0.wait().expect("an end").success());
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// Sends `request` and expects exactly `answer`.
fn ask(stream: &mut TcpStream, request: &str, answer: &str) {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut received = vec![0; answer.len()];
    stream.read_exact(&mut received).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&received), answer);
}

#[test]
fn a_server_is_replaced_without_losing_its_cache_or_refusing_a_client() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let shared = format!("shared_memory={}", folder.path().join("cache").display());
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    // Another address than that of the socket, which goes over it.
    let arguments = ["--memory", "64MiB", "--threads", "2", "--set", &shared, "--set", "admin.enabled=false"];
    let mut old = Running::activated(&socket, "main", None, &arguments);
    assert!(old.greeting().contains(&format!("tcp://{address} (main)")));
    let mut client = connect(address);
    for key in 0..5_000 {
        ask(&mut client, &format!("set key{key} 7 0 8\r\nvalue{:03}\r\n", key % 1000), "STORED\r\n");
    }
    old.signal(Signal::TERM);
    assert_eq!(client.read(&mut [0]).expect("closed"), 0, "the old server has said all");
    old.wait();

    // While there is no server, whoever connects waits.
    let mut early = connect(address);
    early.write_all(b"get key4999\r\n").expect("sent");
    let mut new = Running::activated(&socket, "main", None, &arguments);
    ask(&mut early, "", "VALUE key4999 7 8\r\nvalue999\r\nEND\r\n");
    for key in 0..5_000 {
        let found = format!("VALUE key{key} 7 8\r\nvalue{:03}\r\nEND\r\n", key % 1000);
        ask(&mut early, &format!("get key{key}\r\n"), &found);
    }
    // And after it was killed, which is how upgrades go wrong.
    new.signal(Signal::KILL);
    let _ = new.0.wait();
    let _newest = Running::activated(&socket, "main", None, &arguments);
    ask(&mut connect(address), "get key17\r\n", "VALUE key17 7 8\r\nvalue017\r\nEND\r\n");
}

#[test]
fn a_socket_that_belongs_to_no_listener_is_refused_by_name() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let listeners = ["--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--set", "admin.enabled=false"];
    let mut server = Running::activated(&socket, "other", None, &listeners);
    assert!(!server.0.wait().expect("an end").success());
}

#[test]
fn the_service_manager_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let expect = |wanted: &str| loop {
        let mut message = [0; 512];
        let len = manager.recv(&mut message).unwrap_or_else(|error| panic!("no {wanted}: {error}"));
        let message = String::from_utf8_lossy(&message[..len]).into_owned();
        if message.lines().any(|line| line == wanted) {
            return;
        }
        // Only watchdog messages may precede the wanted one.
        assert_eq!(message.trim_end(), "WATCHDOG=1", "while {wanted} is awaited");
    };
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let arguments = ["--memory", "64MiB", "--set", "admin.enabled=false"];
    let mut server = Running::activated(&socket, "main", Some(&path), &arguments);
    expect("READY=1");
    // From the second on each says that all workers have answered the one before.
    (0..3).for_each(|_| expect("WATCHDOG=1"));
    server.signal(Signal::HUP);
    expect("RELOADING=1");
    expect("READY=1");
    server.signal(Signal::TERM);
    expect("STOPPING=1");
    server.wait();
}

fn millpond(arguments: &[&str]) -> Output {
    Command::new(BINARY)
        .args(arguments)
        .env_remove("MILLPOND_CONFIG")
        .env_remove("MILLPOND_ADMIN")
        .output()
        .expect("it runs")
}

fn said(arguments: &[&str]) -> String {
    let output = millpond(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn refused(arguments: &[&str]) -> String {
    let output = millpond(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_running_server_is_asked_and_changed_by_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("millpond.toml");
    std::fs::write(&file, "# ours\nmemory = \"64MiB\" # enough\nmax_memory = \"64MiB\"\n[admin]\naddress = \"tcp://127.0.0.1:0\"\n[[listener]]\naddress = \"tcp://127.0.0.1:0\"\n[watch]\nhot_keys = 0\n")
        .expect("a file");
    let file = file.to_str().expect("text");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let mut server = Running::activated(&socket, "main", None, &["--config", file]);
    let admin = server.admin();
    let admin = admin.as_str();

    assert_eq!(said(&["health", "--admin", admin]), "ok\n");
    let shown = said(&["config", "get", "max_connections", "--admin", admin]);
    assert_eq!(shown, "limits.max_connections = 4096  # online\n");
    let frame = said(&["top", "--interval", "100ms", "--admin", admin]);
    for part in [
        concat!("millpond ", env!("CARGO_PKG_VERSION")),
        " of 64.0 MiB",
        // Of two servers on a machine this is the one that was asked.
        &format!("  serves {}", socket.local_addr().expect("an address")),
        "requests/s 0 ",
        "tail age",
        "set watch.hot_keys",
    ] {
        assert!(frame.contains(part), "{part} in\n{frame}");
    }
    let set = ["config", "set", "--admin", admin, "limits.max_connections=99", "memory=48MiB"];
    let changed = said(&set);
    assert!(changed.contains("limits.max_connections: 4096 -> 99\n"), "{changed}");
    let diff = said(&["config", "diff", "--admin", admin, "--config", file]);
    assert_eq!(diff, "limits.max_connections: 99 -> 4096\nmemory: 48MiB -> 64MiB\n");
    let error = refused(&["config", "set", "--admin", admin, "limits.max_conections=99"]);
    assert!(error.contains("did you mean `limits.max_connections`?"), "{error}");
    let written = said(&["config", "set", "--write", "--admin", admin, "log.level=warn"]);
    assert!(written.contains("configuration file"), "{written}");
    let text = std::fs::read_to_string(file).expect("the file");
    // What was changed before and is not asked for is not written.
    assert!(text.starts_with("# ours\nmemory = \"64MiB\" # enough\n"), "{text}");
    assert!(text.contains("level = \"warn\"") && !text.contains("max_connections"), "{text}");
    let written =
        said(&["config", "set", "--write", "--admin", admin, "memory=48MiB", "limits.max_connections=99"]);
    assert!(written.starts_with("Nothing has changed.\n"), "{written}");
    let text = std::fs::read_to_string(file).expect("the file");
    assert!(text.starts_with("# ours\nmemory = \"48MiB\" # enough\n"), "{text}");
    let diff = said(&["config", "diff", "--admin", admin, "--config", file]);
    assert_eq!(diff, "There is no difference.\n");
    assert!(said(&["config", "get", "memory", "--admin", admin]).contains("memory = \"48MiB\"  # online\n"));
    // http:// may be left out.
    let short = admin.strip_prefix("http://").expect("a scheme");
    assert_eq!(said(&["health", "--admin", short]), "ok\n");
    assert!(refused(&["health", "--admin", "redis://127.0.0.1:1"]).contains("http://IP:PORT"));
    server.signal(Signal::TERM);
    server.wait();
    let error = refused(&["health", "--admin", admin]);
    assert!(error.contains("is the server running"), "{error}");
    assert_eq!(refused(&["top", "--admin", admin]).replace("/stats.json", "/healthz"), error);
}

#[test]
fn changes_that_do_not_last_are_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("millpond.toml");
    std::fs::write(&file, "memory = \"64MiB\"\n[admin]\naddress = \"tcp://127.0.0.1:0\"\n[[listener]]\naddress = \"tcp://127.0.0.1:0\"\n")
        .expect("a file");
    let file = file.to_str().expect("text");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let flags = ["--config", file, "--set", "limits.max_line_bytes=4KiB"];
    let mut server = Running::activated(&socket, "main", None, &flags);
    let admin = server.admin();
    let warning = |arguments: &[&str]| {
        let output = millpond(&[arguments, &["--admin", &admin]].concat());
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let overridden = warning(&["config", "set", "--write", "limits.max_line_bytes=8KiB"]);
    assert!(overridden.contains("limits.max_line_bytes: --set overrides the file"), "{overridden}");
    let other = warning(&["config", "set", "--write", "limits.max_get_keys=9"]);
    assert_eq!(other, "");
    let temporary = warning(&["tenant", "set", "temp"]);
    assert!(temporary.contains("warning: tenant.temp: not in the file, so the next reload"), "{temporary}");
    assert!(!warning(&["tenant", "set", "kept", "--write"]).contains("not in the file"));
}

#[test]
fn all_wrong_settings_of_a_change_are_told() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let arguments = ["--memory", "64MiB", "--set", "admin.address=127.0.0.1:0"];
    let mut server = Running::activated(&socket, "main", None, &arguments);
    let admin = server.admin();
    let admin = admin.as_str();
    let wrong =
        ["memory=1MiB", "limits.idle_timeout_secs=soon", "threads=3", "admin.tokens_file=/nowhere/tokens"];
    let error = refused(&[&["config", "set", "--admin", admin][..], &wrong].concat());
    for part in [
        "memory: 1MiB is too little",
        "`limits.idle_timeout_secs` cannot be `soon`",
        "threads: it takes effect at the next start only",
        "admin.tokens_file: /nowhere/tokens cannot be read",
    ] {
        assert!(error.contains(part), "{part} in\n{error}");
    }
    assert_eq!(error.lines().count(), 4, "{error}");
    let error = refused(&["config", "set", "--admin", admin, "memory", "threads"]);
    assert!(
        error.contains("`memory` is not a setting") && error.contains("`threads` is not a setting"),
        "{error}"
    );
}

#[test]
fn tenants_are_shown_made_changed_and_removed_by_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("millpond.toml");
    let before = "# ours\nmemory = \"64MiB\"\n\n[admin]\naddress = \"tcp://127.0.0.1:0\"\n\n[[listener]]\naddress = \"tcp://127.0.0.1:0\"\n";
    std::fs::write(&file, before).expect("a file");
    let file = file.to_str().expect("text");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let mut server = Running::activated(&socket, "main", None, &["--config", file]);
    let admin = server.admin();
    let admin = admin.as_str();
    let tenant = |arguments: &[&'static str]| [&["tenant"], arguments, &["--admin", admin]].concat();

    let made = said(&tenant(&["set", "shop", "limit=8MiB", "databases=1, 2", "--write"]));
    // Of a tenant that is new, what is not the default.
    let changes =
        "tenant.shop.databases: - -> [1,2]\ntenant.shop.limit: - -> 8MiB\ntenant.shop.name: - -> \"shop\"\n";
    assert_eq!(made, format!("{changes}Written into the server's configuration file.\n"));
    let text = std::fs::read_to_string(file).expect("the file");
    let table = "\n[[tenant]]\nname = \"shop\"\ndatabases = [1, 2]\nlimit = \"8MiB\"\n";
    assert_eq!(text, format!("{before}{table}"));

    assert_eq!(said(&tenant(&["set", "shop", "weight=3"])), "tenant.shop.weight: 1 -> 3\n");
    let output = millpond(&tenant(&["set", "shop", "limit=1TiB"]));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "tenant.shop.limit: 8MiB -> 1TiB\n");
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(
        warning
            .contains("millpond: warning: tenant.shop.limit: 1TiB is more than all memory, which is 64MiB"),
        "{warning}"
    );
    assert_eq!(said(&tenant(&["set", "shop", "limit=8MiB"])), "tenant.shop.limit: 1TiB -> 8MiB\n");
    assert_eq!(said(&tenant(&["set", "shop", "weight=3"])), "Nothing has changed.\n");
    let list = said(&tenant(&["list"]));
    let (head, rows) = list.split_once('\n').expect("a head");
    assert!(head.starts_with("TENANT   POOL     ITEMS  MEMORY"), "{list}");
    assert!(rows.lines().all(|row| row.chars().count() == head.chars().count()), "{list}");
    assert!(
        rows.contains("shop     shop         0      0B   8MiB          -            0          0\n"),
        "{list}"
    );
    let shown = said(&tenant(&["show", "shop"]));
    for part in ["shop in pool shop\n", "\nlimit = 8MiB\n", "\nweight = 3\n", "\nconnections = 0\n"] {
        assert!(shown.contains(part), "{part:?} is missing in {shown}");
    }
    assert!(said(&tenant(&["show", "default"])).contains("a listener names its pool"));
    let json = said(&tenant(&["show", "--json", "shop"]));
    assert!(json.starts_with('{') && json.contains(r#""weight":3"#), "{json}");
    let error = refused(&tenant(&["set", "shop", "wieght=3"]));
    assert!(error.contains("did you mean `tenant.shop.weight`?"), "{error}");
    let error = refused(&tenant(&["set", "shop", "weight=0", "wieght=3", "limit=much", "burst_millis=0"]));
    for part in [
        "tenant.shop.weight: 0 is not",
        "`tenant.shop.wieght`",
        "cannot be `much`",
        "tenant.shop.burst_millis: 0",
    ] {
        assert!(error.contains(part), "{part} in\n{error}");
    }
    assert_eq!(error.lines().count(), 4, "{error}");
    let error = refused(&tenant(&["remove", "shp"]));
    assert!(error.contains("there is no tenant `shp`; did you mean `shop`?"), "{error}");

    assert!(said(&tenant(&["remove", "shop", "--write"])).contains("tenant.shop.name: \"shop\" -> -\n"));
    assert_eq!(std::fs::read_to_string(file).expect("the file"), before);
    server.signal(Signal::TERM);
    server.wait();
    let error = refused(&tenant(&["list"]));
    assert!(error.contains("is the server running"), "{error}");
}

#[test]
fn completions_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(said(&["completions", shell]).contains("millpond"), "{shell}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    said(&["man", folder.path().join("man").to_str().expect("text")]);
    for page in ["millpond.1", "millpond-serve.1", "millpond-config-set.1"] {
        let text = std::fs::read_to_string(folder.path().join("man").join(page)).expect("the page");
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn a_log_of_requests_is_replayed_and_its_curve_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("requests.csv");
    let log = log.to_str().expect("text");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    let setting = format!("watch.request_log={log}");
    let all = ["--set", "watch.request_log_one_in=1", "--set", "listener.main.protocol=auto"];
    let arguments = ["--memory", "64MiB", "--set", "admin.enabled=false", "--set", &setting];
    let mut server = Running::activated(&socket, "main", None, &[&arguments[..], &all[..]].concat());
    let mut client = connect(address);
    ask(&mut client, "set secret,key 0 60 5\r\nvalue\r\n", "STORED\r\n");
    ask(&mut client, "get secret,key none\r\n", "VALUE secret,key 0 5\r\nvalue\r\nEND\r\n");
    ask(&mut client, "touch secret,key 9\r\n", "TOUCHED\r\n");
    ask(&mut client, "incr none 1\r\n", "NOT_FOUND\r\n");
    let mut client = connect(address);
    ask(&mut client, "*2\r\n$3\r\nGET\r\n$10\r\nsecret,key\r\n", "$5\r\nvalue\r\n");
    ask(&mut client, "*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$2\r\n11\r\n$1\r\nb\r\n$3\r\n222\r\n", "+OK\r\n");
    ask(&mut client, "*3\r\n$5\r\nLPUSH\r\n$1\r\na\r\n$1\r\nx\r\n", "-WRONGTYPE Operation");
    server.signal(Signal::TERM);
    server.wait();

    let text = std::fs::read_to_string(log).expect("the log");
    assert!(!text.contains("secret"), "{text}");
    // Without time, key and latency.
    let shown: Vec<String> = text
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with("# "))
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            [&fields[1..5], &fields[6..10]].concat().join(",")
        })
        .collect();
    let expected = [
        "default,memcached,set,set,10,5,60,stored",
        "default,memcached,get,get,10,5,,hit",
        "default,memcached,get,get,4,,,miss",
        "default,memcached,touch,touch,10,,9,hit",
        "default,memcached,incr,set,4,,,not_found",
        "default,resp,get,get,10,5,,hit",
        "default,resp,mset,set,1,2,,ok",
        "default,resp,mset,set,1,3,,ok",
        "default,resp,lpush,set,1,,,error",
    ];
    assert_eq!(shown, expected);
    let replay = ["bench", "replay", "--trace", log, "--trace-time", "us", "--own-fills", "--writes-replace"];
    let report = said(&[&replay[..], &["--memory", "16MiB", "--json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    // Of the reads both of the one key, and the writes to `a` and to `none` are repeated.
    assert_eq!(report["requests"], 9, "{report}");
    assert!(report["hits"].as_u64() >= Some(3), "{report}");
    assert!(said(&["curve", log]).contains("miss"), "a curve");
}
