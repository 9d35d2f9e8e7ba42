//! Addresses as people write them.

use std::net::{IpAddr, SocketAddr};

/// Parses `HOST:PORT`, where an IPv6 address has brackets around it.
///
/// # Errors
/// In words, with an example: also if a scheme stands before the host.
pub fn host_and_port(text: &str) -> Result<String, String> {
    let is_host = |host: &str| {
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && !host.contains(['/', '@', ' ']) && (is_bracketed || !host.contains(':'))
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    match text.rsplit_once(':') {
        Some((host, port)) if is_host(host) && is_port(port) => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is not HOST:PORT, as in 10.0.0.7:11220")),
    }
}

/// Checks that each of `peers`, all `HOST:PORT`, may reach a server that listens at `listen`.
///
/// # Errors
/// In words, that begin with the first peer which is on another machine for certain if `listen` is
/// loopback. Names of hosts are not looked up.
pub fn check_reach(peers: &[String], listen: SocketAddr) -> Result<(), String> {
    match peers.iter().find(|peer| is_out_of_reach(peer, listen)) {
        None => Ok(()),
        Some(peer) => Err(format!(
            "{peer} is on another machine, which does not reach {listen}: name an address of this one that it reaches, as \
             in 10.0.0.8:0"
        )),
    }
}

fn is_out_of_reach(peer: &str, listen: SocketAddr) -> bool {
    let host = peer.rsplit_once(':').map_or(peer, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    listen.ip().is_loopback() && host.parse::<IpAddr>().is_ok_and(|host| !host.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports_and_nothing_else() {
        for good in ["10.0.0.7:11220", "orchestrator:1", "[::1]:11220"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for bad in ["10.0.0.7", ":1", "a:0", "a:70000", "http://a:1", "::1:2", "u@a:1", ""] {
            let error = host_and_port(bad).expect_err(bad);
            assert!(error.contains("is not HOST:PORT, as in 10.0.0.7:11220"), "{error}");
        }
    }

    #[test]
    fn loopback_is_reached_from_this_machine_alone() {
        let (here, there) = ("127.0.0.1:0".parse().expect("an address"), "10.0.0.8:1".parse().expect("one"));
        for (peer, is_out) in
            [("10.0.0.7:1", true), ("[fe80::1]:1", true), ("127.0.0.1:1", false), ("a:1", false)]
        {
            assert_eq!(is_out_of_reach(peer, here), is_out, "{peer}");
            assert!(!is_out_of_reach(peer, there));
        }
        let error = check_reach(&["a:1".to_owned(), "10.0.0.7:1".to_owned()], here).expect_err("one is");
        assert!(error.starts_with("10.0.0.7:1 is on another machine, which does not reach 127"), "{error}");
    }
}
