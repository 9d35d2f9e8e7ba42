//! Chains that another process left behind: each is taken over as a whole or not at all. The
//! invariants are those of [`super`].

use std::collections::HashSet;

use slab::ItemPtr;

use crate::cache::Core;
use crate::class::{BYTES_IN, INSERTS, LINKS_IN};

/// Items that are looked at once all slabs of a pool were: items with room for a chain, and links.
#[derive(Default)]
pub(super) struct Chains {
    pub(super) items: Vec<ItemPtr>,
    pub(super) links: HashSet<u32>,
    /// Items that had to leave the index, held, and to be retired once nobody waits for this.
    pub(super) displaced: Vec<ItemPtr>,
}

impl Core {
    /// Takes over those items with room for a chain whose chain is whole, with what is chained to
    /// them, and gives up all other links.
    pub(super) fn recover_chains(&self, chains: &mut Chains) {
        let mut torn = Vec::new();
        for ptr in std::mem::take(&mut chains.items) {
            let info = self.arena.info_of(ptr);
            match self.links_of_recovered(ptr, &mut chains.links) {
                Some(links) => links.into_iter().for_each(|link| self.count_recovered_link(link)),
                // Only once all others are in the index: its key may have another item there.
                None => {
                    torn.push(ptr);
                    continue;
                }
            }
            // SAFETY: the run is assigned to the pool that is being recovered, so that pool and
            // class are there (invariants 1 and 2 of `pools`).
            let class = unsafe { self.class_of(info) };
            class.counters.add(INSERTS, 1);
            class.counters.add(BYTES_IN, self.recovered_bytes(ptr));
            let hash = self.recovered_hash(ptr);
            let revived = self.index_recovered(ptr, hash, &mut chains.displaced);
            self.queue_recovered(class, &[(ptr, hash)]);
            self.note_recovered(1, u64::from(revived));
        }
        torn.into_iter().for_each(|ptr| self.give_up_torn(ptr));
        for ptr in chains.links.drain().map(ItemPtr::from_bits) {
            let (link, info) = self.arena.item(ptr);
            link.state().discard();
            // SAFETY: the run is assigned to the pool that is being recovered, so that pool and
            // class are there (invariants 1 and 2 of `pools`).
            unsafe { self.class_of(info) }.inner.lock().free(self, ptr);
        }
    }

    /// Gives up an item whose chain is not whole, and with it the item that its key has otherwise:
    /// nobody knows which a reader saw last. No reader sees the torn one.
    fn give_up_torn(&self, ptr: ItemPtr) {
        let (item, info) = self.arena.item(ptr);
        let guard = self.index.lock(self.recovered_hash(ptr));
        let twin = self.twin_of(&guard, ptr);
        twin.inspect(|slot| self.take_twin(guard, *slot));
        item.state().discard();
        // SAFETY: as above; and the run is assigned to the pool that is being recovered, so that
        // pool and class are there (invariants 1 and 2 of `pools`).
        let class = unsafe {
            item.set_chain(None, 0);
            self.class_of(info)
        };
        class.inner.lock().free(self, ptr);
        let twins = u64::from(twin.is_some());
        let mut recovered = self.recovered.lock();
        recovered.items = recovered.items.wrapping_sub(twins);
        recovered.dropped += 1 + twins;
    }

    /// The links of an item that was left behind, taken out of those that are `known`. `None`: the
    /// chain was being changed or moved, or leads in a circle.
    fn links_of_recovered(&self, parent: ItemPtr, known: &mut HashSet<u32>) -> Option<Vec<ItemPtr>> {
        // SAFETY: the item is complete and not in the index yet, so that this thread alone knows of
        // it and its links (invariant 6 of `recover`).
        let ((mut at, count), is_moving) = unsafe {
            let item = self.arena.item(parent).0;
            (item.chain(), item.is_chain_moving())
        };
        let mut links = Vec::new();
        while let Some(ptr) = at.filter(|_| links.len() < count as usize) {
            if !known.remove(&ptr.to_bits()) {
                break;
            }
            // SAFETY: as above.
            unsafe { self.arena.item(ptr).0.set_link_before(links.last().copied()) };
            links.push(ptr);
            // SAFETY: it was known as a complete link, and this thread alone knows of it (invariant
            // 6 of `recover`).
            let (next, of) = unsafe { self.arena.item(ptr).0.link() };
            if of != Some(parent) {
                break;
            }
            at = next;
        }
        let is_whole = at.is_none() && links.len() == count as usize && !is_moving;
        if !is_whole {
            // Whoever they belong to may be yet to come.
            known.extend(links.drain(..).map(ItemPtr::to_bits));
        }
        is_whole.then_some(links)
    }

    /// Counts and queues a link of a chain that is whole.
    fn count_recovered_link(&self, ptr: ItemPtr) {
        let info = self.arena.info_of(ptr);
        // SAFETY: the run is assigned to the pool that is being recovered, so that pool and class
        // are there (invariants 1 and 2 of `pools`).
        let class = unsafe { self.class_of(info) };
        class.counters.add(LINKS_IN, 1);
        class.counters.add(BYTES_IN, self.recovered_bytes(ptr));
        self.queue_recovered(class, &[(ptr, self.recovered_hash(ptr))]);
    }
}
