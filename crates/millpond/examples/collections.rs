//! The costs of one change and one read of a collection of n entries: found, read, decided and
//! changed, as a server does it.
//!
//!     cargo run --release -p millpond --example collections

use std::hint::black_box;

use base::hash::mix64;
use millpond::structured::{Collection, CollectionKind, Corrupt, Edit, View};
use millpond::{ByteSize, Cache, CacheConfig, PoolConfig, PoolId};

/// Calls that are timed; the clock's steps are of some milliseconds.
const ROUNDS: u64 = 400_000;
/// The same of the slow ones.
const FEW_ROUNDS: u64 = 20_000;

struct Bench {
    cache: Cache,
    pool: PoolId,
}

impl Bench {
    fn read<R>(&self, look: impl Fn(View<'_>) -> Result<R, Corrupt>) -> R {
        let item = self.cache.find(b"k").expect("there");
        let collection = Collection::of(&self.cache, &item).expect("a collection");
        collection.read(look).expect("whole").expect("there").1
    }

    fn change(&self, key: &[u8], edits: &[Edit<'_>]) {
        let item = self.cache.find(b"k").expect("there");
        let collection = Collection::of(&self.cache, &item).expect("a collection");
        let (sequence, _) = collection.read(|view| view.contains(key)).expect("whole").expect("there");
        assert!(collection.apply(sequence, edits).expect("room"));
    }

    fn make(&self, kind: CollectionKind, n: u64) {
        let name = |i: u64| format!("member:{i}").into_bytes();
        let edits: Vec<Edit<'_>> = (0..n)
            .map(|i| match kind {
                CollectionKind::Hash => Edit::put(name(i), b"12345678".to_vec()),
                CollectionKind::Set => Edit::put(name(i), Vec::new()),
                CollectionKind::List => Edit::push_back(name(i)),
                CollectionKind::Sorted => Edit::score(name(i), (mix64(i) % 1_000_000) as f64),
            })
            .collect();
        let item = Collection::make(&self.cache, self.pool, b"k", kind, &edits).expect("room");
        self.cache.put(item);
    }
}

/// Nanoseconds that this thread has run for, which others on the machine do not add to.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("Linux counts them")
}

/// Nanoseconds of each call.
fn timed(rounds: u64, mut call: impl FnMut(u64)) -> u64 {
    let before = cpu_nanos();
    (0..rounds).for_each(&mut call);
    (cpu_nanos() - before) / rounds
}

fn main() -> Result<(), millpond::Error> {
    println!(
        "one call, ns of processor time; bytes of an entry of a name of 8 to 13 bytes, with what stands beside it"
    );
    println!("{:<10}{:<12}{:>8}{:>8}{:>8}{:>8}", "n", "", "read", "change", "ends", "bytes");
    for n in [10, 1_000, 50_000] {
        for kind in [CollectionKind::Hash, CollectionKind::Set, CollectionKind::List, CollectionKind::Sorted]
        {
            let cache = Cache::new(CacheConfig { memory: ByteSize::mib(256), ..CacheConfig::default() })?;
            let pool = cache.add_pool(PoolConfig::named("items"))?;
            let bench = Bench { cache, pool };
            bench.make(kind, n);
            measure(&bench, kind, n);
        }
    }
    Ok(())
}

fn measure(bench: &Bench, kind: CollectionKind, n: u64) {
    let name = |round: u64| format!("member:{}", mix64(round) % n).into_bytes();
    let at = |round: u64| (mix64(round) % n) as usize;
    let used = bench.cache.find(b"k").map_or(0, |item| {
        let collection = Collection::of(&bench.cache, &item).expect("a collection");
        collection.usage().expect("whole").expect("there").used_bytes as u64 / n
    });
    let read = timed(ROUNDS, |round| match kind {
        CollectionKind::List => drop(black_box(bench.read(|view| view.range(at(round), 1)))),
        CollectionKind::Sorted => drop(black_box(bench.read(|view| view.rank(&name(round))))),
        _ => drop(black_box(bench.read(|view| view.get(&name(round))))),
    });
    let rounds = if kind == CollectionKind::Sorted { FEW_ROUNDS } else { ROUNDS };
    let change = timed(rounds, |round| match kind {
        CollectionKind::Hash => bench.change(&name(round), &[Edit::put(name(round), b"87654321".to_vec())]),
        CollectionKind::Set => {
            bench.change(b"other", &[Edit::put(b"other", b"")]);
            bench.change(b"other", &[Edit::remove(b"other")]);
        }
        CollectionKind::List => {
            bench.change(b"", &[Edit::Set { index: at(round), value: name(round).into() }]);
        }
        CollectionKind::Sorted => {
            let score = (mix64(round + ROUNDS) % 1_000_000) as f64;
            bench.change(&name(round), &[Edit::score(name(round), score)]);
        }
    });
    let ends = match kind {
        CollectionKind::List => timed(ROUNDS, |round| {
            bench.change(b"", &[Edit::push_back(name(round))]);
            bench.change(b"", &[Edit::RemoveRange { from: 0, count: 1 }]);
        }),
        CollectionKind::Sorted => timed(ROUNDS, |round| {
            bench.change(b"", &[Edit::score(b"last", 2e6 + round as f64)]);
            bench.change(b"", &[Edit::remove(b"last")]);
        }),
        _ => 0,
    };
    println!("{n:<10}{:<12}{read:>8}{change:>8}{ends:>8}{used:>8}", format!("{kind:?}"));
}
