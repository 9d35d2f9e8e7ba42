//! The view of a pool that strategies see, and their history of it.

use std::collections::BTreeMap;
use std::fmt;

use base::ByteSize;
use base::geometry::SLAB_BYTES;

/// Rounds without evictions for which a class that has received a slab cannot be a victim.
pub(super) const HOLD_OFF_ROUNDS: u32 = 10;

/// The event counts of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Look-ups that hit.
    pub hits: u64,
    /// Hits in the last slab's worth of items before eviction. 0 if the policy does not track them.
    pub tail_hits: u64,
    /// Finds that missed a key which the class would still have with a slab more. 0 if nobody
    /// counts them.
    pub shadow_hits: u64,
    /// Items evicted.
    pub evictions: u64,
    /// Allocations that failed.
    pub allocation_failures: u64,
}

impl Counts {
    /// The counts since `before`. A count that is lower than before has restarted from 0.
    pub(super) fn since(self, before: Self) -> Self {
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Self {
            hits: since(self.hits, before.hits),
            tail_hits: since(self.tail_hits, before.tail_hits),
            shadow_hits: since(self.shadow_hits, before.shadow_hits),
            evictions: since(self.evictions, before.evictions),
            allocation_failures: since(self.allocation_failures, before.allocation_failures),
        }
    }
}

/// A size class of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassView {
    /// The number of the class in the pool.
    pub number: u8,
    /// The size of its chunks, in bytes.
    pub chunk_bytes: u32,
    /// Its memory, in slabs, or the pool's [steps](PoolView::step_bytes).
    pub slabs: u64,
    /// The memory that leaves it if it is to give a slab, in bytes: more than that if what it has
    /// is in longer pieces. 0 = a slab.
    pub gives_bytes: u64,
    /// Chunks without an item.
    pub free_chunks: u64,
    /// The number of its items.
    pub items: u64,
    /// The time since the last use of the next item to evict, in seconds. `None` = unknown.
    pub tail_age_secs: Option<u32>,
    /// The same for the next item to evict if the class had
    /// [`TailAge::projected_slabs`](super::TailAge) slabs less, in seconds. `None` = unknown; then
    /// the tail's own age is used.
    pub projected_age_secs: Option<u32>,
    /// The counts since the pool was created.
    pub counts: Counts,
}

impl ClassView {
    /// Memory of its free chunks, in bytes.
    pub fn free_bytes(&self) -> u64 {
        self.free_chunks.saturating_mul(self.chunk_bytes.into())
    }

    /// The age of its tail with a slab less, in seconds.
    pub(super) fn projected_age(&self) -> Option<u32> {
        self.projected_age_secs.or(self.tail_age_secs)
    }
}

impl fmt::Display for ClassView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {} ({})", self.number, ByteSize::new(self.chunk_bytes.into()))
    }
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolView {
    /// Its number.
    pub number: u16,
    /// The amount that moves at a time, called a slab here, in bytes; 0 = a slab. Less than a slab
    /// in a small pool.
    pub step_bytes: u64,
    /// Slabs of the pool's limit that no class has.
    pub free_slabs: u64,
    /// True if the pool can get no more slabs: its limit is reached, or no slabs remain.
    pub is_full: bool,
    /// True if its policy tracks no tail hits.
    pub lacks_tail_hits: bool,
    /// Its classes, in any order, each once.
    pub classes: Vec<ClassView>,
}

impl PoolView {
    /// The amount that moves at a time, in bytes.
    pub fn step_bytes(&self) -> u64 {
        if self.step_bytes == 0 { SLAB_BYTES as u64 } else { self.step_bytes }
    }

    /// The slabs of all classes.
    pub fn slabs(&self) -> u64 {
        self.classes.iter().map(|class| class.slabs).sum()
    }
}

/// A round as a strategy sees it: counts are those since the last round.
pub(super) struct Round {
    pub(super) classes: Vec<ClassView>,
    pub(super) is_full: bool,
    pub(super) lacks_tail_hits: bool,
    pub(super) step_bytes: u64,
    pub(super) free_slabs: u64,
    /// Hits since the last move, by class.
    hits: BTreeMap<u8, u64>,
    /// Classes that have recently received a slab.
    held_off: Vec<u8>,
}

impl Round {
    /// Hits of the class since the last move, which may be several rounds ago.
    pub(super) fn hits(&self, class: &ClassView) -> u64 {
        self.hits.get(&class.number).copied().unwrap_or(0)
    }

    /// The slabs that leave the class if it gives one, which may be in a longer piece.
    pub(super) fn slabs_given(&self, class: &ClassView) -> f64 {
        class.gives_bytes.max(self.step_bytes) as f64 / self.step_bytes.max(1) as f64
    }

    /// Classes that may be victims now: they have more than `min_slabs` slabs, and keep one.
    pub(super) fn victims(&self, min_slabs: u64, except: Option<u8>) -> Vec<&ClassView> {
        let may = |class: &&ClassView| {
            class.slabs > min_slabs.max(1)
                && class.slabs as f64 >= self.slabs_given(class) + 1.0
                && Some(class.number) != except
                && !self.held_off.contains(&class.number)
        };
        self.classes.iter().filter(may).collect()
    }
}

/// A strategy's history of a pool.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Counts at the last round.
    last: Option<BTreeMap<u8, Counts>>,
    /// Hits at the last move.
    hits: BTreeMap<u8, u64>,
    /// The remaining rounds for which a class cannot be a victim.
    hold_off: BTreeMap<u8, u32>,
}

impl History {
    /// Begins a round. `None` in the first one.
    pub(super) fn begin(&mut self, pool: &PoolView) -> Option<Round> {
        let round = self.peek(pool);
        match &round {
            None => self.end(pool, true),
            Some(round) => {
                for class in &round.classes {
                    if let Some(rounds) = self.hold_off.get_mut(&class.number) {
                        *rounds -= 1;
                        if *rounds == 0 {
                            self.hold_off.remove(&class.number);
                        }
                    }
                }
            }
        }
        round
    }

    /// The round as it would begin now. A class that evicts is no longer held off.
    pub(super) fn peek(&mut self, pool: &PoolView) -> Option<Round> {
        let last = self.last.as_ref()?;
        let mut classes = pool.classes.clone();
        let mut hits = BTreeMap::new();
        for class in &mut classes {
            let before = self.hits.get(&class.number).copied().unwrap_or(0);
            hits.insert(class.number, class.counts.hits.checked_sub(before).unwrap_or(class.counts.hits));
            // Hits in the shadow of a number are those of all classes that had it.
            let shadow_hits = class.counts.shadow_hits;
            let new = || Counts { shadow_hits, ..Counts::default() };
            class.counts = class.counts.since(last.get(&class.number).copied().unwrap_or_else(new));
            if class.counts.evictions > 0 {
                self.hold_off.remove(&class.number);
            }
        }
        classes.sort_by_key(|class| class.number);
        let held_off = self.hold_off.keys().copied().collect();
        let (is_full, step_bytes, free_slabs) = (pool.is_full, pool.step_bytes(), pool.free_slabs);
        let lacks_tail_hits = pool.lacks_tail_hits;
        Some(Round { classes, is_full, lacks_tail_hits, step_bytes, free_slabs, hits, held_off })
    }

    /// Ends a round: the next one compares with the present counts.
    pub(super) fn end(&mut self, pool: &PoolView, resets_hits: bool) {
        self.last = Some(pool.classes.iter().map(|class| (class.number, class.counts)).collect());
        if resets_hits {
            self.hits = pool.classes.iter().map(|class| (class.number, class.counts.hits)).collect();
        }
    }

    /// Keeps a class from being a victim for `rounds` rounds.
    pub(super) fn hold_off(&mut self, class: u8, rounds: u32) {
        if rounds > 0 {
            self.hold_off.insert(class, rounds);
        }
    }
}
