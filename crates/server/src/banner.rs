//! The message that the server prints when it has started: its listeners and their clients, its
//! pools and tenants, who must authenticate, and lines to try that work with this configuration.

use config::acl::DEFAULT_USER;
use config::{Address, Auto, ClientAuth, Config, ListenerConfig, Protocol, UserSettings};
use protocol::resp::commands::Spec;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Names that are listed; of more there is only the number.
const MAX_NAMES: usize = 8;

/// All of it.
pub(crate) fn text(config: &Config, addresses: &[(String, Address)], admin: Option<SocketAddr>) -> String {
    let mut text =
        format!("millpond {} serves {}\n", env!("CARGO_PKG_VERSION"), listening(config, addresses));
    let pools = config.all_pools();
    let pools = names(pools.iter().map(|pool| pool.name.as_str()), "pool");
    let _ = writeln!(text, "  {} of memory, {} worker threads, {pools}", config.memory(), config.threads());
    if !config.tenants.is_empty() {
        let tenants = config.all_tenants();
        let _ = writeln!(text, "  {}", names(tenants.iter().map(|tenant| tenant.name.as_str()), "tenant"));
    }
    let users = names(config.users.iter().map(|user| user.name.as_str()), "user");
    if !config.users.is_empty() {
        let _ = writeln!(text, "  {users}");
    }
    if let Some(address) = admin {
        let scheme = if config.admin.tls().is_some() { "https" } else { "http" };
        let _ = writeln!(text, "  metrics: {scheme}://{address}/metrics{}", admin_rules(config));
    } else if config.admin.enabled {
        let address = config.admin.address();
        let _ = writeln!(
            text,
            "  metrics: none, as another program has {address}; --set admin.address=127.0.0.1:PORT gives this server its own, and \
             --admin names it to `millpond top` and other commands"
        );
    }
    for (number, line) in lines_to_try(config, addresses).into_iter().enumerate() {
        let _ = writeln!(text, "  {} {line}", if number == 0 { "try:" } else { " or:" });
    }
    text
}

/// Returns the kinds of clients and the addresses that are served.
pub(crate) fn listening(config: &Config, addresses: &[(String, Address)]) -> String {
    let shown = |((name, address), listener): (&(String, Address), &ListenerConfig)| {
        let tls = match listener.tls() {
            None => "",
            Some(tls) if tls.client_ca.as_os_str().is_empty() => ", by TLS",
            Some(tls) if tls.client_auth == ClientAuth::Optional => ", by TLS, with or without a certificate",
            Some(_) => ", by TLS with certificates",
        };
        let auth = match (config.needs_users_at(listener), listener.auth) {
            (true, _) => ", with a password",
            (false, Auto::Set(false)) if !config.users.is_empty() => ", without a password",
            _ => "",
        };
        format!("{} clients on {address} ({name}{tls}{auth})", clients(listener.protocol))
    };
    addresses.iter().zip(&config.listeners).map(shown).collect::<Vec<_>>().join(", ")
}

/// Returns the credentials that an operator needs.
fn admin_rules(config: &Config) -> &'static str {
    let admin = &config.admin;
    let has_tokens = !admin.token.0.is_empty() || !admin.tokens_file.as_os_str().is_empty();
    match (has_tokens, !admin.tls_client_ca.as_os_str().is_empty()) {
        (true, true) => " (with a token or a certificate)",
        (true, false) => " (with a token)",
        (false, true) => " (with a certificate)",
        (false, false) => "",
    }
}

/// `pools: a, b`, or how many there are.
fn names<'a>(names: impl ExactSizeIterator<Item = &'a str>, what: &str) -> String {
    match names.len() {
        count if count > MAX_NAMES => format!("{count} {what}s"),
        _ => format!("{what}s: {}", names.collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the clients that a protocol serves.
fn clients(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Auto => "memcached and Redis",
        Protocol::Resp => "Redis",
        Protocol::Memcached | Protocol::MemcachedText | Protocol::MemcachedBinary => "memcached",
    }
}

/// Returns, for each of the two kinds of clients, a command to try, if this configuration allows
/// one.
fn lines_to_try(config: &Config, addresses: &[(String, Address)]) -> Vec<String> {
    let listeners = || addresses.iter().map(|(_, address)| address).zip(&config.listeners);
    let memcached =
        |protocol| matches!(protocol, Protocol::Auto | Protocol::Memcached | Protocol::MemcachedText);
    let memcached = listeners()
        .filter(|(_, listener)| memcached(listener.protocol))
        .find_map(|(address, listener)| try_memcached(config, listener, address));
    // Two names of one address are not worth two lines; so the last of those for everybody is shown
    // for Redis.
    let is_redis = |protocol| matches!(protocol, Protocol::Auto | Protocol::Resp);
    let redis = || listeners().rev().filter(|(_, listener)| is_redis(listener.protocol));
    let as_guest = redis().find_map(|(address, listener)| try_redis(config, listener, address));
    let redis = as_guest.or_else(|| {
        redis().next().and_then(|(address, listener)| try_redis_as_user(config, listener, address))
    });
    memcached.into_iter().chain(redis).collect()
}

/// Returns whether a client of that listener may do that without a password.
fn guest_may(config: &Config, listener: &ListenerConfig, request: &[&[u8]]) -> bool {
    if config.users.is_empty() || listener.auth == Auto::Set(false) {
        return true;
    }
    let default = config.users.iter().find(|user| user.name == DEFAULT_USER);
    !config.needs_users_at(listener) && default.is_some_and(|user| may(user, request))
}

/// Returns whether the rules of a user allow that.
fn may(user: &UserSettings, request: &[&[u8]]) -> bool {
    let spec = request.first().and_then(|name| Spec::find(name));
    user.rules().is_ok_and(|rules| spec.is_some_and(|spec| rules.check(spec, request).is_ok()))
}

/// Stores and fetches something with nothing but a shell; only without TLS, as no shell speaks
/// that.
fn try_memcached(config: &Config, listener: &ListenerConfig, address: &Address) -> Option<String> {
    if listener.tls().is_some() {
        return None;
    }
    // If passwords are required, the first `set` is one (docs/security.md), which a line to copy
    // cannot have.
    let requests: [&[&[u8]]; 2] = [&[b"set", b"hello", b"world"], &[b"get", b"hello"]];
    if !requests.iter().all(|request| guest_may(config, listener, request)) {
        return None;
    }
    let request = r"printf 'set hello 0 0 5\r\nworld\r\nget hello\r\nquit\r\n'";
    Some(match address {
        // Bash can open connections itself, so that nothing needs to be installed.
        Address::Tcp(address) => {
            let (ip, port) = (reachable(*address), address.port());
            format!("bash -c \"exec 3<>/dev/tcp/{ip}/{port}; {request} >&3; cat <&3\"")
        }
        Address::Unix(path) => format!("{request} | nc -U {}", path.display()),
    })
}

/// Redis's own client at that listener, with the certificates that it must show.
fn redis_client(listener: &ListenerConfig, address: &Address) -> String {
    let mut line = match address {
        Address::Tcp(address) => format!("redis-cli -h {} -p {}", reachable(*address), address.port()),
        Address::Unix(path) => format!("redis-cli -s {}", path.display()),
    };
    if let Some(tls) = listener.tls() {
        line.push_str(" --tls --cacert CA.pem");
        if !tls.client_ca.as_os_str().is_empty() {
            line.push_str(" --cert CERTIFICATE.pem --key KEY.pem");
        }
    }
    line
}

/// The same with Redis's own client, for a client without a password.
fn try_redis(config: &Config, listener: &ListenerConfig, address: &Address) -> Option<String> {
    let (command, request): (_, &[&[u8]]) = match config.users.is_empty() {
        true => (" set hello world", &[b"set", b"hello", b"world"]),
        false => (" ping", &[b"ping"]),
    };
    guest_may(config, listener, request).then(|| redis_client(listener, address) + command)
}

/// The same for a user with a password.
fn try_redis_as_user(config: &Config, listener: &ListenerConfig, address: &Address) -> Option<String> {
    let can_log_in = |user: &&UserSettings| user.rules().is_ok_and(|rules| rules.is_on) && !user.is_open();
    let users = || config.users.iter().filter(can_log_in);
    // No rules forbid `HELLO`.
    let (user, command) = match users().find(|user| may(user, &[b"PING"])) {
        Some(user) => (user, "ping"),
        None => (users().next()?, "hello"),
    };
    Some(format!("{} --user {} --askpass {command}", redis_client(listener, address), user.name))
}

/// Returns the address by which this machine reaches a listener on all addresses.
fn reachable(address: SocketAddr) -> String {
    match address.ip() {
        ip if !ip.is_unspecified() => ip.to_string(),
        ip if ip.is_ipv4() => "127.0.0.1".to_owned(),
        _ => "::1".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use config::load::{Flags, load_text, unsurveyed};

    fn banner(text: &str) -> String {
        banner_with(text, Some("127.0.0.1:11212"))
    }

    fn banner_with(text: &str, admin: Option<&str>) -> String {
        let config = load_text("test.toml", text, &[], &Flags::default(), &unsurveyed).expect("good").config;
        let addresses: Vec<_> =
            config.listeners.iter().map(|it| (it.name.clone(), it.address.clone())).collect();
        super::text(&config, &addresses, admin.map(|address| address.parse().expect("an address")))
    }

    #[test]
    fn a_missing_admin_server_is_told_of_with_how_to_have_one() {
        let text = banner_with("", None);
        assert!(text.contains("metrics: none, as another program has tcp://127.0.0.1:11212; "), "{text}");
        assert!(text.contains("--set admin.address=127.0.0.1:PORT") && text.contains("--admin"), "{text}");
        let text = banner_with("[admin]\nenabled = false\n", None);
        assert!(!text.contains("metrics"), "it was not asked for: {text}");
    }

    #[test]
    fn without_a_configuration_both_kinds_of_clients_are_named_and_shown_the_way() {
        let text = banner("memory = \"64MiB\"\nthreads = 2");
        let both = "memcached and Redis clients on tcp://127.0.0.1:";
        assert!(text.contains(&format!("serves {both}11211 (main), {both}6379 (redis)\n")), "{text}");
        assert!(text.contains("64MiB of memory, 2 worker threads, pools: default\n"), "{text}");
        assert!(text.contains("metrics: http://127.0.0.1:11212/metrics\n"), "{text}");
        assert!(text.contains("try: bash -c \"exec 3<>/dev/tcp/127.0.0.1/11211;"), "{text}");
        assert!(text.contains(" or: redis-cli -h 127.0.0.1 -p 6379 set hello world\n"), "{text}");
        assert!(!text.contains("tenants") && !text.contains("users"), "{text}");
    }

    #[test]
    fn tenants_users_and_tls_are_told_of_and_no_pool_that_nobody_has() {
        let text = banner(
            "[[tenant]]\nname = \"shop\"\n[[tenant]]\nname = \"blog\"\n[[user]]\nname = \"alice\"\nrules = \">secret allkeys +@all\"\n\
             [[listener]]\nname = \"open\"\ntenant = \"shop\"\nprotocol = \"memcached\"\nauth = false\n\
             [[listener]]\nname = \"shut\"\naddress = \"tcp://127.0.0.1:6379\"\ntenant = \"blog\"\nprotocol = \"redis\"\n\
             tls_certificate = \"c\"\ntls_key = \"k\"\n\
             [admin]\ntoken = \"0123456789abcdef\"\ntls_certificate = \"c\"\ntls_key = \"k\"\n",
        );
        assert!(text.contains("11211 (open, without a password)"), "{text}");
        assert!(
            text.contains("Redis clients on tcp://127.0.0.1:6379 (shut, by TLS, with a password)"),
            "{text}"
        );
        assert!(text.contains("pools: shop, blog\n") && text.contains("tenants: shop, blog\n"), "{text}");
        assert!(text.contains("users: alice\n"), "{text}");
        assert!(text.contains("metrics: https://127.0.0.1:11212/metrics (with a token)\n"), "{text}");
        assert!(text.contains("try: bash -c"), "{text}");
        assert!(
            text.contains(
                "or: redis-cli -h 127.0.0.1 -p 6379 --tls --cacert CA.pem --user alice --askpass ping"
            ),
            "{text}"
        );
        assert!(!text.contains("secret") && !text.contains("0123456789abcdef"), "{text}");
    }

    #[test]
    fn the_line_to_try_names_a_user_who_may_do_that() {
        let user = |name: &str, rules: &str| format!("[[user]]\nname = \"{name}\"\nrules = \"{rules}\"\n");
        let reader = user("reader", ">pw ~* +@read");
        let text = banner(&[reader.clone(), user("app", ">pw ~* +@all")].concat());
        assert!(text.contains(" --user app --askpass ping\n"), "{text}");
        let text = banner(&[user("gone", "off >pw +@all"), reader].concat());
        assert!(text.contains(" --user reader --askpass hello\n"), "{text}");
    }

    #[test]
    fn a_line_to_try_is_shown_for_the_listener_at_which_it_works() {
        let users = "[[user]]\nname = \"default\"\nrules = \"nopass ~pub:* +get\"\n";
        let listeners = "[[listener]]\nname = \"main\"\naddress = \"tcp://127.0.0.1:7001\"\n\
                         [[listener]]\nname = \"open\"\naddress = \"tcp://127.0.0.1:7002\"\nauth = AUTH\n\
                         [[listener]]\nname = \"third\"\naddress = \"tcp://127.0.0.1:7003\"\n";
        let text = banner(&[users, &listeners.replace("AUTH", "false")].concat());
        assert!(text.contains("try: bash -c \"exec 3<>/dev/tcp/127.0.0.1/7002;"), "{text}");
        assert!(text.contains(" or: redis-cli -h 127.0.0.1 -p 7002 ping\n"), "{text}");
        let text = banner(&[users, &listeners.replace("AUTH", "\"auto\"")].concat());
        assert!(!text.contains("try:") && !text.contains("or:"), "nothing works: {text}");
    }

    #[test]
    fn many_names_are_counted() {
        let tenants: String = (0..20).map(|n| format!("[[tenant]]\nname = \"t{n}\"\n")).collect();
        let text = banner(&format!("{tenants}[[listener]]\ntenant = \"t0\"\n"));
        assert!(text.contains("20 pools\n") && text.contains("20 tenants\n"), "{text}");
    }
}
