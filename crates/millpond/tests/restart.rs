//! A cache in shared memory, and the processes that come and go.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, ErrorKind, Expiry, ItemOptions, PolicyKind, PoolConfig, PoolId,
    Recovered, SizeClassConfig,
};

#[path = "restart/onlooker.rs"]
mod onlooker;

/// A folder of its own in memory, which ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let parent =
            if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let folder = Self(parent.join(format!("millpond-test-{name}-{}", std::process::id())));
        let _ = std::fs::remove_dir_all(&folder.0);
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(folder: &Path, memory: u64, clock: &Clock) -> Cache {
    let config = CacheConfig {
        memory: ByteSize::mib(memory),
        clock: clock.clone(),
        shared: Some(folder.to_owned()),
        ..CacheConfig::default()
    };
    Cache::new(config).expect("opens")
}

fn put(cache: &Cache, pool: PoolId, key: u32, len: usize, expiry: Expiry) {
    let options = ItemOptions { expiry, ..ItemOptions::default() };
    let mut item = cache.allocate(pool, &key.to_le_bytes(), len, &options).expect("room");
    item.value_mut().fill(mix64(key.into()) as u8);
    cache.put(item);
}

fn is_there(cache: &Cache, pool: PoolId, key: u32, len: usize) -> bool {
    cache
        .keys(pool)
        .find_with(&key.to_le_bytes(), |found| {
            assert_eq!((found.len(), found.iter().all(|byte| *byte == mix64(key.into()) as u8)), (len, true));
        })
        .is_some()
}

#[test]
fn chains_and_long_values_are_there_again() {
    let folder = Folder::new("chains");
    let value: Vec<u8> = (0..9_000_000_u32).map(|i| mix64(i.into()) as u8).collect();
    let clock = Clock::manual(1_000);
    {
        let cache = open(&folder.0, 64, &clock);
        let pool = add_pool(&cache);
        let long = cache.add_pool(PoolConfig::named("long")).expect("new");
        cache.put_value(long, b"long", &value, &ItemOptions::default()).expect("room");
        for change in 0..4_000 {
            change_a_stack(&cache, pool, change % STACKS, change % 7 < 2).expect("room");
        }
    }
    let cache = open(&folder.0, 64, &clock);
    let (long, pool) = (cache.add_pool(PoolConfig::named("long")).expect("new"), add_pool(&cache));
    assert_eq!(cache.recovered(), Recovered { items: 1 + u64::from(STACKS), ..Recovered::default() });
    let mut found = Vec::new();
    cache.keys(long).find(b"long").expect("as before").read_whole(&mut found);
    assert!(found == value);
    assert!((0..STACKS).all(|number| check_stack(&cache, pool, number)));
    assert!(cache.stats().pools[0].sum(|class| class.links) > 100);
    cache.validate();
    // They are as good as new ones.
    (0..4_000).for_each(|change| {
        change_a_stack(&cache, pool, change % STACKS, change % 2 == 0).expect("room");
    });
    assert!((0..STACKS).all(|number| check_stack(&cache, pool, number)));
    cache.validate();
}

#[test]
fn a_new_process_finds_what_the_old_one_held_though_much_has_changed() {
    let folder = Folder::new("clean");
    let clock = Clock::manual(1_000);
    let len = |key: u32| (key % 900) as usize;
    {
        let cache = open(&folder.0, 100, &clock);
        let mine = cache.add_pool(PoolConfig::named("mine")).expect("new");
        let apart = PoolConfig { own_keys: true, ..PoolConfig::named("apart") };
        let apart = cache.add_pool(apart).expect("new");
        let gone = cache.add_pool(PoolConfig::named("gone")).expect("new");
        (0..20_000).for_each(|key| put(&cache, mine, key, len(key), Expiry::Never));
        (20_000..21_000).for_each(|key| put(&cache, mine, key, len(key), Expiry::After(100)));
        (21_000..22_000).for_each(|key| put(&cache, mine, key, len(key), Expiry::After(10)));
        (0..500_u32).for_each(|key| assert!(cache.remove(&key.to_le_bytes())));
        (500..600).for_each(|key| put(&cache, mine, key, len(key), Expiry::Never));
        (0..1_000).for_each(|key| put(&cache, apart, key, 50, Expiry::Never));
        cache.keys(apart).flush();
        (0..300).for_each(|key| put(&cache, apart, key, 50, Expiry::Never));
        (50_000..50_100).for_each(|key| put(&cache, gone, key, 50, Expiry::Never));
        assert_eq!(cache.recovered(), Recovered::default());
        let other = CacheConfig { shared: Some(folder.0.clone()), ..CacheConfig::default() };
        let refused = Cache::new(other).expect_err("one process at a time");
        assert_eq!(refused.kind(), ErrorKind::System);
    }
    clock.advance(Duration::from_secs(20));
    // Less memory, another policy, a pool in another place, a limit, and one pool less.
    let cache = open(&folder.0, 90, &clock);
    let apart = PoolConfig { own_keys: true, policy: PolicyKind::LRU, ..PoolConfig::named("apart") };
    let apart = cache.add_pool(apart).expect("new");
    let mine = PoolConfig { limit: Some(ByteSize::mib(80)), ..PoolConfig::named("mine") };
    let mine = cache.add_pool(mine).expect("new");
    assert!(cache.discard_unclaimed() > ByteSize::new(0));
    let recovered = cache.recovered();
    assert_eq!((recovered.items, recovered.dropped), (19_500 + 1_000 + 1_000 + 1_000, 0));
    assert_eq!(cache.reap(), 1_000, "what expired meanwhile leaves as ever");
    assert!((0..500).all(|key| !is_there(&cache, mine, key, len(key))));
    assert!((500..21_000).all(|key| is_there(&cache, mine, key, len(key))));
    assert!((21_000..22_000).all(|key| !is_there(&cache, mine, key, len(key))));
    assert!((0..1_000).all(|key| is_there(&cache, apart, key, 50) == (key < 300)));
    assert!((50_000..50_100).all(|key| !is_there(&cache, mine, key, 50)));
    cache.validate();
    // It is a cache like any other: items expire, are evicted, and pools are new.
    clock.advance(Duration::from_secs(86));
    assert_eq!(cache.reap(), 1_000);
    let new = cache.add_pool(PoolConfig::named("new")).expect("new");
    (100_000..900_000).for_each(|key| put(&cache, new, key, 100, Expiry::Never));
    assert!(cache.stats().pools.iter().any(|pool| pool.sum(|class| class.evictions) > 0));
    cache.validate();
}

#[test]
fn items_of_other_chunk_sizes_stay_and_move_to_those_of_today() {
    let folder = Folder::new("classes");
    let clock = Clock::manual(1_000);
    let pool = |sizes: &[u32]| PoolConfig {
        classes: SizeClassConfig::List(sizes.to_vec()),
        ..PoolConfig::named("p")
    };
    {
        let cache = open(&folder.0, 64, &clock);
        let pool = cache.add_pool(pool(&[256, 1_024])).expect("new");
        (0..1_000).for_each(|key| put(&cache, pool, key, 100, Expiry::Never));
        (1_000..1_400).for_each(|key| put(&cache, pool, key, 900, Expiry::Never));
    }
    let cache = open(&folder.0, 64, &clock);
    let pool = cache.add_pool(pool(&[512, 1_024, 2_048])).expect("new");
    assert_eq!(cache.recovered(), Recovered { items: 1_400, ..Recovered::default() });
    let all_there =
        |cache: &Cache| (0..1_400).all(|key| is_there(cache, pool, key, if key < 1_000 { 100 } else { 900 }));
    assert!(all_there(&cache));
    cache.validate();
    let chunks = |cache: &Cache| {
        let classes = cache.stats().pools.remove(0).classes;
        classes.iter().filter(|class| class.items > 0).map(|class| class.chunk_bytes).collect::<Vec<_>>()
    };
    assert_eq!(chunks(&cache), [1_024, 256]);
    cache.maintain().expect("nothing to shrink");
    assert_eq!(chunks(&cache), [512, 1_024]);
    assert!(all_there(&cache));
    cache.validate();
}

#[test]
fn of_a_key_that_was_being_replaced_neither_item_survives() {
    let folder = Folder::new("twins");
    let clock = Clock::manual(1_000);
    {
        let cache = open(&folder.0, 16, &clock);
        let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
        (0..10).for_each(|key| put(&cache, pool, key, 40, Expiry::Never));
    }
    {
        // What a process leaves that dies between the two stores of a replacement: two items of one
        // key.
        let shared = slab::Shared::open(&folder.0).expect("opens");
        let arena = slab::Arena::open(shared, 4, 16 << 20, false).expect("maps");
        let (slab, info) = arena.found()[0];
        let chunk = |number: u32| arena.item(slab.chunk(number)).0;
        let key = 3_u32.to_le_bytes();
        let twin = (0..slab.chunks(info)).map(chunk).find(|item| {
            // SAFETY: nobody else uses the arena, and so nobody frees or writes the chunk
            // (invariants 2 and 3 of `slab::item`).
            item.state().is_indexed() && unsafe { item.key() } == key
        });
        let vacant = (0..slab.chunks(info)).rev().map(chunk).find(|item| !item.state().is_indexed());
        // SAFETY: nobody else uses the arena, so that this test owns both chunks (invariant 2 of
        // `slab::item`), and one of them holds no item.
        unsafe { twin.expect("it was put").copy_to(vacant.expect("hardly any is used")) };
        vacant.expect("as above").state().publish();
    }
    let cache = open(&folder.0, 16, &clock);
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    assert_eq!(cache.recovered(), Recovered { items: 9, dropped: 2, lost_bytes: 0 });
    assert!((0..10).all(|key| is_there(&cache, pool, key, 40) == (key != 3)));
    put(&cache, pool, 3, 40, Expiry::Never);
    assert!(is_there(&cache, pool, 3, 40));
    cache.validate();
}

const KEYS: u32 = 4_000;
const THREADS: u32 = 2;

/// The record that a victim writes before and after each call on a key: the version that the key
/// may have from now on, and the one that it has at least. A removal counts as a version, an odd
/// one.
struct Book(File);

impl Book {
    fn open(folder: &Path) -> Self {
        let path = folder.join("book");
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(path).expect("opens");
        file.set_len(u64::from(KEYS) * 16).expect("grows");
        Self(file)
    }

    fn note(&self, key: u32, column: u64, version: u64) {
        self.0.write_all_at(&version.to_le_bytes(), u64::from(key) * 16 + column * 8).expect("writes");
    }

    fn versions(&self) -> Vec<(u64, u64)> {
        let mut bytes = Vec::new();
        (&self.0).read_to_end(&mut bytes).expect("reads");
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        bytes.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect()
    }
}

fn fill(value: &mut [u8], key: u32, version: u64) {
    for (i, word) in value.chunks_mut(8).enumerate() {
        let bytes = mix64(mix64(version) ^ u64::from(key) ^ (i as u64) << 32).to_le_bytes();
        word.copy_from_slice(&bytes[..word.len()]);
    }
    value[..8].copy_from_slice(&version.to_le_bytes());
}

fn version_of(key: u32, value: &[u8]) -> u64 {
    let version = u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
    let mut expected = vec![0; value.len()];
    fill(&mut expected, key, version);
    assert!(expected == value, "key {key}: a torn value, or one of another key");
    version
}

/// Its chunks are so small that many values continue in links.
fn add_pool(cache: &Cache) -> PoolId {
    let classes = SizeClassConfig::Factor { factor: 1.5, min: 64, max: 1_024 };
    cache.add_pool(PoolConfig { classes, ..PoolConfig::named("p") }).expect("new")
}

/// Keys of chains that grow and shrink: of `n` links, the first says `n - 1`, the last 0.
const STACKS: u32 = 40;

/// Pushes to a chain or pops from it, or begins it anew.
fn change_a_stack(cache: &Cache, pool: PoolId, number: u32, pops: bool) -> Result<(), millpond::Error> {
    let key = (KEYS + number).to_le_bytes();
    let Some(item) = cache.keys(pool).find(&key) else {
        let options = ItemOptions { chainable: true, ..ItemOptions::default() };
        cache.put(cache.allocate(pool, &key, 0, &options)?);
        return Ok(());
    };
    let count = item.link_count();
    if pops || count > 50 {
        drop(item.pop_link());
        return Ok(());
    }
    let mut link = item.allocate_link(100 + count as usize)?;
    link.value_mut().fill(count as u8);
    item.push_link(link).map_err(drop).expect("allocated for it");
    Ok(())
}

fn check_stack(cache: &Cache, pool: PoolId, number: u32) -> bool {
    let Some(item) = cache.keys(pool).find(&(KEYS + number).to_le_bytes()) else { return false };
    let mut left = item.link_count() as usize;
    for link in item.links() {
        left -= 1;
        assert_eq!(*link, *vec![left as u8; 100 + left], "stack {number}: a torn chain");
    }
    assert_eq!(left, 0);
    true
}

/// The process that is killed: two threads write, replace and remove keys of their own for ever, in
/// less memory than they need, while a third takes slabs away.
#[test]
#[ignore = "the victim of another test"]
fn victim() {
    let Some(folder) = std::env::var_os("MILLPOND_VICTIM").map(PathBuf::from) else { return };
    let seed: u64 = std::env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let cache = open(&folder, 12, &Clock::System);
    let pool = add_pool(&cache);
    let starts = Book::open(&folder).versions();
    for thread in 0..THREADS {
        let (cache, folder, starts) = (cache.clone(), folder.clone(), starts.clone());
        let write = move || {
            let (book, mut rng) = (Book::open(&folder), seeded(seed * 7 + u64::from(thread)));
            let mut versions: Vec<u64> = starts.iter().map(|(begun, _)| *begun).collect();
            loop {
                let key = rng.random_range(0..KEYS / THREADS) * THREADS + thread;
                let removes = rng.random_bool(0.2);
                // The next even version is a value's, the next odd one a removal's.
                let version = (versions[key as usize] + 1) | 1;
                let version = if removes { version } else { version + 1 };
                versions[key as usize] = version;
                book.note(key, 0, version);
                if removes {
                    cache.remove(&key.to_le_bytes());
                } else {
                    let len = rng.random_range(8..2_000);
                    let options = ItemOptions::default();
                    let mut value = vec![0; len];
                    fill(&mut value, key, version);
                    if cache.put_value(pool, &key.to_le_bytes(), &value, &options).is_err() {
                        // As good as never begun: what is there stays.
                        continue;
                    }
                }
                book.note(key, 1, version);
                let stack = rng.random_range(0..STACKS / THREADS) * THREADS + thread;
                let _ = change_a_stack(&cache, pool, stack, rng.random_bool(0.4));
            }
        };
        base::thread::spawn("writer", write).expect("a thread");
    }
    println!("ready");
    let mut rng = seeded(seed + 99);
    loop {
        let _ = cache.set_memory(ByteSize::mib(rng.random_range(8..13)));
        let _ = cache.maintain();
        base::thread::sleep(Duration::from_millis(1));
    }
}

fn spawn_victim(folder: &Path, seed: u64) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "victim", "--ignored", "--nocapture"])
        .env("MILLPOND_VICTIM", folder)
        .env("MILLPOND_SEED", seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut output = child.stdout.take().expect("piped");
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(b"ready") {
        assert_eq!(output.read(&mut byte).expect("reads"), 1, "it died: {}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
    // The pipe stays open until the process ends, so that it does not die of writing.
    std::mem::forget(output);
    child
}

/// `MILLPOND_KILLS` says how often; 25 times by default.
#[test]
fn a_process_killed_at_any_moment_leaves_nothing_stale_or_torn() {
    let folder = Folder::new("killed");
    std::fs::create_dir_all(&folder.0).expect("makes the folder");
    let kills: u64 = std::env::var("MILLPOND_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(25);
    let mut rng = seeded(1);
    let (mut found, mut dropped, mut whole) = (0, 0, 0);
    for round in 0..kills {
        let mut child = spawn_victim(&folder.0, round);
        base::thread::sleep(Duration::from_micros(rng.random_range(0..30_000)));
        child.kill().expect("kills");
        child.wait().expect("ends");
        let cache = open(&folder.0, 16, &Clock::System);
        let pool = add_pool(&cache);
        dropped += cache.recovered().dropped;
        let mut items: u64 = (0..STACKS).map(|number| u64::from(check_stack(&cache, pool, number))).sum();
        for (key, (begun, done)) in (0..KEYS).zip(Book::open(&folder.0).versions()) {
            let Some(item) = cache.keys(pool).find(&key.to_le_bytes()) else { continue };
            let mut value = Vec::new();
            item.read_whole(&mut value);
            let version = version_of(key, &value);
            items += 1;
            whole += u64::from(item.link_count() > 0);
            assert!(version.is_multiple_of(2), "round {round}, key {key}: a removal has no value");
            assert!(
                (done..=begun).contains(&version),
                "round {round}, key {key}: version {version}, where {done} was done and {begun} begun"
            );
        }
        assert_eq!(items, cache.recovered().items, "round {round}: all items are of keys that exist");
        cache.validate();
        found += items;
    }
    assert!(found > kills * 100, "hardly anything survived: {found} items in {kills} rounds");
    assert!(whole > kills * 10, "hardly any item with links survived: {whole} in {kills} rounds");
    println!(
        "{found} items, {whole} of them with links, were found after {kills} kills, {dropped} were dropped"
    );
}

/// Size classes take 2 KB each with S3-FIFO, and 8 to 11 KB with others: those of all pools would
/// be more than there is.
#[test]
fn another_policy_takes_over_as_many_size_classes_as_leave_room() {
    let folder = Folder::new("classes");
    let open = |policy| {
        let config = CacheConfig {
            memory: ByteSize::mib(8),
            shared: Some(folder.0.clone()),
            huge_pages: false,
            ..CacheConfig::default()
        };
        let cache = Cache::new(config).expect("a cache");
        let pool = |number| PoolConfig { policy, ..PoolConfig::named(format!("p{number}")) };
        let pools: Vec<_> = (0..40).map(|number| cache.add_pool(pool(number)).expect("a pool")).collect();
        (cache, pools)
    };
    let fill = |(cache, pools): &(Cache, Vec<millpond::PoolId>)| {
        (0..40_000_u32).for_each(|key| {
            let (pool, len) = (pools[key as usize % 40], 1 + key as usize * 7 % 3_000);
            let item = cache.allocate(pool, &key.to_le_bytes(), len, &ItemOptions::default());
            cache.put(item.unwrap_or_else(|error| panic!("put {key}: {error}")));
        });
    };
    let first = open(PolicyKind::S3_FIFO);
    fill(&first);
    drop(first);
    let second = open(PolicyKind::W_TINY_LFU);
    second.0.maintain().expect("nothing is held");
    assert!(second.0.ledger().total() <= second.0.ledger().limit());
    fill(&second);
    second.0.validate();
}

/// Slabs of the former size, the metadata of their items and the tables of pools are more than the
/// new limit.
#[test]
fn with_less_memory_the_bill_is_within_the_limit_at_once() {
    for (pools, len) in [(1, 1), (1, 100), (8, 1), (8, 100), (30, 20), (8, 20_000)] {
        let (folder, clock) = (Folder::new("less-memory"), Clock::System);
        let open_with = |memory| {
            let cache = open(&folder.0, memory, &clock);
            assert!(cache.ledger().total() <= cache.ledger().limit(), "before pools: {:?}", cache.ledger());
            let pool = |number| cache.add_pool(PoolConfig::named(format!("p{number}"))).expect("a pool");
            let pools: Vec<_> = (0..pools).map(pool).collect();
            (cache, pools)
        };
        let (cache, ids) = open_with(24);
        (0..24_000_000 / (len as u32 + 40)).for_each(|key| {
            put(&cache, ids[key as usize % pools], key, len, Expiry::Never);
        });
        drop(cache);
        for memory in [16, 12, 8] {
            let (cache, ids) = open_with(memory);
            let (total, limit) = (cache.ledger().total(), cache.ledger().limit());
            assert!(total <= limit, "{pools} pools, {memory} MiB: {total} of {limit} bytes");
            // A slab leaves as a whole.
            assert!(
                total + (4 << 20) >= limit / 10 * 9,
                "{pools} pools, {memory} MiB: {total} of {limit} bytes"
            );
            cache.validate();
            put(&cache, ids[0], 0, len, Expiry::Never);
        }
    }
}

#[test]
fn what_is_given_up_without_a_look_is_told() {
    let (folder, clock) = (Folder::new("given-up"), Clock::System);
    let fill = || {
        let cache = open(&folder.0, 16, &clock);
        let recovered = cache.recovered();
        let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
        (0..60_000).for_each(|key| put(&cache, pool, key, 100, Expiry::Never));
        recovered
    };
    assert_eq!(fill(), Recovered::default());
    let set_len = |file: &str, bytes| {
        let file = File::options().write(true).open(folder.0.join(file)).expect("it is there");
        file.set_len(bytes).expect("it is cut");
    };
    // What the slabs are is not known any more.
    set_len("words", 0);
    assert!(fill().lost_bytes > 6 << 20);
    // The slabs are not there.
    std::fs::remove_file(folder.0.join("slabs")).expect("it is there");
    assert!(fill().lost_bytes >= 8 << 20);
    // The last of them are not.
    set_len("slabs", 4 << 20);
    let recovered = fill();
    assert!((4 << 20..12 << 20).contains(&recovered.lost_bytes), "{recovered:?}");
}

/// Memory left by a pool that is not added again counts until it is given up.
#[test]
fn with_a_pool_that_is_not_added_again_the_bill_is_within_the_limit() {
    let folder = Folder::new("not-again");
    for (mib, policy, count) in [(16, PolicyKind::S3_FIFO, 150), (12, PolicyKind::Arc, 149)] {
        let cache = open(&folder.0, mib, &Clock::System);
        let (limit, mut beyond) = (cache.ledger().limit(), 0);
        let pools: Vec<_> = (0..count)
            .map(|number| {
                let pool = PoolConfig { policy, ..PoolConfig::named(format!("p{number}")) };
                let pool = cache.add_pool(pool).expect("a pool");
                beyond = beyond.max(cache.ledger().total().saturating_sub(limit));
                pool
            })
            .collect();
        // Readers of classes that were given up may keep some of it.
        assert!(beyond < limit / 50, "{mib} MiB: {beyond} bytes beyond {limit}");
        assert!(cache.ledger().total() <= limit);
        (0..30_000_u32).for_each(|key| {
            let len = 1 + mix64(key.into()) as usize % 3_000;
            put(&cache, pools[key as usize % count], key, len, Expiry::Never);
        });
        cache.validate();
    }
}

/// Flushed items are taken out after a restart, too, though maintenance goes on while the pool that
/// has them is added.
#[test]
fn items_flushed_before_a_restart_are_taken_out() {
    const KEYS: u32 = 100_000;
    let (folder, clock) = (Folder::new("flushed"), Clock::manual(1_000_000));
    {
        let cache = open(&folder.0, 100, &clock);
        let pool = add_pool(&cache);
        (0..KEYS).for_each(|key| put(&cache, pool, key, 500, Expiry::Never));
        cache.keys(pool).flush();
        put(&cache, pool, KEYS, 500, Expiry::Never);
    }
    let cache = open(&folder.0, 100, &clock);
    let is_added = AtomicBool::new(false);
    let pool = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_added.load(Ordering::Relaxed) {
                cache.maintain().expect("nothing is over its limit");
            }
        });
        let pool = add_pool(&cache);
        is_added.store(true, Ordering::Relaxed);
        pool
    });
    let class_items = || cache.pool_stats(pool).expect("it is there").sum(|class| class.items);
    // A walk that met items which were not queued yet is repeated after some rounds, and the rounds
    // during the recovery may have met many.
    let mut rounds = 0;
    while class_items() != 1 && rounds < 500 {
        cache.maintain().expect("nothing is over its limit");
        rounds += 1;
    }
    assert_eq!(class_items(), 1);
    assert!(is_there(&cache, pool, KEYS, 500));
    cache.validate();
}
