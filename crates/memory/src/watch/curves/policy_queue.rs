//! The order in which a policy of the engine evicts the keys of a miniature.
//!
//! The policy is that of `evict`, the very code that a pool runs for each of its size classes; here
//! one covers all sizes. Time stands still, so that an LRU that promotes now and then promotes
//! always.

use std::cell::Cell;

use base::hash::mix64;
use curve::Eviction;
use evict::{Claim, Entry, HitRule, Items, Policy, PolicyKind};

/// A key's state.
#[derive(Clone, Copy, Default)]
struct State {
    bits: u8,
    is_queued: bool,
    was_hit: bool,
}

/// The keys of a queue by their slots.
struct Keys<'a> {
    states: &'a [Cell<State>],
    hashes: &'a dyn Fn(u32) -> u64,
}

impl Keys<'_> {
    fn state(&self, entry: Entry) -> Option<&Cell<State>> {
        self.states.get(entry.0 as usize).filter(|state| state.get().is_queued)
    }
}

impl Items for Keys<'_> {
    fn bits(&self, entry: Entry) -> Option<u8> {
        self.state(entry).map(|state| state.get().bits)
    }

    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        if let Some(state) = self.state(entry) {
            let before = state.get();
            state.set(State { bits: before.bits & !mask | value & mask, ..before });
        }
    }

    fn claim(&self, entry: Entry) -> Claim {
        if self.state(entry).is_some() { Claim::Taken } else { Claim::Gone }
    }

    fn fingerprint(&self, entry: Entry) -> u32 {
        fingerprint((self.hashes)(entry.0))
    }
}

fn fingerprint(hash: u64) -> u32 {
    mix64(hash) as u32
}

/// A policy of the engine over keys that are named by slots.
pub struct PolicyQueue {
    policy: Policy,
    rule: HitRule,
    states: Vec<Cell<State>>,
}

impl PolicyQueue {
    /// Creates one without keys.
    pub fn new(kind: PolicyKind) -> Self {
        // Without a clock every hit must promote.
        let kind = if let PolicyKind::Lru { .. } = kind { PolicyKind::Lru { refresh_secs: 0 } } else { kind };
        let policy = Policy::new(kind, 0);
        Self { rule: policy.hit_rule(), policy, states: Vec::new() }
    }
}

impl Eviction for PolicyQueue {
    fn hit(&mut self, slot: u32, hash: u64) {
        self.rule.count(|| fingerprint(hash));
        let Some(state) = self.states.get(slot as usize) else { return };
        let State { bits, is_queued, was_hit } = state.get();
        state.set(State { bits: self.rule.apply(bits, !was_hit, || 0), is_queued, was_hit: true });
    }

    fn push(&mut self, slot: u32, hashes: &dyn Fn(u32) -> u64) {
        let at = slot as usize;
        if at >= self.states.len() {
            self.states.resize(at + 1, Cell::default());
        }
        let bits = self.policy.admit(fingerprint(hashes(slot)));
        self.states[at].set(State { bits, is_queued: true, was_hit: false });
        self.policy.push(Entry(slot), bits, 0);
        self.policy.restore_shares(&Keys { states: &self.states, hashes });
    }

    fn pop(&mut self, hashes: &dyn Fn(u32) -> u64) -> Option<u32> {
        let Entry(slot) = self.policy.evict_unhurried(&Keys { states: &self.states, hashes })?;
        self.states[slot as usize].set(State::default());
        Some(slot)
    }

    fn bytes(&self) -> usize {
        self.states.capacity() * size_of::<State>() + self.policy.queue_bytes() + self.policy.ghost_bytes()
    }
}

#[cfg(test)]
mod tests {
    use curve::{Access, Kind, Ladder};

    use super::*;
    use crate::watch::curves::{miniature_bytes, miniature_keys};

    /// Items that are removed before the policy comes by them, and ever new keys.
    #[test]
    fn miniatures_stay_within_what_they_are_charged() {
        for kind in PolicyKind::ALL {
            for keys in [64, 512, 2_048, 8_192] {
                let mut ladder = Ladder::new(1.0, miniature_keys(keys), move || PolicyQueue::new(kind));
                let (mut most, mut state, mut batch) = (0, 1_u64, Vec::new());
                for step in 0..200_000_u64 {
                    if step % 1_000 == 0 {
                        ladder.follow(100_000 << (step / 20_000 % 4), 0);
                    }
                    state = mix64(state);
                    let hash = mix64(if state % 3 == 0 { step } else { state % 5_000 });
                    let kind =
                        [Kind::Read, Kind::Read, Kind::Remove, Kind::Write][(state >> 32) as usize % 4];
                    let size = 20 + (state >> 40) as u32 % 60;
                    batch.push(Access { hash, size, kind });
                    if batch.len() == 128 {
                        ladder.record_all(&batch);
                        batch.clear();
                        most = most.max(ladder.bytes());
                    }
                }

                let charged = miniature_bytes(kind, keys) as usize;
                // Without a charge there are none.
                assert!(
                    charged == 0 || most <= charged,
                    "{kind} from {keys} keys: {most} of {charged} bytes"
                );
            }
        }
    }
}
