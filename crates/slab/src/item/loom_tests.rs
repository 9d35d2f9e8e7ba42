//! Models of the state word: every interleaving of holders, an evictor and a remover, with an
//! oracle that counts who frees the chunk and watches that nobody holds it then.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::*;

/// A chunk whose item is in the index with no reference held.
struct Chunk {
    state: StateWord,
    freed: AtomicU32,
    holders: AtomicU32,
}

impl Chunk {
    fn new() -> Arc<Self> {
        let state = StateWord::new(0);
        state.begin();
        state.publish();
        assert_eq!(state.enqueue(0, |bits, _| bits), Some(0));
        assert!(!state.release());
        Arc::new(Self { state, freed: AtomicU32::new(0), holders: AtomicU32::new(0) })
    }

    fn free(&self) {
        assert_eq!(self.holders.load(Ordering::SeqCst), 0, "freed under a holder");
        assert_eq!(self.freed.fetch_add(1, Ordering::SeqCst), 0, "freed twice");
    }

    fn read(&self) {
        if self.state.acquire() != Acquired::Yes {
            return;
        }
        self.holders.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.freed.load(Ordering::SeqCst), 0, "read after free");
        self.state.record_access(|bits, _| bits | 1);
        self.holders.fetch_sub(1, Ordering::SeqCst);
        if self.state.release() {
            self.free();
        }
    }

    fn remove(&self) {
        if self.state.unindex() {
            // The reference that came with it keeps the chunk until it has left its queue.
            assert_eq!(self.freed.load(Ordering::SeqCst), 0, "freed while it leaves its queue");
            self.state.dequeue();
            if self.state.release() {
                self.free();
            }
        }
    }

    fn evict(&self) {
        if self.state.claim() == Claim::Taken {
            self.free();
        }
    }
}

#[test]
fn loom_a_removed_item_is_freed_once_by_its_last_holder() {
    loom::model(|| {
        let chunk = Chunk::new();
        let reader = {
            let chunk = Arc::clone(&chunk);
            thread::spawn(move || chunk.read())
        };
        chunk.remove();
        reader.join().expect("no panic");
        assert_eq!(chunk.freed.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn loom_remover_and_evictor_agree_on_who_frees() {
    loom::model(|| {
        let chunk = Chunk::new();
        let (evictor, reader) = (Arc::clone(&chunk), Arc::clone(&chunk));
        let evictor = thread::spawn(move || evictor.evict());
        let reader = thread::spawn(move || reader.read());
        chunk.remove();
        evictor.join().expect("no panic");
        reader.join().expect("no panic");
        assert_eq!(chunk.freed.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn loom_two_removers_unlink_once() {
    loom::model(|| {
        let chunk = Chunk::new();
        let other = {
            let chunk = Arc::clone(&chunk);
            thread::spawn(move || chunk.remove())
        };
        chunk.remove();
        other.join().expect("no panic");
        assert_eq!(chunk.freed.load(Ordering::SeqCst), 1);
        assert_eq!(chunk.state.acquire(), Acquired::Gone);
    });
}

#[test]
fn loom_a_writer_that_queues_late_does_not_queue_what_is_gone() {
    loom::model(|| {
        let state = StateWord::new(0);
        state.begin();
        state.publish();
        let chunk = Arc::new(Chunk { state, freed: AtomicU32::new(0), holders: AtomicU32::new(0) });
        let remover = {
            let chunk = Arc::clone(&chunk);
            thread::spawn(move || chunk.remove())
        };
        let queued = chunk.state.enqueue(3, |bits, _| bits).is_some();
        remover.join().expect("no panic");
        assert!(!queued || !chunk.state.is_indexed());
        if chunk.state.release() {
            chunk.free();
        }
        assert_eq!(chunk.freed.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn loom_an_item_that_is_claimed_by_its_link_is_freed_once() {
    loom::model(|| {
        let chunk = Chunk::new();
        let reader = {
            let chunk = Arc::clone(&chunk);
            thread::spawn(move || chunk.read())
        };
        let remover = {
            let chunk = Arc::clone(&chunk);
            thread::spawn(move || {
                if chunk.state.unindex() && chunk.state.release() {
                    chunk.free();
                }
            })
        };
        // The lock of a link's class says nothing about this item.
        if chunk.state.unindex_if_idle() == Claim::Taken && chunk.state.release() {
            chunk.free();
        }
        reader.join().expect("no panic");
        remover.join().expect("no panic");
        assert_eq!(chunk.freed.load(Ordering::SeqCst), 1, "somebody frees it");
    });
}

#[test]
fn loom_no_reference_is_taken_beyond_the_most() {
    loom::model(|| {
        let state = Arc::new(StateWord::nearly_full());
        let others =
            [StateWord::duplicate as fn(&StateWord) -> bool, |state| state.acquire() == Acquired::Yes];
        let others = others.map(|take| {
            let state = Arc::clone(&state);
            thread::spawn(move || take(&state))
        });
        let unlinked = state.unindex();
        let taken = others.map(|other| u32::from(other.join().expect("no panic")));
        assert!(unlinked && !state.is_chained(), "the count does not run over");
        assert!(taken.iter().sum::<u32>() <= 1, "one was left");
        assert_eq!(state.references(), 16_381 + 1 + taken.iter().sum::<u32>());
    });
}

/// An item that may be in either of two chunks, and the index entry that says where.
struct Place {
    chunks: [StateWord; 2],
    contents: [loom::cell::UnsafeCell<u32>; 2],
    /// The number of the chunk, or 2: there is no such item.
    entry: AtomicU32,
    /// The lock of the entry's bucket.
    bucket: loom::sync::Mutex<()>,
    freed: [AtomicU32; 2],
}

impl Place {
    fn new() -> Arc<Self> {
        let chunks = [StateWord::new(0), StateWord::new(0)];
        chunks[0].begin();
        chunks[0].publish();
        assert!(!chunks[0].release());
        Arc::new(Self {
            chunks,
            contents: [loom::cell::UnsafeCell::new(7), loom::cell::UnsafeCell::new(0)],
            entry: AtomicU32::new(0),
            bucket: loom::sync::Mutex::new(()),
            freed: [AtomicU32::new(0), AtomicU32::new(0)],
        })
    }

    fn free(&self, chunk: usize) {
        assert_eq!(self.freed[chunk].fetch_add(1, Ordering::SeqCst), 0, "a chunk is freed once");
        // SAFETY: what this model checks: nobody reads a chunk that is free (invariant 2).
        self.contents[chunk].with_mut(|content| unsafe { *content = 99 });
    }

    /// Finds the item as the engine does: without the lock first, and with it where the chunk
    /// turned out to be gone.
    fn find(&self) -> Option<usize> {
        let chunk = self.entry.load(Ordering::Acquire) as usize;
        if chunk < 2 && self.chunks[chunk].acquire() == Acquired::Yes {
            return Some(chunk);
        }
        let _locked = self.bucket.lock().expect("no panic");
        let chunk = self.entry.load(Ordering::Acquire) as usize;
        (chunk < 2 && self.chunks[chunk].acquire() == Acquired::Yes).then_some(chunk)
    }

    fn read(&self) -> bool {
        let Some(chunk) = self.find() else { return false };
        // SAFETY: what this model checks: whoever holds a reference may read (invariant 3).
        self.contents[chunk].with(|content| assert_eq!(unsafe { *content }, 7, "torn or gone"));
        if self.chunks[chunk].release() {
            self.free(chunk);
        }
        true
    }

    /// Moves the item out of a slab that leaves.
    fn relocate(&self) {
        let locked = self.bucket.lock().expect("no panic");
        if self.entry.load(Ordering::Acquire) != 0 || self.chunks[0].claim() != Claim::Taken {
            return;
        }
        self.chunks[1].begin_copy(&self.chunks[0]);
        // SAFETY: what this model checks: the claimant owns the one chunk (invariant 2), and was
        // given the other.
        let content = self.contents[0].with(|content| unsafe { *content });
        // SAFETY: what this model checks: the claimant owns the one chunk (invariant 2), and was
        // given the other.
        self.contents[1].with_mut(|to| unsafe { *to = content });
        self.chunks[1].publish();
        self.entry.store(1, Ordering::Release);
        drop(locked);
        if self.chunks[1].release() {
            self.free(1);
        }
        self.free(0);
    }

    fn remove(&self) -> bool {
        let locked = self.bucket.lock().expect("no panic");
        let chunk = self.entry.load(Ordering::Acquire) as usize;
        if chunk == 2 {
            return false;
        }
        let removed = self.chunks[chunk].unindex();
        self.entry.store(2, Ordering::Release);
        drop(locked);
        if removed && self.chunks[chunk].release() {
            self.free(chunk);
        }
        removed
    }
}

#[test]
fn loom_an_item_that_moves_is_found_by_all() {
    loom::model(|| {
        let place = Place::new();
        let reader = {
            let place = Arc::clone(&place);
            thread::spawn(move || assert!(place.read() && place.read(), "nobody removed it"))
        };
        place.relocate();
        reader.join().expect("no panic");
        let moved = place.entry.load(Ordering::SeqCst) == 1;
        assert_eq!(place.freed[0].load(Ordering::SeqCst), u32::from(moved));
        assert_eq!(place.freed[1].load(Ordering::SeqCst), 0);
    });
}

#[test]
fn loom_an_item_that_moves_while_it_is_removed_ends_once() {
    loom::model(|| {
        let place = Place::new();
        let others = [Place::remove as fn(&Place) -> bool, Place::read].map(|work| {
            let place = Arc::clone(&place);
            thread::spawn(move || work(&place))
        });
        place.relocate();
        let [removed, _read] = others.map(|other| other.join().expect("no panic"));
        assert!(removed, "it was there, here or there");
        let freed: u32 = place.freed.iter().map(|freed| freed.load(Ordering::SeqCst)).sum();
        let used = 1 + u32::from(place.chunks[1].incarnation() > 0);
        assert_eq!(freed, used, "every chunk that it was in is free");
    });
}
