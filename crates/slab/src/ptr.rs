//! Compressed item pointers: 32 bits name any chunk of 256 GiB.
//!
//! The upper 16 bits are the slab, the lower 16 the chunk's number within the slab. The chunk's
//! size comes from the slab table (8 bytes a slab, so it stays in the processor's cache), and the
//! address is `base + slab * 4 MiB + number * size`. As CacheLib's 4-byte pointer does, this bounds
//! a cache at 65,536 slabs.
//!
//! The way to wider pointers: widen `ItemPtr` to 40 bits by a third field of 8 more slab bits. Only
//! the index bucket (12 slots of 5 bytes become 10 of 6) and nothing in items or queues stores one,
//! as queues name chunks by their number within a class.

/// The number of a slab within the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlabId(pub u16);

/// Names a chunk of the arena, and so an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemPtr(u32);

impl From<ItemPtr> for u32 {
    fn from(ptr: ItemPtr) -> Self {
        ptr.0
    }
}

impl ItemPtr {
    /// Names chunk `number` of `slab`.
    #[inline]
    pub const fn new(slab: SlabId, number: u16) -> Self {
        Self((slab.0 as u32) << 16 | number as u32)
    }

    /// Takes apart what [`Self::to_bits`] gave.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The 32 bits that are stored.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The slab that the chunk lies in.
    #[inline]
    pub const fn slab(self) -> SlabId {
        SlabId((self.0 >> 16) as u16)
    }

    /// The chunk's number within its slab.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0 as u16
    }
}

const _: () = assert!(size_of::<ItemPtr>() == 4);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let ptr = ItemPtr::new(SlabId(0xfedc), 0xba98);
        assert_eq!((ptr.slab(), ptr.number()), (SlabId(0xfedc), 0xba98));
        assert_eq!(ItemPtr::from_bits(ptr.to_bits()), ptr);
    }
}
