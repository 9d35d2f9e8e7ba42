//! Free memory: slabs of classes with far more free chunks than they use go back to the pool.

use std::cmp::Reverse;

use base::ByteSize;

use super::Move;
use super::view::{ClassView, Round};

/// Takes slabs from classes with much free memory, and gives them back to the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeMemory {
    /// A victim has more slabs than this. Default 1.
    pub min_slabs: u64,
    /// A victim has more free memory than this many slabs. Default 3.
    pub free_slabs: u64,
    /// No slab moves while the pool itself has more free slabs than this. Default 1,000.
    pub max_unassigned_slabs: u64,
}

impl Default for FreeMemory {
    fn default() -> Self {
        Self { min_slabs: 1, free_slabs: 3, max_unassigned_slabs: 1_000 }
    }
}

impl FreeMemory {
    pub(super) fn victim<'r>(&self, round: &'r Round, except: Option<u8>) -> Option<(&'r ClassView, String)> {
        by_free_memory(
            &round.victims(self.min_slabs, except),
            self.free_slabs.saturating_mul(round.step_bytes),
        )
    }

    pub(super) fn pick(&self, round: &Round) -> Option<Move> {
        if round.free_slabs > self.max_unassigned_slabs {
            return None;
        }
        let (victim, reason) = self.victim(round, None)?;
        Some(Move { victim: victim.number, receiver: None, reason })
    }
}

/// Among the classes that evict nothing, the one with most free memory, if that is more than
/// `free_bytes`.
pub(super) fn by_free_memory<'r>(
    victims: &[&'r ClassView],
    free_bytes: u64,
) -> Option<(&'r ClassView, String)> {
    let idle = victims.iter().filter(|class| class.counts.evictions == 0);
    let class = idle.min_by_key(|class| (Reverse(class.free_bytes()), class.number))?;
    (class.free_bytes() > free_bytes).then(|| {
        let free = ByteSize::new(class.free_bytes());
        (*class, format!("{class} evicts nothing and has {free} free"))
    })
}
