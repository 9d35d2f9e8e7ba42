//! Work under the lock of a class: freed chunks, the queue, and the bill.

use std::sync::atomic::Ordering;

use base::Part;
use evict::{Entry, Policy, PolicyKind};
use slab::ItemPtr;

use super::{Inner, View, adjust, fingerprint};
use crate::cache::Core;
use crate::wheel::Wheel;

impl Inner {
    /// Gives a chunk back that nobody uses.
    pub(crate) fn free(&mut self, core: &Core, ptr: ItemPtr) {
        match &mut self.leaving {
            Some(leaving) if leaving.run().has(ptr) => leaving.push(ptr),
            _ => self.chunks.push(&core.arena, ptr),
        }
    }

    /// Takes an item that left the index out of the queue, if it is in.
    pub(crate) fn dequeue(&mut self, core: &Core, ptr: ItemPtr) {
        let state = core.arena.item(ptr).0.state();
        if state.dequeue() {
            self.forget_queued(core, ptr, state.policy());
        }
    }

    /// Notes that an item, which had these policy bits, is no longer queued.
    fn forget_queued(&mut self, core: &Core, ptr: ItemPtr, bits: u8) {
        let entry = || Entry(self.chunks.number(&core.arena, ptr).0);
        self.policy.removed(bits, &View::new(core, &self.chunks), entry);
    }

    /// Claims an item that nobody holds and takes it out of the queue, if it is in. Says what its
    /// policy bits were. The caller owns the chunk then, and the index still has the item.
    pub(crate) fn claim(&mut self, core: &Core, ptr: ItemPtr) -> Result<u8, slab::item::Claim> {
        let state = core.arena.item(ptr).0.state();
        let (queued, bits) = (state.is_queued(), state.policy());
        match state.claim() {
            slab::item::Claim::Taken => {
                if queued {
                    self.forget_queued(core, ptr, bits);
                }
                Ok(bits)
            }
            refused => Err(refused),
        }
    }

    /// Queues an item that was queued before, by this process or another, with these policy bits.
    /// The caller holds a reference, or the item is in the index. Its entry, unless it has left or
    /// is queued.
    pub(crate) fn queue_again(
        &mut self,
        core: &Core,
        ptr: ItemPtr,
        bits: u8,
        hash: u64,
        now: u32,
    ) -> Option<Entry> {
        let state = core.arena.item(ptr).0.state();
        let bits = self.policy.readmit(bits, fingerprint(hash));
        state.enqueue(bits, |bits, _| bits)?;
        let entry = Entry(self.chunks.number(&core.arena, ptr).0);
        self.policy.push(entry, bits, now);
        Some(entry)
    }

    /// Memory of the wheel, in bytes.
    pub(crate) fn wheel_bytes(&self) -> usize {
        self.wheel.as_ref().map_or(0, |wheel| size_of::<Wheel>() + wheel.bytes())
    }

    /// Notes that it goes by another policy now.
    pub(crate) fn set_rate(&mut self, policy: PolicyKind, now: u32) {
        let empty = Policy::new(policy, now);
        self.rate_x100 = policy.bytes_per_item_x100();
        self.base_bytes = empty.queue_bytes() + empty.ghost_bytes();
    }

    /// Brings the bill for queues and ghosts up to date, and what is expected to be added to it.
    pub(crate) fn settle(&mut self, core: &Core) {
        let ledger = &core.ledger;
        let queues = self.policy.queue_bytes() + self.wheel_bytes();
        let ghosts = self.policy.ghost_bytes();
        for (part, before, after) in
            [(Part::Queues, &mut self.queue_bytes, queues), (Part::Ghosts, &mut self.ghost_bytes, ghosts)]
        {
            adjust(ledger, part, *before as u64, after as u64);
            *before = after;
        }
        let spent = (self.policy.queue_bytes() + ghosts).saturating_sub(self.base_bytes) as u64;
        let awaited = (self.chunks.chunks() * self.rate_x100).div_ceil(100).saturating_sub(spent);
        if awaited != self.awaited {
            // The sum wraps around if it becomes less.
            core.awaited_bytes.fetch_add(awaited.wrapping_sub(self.awaited), Ordering::Relaxed);
            self.awaited = awaited;
        }
    }
}
