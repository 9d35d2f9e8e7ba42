//! Memory over a cache that answers late: nothing is lost, and nothing is out of date.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::rng::{RngExt, seeded};

use super::*;
use crate::plant::Plant;
use crate::{ByteSize, Clock, Expiry, ItemOptions, PoolConfig, PoolId};

/// Keeps all that is evicted, some of it where it lies, and answers requests when it is told to.
#[derive(Default)]
struct Late {
    state: Mutex<State>,
    /// Number of times that it was asked whether it has a key.
    looks: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The items by key, with the tickets of their admission; `None` while one is on its way down.
    items: HashMap<(u16, Vec<u8>), (u64, Option<Content>)>,
    /// Erased while a lock of the engine was held.
    erased: Vec<Content>,
    /// Has every item be held as long as that is allowed, not one in three.
    holds_all: bool,
    /// Requests, with what was read when they came: the key may have been written since.
    asked: Vec<(Request, Option<ItemImage>)>,
    tickets: u64,
}

enum Content {
    Image(ItemImage),
    Held(OutgoingHandle),
}

impl Content {
    fn image(&self) -> ItemImage {
        match self {
            Self::Image(image) => image.clone(),
            Self::Held(handle) => handle.item().image().expect("no links"),
        }
    }
}

fn name(key: SecondaryKey<'_>) -> (u16, Vec<u8>) {
    (key.space, key.bytes.to_vec())
}

impl SecondaryCache for Late {
    fn admit(&self, key: SecondaryKey<'_>) -> Option<u64> {
        let mut state = self.state.lock();
        state.tickets += 1;
        let ticket = state.tickets;
        state.items.insert(name(key), (ticket, None));
        Some(ticket)
    }

    fn insert(&self, key: SecondaryKey<'_>, ticket: u64, item: DemotedItem<'_>) {
        let mut state = self.state.lock();
        let held = (state.holds_all || ticket.is_multiple_of(3)).then(|| item.hold()).flatten();
        let content = held.map_or_else(|| Content::Image(item.image().expect("no links")), Content::Held);
        match state.items.get_mut(&name(key)) {
            Some((last, place)) if *last == ticket => *place = Some(content),
            _ => state.erased.push(content),
        }
    }

    fn erase(&self, key: SecondaryKey<'_>) {
        let mut state = self.state.lock();
        let erased = state.items.remove(&name(key));
        state.erased.extend(erased.and_then(|(_, content)| content));
    }

    fn may_have(&self, key: SecondaryKey<'_>) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.state.lock().items.contains_key(&name(key))
    }

    fn fetch(&self, request: Request) {
        let mut state = self.state.lock();
        let read = state.items.get(&name(request.key())).and_then(|(_, content)| content.as_ref());
        let read = read.map(Content::image);
        state.asked.push((request, read));
    }
}

impl Late {
    /// Answers one of the requests, if its item has come down.
    fn answer(&self, which: usize) {
        let erased = std::mem::take(&mut self.state.lock().erased);
        drop(erased);
        let mut state = self.state.lock();
        if state.asked.is_empty() {
            return;
        }
        let at = which % state.asked.len();
        let (request, read) = state.asked.swap_remove(at);
        let present = || state.items.get(&name(request.key()))?.1.as_ref().map(Content::image);
        match read.or_else(present) {
            Some(image) => {
                drop(state);
                request.hit(&image);
            }
            // It is on its way down.
            None if state.items.contains_key(&name(request.key())) => state.asked.push((request, None)),
            None => {
                drop(state);
                drop(request);
            }
        }
    }
}

impl Late {
    /// Lets go of all that it has: what it holds keeps the cache.
    fn clear(&self) {
        let State { items, erased, asked, .. } = std::mem::take(&mut *self.state.lock());
        drop((items, erased, asked));
    }
}

fn cache() -> (Cache, PoolId, Arc<Late>, Clock) {
    let (late, clock) = (Arc::new(Late::default()), Clock::manual(1_000));
    let config = CacheConfig {
        memory: ByteSize::mib(16),
        huge_pages: false,
        clock: clock.clone(),
        ..CacheConfig::default()
    };
    let cache = Cache::over(config, Arc::clone(&late) as Arc<dyn SecondaryCache>).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    (cache, pool, late, clock)
}

fn put(cache: &Cache, pool: PoolId, key: &[u8], value: u64, expiry: Expiry) {
    let options = ItemOptions { expiry, ..ItemOptions::default() };
    let len = if value.is_multiple_of(7) { 300_000 } else { 8 + (value % 900) as usize };
    let mut bytes = vec![value as u8; len];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    cache.put_value(pool, key, &bytes, &options).expect("memory");
}

fn value_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("long enough"))
}

/// Random calls beside a model that loses nothing. Returns the first difference.
fn differs_from_model(seed: u64, plant: Option<Plant>) -> Option<String> {
    let (cache, pool, late, clock) = cache();
    let (mut rng, keys) = (seeded(seed), cache.keys(pool));
    let mut model: HashMap<u8, (u64, u32)> = HashMap::new();
    let mut held: Vec<Pending> = Vec::new();
    let planted_at = 1 + seed * 37 % 1_000;
    for step in 1..2_000_u64 {
        if let Some(plant) = plant.filter(|_| step == planted_at) {
            cache.core().planted.set(plant);
        }
        let key = [rng.random_range(0..6_u8)];
        let now = clock.unix_secs();
        model.retain(|_, (_, expires)| *expires > now);
        match rng.random_range(0..13) {
            0 | 1 => {
                let (expiry, expires) = match rng.random_range(0..3_u32) {
                    0 => (Expiry::Never, u32::MAX),
                    after => (Expiry::After(after), now + after),
                };
                put(&cache, pool, &key, step, expiry);
                model.insert(key[0], (step, expires));
            }
            2 => {
                let was_there = model.remove(&key[0]).is_some();
                if keys.remove(&key) && !was_there {
                    return Some(format!("step {step}: {key:?} was removed and should not be there"));
                }
            }
            3..=5 => drop(keys.evict(&key)),
            6 | 7 => late.answer(rng.random_range(0..9_usize)),
            8 => held.clear(),
            // Takes out what has expired.
            10 => drop(cache.maintain()),
            9 if step.is_multiple_of(5) => {
                keys.flush();
                model.clear();
            }
            9 => clock.advance(std::time::Duration::from_millis(600)),
            _ => {}
        }
        if keys.peek(&key).is_some()
            && late.state.lock().items.contains_key(&(keys.space_number(), key.to_vec()))
        {
            return Some(format!("step {step}: {key:?} is in memory and beneath"));
        }
        let expected = model.get(&key[0]).map(|(value, _)| *value);
        let seen = match keys.bring_again(&key, &held) {
            Brought::Ready(kept) => kept.item().map(|item| value_of(item)),
            Brought::Pending(pending) => {
                held.push(pending);
                continue;
            }
        };
        if seen != expected && clock.unix_secs() == now {
            return Some(format!("step {step}: {key:?} has {seen:?} and should have {expected:?}"));
        }
    }
    late.clear();
    cache.validate();
    (cache.outgoing_bytes() > 0).then(|| "held items are counted still".to_owned())
}

#[test]
fn what_is_brought_back_is_what_was_written_last() {
    for seed in 0..60 {
        assert_eq!(differs_from_model(seed, None), None, "seed {seed}");
    }
}

#[test]
fn a_write_that_leaves_what_is_beneath_is_found() {
    for plant in [Plant::PutLeavesBeneath, Plant::RemovalLeavesBeneath, Plant::BroughtOverAWrite] {
        let found = (0..200).any(|seed| differs_from_model(seed, Some(plant)).is_some());
        assert!(found, "{plant:?}");
    }
}

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicU64);

impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_waits_is_woken_however_it_ends() {
    let ends: [fn(&Cache, PoolId, &Late); 4] = [
        |_, _, late| late.answer(0),
        |cache, pool, late| {
            put(cache, pool, b"key", 2, Expiry::Never);
            late.answer(0);
        },
        |cache, pool, late| {
            cache.keys(pool).flush();
            late.answer(0);
        },
        |_, _, late| drop(late.state.lock().asked.pop()),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let (cache, pool, late, _) = cache();
        put(&cache, pool, b"key", 1, Expiry::Never);
        assert!(cache.keys(pool).evict(b"key"));
        let ask = || match cache.keys(pool).bring(b"key") {
            Brought::Pending(pending) => pending,
            Brought::Ready(kept) => panic!("{kept:?}"),
        };
        let (early, other) = (ask(), ask());
        assert_eq!(late.state.lock().asked.len(), 1, "asked once");
        let count = Arc::new(Count::default());
        let waker = std::task::Waker::from(Arc::clone(&count));
        early.wake(&waker);
        early.wake(&waker);
        assert!(!early.is_done() && count.0.load(Ordering::Relaxed) == 0);
        end(&cache, pool, &late);
        assert!(early.is_done() && other.is_done());
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "end {number}");
        other.wake(&waker);
        assert_eq!(count.0.load(Ordering::Relaxed), 2, "at once");
        // Whatever came of it, nobody asks again and again. What was flushed meanwhile is refused
        // once more, by a fence that is later than the flush.
        let kept = match cache.keys(pool).bring_again(b"key", &[early]) {
            Brought::Pending(pending) if number == 2 => {
                late.answer(0);
                cache.keys(pool).bring_again(b"key", &[pending])
            }
            brought => brought,
        };
        let Brought::Ready(kept) = kept else { panic!("end {number}") };
        assert_eq!(kept.item().map(|item| value_of(item)), [Some(1), Some(2), None, None][number]);
    }
}

#[test]
fn who_waits_no_longer_leaves_no_waker_and_blocks_no_thread() {
    let (cache, pool, late, _) = cache();
    let keys = cache.keys(pool);
    put(&cache, pool, b"key", 1, Expiry::Never);
    assert!(keys.evict(b"key"));
    let count = Arc::new(Count::default());
    let ask = || {
        let Brought::Pending(pending) = keys.bring(b"key") else { panic!("it is beneath") };
        pending.wake(&std::task::Waker::from(Arc::clone(&count)));
        pending
    };
    let stays = ask();
    let copy = stays.clone();
    copy.wake(&std::task::Waker::from(Arc::clone(&count)));
    (0..100).for_each(|_| drop(ask()));
    let mut given_up = ask();
    assert_eq!(Arc::strong_count(&count), 4);
    given_up.give_up();
    drop(copy);
    assert_eq!(Arc::strong_count(&count), 2);
    // The device hangs.
    assert!(keys.bring_blocking(b"key").item().is_none());
    assert!(!stays.is_done());
    late.answer(0);
    assert_eq!((stays.is_done(), count.0.load(Ordering::Relaxed)), (true, 1));
}

#[test]
fn who_gives_up_takes_the_key_for_absent_and_the_next_asks_anew() {
    let (cache, pool, late, _) = cache();
    let keys = cache.keys(pool);
    let ask = |waited: &[Pending]| match keys.bring_again(b"key", waited) {
        Brought::Pending(pending) => Err(pending),
        Brought::Ready(kept) => Ok(kept.item().map(|item| value_of(item))),
    };
    let asked = || late.state.lock().asked.len();
    put(&cache, pool, b"key", 1, Expiry::Never);
    assert!(keys.evict(b"key"));
    let mut early = ask(&[]).expect_err("beneath");
    early.give_up();
    assert!(early.is_done());
    assert_eq!(ask(std::slice::from_ref(&early)).ok(), Some(None), "absent");
    // Another caller does not wait for the request that hangs.
    let other = ask(&[]).expect_err("beneath");
    assert_eq!(asked(), 2);
    late.answer(1);
    assert!(other.is_done());
    assert_eq!(ask(std::slice::from_ref(&other)).ok(), Some(Some(1)));
    // Nor does the one that gave up: what is in memory counts, whatever it waited for.
    assert_eq!(ask(std::slice::from_ref(&early)).ok(), Some(Some(1)));
    // The request that hung is answered after a write: what it brings is old.
    put(&cache, pool, b"key", 2, Expiry::Never);
    late.answer(0);
    assert_eq!(keys.peek(b"key").map(|item| value_of(&item)), Some(2));
}

/// A request that was given up ends in vain after another one has brought the item, which was
/// evicted again: who still waits for the first one must not take the key for absent.
#[test]
fn a_miss_counts_only_if_nobody_else_could_bring_the_item() {
    let (cache, pool, late, _) = cache();
    let keys = cache.keys(pool);
    let ask = |waited: &[Pending]| match keys.bring_again(b"key", waited) {
        Brought::Pending(pending) => Err(pending),
        Brought::Ready(kept) => Ok(kept.item().map(|item| value_of(item))),
    };
    put(&cache, pool, b"key", 1, Expiry::Never);
    assert!(keys.evict(b"key"));
    let (mut hasty, patient) = (ask(&[]).expect_err("beneath"), ask(&[]).expect_err("beneath"));
    hasty.give_up();
    assert_eq!(ask(&[hasty]).ok(), Some(None));
    let other = ask(&[]).expect_err("beneath");
    late.answer(1);
    assert_eq!(ask(std::slice::from_ref(&other)).ok(), Some(Some(1)));
    drop(other);
    assert!(keys.evict(b"key"));
    // In vain: the cache beneath had given the item away.
    drop(late.state.lock().asked.pop());
    assert!(patient.is_done());
    let again = ask(std::slice::from_ref(&patient)).expect_err("beneath again");
    late.answer(0);
    assert_eq!(ask(&[patient, again]).ok(), Some(Some(1)));
    late.clear();
}

#[test]
fn what_is_held_lies_where_it_lay_and_takes_no_more_than_its_share() {
    let (cache, pool, late, _) = cache();
    late.state.lock().holds_all = true;
    for key in 0..40_000_u64 {
        put(&cache, pool, &key.to_le_bytes(), key, Expiry::Never);
    }
    // All that came down is there, most as images; and memory took in all of the rest.
    let pool_bytes = cache.pool_stats(pool).expect("a pool").slab_bytes;
    let held = cache.outgoing_bytes();
    assert!(held <= pool_bytes / 12 && held > pool_bytes / 32, "{held} of {pool_bytes} bytes");
    let counted = late.state.lock().items.iter().fold([0; 2], |[held, images], (name, (_, content))| {
        let key = u64::from_le_bytes(name.1.as_slice().try_into().expect("8 bytes"));
        match content.as_ref().expect("it has come") {
            Content::Held(handle) => {
                let item = handle.item();
                assert_eq!(item.key(), name.1);
                assert_eq!(value_of(&item.pieces().next().expect("a piece")), key);
                [held + 1, images]
            }
            Content::Image(_) => [held, images + 1],
        }
    });
    assert!(counted[0] > 2 && counted[1] > 1_000, "{counted:?} held and copied");
    // What is held is brought up like the rest, and what is written is given up.
    let one =
        late.state.lock().items.iter().find_map(|(name, (_, content))| {
            matches!(content, Some(Content::Held(_))).then(|| name.1.clone())
        });
    let one = one.expect("one is held");
    let Brought::Pending(_pending) = cache.keys(pool).bring(&one) else { panic!("it is beneath") };
    late.answer(0);
    let key = u64::from_le_bytes(one.as_slice().try_into().expect("8 bytes"));
    assert_eq!(cache.keys(pool).peek(&one).map(|item| value_of(&item)), Some(key));
    late.clear();
    assert_eq!(cache.outgoing_bytes(), 0);
    cache.validate();
}

/// However small the items are, and whatever they are: all of them are held as long as that is
/// allowed, and memory takes in what is new all the same.
#[test]
fn what_is_held_leaves_room_for_what_comes() {
    for (value_len, limit_mib) in [(0, None), (1, None), (900, Some(4))] {
        let (cache, _, late, _) = cache();
        late.state.lock().holds_all = true;
        let limit = limit_mib.map(ByteSize::mib);
        let pool = cache.add_pool(PoolConfig { limit, ..PoolConfig::named("small") }).expect("a pool");
        for key in 0..60_000_u64 {
            let value = vec![7; value_len];
            let stored = cache.put_value(pool, &key.to_le_bytes(), &value, &ItemOptions::default());
            stored.unwrap_or_else(|error| panic!("{value_len} bytes, {limit:?}, item {key}: {error}"));
        }
        let (held, has) = (cache.outgoing_bytes(), cache.pool_stats(pool).expect("a pool").slab_bytes);
        assert!(held <= has / 16, "{value_len} bytes: {held} of {has} held");
        late.clear();
    }
}

/// Each change of a followed key is reported once, wherever its item is.
#[test]
fn who_follows_a_key_is_told_of_changes_and_not_of_moves() {
    let (cache, pool, late, clock) = cache();
    let keys = cache.keys(pool);
    let changes = cache.changes(ByteSize::kib(64)).expect("memory");
    changes.follow(keys, b"key");
    let told = || {
        let mut count = 0;
        assert_eq!(changes.drain(|_| count += 1), 0, "none is lost");
        count
    };
    put(&cache, pool, b"key", 1, Expiry::After(5));
    assert_eq!(told(), 1);
    assert!(keys.evict(b"key"));
    assert_eq!(told(), 0, "handed down");
    let Brought::Pending(pending) = keys.bring(b"key") else { panic!("it is beneath") };
    late.answer(0);
    assert_eq!(told(), 0, "brought");
    drop(pending);
    assert!(keys.evict(b"key"));
    clock.advance(std::time::Duration::from_secs(6));
    let Brought::Pending(_pending) = keys.bring(b"key") else { panic!("it is beneath") };
    assert_eq!(told(), 0);
    late.answer(0);
    assert_eq!(told(), 1, "over");
    // Writes that meet evictions.
    let stop = AtomicBool::new(false);
    let writes = 20_000;
    std::thread::scope(|scope| {
        let evicts = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                keys.evict(b"key");
            }
        });
        let stops = Stops(&stop);
        let mut count = 0;
        for n in 0..writes {
            put(&cache, pool, b"key", 8 + n % 4, Expiry::Never);
            count += told();
        }
        drop(stops);
        evicts.join().expect("no panic");
        assert_eq!(count + told(), writes);
    });
    late.clear();
}

#[test]
fn a_kept_key_is_not_evicted_and_neither_is_what_takes_its_place() {
    let (cache, pool, _late, _) = cache();
    put(&cache, pool, b"key", 1, Expiry::Never);
    let keys = cache.keys(pool);
    let Brought::Ready(kept) = keys.bring(b"key") else { panic!("it is in memory") };
    put(&cache, pool, b"key", 2, Expiry::Never);
    assert!(!keys.evict(b"key") && keys.find(b"key").is_some());
    // Neither do those that make room.
    for i in 0..30_000_u64 {
        put(&cache, pool, &i.to_le_bytes(), 899, Expiry::Never);
    }
    assert!(cache.stats().pools[0].sum(|class| class.evictions) > 0);
    assert_eq!(keys.peek(b"key").map(|item| value_of(&item)), Some(2));
    drop(kept);
    assert!(keys.evict(b"key") && keys.find(b"key").is_none());
}

#[test]
fn no_change_of_several_threads_is_lost() {
    const KEYS: u64 = 5;
    let (cache, pool, late, _) = cache();
    (0..KEYS).for_each(|key| put(&cache, pool, &key.to_le_bytes(), 0, Expiry::Never));
    let (changes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let change = |seed: u64| {
        let (mut rng, keys) = (seeded(seed), cache.keys(pool));
        for _ in 0..3_000 {
            let key = rng.random_range(0..KEYS).to_le_bytes();
            loop {
                let kept = keys.bring_blocking(&key);
                let old = kept.item().unwrap_or_else(|| panic!("{key:?} is lost"));
                // Another thread may change it meanwhile, but it stays in memory.
                let old = if rng.random() { keys.find(&key).expect("kept") } else { old.clone() };
                let mut new = cache.allocate(pool, &key, 8, &ItemOptions::default()).expect("memory");
                new.value_mut().copy_from_slice(&(value_of(&old) + 1).to_le_bytes());
                if cache.replace_matching(&old, new).is_ok() {
                    changes.fetch_add(1, Ordering::Relaxed);
                    break;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let evicts = scope.spawn(|| {
            let mut rng = seeded(9);
            while !stop.load(Ordering::Relaxed) {
                cache.keys(pool).evict(&rng.random_range(0..KEYS).to_le_bytes());
                std::thread::yield_now();
            }
        });
        let answers = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                late.answer(0);
                std::thread::yield_now();
            }
        });
        let changing: Vec<_> = (0..3).map(|seed| scope.spawn(move || change(seed))).collect();
        changing.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let sum: u64 = (0..KEYS)
            .map(|key| value_of(cache.keys(pool).bring_blocking(&key.to_le_bytes()).item().expect("kept")))
            .sum();
        stop.store(true, Ordering::Relaxed);
        evicts.join().expect("no panic");
        answers.join().expect("no panic");
        assert_eq!(sum, changes.load(Ordering::Relaxed));
    });
    cache.validate();
}

/// Tells threads to stop, however its owner ends.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A writer that asks nobody, while others evict what it writes: what it reads is what it wrote.
#[test]
fn a_write_that_meets_an_eviction_is_the_last_word() {
    let (cache, pool, late, _) = cache();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let helpers = [0, 1].map(|helper| {
            let (cache, late, stop) = (&cache, &late, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    cache.keys(pool).evict(b"key");
                    late.answer(helper);
                }
            })
        });
        let stops = Stops(&stop);
        let keys = cache.keys(pool);
        let mut rng = seeded(3);
        for n in 1..20_000_u64 {
            // Short values, so that the writes come fast.
            let mut item = cache.allocate(pool, b"key", 8, &ItemOptions::default()).expect("memory");
            item.value_mut().copy_from_slice(&n.to_le_bytes());
            cache.put(item);
            if rng.random_range(0..4) == 0 {
                keys.remove(b"key");
                assert!(keys.bring_blocking(b"key").item().is_none(), "{n} was removed");
            } else if rng.random() {
                let kept = keys.bring_blocking(b"key");
                assert_eq!(kept.item().map(|item| value_of(item)), Some(n));
            }
        }
        drop(stops);
        helpers.into_iter().for_each(|helper| helper.join().expect("no panic"));
    });
    cache.validate();
}
