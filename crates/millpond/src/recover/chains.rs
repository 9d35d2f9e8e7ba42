//! Chains that another process left behind: each is taken over as a whole or not at all.

use std::collections::HashSet;

use slab::ItemPtr;

use crate::cache::Core;
use crate::class::{BYTES_IN, INSERTS, LINKS_IN};

/// What is looked at once all slabs of a pool were: items with room for a chain, and links.
#[derive(Default)]
pub(super) struct Chains {
    pub(super) items: Vec<ItemPtr>,
    pub(super) links: HashSet<u32>,
}

impl Core {
    /// Takes over those items with room for a chain whose chain is whole, with what is chained to them, and gives up all other
    /// links.
    pub(super) fn recover_chains(&self, mut chains: Chains) {
        let mut torn = Vec::new();
        for ptr in chains.items {
            let (item, info) = self.arena.item(ptr);
            match self.links_of_recovered(ptr, &chains.links) {
                Some(links) => {
                    for link in links {
                        chains.links.remove(&link.to_bits());
                        self.count_recovered_link(link);
                    }
                }
                None => {
                    // SAFETY: the item is complete, and this thread alone knows of it.
                    unsafe { item.set_chain(None, 0) };
                    torn.push(ptr);
                }
            }
            // SAFETY: the item is in a slab of its pool, which this thread is recovering.
            let class = unsafe { self.class_of(info) };
            class.counters.add(INSERTS, 1);
            class.counters.add(BYTES_IN, self.recovered_bytes(ptr));
            let hash = self.recovered_hash(ptr);
            let revived = self.index_recovered(ptr, hash);
            self.queue_recovered(class, &[(ptr, hash)]);
            self.note_recovered(1, u64::from(revived));
        }
        for ptr in torn {
            // Only now, as it may have had a twin.
            if self.arena.item(ptr).0.state().unindex() {
                // SAFETY: this thread holds a reference.
                self.index.remove(unsafe { self.hash_of_item(ptr) }, ptr);
                self.forget(ptr);
                let mut recovered = self.recovered.lock();
                recovered.items = recovered.items.wrapping_sub(1);
                recovered.dropped += 1;
            }
        }
        for ptr in chains.links.into_iter().map(ItemPtr::from_bits) {
            let (link, info) = self.arena.item(ptr);
            link.state().discard();
            // SAFETY: as above.
            unsafe { self.class_of(info) }.inner.lock().free(self, ptr);
        }
    }

    /// The links of an item that was left behind. `None`: the chain was being changed.
    fn links_of_recovered(&self, parent: ItemPtr, known: &HashSet<u32>) -> Option<Vec<ItemPtr>> {
        // SAFETY: the item is complete, and this thread alone knows of it.
        let (mut at, count) = unsafe { self.arena.item(parent).0.chain() };
        let mut links = Vec::new();
        while let Some(ptr) = at.filter(|_| links.len() < count as usize) {
            if !known.contains(&ptr.to_bits()) {
                return None;
            }
            // SAFETY: it is known as a complete link, and this thread alone knows of it.
            let (next, of) = unsafe { self.arena.item(ptr).0.link() };
            if of != Some(parent) {
                return None;
            }
            links.push(ptr);
            at = next;
        }
        (at.is_none() && links.len() == count as usize).then_some(links)
    }

    /// Counts and queues a link of a chain that is whole.
    fn count_recovered_link(&self, ptr: ItemPtr) {
        let info = self.arena.info(ptr.slab());
        // SAFETY: the link is complete, and this thread alone knows of it.
        let class = unsafe { self.class_of(info) };
        class.counters.add(LINKS_IN, 1);
        class.counters.add(BYTES_IN, self.recovered_bytes(ptr));
        self.queue_recovered(class, &[(ptr, self.recovered_hash(ptr))]);
    }
}
