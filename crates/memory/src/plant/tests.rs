use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::hash::mix64;
use base::rng::{RngExt, SeededRng, seeded};

use super::Plant;
use crate::tail;
use crate::{
    ByteSize, Cache, CacheConfig, Clock, Expiry, ItemOptions, ItemRef, ItemTag, Lifecycle, PolicyKind,
    PoolConfig, PoolId, ReadHandle, RemovalCause, RemovedItem, SizeClassConfig,
};

const KEYS: u32 = 24_000;
const OPERATIONS: u32 = 60_000;
const BETWEEN_CHECKS: u32 = 5_000;
/// All kinds of items, and links, fit into chunks of this size, and none into smaller ones.
const CHUNK: u32 = 1_024;
/// Bytes of a structure.
const TAIL: usize = 800;

/// Objects to some evictions, and counts ends.
#[derive(Default)]
struct Ends {
    removed: AtomicU64,
    destroyed: AtomicU64,
}

impl Lifecycle for Ends {
    fn may_evict(&self, item: ItemRef<'_>) -> bool {
        !item.key().ends_with(b"7")
    }

    fn on_remove(&self, _item: RemovedItem<'_>, _cause: RemovalCause) {
        self.removed.fetch_add(1, Ordering::Relaxed);
    }

    fn on_destroy(&self, _item: RemovedItem<'_>, _cause: RemovalCause) {
        self.destroyed.fetch_add(1, Ordering::Relaxed);
    }
}

/// A cache in which items of all kinds share one size class, come and go in every way, and whose
/// pools and slabs do so too.
struct Mixture {
    cache: Cache,
    clock: Clock,
    rng: SeededRng,
    policy: PolicyKind,
    /// One pool without and one with a lifecycle; and one that is removed and added again.
    pools: [PoolId; 3],
    rounds: u32,
    ends: Arc<Ends>,
}

fn key(i: u32) -> Vec<u8> {
    format!("key-{i}").into_bytes()
}

impl Mixture {
    fn new(policy: PolicyKind, seed: u64) -> Self {
        let clock = Clock::manual(1_000);
        let cache = Cache::new(CacheConfig {
            memory: ByteSize::mib(24),
            clock: clock.clone(),
            hash_seed: Some(seed),
            huge_pages: false,
            ..CacheConfig::default()
        })
        .expect("a cache");
        let classes = SizeClassConfig::List(vec![CHUNK, 64 << 10]);
        let config = |name: &str| PoolConfig { policy, classes: classes.clone(), ..PoolConfig::named(name) };
        let ends = Arc::new(Ends::default());
        let plain = cache.add_pool(config("plain")).expect("a pool");
        let lifecycle = Some(ends.clone() as Arc<dyn Lifecycle>);
        let told = cache.add_pool(PoolConfig { lifecycle, ..config("told") }).expect("a pool");
        let guest = cache.add_pool(config("guest-0")).expect("a pool");
        let rng = seeded(seed);
        Self { cache, clock, rng, policy, pools: [plain, told, guest], rounds: 0, ends }
    }

    /// Makes the item of a key, of the kind that goes with it.
    fn put(&mut self, i: u32) {
        let (cache, key) = (&self.cache, key(i));
        // Mostly in the first pool, so that its queues become what they are meant to be.
        let pool = self.pools[[0, 0, 0, 0, 1, 2][self.rng.random_range(0..6)]];
        let len = self.rng.random_range(700..900);
        let kind = mix64(u64::from(i)) % 8;
        if kind == 7 {
            // A structure of the key, or an end of whatever it had.
            cache.remove(&key);
            let options = ItemOptions { expirable: true, ..ItemOptions::default() };
            if let Ok(new) = tail::make(cache, pool, &key, TAIL, &options) {
                let _ = cache.insert(new);
            }
            return;
        }
        let options = match kind {
            0..=2 => ItemOptions::default(),
            3 => {
                ItemOptions { expiry: Expiry::After(self.rng.random_range(1..20)), ..ItemOptions::default() }
            }
            4 => {
                let tag = Some(ItemTag { cas: u64::from(i), client_flags: 1 });
                ItemOptions { tag, chainable: true, ..ItemOptions::default() }
            }
            _ => ItemOptions { chainable: true, ..ItemOptions::default() },
        };
        let Ok(mut item) = cache.allocate(pool, &key, len, &options) else { return };
        item.value_mut().fill(i as u8);
        for _ in 0..if options.chainable { self.rng.random_range(0..3) } else { 0 } {
            let Ok(mut link) = item.allocate_link(len) else { break };
            link.value_mut().fill(i as u8);
            item.push_link(link).expect("allocated for this item");
        }
        match self.rng.random_range(0..4) {
            0 => drop(cache.insert(item)),
            1 => drop(cache.insert_or_replace(item)),
            _ => cache.put(item),
        }
    }

    fn check(i: u32, found: &ReadHandle<'_>) {
        assert_eq!(found.key(), key(i), "what is found has the key that was asked for");
        assert!(found.iter().all(|byte| *byte == i as u8), "and a value of that key");
        for link in found.links() {
            assert!(link.iter().all(|byte| *byte == i as u8), "and so have its links");
        }
    }

    fn change_chain(&mut self, i: u32) {
        let Some(found) = self.cache.find(&key(i)) else { return };
        Self::check(i, &found);
        let (Ok(mut link), first) = (found.allocate_link(800), found.links().next()) else { return };
        link.value_mut().fill(i as u8);
        match (self.rng.random_range(0..3), first) {
            (0, _) => drop(found.push_link(link)),
            (1, Some(first)) => drop(found.replace_link(&first, link)),
            (1, None) => {}
            _ => {
                let options = ItemOptions { chainable: true, ..ItemOptions::default() };
                let Ok(mut new) = self.cache.allocate(found.pool(), &key(i), 800, &options) else { return };
                new.value_mut().fill(i as u8);
                drop(self.cache.transfer_chain_and_replace(&found, new));
            }
        }
    }

    /// Has a pool of small items without hooks give all its memory back, a run with many of them at
    /// a time.
    fn give_all_back(&self) {
        let pool = self.cache.add_pool(PoolConfig::named("small")).expect("a new name");
        for i in 0..200 {
            if let Ok(mut item) = self.cache.allocate(pool, &key(i), 100, &ItemOptions::default()) {
                item.value_mut().fill(i as u8);
                self.cache.put(item);
            }
        }
        self.cache.set_pool_limit(pool, Some(ByteSize::new(0))).expect("nothing is held");
    }

    /// Does what an administrator does.
    fn administer(&mut self) {
        self.rounds += 1;
        let cache = &self.cache;
        match self.rounds % 6 {
            0 => {
                // Another pool gets the number and the slabs, cut otherwise.
                cache.remove_pool(self.pools[2]).expect("it is there");
                let chunk = [CHUNK, 4 << 20, 100_000][self.rounds as usize / 6 % 3];
                let classes = SizeClassConfig::List(vec![chunk.max(CHUNK)]);
                let name = format!("guest-{}", self.rounds);
                let config = PoolConfig { policy: self.policy, classes, ..PoolConfig::named(name) };
                self.pools[2] = cache.add_pool(config).expect("the number is free");
                for i in 0..3 {
                    if let Ok(mut item) =
                        cache.allocate(self.pools[2], &key(KEYS + i), 90_000, &ItemOptions::default())
                    {
                        item.value_mut().fill((KEYS + i) as u8);
                        cache.put(item);
                    }
                }
            }
            1 | 4 => {
                // A slab of the first pool leaves with what is in it.
                let held = cache.find(&key(self.rng.random_range(0..KEYS)));
                let slabs = cache.stats().pools[0].slab_bytes;
                let less = ByteSize::new(slabs.saturating_sub(4 << 20).max(8 << 20));
                let _ = cache.set_pool_limit(self.pools[0], Some(less));
                cache.set_pool_limit(self.pools[0], None).expect("it is there");
                drop(held);
            }
            2 => {
                // The last run of a class leaves, and its items have nowhere to go.
                for pool in &self.pools[1..] {
                    let _ = cache.set_pool_limit(*pool, Some(ByteSize::new(0)));
                    cache.set_pool_limit(*pool, None).expect("it is there");
                }
            }
            3 => cache.keys(self.pools[0]).flush_at(self.clock.unix_secs() + 1_000),
            _ => drop(cache.maintain()),
        }
    }

    fn step(&mut self) {
        let i = self.rng.random_range(0..KEYS);
        match self.rng.random_range(0..100) {
            0..25 => self.put(i),
            // What is found twice moves to the main queue.
            25..75 => {
                if self.cache.peek(&key(i)).is_none() {
                    self.put(i);
                }
                for _ in 0..2 {
                    self.cache.find_with(&key(i), |found| assert_eq!(found.key(), key(i)));
                }
            }
            75..85 => drop(self.cache.find(&key(i)).inspect(|found| Self::check(i, found))),
            85..90 => drop(self.cache.remove(&key(i))),
            90..93 => drop(self.cache.touch(&key(i), Expiry::After(5))),
            93..95 => {
                let held = self.cache.find(&key(i));
                let _was_current = held.is_some_and(|held| self.cache.remove_matching(&held));
            }
            _ => self.change_chain(i),
        }
    }

    /// Goes on for this many operations; checks everything now and then, and at the end.
    fn run(&mut self, operations: u32) {
        for operation in 1..=operations {
            self.step();
            if operation % 1_000 == 0 {
                self.clock.advance(Duration::from_secs(1));
                self.cache.reap();
            }
            if operation % 4_000 == 0 {
                self.administer();
            }
            // Later, what it left behind might be read.
            if operation % BETWEEN_CHECKS == 0 || self.cache.core().planted.has_struck() {
                self.cache.validate();
            }
        }
        self.cache.validate();
    }

    /// Removes all that there is, and checks that nothing is left.
    fn finish(self) {
        for pool in self.pools {
            assert!(self.cache.remove_pool(pool).expect("it is there").is_gone, "nothing is held");
        }
        self.cache.validate();
        assert_eq!(self.cache.stats().index_entries, 0);
        for i in 0..KEYS {
            assert!(self.cache.find(&key(i)).is_none());
        }
        let (removed, destroyed) = (&self.ends.removed, &self.ends.destroyed);
        assert!(removed.load(Ordering::Relaxed) > 100, "the told pool was in use");
        assert_eq!(removed.load(Ordering::Relaxed), destroyed.load(Ordering::Relaxed), "each ends once");
    }
}

/// The share of the first queue of the first pool.
fn small_share(mixture: &Mixture) -> f64 {
    let stats = mixture.cache.stats();
    let queues = &stats.pools[0].classes[0].queues;
    queues[0].items as f64 / queues.iter().map(|queue| queue.items).sum::<u64>() as f64
}

#[test]
fn items_of_all_kinds_in_one_class_leave_nothing_behind_under_any_policy() {
    for policy in PolicyKind::ALL {
        let mut mixture = Mixture::new(policy, 11);
        mixture.run(OPERATIONS);
        if policy == PolicyKind::S3_FIFO {
            // Only when the small queue has shrunk to its tenth are items evicted from the main
            // queue, between those of the small one.
            let mut rounds = 0;
            while small_share(&mixture) > 0.12 {
                mixture.run(OPERATIONS / 4);
                rounds += 1;
                assert!(rounds < 400, "the small queue does not shrink: {}", small_share(&mixture));
            }
            mixture.run(OPERATIONS / 4);
        }
        let stats = mixture.cache.stats();
        let class = &stats.pools[0].classes[0];
        assert!(class.evictions > class.chunks / 2 && class.links > 0, "{policy}: {class:?}");
        mixture.finish();
    }
}

#[test]
fn every_planted_unlink_fault_is_found() {
    let plants = [
        Plant::EvictedUnderAnother,
        Plant::ExpiredUnderAnother,
        Plant::ReleasedUnderAnother,
        Plant::FinishedStays,
        Plant::RemovedStays,
        Plant::HeldStays,
        Plant::ReplacedStays,
        Plant::MovedStays,
        Plant::LinksStay,
        Plant::ExchangedLinkStays,
    ];
    for plant in plants {
        let mut mixture = Mixture::new(PolicyKind::S3_FIFO, 5);
        // By then the cache is full.
        mixture.run(OPERATIONS / 4);
        mixture.cache.core().planted.set(plant);
        let found = catch_unwind(AssertUnwindSafe(|| {
            mixture.give_all_back();
            mixture.run(OPERATIONS);
        }));
        assert!(mixture.cache.core().planted.has_struck(), "{plant:?} found nothing to strike");
        assert!(found.is_err(), "{plant:?} was not found");
        // Its items would be read when they end.
        std::mem::forget(mixture);
    }
}
