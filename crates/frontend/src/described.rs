//! Connections as `CLIENT LIST` and `ACL LOG` show them.

use std::sync::atomic::{AtomicU64, Ordering};

use protocol::resp::commands::name_of;

use crate::connections::{Activity, ConnectionInfo};
use crate::peer::Peer;

/// Returns the address of a client, as `CLIENT LIST` shows it.
pub fn peer_of(info: &ConnectionInfo) -> String {
    match info.peer {
        Peer::Tcp(address) => address.to_string(),
        Peer::Unix => format!("{}:0", local_of(info)),
    }
}

/// Returns the address that the client connected to.
pub fn local_of(info: &ConnectionInfo) -> String {
    let address = info.listener.address.to_string();
    address.split_once("://").map_or(address.as_str(), |(_, place)| place).to_owned()
}

/// A line of `CLIENT LIST`.
pub fn describe(info: &ConnectionInfo, now_secs: u32) -> String {
    let named = info.named().clone();
    let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let flags = match (info.is_subscribed(), named.redirect) {
        (true, Some(_)) => "Pt",
        (true, None) => "P",
        (false, Some(_)) => "t",
        (false, None) => "N",
    };
    let figures = &info.figures;
    let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    let output = of(&figures.output_bytes);
    let events = if info.activity() == Activity::Writing { "w" } else { "r" };
    let fields: [(&str, String); 30] = [
        ("id", info.id.to_string()),
        ("addr", peer_of(info)),
        ("laddr", local_of(info)),
        ("fd", info.descriptor.to_string()),
        ("name", plain(&named.name)),
        ("age", now_secs.saturating_sub(info.since_secs).to_string()),
        ("idle", now_secs.saturating_sub(info.active_secs.load(Ordering::Relaxed)).to_string()),
        ("flags", flags.to_owned()),
        ("db", named.database.to_string()),
        ("sub", u8::from(info.is_subscribed()).to_string()),
        ("psub", "0".to_owned()),
        ("ssub", "0".to_owned()),
        ("multi", figures.queued().to_string()),
        ("qbuf", of(&figures.pending_bytes).to_string()),
        ("qbuf-free", "0".to_owned()),
        ("argv-mem", "0".to_owned()),
        ("multi-mem", of(&figures.queued_bytes).to_string()),
        ("rbs", output.to_string()),
        ("rbp", output.to_string()),
        ("obl", of(&figures.unsent_bytes).to_string()),
        ("oll", figures.unsent_values.load(Ordering::Relaxed).to_string()),
        ("omem", output.to_string()),
        ("tot-mem", of(&figures.held_bytes).to_string()),
        ("events", events.to_owned()),
        ("cmd", figures.command().map_or_else(|| "NULL".to_owned(), name_of)),
        ("user", named.user),
        ("redir", named.redirect.unwrap_or(-1).to_string()),
        ("resp", named.resp.to_string()),
        ("lib-name", plain(&named.library)),
        ("lib-ver", plain(&named.library_version)),
    ];
    fields.map(|(name, value)| format!("{name}={value}")).join(" ") + "\n"
}
