//! Changes of followed keys: which are told, and that none is missed.

use std::sync::Barrier;
use std::time::Duration;

use millpond::structured::{Map, StructureOptions};
use millpond::watch::{ChangeReader, set_author};
use millpond::{ByteSize, Clock, ErrorKind, Expiry, Keys, Part};

use super::{cache, put};

fn told(changes: &ChangeReader) -> Vec<String> {
    let mut keys = Vec::new();
    let lost = changes.drain(|change| keys.push(String::from_utf8_lossy(change.key).into_owned()));
    assert_eq!(lost, 0);
    keys
}

#[test]
fn every_kind_of_change_of_a_followed_key_is_told_and_no_other() {
    let clock = Clock::manual(1_000);
    let (cache, pool) = cache(&clock);
    let keys = cache.keys(pool);
    let changes = cache.changes(ByteSize::kib(64)).expect("room");
    changes.follow(keys, b"a");
    assert!(!changes.is_waiting());
    assert!(put(&cache, pool, b"a", b"1", Expiry::Never));
    assert!(put(&cache, pool, b"b", b"1", Expiry::Never));
    assert!(changes.is_waiting());
    assert_eq!(told(&changes), ["a"], "made");
    assert!(!changes.is_waiting());
    assert!(put(&cache, pool, b"a", b"2", Expiry::Never));
    assert_eq!(told(&changes), ["a"], "replaced");
    assert!(keys.find(b"a").is_some() && keys.find(b"b").is_some());
    assert_eq!(told(&changes), [""; 0], "reading changes nothing");
    assert!(keys.touch(b"a", Expiry::At(1_010)));
    assert_eq!(told(&changes), ["a"], "another end");
    clock.advance(Duration::from_secs(20));
    assert!(keys.find(b"a").is_none());
    cache.reap();
    assert_eq!(told(&changes), ["a"], "over");
    assert!(put(&cache, pool, b"a", b"3", Expiry::Never));
    assert!(keys.remove(b"a") && keys.remove(b"b") && !keys.remove(b"a"));
    assert_eq!(told(&changes), ["a", "a"], "made and removed");
    changes.unfollow(keys, b"a");
    assert!(put(&cache, pool, b"a", b"4", Expiry::Never));
    assert_eq!(told(&changes), [""; 0], "followed no more");
    changes.follow_all(true);
    assert!(put(&cache, pool, b"c", b"1", Expiry::Never));
    assert_eq!(told(&changes), ["c"], "all are followed");
    changes.pause();
    assert!(put(&cache, pool, b"c", b"2", Expiry::Never));
    changes.resume();
    changes.follow(keys, b"d");
    assert!(put(&cache, pool, b"c", b"3", Expiry::Never));
    assert!(put(&cache, pool, b"d", b"3", Expiry::Never));
    assert_eq!(told(&changes), ["d"], "what was followed before the pause is forgotten");
}

#[test]
fn the_author_is_told_but_not_of_what_left_by_itself() {
    let clock = Clock::manual(1_000);
    let (cache, pool) = cache(&clock);
    let changes = cache.changes(ByteSize::kib(64)).expect("room");
    changes.follow_all(true);
    assert!(put(&cache, pool, b"a", b"1", Expiry::At(1_010)));
    set_author(7);
    assert!(put(&cache, pool, b"b", b"1", Expiry::Never));
    cache.keys(pool).remove(b"b");
    clock.advance(Duration::from_secs(20));
    cache.reap();
    set_author(0);
    assert!(put(&cache, pool, b"c", b"1", Expiry::Never));
    let mut seen = Vec::new();
    changes.drain(|change| seen.push((change.key.to_vec(), change.author)));
    let expected = [("a", 0), ("b", 7), ("b", 7), ("a", 0), ("c", 0)];
    assert_eq!(seen, expected.map(|(key, author)| (key.as_bytes().to_vec(), author)));
}

#[test]
fn a_change_in_place_is_told() {
    let (cache, pool) = cache(&Clock::manual(1_000));
    let (map, _) =
        Map::<u64, u64>::open_or_create(&cache, pool, b"map", &StructureOptions::default()).expect("room");
    let changes = cache.changes(ByteSize::kib(64)).expect("room");
    changes.follow(cache.keys(pool), b"map");
    map.insert(&1, &2).expect("room");
    assert_eq!(told(&changes), ["map"]);
    map.get(&1).expect("there");
    assert_eq!(told(&changes), [""; 0]);
}

#[test]
fn what_is_evicted_is_told() {
    let (cache, pool) = cache(&Clock::manual(1_000));
    let changes = cache.changes(ByteSize::mib(4)).expect("room");
    assert!(put(&cache, pool, b"first", &[0; 10_000], Expiry::Never));
    changes.follow(cache.keys(pool), b"first");
    for number in 0..20_000 {
        assert!(put(&cache, pool, format!("other:{number}").as_bytes(), &[0; 10_000], Expiry::Never));
    }
    assert!(cache.keys(pool).peek(b"first").is_none(), "it should be gone by now");
    assert!(told(&changes).contains(&"first".to_owned()));
}

#[test]
fn what_finds_no_room_is_counted_and_a_reader_pays_for_what_it_takes() {
    let (cache, pool) = cache(&Clock::manual(1_000));
    let before = cache.ledger().part(Part::Fixed);
    let changes = cache.changes(ByteSize::new(300)).expect("room");
    assert!(cache.ledger().part(Part::Fixed) > before);
    assert_eq!(cache.changes(ByteSize::kib(1)).expect_err("one at a time").kind(), ErrorKind::Config);
    changes.follow_all(true);
    for number in 10..99 {
        assert!(put(&cache, pool, format!("key:{number}").as_bytes(), b"", Expiry::Never));
    }
    let mut count = 0;
    assert_eq!((changes.drain(|_| count += 1), count), (89 - 13, 13), "22 bytes each");
    assert!(put(&cache, pool, b"after", b"", Expiry::Never));
    assert_eq!(told(&changes), ["after"]);
    drop(changes);
    let counters = cache.ledger().part(Part::Fixed) - before;
    let again = cache.changes(ByteSize::kib(1)).expect("the other is gone");
    assert!(put(&cache, pool, b"unfollowed", b"", Expiry::Never));
    assert_eq!(told(&again), [""; 0], "the next begins with nothing followed");
    drop(again);
    assert_eq!(cache.ledger().part(Part::Fixed) - before, counters, "the counters are paid for once");
    for bad in [ByteSize::new(100), ByteSize::gib(2)] {
        assert_eq!(cache.changes(bad).expect_err("refused").kind(), ErrorKind::Config);
    }
}

/// One thread follows a key and then reads it, while another writes it: either the new value is
/// read, or the change is told.
#[test]
fn who_follows_before_reading_misses_nothing() {
    const ROUNDS: u64 = 5_000;
    let (cache, pool) = cache(&Clock::System);
    let changes = cache.changes(ByteSize::mib(1)).expect("room");
    let barrier = Barrier::new(2);
    let key_of = |round: u64| format!("key:{round}").into_bytes();
    for round in 0..ROUNDS {
        assert!(put(&cache, pool, &key_of(round), &[0], Expiry::Never));
    }
    let mut reads = [0; 2];
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 0..ROUNDS {
                barrier.wait();
                if round % 3 == 0 {
                    cache.keys(pool).remove(&key_of(round));
                } else {
                    assert!(put(&cache, pool, &key_of(round), &[1], Expiry::Never));
                }
                barrier.wait();
            }
        });
        let keys: Keys<'_> = cache.keys(pool);
        for round in 0..ROUNDS {
            let key = key_of(round);
            barrier.wait();
            changes.follow(keys, &key);
            let is_old = keys.find(&key).is_some_and(|item| item[..] == [0]);
            barrier.wait();
            let mut is_told = false;
            assert_eq!(changes.drain(|change| is_told |= change.key == key), 0);
            assert!(!is_old || is_told, "round {round}: an old value, and nothing was told");
            reads[usize::from(is_old)] += 1;
        }
    });
    println!("{} reads of the new value, {} of the old one", reads[0], reads[1]);
}
