//! Models of the index: one writer or grower against a reader, every interleaving, with an oracle.

use super::*;
use loom::thread;
use slab::ItemPtr;

const A: ItemPtr = ItemPtr::from_bits(1);
const B: ItemPtr = ItemPtr::from_bits(2);

fn small() -> Arc<Index> {
    Arc::new(Index::new(1, 1_000, Arc::new(Ledger::new(u64::MAX))).expect("a table"))
}

/// Both keys have their home in bucket 0 of one bucket; in two buckets, B's is bucket 1.
fn hash_of(ptr: ItemPtr) -> u64 {
    if ptr == A { 0x0000_0000_0000_0007 } else { 0xf000_0000_0000_0007 }
}

fn present(index: &Index, ptr: ItemPtr) -> bool {
    index.find(hash_of(ptr), |found| (found == ptr).then_some(())).is_some()
}

#[test]
fn loom_a_reader_finds_what_is_being_moved() {
    loom::model(|| {
        let index = small();
        index.lock(hash_of(A)).add(A).expect("room");
        index.lock(hash_of(B)).add(B).expect("room");
        assert!(index.begin_growth(8));
        let reader = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                assert!(present(&index, B));
                assert!(!index.find(0x9, |_| Some(())).is_some());
            })
        };
        assert!(index.grow(2, hash_of, |_| ()).is_empty());
        assert!(present(&index, A) && present(&index, B));
        reader.join().expect("no panic");
    });
}

#[test]
fn loom_a_reader_sees_the_old_or_the_new_entry_but_never_none() {
    loom::model(|| {
        let index = small();
        index.lock(7).add(A).expect("room");
        let reader = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let first = index.find(7, Some).expect("always there");
                let second = index.find(7, Some).expect("always there");
                assert!(!(first == B && second == A), "time went back");
            })
        };
        {
            let mut guard = index.lock(7);
            let slot = guard.find(|ptr| ptr == A).expect("A");
            guard.exchange(slot, B);
        }
        reader.join().expect("no panic");
    });
}

#[test]
fn loom_of_two_removers_one_succeeds() {
    loom::model(|| {
        let index = small();
        index.lock(7).add(A).expect("room");
        let other = {
            let index = Arc::clone(&index);
            thread::spawn(move || index.remove(7, A))
        };
        let mine = index.remove(7, A);
        assert!(mine ^ other.join().expect("no panic"));
        assert!(index.find(7, Some).is_none());
    });
}
