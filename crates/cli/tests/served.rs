//! A server as a process of our own, which benches attack and restart: it is where it says, follows
//! its configuration, and comes back where it was.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use rustix::process::Signal;
use trial::served::Served;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millpond");

fn config(max_get_keys: u32) -> String {
    format!(
        "memory = \"32MiB\"\nthreads = 1\n[limits]\nmax_get_keys = {max_get_keys}\n[[listener]]\nname = \"main\"\n\
         address = \"tcp://127.0.0.1:0\"\n"
    )
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

#[test]
fn a_server_is_watched_told_to_change_and_restarted() {
    let mut served = Served::start(Path::new(PROGRAM), &config(1)).expect("a server");
    let (address, pid) = (served.address("main").expect("a listener"), served.pid());
    assert_eq!(ask(address, "get a b\r\n"), "CLIENT_ERROR too many keys");
    assert!(served.resident_bytes().expect("memory") > served.shared_bytes().expect("memory"));
    assert!(served.open_files().expect("files") > 3 && served.threads().expect("threads") > 2);
    assert_eq!(served.stats().expect("statistics")["pid"], pid);
    let accepted = || served.metric("millpond_server_accepted_connections_total", &[("listener", "main")]);
    assert_eq!(accepted().expect("metrics"), Some(1.0));
    assert!(served.address("other").is_err());

    served.rewrite(&config(2)).expect("it reads its configuration again");
    while ask(address, "get a b\r\n") != "END" {}
    let refused = served.rewrite("max_memory = 1\n").expect_err("a wrong configuration");
    assert!(format!("{refused:#}").contains("was not reloaded"), "{refused:#}");
    served.rewrite(&config(2)).expect("it reads its configuration again");

    let status = served.restart(Signal::TERM).expect("it comes back");
    assert!(status.success() && served.is_up() && served.pid() != pid);
    assert_eq!(ask(address, "get a b\r\n"), "END", "at the same address");
    assert!(!served.restart(Signal::KILL).expect("it comes back").success());
    assert_eq!(ask(address, "get a b\r\n"), "END");
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let error = Served::start(Path::new(PROGRAM), "treads = 1\n").expect_err("a wrong setting");
    assert!(format!("{error:#}").contains("did you mean `threads`"), "{error:#}");
    assert!(Served::start(Path::new("/nowhere/millpond"), "").is_err());
}
