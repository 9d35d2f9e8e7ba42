//! The effect of hits: the half of a policy that runs without a lock.
//!
//! The policy of a class, which is behind the lock, and its hits, which are not, share one
//! [`HitRule`]. The rule can be replaced while hits run ([`crate::Policy::convert`]): it is a
//! number in an atomic, beside the state that the rules need. State, once created, stays until the
//! class is dropped, so that a hit that still follows the old rule never touches freed memory.
//!
//! Invariant 1: a hit that runs while the rule is replaced may leave bits of the old policy on an
//! item. So policies rely on bits only for order: whatever the bits are, the item stays queued and
//! is evicted eventually.

use std::sync::{Arc, OnceLock};

use base::sync::atomic::{AtomicU8, Ordering};

use crate::contract::Rule;
use crate::generations::{Generations, Part};
use crate::lru::LruClock;
use crate::s3fifo;
use crate::sieve;
use crate::sketch::Sketch;

/// The state that the policy and the hits of a class share.
pub(crate) struct Hits {
    rule: AtomicU8,
    lru: OnceLock<Arc<LruClock>>,
    generations: OnceLock<Arc<Generations>>,
    sketch: OnceLock<Arc<Sketch>>,
}

impl Hits {
    pub(crate) fn new() -> Self {
        Self {
            rule: AtomicU8::new(Rule::None as u8),
            lru: OnceLock::new(),
            generations: OnceLock::new(),
            sketch: OnceLock::new(),
        }
    }

    /// Makes hits follow `rule` from now on. Its state must exist already.
    pub(crate) fn set(&self, rule: Rule) {
        self.rule.store(rule as u8, Ordering::Release);
    }

    pub(crate) fn lru(&self) -> &Arc<LruClock> {
        self.lru.get_or_init(Arc::default)
    }

    pub(crate) fn generations(&self) -> &Arc<Generations> {
        self.generations.get_or_init(Arc::default)
    }

    pub(crate) fn sketch(&self) -> &Arc<Sketch> {
        self.sketch.get_or_init(Arc::default)
    }

    /// Memory of the state, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let size = |is_there, bytes| if is_there { bytes } else { 0 };
        size(self.lru.get().is_some(), size_of::<LruClock>())
            + size(self.generations.get().is_some(), size_of::<Generations>())
            + self.sketch.get().map_or(0, |sketch| sketch.bytes())
    }
}

/// The rule by which a hit changes an item's policy bits. Cloned into the hit path, which holds no
/// lock; all clones follow the policy when it is converted.
#[derive(Clone)]
pub struct HitRule(pub(crate) Arc<Hits>);

impl HitRule {
    /// The item's bits after a hit. `first` is true if this is the item's first hit since its
    /// insertion. `now` returns the time in seconds, and is called only if needed.
    #[inline]
    pub fn apply(&self, bits: u8, first: bool, now: impl Fn() -> u32) -> u8 {
        self.apply_in(bits, first, now).0
    }

    /// The same, with the number of the queue that the item was in, as in [`crate::Queue`]: below
    /// [`crate::MAX_QUEUES`]. Items that are not queued yet count as in the first.
    #[inline]
    pub fn apply_in(&self, bits: u8, first: bool, now: impl Fn() -> u32) -> (u8, usize) {
        let hits = &*self.0;
        match hits.rule.load(Ordering::Acquire) {
            rule if rule == Rule::S3Fifo as u8 => (s3fifo::hit(bits), s3fifo::queue_of(bits)),
            rule if rule == Rule::Sieve as u8 => (sieve::hit(bits), 0),
            rule if rule == Rule::Lru as u8 => {
                (hits.lru.get().map_or(bits, |clock| clock.hit(bits, first, now)), 0)
            }
            rule if rule >= Rule::Lists as u8 => {
                let after = hits.generations.get().map_or(bits, |generations| generations.hit(bits, now));
                (after, Part::of(bits) as usize)
            }
            _ => (bits, 0),
        }
    }

    /// The number of the queue, as from [`Self::apply_in`], if a hit leaves the bits as they are
    /// and counts nothing. `None` also if only [`Self::apply_in`] can tell: this is a quick test
    /// for hot items under policies that need a few bits.
    #[inline]
    pub fn unchanged_in(&self, bits: u8) -> Option<usize> {
        let (after, queue) = match self.0.rule.load(Ordering::Acquire) {
            rule if rule == Rule::S3Fifo as u8 => (s3fifo::hit(bits), s3fifo::queue_of(bits)),
            rule if rule == Rule::Sieve as u8 => (sieve::hit(bits), 0),
            _ => return None,
        };
        (after == bits).then_some(queue)
    }

    /// The bits of an item that was hit before it is queued: `bits` from [`crate::Policy::admit`],
    /// changed by those hits, which have left the item with the bits `earlier`. Until it is both
    /// queued and hit, an item has bits 0.
    #[inline]
    pub fn apply_unqueued(&self, bits: u8, earlier: u8, now: impl Fn() -> u32) -> u8 {
        let hits = &*self.0;
        match hits.rule.load(Ordering::Acquire) {
            rule if rule == Rule::S3Fifo as u8 => s3fifo::counted(bits, earlier),
            rule if rule >= Rule::Lists as u8 => {
                hits.generations.get().map_or(bits, |generations| generations.after_hit(bits))
            }
            _ => self.apply(bits, true, now),
        }
    }

    /// Counts a hit in the frequency sketch, for policies that have one; called once per hit.
    /// `fingerprint` returns 32 bits of the key's hash, those of [`crate::Items::fingerprint`], and
    /// is called only for such policies.
    #[inline]
    pub fn count(&self, fingerprint: impl FnOnce() -> u32) {
        if self.0.rule.load(Ordering::Acquire) == Rule::Counted as u8
            && let Some(sketch) = self.0.sketch.get()
        {
            sketch.add(fingerprint());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, PolicyKind};

    #[test]
    fn what_is_unchanged_at_a_glance_is_what_a_hit_leaves_as_it_was() {
        for kind in PolicyKind::ALL {
            let rule = Policy::new(kind, 0).hit_rule();
            let quick = (0..=u8::MAX).filter(|&bits| {
                let Some(queue) = rule.unchanged_in(bits) else { return false };
                assert_eq!(rule.apply_in(bits, false, || 0), (bits, queue), "{kind:?} {bits}");
                rule.count(|| panic!("{kind:?} counts hits"));
                true
            });
            let is_quick = matches!(rule.0.rule.load(Ordering::Relaxed), rule if rule == Rule::S3Fifo as u8
                || rule == Rule::Sieve as u8);
            assert_eq!(quick.count() > 0, is_quick, "{kind:?}");
        }
    }
}
