use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::rng::{RngExt, seeded};

use super::*;
use crate::plant::Plant;
use crate::pools::PoolId;
use crate::{ByteSize, CacheConfig, Clock, Expiry, ItemOptions, PoolConfig, tail};

const KEY: &[u8] = b"key";

fn cache() -> (Cache, PoolId, Clock) {
    let clock = Clock::manual(1_000);
    let cache = Cache::new(CacheConfig {
        memory: ByteSize::mib(16),
        clock: clock.clone(),
        huge_pages: false,
        ..CacheConfig::default()
    })
    .expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    (cache, pool, clock)
}

fn item<'c>(cache: &'c Cache, pool: PoolId, key: &[u8], value: &[u8]) -> WriteHandle<'c> {
    let options = ItemOptions { expirable: true, chainable: true, ..ItemOptions::default() };
    let mut item = cache.allocate(pool, key, value.len(), &options).expect("room");
    item.value_mut().copy_from_slice(value);
    item
}

fn put(cache: &Cache, pool: PoolId, value: &[u8]) {
    cache.put(item(cache, pool, KEY, value));
}

/// Returns whether a fence still holds after `what`, and checks that a store under it agrees.
fn holds_after(is_there: bool, what: impl Fn(&Cache, PoolId, &Clock)) -> bool {
    let (cache, pool, clock) = cache();
    if is_there {
        put(&cache, pool, b"old");
    }
    let fence = cache.keys(pool).fence(KEY);
    assert!(fence.holds());
    what(&cache, pool, &clock);
    let holds = fence.holds();
    if !cache.keys(pool).is_gone() {
        let stored = cache.put_fenced(&fence, item(&cache, pool, KEY, b"new")).is_ok();
        assert_eq!(stored, holds);
        let found = cache.keys(pool).find(KEY);
        assert!(!stored || found.is_some_and(|found| &*found == b"new"));
    }
    cache.validate();
    holds
}

#[test]
fn every_write_makes_a_fence_void() {
    type Write = fn(&Cache, PoolId, &Clock);
    let writes: [(&str, Write); 8] = [
        ("put", |cache, pool, _| put(cache, pool, b"written")),
        ("insert_or_replace", |cache, pool, _| {
            drop(cache.insert_or_replace(item(cache, pool, KEY, b"written")));
        }),
        ("put, and removed again", |cache, pool, _| {
            put(cache, pool, b"written");
            cache.keys(pool).remove(KEY);
        }),
        ("remove", |cache, pool, _| _ = cache.keys(pool).remove(KEY)),
        ("flush", |cache, pool, _| cache.keys(pool).flush()),
        ("a flush that comes", |cache, pool, clock| {
            cache.keys(pool).flush_at(1_010);
            clock.advance(Duration::from_secs(10));
        }),
        ("remove_pool", |cache, pool, _| _ = cache.remove_pool(pool).expect("there")),
        ("another's fence", |cache, pool, _| {
            let fence = cache.keys(pool).fence(KEY);
            assert!(cache.put_fenced(&fence, item(cache, pool, KEY, b"written")).is_ok());
        }),
    ];
    for (name, write) in writes {
        assert!(!holds_after(false, write) && !holds_after(true, write), "{name}");
    }
    assert!(!holds_after(false, |cache, pool, _| {
        assert!(cache.insert(item(cache, pool, KEY, b"written")).is_ok());
    }));
    assert!(!holds_after(true, |cache, pool, _| {
        let old = cache.keys(pool).find(KEY).expect("there");
        assert!(cache.replace_matching(&old, item(cache, pool, KEY, b"written")).is_ok());
    }));
    assert!(!holds_after(true, |cache, pool, _| {
        let old = cache.keys(pool).find(KEY).expect("there");
        assert!(cache.remove_matching(&old));
    }));
    assert!(!holds_after(true, |cache, pool, _| tail::note_change(cache.keys(pool), pool, KEY)));
}

#[test]
fn what_is_no_write_leaves_a_fence_as_it_is() {
    let others: [fn(&Cache, PoolId, &Clock); 6] = [
        |_, _, clock| clock.advance(Duration::from_secs(1_000)),
        |cache, pool, _| {
            cache.put(item(cache, pool, b"another", b"value"));
            cache.keys(pool).remove(b"another");
        },
        |cache, pool, _| cache.keys(pool).flush_at(1_010),
        |cache, pool, _| _ = cache.keys(pool).find(KEY),
        // They are refused.
        |cache, pool, _| {
            if cache.keys(pool).find(KEY).is_some() {
                assert!(cache.insert(item(cache, pool, KEY, b"refused")).is_err());
            }
        },
        |cache, pool, _| {
            for i in 0..400_000_u32 {
                cache.put(item(cache, pool, &i.to_le_bytes(), b"new"));
            }
            assert!(cache.keys(pool).peek(KEY).is_none(), "it was evicted, if it was there");
        },
    ];
    for (number, other) in others.into_iter().enumerate() {
        assert!(holds_after(false, other) && holds_after(true, other), "{number}");
    }
    assert!(holds_after(true, |cache, pool, clock| {
        assert!(cache.keys(pool).touch(KEY, Expiry::After(5)));
        clock.advance(Duration::from_secs(6));
        assert!(cache.keys(pool).find(KEY).is_none(), "it has expired");
    }));
    assert!(holds_after(true, |cache, pool, _| {
        let found = cache.keys(pool).find(KEY).expect("there");
        found.push_link(found.allocate_link(10).expect("room")).expect("of this item");
    }));
}

/// A flush that has read the clock, and not yet the time with which the item was stamped, would
/// otherwise leave it.
#[test]
fn what_is_stored_is_as_old_as_its_fence() {
    let (cache, pool, clock) = cache();
    let fence = cache.keys(pool).fence(KEY);
    clock.advance(Duration::from_secs(2));
    let stored = cache.put_fenced(&fence, item(&cache, pool, KEY, b"read at 1000")).expect("it holds");
    // SAFETY: the handle holds a reference (invariant 1 of `slab::item`).
    assert_eq!(unsafe { stored.item().created() }, 1_000);
    // One that was allocated before a flush counts as made after it, if the fence was.
    let early = item(&cache, pool, KEY, b"early");
    cache.keys(pool).flush();
    let fence = cache.keys(pool).fence(KEY);
    assert!(cache.put_fenced(&fence, early).is_ok());
    assert!(cache.keys(pool).find(KEY).is_some_and(|found| &*found == b"early"));
    // And a flush that was ordered before takes it when it comes.
    cache.keys(pool).flush_at(1_010);
    let fence = cache.keys(pool).fence(KEY);
    assert!(cache.put_fenced(&fence, item(&cache, pool, KEY, b"late")).is_ok());
    clock.advance(Duration::from_secs(8));
    assert!(cache.keys(pool).find(KEY).is_none());
}

#[test]
fn a_fence_that_is_given_up_is_void_alone() {
    let (cache, pool, _) = cache();
    let [given_up, other] = [0, 1].map(|_| cache.keys(pool).fence(KEY));
    given_up.give_up();
    assert!(!given_up.holds() && other.holds());
    assert!(cache.put_fenced(&given_up, item(&cache, pool, KEY, b"value")).is_err());
    assert!(cache.put_fenced(&other, item(&cache, pool, KEY, b"value")).is_ok());
}

/// Whoever changes an item in place looks whether it still is that of the key once no older fence
/// holds.
#[test]
fn a_change_in_place_begins_by_making_fences_void() {
    let (cache, pool, _) = cache();
    put(&cache, pool, b"old");
    let found = cache.keys(pool).find(KEY).expect("there");
    assert!(tail::begin_change(&found, &cache), "nobody has a fence");
    let [early, late] = [0, 1].map(|_| cache.keys(pool).fence(KEY));
    assert!(tail::begin_change(&found, &cache) && !early.holds() && !late.holds());
    let fence = cache.keys(pool).fence(KEY);
    assert!(cache.put_fenced(&fence, item(&cache, pool, KEY, b"read")).is_ok());
    assert!(!tail::begin_change(&found, &cache), "another item is in its place");
}

#[test]
fn a_removal_by_handle_makes_fences_void_though_the_item_has_gone() {
    let (cache, pool, clock) = cache();
    put(&cache, pool, b"old");
    let old = cache.keys(pool).find(KEY).expect("there");
    assert!(cache.keys(pool).touch(KEY, Expiry::After(5)));
    clock.advance(Duration::from_secs(6));
    assert!(cache.keys(pool).find(KEY).is_none());
    let fence = cache.keys(pool).fence(KEY);
    assert!(!cache.remove_matching(&old) && !fence.holds());
}

#[test]
fn a_fence_is_of_one_key_of_one_cache() {
    let ((one, pool, _), (other, other_pool, _)) = (cache(), cache());
    let fence = one.keys(pool).fence(KEY);
    let second = one.add_pool(PoolConfig::named("second")).expect("a pool");
    assert!(one.put_fenced(&fence, item(&one, pool, b"kez", b"value")).is_err());
    assert!(one.put_fenced(&fence, item(&one, second, KEY, b"value")).is_err());
    assert!(one.put_fenced(&fence, item(&other, other_pool, KEY, b"value")).is_err());
    assert!(other.put_fenced(&fence, item(&other, other_pool, KEY, b"value")).is_err());
    assert!(other.put_fenced(&fence, item(&one, pool, KEY, b"value")).is_err());
    assert!(one.put_fenced(&fence, item(&one, pool, KEY, b"value")).is_ok());
}

#[test]
fn a_pool_that_comes_after_another_does_not_hold_its_fences() {
    let (cache, _, _) = cache();
    let config = PoolConfig::named("guest");
    let guest = cache.add_pool(config.clone()).expect("a pool");
    let fence = cache.keys(guest).fence(KEY);
    assert!(cache.remove_pool(guest).expect("there").is_gone);
    let next = cache.add_pool(config).expect("a pool");
    assert_eq!(guest.number(), next.number());
    assert!(cache.put_fenced(&fence, item(&cache, next, KEY, b"value")).is_err());
}

/// A number of keys whose values are numbers that grow.
const KEYS: usize = 4;

fn put_number(cache: &Cache, pool: PoolId, key: usize, number: u64) {
    cache.put(item(cache, pool, &[key as u8], &number.to_le_bytes()));
}

fn fill(cache: &Cache, pool: PoolId, fence: &Fence, key: usize, number: u64) {
    drop(cache.put_fenced(fence, item(cache, pool, &[key as u8], &number.to_le_bytes())));
}

fn number(cache: &Cache, pool: PoolId, key: usize) -> Option<u64> {
    let found = cache.keys(pool).find(&[key as u8])?;
    Some(u64::from_le_bytes(found[..].try_into().expect("eight bytes")))
}

/// In turns, drawn from a seed: a writer changes a database and then puts or removes the key, or
/// flushes, and others fill the cache from the database. What is found is never older than the last
/// write. Each write is planted with `fault`.
fn take_turns(seed: u64, fault: Option<Plant>) {
    let ((cache, pool, clock), mut rng) = (cache(), seeded(seed));
    let mut stored = [0; KEYS];
    let mut written = [0; KEYS];
    let mut fillers: [Option<(Fence, usize, u64)>; 3] = Default::default();
    for step in 1..=3_000_u64 {
        let key = rng.random_range(0..KEYS);
        match rng.random_range(0..9) {
            0 => stored[key] = step,
            3 if rng.random_range(0..16) == 0 => {
                stored = [step; KEYS];
                cache.keys(pool).flush();
                written = stored;
            }
            3 if rng.random_range(0..16) == 0 => clock.advance(Duration::from_secs(1)),
            1 | 2 if written[key] < stored[key] => {
                if let Some(fault) = fault {
                    cache.core().planted.set(fault);
                }
                if rng.random_range(0..2) == 0 {
                    cache.keys(pool).remove(&[key as u8]);
                } else {
                    put_number(&cache, pool, key, stored[key]);
                }
                written[key] = stored[key];
            }
            _ => {
                let filler = &mut fillers[rng.random_range(0..3)];
                *filler = match filler.take() {
                    None => Some((cache.keys(pool).fence(&[key as u8]), key, stored[key])),
                    Some((fence, key, read)) => {
                        fill(&cache, pool, &fence, key, read);
                        None
                    }
                };
            }
        }
        for (key, least) in written.iter().enumerate() {
            let found = number(&cache, pool, key);
            assert!(found.is_none_or(|found| found >= *least), "{found:?} came back at step {step}");
        }
    }
    cache.validate();
}

#[test]
fn what_is_filled_in_by_turns_is_never_older_than_what_was_written() {
    (0..20).for_each(|seed| take_turns(seed, None));
}

#[test]
fn a_broken_fence_is_found() {
    for fault in [Plant::PutLeavesFences, Plant::RemovalLeavesFences] {
        let found = catch_unwind(AssertUnwindSafe(|| take_turns(1, Some(fault))));
        assert!(found.is_err(), "{fault:?} was not found");
    }
}

/// The same with threads, each of which may be stopped anywhere.
#[test]
fn what_threads_fill_in_is_never_older_than_what_was_written() {
    let (cache, pool, _) = cache();
    let stored: [AtomicU64; KEYS] = Default::default();
    let written: [AtomicU64; KEYS] = Default::default();
    let is_over = AtomicBool::new(false);
    let fill_on = |seed: u64| {
        let mut rng = seeded(seed);
        while !is_over.load(Ordering::Relaxed) {
            let key = rng.random_range(0..KEYS);
            let fence = cache.keys(pool).fence(&[key as u8]);
            let read = stored[key].load(Ordering::SeqCst);
            if rng.random_range(0..2) == 0 {
                std::thread::yield_now();
            }
            fill(&cache, pool, &fence, key, read);
        }
    };
    std::thread::scope(|scope| {
        let fill_on = &fill_on;
        for seed in [11, 12] {
            scope.spawn(move || fill_on(seed));
        }
        let writer = scope.spawn(|| {
            let mut rng = seeded(21);
            for step in 1..=30_000_u64 {
                let key = rng.random_range(0..KEYS);
                stored[key].store(step, Ordering::SeqCst);
                if rng.random_range(0..2) == 0 {
                    cache.keys(pool).remove(&[key as u8]);
                } else {
                    put_number(&cache, pool, key, step);
                }
                written[key].store(step, Ordering::SeqCst);
                if step % 64 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut rng = seeded(31);
        let mut older = None;
        while !writer.is_finished() && older.is_none() {
            let key = rng.random_range(0..KEYS);
            let least = written[key].load(Ordering::SeqCst);
            older = number(&cache, pool, key).filter(|found| *found < least).map(|found| (found, least));
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("no panic");
        assert_eq!(older, None, "a number came back after a larger one");
    });
    cache.validate();
}
