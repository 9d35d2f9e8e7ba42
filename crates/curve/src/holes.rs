//! A set of places whose highest member is known in a few steps.
//!
//! A word has a bit for each of 64 places, and a word of the next level one for each of 64 words
//! that have a bit set. So memory depends on the number of places alone, a 62nd of a row's own.

/// Places of a word.
const WORD: usize = 64;

/// A set of places.
#[derive(Clone, Debug)]
pub(crate) struct Holes {
    /// From the level of places up to the level of one word.
    levels: Vec<Vec<u64>>,
    len: usize,
}

impl Holes {
    /// The empty set of places below `places`.
    pub(crate) fn new(places: usize) -> Self {
        Self { levels: Self::shape(places).map(|words| vec![0; words]).collect(), len: 0 }
    }

    /// The number of words of each level.
    fn shape(places: usize) -> impl Iterator<Item = usize> {
        let first = places.div_ceil(WORD).max(1);
        std::iter::successors(Some(first), |words| (*words > 1).then(|| words.div_ceil(WORD)))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a place that is not in the set.
    pub(crate) fn insert(&mut self, mut place: usize) {
        self.len += 1;
        for level in &mut self.levels {
            level[place / WORD] |= 1 << (place % WORD);
            place /= WORD;
        }
    }

    /// Removes a place that is in the set.
    pub(crate) fn remove(&mut self, mut place: usize) {
        self.len -= 1;
        for level in &mut self.levels {
            let word = &mut level[place / WORD];
            *word &= !(1 << (place % WORD));
            if *word != 0 {
                return;
            }
            place /= WORD;
        }
    }

    /// The highest place.
    #[inline]
    pub(crate) fn last(&self) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let highest = |word: usize, level: &Vec<u64>| word * WORD + level[word].ilog2() as usize;
        Some(self.levels.iter().rev().fold(0, highest))
    }

    /// The memory of a set of places below `places`, in bytes.
    pub(crate) fn bytes_for(places: usize) -> usize {
        Self::shape(places).map(|words| words * size_of::<u64>() + size_of::<Vec<u64>>()).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<u64>() + size_of::<Vec<u64>>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn holes_are_a_set(
            places in 1_usize..10_000,
            steps in prop::collection::vec(any::<prop::sample::Index>(), 1..300),
        ) {
            let (mut holes, mut plain) = (Holes::new(places), BTreeSet::new());
            for (step, which) in steps.into_iter().enumerate() {
                let place = which.index(places);
                if plain.insert(place) {
                    holes.insert(place);
                } else {
                    plain.remove(&place);
                    holes.remove(place);
                }
                if step % 3 == 2 && let Some(last) = holes.last() {
                    plain.remove(&last);
                    holes.remove(last);
                }
                prop_assert_eq!((holes.last(), holes.len()), (plain.last().copied(), plain.len()));
            }
            prop_assert!(holes.bytes() <= Holes::bytes_for(places));
        }
    }
}
