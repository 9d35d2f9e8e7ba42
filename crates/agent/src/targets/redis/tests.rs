use super::client::read_password;
use super::*;

fn curve(points: &[(u64, f64)]) -> MissRatioCurve {
    let points = points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
    MissRatioCurve::new(Unit::Bytes, points).expect("a curve")
}

#[test]
fn curves_meet_at_the_memory_in_use() {
    let by_age = curve(&[(50, 0.6), (100, 0.4)]);
    let monitored = curve(&[(80, 0.6), (120, 0.2), (400, 0.1)]);
    let joined = join(&by_age, &monitored, 100).expect("a curve");
    let at = |size| (joined.miss_ratio(size) * 1000.0).round() / 1000.0;
    assert_eq!([at(50.0), at(100.0), at(120.0), at(400.0), at(1e9)], [0.6, 0.4, 0.2, 0.1, 0.1]);
}

#[test]
fn look_ups_of_the_agent_do_not_count() {
    let caused = Caused { run_id: "a".to_owned(), hits: 10, misses: 1 };
    let info = Info { run_id: "a".to_owned(), hits: 110, misses: 21, ..Info::default() };
    assert_eq!(caused.without(&info), (120, 20));
    let other = Info { run_id: "b".to_owned(), ..info };
    assert_eq!(caused.without(&other), (131, 21), "they were of an earlier run");
}

#[test]
fn a_password_file_has_one_line() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "pass word \r\n").expect("a file");
    assert_eq!(read_password(&file.path().to_owned()).expect("a password"), b"pass word ");
    let error = read_password(&"/nowhere/at/all".into()).expect_err("no file").to_string();
    assert!(error.contains("/nowhere/at/all cannot be read"), "{error}");
}

/// Answers `answer` to whatever comes, and returns what a call made of it.
fn against(answer: &'static [u8]) -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("a port").port();
    let server = base::thread::spawn("server", move || {
        let (mut socket, _) = listener.accept().expect("a client");
        let mut read = [0; 1000];
        let _ = socket.read(&mut read);
        let _ = socket.write_all(answer);
    });
    let address = Address { host: "127.0.0.1".to_owned(), port };
    let mut client = Client::new(address, Login { user: None, password_file: None });
    let error = client.info(Deadline::after(PATIENCE)).expect_err("an error");
    server.expect("a thread").join().expect("a server");
    control::access::causes(&client.failed(error))
}

#[test]
fn answers_that_are_not_redis_are_errors() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"\r\n",
        b"$99999999999\r\n",
        b"$-7\r\n",
        b"$3\r\nabcde\r\n",
        b"*99999999999999999999\r\n",
        b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        b"*99999999\r\n",
        b"$5\r\nhello\r\n",
        b":1\r\n",
        b"",
    ] {
        let words = against(answer);
        assert!(words.contains("127.0.0.1"), "{}: {words}", answer.escape_ascii());
    }
}

#[test]
fn refusals_say_what_to_do() {
    assert!(against(b"-NOAUTH Authentication required.\r\n").contains("give the agent a user"));
    assert!(against(b"-NOPERM no\r\n").contains("+config|set"));
    assert!(against(b"-LOADING Redis is loading\r\n").contains("; wait"));
}
