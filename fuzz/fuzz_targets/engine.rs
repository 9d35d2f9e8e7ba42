//! The engine's public API, in any order: two caches whose pools come and go, with items of all
//! kinds, handles that are kept, cloned and given to the wrong cache, chains, long values,
//! structures, walks, loaders, fences, limits, expiry, flushes, and an embedder that panics.
//!
//! The input is a list of calls of four bytes each. Each value says which cache, pool and key it
//! was made for, at both of its ends, and what is read anywhere must say so. In the end everything
//! is checked and given back.

#![no_main]

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Once};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use millpond::negative::{NegativeCache, NegativeConfig};
use millpond::structured::{Array, Map, StructureOptions};
use millpond::{
    ByteSize, Cache, CacheConfig, Clock, Expiry, Fence, ItemOptions, ItemRef, ItemTag, Items, Keys,
    Lifecycle, Link, LinkHandle, LoadOptions, Loaded, Loader, PolicyKind, PoolConfig, PoolId, ReadHandle,
    RemovalCause, RemovedItem, SizeClassConfig, Step, WriteHandle,
};

thread_local! {
    /// True while a panic of the engine itself is allowed.
    static MAY_PANIC: Cell<bool> = const { Cell::new(false) };
    /// The caches that the embedder's hooks use; `MOOD` chooses their next calls.
    static CACHES: RefCell<Vec<Cache>> = const { RefCell::new(Vec::new()) };
    static MOOD: Cell<u8> = const { Cell::new(0) };
    /// Number of panics still to come in the hook that is asked which items may be evicted.
    static PANICS_LEFT: Cell<u32> = const { Cell::new(0) };
}

const KEYS: u8 = 24;
const MOST_HELD: usize = 24;
const MOST_LONG: u32 = 2;
const MOST_PANICS: u32 = 1_000;
const STAMP: usize = size_of::<u64>();
const LENGTHS: [usize; 8] = [8, 100, 900, 5_000, 60_000, 250_000, 1_000_000, 4_000_000];

/// The stamp at the start of a value.
fn stamp(cache: usize, pool: u16, key: u8) -> [u8; STAMP] {
    let mut stamp = *b"?????val";
    stamp[0] = cache as u8;
    stamp[1..3].copy_from_slice(&pool.to_le_bytes());
    stamp[3] = key;
    stamp
}

fn write(bytes: &mut [u8], stamp: [u8; STAMP]) {
    let len = bytes.len();
    bytes[..STAMP].copy_from_slice(&stamp);
    bytes[len - STAMP..].copy_from_slice(&stamp);
}

/// Checks that a value was made for this cache, and for this pool and key where these are known. An
/// empty one is a loader's word that there is none.
fn check(bytes: &[u8], cache: usize, pool: Option<u16>, key: Option<u8>) {
    if bytes.is_empty() {
        return;
    }
    let said: [u8; STAMP] = bytes[..STAMP].try_into().unwrap();
    assert_eq!(said, bytes[bytes.len() - STAMP..], "a torn value");
    assert_eq!((usize::from(said[0]), &said[5..]), (cache, &b"val"[..]), "a value of another cache, or none");
    let of = u16::from_le_bytes([said[1], said[2]]);
    assert!(pool.is_none_or(|pool| pool == of), "a value of pool {of}, and not of {pool:?}");
    assert!(key.is_none_or(|key| key == said[3]), "a value of key {}, and not of {key:?}", said[3]);
}

fn name(key: u8) -> Vec<u8> {
    vec![b'a' + key; 1 + usize::from(key) * 10]
}

fn key_of(name: &[u8]) -> u8 {
    name[0] - b'a'
}

/// An embedder who objects, uses the cache, and panics.
struct Hooks(usize);

impl Hooks {
    fn act(&self, item: ItemRef<'_>) {
        let mood = MOOD.get();
        MOOD.set(mood.wrapping_mul(5).wrapping_add(13));
        if !item.is_structured() && !item.is_long() {
            check(&item, self.0, None, Some(key_of(item.key())));
        }
        if mood % 4 == 0 {
            let cache = CACHES.with_borrow(|caches| caches[self.0].clone());
            let key = name(mood % KEYS);
            drop(cache.find(&key));
            if mood % 8 == 0 {
                cache.remove(&key);
            }
        }
        if mood % 16 == 1 {
            resume_unwind(Box::new("the embedder's"));
        }
    }
}

impl Lifecycle for Hooks {
    fn may_evict(&self, item: ItemRef<'_>) -> bool {
        let mood = MOOD.get();
        MOOD.set(mood.wrapping_mul(5).wrapping_add(17));
        assert!(!item.key().is_empty());
        // A panic takes the sanitizer half a millisecond, and a single allocation may ask 10,000
        // times.
        if mood % 32 == 2 && PANICS_LEFT.replace(PANICS_LEFT.get().saturating_sub(1)) > 0 {
            resume_unwind(Box::new("the embedder's"));
        }
        mood % 8 != 3
    }

    fn on_remove(&self, item: RemovedItem<'_>, _cause: RemovalCause) {
        self.act(*item);
    }

    fn on_destroy(&self, item: RemovedItem<'_>, _cause: RemovalCause) {
        if !item.is_long() {
            item.links().for_each(|link| check(&link, self.0, None, Some(key_of(item.key()))));
        }
        self.act(*item);
    }
}

struct Pool {
    id: PoolId,
    /// Number of the pool in the stamps of its values.
    serial: u16,
    own_keys: bool,
}

struct World<'c> {
    caches: [&'c Cache; 2],
    clock: &'c Clock,
    pools: [Vec<Pool>; 2],
    /// Pools, and those that were removed, with what was asked of them.
    keys: Vec<(usize, Keys<'c>, Option<u16>)>,
    walks: Vec<(usize, Items<'c>, u16)>,
    loaders: Vec<(usize, Loader, u16)>,
    fences: Vec<(usize, Fence)>,
    held: Vec<(usize, ReadHandle<'c>)>,
    made: Vec<(usize, u8, WriteHandle<'c>)>,
    links: Vec<(usize, u8, Link<'c>)>,
    held_links: Vec<(usize, u8, LinkHandle<'c>)>,
    maps: Vec<Map<u8, [u8]>>,
    arrays: Vec<Array<u32>>,
    negative: [NegativeCache; 2],
    serial: u16,
    long: u32,
}

fn pick<T>(all: &[T], number: u8) -> Option<&T> {
    all.get(usize::from(number) % all.len().max(1))
}

fn push<T>(all: &mut Vec<T>, one: T) {
    if all.len() >= MOST_HELD {
        all.remove(0);
    }
    all.push(one);
}

fn options(kind: u8, seed: u8) -> ItemOptions {
    let tag = ItemTag { cas: seed.into(), client_flags: u32::from(seed % 2) };
    ItemOptions {
        expiry: if kind & 1 != 0 { Expiry::After(u32::from(seed % 16)) } else { Expiry::Never },
        expirable: kind & 2 != 0,
        chainable: kind & 4 != 0,
        client_flags: u32::from(kind >> 6),
        tag: (kind & 8 != 0).then_some(tag),
        user_bits: kind >> 4 & 3,
    }
}

impl<'c> World<'c> {
    fn pool(&self, which: usize, number: u8) -> Option<&Pool> {
        pick(&self.pools[which], number)
    }

    /// Makes an item, which is not seen yet.
    fn make(&mut self, which: usize, [a, b, c]: [u8; 3]) -> Option<WriteHandle<'c>> {
        let (id, serial) = self.pool(which, a >> 5).map(|pool| (pool.id, pool.serial))?;
        let (key, options) = (a % KEYS, options(c, b));
        let mut item = match b {
            255 => self.caches[which].allocate(id, &name(key), usize::MAX - usize::from(c), &options),
            _ => self.caches[which].allocate(id, &name(key), LENGTHS[usize::from(b % 8)], &options),
        }
        .ok()?;
        write(item.value_mut(), stamp(which, serial, key));
        Some(item)
    }

    fn link_for(&self, which: usize, item: &ReadHandle<'c>, len: u8) -> Option<Link<'c>> {
        let mut link = item.allocate_link(LENGTHS[usize::from(len % 7)]).ok()?;
        write(link.value_mut(), stamp(which, 0, key_of(item.key())));
        Some(link)
    }

    fn look(which: usize, pool: Option<u16>, found: &ReadHandle<'_>) {
        let key = key_of(found.key());
        if !found.is_structured() {
            // A long value is looked at where it lies, and now and then together.
            check(found, which, pool, Some(key));
        }
        if !found.is_long() {
            for link in found.links() {
                check(&link, which, None, Some(key));
            }
        }
    }

    fn call(&mut self, [what, a, b, c]: [u8; 4]) {
        let which = usize::from(what >> 7);
        let cache = self.caches[which];
        match what % 42 {
            0..=5 => {
                let Some(item) = self.make(which, [a, b, c]) else { return };
                match what % 42 {
                    0..=2 => cache.put(item),
                    3 => drop(cache.insert(item)),
                    4 => drop(cache.insert_or_replace(item)),
                    _ => push(&mut self.made, (which, a % KEYS, item)),
                }
            }
            6 if !self.made.is_empty() => {
                let (_, _, item) = self.made.swap_remove(usize::from(a) % self.made.len());
                drop(cache.insert(item));
            }
            7..=9 => {
                if let Some(found) = cache.find(&name(a % KEYS)) {
                    Self::look(which, None, &found);
                    push(&mut self.held, (which, found));
                }
            }
            10 => self.look_in_place(which, [a, b, c]),
            11 => drop(cache.remove(&name(a % KEYS))),
            12 if !self.held.is_empty() => {
                let (which, held) = self.held.swap_remove(usize::from(a) % self.held.len());
                Self::look(which, None, &held);
            }
            13 => self.clone_handles(a, b, c),
            14..=18 => self.change_chain(what % 42, [a, b, c]),
            19 | 20 => self.exchange(which, what % 42, [a, b, c]),
            21 => drop(cache.touch(&name(a % KEYS), Expiry::After(b.into()))),
            22 => {
                self.clock.advance(Duration::from_secs(u64::from(a % 8)));
                match b % 3 {
                    0 => drop(cache.reap()),
                    _ => drop(cache.maintain()),
                }
            }
            23 => self.add_pool(which, [a, b, c]),
            24 => self.remove_pool(which, a),
            25..=28 => self.administer(which, what % 42, [a, b, c]),
            29..=31 => self.use_keys(what % 42, [a, b, c]),
            32 => self.walk(which, [a, b, c]),
            33 | 34 => self.use_structures(which, [a, b, c]),
            35 => self.put_long(which, [a, b, c]),
            36 => self.load([a, b, c]),
            37 => {
                // A ticket of the other cache's may be tried.
                let ticket = self.negative[usize::from(b % 2)].begin(&name(a % KEYS));
                assert!(!self.negative[which].note(ticket) || usize::from(b % 2) == which);
            }
            38 => cache.validate(),
            39 => {
                if let Some(&(which, keys, _)) = pick(&self.keys, b) {
                    push(&mut self.fences, (which, keys.fence(&name(a % KEYS))));
                }
            }
            40 => self.put_fenced(which, [a, b, c]),
            _ => drop(cache.stats()),
        }
    }

    /// Stores an item under a fence, perhaps one of another key or cache.
    fn put_fenced(&mut self, which: usize, [a, b, c]: [u8; 3]) {
        let Some(item) = self.make(which, [a, b, c]) else { return };
        let Some((of, fence)) = pick(&self.fences, c) else { return };
        let holds = fence.holds();
        let is_stored = self.caches[which].put_fenced(fence, item).is_ok();
        assert!(!is_stored || (holds && *of == which && !fence.holds()));
    }

    fn look_in_place(&self, which: usize, [a, b, c]: [u8; 3]) {
        let cache = self.caches[which];
        let look = |found: ItemRef<'_>| {
            if !found.is_structured() {
                check(&found, which, None, Some(a % KEYS));
            }
            if b % 8 == 0 {
                resume_unwind(Box::new("the caller's"));
            }
            if b % 8 == 1 {
                drop(cache.find(&name(c % KEYS)));
            }
        };
        let _ = catch_unwind(AssertUnwindSafe(|| cache.find_with(&name(a % KEYS), look)));
    }

    /// Removes or replaces what a handle holds, perhaps one of the other cache.
    fn exchange(&mut self, which: usize, what: u8, [a, b, c]: [u8; 3]) {
        let cache = self.caches[which];
        if what == 19 {
            let Some((_, held)) = pick(&self.held, a) else { return };
            cache.remove_matching(held);
            return;
        }
        let Some(item) = self.make(usize::from(c >> 7), [a, b, c]) else { return };
        let Some((_, held)) = pick(&self.held, c) else { return };
        match b % 3 {
            0 => drop(cache.replace_matching(held, item)),
            _ => drop(cache.transfer_chain_and_replace(held, item)),
        }
    }

    fn clone_handles(&mut self, a: u8, b: u8, c: u8) {
        if let Some((which, held)) = pick(&self.held, a) {
            let (which, copy) = (*which, held.try_clone());
            if b == 0 && c == 0 {
                // All that there are.
                let all: Vec<_> = std::iter::from_fn(|| held.try_clone()).collect();
                MAY_PANIC.set(true);
                assert!(catch_unwind(AssertUnwindSafe(|| held.clone())).is_err());
                MAY_PANIC.set(false);
                drop(all);
            }
            self.held.extend(copy.map(|copy| (which, copy)));
            self.held.truncate(MOST_HELD);
        }
    }

    fn change_chain(&mut self, what: u8, [a, b, c]: [u8; 3]) {
        let Some((which, held)) = pick(&self.held, a) else { return };
        let which = *which;
        match what {
            14 => {
                let made = self.link_for(which, held, b).map(|link| (which, key_of(held.key()), link));
                if let Some(made) = made {
                    push(&mut self.links, made);
                }
            }
            15 if !self.links.is_empty() => {
                // Perhaps one that was made for another item, in the other cache.
                let (of, key, link) = self.links.swap_remove(usize::from(b) % self.links.len());
                if held.push_link(link).is_ok() {
                    assert_eq!((of, key), (which, key_of(held.key())));
                }
            }
            16 => {
                if let Some(link) = held.pop_link() {
                    let key = key_of(held.key());
                    check(&link, which, None, Some(key));
                    push(&mut self.held_links, (which, key, link));
                }
            }
            17 => {
                let Some(new) = self.link_for(which, held, c) else { return };
                let old = pick(&self.held_links, b).map(|(_, _, old)| old.clone());
                match old.filter(|_| c % 4 == 0) {
                    Some(old) => drop(held.replace_link(&old, new)),
                    None => {
                        drop(held.links().nth(usize::from(b % 4)).map(|old| held.replace_link(&old, new)))
                    }
                }
            }
            _ if !self.held_links.is_empty() => {
                let (which, key, link) = self.held_links.swap_remove(usize::from(b) % self.held_links.len());
                check(&link, which, None, Some(key));
            }
            _ => {}
        }
    }

    fn add_pool(&mut self, which: usize, [a, b, c]: [u8; 3]) {
        if self.pools[which].len() >= 5 {
            return;
        }
        self.serial += 1;
        let classes = match a % 3 {
            0 => SizeClassConfig::List(vec![1_024, 64 << 10, 4 << 20]),
            1 => SizeClassConfig::List(vec![128 << 10, 256 << 10]),
            _ => SizeClassConfig::default(),
        };
        let lifecycle = (b % 2 == 0).then(|| Arc::new(Hooks(which)) as Arc<dyn Lifecycle>);
        let config = PoolConfig {
            classes,
            lifecycle,
            own_keys: b % 4 < 2,
            policy: PolicyKind::ALL[usize::from(c) % PolicyKind::ALL.len()],
            ..PoolConfig::named(self.serial.to_string())
        };
        let own_keys = config.own_keys;
        if let Ok(id) = self.caches[which].add_pool(config) {
            let pool = Pool { id, serial: self.serial, own_keys };
            push(&mut self.keys, (which, self.caches[which].keys(id), own_keys.then_some(self.serial)));
            let loader = Loader::new(self.caches[which], id);
            push(&mut self.loaders, (which, loader, self.serial));
            self.pools[which].push(pool);
        }
    }

    fn remove_pool(&mut self, which: usize, number: u8) {
        if self.pools[which].len() < 2 {
            return;
        }
        let at = usize::from(number) % self.pools[which].len();
        // Held items keep it, and then it goes on leaving.
        let _ = self.caches[which].remove_pool(self.pools[which].swap_remove(at).id);
    }

    fn administer(&mut self, which: usize, what: u8, [a, b, c]: [u8; 3]) {
        let cache = self.caches[which];
        let Some(&Pool { id, .. }) = self.pool(which, a) else { return };
        match what {
            25 => drop(cache.set_memory(ByteSize::mib(8 + u64::from(b % 24)))),
            26 => {
                let limit = (b % 4 != 0).then(|| ByteSize::mib(u64::from(c % 16)));
                let _ = cache.set_pool_limit(id, limit);
            }
            27 => match b % 4 {
                0 => drop(cache.tune_classes(id)),
                1 => drop(cache.set_pool_policy(id, PolicyKind::ALL[usize::from(c) % PolicyKind::ALL.len()])),
                2 => drop(cache.reclaim()),
                _ => cache.touch_ahead(),
            },
            _ => {
                let held = cache.held(id).expect("it is there");
                assert!(held.items <= held.handles);
            }
        }
    }

    fn use_keys(&mut self, what: u8, [a, b, _]: [u8; 3]) {
        let Some(&(which, keys, pool)) = pick(&self.keys, b) else { return };
        let key = name(a % KEYS);
        match what {
            29 => {
                if let Some(found) = keys.find(&key) {
                    Self::look(which, pool, &found);
                    assert!(!keys.is_gone() || pool.is_none());
                    push(&mut self.held, (which, found));
                }
            }
            30 => {
                let all: Vec<Vec<u8>> = (0..KEYS).map(name).collect();
                let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
                keys.find_many_with(&all, |i, found| {
                    if let Some(found) = found.filter(|found| !found.is_structured()) {
                        check(&found, which, pool, Some(i as u8));
                    }
                });
                let mut found = Vec::new();
                keys.find_many(&all[..8], &mut found);
                found.iter().flatten().for_each(|found| Self::look(which, pool, found));
            }
            _ => match b >> 5 {
                0 => keys.flush(),
                1 => keys.flush_at(self.clock.unix_secs() + 3),
                2 | 3 => drop(keys.touch(&key, Expiry::After(3))),
                4 => {
                    let found = keys.peek(&key).inspect(|found| Self::look(which, pool, found));
                    let tagged = found.map(|found| keys.give_tag(found, || 7).unwrap_or_else(|item| item));
                    let _ = tagged.inspect(|found| Self::look(which, pool, found));
                }
                _ => drop(keys.remove(&key)),
            },
        }
    }

    fn walk(&mut self, which: usize, [a, b, c]: [u8; 3]) {
        if b % 2 == 0 || self.walks.is_empty() {
            let Some(&Pool { id, serial, .. }) = self.pool(which, a) else { return };
            if let Ok(items) = self.caches[which].items(id) {
                push(&mut self.walks, (which, items, serial));
            }
            return;
        }
        let at = usize::from(a) % self.walks.len();
        let (which, items, serial) = &mut self.walks[at];
        let mut chunks = u32::from(c) + 1;
        loop {
            match items.step(&mut chunks) {
                Step::Item(found) if !found.is_structured() => check(&found, *which, Some(*serial), None),
                Step::Item(_) => {}
                Step::Later => break,
                Step::End => {
                    self.walks.swap_remove(at);
                    break;
                }
            }
        }
    }

    fn use_structures(&mut self, which: usize, [a, b, c]: [u8; 3]) {
        let Some(&Pool { id, .. }) = self.pool(which, a >> 5) else { return };
        let (cache, key) = (self.caches[which], name(a % KEYS));
        match b % 6 {
            0 => {
                let options = StructureOptions { entries: usize::from(c), ..StructureOptions::default() };
                if let Ok((map, _)) = Map::open_or_create(cache, id, &key, &options) {
                    push(&mut self.maps, map);
                }
            }
            1 => {
                let options = StructureOptions::default();
                if let Ok((array, _)) = Array::open_or_create(cache, id, &key, usize::from(c), &options) {
                    push(&mut self.arrays, array);
                }
            }
            2 | 3 => {
                if let Some(map) = pick(&self.maps, a) {
                    let _ = map.insert(&b, &[c; 100][..usize::from(c % 100)]);
                    if let Ok(entries) = map.entries() {
                        assert!(entries.iter().all(|(_, value)| value.iter().all(|byte| *byte == value[0])));
                    }
                }
            }
            4 => {
                if let Some(array) = pick(&self.arrays, a) {
                    let _ = array.set(usize::from(c), 7);
                    if let Ok(all) = array.to_vec() {
                        assert!(all.iter().all(|one| [0, 7].contains(one)));
                    }
                }
            }
            _ => {
                if let Some(map) = pick(&self.maps, a) {
                    let _ = map.compact();
                    let _ = map.remove(&c);
                }
            }
        }
    }

    fn put_long(&mut self, which: usize, [a, b, c]: [u8; 3]) {
        if self.long == MOST_LONG {
            return;
        }
        self.long += 1;
        let Some(&Pool { id, serial, .. }) = self.pool(which, a >> 5) else { return };
        let key = a % KEYS;
        let mut value = vec![0; (4 << 20) - 100 + usize::from(b) * 20_000];
        write(&mut value, stamp(which, serial, key));
        if self.caches[which].put_value(id, &name(key), &value, &options(c, b)).is_ok()
            && let Some(found) = self.caches[which].keys(id).find(&name(key))
        {
            assert!(found.whole_len() == value.len() && *found == value[..]);
            push(&mut self.held, (which, found));
        }
    }

    fn load(&mut self, [a, b, c]: [u8; 3]) {
        let Some((which, loader, pool)) = pick(&self.loaders, b) else { return };
        let (which, key) = (*which, a % KEYS);
        let said = stamp(which, *pool, key);
        let load = |_: &[u8]| match c % 4 {
            0 => resume_unwind(Box::new("the caller's")),
            1 => Err(std::io::Error::other("no such thing")),
            2 => Ok(Loaded::absent()),
            _ => Ok(Loaded::value(said)),
        };
        let options = LoadOptions { fresh_secs: Some(10), negative_secs: 3, ..LoadOptions::default() };
        match c >> 5 {
            0 => drop(loader.remove(&name(key))),
            1 => loader.flush(),
            2 => drop(loader.put(&name(key), &options, &Loaded::value(said))),
            _ => {
                let loaded =
                    catch_unwind(AssertUnwindSafe(|| loader.get_or_load(&name(key), &options, load)));
                if let Ok(Ok(fetched)) = loaded
                    && let Some(value) = fetched.value
                    && !value.is_empty()
                {
                    check(&value, which, None, Some(key));
                }
            }
        }
    }

    /// Gives everything back, and checks that nothing is left.
    fn finish(mut self) {
        for (which, held) in &self.held {
            Self::look(*which, None, held);
        }
        for (which, key, link) in &self.held_links {
            check(link, *which, None, Some(*key));
        }
        self.caches.iter().for_each(|cache| cache.validate());
        let (caches, pools) = (self.caches, std::mem::take(&mut self.pools));
        // The lifecycle hooks use the caches.
        drop(self);
        for (cache, pools) in caches.into_iter().zip(pools) {
            cache.validate();
            for pool in pools {
                assert_eq!(cache.held(pool.id).expect("it is there").handles, 0);
                assert!(cache.remove_pool(pool.id).expect("it is there").is_gone);
                assert!(cache.keys(pool.id).is_gone() && (pool.own_keys || cache.items(pool.id).is_err()));
            }
            let _ = cache.maintain();
            cache.validate();
            assert_eq!(cache.stats().index_entries, 0);
            assert!(cache.stats().pools.is_empty(), "nothing keeps a pool");
        }
    }
}

fn new_cache(clock: &Clock) -> Cache {
    Cache::new(CacheConfig {
        memory: ByteSize::mib(16),
        max_memory: Some(ByteSize::mib(32)),
        clock: clock.clone(),
        // The same in both, so that a handle of the one names something in the other.
        hash_seed: Some(1),
        huge_pages: false,
        ..CacheConfig::default()
    })
    .expect("a cache")
}

fuzz_target!(|input: &[u8]| {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !MAY_PANIC.get() {
                report(info);
            }
        }));
    });
    let clock = Clock::manual(1_000);
    let caches = [new_cache(&clock), new_cache(&clock)];
    CACHES.set(caches.to_vec());
    MOOD.set(input.first().copied().unwrap_or(0));
    PANICS_LEFT.set(MOST_PANICS);
    let negative = [0, 1].map(|i: usize| {
        NegativeCache::new(&caches[i], NegativeConfig::new("absent", ByteSize::kib(16)))
            .expect("a negative cache")
    });
    let mut world = World {
        caches: [&caches[0], &caches[1]],
        clock: &clock,
        pools: [Vec::new(), Vec::new()],
        keys: Vec::new(),
        walks: Vec::new(),
        loaders: Vec::new(),
        fences: Vec::new(),
        held: Vec::new(),
        made: Vec::new(),
        links: Vec::new(),
        held_links: Vec::new(),
        maps: Vec::new(),
        arrays: Vec::new(),
        negative,
        serial: 0,
        long: 0,
    };
    for which in [0, 1] {
        world.add_pool(which, [0, 3, 5]);
        world.add_pool(which, [1, 0, 5]);
    }
    for call in input.as_chunks::<4>().0 {
        world.call(*call);
    }
    world.finish();
    CACHES.set(Vec::new());
});
