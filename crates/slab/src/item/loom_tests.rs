//! Models of the state word: every interleaving of holders, an evictor and a remover, with an oracle that counts who
//! frees the chunk and watches that nobody holds it then.

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
