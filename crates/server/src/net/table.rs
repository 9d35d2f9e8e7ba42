//! A worker's connections, found by a token that epoll carries.
//!
//! Invariant 1: a token names one connection for ever. A slot that is used again gets the next
//! generation, so that an event for a connection closed earlier in the same batch finds nothing.

use frontend::mailbox::Token;

struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

/// Connections by token. Generations stay below 2^31, so that tokens never meet the worker's own
/// marks.
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Returns the number of connections, with those that are lent.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds what `make` makes of its token.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Token) -> T) -> Token {
        let index = self.free.pop().map_or_else(
            || {
                self.slots.push(Slot { generation: 0, entry: None });
                self.slots.len() - 1
            },
            |index| index as usize,
        );
        let slot = &mut self.slots[index];
        let token = Token::new(index, slot.generation);
        slot.entry = Some(make(token));
        token
    }

    /// The entry of `token`, unless it is gone.
    #[inline]
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let slot = self.slots.get_mut(token.slot())?;
        if slot.generation != token.generation() {
            return None;
        }
        slot.entry.as_mut()
    }

    /// Takes the entry of `token` out.
    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let slot = self.slots.get_mut(token.slot())?;
        if slot.generation != token.generation() {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = (slot.generation + 1) & (u32::MAX >> 1);
        self.free.push(token.slot() as u32);
        Some(entry)
    }

    /// Takes the entry of `token` out for a while: the token stays its own, and finds nothing until
    /// it is [put back](Self::put_back).
    pub(crate) fn lend(&mut self, token: Token) -> Option<T> {
        let slot = self.slots.get_mut(token.slot())?;
        if slot.generation == token.generation() { slot.entry.take() } else { None }
    }

    /// Puts back what was taken out for a while.
    pub(crate) fn put_back(&mut self, token: Token, entry: T) {
        if let Some(slot) = self.slots.get_mut(token.slot()) {
            slot.entry = Some(entry);
        }
    }

    /// All entries with their tokens, but for those that are lent.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let token = Token::new(index, slot.generation);
            slot.entry.as_mut().map(|entry| (token, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_reused() {
        let mut table = Table::default();
        let first = table.insert(|token| token.0);
        assert_eq!(table.get_mut(first).copied(), Some(first.0));
        assert_eq!(table.remove(first), Some(first.0));
        let second = table.insert(|token| token.0);
        assert_eq!(second.slot(), first.slot(), "the slot is used again");
        assert_ne!(second, first);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.len(), 1);
        assert_eq!(table.iter_mut().map(|(token, _)| token).collect::<Vec<_>>(), [second]);
    }

    #[test]
    fn what_is_lent_keeps_its_place() {
        let mut table = Table::default();
        let first = table.insert(|_| 'a');
        assert_eq!(table.lend(first), Some('a'));
        assert!(
            table.lend(first).is_none() && table.get_mut(first).is_none() && table.remove(first).is_none()
        );
        let second = table.insert(|_| 'b');
        assert_ne!(second.slot(), first.slot());
        assert_eq!((table.len(), table.iter_mut().count()), (2, 1));
        table.put_back(first, 'a');
        assert_eq!(table.remove(first), Some('a'));
        assert_eq!(table.lend(first), None, "it is gone");
    }
}
