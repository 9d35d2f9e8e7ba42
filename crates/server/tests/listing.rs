//! Keys are listed while others are served, in pieces that a slow client cannot make grow; and what
//! has expired leaves.

mod support;

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use base::{ByteSize, Clock};
use support::{Client, address, config, metric, wait_until};

const ITEMS: usize = 5_000;

/// Stores items `key0`, `key1` and so on without waiting for each.
fn fill(client: &mut Client, exptime: u32) {
    let sets: String = (0..ITEMS).map(|i| format!("set key{i} 0 {exptime} 5 noreply\r\nvalue\r\n")).collect();
    client.send(sets);
    assert_eq!(client.ask("mn\r\n"), "MN");
}

fn all_keys() -> BTreeSet<String> {
    (0..ITEMS).map(|i| format!("key{i}")).collect()
}

#[test]
fn a_listing_has_every_item_once_and_what_follows_it_is_answered() {
    let mut config = config();
    config.limits.max_output_buffer_bytes = ByteSize::new(4096);
    config.limits.max_requests_per_turn = 7;
    let server = support::start_in_memory(config).expect("a server");
    let mut client = Client::connect(address(&server));
    fill(&mut client, 0);
    client.send("mg key1 s\r\nlru_crawler metadump all\r\nmg key2 s\r\nlru_crawler mgdump hash\r\nmn\r\n");
    assert_eq!(client.line(), "HD s5");
    let mut listed = BTreeSet::new();
    for _ in 0..ITEMS {
        let line = client.line();
        let key = line.strip_prefix("key=").and_then(|rest| rest.split(' ').next()).expect("a key");
        assert!(line.contains(" exp=-1 la=") && line.contains(" cls=1 size="), "{line}");
        assert!(listed.insert(key.to_owned()), "{key} is listed twice");
    }
    assert_eq!(client.line(), "END");
    assert_eq!(listed, all_keys());
    assert_eq!(client.line(), "HD s5");
    let gets: BTreeSet<String> =
        (0..ITEMS).map(|_| client.line().strip_prefix("mg ").expect("a request").to_owned()).collect();
    assert_eq!(gets, all_keys());
    assert_eq!(client.line(), "EN");
    assert_eq!(client.line(), "MN");
}

#[test]
fn a_listing_has_what_lines_cannot_have_in_other_letters() {
    let server = support::start_in_memory(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    // The key is "a b".
    assert_eq!(client.ask("ms YSBi 1 b\r\nx\r\n"), "HD");
    assert!(client.ask("lru_crawler metadump all\r\n").starts_with("key=a%20b exp=-1 "));
    assert_eq!(client.line(), "END");
    assert_eq!(client.ask("lru_crawler mgdump 1\r\n"), "mg YSBi b");
    assert_eq!(client.line(), "EN");
    assert_eq!(client.ask("lru_crawler metadump 2,3\r\n"), "END", "nothing is in these classes");
}

#[test]
fn who_does_not_read_a_listing_keeps_nobody_waiting() {
    let server = support::start(config()).expect("a server");
    let mut other = Client::connect(address(&server));
    fill(&mut other, 0);
    let mut slow = Client::connect(address(&server));
    slow.stream.set_nonblocking(true).expect("non-blocking");
    let requests = "lru_crawler metadump all\r\n".repeat(1_000);
    let mut stuck = 0;
    while stuck < 20 {
        // Parts of requests do as well: it is never read.
        if slow.stream.write(requests.as_bytes()).is_ok_and(|written| written > 0) {
            stuck = 0;
        } else {
            stuck += 1;
            base::thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!(other.ask("mg key7 s\r\n"), "HD s5");
    // What it holds is the output, within its limit, and the items of at most one slab.
    let held = metric(&server, "millpond_server_connection_memory_bytes{}");
    assert!(held < 7 << 20, "a listing holds {held} bytes");
    drop(slow);
    wait_until("its memory is given back", || {
        metric(&server, "millpond_server_connection_memory_bytes{}") < 1 << 20
    });
}

#[test]
fn what_has_expired_leaves_without_being_asked_for() {
    let clock = Clock::manual(1_000_000);
    let server = support::start_in_memory_with_clock(config(), clock.clone()).expect("a server");
    let mut client = Client::connect(address(&server));
    fill(&mut client, 10);
    assert_eq!(client.ask("set forever 0 0 1\r\nx\r\n"), "STORED");
    assert_eq!(client.stat("curr_items"), ITEMS as u64 + 1);
    clock.advance(Duration::from_secs(30));
    assert_eq!(client.ask("lru_crawler crawl all\r\n"), "OK");
    wait_until("expired items are gone", || client.stat("curr_items") == 1);
    assert_eq!(client.stat("reclaimed"), ITEMS as u64);
    assert!(client.ask("lru_crawler metadump all\r\n").starts_with("key=forever "));
    assert_eq!(client.line(), "END");
}

#[test]
fn a_listing_of_what_was_flushed_lets_others_have_their_turns() {
    let server = support::start_in_memory(config()).expect("a server");
    let mut client = Client::connect(address(&server));
    fill(&mut client, 0);
    let chunks: u64 = server.cache().stats().pools[0].sum(|class| class.chunks);
    assert_eq!(client.ask("flush_all\r\n"), "OK");
    let pauses = || metric(&server, "millpond_server_pauses_total{listener=\"main\",reason=\"turn\"}");
    let before = pauses();
    assert_eq!(client.ask("lru_crawler metadump all\r\n"), "END");
    assert!(pauses() - before >= chunks / 4_096 - 1, "{} turns for {chunks} chunks", pauses() - before);
}
