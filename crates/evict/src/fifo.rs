//! Unrolled FIFO queues of 4-byte entries, with room for many queues in one set of blocks.
//!
//! A block holds `N` entries and the number of the next block, so that an entry costs `4 + 4/N`
//! bytes. Blocks live in segments that are allocated as needed; blocks beyond the first segment
//! never move. A queue is a chain of blocks. Entries enter at the tail and are taken at the head; a
//! *sweep* goes around the chain and squeezes stale entries out, so a block may hold fewer than
//! `N`.
//!
//! Invariants:
//! 1. A block is in exactly one chain: that of a queue or the free one.
//! 2. In a queue's chain, no block except the head and the tail is empty, and entries keep their
//!    order.
//! 3. `Fifo::len` is the number of entries in the chain, stale ones included.

use crate::{Entry, Items};

const NONE: u32 = (1 << 26) - 1;
const LEN_SHIFT: u32 = 26;
const SEGMENT_BLOCKS: usize = 256;
/// Initial blocks of the first segment: a class of few items takes little memory.
const FIRST_BLOCKS: usize = 1;

/// `N` entries (at most 63) and, in one word, the next block (26 bits) and the number of entries (6
/// bits).
#[derive(Clone, Copy)]
struct Block<const N: usize> {
    link: u32,
    entries: [u32; N],
}

impl<const N: usize> Block<N> {
    const EMPTY: Self = Self { link: NONE, entries: [0; N] };

    fn next(&self) -> u32 {
        self.link & NONE
    }

    fn set_next(&mut self, next: u32) {
        self.link = self.link & !NONE | next;
    }

    fn len(&self) -> usize {
        (self.link >> LEN_SHIFT) as usize
    }

    fn set_len(&mut self, len: usize) {
        debug_assert!(len <= N);
        self.link = self.link & NONE | (len as u32) << LEN_SHIFT;
    }
}

/// The blocks of the queues of one policy.
pub struct Blocks<const N: usize> {
    /// Segments of [`SEGMENT_BLOCKS`] each; the first one doubles from [`FIRST_BLOCKS`] up to that
    /// number.
    segments: Vec<Vec<Block<N>>>,
    free: u32,
}

impl<const N: usize> Default for Blocks<N> {
    fn default() -> Self {
        const { assert!(N <= 63, "a block's length has 6 bits") };
        Self { segments: Vec::new(), free: NONE }
    }
}

impl<const N: usize> Blocks<N> {
    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        let blocks: usize = self.segments.iter().map(Vec::capacity).sum();
        blocks * size_of::<Block<N>>()
    }

    fn at(&self, block: u32) -> &Block<N> {
        &self.segments[block as usize / SEGMENT_BLOCKS][block as usize % SEGMENT_BLOCKS]
    }

    fn at_mut(&mut self, block: u32) -> &mut Block<N> {
        &mut self.segments[block as usize / SEGMENT_BLOCKS][block as usize % SEGMENT_BLOCKS]
    }

    fn take(&mut self) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let block = self.free;
        self.free = self.at(block).next();
        *self.at_mut(block) = Block::EMPTY;
        block
    }

    #[cold]
    fn grow(&mut self) {
        let (before, after) = match &mut self.segments[..] {
            [first] if first.len() < SEGMENT_BLOCKS => {
                let (before, after) = (first.len(), (first.len() * 2).min(SEGMENT_BLOCKS));
                first.reserve_exact(after - before);
                first.resize(after, Block::EMPTY);
                (before, after)
            }
            segments => {
                let count = if segments.is_empty() { FIRST_BLOCKS } else { SEGMENT_BLOCKS };
                let before = segments.len() * SEGMENT_BLOCKS;
                assert!(before + count < NONE as usize, "a policy cannot queue four billion entries");
                self.segments.push(vec![Block::EMPTY; count]);
                (before, before + count)
            }
        };
        for block in (before as u32..after as u32).rev() {
            self.give(block);
        }
    }

    fn give(&mut self, block: u32) {
        let free = self.free;
        self.at_mut(block).set_next(free);
        self.free = block;
    }
}

/// A queue.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    head: u32,
    tail: u32,
    /// Entries of the head block that were taken.
    taken: u32,
    len: u32,
    /// The block before the one to be swept next; `NONE` = start at the head.
    sweep_after: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, taken: 0, len: 0, sweep_after: NONE }
    }
}

impl Fifo {
    /// The number of entries, stale ones included.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the queue has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry at the tail.
    pub fn push<const N: usize>(&mut self, blocks: &mut Blocks<N>, entry: Entry) {
        if self.tail == NONE {
            self.head = blocks.take();
            self.tail = self.head;
            self.taken = 0;
        } else if blocks.at(self.tail).len() == N {
            let block = blocks.take();
            blocks.at_mut(self.tail).set_next(block);
            self.tail = block;
        }
        let tail = blocks.at_mut(self.tail);
        let len = tail.len();
        tail.entries[len] = entry.0;
        tail.set_len(len + 1);
        self.len += 1;
    }

    /// Takes the entry at the head.
    pub fn pop<const N: usize>(&mut self, blocks: &mut Blocks<N>) -> Option<Entry> {
        if self.len == 0 {
            return None;
        }
        while self.taken as usize == blocks.at(self.head).len() {
            self.drop_head(blocks);
        }
        let entry = Entry(blocks.at(self.head).entries[self.taken as usize]);
        self.taken += 1;
        self.len -= 1;
        if self.len == 0 {
            while self.head != NONE {
                self.drop_head(blocks);
            }
        }
        Some(entry)
    }

    /// The entry that lies `ahead` places behind the head, if it is in the head's block.
    pub fn peek<const N: usize>(&self, blocks: &Blocks<N>, ahead: usize) -> Option<Entry> {
        if self.len == 0 {
            return None;
        }
        let head = blocks.at(self.head);
        let at = self.taken as usize + ahead;
        (at < head.len()).then(|| Entry(head.entries[at]))
    }

    /// The first entry that is not stale, if it is in the head's block.
    pub fn first<const N: usize>(&self, blocks: &Blocks<N>, items: &impl Items) -> Option<Entry> {
        (0..N).map_while(|ahead| self.peek(blocks, ahead)).find(|entry| items.bits(*entry).is_some())
    }

    fn drop_head<const N: usize>(&mut self, blocks: &mut Blocks<N>) {
        let head = self.head;
        let next = blocks.at(head).next();
        if self.sweep_after == head {
            self.sweep_after = NONE;
        }
        blocks.give(head);
        self.taken = 0;
        self.head = next;
        if next == NONE {
            self.tail = NONE;
        }
    }

    /// Examines the entries of the next block of the sweep and drops those for which `keep` returns
    /// false. Returns the numbers of examined and of dropped entries. Skips the head and tail
    /// blocks.
    pub fn sweep<const N: usize>(
        &mut self,
        blocks: &mut Blocks<N>,
        prefetch: impl Fn(Entry),
        mut keep: impl FnMut(Entry) -> bool,
    ) -> (usize, usize) {
        let before = if self.sweep_after == NONE { self.head } else { self.sweep_after };
        if before == NONE || before == self.tail {
            self.sweep_after = NONE;
            return (0, 0);
        }
        let at = blocks.at(before).next();
        if at == self.tail || at == NONE {
            self.sweep_after = NONE;
            return (0, 0);
        }
        let block = blocks.at_mut(at);
        let len = block.len();
        block.entries[..len].iter().for_each(|&entry| prefetch(Entry(entry)));
        let mut kept = 0;
        for i in 0..len {
            if keep(Entry(block.entries[i])) {
                block.entries[kept] = block.entries[i];
                kept += 1;
            }
        }
        block.set_len(kept);
        self.len -= (len - kept) as u32;
        self.join(blocks, before, at);
        (len, len - kept)
    }

    /// Moves the entries of block `at` into the previous block if they fit, and advances the sweep.
    fn join<const N: usize>(&mut self, blocks: &mut Blocks<N>, before: u32, at: u32) {
        let block = *blocks.at(at);
        let room = N - blocks.at(before).len();
        if block.len() > room {
            self.sweep_after = at;
            return;
        }
        let into = blocks.at_mut(before);
        let len = into.len();
        into.entries[len..len + block.len()].copy_from_slice(&block.entries[..block.len()]);
        into.set_len(len + block.len());
        into.set_next(block.next());
        blocks.give(at);
        self.sweep_after = before;
    }

    /// All entries, from head to tail; for tests and statistics.
    pub fn entries<const N: usize>(&self, blocks: &Blocks<N>) -> Vec<Entry> {
        let mut all = Vec::with_capacity(self.len());
        let (mut block, mut from) = (self.head, self.taken as usize);
        while block != NONE {
            let at = blocks.at(block);
            all.extend(at.entries[from..at.len()].iter().map(|&entry| Entry(entry)));
            (block, from) = (at.next(), 0);
        }
        assert_eq!(all.len(), self.len(), "invariant 3");
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashSet, VecDeque};

    #[derive(Clone, Debug)]
    enum Op {
        Push(bool),
        Pop(bool),
        Stale(usize),
        Sweep(bool),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => any::<bool>().prop_map(Op::Push),
            2 => any::<bool>().prop_map(Op::Pop),
            2 => any::<usize>().prop_map(Op::Stale),
            2 => any::<bool>().prop_map(Op::Sweep),
        ]
    }

    proptest! {
        /// Two queues share blocks of three entries; stale entries may vanish at any sweep, all
        /// others keep order.
        #[test]
        fn behaves_like_a_deque(ops in prop::collection::vec(op(), 1..400)) {
            let mut blocks = Blocks::<3>::default();
            let mut queues = [Fifo::default(), Fifo::default()];
            let mut models = [VecDeque::new(), VecDeque::new()];
            let mut stale = HashSet::new();
            for (serial, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Push(q) => {
                        queues[usize::from(q)].push(&mut blocks, Entry(serial as u32));
                        models[usize::from(q)].push_back(serial as u32);
                    }
                    Op::Pop(q) => {
                        let q = usize::from(q);
                        // Stale entries may have been swept, so they may be missing at the head.
                        let got = queues[q].pop(&mut blocks).map(|entry| entry.0);
                        while models[q].front().copied() != got && models[q].front().is_some_and(|e| stale.contains(e)) {
                            models[q].pop_front();
                        }
                        prop_assert_eq!(got, models[q].pop_front());
                    }
                    Op::Stale(i) => {
                        stale.insert((i % (serial + 1)) as u32);
                    }
                    Op::Sweep(q) => {
                        queues[usize::from(q)].sweep(&mut blocks, |_| (), |entry| !stale.contains(&entry.0));
                    }
                }
            }
            for q in 0..2 {
                let live = |entries: Vec<u32>| entries.into_iter().filter(|e| !stale.contains(e)).collect::<Vec<_>>();
                let entries = queues[q].entries(&blocks).into_iter().map(|entry| entry.0).collect();
                prop_assert_eq!(live(entries), live(models[q].iter().copied().collect()));
            }
        }
    }

    #[test]
    fn a_full_round_of_sweeps_halves_a_half_stale_queue() {
        let mut blocks = Blocks::<63>::default();
        let mut queue = Fifo::default();
        (0..63_000).for_each(|i| queue.push(&mut blocks, Entry(i)));
        let mut looked_at = 0;
        while looked_at < 62_000 {
            let (looked, _) = queue.sweep(&mut blocks, |_| (), |entry| entry.0 % 2 == 0);
            looked_at += looked.max(1);
        }
        assert!(queue.len() < 32_000, "{}", queue.len());
        let mut last = None;
        while let Some(entry) = queue.pop(&mut blocks) {
            assert!(last < Some(entry.0));
            last = Some(entry.0);
        }
        let before = blocks.bytes();
        (0..63_000).for_each(|i| queue.push(&mut blocks, Entry(i)));
        assert_eq!(blocks.bytes(), before, "blocks are reused");
    }
}
