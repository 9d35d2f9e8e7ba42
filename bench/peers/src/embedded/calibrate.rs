//! Equal memory.
//!
//! Peers count what their weigher says, not what they use. So each is built, filled until it has
//! evicted more than it holds, and looked at: what is resident, divided by the items, is what an
//! entry really takes, with allocator, tables, queues and all. That becomes the weigher's answer,
//! and the peer is built anew, until what is resident is the limit to within one percent. Millpond
//! is given the limit itself.

use anyhow::Result;

use crate::child::{Child, Heap, Order};
use crate::contestant::{Name, Spec};
use crate::keys::Key;

/// First guess of the bytes that peers' entries take besides key and value.
const FIRST_GUESS: u64 = 80;
/// Attempts at most.
const ATTEMPTS: usize = 5;

/// A contestant and how it is to be built.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calibrated {
    pub(super) name: Name,
    pub(super) spec: Spec,
    /// Items that it holds when it is full; 0 for nothing.
    pub(super) items: u64,
}

/// Finds out how to build each of `names` so that it takes `memory_bytes`.
pub(super) fn all(
    names: &[Name],
    memory_bytes: u64,
    value_len: usize,
    heap: Heap,
) -> Result<Vec<Calibrated>> {
    names.iter().map(|name| one(*name, memory_bytes, value_len, heap)).collect()
}

/// Finds out how to build `name`.
pub(super) fn one(name: Name, memory_bytes: u64, value_len: usize, heap: Heap) -> Result<Calibrated> {
    let mut spec =
        Spec { memory_bytes, overhead_bytes: if name.is_peer() { FIRST_GUESS } else { 0 }, value_len };
    if name == Name::Nothing {
        return Ok(Calibrated { name, spec, items: 0 });
    }
    for attempt in 1.. {
        let mut child = Child::start(name, heap)?;
        child.ask(&Order::Build(spec))?;
        let held = child.hold(&Order::Fill { fresh: true, count: spec.entries() * 5 / 2 })?;
        let off = held.resident_bytes as f64 / memory_bytes as f64 - 1.0;
        if !name.is_peer() || off.abs() < 0.01 || attempt == ATTEMPTS {
            return Ok(Calibrated { name, spec, items: held.items });
        }
        spec.overhead_bytes = overhead(held.resident_bytes, held.items, value_len);
    }
    unreachable!("the loop ends by its number of attempts")
}

/// Returns the bytes that an entry takes besides key and value when `items` take `resident_bytes`.
fn overhead(resident_bytes: u64, items: u64, value_len: usize) -> u64 {
    let each = resident_bytes.div_ceil(items.max(1));
    each.saturating_sub((size_of::<Key>() + value_len) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_resident_is_shared_out_among_the_items() {
        assert_eq!(overhead(2_000, 10, 100), 84);
        assert_eq!(overhead(10, 10, 100), 0, "never below nothing");
        assert_eq!(overhead(2_000, 0, 100), 1_884);
    }
}
