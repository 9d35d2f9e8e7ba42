//! Files of a cache that are full, damaged, left over from another time, or mapped by a forked
//! child: an error or an empty cache, never a signal, a panic, a hang or an old value.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use millpond::structured::{Array, Map, StructureOptions};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, Error, ErrorKind, Expiry, ItemOptions, PoolConfig, PoolId,
    SizeClassConfig,
};
use proptest::prelude::*;

/// A folder of its own in memory, which ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let parent =
            if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let folder = Self(parent.join(format!("millpond-damage-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&folder.0);
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn config(folder: &Path, mib: u64) -> CacheConfig {
    CacheConfig {
        memory: ByteSize::mib(mib),
        clock: Clock::manual(1_000),
        shared: Some(folder.to_owned()),
        ..CacheConfig::default()
    }
}

fn open(folder: &Path) -> Cache {
    Cache::new(config(folder, 32)).expect("opens")
}

fn put(cache: &Cache, pool: PoolId, key: &[u8], value: &[u8]) -> Result<(), Error> {
    let mut item = cache.allocate(pool, key, value.len(), &ItemOptions::default())?;
    item.value_mut().copy_from_slice(value);
    cache.put(item);
    Ok(())
}

/// Runs an ignored test of this program in a process of its own that has a file system of this many
/// MiB at `folder`. `false`: this system does not let us mount one.
fn run_in_small_file_system(folder: &Path, mib: u32, test: &str) -> bool {
    fs::create_dir_all(folder).expect("makes the folder");
    let mount = format!("mount -t tmpfs -o size={mib}m tmpfs \"$0\" && exec \"$@\"");
    let command = |run: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount]).arg(folder).args(run);
        command.env("MILLPOND_VICTIM", folder);
        command
    };
    let probe = command(&["true"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("left out: `unshare` and `mount` make no file system here");
        return false;
    }
    let exe = std::env::current_exe().expect("this test");
    let exe = exe.to_str().expect("a path in UTF-8");
    let output = command(&[exe, "--exact", test, "--ignored", "--nocapture"]).output().expect("a process");
    assert!(
        output.status.success(),
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    true
}

#[test]
fn cache_in_a_full_file_system_evicts_instead_of_dying() {
    let folder = Folder::new("full");
    run_in_small_file_system(&folder.0, 24, "victim_of_a_full_file_system");
}

#[test]
#[ignore = "the victim of another test"]
fn victim_of_a_full_file_system() {
    let Some(folder) = std::env::var_os("MILLPOND_VICTIM").map(PathBuf::from) else { return };
    let fill = |cache: &Cache, pool, keys: std::ops::Range<u32>| {
        for key in keys {
            put(cache, pool, &key.to_le_bytes(), &[3; 1_000]).expect("an older item gives its chunk");
            assert!(cache.find(&key.to_le_bytes()).is_some_and(|found| *found == [3; 1_000]));
        }
    };
    let slabs = |cache: &Cache| cache.stats().pools[0].slab_bytes / (4 << 20);
    let cache = Cache::new(config(&folder.join("one"), 64)).expect("opens");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    let filler = folder.join("filler");
    fs::write(&filler, vec![1; 9 << 20]).expect("there is room");
    fill(&cache, pool, 0..20_000);
    assert!((2..=3).contains(&slabs(&cache)), "of 24 MiB, 9 are the filler's, and less than one the words'");
    assert!(cache.refused_slabs() > 0);
    let room = || cache.file_system_bytes().expect("a limit");
    assert!(room() < 4 << 20, "{} bytes are no slab", room());
    fs::remove_file(&filler).expect("removes");
    assert!((9 << 20..13 << 20).contains(&room()), "{} bytes, of which 9 MiB were the filler's", room());
    fill(&cache, pool, 20_000..100_000);
    assert!((4..=5).contains(&slabs(&cache)), "a class that was refused a slab asks again");
    for _ in 0..10 {
        cache.touch_ahead();
    }
    cache.validate();
    let items = cache.stats().pools[0].sum(|class| class.items);
    drop(cache);
    // Not a byte is free any more.
    let _ = fs::write(&filler, vec![1; 9 << 20]);
    let refused = Cache::new(config(&folder.join("other"), 64)).expect_err("no room for its words");
    assert_eq!(refused.kind(), ErrorKind::System);
    let cache = Cache::new(config(&folder.join("one"), 64)).expect("what is there has its memory");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    assert_eq!(cache.recovered().items, items);
    fill(&cache, pool, 0..20_000);
    cache.validate();
    drop(cache);
    // A file that lost its blocks, as a copy of it may: there is no memory for its slabs.
    let slabs = fs::OpenOptions::new().write(true).open(folder.join("one/slabs")).expect("opens");
    slabs.set_len(0).expect("shortens");
    let _ = fs::write(folder.join("more"), vec![1; 24 << 20]);
    let cache = Cache::new(config(&folder.join("one"), 64)).expect("the words are there");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    assert_eq!(cache.recovered().items, 0);
    let refused = put(&cache, pool, b"key", b"value").expect_err("no slab is to be had");
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    cache.validate();
}

#[test]
fn files_are_for_their_owner_alone() {
    let folder = Folder::new("modes");
    drop(open(&folder.0));
    let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    let modes = [mode(&folder.0), mode(&folder.0.join("words")), mode(&folder.0.join("slabs"))];
    assert_eq!(modes, [0o700, 0o600, 0o600]);
    // Who was let in by hand stays so.
    fs::set_permissions(folder.0.join("words"), fs::Permissions::from_mode(0o640)).expect("changes");
    drop(open(&folder.0));
    assert_eq!(mode(&folder.0.join("words")), 0o640);
}

#[test]
fn link_in_the_place_of_a_file_is_refused() {
    let folder = Folder::new("link");
    fs::create_dir_all(&folder.0).expect("makes the folder");
    let target = folder.0.join("somebody's");
    fs::write(&target, b"precious").expect("writes");
    for name in ["slabs", "words"] {
        let _ = fs::remove_file(folder.0.join("words"));
        std::os::unix::fs::symlink(&target, folder.0.join(name)).expect("links");
        assert_eq!(Cache::new(config(&folder.0, 32)).expect_err("a link").kind(), ErrorKind::System);
        assert_eq!(fs::read(&target).expect("is there"), b"precious");
    }
}

/// A mounted file system of 2 MiB pages of which this process may use some.
fn huge_pages() -> Option<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let free = read("/proc/meminfo").lines().find_map(|line| {
        line.strip_prefix("HugePages_Free:").and_then(|count| count.trim().parse::<u32>().ok())
    });
    let mounts = read("/proc/mounts");
    let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|parts| {
        parts.len() > 3
            && parts[2] == "hugetlbfs"
            && parts[3].split(',').any(|option| option == "pagesize=2M")
    })?;
    (free? >= 16).then(|| PathBuf::from(mount[1]))
}

#[test]
fn cache_in_huge_pages_outlives_its_process_and_evicts_when_they_are_used_up() {
    let Some(mount) = huge_pages() else {
        println!("left out: no `hugetlbfs` of 2 MiB pages is mounted, or fewer than 16 are free");
        return;
    };
    let folder = Folder(mount.join(format!("millpond-damage-{}", std::process::id())));
    let cache = Cache::new(config(&folder.0, 1 << 10)).expect("opens");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    for key in 0..200_000_u32 {
        put(&cache, pool, &key.to_le_bytes(), &[3; 1_000]).expect("room, or an older item gives its chunk");
    }
    cache.validate();
    let items = cache.stats().pools[0].sum(|class| class.items);
    drop(cache);
    let cache = Cache::new(config(&folder.0, 1 << 10)).expect("opens");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("new");
    assert_eq!(cache.recovered().items, items);
    cache.set_pool_limit(pool, Some(ByteSize::mib(8))).expect("it shrinks");
    put(&cache, pool, b"key", b"value").expect("room");
    cache.validate();
}

/// Words of the file `words` where its parts begin: names of pools, flushes, slabs.
const NAMES: usize = 512;
const FLUSHES: usize = NAMES + 4096;
const TABLE: usize = 512 + (16 << 10);
const SLAB: usize = 4 << 20;

/// Pools that are in the files that are damaged: with shared keys, and with keys of their own.
fn add_pools(cache: &Cache) -> (PoolId, PoolId) {
    let classes = SizeClassConfig::List(vec![64, 104, 256, 1_024]);
    let shared = PoolConfig { classes, own_keys: false, ..PoolConfig::named("shared") };
    let apart = PoolConfig { own_keys: true, ..PoolConfig::named("apart") };
    (cache.add_pool(shared).expect("new"), cache.add_pool(apart).expect("new"))
}

/// The files of a cache with items of all kinds: plain ones, chains and structures.
fn sound_files(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let cache = open(folder);
    let (shared, apart) = add_pools(&cache);
    for key in 0..300_u32 {
        put(&cache, shared, &key.to_le_bytes(), &[1; 80]).expect("room");
        put(&cache, apart, &key.to_le_bytes(), &[2; 80]).expect("room");
    }
    let options = ItemOptions { expiry: Expiry::After(1_000), ..ItemOptions::default() };
    for key in 300..340_u32 {
        cache.put_value(shared, &key.to_le_bytes(), &[3; 5_000], &options).expect("room");
    }
    let options = StructureOptions::default();
    for key in 340..360_u32 {
        let map = Map::<u64, [u8]>::create(&cache, apart, &key.to_le_bytes(), &options).expect("room");
        (0..40).for_each(|i| drop(map.as_ref().expect("new").insert(&i, &[4; 20]).expect("room")));
        Array::<u32>::create(&cache, apart, &(key + 20).to_le_bytes(), 50, &options).expect("room");
    }
    drop(cache);
    // What lies behind the slabs that are used is a hole, as long as the machine's memory.
    let read = |name: &str| {
        let mut bytes = Vec::new();
        let file = fs::File::open(folder.join(name)).expect("opens");
        file.take(8 * SLAB as u64).read_to_end(&mut bytes).expect("reads");
        bytes
    };
    (read("words"), read("slabs"))
}

/// Uses all of a cache whose files were damaged.
fn use_all(cache: &Cache) {
    let (shared, apart) = add_pools(cache);
    for pool in [shared, apart] {
        for key in 0..400_u32 {
            if let Some(found) = cache.keys(pool).find(&key.to_le_bytes()) {
                let mut whole = Vec::new();
                found.read_whole(&mut whole);
                assert_eq!(whole.len(), found.whole_len());
            }
        }
        let walked =
            cache.items(pool).expect("the pool is there").map(|item| item.value().len()).sum::<usize>();
        assert!(walked <= 8 * SLAB);
    }
    for key in 340..400_u32 {
        if let Ok(Some(map)) = Map::<u64, [u8]>::open(cache, apart, &key.to_le_bytes()) {
            let _ = (map.get(&3), map.insert(&3, &[5; 30]), map.remove(&4));
        }
        if let Ok(Some(array)) = Array::<u32>::open(cache, apart, &key.to_le_bytes()) {
            let _ = (array.get(3), array.set(4, 9), array.to_vec());
        }
    }
    cache.validate();
    for key in 0..2_000_u32 {
        let pool = if key % 2 == 0 { shared } else { apart };
        put(cache, pool, &key.to_le_bytes(), &[6; 90]).expect("room");
        let found = cache.keys(pool).find(&key.to_le_bytes());
        assert!(found.is_some_and(|found| *found == [6; 90]), "what is written now is found");
    }
    cache.maintain().expect("nobody holds anything");
    cache.discard_unclaimed();
    cache.validate();
}

#[derive(Clone, Debug)]
enum Harm {
    /// A word of the file `words`.
    Word(usize, u64),
    /// A slab's word: chunk size, class, pool, key space.
    Slab(usize, u64, u64, u64, u64),
    /// A slab, a place in it that is in the header of a chunk, and the word there.
    Header(usize, usize, u32),
    /// A bit of the file `slabs`.
    Bit(usize),
    /// Noise in 64 bytes of it.
    Noise(usize, u64),
    /// This much of `slabs` is there.
    SlabsEnd(usize),
    /// This much of `words`.
    WordsEnd(usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    let odd_word = || prop_oneof![any::<u64>(), Just(u64::MAX), Just(1), 0_u64..1 << 33];
    let chunk = prop_oneof![Just(0), Just(3), Just(64), Just(100), Just(104), Just(1_024), 0_u64..1 << 24];
    let pool = prop_oneof![0_u64..3, Just(4_095), Just(4_096), Just(65_535)];
    let space = prop_oneof![0_u64..4, Just(4_096), Just(4_097), Just(65_535)];
    let small = prop_oneof![any::<u32>(), Just(u32::MAX), 0_u32..300];
    prop_oneof![
        1 => (3_usize..TABLE + 20, odd_word()).prop_map(|(at, word)| Harm::Word(at, word)),
        2 => (NAMES..NAMES + 3, odd_word()).prop_map(|(at, word)| Harm::Word(at, word)),
        2 => (FLUSHES..FLUSHES + 6, odd_word()).prop_map(|(at, word)| Harm::Word(at, word)),
        4 => (0_usize..9, chunk, 0_u64..256, pool, space)
            .prop_map(|(at, chunk, class, pool, space)| Harm::Slab(at, chunk, class, pool, space)),
        6 => (0_usize..8, prop_oneof![Just(64_usize), Just(104), Just(256), Just(1_024)], 0_usize..400, small)
            .prop_flat_map(|(slab, chunk, number, value)| {
                (0_usize..12).prop_map(move |word| Harm::Header(slab, chunk * number + 4 * word, value))
            }),
        4 => (0..8 * SLAB * 8).prop_map(Harm::Bit),
        2 => (0..8 * SLAB - 64, any::<u64>()).prop_map(|(at, seed)| Harm::Noise(at, seed)),
        1 => (0..8 * SLAB).prop_map(Harm::SlabsEnd),
        1 => (0..(TABLE + 16) * 8).prop_map(Harm::WordsEnd),
    ]
}

fn do_harm(words: &mut Vec<u8>, slabs: &mut Vec<u8>, harm: &Harm) {
    let set = |bytes: &mut [u8], at: usize, new: &[u8]| {
        if let Some(place) = bytes.get_mut(at..at + new.len()) {
            place.copy_from_slice(new);
        }
    };
    match *harm {
        Harm::Word(at, word) => set(words, at * 8, &word.to_le_bytes()),
        Harm::Slab(at, chunk, class, pool, space) => {
            let word = chunk << 40 | class << 32 | pool << 16 | space;
            set(words, (TABLE + at) * 8, &word.to_le_bytes());
        }
        Harm::Header(slab, at, value) => set(slabs, slab * SLAB + at, &value.to_le_bytes()),
        Harm::Bit(at) => {
            if let Some(byte) = slabs.get_mut(at / 8) {
                *byte ^= 1 << (at % 8);
            }
        }
        Harm::Noise(at, seed) => {
            let noise: Vec<u8> = (0..64).map(|i| base::hash::mix64(seed + i) as u8).collect();
            set(slabs, at, &noise);
        }
        Harm::SlabsEnd(len) => slabs.truncate(len),
        Harm::WordsEnd(len) => words.truncate(len),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn damaged_files_are_refused_or_lose_items_and_nothing_else(
        harms in prop::collection::vec(harm(), 1..40),
    ) {
        static SOUND: std::sync::OnceLock<(Vec<u8>, Vec<u8>)> = std::sync::OnceLock::new();
        let (words, slabs) = SOUND.get_or_init(|| sound_files(&Folder::new("sound").0));
        let (mut words, mut slabs) = (words.clone(), slabs.clone());
        harms.iter().for_each(|harm| do_harm(&mut words, &mut slabs, harm));
        let folder = Folder::new("harmed");
        fs::create_dir_all(&folder.0).expect("makes the folder");
        fs::write(folder.0.join("words"), &words).expect("writes");
        fs::write(folder.0.join("slabs"), &slabs).expect("writes");
        use_all(&open(&folder.0));
    }
}

#[test]
fn files_of_another_kind_are_refused() {
    let folder = Folder::new("foreign");
    fs::create_dir_all(&folder.0).expect("makes the folder");
    fs::write(folder.0.join("slabs"), b"precious").expect("writes");
    for foreign in [&b"#!/bin/sh\n"[..], b"MLPDSHM\0\x01\0\0\0\0\0\0\0", &[7; 1 << 20]] {
        fs::write(folder.0.join("words"), foreign).expect("writes");
        let refused = Cache::new(config(&folder.0, 32)).expect_err("not ours");
        assert_eq!(refused.kind(), ErrorKind::System);
        assert_eq!(fs::read(folder.0.join("slabs")).expect("reads"), b"precious");
    }
}

/// A cache with pools of these names, with keys of their own or not.
fn open_with(folder: &Path, names: &[(&str, bool)]) -> (Cache, Vec<PoolId>) {
    let cache = open(folder);
    let add = |&(name, own_keys): &(&str, bool)| {
        cache.add_pool(PoolConfig { own_keys, ..PoolConfig::named(name) }).expect("new")
    };
    let pools = names.iter().map(add).collect();
    (cache, pools)
}

fn find(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    cache.find(key).map(|found| found.to_vec())
}

#[test]
fn pool_absent_from_a_run_that_writes_its_keys_brings_nothing_back() {
    let folder = Folder::new("absent");
    {
        let (cache, pools) = open_with(&folder.0, &[("a", false), ("c", true)]);
        for key in [&b"balance"[..], b"session", b"other"] {
            put(&cache, pools[0], key, b"old").expect("room");
            put(&cache, pools[1], key, b"own").expect("room");
        }
    }
    {
        // Nothing is written: all is there in the next run.
        let (cache, _) = open_with(&folder.0, &[("b", false)]);
        assert_eq!(find(&cache, b"balance"), None);
    }
    {
        let (cache, _) = open_with(&folder.0, &[("a", false)]);
        assert_eq!(find(&cache, b"balance").as_deref(), Some(&b"old"[..]));
    }
    {
        let (cache, pools) = open_with(&folder.0, &[("b", false)]);
        put(&cache, pools[0], b"balance", b"new").expect("room");
        assert!(cache.remove(b"balance") && !cache.remove(b"session"));
        cache.validate();
    }
    let (cache, pools) = open_with(&folder.0, &[("a", false), ("b", false), ("c", true)]);
    assert_eq!([&b"balance"[..], b"session", b"other"].map(|key| find(&cache, key)), [None, None, None]);
    let own = |key: &[u8]| cache.keys(pools[2]).find(key).map(|found| found.to_vec());
    assert_eq!(own(b"balance").as_deref(), Some(&b"own"[..]), "nobody else writes to keys of its own");
    cache.validate();
}

#[test]
fn pool_added_after_the_first_write_to_its_keys_brings_nothing_back() {
    let writes: [fn(&Cache, PoolId); 3] = [
        |cache, _| assert!(!cache.remove(b"session")),
        |cache, pool| put(cache, pool, b"else", b"new").expect("room"),
        |cache, pool| {
            let item = cache.allocate(pool, b"else", 1, &ItemOptions::default()).expect("room");
            assert!(cache.insert(item).is_ok());
        },
    ];
    for (i, write) in writes.into_iter().enumerate() {
        let folder = Folder::new(&format!("late-{i}"));
        {
            let (cache, pools) = open_with(&folder.0, &[("a", false)]);
            put(&cache, pools[0], b"session", b"old").expect("room");
        }
        let (cache, pools) = open_with(&folder.0, &[("b", false)]);
        write(&cache, pools[0]);
        cache.add_pool(PoolConfig { own_keys: false, ..PoolConfig::named("a") }).expect("new");
        assert_eq!(find(&cache, b"session"), None, "write {i}");
        cache.validate();
    }
}

#[test]
fn pool_that_shares_its_keys_anew_loses_its_items() {
    let folder = Folder::new("shares");
    drop(open_with(&folder.0, &[("a", false)]));
    let items = |cache: &Cache, pool| cache.items(pool).expect("is there").count();
    {
        let (cache, pools) = open_with(&folder.0, &[("a", false)]);
        put(&cache, pools[0], b"key", b"shared").expect("room");
    }
    {
        // Keys of its own were nobody else's before.
        let (cache, pools) = open_with(&folder.0, &[("a", true)]);
        assert_eq!(items(&cache, pools[0]), 1);
    }
    let (cache, pools) = open_with(&folder.0, &[("a", false)]);
    assert_eq!((items(&cache, pools[0]), find(&cache, b"key")), (0, None));
    cache.validate();
}

/// Runs `child` in a forked child, which must end by itself and well.
fn fork(child: impl FnOnce()) {
    // SAFETY: no other thread of this process uses what the child does: its own cache, and the
    // heap, which the C library keeps whole.
    match unsafe { libc::fork() } {
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: waits for the child just made.
            let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
            assert_eq!((ended, status), (pid, 0), "the child's status");
        }
    }
}

#[test]
fn forked_child_sees_an_empty_cache_and_changes_nothing_of_its_parent() {
    let folder = Folder::new("fork");
    let cache = open(&folder.0);
    let (shared, apart) = add_pools(&cache);
    for key in 0..1_000_u32 {
        put(&cache, shared, &key.to_le_bytes(), &[1; 100]).expect("room");
    }
    let held = cache.find(&7_u32.to_le_bytes()).expect("is there");
    let mut begun = cache.allocate(shared, b"begun", 3, &ItemOptions::default()).expect("room");
    begun.value_mut().copy_from_slice(b"new");
    fork(|| {
        assert!((0..1_000_u32).all(|key| cache.find(&key.to_le_bytes()).is_none()));
        assert!(!cache.remove(&3_u32.to_le_bytes()));
        let refused = put(&cache, apart, b"key", b"value").expect_err("nothing can be put here");
        assert_eq!(refused.kind(), ErrorKind::System);
        let _ = (cache.maintain(), cache.set_memory(ByteSize::mib(8)), cache.reap());
        // What the child opens itself is its own.
        let other = Folder::new("fork-child");
        let own = open(&other.0);
        let (pool, _) = add_pools(&own);
        put(&own, pool, b"key", b"value").expect("room");
        assert_eq!(find(&own, b"key").as_deref(), Some(&b"value"[..]));
    });
    assert!(*held == [1; 100]);
    cache.put(begun);
    assert_eq!(find(&cache, b"begun").as_deref(), Some(&b"new"[..]));
    assert!(
        (0..1_000_u32).all(|key| find(&cache, &key.to_le_bytes()).is_some_and(|found| found == [1; 100]))
    );
    drop(held);
    cache.validate();
}

#[test]
fn forked_child_that_lives_on_does_not_keep_the_lock() {
    let folder = Folder::new("fork-lock");
    let cache = open(&folder.0);
    let (mut ends, mut ready) = ([0; 2], [0; 1]);
    // SAFETY: two descriptors are written.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the child only waits, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: reads a byte into room for one, from a descriptor of this process; ends the
        // child.
        unsafe {
            libc::close(ends[1]);
            libc::read(ends[0], ready.as_mut_ptr().cast(), 1);
            libc::_exit(0)
        }
    }
    drop(cache);
    drop(open(&folder.0));
    // SAFETY: closes what is open, at which the child ends, and waits for that.
    unsafe {
        libc::close(ends[1]);
        libc::close(ends[0]);
        assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
    }
}

#[test]
fn heap_of_a_forked_child_is_its_own() {
    let cache = Cache::new(CacheConfig { shared: None, ..config(Path::new(""), 32) }).expect("made");
    let (pool, _) = add_pools(&cache);
    put(&cache, pool, b"key", b"parent").expect("room");
    fork(|| {
        put(&cache, pool, b"key", b"child").expect("room");
        assert_eq!(find(&cache, b"key").as_deref(), Some(&b"child"[..]));
    });
    assert_eq!(find(&cache, b"key").as_deref(), Some(&b"parent"[..]));
}

#[test]
fn memory_that_no_cache_or_machine_has_is_refused() {
    let make = |memory, max_memory| {
        Cache::new(CacheConfig { memory, max_memory, huge_pages: false, ..CacheConfig::default() })
    };
    let (one, huge) = (ByteSize::mib(16), ByteSize::gib(257));
    for (memory, max_memory) in [
        (huge, None),
        (ByteSize::new(u64::MAX), None),
        (ByteSize::new(1 << 50), Some(one)),
        (one, Some(huge)),
    ] {
        let refused = make(memory, max_memory).expect_err("too much");
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains("at most 256GiB"), "{refused}");
    }
    let machine = ByteSize::new(base::machine::total_bytes().expect("the system says"));
    if machine < ByteSize::gib(256) {
        let more = ByteSize::new(machine.as_u64() + 1);
        let refused = make(more, None).expect_err("more than there is");
        assert!(refused.to_string().contains("more than this machine has"), "{refused}");
    }
    // Address space for more costs hardly anything, and memory can grow into it.
    let cache = make(one, None).expect("made");
    let small = make(one, Some(one)).expect("made");
    let spent = |cache: &Cache| cache.ledger().total();
    assert_eq!(spent(&cache), spent(&small));
    assert!(cache.max_memory() >= one && small.max_memory() == one);
    let before = spent(&cache);
    cache.set_memory(cache.max_memory().min(ByteSize::mib(64))).expect("it grows");
    assert!((before..before + 1_000).contains(&spent(&cache)));
    cache.set_memory(one).expect("it shrinks");
}
