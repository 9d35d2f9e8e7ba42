use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use config::load::{Flags, Loaded, load_text, unsurveyed};
use config::{Listen, Watch};
use frontend::files::logs;
use rustix::fs::{CWD, FileType, mknodat};

use super::*;

/// Keeps a start from the usual address of the admin server, which any other process may have.
const NO_ADMIN: &str = "[admin]\nenabled = false\n";

fn load(text: &str, flags: &Flags, survey: &dyn Fn(&Config) -> Findings) -> Result<Loaded, String> {
    load_text("f", text, &[], flags, survey).map_err(|error| error.to_string())
}

/// As `millpond serve` does, without sockets that were handed over.
fn at_start(config: &Config) -> Findings {
    start(config, &Activated::default())
}

/// Holds an address of this machine.
fn taken() -> (TcpListener, String) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = format!("tcp://{}", socket.local_addr().expect("an address"));
    (socket, address)
}

/// All below a folder: what each file has, and the names of folders and sockets.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = fs::symlink_metadata(&path).expect("it is there").file_type();
        if kind.is_dir() {
            found.extend(contents(&path));
        }
        let is_file = !kind.is_dir() && !kind.is_socket();
        let bytes = if is_file { fs::read(&path).expect("a file") } else { Vec::new() };
        found.insert(path, bytes);
    }
    found
}

/// A configuration of which nothing can be had; the files that it names are in the folder of `at`.
fn hopeless(at: &impl Fn(&str) -> String, used: &str, also_used: &str) -> String {
    format!(
        "\
shared_memory = \"{cache}\"
allow_remote = true
[[listener]]
name = \"a\"
address = \"tcp://192.0.2.1:11211\"
tls_certificate = \"/nowhere/a.pem\"
tls_key = \"/nowhere/a.key\"
tls_client_ca = \"/nowhere/ca.pem\"
[[listener]]
name = \"b\"
address = \"unix:///nowhere/b.sock\"
[[listener]]
name = \"c\"
address = \"unix://{tokens}\"
[[listener]]
name = \"d\"
address = \"{used}\"
[admin]
address = \"{also_used}\"
tokens_file = \"{tokens}\"
[watch]
request_log = \"{pipe}\"
trace_file = \"{cache}\"
[log]
level = \"wran\"
",
        cache = at("cache"),
        tokens = at("tokens"),
        pipe = at("pipe"),
    )
}

#[test]
fn a_pipe_is_no_file_for_a_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    let watch = Watch { trace_file: pipe.clone(), request_log: pipe, ..Watch::default() };
    let problems = logs(&watch);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().all(|problem| problem.contains("it is a pipe")), "{problems:?}");
}

#[test]
fn a_certificate_without_its_key_is_one_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.pem");
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(&file, own.cert.pem()).expect("a file");
    let text = format!(
        "[[listener]]\nname = \"a\"\naddress = \"tcp://127.0.0.1:0\"\ntls_certificate = \"{}\"\n{NO_ADMIN}",
        file.display()
    );
    let error = load(&text, &Flags::default(), &at_start).expect_err("no key");
    assert_eq!(error, format!("f:2: listener.a.tls_key: {}", config::NO_TLS_KEY));
}

#[test]
fn all_that_cannot_be_had_is_told_with_the_other_mistakes_each_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let ((_socket, used), (_other, also_used)) = (taken(), taken());
    fs::write(at("tokens"), "0123456789abcdef\nshort\n# no token\nguess\n").expect("a file");
    mknodat(CWD, at("pipe"), FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    fs::create_dir(at("cache")).expect("a folder");
    fs::write(at("cache/words"), [7; 4096]).expect("a file");
    let text = hopeless(&at, &used, &also_used);
    let error = load(&text, &Flags::default(), &at_start).expect_err("nothing of it can be had");
    let expected = [
        "f:1: shared_memory: ",
        "f:5: listener.a.address: tcp://192.0.2.1:11211 cannot be listened on: ",
        "f:6: listener.a.tls_certificate: /nowhere/a.pem: the file cannot be read: ",
        "f:7: listener.a.tls_key: /nowhere/a.key: the file cannot be read: ",
        "f:8: listener.a.tls_client_ca: /nowhere/ca.pem: the file cannot be read: ",
        "f:11: listener.b.address: unix:///nowhere/b.sock cannot be listened on: ",
        "f:14: listener.c.address: unix://",
        "f:17: listener.d.address: tcp://127.0.0.1:",
        "f:19: admin.address: tcp://127.0.0.1:",
        "f:20: admin.tokens_file: ",
        "f:20: admin.tokens_file: ",
        "f:22: watch.request_log: ",
        "f:23: watch.trace_file: ",
        "f:25: log.level: `wran` is none of ",
    ];
    let lines: Vec<&str> = error.lines().collect();
    for (line, start) in lines.iter().zip(expected) {
        assert!(line.starts_with(start), "{line:?} does not begin with {start:?} in\n{error}");
    }
    assert_eq!(lines.len(), expected.len(), "{error}");
    for part in [
        "remove it to start with an empty one",
        "no interface has this address",
        "its folder does not exist",
        "and is not a socket",
        "another server has it",
        "in line 2",
        "in line 4",
        "it is a pipe",
        "it is a folder",
    ] {
        assert!(error.contains(part), "{part} in\n{error}");
    }
}

#[test]
fn looking_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["requests.csv", "trace"] {
        fs::write(at(name), "precious").expect("a file");
    }
    drop(UnixListener::bind(at("dead.sock")).expect("a socket"));
    let text = |log: &str, trace: &str, socket: &str| {
        let [log, trace, socket, cache] =
            [log, trace, socket, "cache/of/ours"].map(|name| at(name).display().to_string());
        format!(
            "shared_memory = \"{cache}\"\n[[listener]]\naddress = \"unix://{socket}\"\n[admin]\nenabled = false\n\
             [watch]\nrequest_log = \"{log}\"\ntrace_file = \"{trace}\"\n"
        )
    };
    let before = contents(folder.path());
    for text in [text("requests.csv", "trace", "dead.sock"), text("new.csv", "new", "new.sock")] {
        for survey in [&all as &dyn Fn(&Config) -> Findings, &at_start] {
            load(&text, &Flags::default(), survey).expect("all of it can be had");
            assert_eq!(contents(folder.path()), before);
        }
    }
}

/// A check is made before a running server is told to read its settings again.
#[test]
fn an_address_in_use_is_a_warning_of_a_check_and_a_mistake_at_a_start() {
    let (_socket, used) = taken();
    let text = format!("[[listener]]\naddress = \"{used}\"\n[admin]\naddress = \"tcp://127.0.0.1:0\"\n");
    let warnings = load(&text, &Flags::default(), &all).expect("good").warnings;
    assert!(warnings[0].starts_with("listener.main.address: something listens there now"), "{warnings:?}");
    let error = load(&text, &Flags::default(), &at_start).expect_err("in use");
    assert!(error.starts_with("f:2: listener.main.address: ") && error.lines().count() == 1, "{error}");
    load(&text, &Flags::default(), &unsurveyed).expect("nobody looked");
    // An optional listener may fail as long as there is another.
    let optional = format!("[[listener]]\naddress = \"{used}\"\noptional = true\n");
    let other = "[[listener]]\nname = \"other\"\naddress = \"tcp://127.0.0.1:0\"\n";
    load(&format!("{optional}{other}{NO_ADMIN}"), &Flags::default(), &at_start).expect("the other is there");
    let error =
        load(&format!("{optional}{NO_ADMIN}"), &Flags::default(), &at_start).expect_err("none is there");
    assert!(error.starts_with("f:2: listener.main.address: "), "{error}");
}

#[test]
fn an_address_of_the_command_line_has_no_line_of_the_file() {
    let (_socket, used) = taken();
    let listen: Vec<Listen> = vec![used.parse().expect("an address")];
    let flags = Flags { listen, ..Flags::default() };
    let text = "[[listener]]\nname = \"main\"\naddress = \"tcp://127.0.0.1:0\"\n[admin]\nenabled = false\n";
    let error = load(text, &flags, &at_start).expect_err("in use");
    assert!(error.starts_with("--listen, --port or --redis: listener.main.address: "), "{error}");
}

/// In the place of a setting that cannot be read the default is checked, which nobody has asked
/// for.
#[test]
fn a_setting_that_cannot_be_read_is_one_mistake() {
    let usual = Listener::bind(&Address::default(), config::FileMode::default());
    let text = format!("[[listener]]\naddress = \"nonsense\"\n{NO_ADMIN}");
    let error = load(&text, &Flags::default(), &at_start).expect_err("an address");
    assert_eq!(error.lines().count(), 1, "{error}");
    drop(usual);
}
