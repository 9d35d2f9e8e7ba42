//! A bucket: one cache line.
//!
//! ```text
//! word 0   tags of slots 0–7, a byte each; 0 = empty
//! word 1   tags of slots 8–11 in the lower half; in the upper half, from its bit 0:
//!          version (20 bits), spilled entries (7 bits, sticks at 127), reach (4 bits),
//!          lock (1 bit)
//! then     12 pointers of 4 bytes
//! ```
//!
//! A tag is a fingerprint of 8 bits of the key's hash, so that most other keys are rejected without
//! reading their items. Spilled entries have this bucket as their home but lie in a later one. The
//! reach is an upper bound of their distance, in buckets.
//!
//! Invariants (of `Index`): 2, slots change only under this bucket's lock. While a bucket is locked
//! only the holder writes to it, so the holder may use plain stores.

use base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use slab::ItemPtr;

/// Slots of a bucket.
pub const SLOTS: usize = 12;
/// Greatest distance of an entry from its home, in buckets.
pub const MAX_REACH: u32 = 15;

const LOCK: u64 = 1 << 63;
const REACH_SHIFT: u32 = 59;
const REACH: u64 = 0xf << REACH_SHIFT;
const SPILLED_SHIFT: u32 = 52;
const SPILLED: u64 = 0x7f << SPILLED_SHIFT;
const VERSION_ONE: u64 = 1 << 32;
const VERSION: u64 = 0xf_ffff << 32;
const UPPER: u64 = !0 << 32;
#[cfg(any(not(target_arch = "x86_64"), all(test, not(loom))))]
const LOW_BYTES: u64 = 0x0101_0101_0101_0101;
#[cfg(any(not(target_arch = "x86_64"), all(test, not(loom))))]
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// One cache line of the index.
#[repr(C, align(64))]
pub struct Bucket {
    words: [AtomicU64; 2],
    ptrs: [AtomicU32; SLOTS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == 64);

/// The upper half of word 1 at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta(u64);

impl Meta {
    /// Returns whether the bucket was locked.
    #[inline]
    pub fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// Upper bound of the distance of spilled entries, in buckets.
    #[inline]
    pub fn reach(self) -> u32 {
        ((self.0 & REACH) >> REACH_SHIFT) as u32
    }

    /// Number of spilled entries; 127 stands for that many or more.
    pub fn spilled(self) -> u32 {
        ((self.0 & SPILLED) >> SPILLED_SHIFT) as u32
    }
}

/// Slots by bit, lowest first.
#[derive(Clone, Copy)]
pub struct SlotSet(u32);

impl Iterator for SlotSet {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(slot as usize)
    }
}

/// A bit for each of the 16 bytes of `words` that equals `tag`.
#[cfg(target_arch = "x86_64")]
#[inline]
fn matching_bytes([low, high]: [u64; 2], tag: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: each processor of this architecture has SSE2.
    let mask = unsafe {
        let tags = _mm_set_epi64x(high as i64, low as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8)))
    };
    mask as u32
}

/// A bit for each of the 16 bytes of `words` that equals `tag`.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn matching_bytes([low, high]: [u64; 2], tag: u8) -> u32 {
    matching_in_word(low, tag) | matching_in_word(high, tag) << 8
}

/// A bit for each byte of `word` that equals `tag`, gathered from the bytes' high bits. Exact: no
/// borrow between bytes.
#[cfg(any(not(target_arch = "x86_64"), all(test, not(loom))))]
#[inline]
fn matching_in_word(word: u64, tag: u8) -> u32 {
    let x = word ^ (LOW_BYTES * u64::from(tag));
    let zero = !((x & !HIGH_BITS).wrapping_add(!HIGH_BITS) | x) & HIGH_BITS;
    // Gathers bits 7, 15, … 63 into bits 0–7.
    ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

impl Bucket {
    /// Makes the system back this bucket with memory. Changes no content, so it is safe whichever
    /// thread holds the lock: it exchanges 0 for 0, which the processor still treats as a write.
    pub fn touch(&self) {
        let _ = self.words[0].compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// An empty bucket.
    pub fn new() -> Self {
        Self {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            ptrs: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Lock, version, spilled entries and reach.
    #[inline]
    pub fn meta(&self) -> Meta {
        Meta(self.words[1].load(Ordering::Acquire) & UPPER)
    }

    /// The slots whose tag is `tag`; with tag 0, the empty ones.
    #[inline]
    pub fn matching(&self, tag: u8) -> SlotSet {
        let high = self.words[1].load(Ordering::Acquire);
        let low = self.words[0].load(Ordering::Acquire);
        SlotSet(matching_bytes([low, high], tag) & 0xfff)
    }

    /// The occupied slots.
    pub fn occupied(&self) -> SlotSet {
        SlotSet(!self.matching(0).0 & 0xfff)
    }

    /// The pointer in `slot`.
    #[inline]
    pub fn ptr(&self, slot: usize) -> ItemPtr {
        ItemPtr::from_bits(self.ptrs[slot].load(Ordering::Acquire))
    }

    /// The tag in `slot`.
    pub fn tag(&self, slot: usize) -> u8 {
        (self.words[slot / 8].load(Ordering::Relaxed) >> (slot % 8 * 8)) as u8
    }

    /// Takes the lock. Spins while another thread holds it, and yields the processor now and then.
    #[inline]
    pub fn lock(&self) {
        let mut spins = 0_u32;
        loop {
            let word = self.words[1].load(Ordering::Relaxed);
            if word & LOCK == 0
                && self.words[1]
                    .compare_exchange_weak(word, word | LOCK, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            pause(&mut spins);
        }
    }

    /// Releases the lock. Raises the version if `changed` is true.
    #[inline]
    pub fn unlock(&self, changed: bool) {
        let word = self.words[1].load(Ordering::Relaxed);
        debug_assert!(word & LOCK != 0);
        let version = if changed { word.wrapping_add(VERSION_ONE) & VERSION } else { word & VERSION };
        self.words[1].store(word & !(LOCK | VERSION) | version, Ordering::Release);
    }

    /// Fills an empty slot. The caller holds the lock.
    #[inline]
    pub fn fill(&self, slot: usize, tag: u8, ptr: ItemPtr) {
        self.ptrs[slot].store(ptr.to_bits(), Ordering::Release);
        self.set_tag(slot, tag);
    }

    /// Puts another pointer into an occupied slot. The caller holds the lock.
    #[inline]
    pub fn exchange(&self, slot: usize, ptr: ItemPtr) {
        self.ptrs[slot].store(ptr.to_bits(), Ordering::Release);
    }

    /// Empties a slot. The caller holds the lock.
    #[inline]
    pub fn clear(&self, slot: usize) {
        self.set_tag(slot, 0);
    }

    #[inline]
    fn set_tag(&self, slot: usize, tag: u8) {
        let (word, shift) = (&self.words[slot / 8], slot % 8 * 8);
        let bits = word.load(Ordering::Relaxed);
        word.store(bits & !(0xff << shift) | u64::from(tag) << shift, Ordering::Release);
    }

    /// Records that an entry of this home was put `distance` buckets behind it. The caller holds
    /// the lock.
    pub fn note_spilled(&self, distance: u32) {
        let word = self.words[1].load(Ordering::Relaxed);
        let meta = Meta(word);
        let spilled = u64::from((meta.spilled() + 1).min(127)) << SPILLED_SHIFT;
        let reach = u64::from(meta.reach().max(distance)) << REACH_SHIFT;
        self.words[1].store(word & !(SPILLED | REACH) | spilled | reach, Ordering::Release);
    }

    /// Records the removal of a spilled entry. The caller holds the lock.
    pub fn note_unspilled(&self) {
        let word = self.words[1].load(Ordering::Relaxed);
        let left = match Meta(word).spilled() {
            127 => return,
            spilled => spilled.saturating_sub(1),
        };
        let mut next = word & !SPILLED | u64::from(left) << SPILLED_SHIFT;
        if left == 0 {
            next &= !REACH;
        }
        self.words[1].store(next, Ordering::Release);
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self::new()
    }
}

/// Waits briefly for another thread: spins a few times, then yields the processor.
#[inline]
pub(crate) fn pause(spins: &mut u32) {
    *spins += 1;
    if spins.is_multiple_of(128) {
        #[cfg(not(loom))]
        std::thread::yield_now();
    }
    base::sync::spin_hint();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use slab::SlabId;

    #[test]
    fn byte_matching_is_exact() {
        for tag in [0_u8, 1, 0x7f, 0x80, 0xff] {
            for seed in 0..2_000_u64 {
                let mut word = base::hash::mix64(seed);
                for byte in 0..8 {
                    if seed >> byte & 1 == 1 {
                        word = word & !(0xff << (byte * 8)) | u64::from(tag) << (byte * 8);
                    }
                }
                let expected =
                    (0..8).filter(|byte| (word >> (byte * 8)) as u8 == tag).fold(0, |m, b| m | 1 << b);
                assert_eq!(matching_in_word(word, tag), expected, "{word:016x} {tag:02x}");
                let other = word.rotate_left(24);
                let both = expected | matching_in_word(other, tag) << 8;
                assert_eq!(matching_bytes([word, other], tag), both, "{word:016x} {tag:02x}");
            }
        }
    }

    #[test]
    fn slots_fill_and_clear() {
        let bucket = Bucket::new();
        bucket.lock();
        for slot in 0..SLOTS {
            bucket.fill(slot, slot as u8 + 1, ItemPtr::new(SlabId(1), slot as u16));
        }
        for slot in 0..SLOTS {
            assert_eq!(bucket.matching(slot as u8 + 1).collect::<Vec<_>>(), [slot]);
            assert_eq!(bucket.ptr(slot).number(), slot as u16);
        }
        assert_eq!(bucket.matching(0).count(), 0);
        bucket.clear(3);
        bucket.clear(11);
        assert_eq!(bucket.matching(0).collect::<Vec<_>>(), [3, 11]);
        assert_eq!(bucket.occupied().count(), 10);
        let before = bucket.meta();
        assert!(before.is_locked());
        bucket.unlock(true);
        assert_ne!(bucket.meta(), before);
    }

    #[test]
    fn spills_are_counted_and_the_count_sticks() {
        let bucket = Bucket::new();
        bucket.lock();
        bucket.note_spilled(3);
        bucket.note_spilled(1);
        assert_eq!((bucket.meta().spilled(), bucket.meta().reach()), (2, 3));
        bucket.note_unspilled();
        bucket.note_unspilled();
        assert_eq!((bucket.meta().spilled(), bucket.meta().reach()), (0, 0));
        for _ in 0..200 {
            bucket.note_spilled(15);
        }
        for _ in 0..200 {
            bucket.note_unspilled();
        }
        assert_eq!((bucket.meta().spilled(), bucket.meta().reach()), (127, 15));
        bucket.unlock(false);
        assert!(!bucket.meta().is_locked());
    }
}
