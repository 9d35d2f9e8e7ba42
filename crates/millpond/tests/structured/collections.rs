//! Collections of byte strings: against std's collections, in full caches, over restarts, and with
//! many threads.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::hash::mix64;
use base::rng::{RngExt, seeded};
use millpond::structured::{Collection, CollectionKind, Corrupt, Edit, Member, View};
use millpond::{Cache, Clock, ErrorKind, Expiry, PoolId};
use proptest::prelude::*;

use super::{Folder, cache, cache_of};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn read<R>(cache: &Cache, key: &[u8], look: impl Fn(View<'_>) -> Result<R, Corrupt>) -> Option<(u32, R)> {
    loop {
        let item = cache.find(key)?;
        if let Some(seen) = Collection::of(cache, &item)?.read(&look).expect("whole") {
            return Some(seen);
        }
    }
}

fn all(cache: &Cache, key: &[u8]) -> Vec<Member> {
    read(cache, key, |view| view.all()).map(|(_, all)| all).unwrap_or_default()
}

/// Makes changes as a client of the engine does: what is there is changed, and what is not there
/// made.
fn apply(cache: &Cache, pool: PoolId, key: &[u8], kind: CollectionKind, edits: &[Edit<'_>]) {
    loop {
        let Some(item) = cache.find(key) else {
            let made = Collection::make(cache, pool, key, kind, edits).expect("room");
            if cache.insert(made).is_ok() {
                return;
            }
            continue;
        };
        let Some(collection) = Collection::of(cache, &item) else {
            cache.remove_matching(&item);
            continue;
        };
        assert_eq!(collection.kind(), kind);
        let Some((sequence, ())) = collection.read(|_| Ok(())).expect("whole") else { continue };
        if collection.apply(sequence, edits).expect("room") {
            return;
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Put(u16, Vec<u8>),
    Score(u16, i16),
    Remove(u16),
    Insert(usize, Vec<u8>),
    Set(usize, Vec<u8>),
    RemoveRange(usize, usize),
    RemoveAt(Vec<usize>),
    Scan(usize),
}

fn ops() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let value = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(any::<u8>(), 0..2_000),
    ];
    let place = prop_oneof![Just(0_usize), Just(usize::MAX), 0..200_usize];
    let op = prop_oneof![
        8 => (0..150_u16, value.clone()).prop_map(|(key, value)| Op::Put(key, value)),
        8 => (0..150_u16, -20..20_i16).prop_map(|(key, score)| Op::Score(key, score)),
        6 => (0..150_u16).prop_map(Op::Remove),
        8 => (place.clone(), value.clone()).prop_map(|(index, value)| Op::Insert(index, value)),
        2 => (0..100_usize, value).prop_map(|(index, value)| Op::Set(index, value)),
        2 => (place, 0..60_usize).prop_map(|(from, count)| Op::RemoveRange(from, count)),
        1 => prop::collection::btree_set(0..150_usize, 0..40).prop_map(|at| Op::RemoveAt(at.into_iter().collect())),
        1 => (1..40_usize).prop_map(Op::Scan),
    ];
    prop::collection::vec(prop::collection::vec(op, 1..12), 0..150)
}

fn name(key: u16) -> Vec<u8> {
    // Of several lengths, among which zeros at the end.
    let mut name = key.to_be_bytes().to_vec();
    name.resize(2 + usize::from(key % 7), 0);
    if key.is_multiple_of(50) {
        name.resize(90, b'x');
    }
    name
}

/// Returns the edits that the operations make of a kind.
fn edits(ops: &[Op], kind: CollectionKind) -> Vec<Edit<'_>> {
    use CollectionKind::{Hash, List, Set, Sorted};
    ops.iter()
        .filter_map(|op| match (op, kind) {
            (Op::Put(key, value), Hash) => Some(Edit::put(name(*key), value)),
            (Op::Put(key, _), Set) => Some(Edit::put(name(*key), b"")),
            (Op::Score(key, score), Sorted) => Some(Edit::score(name(*key), f64::from(*score) / 4.0)),
            (Op::Remove(key), Hash | Set | Sorted) => Some(Edit::remove(name(*key))),
            (Op::Insert(index, value), List) => {
                Some(Edit::Insert { index: *index, value: Cow::Borrowed(value) })
            }
            (Op::Set(index, value), List) => Some(Edit::Set { index: *index, value: Cow::Borrowed(value) }),
            (Op::RemoveRange(from, count), List | Sorted) => {
                Some(Edit::RemoveRange { from: *from, count: *count })
            }
            (Op::RemoveAt(places), List) => Some(Edit::RemoveAt(places.clone())),
            _ => None,
        })
        .collect()
}

/// All kinds as std has them.
#[derive(Default)]
struct Model {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    scores: BTreeMap<Vec<u8>, f64>,
    list: Vec<Vec<u8>>,
}

impl Model {
    fn sorted(&self) -> Vec<(Vec<u8>, f64)> {
        let mut all: Vec<_> = self.scores.iter().map(|(member, score)| (member.clone(), *score)).collect();
        all.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("numbers").then_with(|| a.0.cmp(&b.0)));
        all
    }

    fn edit(&mut self, edit: &Edit<'_>, kind: CollectionKind) {
        match edit {
            Edit::Put { key, value } => drop(self.pairs.insert(key.to_vec(), value.to_vec())),
            Edit::Score { member, score } => drop(self.scores.insert(member.to_vec(), *score)),
            Edit::Remove(key) => {
                self.pairs.remove(&**key);
                self.scores.remove(&**key);
            }
            Edit::Insert { index, value } => self.list.insert((*index).min(self.list.len()), value.to_vec()),
            Edit::Set { index, value } => {
                if let Some(element) = self.list.get_mut(*index) {
                    *element = value.to_vec();
                }
            }
            Edit::RemoveRange { from, count } if kind == CollectionKind::List => {
                let from = (*from).min(self.list.len());
                self.list.drain(from..(from + count).min(self.list.len()));
            }
            Edit::RemoveRange { from, count } => {
                for (member, _) in self.sorted().iter().skip(*from).take(*count) {
                    self.scores.remove(member);
                }
            }
            Edit::RemoveAt(places) => {
                let mut index = 0;
                self.list.retain(|_| {
                    index += 1;
                    !places.contains(&(index - 1))
                });
            }
            _ => {}
        }
    }
}

fn check(cache: &Cache, key: &[u8], kind: CollectionKind, model: &Model) -> Result<(), TestCaseError> {
    let seen = all(cache, key);
    match kind {
        CollectionKind::List => {
            let elements: Vec<Vec<u8>> = seen.into_iter().map(|member| member.key).collect();
            prop_assert_eq!(&elements, &model.list);
        }
        CollectionKind::Sorted => {
            let members: Vec<_> = seen.into_iter().map(|member| (member.key, member.score)).collect();
            let sorted = model.sorted();
            prop_assert_eq!(&members, &sorted);
            for (rank, (member, score)) in sorted.iter().enumerate().step_by(5) {
                let found = read(cache, key, |view| {
                    let below = view.count_before(|other, name| {
                        Ok(other < *score || (other == *score && name()? < *member))
                    })?;
                    Ok((view.rank(member)?, view.score(member)?, below))
                });
                prop_assert_eq!(found.map(|(_, found)| found), Some((Some(rank), Some(*score), rank)));
            }
        }
        _ => {
            let pairs: Pairs = seen.into_iter().map(|member| (member.key, member.value)).collect();
            let sorted: BTreeMap<_, _> = pairs.iter().cloned().collect();
            prop_assert_eq!(pairs.len(), sorted.len(), "each once");
            prop_assert_eq!(&sorted, &model.pairs);
            for (name, value) in model.pairs.iter().step_by(5) {
                let found = read(cache, key, |view| view.get(name)).and_then(|(_, found)| found);
                prop_assert_eq!(found.map(|field| field.value), Some(value.clone()));
            }
        }
    }
    prop_assert_eq!(cache.find(key).is_some(), !all(cache, key).is_empty(), "what is empty is gone");
    Ok(())
}

/// A scan, a few at a time, meets every entry.
fn check_scan(cache: &Cache, key: &[u8], count: usize) -> Result<(), TestCaseError> {
    let (mut place, mut met, mut rounds) = (0, HashSet::new(), 0);
    let members: HashSet<Vec<u8>> = all(cache, key).into_iter().map(|member| member.key).collect();
    while let Some((_, (part, next))) = read(cache, key, |view| view.scan(place, count)) {
        met.extend(part.into_iter().map(|member| member.key));
        place = next;
        rounds += 1;
        if place == 0 {
            break;
        }
        prop_assert!(rounds <= members.len() + 1);
    }
    prop_assert_eq!(met, members);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_kind_is_what_std_has(rounds in ops()) {
        let (cache, pool) = cache_of(256, &Clock::manual(1_000));
        let kinds = [CollectionKind::Hash, CollectionKind::Set, CollectionKind::List, CollectionKind::Sorted];
        for kind in kinds {
            let mut model = Model::default();
            for (number, ops) in rounds.iter().enumerate() {
                let edits = edits(ops, kind);
                edits.iter().for_each(|edit| model.edit(edit, kind));
                let is_there = cache.find(b"k").is_some();
                // Nothing is made of removals alone.
                if is_there || all_after(&model) > 0 {
                    apply(&cache, pool, b"k", kind, &edits);
                }
                if number % 8 == 0 || number + 1 == rounds.len() {
                    check(&cache, b"k", kind, &model)?;
                }
                for op in ops {
                    if let (Op::Scan(count), true) = (op, kind != CollectionKind::List) {
                        check_scan(&cache, b"k", *count)?;
                    }
                }
            }
            cache.remove(b"k");
        }
        cache.validate();
    }
}

fn all_after(model: &Model) -> usize {
    model.pairs.len() + model.scores.len() + model.list.len()
}

#[test]
fn small_ones_are_small() {
    let (cache, pool) = cache();
    let fields = [Edit::put(b"name", b"Alice"), Edit::put(b"city", b"Oxford"), Edit::put(b"visits", b"12")];
    cache.put(Collection::make(&cache, pool, b"user:1234", CollectionKind::Hash, &fields).expect("room"));
    let members = [Edit::put(b"red", b""), Edit::put(b"blue", b""), Edit::put(b"green", b"")];
    cache.put(Collection::make(&cache, pool, b"colours:1", CollectionKind::Set, &members).expect("room"));
    let scores = [Edit::score(b"anna", 1.0), Edit::score(b"bert", 2.0), Edit::score(b"carl", 3.0)];
    cache.put(Collection::make(&cache, pool, b"scores:1", CollectionKind::Sorted, &scores).expect("room"));
    let elements = [Edit::push_back(b"one"), Edit::push_back(b"two"), Edit::push_back(b"three")];
    cache.put(Collection::make(&cache, pool, b"list:1", CollectionKind::List, &elements).expect("room"));
    for (key, most) in [("user:1234", 200), ("colours:1", 160), ("scores:1", 200), ("list:1", 160)] {
        let bytes = cache.find(key.as_bytes()).expect("there").chunk_bytes();
        assert!(bytes <= most, "{key}: {bytes} bytes");
    }
}

#[test]
fn a_queue_that_is_written_and_read_for_ever_stays_small() {
    let (cache, pool) = cache();
    for round in 0..20_000_u32 {
        let mut edits = vec![Edit::push_back(round.to_string().into_bytes())];
        if round >= 100 {
            edits.push(Edit::RemoveRange { from: 0, count: 1 });
        }
        apply(&cache, pool, b"queue", CollectionKind::List, &edits);
    }
    let elements: Vec<String> = all(&cache, b"queue")
        .into_iter()
        .map(|element| String::from_utf8(element.key).expect("digits"))
        .collect();
    assert_eq!(elements, (19_900..20_000).map(|n| n.to_string()).collect::<Vec<_>>());
    let bytes = cache.find(b"queue").expect("there").chunk_bytes();
    assert!(bytes < 6_000, "{bytes} bytes for 100 short elements");
    cache.validate();
}

#[test]
fn what_was_large_gives_its_memory_back() {
    let (cache, pool) = cache();
    let members: Vec<Vec<u8>> = (0..20_000_u32).map(|n| format!("member:{n}").into_bytes()).collect();
    for part in members.chunks(1_500) {
        let edits: Vec<_> = part.iter().enumerate().map(|(n, m)| Edit::score(m, (n % 10) as f64)).collect();
        apply(&cache, pool, b"board", CollectionKind::Sorted, &edits);
    }
    let seen = all(&cache, b"board");
    assert_eq!(seen.len(), 20_000);
    assert!(seen.is_sorted_by(|a, b| (a.score, &a.key) < (b.score, &b.key)));
    let large = cache.find(b"board").expect("there").chunk_bytes();
    for _ in 0..199 {
        apply(&cache, pool, b"board", CollectionKind::Sorted, &[Edit::RemoveRange { from: 50, count: 100 }]);
    }
    assert_eq!(all(&cache, b"board").len(), 100);
    let small = cache.find(b"board").expect("there").chunk_bytes();
    assert!(small < large / 20, "{small} of {large}");
    let all: Vec<_> = all(&cache, b"board").into_iter().map(|member| Edit::remove(member.key)).collect();
    apply(&cache, pool, b"board", CollectionKind::Sorted, &all);
    assert!(cache.find(b"board").is_none());
    cache.validate();
}

#[test]
fn what_one_item_cannot_hold_is_refused_and_nothing_has_changed() {
    let (cache, pool) = cache();
    let value = vec![7; 900_000];
    let too_much: Vec<_> = (0..5_u8).map(|n| Edit::put(vec![n], &value)).collect();
    let refused =
        Collection::make(&cache, pool, b"k", CollectionKind::Hash, &too_much).expect_err("too large");
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    apply(&cache, pool, b"k", CollectionKind::Hash, &too_much[..2]);
    let item = cache.find(b"k").expect("there");
    let hash = Collection::of(&cache, &item).expect("a hash");
    let (sequence, before) = hash.read(|view| view.all()).expect("whole").expect("there");
    let refused = hash.apply(sequence, &too_much[2..]).expect_err("too large");
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert!(refused.to_string().contains("split it"), "{refused}");
    assert_eq!(hash.read(|view| view.all()).expect("whole"), Some((sequence, before)));
}

#[test]
fn versions_tell_states_apart_and_ends_are_kept() {
    let clock = Clock::manual(1_000);
    let (cache, pool) = cache_of(64, &clock);
    let version = || {
        let item = cache.find(b"k")?;
        Collection::of(&cache, &item)?.version().expect("whole")
    };
    let put = |n: u32| Edit::put(n.to_string().into_bytes(), vec![b'v'; 100]);
    cache.put(
        Collection::make(
            &cache,
            pool,
            b"k",
            CollectionKind::Hash,
            &[put(0), Edit::Deadline(Some(2_000_500))],
        )
        .expect("room"),
    );
    let mut seen = HashSet::from([version()]);
    for n in 1..200 {
        apply(&cache, pool, b"k", CollectionKind::Hash, &[put(n), Edit::Mark(n)]);
        assert!(seen.insert(version()), "a version comes back");
    }
    let item = cache.find(b"k").expect("there");
    let hash = Collection::of(&cache, &item).expect("a hash");
    assert_eq!((hash.deadline().expect("whole"), item.expires_at()), (Some(Some(2_000_500)), Some(2_001)));
    let mark = hash.read(|view| view.mark()).expect("whole").expect("there").1;
    assert_eq!(mark, 199, "growth keeps it");
    let copy = hash.copy(pool, b"other").expect("room").expect("there");
    cache.put(copy);
    assert_eq!(all(&cache, b"other").len(), 200);
    assert_eq!(cache.find(b"other").expect("there").expires_at(), Some(2_001));
    apply(&cache, pool, b"other", CollectionKind::Hash, &[Edit::Deadline(None)]);
    assert_eq!(cache.find(b"other").expect("there").expires_at(), None);
    assert!(cache.touch(b"other", Expiry::At(3_000)));
    clock.advance(std::time::Duration::from_secs(1_001));
    assert!(cache.find(b"k").is_none() && version().is_none());
    assert!(cache.find(b"other").is_some());
    // The same key, the same content, another collection.
    apply(&cache, pool, b"k", CollectionKind::Hash, &[put(0)]);
    assert!(seen.insert(version()));
    let item = cache.find(b"k").expect("there");
    let hash = Collection::of(&cache, &item).expect("a hash");
    apply(&cache, pool, b"k", CollectionKind::Hash, &[Edit::remove(b"0")]);
    assert_eq!((hash.deadline().expect("whole"), item.is_current()), (None, false), "not in it any more");
}

#[test]
fn collections_outlive_the_process() {
    let folder = Folder::new("collections");
    {
        let (cache, pool) = folder.open();
        for n in 0..300_u32 {
            let name = n.to_string().into_bytes();
            apply(
                &cache,
                pool,
                b"hash",
                CollectionKind::Hash,
                &[Edit::put(name.clone(), n.to_le_bytes().to_vec())],
            );
            apply(&cache, pool, b"set", CollectionKind::Set, &[Edit::put(name.clone(), b"")]);
            apply(&cache, pool, b"list", CollectionKind::List, &[Edit::push_back(name.clone())]);
            apply(&cache, pool, b"board", CollectionKind::Sorted, &[Edit::score(name, f64::from(n % 7))]);
        }
    }
    let (cache, pool) = folder.open();
    for key in ["hash", "set", "list", "board"] {
        assert_eq!(all(&cache, key.as_bytes()).len(), 300, "{key}");
    }
    assert_eq!(all(&cache, b"list")[299].key, b"299");
    assert!(all(&cache, b"board").is_sorted_by(|a, b| (a.score, &a.key) < (b.score, &b.key)));
    apply(&cache, pool, b"hash", CollectionKind::Hash, &[Edit::put(b"7", b"seven")]);
    let found = read(&cache, b"hash", |view| view.get(b"7")).expect("there").1.expect("a field");
    assert_eq!(found.value, b"seven");
    cache.validate();
}

/// Several threads work on a few collections that grow, get empty and come again: numbers go from
/// one list to the other and back, both ends of a hash's pair are always the same, and nothing is
/// lost.
#[test]
fn no_change_is_lost_or_seen_in_part() {
    const THREADS: u64 = 3;
    const ROUNDS: usize = 4_000;
    let (cache, pool) = cache_of(256, &Clock::manual(1_000));
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let (cache, stop) = (cache.clone(), Arc::clone(&stop));
        base::thread::spawn("reader", move || {
            let mut looks = 0_u64;
            while !stop.load(Ordering::Relaxed) || looks < 100 {
                let pairs = all(&cache, b"pairs");
                let value =
                    |name: &[u8]| pairs.iter().find(|pair| pair.key == name).map(|pair| pair.value.clone());
                assert_eq!(value(b"left"), value(b"right"), "half of a change");
                let board = all(&cache, b"board");
                assert!(board.is_sorted_by(|a, b| (a.score, &a.key) < (b.score, &b.key)), "torn");
                looks += 1;
            }
        })
        .expect("a thread")
    };
    let workers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let cache = cache.clone();
            base::thread::spawn(format!("worker-{thread}"), move || {
                let mut rng = seeded(thread);
                let mut pushed = 0_usize;
                let mut popped = 0_usize;
                for round in 0..ROUNDS {
                    let value = vec![thread as u8; rng.random_range(0..300)];
                    let pair = [Edit::put(b"left", &value), Edit::put(b"right", &value)];
                    apply(&cache, pool, b"pairs", CollectionKind::Hash, &pair);
                    let member = format!("{thread}:{}", rng.random_range(0..200)).into_bytes();
                    let score = f64::from(rng.random_range(0..50_u32));
                    apply(&cache, pool, b"board", CollectionKind::Sorted, &[Edit::score(member, score)]);
                    if rng.random_range(0..20) < 10 {
                        let element = format!("{thread}:{round}").into_bytes();
                        apply(&cache, pool, b"queue", CollectionKind::List, &[Edit::push_back(element)]);
                        pushed += 1;
                    } else if pop(&cache) {
                        popped += 1;
                    }
                }
                (pushed, popped)
            })
            .expect("a thread")
        })
        .collect();
    let counts: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
    stop.store(true, Ordering::Relaxed);
    reader.join().expect("no panic");
    let pushed: usize = counts.iter().map(|(pushed, _)| pushed).sum();
    let popped: usize = counts.iter().map(|(_, popped)| popped).sum();
    assert_eq!(all(&cache, b"queue").len(), pushed - popped);
    assert!(popped > 1_000);
    cache.validate();
}

/// Takes an element off the queue, if there is one.
fn pop(cache: &Cache) -> bool {
    loop {
        let Some(item) = cache.find(b"queue") else { return false };
        let Some(list) = Collection::of(cache, &item) else { continue };
        let Some((sequence, ())) = list.read(|_| Ok(())).expect("whole") else { continue };
        if list.apply(sequence, &[Edit::RemoveRange { from: 0, count: 1 }]).expect("room") {
            return true;
        }
    }
}

const KINDS: [CollectionKind; 4] =
    [CollectionKind::Hash, CollectionKind::Set, CollectionKind::List, CollectionKind::Sorted];

/// Puts a collection of each kind in, under keys that tell them, with this many entries.
fn put_all(cache: &Cache, pool: PoolId, name: &str, entries: u32) -> Vec<(Vec<u8>, CollectionKind)> {
    let put = |kind: CollectionKind| {
        let key = format!("{name}-{kind:?}").into_bytes();
        let edit = |n: u32| {
            let name = format!("entry:{n}").into_bytes();
            match kind {
                CollectionKind::List => Edit::push_back(name),
                CollectionKind::Sorted => Edit::score(name, f64::from(n)),
                _ => Edit::put(name, vec![9; 20]),
            }
        };
        let edits: Vec<_> = (0..entries).map(edit).collect();
        cache.put(Collection::make(cache, pool, &key, kind, &edits).expect("room"));
        (key, kind)
    };
    KINDS.into_iter().map(put).collect()
}

#[test]
fn a_collection_that_a_dying_process_was_writing_to_is_gone() {
    let folder = Folder::new("collections-died");
    let all_keys = {
        let (cache, pool) = folder.open();
        put_all(&cache, pool, "k", 10)
    };
    folder.change(|number, words| match number % 2 {
        // The sequence is odd.
        0 => words[16] |= 1,
        // The mark of a process that had frozen it.
        _ => words[20..24].fill(7),
    });
    let (cache, pool) = folder.open();
    let there = all_keys.iter().filter(|(key, _)| !all(&cache, key).is_empty()).count();
    assert_eq!(there, 2);
    for (key, kind) in &all_keys {
        let was_there = cache.find(key).is_some();
        apply(
            &cache,
            pool,
            key,
            *kind,
            &[Edit::put(b"new", b"v"), Edit::push_back(b"new"), Edit::score(b"new", 1.0)],
        );
        assert_eq!(all(&cache, key).len(), if was_there { 11 } else { 1 }, "{kind:?}");
    }
    cache.validate();
}

#[test]
fn what_is_corrupt_is_refused_or_a_wrong_answer_and_no_more() {
    const VICTIMS: usize = 40;
    let folder = Folder::new("collections-corrupt");
    {
        let (cache, pool) = folder.open();
        for victim in 0..VICTIMS {
            put_all(&cache, pool, &victim.to_string(), 40);
        }
    }
    folder.change(|number, bytes| {
        for (word, bytes) in bytes.chunks_exact_mut(4).enumerate() {
            let random = mix64(number as u64 * 10_000 + word as u64);
            // The beginning of the header stays in most of them, so that the rest is looked at.
            if random.is_multiple_of(8) && (word >= 8 || number.is_multiple_of(8)) {
                bytes.copy_from_slice(&(mix64(random) as u32 >> (random / 8 % 32)).to_le_bytes());
            }
        }
    });
    let (cache, pool) = folder.open();
    let keys: Vec<Vec<u8>> = cache.items(pool).expect("a pool").map(|item| item.key().to_vec()).collect();
    assert_eq!(keys.len(), VICTIMS * KINDS.len());
    let refused = keys.iter().filter(|key| meddle(&cache, key).is_err()).count();
    assert!(refused > VICTIMS, "{refused}");
    cache.validate();
}

fn meddle(cache: &Cache, key: &[u8]) -> Result<(), millpond::Error> {
    let mut outcome = Ok(());
    for number in 0..30_usize {
        let Some(item) = cache.find(key) else { return outcome };
        let Some(collection) = Collection::of(cache, &item) else { return outcome };
        let name = format!("entry:{number}").into_bytes();
        let looked = collection.read(|view| {
            let whole = [
                view.all().map(drop),
                view.range(number, 5).map(drop),
                view.scan(0, 10).map(drop),
                view.get(&name).map(drop),
                view.rank(&name).map(drop),
                view.any(|below| number % below.max(1)).map(drop),
                view.count_before(|score, _| Ok(score < 20.0)).map(drop),
            ];
            whole.into_iter().collect::<Result<(), Corrupt>>()
        });
        let edits = [
            Edit::put(&name, vec![1; 50]),
            Edit::Insert { index: number, value: Cow::Borrowed(&name) },
            Edit::score(&name, 7.0),
            Edit::remove(format!("entry:{}", number + 1).into_bytes()),
            Edit::RemoveRange { from: number, count: 2 },
            Edit::RemoveAt(vec![1, 5]),
        ];
        let sequence = collection.version().ok().flatten().map_or(0, |(_, sequence)| sequence);
        let copied = collection.copy(item.pool(), b"copy").map(drop);
        for tried in [looked.map(drop), copied, collection.apply(sequence, &edits).map(drop)] {
            if tried.is_err() {
                outcome = tried;
            }
        }
    }
    outcome
}
