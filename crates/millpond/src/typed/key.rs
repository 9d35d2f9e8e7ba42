//! Keys of any type and length as the engine's keys of 1 to 255 bytes.

use base::hash::key_hash;

use memory::MAX_KEY_BYTES;

/// Bytes that a value can be found by: those of strings as they are, those of numbers from the
/// highest to the lowest. Two keys are the same if their bytes are.
pub trait Key {
    /// The bytes.
    type Bytes<'k>: AsRef<[u8]> + Send
    where
        Self: 'k;

    /// Its bytes.
    fn bytes(&self) -> Self::Bytes<'_>;
}

macro_rules! slices {
    ($($type:ty),*) => {$(
        impl Key for $type {
            type Bytes<'k> = &'k [u8];

            #[inline]
            fn bytes(&self) -> &[u8] {
                self.as_ref()
            }
        }
    )*};
}

slices!(str, String, [u8], Vec<u8>);

impl<const N: usize> Key for [u8; N] {
    type Bytes<'k> = &'k [u8];

    #[inline]
    fn bytes(&self) -> &[u8] {
        self
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Key for $type {
            type Bytes<'k> = [u8; size_of::<$type>()];

            #[inline]
            fn bytes(&self) -> Self::Bytes<'_> {
                self.to_be_bytes()
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl<K: Key + ?Sized> Key for &K {
    type Bytes<'k>
        = K::Bytes<'k>
    where
        Self: 'k;

    #[inline]
    fn bytes(&self) -> Self::Bytes<'_> {
        (**self).bytes()
    }
}

/// Both parts, each with its length before it.
impl<A: Key, B: Key> Key for (A, B) {
    type Bytes<'k>
        = Vec<u8>
    where
        Self: 'k;

    fn bytes(&self) -> Vec<u8> {
        let (a, b) = (self.0.bytes(), self.1.bytes());
        let (a, b) = (a.as_ref(), b.as_ref());
        [&(a.len() as u64).to_be_bytes()[..], a, b].concat()
    }
}

/// Bytes of a long key that the engine's key has.
const BEGINNING: usize = MAX_KEY_BYTES - size_of::<u64>();
/// A seed of its own: what lies in shared memory is found by the next process.
const LONG_KEY_SEED: u64 = 0x6c6f_6e67_206b_6579;

/// The engine's key for a typed key.
///
/// Keys of 1 to 254 bytes are the engine's. Of others the engine's key, of 255 bytes, is a hash and
/// the beginning; the rest stands before the value, and is compared with the key when the value is
/// read: two keys with one hash take each other's place, and are never taken for each other.
#[expect(clippy::large_enum_variant, reason = "one lives on the stack for the time of a call")]
pub(super) enum Place<'k> {
    Short(&'k [u8]),
    Long([u8; MAX_KEY_BYTES], &'k [u8]),
}

impl<'k> Place<'k> {
    #[inline]
    pub(super) fn of(key: &'k [u8]) -> Self {
        if (1..MAX_KEY_BYTES).contains(&key.len()) { Self::Short(key) } else { Self::hashed(key) }
    }

    fn hashed(key: &'k [u8]) -> Self {
        let (beginning, rest) = key.split_at(key.len().min(BEGINNING));
        let mut place = [0; MAX_KEY_BYTES];
        place[..size_of::<u64>()].copy_from_slice(&key_hash(LONG_KEY_SEED, key).to_be_bytes());
        place[size_of::<u64>()..][..beginning.len()].copy_from_slice(beginning);
        Self::Long(place, rest)
    }

    /// The engine's key.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        match self {
            Self::Short(key) => key,
            Self::Long(key, _) => key,
        }
    }

    /// Returns the part of the key that stands before the value. `None`: nothing, as the engine's
    /// key is all of it.
    #[inline]
    pub(super) fn rest(&self) -> Option<&'k [u8]> {
        match self {
            Self::Short(_) => None,
            Self::Long(_, rest) => Some(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn different_keys_have_different_places(
            a in prop::collection::vec(0_u8..2, 0..600), b in prop::collection::vec(0_u8..2, 0..600),
        ) {
            let (one, other) = (Place::of(&a), Place::of(&b));
            prop_assert!((1..=MAX_KEY_BYTES).contains(&one.key().len()));
            prop_assert_eq!(a == b, (one.key(), one.rest()) == (other.key(), other.rest()));
        }
    }

    #[test]
    fn pairs_differ_where_their_parts_do() {
        assert_ne!(("ab", "c").bytes(), ("a", "bc").bytes());
        assert_eq!((7_u32, "x").bytes(), (&7_u32, &"x").bytes());
        assert_eq!(258_u16.bytes(), [1, 2]);
    }
}
