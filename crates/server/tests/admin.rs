//! The access to the admin server, and its answers to clients without access.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use millpond_server::config::{Address, Auto, ListenerConfig, Secret, TenantSettings};
use millpond_server::{Config, Server};
use support::{Client, PATIENCE, address, ask_admin, config, get_page, metric, tcp};

const PAGES: [&str; 9] = [
    "/",
    "/metrics",
    "/stats.json",
    "/hotkeys.json",
    "/curves.json",
    "/config",
    "/tenants",
    "/tenants/default",
    "/nowhere",
];
const TOKEN: &str = "0123456789abcdef";

/// Asks with these headers alone, and returns the status and the body.
fn ask(server: &Server, method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream =
        TcpStream::connect(server.admin_address().expect("an admin server")).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let request =
        format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, answer)
}

#[test]
fn no_page_is_shown_by_another_name_or_to_another_page() {
    let server = support::start(config()).expect("a server");
    for path in PAGES {
        let own = if path == "/nowhere" { 404 } else { 200 };
        for host in ["localhost:1", "127.0.0.1", "[::1]:5"] {
            assert_eq!(ask(&server, "GET", path, &format!("Host: {host}\r\n")).0, own, "{path} at {host}");
        }
        for host in ["evil.example", "8.8.8.8", "127.0.0.1.evil.example"] {
            let (status, answer) = ask(&server, "GET", path, &format!("Host: {host}\r\n"));
            assert!(status == 403 && answer.contains("admin.hosts"), "{path} at {host}: {answer}");
        }
        for headers in [
            "Host: localhost:1\r\nOrigin: http://evil.example\r\n",
            "Host: localhost:1\r\nOrigin: null\r\n",
            "Host: localhost:1\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
        ] {
            assert_eq!(ask(&server, "GET", path, headers).0, 403, "{path} with {headers:?}");
        }
    }
    let (_, answer) = ask(&server, "GET", "/nowhere", "Host: localhost\r\n");
    assert!(answer.contains("no page /nowhere") && answer.contains("\n/stats.json "), "{answer}");
    // That it is there is known to whoever reached it.
    assert_eq!(ask(&server, "GET", "/healthz", "Host: anything\r\n").0, 200);
}

/// A request that a web page may send without a preflight changes nothing.
#[test]
fn what_changes_something_cannot_be_sent_by_a_form() {
    let server = support::start(config()).expect("a server");
    for kind in ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"] {
        let headers = format!("Host: localhost\r\n{kind}");
        assert_eq!(ask(&server, "POST", "/config/rewrite", &headers).0, 415, "{kind}");
        assert_eq!(ask(&server, "PUT", "/config", &headers).0, 415, "{kind}");
        assert_eq!(ask(&server, "PUT", "/tenants/x", &headers).0, 415, "{kind}");
    }
    let (status, body) = ask_admin(&server, "POST", "/config/rewrite", "127.0.0.1", "");
    assert!(status.contains("409") && body.contains("without a config file"), "{status} {body}");
}

#[test]
fn names_are_added_while_serving() {
    let server = support::start(config()).expect("a server");
    assert_eq!(ask(&server, "GET", "/metrics", "Host: cache-1:9\r\n").0, 403);
    let wanted = r#"{"admin.hosts": ["cache-1"]}"#;
    let (status, body) = ask_admin(&server, "PUT", "/config", "localhost", wanted);
    assert!(status.contains("200"), "{status} {body}");
    assert_eq!(ask(&server, "GET", "/metrics", "Host: cache-1:9\r\n").0, 200);
}

#[test]
fn with_tokens_who_shows_none_sees_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tokens");
    std::fs::write(&file, "# of the robot\nfedcba9876543210\n").expect("a file");
    let mut config = config();
    config.admin.token = Secret(TOKEN.to_owned());
    config.admin.tokens_file = file.clone();
    let server = support::start(config.clone()).expect("a server");
    for path in PAGES.into_iter().filter(|path| *path != "/") {
        let (status, answer) = ask(&server, "GET", path, "Host: localhost\r\n");
        assert!(
            status == 401 && answer.to_lowercase().contains("www-authenticate: bearer"),
            "{path}: {answer}"
        );
        let wrong = "Host: localhost\r\nAuthorization: Bearer 0123456789abcdeX\r\n";
        assert_eq!(ask(&server, "GET", path, wrong).0, 401, "{path}");
    }
    // No page knows a token, so that with one no name and no origin matters.
    for token in [TOKEN, "fedcba9876543210"] {
        let right = format!("Host: cache.example\r\nOrigin: http://a.b\r\nAuthorization: Bearer {token}\r\n");
        assert_eq!(ask(&server, "GET", "/metrics", &right).0, 200);
        let (status, answer) = ask(&server, "GET", "/config", &right);
        assert_eq!(status, 200);
        assert!(!answer.contains(TOKEN) && !answer.contains("admin.token\""), "{answer}");
    }
    assert_eq!(ask(&server, "GET", "/healthz", "Host: localhost\r\n").0, 200);

    // The file is read again.
    std::fs::write(&file, "another-token-of-the-robot\n").expect("a file");
    server.reload(&config).expect("a reload");
    let with = |token: &str| {
        ask(&server, "GET", "/metrics", &format!("Host: x\r\nAuthorization: Bearer {token}\r\n")).0
    };
    assert_eq!((with("fedcba9876543210"), with("another-token-of-the-robot"), with(TOKEN)), (401, 200, 200));
    std::fs::write(&file, "short\n").expect("a file");
    let error = server.reload(&config).expect_err("a bad file").to_string();
    assert!(error.contains("admin.tokens_file") && error.contains("line 1"), "{error}");
    assert_eq!(with("another-token-of-the-robot"), 200, "what held holds on");
}

#[test]
fn an_address_that_others_reach_needs_tokens_or_certificates() {
    let refusal =
        |config: &Config| support::start(config.clone()).map(drop).expect_err("refused").to_string();
    let mut config = config();
    config.admin.address = Auto::Set("tcp://0.0.0.0:0".parse().expect("an address"));
    assert!(refusal(&config).contains("admin.token"), "{}", refusal(&config));
    config.admin.token = Secret("short".to_owned());
    assert!(refusal(&config).contains("admin.token: it has 5 bytes"), "{}", refusal(&config));
    config.admin.token = Secret(TOKEN.to_owned());
    let server = support::start(config).expect("with a token");
    assert_eq!(server.admin_address().map(|address| address.ip().is_unspecified()), Some(true));
}

#[test]
fn each_tenant_has_a_histogram_of_its_latencies() {
    let mut config = config();
    config.tenants = ["shop", "blog"].map(TenantSettings::unlimited).to_vec();
    config.listeners = ["shop", "blog"]
        .map(|name| ListenerConfig {
            name: name.to_owned(),
            address: Address::loopback(0),
            tenant: name.to_owned(),
            ..ListenerConfig::default()
        })
        .to_vec();
    let server = support::start(config).expect("a server");
    let mut shop = Client::connect(tcp(&server.addresses()[0].1));
    for _ in 0..100 {
        assert_eq!(shop.ask("mn\r\n"), "MN");
    }
    let count = |tenant: &str| {
        metric(&server, &format!("millpond_tenant_request_seconds_count{{tenant=\"{tenant}\"}}"))
    };
    assert!((1..=100).contains(&count("shop")), "{}", count("shop"));
    assert_eq!(count("blog"), 0);
    let (_, text) = get_page(&server, "/metrics");
    let buckets =
        text.lines().filter(|line| line.starts_with("millpond_tenant_request_seconds_bucket{")).count();
    assert_eq!(buckets, 2 * 12, "as many lines as there are bounds for each tenant");
}

/// Curves and hot keys are learnt without being asked for, of as many pools as a small part of the
/// memory lets.
#[test]
fn curves_and_hot_keys_are_there_without_a_setting() {
    let mut config = config();
    config.tenants = (0..20).map(|number| TenantSettings::unlimited(&format!("t{number}"))).collect();
    let server = support::start(config).expect("a server");
    let mut client = Client::connect(address(&server));
    assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED");
    let (_, curves) = get_page(&server, "/curves.json");
    let curves: serde_json::Value = serde_json::from_str(&curves).expect("JSON");
    let learnt = curves.as_object().expect("pools").values().filter(|curve| !curve.is_null()).count();
    // A 64th of 64 MiB is 1 MiB, and a pool takes 164 KiB with a curve from 512 keys.
    assert_eq!(learnt, 6, "{curves}");
    assert!(!curves["default"].is_null(), "{curves}");
}

#[test]
fn a_browser_is_shown_a_page_that_needs_nothing_else() {
    let server = support::start(config()).expect("a server");
    let (status, page) = ask(&server, "GET", "/", "Host: localhost\r\nAccept: text/html,*/*\r\n");
    assert!(status == 200 && page.contains("<title>Millpond</title>"), "{page}");
    assert!(page.to_lowercase().contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(!page.contains("unsafe-inline"), "{page}");
    for name in page.split("=\"/page/").skip(1).filter_map(|rest| rest.split('"').next()) {
        let (status, file) = ask(&server, "GET", &format!("/page/{name}"), "Host: localhost\r\n");
        assert!(status == 200 && file.contains("nosniff"), "{name}: {file}");
    }
    assert_eq!(ask(&server, "GET", "/page/nothing.js", "Host: localhost\r\n").0, 404);
    let (_, list) = ask(&server, "GET", "/", "Host: localhost\r\n");
    assert!(list.contains("/hotkeys.json") && !list.contains("<"), "{list}");
}

#[test]
fn a_tenant_that_no_client_can_be_is_warned_of_as_it_is_made() {
    let server = support::start(config()).expect("a server");
    let made = |name: &str| {
        let body = r#"{"limit": "32MiB", "databases": [1]}"#;
        let request = format!(
            "PUT /tenants/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        );
        let mut stream =
            TcpStream::connect(server.admin_address().expect("an admin server")).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.to_ascii_lowercase()
    };
    let answer = made("shop");
    assert!(answer.contains("millpond-warning: tenant.shop.name: no client can be this tenant"), "{answer}");
    assert!(answer.contains("millpond-warning: several tenants share the server from now on"), "{answer}");
    let again = made("shop");
    assert!(!again.contains("millpond-warning"), "nothing has changed: {again}");
}
