//! The parts that an application embeds with: typed values, handles that borrow nothing, a thread
//! that maintains.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millpond::typed::{Codec, CodecError, Plain, TypedCache};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ErrorKind, Expiry, ItemOptions, LoadError, LoadOptions, Loaded,
    Loader, MaintenanceThread, PoolConfig, PoolId,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct User {
    name: String,
    born: Option<u16>,
}

fn user(name: &str) -> User {
    User { name: name.to_owned(), born: Some(1815) }
}

fn cache(clock: &Clock) -> (Cache, PoolId) {
    let config = CacheConfig { memory: ByteSize::mib(32), clock: clock.clone(), ..CacheConfig::default() };
    let cache = Cache::new(config).expect("made");
    let pool = cache.add_pool(PoolConfig::named("users")).expect("new");
    (cache, pool)
}

#[test]
fn values_of_any_type_come_back_by_keys_of_any_type_and_length() {
    let (cache, pool) = cache(&Clock::System);
    let users: TypedCache<str, User> = TypedCache::new(&cache, pool);
    let keys: Vec<String> =
        [0, 1, 246, 247, 248, 254, 255, 256, 10_000].iter().map(|len| "k".repeat(*len)).collect();
    for key in &keys {
        assert_eq!(users.get(key), None);
        users.insert(key, &user(key)).expect("room");
    }
    for key in &keys {
        assert_eq!(users.get(key), Some(user(key)), "{} bytes", key.len());
        assert!(users.remove(key) && !users.remove(key));
    }
    let numbers: TypedCache<(u32, String), Vec<u64>> = TypedCache::new(&cache, pool);
    numbers.insert(&(7, "x".to_owned()), &vec![1, 2, 3]).expect("room");
    assert_eq!(numbers.get(&(7, "x".to_owned())), Some(vec![1, 2, 3]));
    assert_eq!(numbers.get(&(8, "x".to_owned())), None);
    cache.validate();
}

#[test]
fn long_keys_are_told_apart_though_their_hashes_were_the_same() {
    let (cache, pool) = cache(&Clock::System);
    let texts: TypedCache<str, String, Plain> = TypedCache::with_codec(&cache, pool, Plain);
    let (one, other) = (format!("{}1", "k".repeat(300)), format!("{}2", "k".repeat(300)));
    texts.insert(&one, &"first".to_owned()).expect("room");
    // The engine's key of one gets the value of the other, as if both had one hash: the rest of the
    // key tells.
    let engine_key = cache.items(pool).expect("there").next().expect("one item").key().to_vec();
    let value = cache.keys(pool).find(&engine_key).expect("there").to_vec();
    let forged: Vec<u8> = value.strip_suffix(b"first").expect("its end").to_vec();
    let at = forged.len() - 1;
    assert_eq!(forged[at], b'1');
    let forged = [&forged[..at], b"2", b"second"].concat();
    cache.put_value(pool, &engine_key, &forged, &ItemOptions::default()).expect("room");
    assert_eq!(texts.get(&one), None);
    assert_eq!(cache.stats().pools[0].sum(|class| class.items), 1, "it is another key's, and stays");
    let loaded = texts.get_or_load(&one, || Ok::<_, Infallible>("mine".to_owned())).expect("loads");
    assert_eq!(loaded, "mine", "its own, though it cannot be stored");
    assert_eq!(texts.get(&other), None, "the hash is not that of the other");
    texts.insert(&one, &"again".to_owned()).expect("room");
    assert_eq!(texts.get(&one).as_deref(), Some("again"));
}

#[test]
fn time_to_live_is_kept_to_the_millisecond() {
    let clock = Clock::manual(1_000);
    clock.advance(Duration::from_millis(900));
    let (cache, pool) = cache(&clock);
    let users: TypedCache<u64, User> = TypedCache::new(&cache, pool).with_ttl(Duration::from_millis(1_500));
    users.insert(&1, &user("a")).expect("room");
    users.insert_for(&2, &user("b"), Duration::from_millis(40)).expect("room");
    users.insert_for(&3, &user("c"), Duration::from_secs(1)).expect("room");
    users.insert_for(&4, &user("d"), Duration::ZERO).expect("nothing is kept");
    let left = |keys: [u64; 4]| keys.map(|key| users.get(&key).is_some());
    assert_eq!(left([1, 2, 3, 4]), [true, true, true, false]);
    clock.advance(Duration::from_millis(39));
    assert_eq!(left([1, 2, 3, 4]), [true, true, true, false]);
    clock.advance(Duration::from_millis(1));
    assert_eq!(left([1, 2, 3, 4]), [true, false, true, false]);
    clock.advance(Duration::from_millis(959));
    assert_eq!(left([1, 2, 3, 4]), [true, false, true, false]);
    clock.advance(Duration::from_millis(1));
    assert_eq!(left([1, 2, 3, 4]), [true, false, false, false]);
    clock.advance(Duration::from_millis(500));
    let loads = AtomicU32::new(0);
    let load = || {
        loads.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(user("anew"))
    };
    assert_eq!(users.get_or_load(&1, load).expect("loads"), user("anew"), "what has expired is loaded anew");
    assert_eq!(users.get_or_load(&1, load).expect("is there"), user("anew"));
    assert_eq!(loads.load(Ordering::Relaxed), 1);
    clock.advance(Duration::from_secs(5));
    cache.reap();
    assert_eq!(cache.stats().pools[0].sum(|class| class.items), 0, "the engine has them expire too");
}

#[test]
fn durations_of_bytes_are_rounded_up_to_whole_seconds() {
    for (millis, secs) in [(0, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2)] {
        assert_eq!(Expiry::after(Duration::from_millis(millis)), Expiry::After(secs));
    }
    assert_eq!(Expiry::after(Duration::MAX), Expiry::After(u32::MAX));
}

/// A codec of one version, which refuses to write some values and to read those of another.
#[derive(Clone)]
struct Versioned(u8);

impl Codec<u32> for Versioned {
    fn encode(&self, value: &u32, out: &mut Vec<u8>) -> Result<(), CodecError> {
        if *value == 0 {
            return Err("no zeros".into());
        }
        out.push(self.0);
        out.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<u32, CodecError> {
        match bytes.split_first() {
            Some((version, rest)) if *version == self.0 => Ok(u32::from_le_bytes(rest.try_into()?)),
            _ => Err("of another version".into()),
        }
    }
}

#[test]
fn value_that_cannot_be_decoded_is_a_miss_and_is_loaded_anew() {
    let (cache, pool) = cache(&Clock::System);
    let old: TypedCache<u8, u32, _> = TypedCache::with_codec(&cache, pool, Versioned(1));
    let new: TypedCache<u8, u32, _> = TypedCache::with_codec(&cache, pool, Versioned(2));
    old.insert(&1, &10).expect("room");
    old.insert(&2, &20).expect("room");
    assert_eq!((new.get(&1), old.get(&1)), (None, None), "it was removed");
    assert_eq!(new.get_or_load(&2, || Ok::<_, Infallible>(21)).expect("loads"), 21);
    assert_eq!(new.get(&2), Some(21));
    let refused = new.insert(&2, &0).expect_err("the codec's error");
    assert_eq!((refused.kind(), new.get(&2)), (ErrorKind::WrongType, None), "no older value stays");
    let failed = new.get_or_load(&3, || Ok::<_, Infallible>(0)).expect_err("the codec's error");
    assert!(matches!(&failed, LoadError::Failed(error) if error.to_string() == "no zeros"), "{failed}");
}

#[test]
fn one_of_many_tasks_loads_and_the_others_get_its_value() {
    let (cache, pool) = cache(&Clock::System);
    let users: TypedCache<str, User> = TypedCache::new(&cache, pool).with_ttl(Duration::from_secs(60));
    let loads = Arc::new(AtomicU32::new(0));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|i| {
                let (users, loads) = (users.clone(), Arc::clone(&loads));
                tokio::spawn(async move {
                    let key = format!("user:{}", i % 10);
                    let load = async {
                        tokio::task::yield_now().await;
                        loads.fetch_add(1, Ordering::Relaxed);
                        Ok::<_, io::Error>(user(&key))
                    };
                    assert_eq!(users.get_or_load_async(&key, load).await.expect("loads"), user(&key));
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        let failed =
            users.get_or_load_async("none", async { Err::<User, _>(io::Error::other("down")) }).await;
        assert!(matches!(failed, Err(LoadError::Failed(error)) if error.to_string() == "down"));
    });
    assert_eq!(loads.load(Ordering::Relaxed), 10);
    assert_eq!(users.load_stats().loads, 11);
    users.clear();
    assert_eq!(users.get("user:1"), None);
}

#[test]
fn owned_handle_outlives_the_cache_that_it_came_from() {
    let (cache, pool) = cache(&Clock::System);
    cache.put_value(pool, b"key", &[7; 1_000], &ItemOptions::default()).expect("room");
    let owned = cache.keys(pool).find_owned(b"key").expect("just put");
    let other = owned.clone();
    assert_eq!((owned.as_handle().key(), owned.as_handle().pool()), (&b"key"[..], pool));
    assert!(cache.remove(b"key") && cache.find_owned(b"key").is_none());
    (0..200_000_u32).for_each(|key| {
        cache.put_value(pool, &key.to_le_bytes(), &[1; 1_000], &ItemOptions::default()).expect("room");
    });
    assert_eq!(*owned, [7; 1_000], "it is held, whatever was evicted");
    drop(cache);
    let thread =
        base::thread::spawn("reader", move || other.iter().all(|byte| *byte == 7)).expect("a thread");
    assert!(thread.join().expect("no panic"));
    let body = axum::body::Bytes::from_owner(owned);
    assert_eq!(body.slice(10..20), [7; 10][..]);
}

#[test]
fn owned_handles_give_their_references_back() {
    let (cache, pool) = cache(&Clock::System);
    cache.put_value(pool, b"key", b"value", &ItemOptions::default()).expect("room");
    for _ in 0..40_000 {
        let owned = cache.find(b"key").expect("not too many are held").into_owned();
        drop(owned.clone());
    }
    assert!(cache.remove(b"key"));
    assert_eq!(cache.held(pool).expect("there").items, 0);
    cache.validate();
}

#[test]
fn answer_of_a_loader_can_be_owned() {
    let (cache, pool) = cache(&Clock::System);
    let loader = Loader::new(&cache, pool);
    let load = |_: &[u8]| Ok::<_, Infallible>(Loaded::value("v"));
    let options = LoadOptions::default();
    let stored = loader.get_or_load(b"key", &options, load).expect("loads").into_owned();
    let not_stored = |_: &[u8]| Ok::<_, Infallible>(Loaded::value("w").not_kept());
    let shared = loader.get_or_load(b"other", &options, not_stored).expect("loads").into_owned();
    drop((loader, cache));
    assert_eq!((stored.as_deref(), shared.as_deref()), (Some(&b"v"[..]), Some(&b"w"[..])));
}

#[test]
fn maintained_cache_reaps_and_keeps_its_limit_by_itself() {
    let config = CacheConfig { memory: ByteSize::mib(16), ..CacheConfig::default() };
    let cache = Cache::maintained(config).expect("made");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let options = ItemOptions { expiry: Expiry::After(1), ..ItemOptions::default() };
    cache.put_value(pool, b"short", b"lived", &options).expect("room");
    // As buffers of the embedder's: more is spent than the limit allows, until somebody gives slabs
    // back.
    (0..60_000_u32).for_each(|key| {
        let _ = cache.put_value(pool, &key.to_le_bytes(), &[1; 200], &ItemOptions::default());
    });
    cache.ledger().charge(millpond::Part::Connections, 8 << 20);
    let items = || cache.peek(b"short").is_some();
    while items() || cache.ledger().total() > cache.ledger().limit() {
        base::thread::sleep(Duration::from_millis(20));
    }
    let status = cache.maintenance_status().expect("it is maintained");
    assert!(status.rounds > 0);
    let clone = cache.clone();
    drop(cache);
    assert!(clone.maintenance_status().is_some(), "as long as there is a clone");
    drop(clone);
}

#[test]
fn cache_is_maintained_only_if_that_was_asked_for() {
    let (cache, _) = cache(&Clock::manual(1_000));
    assert_eq!(cache.maintenance_status(), None);
    let thread = MaintenanceThread::start(&cache, Duration::from_millis(1)).expect("a thread");
    while thread.status().rounds < 3 {
        base::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(thread.status().failures, 0);
}

#[test]
fn shared_folder_is_free_once_a_maintained_cache_was_dropped() {
    let folder = std::env::temp_dir().join(format!("millpond-embed-{}", std::process::id()));
    for _ in 0..20 {
        let config =
            CacheConfig { memory: ByteSize::mib(16), shared: Some(folder.clone()), ..CacheConfig::default() };
        drop(Cache::maintained(config).expect("nobody else has it"));
    }
    std::fs::remove_dir_all(&folder).expect("removes");
}

#[test]
fn pools_have_keys_of_their_own_and_the_cache_looks_in_the_first() {
    let (cache, first) = cache(&Clock::System);
    let second = cache.add_pool(PoolConfig::named("second")).expect("new");
    cache.put_value(second, b"key", b"2", &ItemOptions::default()).expect("room");
    assert_eq!(cache.find(b"key").as_deref(), None, "of another pool");
    cache.put_value(first, b"key", b"1", &ItemOptions::default()).expect("room");
    assert_eq!(cache.find(b"key").as_deref(), Some(&b"1"[..]));
    assert_eq!(cache.keys(second).find(b"key").as_deref(), Some(&b"2"[..]));
    assert!(cache.remove(b"key") && !cache.remove(b"key"));
    assert!(cache.keys(second).find(b"key").is_some());
}
