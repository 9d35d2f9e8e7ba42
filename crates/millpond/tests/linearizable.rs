//! Concurrent calls on a key are linearizable: histories of real threads, searched for a legal
//! order.
//!
//! The search is Wing and Gong's, with Lowe's memory of visited states ("Testing for
//! linearizability", 2017): per key, find an order of all calls that respects real time and that a
//! register allows. An eviction is a removal that the cache may make at any time; where a test runs
//! with so little memory that it evicts, the model may do so too.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::rng::{RngExt, seeded};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ItemOptions, PolicyKind, PoolConfig, PoolId, SizeClassConfig,
};

/// A call and what it returned. Values are unique numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Insert or replace; returned the value that was replaced, if it was asked for.
    Put(u64, Option<Option<u64>>),
    /// Insert unless there; whether it was done.
    Add(u64, bool),
    /// Find; what was found.
    Get(Option<u64>),
    /// Replace the item that was found with this value; whether it was done.
    Swap(u64, u64, bool),
    /// Remove; whether there was something.
    Remove(bool),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    call: Call,
    start: u64,
    end: u64,
}

/// The register's next state if it allows `call` in state `now`.
fn apply(now: Option<u64>, call: Call) -> Option<Option<u64>> {
    match call {
        Call::Put(value, None) => Some(Some(value)),
        Call::Put(value, Some(replaced)) => (replaced == now).then_some(Some(value)),
        Call::Add(value, done) => match (now, done) {
            (None, true) => Some(Some(value)),
            (Some(old), false) => Some(Some(old)),
            _ => None,
        },
        Call::Get(found) => (found == now).then_some(now),
        Call::Swap(old, new, done) => match (now == Some(old), done) {
            (true, true) => Some(Some(new)),
            (false, false) => Some(now),
            _ => None,
        },
        Call::Remove(done) => (done == now.is_some()).then_some(None),
    }
}

/// Returns whether some legal order explains the events of one key (at most 64).
fn is_linearizable(events: &[Event], may_evict: bool) -> bool {
    assert!(events.len() <= 64);
    let all = if events.len() == 64 { u64::MAX } else { (1 << events.len()) - 1 };
    let mut visited = HashSet::new();
    let mut stack = vec![(0_u64, None::<u64>)];
    while let Some((done, state)) = stack.pop() {
        if done == all {
            return true;
        }
        if !visited.insert((done, state)) {
            continue;
        }
        if may_evict && state.is_some() {
            stack.push((done, None));
        }
        let pending = |i: &usize| done >> i & 1 == 0;
        // A call may come next if no other pending call ended before it began.
        let first_end = (0..events.len()).filter(pending).map(|i| events[i].end).min().unwrap_or(u64::MAX);
        for i in (0..events.len()).filter(pending).filter(|i| events[*i].start < first_end) {
            if let Some(next) = apply(state, events[i].call) {
                stack.push((done | 1 << i, next));
            }
        }
    }
    false
}

#[test]
fn the_checker_tells_good_histories_from_bad() {
    let event = |call, start, end| Event { call, start, end };
    let put = |value| Call::Put(value, None);
    let cases: [(&str, Vec<Event>, bool, bool); 6] = [
        (
            "a read during a write may see either",
            vec![event(put(1), 0, 5), event(Call::Get(None), 1, 2)],
            true,
            true,
        ),
        (
            "a read after a write sees it",
            vec![event(put(1), 0, 1), event(Call::Get(None), 2, 3)],
            false,
            true,
        ),
        (
            "what was seen is not unseen",
            vec![event(put(1), 0, 9), event(Call::Get(Some(1)), 1, 2), event(Call::Get(None), 3, 4)],
            false,
            true,
        ),
        (
            "an evicted value does not return",
            vec![event(put(1), 0, 1), event(Call::Get(None), 2, 3), event(Call::Get(Some(1)), 4, 5)],
            false,
            false,
        ),
        (
            "two adds cannot both be done",
            vec![event(Call::Add(1, true), 0, 5), event(Call::Add(2, true), 1, 6)],
            false,
            true,
        ),
        (
            "a stale swap cannot be done",
            vec![event(put(1), 0, 1), event(put(2), 2, 3), event(Call::Swap(1, 3, true), 4, 5)],
            false,
            false,
        ),
    ];
    for (name, events, strict, with_evictions) in cases {
        assert_eq!(is_linearizable(&events, false), strict, "{name}");
        assert_eq!(is_linearizable(&events, true), with_evictions, "{name}, with evictions");
    }
}

/// A value of 8 bytes, repeated to fill `len`, so that a torn one shows.
fn fill(value: &mut [u8], number: u64) {
    value.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&number.to_le_bytes()));
}

fn number(value: &[u8]) -> u64 {
    let number = u64::from_le_bytes(value[..8].try_into().expect("8 bytes"));
    let mut expected = vec![0; value.len()];
    fill(&mut expected, number);
    assert_eq!(value, expected, "a torn value");
    number
}

struct Run {
    cache: Cache,
    pool: PoolId,
    value_len: usize,
    time: AtomicU64,
    next_value: AtomicU64,
}

impl Run {
    /// One random call on `key`.
    fn call(&self, rng: &mut base::rng::SeededRng, key: &[u8]) -> Event {
        let value = self.next_value.fetch_add(1, Ordering::Relaxed);
        let make = || {
            let options = ItemOptions::default();
            let allocate = || self.cache.allocate(self.pool, key, self.value_len, &options);
            // Other callers may hold all chunks for a moment.
            let mut item = (0..100_000)
                .find_map(|_| allocate().map_err(|_| std::thread::yield_now()).ok())
                .expect("room, sooner or later");
            fill(item.value_mut(), value);
            item
        };
        let start = |run: &Self| run.time.fetch_add(1, Ordering::SeqCst);
        let (start, call) = match rng.random_range(0..10) {
            0 => {
                let item = make();
                let start = start(self);
                self.cache.put(item);
                (start, Call::Put(value, None))
            }
            1 | 2 => {
                let item = make();
                let start = start(self);
                let (_, old) = self.cache.insert_or_replace(item);
                (start, Call::Put(value, Some(old.map(|old| number(&old)))))
            }
            3 => {
                let item = make();
                let start = start(self);
                (start, Call::Add(value, self.cache.insert(item).is_ok()))
            }
            4 => {
                let start = start(self);
                (start, Call::Remove(self.cache.remove(key)))
            }
            5 => match self.cache.peek(key) {
                Some(old) => {
                    let item = make();
                    let start = start(self);
                    (start, Call::Swap(number(&old), value, self.cache.replace_matching(&old, item).is_ok()))
                }
                None => {
                    let start = start(self);
                    (start, Call::Get(self.cache.find(key).map(|found| number(&found))))
                }
            },
            6 | 7 => {
                let start = start(self);
                (start, Call::Get(self.cache.find_with(key, |found| number(&found))))
            }
            _ => {
                let start = start(self);
                (start, Call::Get(self.cache.find(key).map(|found| number(&found))))
            }
        };
        Event { call, start, end: self.time.fetch_add(1, Ordering::SeqCst) }
    }
}

/// Lets all threads begin a round together, and fail together: a barrier of the standard library
/// would wait for ever for one that panicked.
struct Meeting {
    threads: usize,
    arrived: AtomicU64,
    failed: AtomicBool,
}

impl Meeting {
    fn wait(&self, round: u64) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        while self.arrived.load(Ordering::SeqCst) < (round + 1) * self.threads as u64 {
            assert!(!self.failed.load(Ordering::SeqCst), "another caller failed");
            std::thread::yield_now();
        }
    }
}

/// Says so when its thread panics.
struct Attendance(Arc<Meeting>);

impl Drop for Attendance {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::SeqCst);
        }
    }
}

/// Rounds of `calls` calls by each of `threads` threads on two keys; every round's history is
/// searched.
fn rounds(policy: PolicyKind, threads: usize, calls: usize, rounds: u64, may_evict: bool) {
    let config = CacheConfig {
        memory: ByteSize::mib(if may_evict { 8 } else { 64 }),
        clock: Clock::manual(1_000),
        hash_seed: Some(7),
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("valid");
    // With evictions: chunks so large that few fit, and a third key whose items push the others
    // out.
    let chunk = if may_evict { 100_000 } else { 128 };
    let classes = SizeClassConfig::List(vec![chunk]);
    let pool = cache.add_pool(PoolConfig { policy, classes, ..PoolConfig::named("p") }).expect("new");
    let value_len = if may_evict { 4_096 * 8 } else { 64 };
    let run =
        Arc::new(Run { cache, pool, value_len, time: AtomicU64::new(0), next_value: AtomicU64::new(1) });
    let meeting = Arc::new(Meeting { threads, arrived: AtomicU64::new(0), failed: AtomicBool::new(false) });
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let (run, meeting) = (Arc::clone(&run), Arc::clone(&meeting));
            base::thread::spawn(format!("caller-{thread}"), move || {
                let attendance = Attendance(meeting);
                let mut rng = seeded(thread as u64);
                let mut histories = Vec::new();
                for round in 0..rounds {
                    attendance.0.wait(round);
                    let mut events = Vec::new();
                    for _ in 0..calls {
                        let key = rng.random_range(0..2_u8);
                        events.push((key, run.call(&mut rng, format!("key-{key}-{round}").as_bytes())));
                        if may_evict {
                            let other = format!("other-{}", rng.random_range(0..60));
                            run.call(&mut rng, other.as_bytes());
                        }
                    }
                    histories.push(events);
                }
                histories
            })
            .expect("a thread")
        })
        .collect();
    let histories: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
    for round in 0..rounds as usize {
        for key in 0..2 {
            let of_key = |events: &Vec<(u8, Event)>| -> Vec<Event> {
                events.iter().filter(|(k, _)| *k == key).map(|(_, event)| *event).collect()
            };
            let events: Vec<Event> = histories.iter().flat_map(|thread| of_key(&thread[round])).collect();
            assert!(
                is_linearizable(&events, may_evict),
                "{policy}, {threads} threads, round {round}, key {key}: no legal order explains {events:#?}"
            );
        }
    }
    run.cache.validate();
}

#[test]
fn histories_of_2_to_16_threads_are_linearizable() {
    for policy in [PolicyKind::S3_FIFO, PolicyKind::Lru { refresh_secs: 0 }] {
        for (threads, calls) in [(2, 12), (3, 10), (4, 8), (8, 5), (16, 3)] {
            rounds(policy, threads, calls, 600, false);
        }
    }
}

#[test]
fn histories_with_evictions_are_linearizable() {
    for policy in [PolicyKind::S3_FIFO, PolicyKind::Lru { refresh_secs: 0 }] {
        for (threads, calls) in [(2, 12), (4, 8), (8, 5), (16, 3)] {
            rounds(policy, threads, calls, 150, true);
        }
    }
}
