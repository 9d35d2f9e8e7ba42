//! The state word on which every thread agrees about an item: see the invariants in
//! [`crate::item`].

use base::sync::atomic::{AtomicU32, Ordering};

const REFS: u32 = 0x3fff;
/// Most references that are given out; one more is kept for the thread that unlinks the item.
const MOST_HELD: u32 = REFS - 1;
const CHAINED: u32 = 1 << 14;
const INDEXED: u32 = 1 << 15;
const FETCHED: u32 = 1 << 16;
const USER_SHIFT: u32 = 17;
const USER: u32 = 0b11 << USER_SHIFT;
const QUEUED: u32 = 1 << 19;
const POLICY_SHIFT: u32 = 20;
const POLICY: u32 = 0xff << POLICY_SHIFT;
const INCARNATION_SHIFT: u32 = 28;

/// The outcome of an attempt to take a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// A reference was taken.
    Yes,
    /// The item is not in the index (any more).
    Gone,
    /// 16,382 references are held already.
    Overflow,
}

/// References and flags of an item: see the module.
#[repr(transparent)]
pub struct StateWord(AtomicU32);

impl StateWord {
    /// A word of its own, for tests and models.
    pub fn new(bits: u32) -> Self {
        Self(AtomicU32::new(bits))
    }

    /// Begins a new incarnation in a freshly allocated chunk, with one reference.
    #[inline]
    pub fn begin(&self) {
        let incarnation = (self.0.load(Ordering::Relaxed) >> INCARNATION_SHIFT).wrapping_add(1);
        self.0.store(incarnation << INCARNATION_SHIFT | 1, Ordering::Relaxed);
    }

    /// Says that the item has room for a chain ([`crate::item::link`]). The caller owns the chunk,
    /// whose incarnation has just begun.
    pub fn set_chained(&self) {
        self.0.fetch_or(CHAINED, Ordering::Relaxed);
    }

    /// Returns whether the item has room for a chain.
    #[inline]
    pub fn is_chained(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CHAINED != 0
    }

    /// Begins a new incarnation in a freshly allocated chunk as a copy of the item with the state
    /// `of`: one reference, and what was known of the item's accesses and of its user.
    #[inline]
    pub fn begin_copy(&self, of: &Self) {
        let incarnation = (self.0.load(Ordering::Relaxed) >> INCARNATION_SHIFT).wrapping_add(1);
        let kept = of.0.load(Ordering::Relaxed) & (FETCHED | USER | POLICY | CHAINED);
        self.0.store(incarnation << INCARNATION_SHIFT | kept | 1, Ordering::Relaxed);
    }

    /// Takes over an item that another process left behind: its references died with that process,
    /// and no queue has it. `false`: there is no item. What is known of its accesses and its user
    /// stays.
    pub fn revive(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(word & !(REFS | QUEUED), Ordering::Relaxed);
        word & INDEXED != 0
    }

    /// Discards an item that was just revived and is in no index.
    pub fn discard(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) & !INDEXED, Ordering::Relaxed);
    }

    /// Makes the item findable, with the policy's first bits. The caller holds the first reference.
    #[inline]
    pub fn publish(&self) {
        self.0.fetch_or(INDEXED, Ordering::Release);
    }

    /// Takes a reference. Leaves no trace of the access: that is [`Self::record_access`].
    #[inline]
    pub fn acquire(&self) -> Acquired {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & INDEXED == 0 {
                return Acquired::Gone;
            }
            if word & REFS >= MOST_HELD {
                return Acquired::Overflow;
            }
            match self.0.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Acquired::Yes,
                Err(now) => word = now,
            }
        }
    }

    /// Records an access by a holder of a reference: FETCHED is set, and the policy's bits become
    /// `hit(bits, first)`, where `first` says that the item was never fetched before. Writes
    /// nothing where nothing changes. Returns `first`.
    #[inline]
    pub fn record_access(&self, hit: impl Fn(u8, bool) -> u8) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let first = word & FETCHED == 0;
            let policy = u32::from(hit((word >> POLICY_SHIFT) as u8, first)) << POLICY_SHIFT;
            let next = word & !POLICY | policy | FETCHED;
            if next == word {
                return first;
            }
            match self.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return first,
                Err(now) => word = now,
            }
        }
    }

    /// Takes one more reference; the caller holds one already. `false`: 16,382 are held, and
    /// nothing has changed.
    #[inline]
    #[must_use]
    pub fn duplicate(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        // Adding first and looking afterwards would carry into CHAINED, once others do so at the
        // same time.
        while word & REFS < MOST_HELD {
            match self.0.compare_exchange_weak(word, word + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Gives a reference back. `true`: it was the last one of an item that is not in the index; the
    /// caller frees it.
    #[inline]
    #[must_use]
    pub fn release(&self) -> bool {
        let word = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(word & REFS != 0, "a reference was given back twice");
        word & (REFS | INDEXED) == 1
    }

    /// Takes the item out of sight, and a reference to it, in one step: whoever unlinks an item
    /// must keep it from being freed until it has left its queue. `false`: somebody else already
    /// did (invariant 2).
    #[inline]
    pub fn unindex(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & INDEXED == 0 {
                return false;
            }
            let next = (word & !INDEXED) + 1;
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Claims the item for eviction: succeeds only if it is in the index and nobody holds it. The
    /// claimant owns the chunk. Called under the lock of the class, as it clears QUEUED too.
    #[inline]
    pub fn claim(&self) -> Claim {
        self.take_idle(|word| word & !(INDEXED | QUEUED))
    }

    #[inline]
    fn take_idle(&self, taken: impl Fn(u32) -> u32) -> Claim {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & REFS != 0 {
                return Claim::Held;
            }
            if word & INDEXED == 0 {
                return Claim::Gone;
            }
            match self.0.compare_exchange_weak(word, taken(word), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Claim::Taken,
                Err(now) => word = now,
            }
        }
    }

    /// Takes an item out of sight that nobody holds, and a reference to it: what [`Self::unindex`]
    /// does, if [`Self::claim`] would succeed. The item may stay in its queue, whose lock the
    /// caller need not hold.
    pub fn unindex_if_idle(&self) -> Claim {
        self.take_idle(|word| (word & !INDEXED) + 1)
    }

    /// Takes a reference to an item that the caller has claimed, as if it had [`Self::unindex`]ed
    /// it.
    pub fn hold_claimed(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks the item as having an entry in its class's queue, with the policy's bits: `bits`, or
    /// if the item was fetched already, `hit(bits, earlier)`, where `earlier` is what hits have
    /// made of its bits until now. Returns the new bits. `None`: the item has left the index, or
    /// has an entry already, and must not be queued. Called under the lock of the class.
    #[inline]
    pub fn enqueue(&self, bits: u8, hit: impl Fn(u8, u8) -> u8) -> Option<u8> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & INDEXED == 0 || word & QUEUED != 0 {
                return None;
            }
            let earlier = (word >> POLICY_SHIFT) as u8;
            let bits = if word & FETCHED == 0 { bits } else { hit(bits, earlier) };
            let next = word & !POLICY | u32::from(bits) << POLICY_SHIFT | QUEUED;
            match self.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(bits),
                Err(now) => word = now,
            }
        }
    }

    /// Clears QUEUED and says whether it was set. Called under the lock of the class.
    #[inline]
    pub fn dequeue(&self) -> bool {
        self.0.fetch_and(!QUEUED, Ordering::Relaxed) & QUEUED != 0
    }

    /// The policy's bits.
    #[inline]
    pub fn policy(&self) -> u8 {
        (self.0.load(Ordering::Relaxed) >> POLICY_SHIFT) as u8
    }

    /// The policy's bits, if the item was ever fetched.
    #[inline]
    pub fn policy_if_fetched(&self) -> Option<u8> {
        let word = self.0.load(Ordering::Relaxed);
        (word & FETCHED != 0).then_some((word >> POLICY_SHIFT) as u8)
    }

    /// Sets the policy's bits under `mask` to those of `value`.
    #[inline]
    pub fn set_policy(&self, mask: u8, value: u8) {
        let (mask, value) = (u32::from(mask) << POLICY_SHIFT, u32::from(value & mask) << POLICY_SHIFT);
        let mut word = self.0.load(Ordering::Relaxed);
        while let Err(now) =
            self.0.compare_exchange_weak(word, word & !mask | value, Ordering::Relaxed, Ordering::Relaxed)
        {
            word = now;
        }
    }

    /// The chunk's incarnation, 0–15.
    #[inline]
    pub fn incarnation(&self) -> u8 {
        (self.0.load(Ordering::Relaxed) >> INCARNATION_SHIFT) as u8
    }

    /// Returns whether the item is in the index.
    #[inline]
    pub fn is_indexed(&self) -> bool {
        self.0.load(Ordering::Acquire) & INDEXED != 0
    }

    /// Returns whether the item has an entry in its class's queue.
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.0.load(Ordering::Relaxed) & QUEUED != 0
    }

    /// Returns whether the item was ever fetched.
    #[inline]
    pub fn is_fetched(&self) -> bool {
        self.0.load(Ordering::Relaxed) & FETCHED != 0
    }

    /// Returns the number of references that are held.
    #[inline]
    pub fn references(&self) -> u32 {
        self.0.load(Ordering::Relaxed) & REFS
    }

    /// The user's two bits.
    #[inline]
    pub fn user_bits(&self) -> u8 {
        ((self.0.load(Ordering::Acquire) & USER) >> USER_SHIFT) as u8
    }

    /// Sets user bits and returns what they were.
    #[inline]
    pub fn set_user_bits(&self, bits: u8) -> u8 {
        let word = self.0.fetch_or(u32::from(bits) << USER_SHIFT & USER, Ordering::AcqRel);
        ((word & USER) >> USER_SHIFT) as u8
    }

    /// Clears user bits and returns what they were.
    #[inline]
    pub fn clear_user_bits(&self, bits: u8) -> u8 {
        let word = self.0.fetch_and(!(u32::from(bits) << USER_SHIFT & USER), Ordering::AcqRel);
        ((word & USER) >> USER_SHIFT) as u8
    }

    /// An item in the index of which one more reference may be taken.
    #[cfg(all(test, loom))]
    pub(crate) fn nearly_full() -> Self {
        Self::new(INDEXED | (MOST_HELD - 1))
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn bits_for_test(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn set_bits_for_test(&self, bits: u32) {
        self.0.store(bits, Ordering::Relaxed);
    }
}

/// The outcome of an attempt to evict an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The claimant owns the chunk.
    Taken,
    /// Somebody holds a reference.
    Held,
    /// It is not in the index any more.
    Gone,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<StateWord>() == 4);
