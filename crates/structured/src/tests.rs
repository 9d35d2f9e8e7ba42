//! Events between the copying of a structure and its taking the place of the old one.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use memory::{Cache, CacheConfig, ErrorKind, PoolConfig, PoolId};

fn map() -> (Cache, PoolId, Map<u32, u64>) {
    let cache = Cache::new(CacheConfig::default()).expect("valid");
    let pool = cache.add_pool(PoolConfig::named("default")).expect("new");
    let map = Map::create(&cache, pool, b"map", &StructureOptions::default()).expect("room").expect("new");
    map.insert(&1, &10).expect("room");
    (cache, pool, map)
}

thread_local! {
    /// The code that this thread runs after it has copied a structure and before the copy replaces
    /// the old one.
    static INTERRUPTION: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// Runs `interruption` at the next copying of this thread, before the copy replaces the old one.
fn interrupt(interruption: impl FnOnce() + 'static) {
    INTERRUPTION.set(Some(Box::new(interruption)));
}

pub(super) fn pause_before_exchange() {
    if let Some(interruption) = INTERRUPTION.take() {
        interruption();
    }
}

fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    base::thread::spawn("other", body).expect("a thread")
}

#[test]
fn writers_wait_for_the_copy_and_readers_do_not() {
    let (cache, _, map) = map();
    let writer = Arc::new(Mutex::new(None));
    let (other, started) = (map.clone(), Arc::clone(&writer));
    interrupt(move || {
        assert_eq!(other.get(&1).expect("read as before"), Some(10));
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        *started.lock() = Some(spawn(move || {
            let old = other.insert(&1, &20);
            done.store(true, Ordering::Relaxed);
            old
        }));
        // Time enough for a writer that does not wait.
        base::thread::sleep(Duration::from_millis(50));
        assert!(!is_done.load(Ordering::Relaxed), "it has written to what is being left behind");
    });
    map.compact().expect("room");
    let writer = writer.lock().take().expect("the copying was interrupted");
    assert_eq!(writer.join().expect("no panic").expect("there"), Some(10));
    assert_eq!(map.get(&1).expect("there"), Some(20), "what was written is in the copy");
    cache.validate();
}

#[test]
fn what_touches_the_old_item_touches_the_copy() {
    let (cache, _, map) = map();
    let other = cache.clone();
    interrupt(move || assert!(other.touch(b"map", Expiry::After(100))));
    map.compact().expect("room");
    assert!(cache.peek(b"map").expect("there").expires_at().is_some());
}

#[test]
fn a_copy_of_what_has_left_meanwhile_is_dropped() {
    let (cache, pool, map) = map();
    let other = cache.clone();
    interrupt(move || {
        let key_is_free = other.remove(b"map");
        assert!(key_is_free);
        let next = Map::<u32, u64>::create(&other, pool, b"map", &StructureOptions::default());
        next.expect("room").expect("new").insert(&1, &30).expect("room");
    });
    map.compact().expect("nothing is left to do");
    assert_eq!(map.get(&1).expect_err("removed").kind(), ErrorKind::Gone);
    let next = Map::<u32, u64>::open(&cache, pool, b"map").expect("its type").expect("there");
    assert_eq!(next.get(&1).expect("there"), Some(30), "the copy did not take its place");
    cache.validate();
}

#[test]
fn a_panic_in_a_change_leaves_nothing_half_written() {
    let (cache, _, map) = map();
    let mut calls = 0;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.update(&1, |_| {
            calls += 1;
            panic!("in the caller's code")
        })
    }));
    assert!(caught.is_err() && calls == 1);
    assert_eq!((map.get(&1).expect("there"), map.insert(&1, &11).expect("there")), (Some(10), Some(10)));
    cache.validate();
}
