//! Collections in an item: lists of edits have the same result as on the collections of std; and
//! after any overwriting of their words, readers and writers return, without a panic, and at worst
//! report corruption.
//!
//! The first byte of the input chooses the kind, the second the share of the rest that are edits.
//! The remaining bytes are damage.

#![no_main]

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use millpond::structured::{Collection, CollectionKind, Corrupt, Edit, Member, View};
use millpond::{Cache, CacheConfig, ErrorKind, PoolConfig, PoolId};

const KEY: &[u8] = b"collection";
/// The word that says that the collection is being copied. Who finds it waits for the copy, which
/// is on its way in this process.
const FROZEN: usize = 5;

fn cache() -> &'static (Cache, PoolId) {
    static CACHE: OnceLock<(Cache, PoolId)> = OnceLock::new();
    CACHE.get_or_init(|| {
        let memory = "64MiB".parse().unwrap();
        let cache = Cache::new(CacheConfig { memory, hash_seed: Some(1), ..CacheConfig::default() }).unwrap();
        let pool = cache.add_pool(PoolConfig::named("default")).unwrap();
        (cache, pool)
    })
}

/// Of several lengths, and among them prefixes of one another.
fn name(byte: u8) -> Vec<u8> {
    vec![byte / 7; usize::from(byte % 7) * 3]
}

fn value(byte: u8) -> Vec<u8> {
    vec![byte; usize::from(byte) * usize::from(byte) / 60]
}

/// One edit for the kind, of four bytes.
fn edit(kind: CollectionKind, bytes: &[u8]) -> Edit<'static> {
    let (what, a, b, c) = (bytes[0], bytes[1], bytes[2], bytes[3]);
    let index = if b == u8::MAX { usize::MAX } else { usize::from(b) };
    match (kind, what % 8) {
        (CollectionKind::Hash, 0..5) => Edit::put(name(a), value(c)),
        (CollectionKind::Set, 0..5) => Edit::put(name(a), vec![]),
        (CollectionKind::Sorted, 0..5) => Edit::score(name(a), f64::from(b as i8) / 4.0),
        (CollectionKind::List, 0..5) => Edit::Insert { index, value: Cow::Owned(value(c)) },
        (CollectionKind::List, 5) => Edit::Set { index, value: Cow::Owned(value(c)) },
        (CollectionKind::List, 6) => {
            Edit::RemoveAt((usize::from(a)..usize::from(b)).step_by(1 + usize::from(c % 4)).collect())
        }
        (CollectionKind::List | CollectionKind::Sorted, 7) => {
            Edit::RemoveRange { from: index, count: usize::from(c % 16) }
        }
        _ => Edit::remove(name(a)),
    }
}

/// All kinds as std has them.
#[derive(Default)]
struct Model {
    pairs: BTreeMap<Vec<u8>, (Vec<u8>, f64)>,
    list: Vec<Vec<u8>>,
}

impl Model {
    fn edit(&mut self, kind: CollectionKind, edit: &Edit<'_>) {
        let len = self.list.len();
        match edit {
            Edit::Put { key, value } => drop(self.pairs.insert(key.to_vec(), (value.to_vec(), 0.0))),
            Edit::Score { member, score } => drop(self.pairs.insert(member.to_vec(), (vec![], *score))),
            Edit::Remove(key) => drop(self.pairs.remove(&**key)),
            Edit::Insert { index, value } => self.list.insert((*index).min(len), value.to_vec()),
            Edit::Set { index, value } => {
                if let Some(element) = self.list.get_mut(*index) {
                    *element = value.to_vec();
                }
            }
            Edit::RemoveRange { from, count } if kind == CollectionKind::List => {
                let from = (*from).min(len);
                self.list.drain(from..(from + count).min(len));
            }
            Edit::RemoveRange { from, count } => {
                for member in self.all(kind).into_iter().skip(*from).take(*count) {
                    self.pairs.remove(&member.key);
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

    /// Lists and sorted sets in their order, hashes and sets in that of their keys.
    fn all(&self, kind: CollectionKind) -> Vec<Member> {
        if kind == CollectionKind::List {
            return self.list.iter().map(|key| Member { key: key.clone(), ..Member::default() }).collect();
        }
        let member = |(key, (value, score)): (&Vec<u8>, &(Vec<u8>, f64))| Member {
            key: key.clone(),
            value: value.clone(),
            score: *score,
        };
        let mut all: Vec<_> = self.pairs.iter().map(member).collect();
        all.sort_by(|a, b| {
            a.score.partial_cmp(&b.score).unwrap_or(Ordering::Equal).then_with(|| a.key.cmp(&b.key))
        });
        all
    }
}

/// Makes the changes in one step, on what is there or by making it.
fn apply(kind: CollectionKind, edits: &[Edit<'_>], will_have: usize) {
    let (cache, pool) = cache();
    let Some(item) = cache.find(KEY) else {
        // Of removals alone nothing is made.
        if will_have > 0 {
            cache.put(Collection::make(cache, *pool, KEY, kind, edits).unwrap());
        }
        return;
    };
    let collection = Collection::of(cache, &item).expect("one without entries is removed");
    let (sequence, ()) = collection.read(|_| Ok(())).unwrap().expect("it is there");
    assert!(collection.apply(sequence, edits).unwrap(), "nobody else has changed it");
}

fn check(kind: CollectionKind, model: &Model) {
    let (cache, _) = cache();
    let wanted = model.all(kind);
    let Some(item) = cache.find(KEY) else { return assert!(wanted.is_empty(), "it is gone") };
    let collection = Collection::of(cache, &item).expect("a collection");
    let (_, mut all) = collection.read(|view| view.all()).unwrap().expect("it is there");
    if matches!(kind, CollectionKind::Hash | CollectionKind::Set) {
        all.sort_by(|a, b| a.key.cmp(&b.key));
    }
    assert_eq!(all, wanted);
    if kind != CollectionKind::List {
        assert_eq!(scanned(&collection).map(|all| all.len()), Some(wanted.len()), "a scan meets each once");
    }
}

/// Scans to the end, which every place brings nearer. `None`: it is corrupt, or gone.
fn scanned(collection: &Collection<'_>) -> Option<Vec<Member>> {
    let (mut place, mut all) = (0, Vec::new());
    loop {
        let (part, next) = look(collection, |view| view.scan(place, 5))?;
        all.extend(part);
        if next == 0 {
            return Some(all);
        }
        assert!(next > place, "a scan that does not go on");
        place = next;
    }
}

/// Reads a view of a collection that may be corrupt.
fn look<R>(collection: &Collection<'_>, look: impl Fn(View<'_>) -> Result<R, Corrupt>) -> Option<R> {
    match collection.read(look) {
        Ok(seen) => seen.map(|(_, seen)| seen),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
            None
        }
    }
}

/// Looks at it in every way.
fn look_all_over(collection: &Collection<'_>) {
    look(collection, |view| view.len());
    look(collection, |view| view.all());
    look(collection, |view| view.range(2, 3));
    look(collection, |view| view.any(|below| below - 1));
    look(collection, |view| view.count_before(|score, member| Ok(score < 1.0 || member()? < name(30))));
    for byte in [0, 1, 30, 200] {
        look(collection, |view| {
            Ok((view.get(&name(byte))?, view.value_len(&name(byte))?, view.rank(&name(byte))?))
        });
    }
    scanned(collection);
    let errors = [collection.usage().err(), collection.deadline().err(), collection.version().err()];
    errors.into_iter().flatten().for_each(|error| assert_eq!(error.kind(), ErrorKind::WrongType, "{error}"));
}

/// Writes to it, which may fail, and not in any other way than it says.
fn write(collection: &Collection<'_>, edits: &[Edit<'_>]) {
    let Some((sequence, ())) = collection.read(|_| Ok(())).ok().flatten() else { return };
    if let Err(error) = collection.apply(sequence, edits) {
        let kinds = [ErrorKind::WrongType, ErrorKind::TooLarge, ErrorKind::OutOfMemory];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
}

fuzz_target!(|input: &[u8]| {
    let &[choice, part, ref rest @ ..] = input else { return };
    let kinds = [CollectionKind::Hash, CollectionKind::Set, CollectionKind::List, CollectionKind::Sorted];
    let kind = kinds[usize::from(choice % 4)];
    let (changes, damage) = rest.split_at(rest.len().min(usize::from(part) * 4));
    let all: Vec<Edit<'_>> = changes.as_chunks::<4>().0.iter().map(|bytes| edit(kind, bytes)).collect();
    let (cache, pool) = cache();
    let mut model = Model::default();
    for edits in all.chunks(1 + usize::from(choice / 4 % 8)) {
        edits.iter().for_each(|edit| model.edit(kind, edit));
        apply(kind, edits, model.pairs.len() + model.list.len());
        check(kind, &model);
    }
    let damage = damage.as_chunks::<6>().0;
    if !damage.is_empty()
        && let Some(item) = cache.find(KEY)
        && let Some(collection) = Collection::of(cache, &item)
    {
        for bytes in damage {
            let at = usize::from(u16::from_le_bytes([bytes[0], bytes[1]])) % collection.words();
            if at != FROZEN {
                collection.damage(at, u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]));
            }
        }
        look_all_over(&collection);
        // As it is found by those who come now.
        if let Some(collection) = Collection::of(cache, &item) {
            look_all_over(&collection);
            for edits in all.chunks(3) {
                write(&collection, edits);
            }
            if let Ok(Some(copy)) = collection.copy(*pool, b"copy") {
                cache.put(copy);
                cache.remove(b"copy");
            }
        }
    }
    cache.remove(KEY);
});
