//! Values of a different owner: one load per key, whoever asks and whatever goes wrong.
//!
//! Threads meet at counts, not at times: a loader goes on when a set number of callers wait for it.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use base::rng::{Rng, seeded};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, Fetched, Job, LoadError, LoadOptions, Loaded, Loader, OnTimeout,
    Origin, PoolConfig, Task,
};

const KEY: &[u8] = b"key";

fn loader() -> (Cache, Loader, Clock) {
    let clock = Clock::manual(1_000_000);
    let config = CacheConfig {
        memory: ByteSize::mib(32),
        clock: clock.clone(),
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    };
    let cache = Cache::new(config).expect("a valid configuration");
    let pool = cache.add_pool(PoolConfig::named("default")).expect("a new name");
    let loader = Loader::new(&cache, pool);
    (cache, loader, clock)
}

/// Fresh for 60 seconds, stale for 30, a fallback for 100; "absent" for 5. Nobody waits for a time.
fn options() -> LoadOptions {
    LoadOptions {
        fresh_secs: Some(60),
        stale_secs: 30,
        fallback_secs: 100,
        negative_secs: 5,
        wait: None,
        on_timeout: OnTimeout::Fail,
    }
}

/// A loader's result.
fn found(value: &str) -> impl FnOnce(&[u8]) -> io::Result<Loaded> + Send + 'static {
    let value = value.to_owned();
    move |_| Ok(Loaded::value(value))
}

fn broken(_: &[u8]) -> io::Result<Loaded> {
    Err(io::Error::other("the database is down"))
}

fn must_not_run(_: &[u8]) -> io::Result<Loaded> {
    panic!("the loader must not run")
}

fn text(fetched: &Fetched<'_>) -> Option<String> {
    fetched.value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned())
}

#[track_caller]
fn assert_is(fetched: Result<Fetched<'_>, LoadError>, value: Option<&str>, origin: Origin) {
    let fetched = fetched.expect("an answer");
    assert_eq!((text(&fetched).as_deref(), fetched.origin), (value, origin));
}

fn put(cache: &Cache, value: &[u8]) {
    let pool = cache.pool_id("default").expect("made");
    let mut item = cache.allocate(pool, KEY, value.len(), &Default::default()).expect("room");
    item.value_mut().copy_from_slice(value);
    cache.put(item);
}

fn wait_until(what: impl Fn() -> bool) {
    while !what() {
        std::thread::yield_now();
    }
}

#[test]
fn what_was_loaded_is_found_until_it_is_removed() {
    let (cache, loader, _) = loader();
    assert_is(loader.get_or_load(KEY, &options(), found("one")), Some("one"), Origin::Loaded);
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), Some("one"), Origin::Fresh);
    assert_eq!(&*cache.find(KEY).expect("stored"), b"one", "a plain find sees it too");
    assert_eq!(loader.find(KEY, &options()).and_then(|found| text(&found)).as_deref(), Some("one"));
    assert!(loader.remove(KEY) && !loader.remove(KEY));
    assert!(loader.find(KEY, &options()).is_none());
    assert_is(loader.get_or_load(KEY, &options(), found("two")), Some("two"), Origin::Loaded);
    assert_eq!((loader.stats().loads, loader.stats().flights), (2, 0));
    cache.validate();
}

#[test]
fn that_there_is_no_value_is_remembered_for_a_time() {
    let (_cache, loader, clock) = loader();
    let absent = |_: &[u8]| Ok::<_, io::Error>(Loaded::absent());
    assert_is(loader.get_or_load(KEY, &options(), absent), None, Origin::Loaded);
    clock.advance(Duration::from_secs(4));
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), None, Origin::Fresh);
    clock.advance(Duration::from_secs(1));
    assert_is(loader.get_or_load(KEY, &options(), found("now")), Some("now"), Origin::Loaded);
    let forgetful = LoadOptions { negative_secs: 0, ..options() };
    loader.remove(KEY);
    assert_is(loader.get_or_load(KEY, &forgetful, absent), None, Origin::Loaded);
    assert_is(loader.get_or_load(KEY, &forgetful, absent), None, Origin::Loaded);
}

#[test]
fn an_empty_value_is_a_value_and_user_bits_are_respected() {
    let (cache, _, _) = loader();
    let loader = Loader::with_absent_mark(&cache, cache.pool_id("default").expect("made"), 0b01);
    assert_is(loader.get_or_load(KEY, &options(), found("")), Some(""), Origin::Loaded);
    cache.find(KEY).expect("stored").set_user_bits(0b10);
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), Some(""), Origin::Fresh);
}

type Answer = Result<(Option<String>, Origin), LoadError>;

/// Runs `callers` at once whose loader goes on when all others wait for it.
fn herd<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    loader: &Loader,
    callers: u64,
    load: impl Fn() -> Result<Loaded, E> + Sync,
) -> Vec<std::thread::Result<Answer>> {
    let barrier = Barrier::new(callers as usize);
    std::thread::scope(|scope| {
        let call = || {
            barrier.wait();
            let load = |_: &[u8]| {
                wait_until(|| loader.stats().waiting == callers - 1);
                load()
            };
            loader.get_or_load(KEY, &options(), load).map(|fetched| (text(&fetched), fetched.origin))
        };
        let threads: Vec<_> = (0..callers).map(|_| scope.spawn(call)).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    })
}

#[test]
fn a_herd_loads_once() {
    let (cache, loader, _) = loader();
    let answers = herd(&loader, 16, || Ok::<_, io::Error>(Loaded::value("one")));
    let loaded = answers.iter().filter(|answer| matches!(answer, Ok(Ok((_, Origin::Loaded))))).count();
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Ok((Some(value), _))) if value == "one")));
    let stats = loader.stats();
    assert_eq!((loaded, stats.loads, stats.joined, stats.waiting, stats.flights), (1, 1, 15, 0, 0));
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), Some("one"), Origin::Fresh);
    cache.validate();
}

#[test]
fn an_error_wakes_the_herd() {
    let (_cache, loader, _) = loader();
    let answers = herd(&loader, 8, || broken(KEY));
    for answer in answers {
        let Ok(Err(LoadError::Failed(error))) = answer else { panic!("an error for all: {answer:?}") };
        assert!(error.downcast_ref::<io::Error>().is_some(), "the loader's own error: {error}");
    }
    assert_eq!((loader.stats().loads, loader.stats().failures), (1, 1));
    assert_is(loader.get_or_load(KEY, &options(), found("up")), Some("up"), Origin::Loaded);
}

#[test]
fn a_panic_wakes_the_herd_and_poisons_nothing() {
    let (_cache, loader, _) = loader();
    let answers = herd(&loader, 8, || -> io::Result<Loaded> { panic!("planned") });
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1, "one caller panicked");
    let told = answers.iter().filter(|answer| matches!(answer, Ok(Err(LoadError::Panicked)))).count();
    assert_eq!(told, 7);
    assert_eq!(loader.stats().flights, 0);
    assert_is(loader.get_or_load(KEY, &options(), found("up")), Some("up"), Origin::Loaded);
}

#[test]
fn a_stale_value_is_returned_at_once_while_one_caller_loads() {
    let (cache, loader, clock) = loader();
    loader.get_or_load(KEY, &options(), found("old")).expect("loaded");
    clock.advance(Duration::from_secs(60));
    let loaded = loader.get_or_load(KEY, &options(), |_| {
        for _ in 0..3 {
            assert_is(loader.get_or_load(KEY, &options(), must_not_run), Some("old"), Origin::Stale);
        }
        Ok::<_, io::Error>(Loaded::value("new"))
    });
    assert_is(loaded, Some("new"), Origin::Loaded);
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), Some("new"), Origin::Fresh);
    assert_eq!((loader.stats().stale, loader.stats().loads), (3, 2));
    cache.validate();
}

#[test]
fn what_is_stale_or_a_fallback_is_better_than_an_error() {
    let (_cache, loader, clock) = loader();
    loader.get_or_load(KEY, &options(), found("old")).expect("loaded");
    clock.advance(Duration::from_secs(60));
    assert_is(loader.get_or_load(KEY, &options(), broken), Some("old"), Origin::Fallback);
    clock.advance(Duration::from_secs(30));
    assert!(loader.find(KEY, &options()).is_none(), "a fallback is not offered without need");
    assert_is(loader.get_or_load(KEY, &options(), broken), Some("old"), Origin::Fallback);
    let hasty = LoadOptions { wait: Some(Duration::ZERO), ..options() };
    let loaded = loader.get_or_load(KEY, &options(), |_| {
        assert_is(loader.get_or_load(KEY, &hasty, must_not_run), Some("old"), Origin::Fallback);
        Ok::<_, io::Error>(Loaded::value("new"))
    });
    assert_is(loaded, Some("new"), Origin::Loaded);
    clock.advance(Duration::from_secs(190));
    let result = loader.get_or_load(KEY, &options(), broken);
    assert!(matches!(result, Err(LoadError::Failed(_))), "after that it is gone: {result:?}");
}

#[test]
fn a_wait_has_an_end() {
    let (_cache, loader, _) = loader();
    let hasty = LoadOptions { wait: Some(Duration::ZERO), ..options() };
    let loaded = loader.get_or_load(KEY, &options(), |_| {
        let error = loader.get_or_load(KEY, &hasty, must_not_run).expect_err("nothing to fall back on");
        assert!(matches!(error, LoadError::TimedOut { waited: Duration::ZERO }));
        assert!(error.to_string().contains("did not end within 0ns"), "{error}");
        Ok::<_, io::Error>(Loaded::value("late"))
    });
    assert_is(loaded, Some("late"), Origin::Loaded);
    assert_eq!((loader.stats().timeouts, loader.stats().waiting), (1, 0));
}

#[test]
fn a_late_load_is_taken_over_and_stores_nothing() {
    let (_cache, loader, _) = loader();
    let hasty = LoadOptions { wait: Some(Duration::ZERO), on_timeout: OnTimeout::Load, ..options() };
    let late = loader.get_or_load(KEY, &options(), |_| {
        assert_is(loader.get_or_load(KEY, &hasty, found("fast")), Some("fast"), Origin::Loaded);
        // What the fast one stored is gone again before the late one ends; the late one must not
        // fill the gap.
        assert!(loader.cache().remove(KEY));
        Ok::<_, io::Error>(Loaded::value("late"))
    });
    assert_is(late, Some("late"), Origin::Loaded);
    assert!(loader.find(KEY, &options()).is_none());
    assert_eq!(loader.stats().overtaken, 1);
}

#[test]
fn what_is_written_or_removed_meanwhile_is_not_overwritten() {
    type Change = fn(&Cache, &Loader);
    let cases: [(&str, bool, Change, Option<&[u8]>); 12] = [
        ("put into nothing", false, |cache, _| put(cache, b"newer"), Some(b"newer")),
        ("remove of nothing", false, |_, loader| assert!(!loader.remove(KEY)), None),
        (
            "put and remove",
            false,
            |cache, loader| {
                put(cache, b"newer");
                assert!(loader.remove(KEY));
            },
            None,
        ),
        (
            "put by the loader",
            false,
            |_, loader| loader.put(KEY, &options(), &Loaded::value("newer")).expect("room"),
            Some(b"newer"),
        ),
        (
            "plain put and remove",
            false,
            |cache, _| {
                put(cache, b"newer");
                assert!(cache.remove(KEY));
            },
            None,
        ),
        ("plain remove of nothing", false, |cache, _| assert!(!cache.remove(KEY)), None),
        (
            "plain flush of nothing",
            false,
            |cache, _| cache.keys(cache.pool_id("default").expect("made")).flush(),
            None,
        ),
        ("put over stale", true, |cache, _| put(cache, b"newer"), Some(b"newer")),
        ("remove of stale", true, |_, loader| assert!(loader.remove(KEY)), None),
        ("plain remove of stale", true, |cache, _| assert!(cache.remove(KEY)), None),
        ("flush of nothing", false, |_, loader| loader.flush(), None),
        ("flush of stale", true, |_, loader| loader.flush(), None),
    ];
    for (case, is_stale, change, expected) in cases {
        let (cache, loader, clock) = loader();
        if is_stale {
            loader.get_or_load(KEY, &options(), found("old")).expect("loaded");
            clock.advance(Duration::from_secs(70));
        }
        let loaded = loader.get_or_load(KEY, &options(), |_| {
            change(&cache, &loader);
            Ok::<_, io::Error>(Loaded::value("older"))
        });
        assert_is(loaded, Some("older"), Origin::Loaded);
        assert_eq!(cache.find(KEY).as_deref(), expected, "{case}");
        assert_eq!(loader.stats().overtaken, 1, "{case}");
        cache.validate();
    }
}

#[test]
fn who_asks_after_a_removal_does_not_join_what_began_before() {
    let (_cache, loader, _) = loader();
    let (go, gate) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (loader, (began, begun)) = (&loader, mpsc::channel());
        let early = scope.spawn(move || {
            let load = |_: &[u8]| {
                began.send(()).expect("main listens");
                gate.recv().expect("main lives");
                Ok::<_, io::Error>(Loaded::value("before"))
            };
            loader.get_or_load(KEY, &options(), load).map(|fetched| text(&fetched))
        });
        begun.recv().expect("it began");
        loader.remove(KEY);
        assert_is(loader.get_or_load(KEY, &options(), found("after")), Some("after"), Origin::Loaded);
        go.send(()).expect("it waits");
        let early = early.join().expect("no panic").expect("an answer");
        assert_eq!(early.as_deref(), Some("before"), "who asked before may see what was before");
    });
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), Some("after"), Origin::Fresh);
}

#[test]
fn a_put_ends_what_is_kept_and_marks_what_is_absent() {
    let (_cache, loader, clock) = loader();
    loader.put(KEY, &options(), &Loaded::value("own")).expect("room");
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), Some("own"), Origin::Fresh);
    loader.put(KEY, &options(), &Loaded::absent()).expect("room");
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), None, Origin::Fresh);
    loader.put(KEY, &options(), &Loaded::value("short").fresh_for(3)).expect("room");
    clock.advance(Duration::from_secs(3));
    assert_is(loader.get_or_load(KEY, &options(), found("next")), Some("next"), Origin::Loaded);
    loader.put(KEY, &options(), &Loaded::value("secret").not_kept()).expect("nothing to do");
    assert!(loader.find(KEY, &options()).is_none());
    loader.get_or_load(KEY, &options(), found("old")).expect("loaded");
    let huge = Loaded::value(vec![0; 5 << 20]);
    if loader.put(KEY, &options(), &huge).is_err() {
        assert!(loader.find(KEY, &options()).is_none(), "what was replaced by too much is gone");
    }
}

#[test]
fn what_cannot_be_stored_is_returned_all_the_same() {
    let (_cache, loader, _) = loader();
    // A key that no item can have is an error, and nothing is loaded for it.
    for key in [&[b'k'; 300][..], b""] {
        assert!(loader.get_or_load(key, &options(), found("v")).is_err());
    }
    assert_eq!(loader.stats().loads, 0);
    let unkept = |_: &[u8]| Ok::<_, io::Error>(Loaded::value("v").not_kept());
    for _ in 0..2 {
        assert_is(loader.get_or_load(KEY, &options(), unkept), Some("v"), Origin::Loaded);
    }
}

#[test]
fn a_stale_value_is_loaded_anew_by_a_job() {
    let (_cache, loader, clock) = loader();
    let jobs: Mutex<Vec<Job>> = Mutex::new(Vec::new());
    let keep = |job: Job| jobs.lock().expect("no panic").push(job);
    let get = |value: &'static str| loader.get_or_spawn(KEY, &options(), keep, found(value));
    assert_is(get("old"), Some("old"), Origin::Loaded);
    assert_is(get("unused"), Some("old"), Origin::Fresh);
    clock.advance(Duration::from_secs(60));
    assert_is(get("dropped"), Some("old"), Origin::Stale);
    assert_is(get("unused"), Some("old"), Origin::Stale);
    let job = jobs.lock().expect("no panic").pop().expect("a job");
    assert!(jobs.lock().expect("no panic").is_empty(), "one job at a time");
    drop(job);
    assert_is(get("new"), Some("old"), Origin::Stale);
    let job = jobs.lock().expect("no panic").pop().expect("a job for who came after the drop");
    job();
    assert_is(get("unused"), Some("new"), Origin::Fresh);
    // A job whose key was removed before it began stores all the same: it reads what is there now.
    clock.advance(Duration::from_secs(60));
    assert_is(get("newest"), Some("new"), Origin::Stale);
    assert!(loader.cache().remove(KEY));
    let job = jobs.lock().expect("no panic").pop().expect("a job");
    job();
    assert_is(get("unused"), Some("newest"), Origin::Fresh);
}

/// The job may wait behind the very caller.
#[test]
fn a_job_that_has_not_begun_keeps_nobody_from_loading_after_a_removal() {
    let (cache, loader, clock) = loader();
    loader.get_or_load(KEY, &options(), found("old")).expect("loaded");
    clock.advance(Duration::from_secs(60));
    let mut job = None;
    let stale = loader.get_or_spawn(KEY, &options(), |given| job = Some(given), found("later"));
    assert_is(stale, Some("old"), Origin::Stale);
    assert!(cache.remove(KEY));
    assert_is(loader.get_or_load(KEY, &options(), found("now")), Some("now"), Origin::Loaded);
    job.expect("a job")();
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), Some("now"), Origin::Fresh);
}

#[test]
fn what_expires_while_it_is_loaded_anew_is_loaded_all_the_same() {
    let (_, loader, clock) = loader();
    loader.get_or_load(KEY, &options(), found("old")).expect("loaded");
    clock.advance(Duration::from_secs(60));
    let loaded = loader.get_or_load(KEY, &options(), |_| {
        clock.advance(Duration::from_secs(1_000));
        assert!(loader.find(KEY, &options()).is_none(), "it has expired");
        Ok::<_, io::Error>(Loaded::value("new"))
    });
    assert_is(loaded, Some("new"), Origin::Loaded);
    assert_is(loader.get_or_load(KEY, &options(), must_not_run), Some("new"), Origin::Fresh);
    assert_eq!(loader.stats().overtaken, 0);
}

#[test]
fn a_job_that_panics_frees_the_key() {
    let (_cache, loader, clock) = loader();
    loader.get_or_load(KEY, &options(), found("old")).expect("loaded");
    clock.advance(Duration::from_secs(60));
    let mut job = None;
    let stale = loader.get_or_spawn(KEY, &options(), |given| job = Some(given), must_not_run);
    assert_is(stale, Some("old"), Origin::Stale);
    assert!(catch_unwind(AssertUnwindSafe(job.expect("a job"))).is_err());
    assert_is(loader.get_or_load(KEY, &options(), found("new")), Some("new"), Origin::Loaded);
}

/// Owner, removers and readers race; no reader sees what was before a removal that ended before it
/// asked.
#[test]
fn nobody_sees_what_was_before_a_removal() {
    const KEYS: usize = 4;
    const WRITES: u32 = 1_000;
    let (cache, loader, _) = loader();
    let forever = LoadOptions { wait: None, ..LoadOptions::default() };
    // Owners of few keys write slowly enough that readers meet every state.
    let owner: [AtomicU32; KEYS] = Default::default();
    let removed: [AtomicU32; KEYS] = Default::default();
    let reads = AtomicU64::new(0);
    let first_wrong = Mutex::new(None);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (loader, owner, removed, reads, first_wrong) =
                (&loader, &owner, &removed, &reads, &first_wrong);
            scope.spawn(move || {
                let mut rng = seeded(thread);
                while removed.iter().any(|version| version.load(Ordering::SeqCst) < WRITES) {
                    let key = rng.next_u64() as usize % KEYS;
                    let at_least = removed[key].load(Ordering::SeqCst);
                    let load = |_: &[u8]| {
                        let version = owner[key].load(Ordering::SeqCst);
                        if version % 3 == 0 {
                            std::thread::yield_now();
                        }
                        Ok::<_, io::Error>(Loaded::value(version.to_le_bytes()))
                    };
                    let fetched = loader.get_or_load(&[key as u8], &forever, load).expect("no errors");
                    let value = fetched.value.expect("always one");
                    let seen = u32::from_le_bytes(value[..].try_into().expect("four bytes"));
                    if seen < at_least {
                        let wrong = format!("key {key}: saw {seen} after {at_least} was removed");
                        first_wrong.lock().expect("no panic").get_or_insert(wrong);
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (loader, owner, removed, reads) = (&loader, &owner, &removed, &reads);
        for (key, (owner, removed)) in owner.iter().zip(removed).enumerate() {
            scope.spawn(move || {
                for version in 1..=WRITES {
                    owner.store(version, Ordering::SeqCst);
                    loader.remove(&[key as u8]);
                    removed.store(version, Ordering::SeqCst);
                    let (before, rest) = (reads.load(Ordering::Relaxed), u64::from(version % 4));
                    wait_until(|| reads.load(Ordering::Relaxed) >= before + rest);
                }
            });
        }
    });
    assert_eq!(first_wrong.into_inner().expect("no panic"), None);
    assert_eq!((loader.stats().flights, loader.stats().waiting), (0, 0));
    cache.validate();
}

/// Loaders that fail, panic, are dropped and are not waited for, on many threads; everybody gets an
/// answer, and no key is loaded twice at a time.
#[test]
fn whatever_loaders_do_nobody_hangs_and_no_key_is_loaded_twice_at_once() {
    const KEYS: usize = 8;
    let (cache, loader, clock) = loader();
    let under_way: [AtomicU32; KEYS] = Default::default();
    let twice = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let (loader, clock, under_way, twice) = (&loader, &clock, &under_way, &twice);
            scope.spawn(move || {
                let mut rng = seeded(seed);
                for _ in 0..1_500 {
                    let key = rng.next_u64() as usize % KEYS;
                    let (ends, lasts) = (rng.next_u64() % 8, rng.next_u64() % 4);
                    let load = |key: &[u8]| {
                        let under_way = &under_way[usize::from(key[0])];
                        let others = under_way.fetch_add(1, Ordering::SeqCst);
                        twice.fetch_add(others, Ordering::SeqCst);
                        (0..lasts).for_each(|_| std::thread::yield_now());
                        under_way.fetch_sub(1, Ordering::SeqCst);
                        match ends {
                            0 => broken(key),
                            // A panic without its message.
                            1 => std::panic::resume_unwind(Box::new("planned")),
                            2 => Ok(Loaded::absent()),
                            3 => Ok(Loaded::value("v").not_kept()),
                            _ => Ok(Loaded::value("v").fresh_for(1)),
                        }
                    };
                    let key = [key as u8];
                    let hasty = LoadOptions { wait: Some(Duration::ZERO), ..options() };
                    match rng.next_u64() % 8 {
                        0 => clock.advance(Duration::from_millis(500)),
                        1 => drop(loader.get_or_load(&key, &hasty, must_not_panic_or(load))),
                        2 => {
                            // A future that is polled once or twice and dropped.
                            let gate = Arc::default();
                            let fetch = loader.get_or_load_async(&key, &hasty, never, gated(&gate));
                            let mut future = Polled::new(fetch);
                            if future.poll().is_pending() {
                                std::thread::yield_now();
                                let _ = future.poll();
                            }
                        }
                        _ => {
                            let caught =
                                catch_unwind(AssertUnwindSafe(|| loader.get_or_load(&key, &options(), load)));
                            drop(caught);
                        }
                    }
                }
            });
        }
    });
    assert_eq!(twice.load(Ordering::SeqCst), 0, "at most one loader of a key runs at a time");
    assert_eq!((loader.stats().flights, loader.stats().waiting), (0, 0));
    cache.validate();
}

/// The same loader, its panic an error.
fn must_not_panic_or(
    load: impl FnOnce(&[u8]) -> io::Result<Loaded>,
) -> impl FnOnce(&[u8]) -> io::Result<Loaded> {
    |key| {
        catch_unwind(AssertUnwindSafe(|| load(key))).unwrap_or_else(|_| Err(io::Error::other("it panicked")))
    }
}

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future and its bell, polled by hand.
struct Polled<'f, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'f>>,
    bell: Arc<Bell>,
}

impl<'f, T> Polled<'f, T> {
    fn new(future: impl Future<Output = T> + Send + 'f) -> Self {
        Self { future: Box::pin(future), bell: Arc::default() }
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(Arc::clone(&self.bell));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn rings(&self) -> u32 {
        self.bell.0.load(Ordering::SeqCst)
    }

    #[track_caller]
    fn ready(&mut self) -> T {
        match self.poll() {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("the future is not ready"),
        }
    }
}

/// A load that is ready when the test says so.
fn gated(gate: &Arc<Mutex<Option<io::Result<Loaded>>>>) -> impl Future<Output = io::Result<Loaded>> + use<> {
    let gate = Arc::clone(gate);
    std::future::poll_fn(move |_| match gate.lock().expect("no panic").take() {
        Some(result) => Poll::Ready(result),
        None => Poll::Pending,
    })
}

fn never(_: Duration) -> std::future::Pending<()> {
    std::future::pending()
}

async fn ready(value: &str) -> io::Result<Loaded> {
    Ok(Loaded::value(value))
}

#[test]
fn futures_share_a_flight() {
    let (_cache, loader, _) = loader();
    let (gate, options) = (Arc::default(), options());
    let get = || Polled::new(loader.get_or_load_async(KEY, &options, never, gated(&gate)));
    let mut leads = get();
    let mut waits: Vec<_> = (0..8).map(|_| get()).collect();
    assert!(leads.poll().is_pending());
    assert!(waits.iter_mut().all(|waits| waits.poll().is_pending()));
    assert_eq!(loader.stats().waiting, 8);
    *gate.lock().expect("no panic") = Some(Ok(Loaded::value("one")));
    assert_is(leads.ready(), Some("one"), Origin::Loaded);
    for waits in &mut waits {
        assert_eq!(waits.rings(), 1);
        assert_is(waits.ready(), Some("one"), Origin::Joined);
    }
    assert_is(get().ready(), Some("one"), Origin::Fresh);
    assert_eq!((loader.stats().loads, loader.stats().waiting), (1, 0));
}

#[test]
fn a_future_that_leads_and_is_dropped_hands_over() {
    let (_cache, loader, _) = loader();
    let (gate, options) = (Arc::default(), options());
    let mut leads = Polled::new(loader.get_or_load_async(KEY, &options, never, gated(&gate)));
    let mut next = Polled::new(loader.get_or_load_async(KEY, &options, never, ready("next")));
    let mut last = Polled::new(loader.get_or_load_async(KEY, &options, never, ready("last")));
    let mut leaves = Polled::new(loader.get_or_load_async(KEY, &options, never, ready("leaves")));
    for future in [&mut leads, &mut next, &mut last, &mut leaves] {
        assert!(future.poll().is_pending());
    }
    drop(leaves);
    assert_eq!(loader.stats().waiting, 2);
    drop(leads);
    assert_eq!((next.rings(), last.rings()), (1, 1));
    assert_is(next.ready(), Some("next"), Origin::Loaded);
    assert_is(last.ready(), Some("next"), Origin::Fresh);
}

#[test]
fn errors_panics_and_timers_end_the_wait_of_futures() {
    let (_cache, loader, _) = loader();
    let (gate, options) = (Arc::default(), LoadOptions { wait: Some(Duration::from_secs(9)), ..options() });
    let get = || Polled::new(loader.get_or_load_async(KEY, &options, never, gated(&gate)));
    let (mut leads, mut waits) = (get(), get());
    assert!(leads.poll().is_pending() && waits.poll().is_pending());
    let now = |wait| {
        assert_eq!(wait, Duration::from_secs(9));
        std::future::ready(())
    };
    let mut hasty = Polled::new(loader.get_or_load_async(KEY, &options, now, ready("unused")));
    assert!(matches!(hasty.ready(), Err(LoadError::TimedOut { .. })));
    let eager = LoadOptions { on_timeout: OnTimeout::Load, ..options };
    let mut takes_over = Polled::new(loader.get_or_load_async(KEY, &eager, now, ready("taken over")));
    assert_is(takes_over.ready(), Some("taken over"), Origin::Loaded);
    *gate.lock().expect("no panic") = Some(broken(KEY));
    assert!(matches!(leads.ready(), Err(LoadError::Failed(_))));
    assert!(matches!(waits.ready(), Err(LoadError::Failed(_))));
    loader.remove(KEY);
    let panics = async { must_not_run(KEY) };
    let mut leads = Polled::new(async {
        std::future::poll_fn({
            let mut polled = false;
            move |_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        loader.get_or_load_async(KEY, &options, never, panics).await.map(|_| ())
    });
    assert!(leads.poll().is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| leads.poll().is_ready())).is_err());
    drop(leads);
    assert_eq!(loader.stats().flights, 0);
    let mut after = Polled::new(loader.get_or_load_async(KEY, &options, never, ready("up")));
    assert_is(after.ready(), Some("up"), Origin::Loaded);
}

#[test]
fn a_stale_value_is_loaded_anew_by_a_task() {
    let (_cache, loader, clock) = loader();
    let (tasks, options) = (Mutex::new(VecDeque::<Task>::new()), options());
    let spawn = |task| tasks.lock().expect("no panic").push_back(task);
    let get = |value| Polled::new(loader.get_or_spawn_async(KEY, &options, never, spawn, ready(value)));
    assert_is(get("old").ready(), Some("old"), Origin::Loaded);
    clock.advance(Duration::from_secs(60));
    assert_is(get("new").ready(), Some("old"), Origin::Stale);
    assert_is(get("unused").ready(), Some("old"), Origin::Stale);
    let task = tasks.lock().expect("no panic").pop_front().expect("a task");
    Polled::new(task).ready();
    assert!(tasks.lock().expect("no panic").is_empty());
    assert_is(get("unused").ready(), Some("new"), Origin::Fresh);
}

#[test]
fn futures_and_threads_wait_for_each_other() {
    let (_cache, loader, _) = loader();
    let options = options();
    let gate = Arc::default();
    let mut leads = Polled::new(loader.get_or_load_async(KEY, &options, never, gated(&gate)));
    assert!(leads.poll().is_pending());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    assert_is(loader.get_or_load(KEY, &options, must_not_run), Some("one"), Origin::Joined);
                })
            })
            .collect();
        wait_until(|| loader.stats().waiting == 4);
        *gate.lock().expect("no panic") = Some(Ok(Loaded::value("one")));
        assert_is(leads.ready(), Some("one"), Origin::Loaded);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}
