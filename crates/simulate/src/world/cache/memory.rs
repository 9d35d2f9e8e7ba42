//! Chunks for the items of a simulated cache, by the rules of the engine
//! (docs/design/0011-runs.md, "When memory is full").
//!
//! A class takes a free chunk, else a run while there is memory, else vacant memory of others, else
//! the chunk of what it evicts itself. So memory stays where it was when it was used up, but for
//! this: a class that evicts and has less than its least share is fed from the largest; and one
//! that has nothing to evict takes what it needs from others, or a chunk of a larger class.

use super::classes::Classes;
use super::{Cache, RIGHT};

/// Most takes of memory from other classes for an item that would otherwise not be stored.
const MOST_GIVERS: u32 = 64;

impl Cache {
    /// A chunk for an object of this length: its class, and the bytes that the item takes. `None`
    /// if there is none to be had.
    pub(super) fn take_chunk(&mut self, len: u32) -> Option<(usize, u32)> {
        let wanted = self.classes.as_ref()?.class_of(len)?;
        let class = self.class_with_chunk(wanted)?;
        let size = self.classes.as_mut()?.item_came(class, len);
        Some((class, size))
    }

    fn class_with_chunk(&mut self, class: usize) -> Option<usize> {
        let classes = self.classes.as_mut()?;
        if classes.is_starved(class) {
            self.feed(class);
        } else if classes.is_short(class) {
            classes.note_used_up(class);
            classes.take_vacant_before_eviction(class);
        }
        if self.has_chunk(class) || self.classes.as_mut()?.take_vacant(class) && self.has_chunk(class) {
            return Some(class);
        }
        let step = self.classes.as_ref()?.step_bytes();
        if self.move_to(class, 2, step) && self.has_chunk(class) {
            return Some(class);
        }
        let count = self.classes.as_ref()?.count();
        for larger in class + 1..count {
            if self.classes.as_ref()?.has_runs(larger) && self.has_chunk(larger) {
                return Some(larger);
            }
        }
        (self.insist(class) && self.has_chunk(class)).then_some(class)
    }

    /// Returns whether the class has a free chunk, after it has grown or evicted for one.
    fn has_chunk(&mut self, class: usize) -> bool {
        let Some(classes) = &mut self.classes else { return false };
        if !classes.is_short(class) || classes.add_run(class) && !classes.is_short(class) {
            return true;
        }
        classes.note_starved(class);
        self.evict_one(RIGHT, 0, class);
        self.classes.as_ref().is_some_and(|classes| classes.has_free_chunk(class))
    }

    /// Brings a class that evicts up to its least share.
    fn feed(&mut self, class: usize) {
        let Some(classes) = &mut self.classes else { return };
        classes.end_starved(class);
        if classes.take_vacant(class) {
            return;
        }
        let lacking = classes.lacking(class);
        if lacking > 0 {
            let bytes = lacking + classes.metadata_of(class, lacking);
            self.move_to(class, 2, bytes);
        }
    }

    /// Moves about `bytes` to a class from the largest other one that has at least `least_runs`
    /// runs, if it is time.
    fn move_to(&mut self, class: usize, least_runs: usize, bytes: u64) -> bool {
        let Some(classes) = &mut self.classes else { return false };
        let (bytes, before) = (bytes.max(classes.least_bytes(class)), classes.bytes());
        if !classes.may_move(bytes) {
            return false;
        }
        let Some(giver) = classes.take_bytes(Some(class), least_runs, bytes) else { return false };
        self.evict_over(giver);
        let Some(classes) = &mut self.classes else { return false };
        classes.grow(class, before - classes.bytes());
        // The rest may be too little for this class, but not for the one that it comes from.
        classes.grow(giver, before - classes.bytes().min(before));
        classes.note_move();
        true
    }

    /// Takes memory from the largest other classes until this one has a run.
    fn insist(&mut self, class: usize) -> bool {
        let Some(classes) = &self.classes else { return false };
        let (least, before) = (classes.least_bytes(class), classes.bytes());
        if least > before {
            return false;
        }
        let (mut has_grown, mut last) = (false, None);
        for _ in 0..MOST_GIVERS {
            let Some(classes) = &mut self.classes else { break };
            let Some(giver) = classes.take_bytes(Some(class), 1, least) else { break };
            last = Some(giver);
            self.evict_over(giver);
            has_grown = self.classes.as_mut().is_some_and(|classes| classes.grow(class, least));
            if has_grown {
                break;
            }
        }
        if let (Some(giver), Some(classes)) = (last, &mut self.classes) {
            classes.grow(giver, before.saturating_sub(classes.bytes()));
        }
        has_grown
    }

    /// Takes memory from the largest classes until all have what the capacity allows.
    pub(super) fn shrink_classes(&mut self) {
        while let Some(classes) = &mut self.classes
            && classes.over_budget() > 0
        {
            let bytes = classes.over_budget().min(Classes::MOST_AT_A_TIME);
            let Some(giver) = classes.take_bytes(None, 1, bytes) else { break };
            self.evict_over(giver);
        }
    }

    /// Evicts the items of a class for which it has no chunks any more.
    fn evict_over(&mut self, class: usize) {
        while self.classes.as_ref().is_some_and(|classes| classes.is_over(class))
            && self.evict_one(RIGHT, 0, class)
        {}
    }
}
