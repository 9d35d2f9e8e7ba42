//! Amounts of resources: at most one for each, and 0 of those that are not named.

use crate::v1::{Amount, Resource};

/// The units of `resource`, if that is named.
pub fn named(amounts: &[Amount], resource: Resource) -> Option<u64> {
    amounts.iter().find(|amount| amount.resource == resource as i32).map(|amount| amount.units)
}

/// The units of `resource`.
pub fn units(amounts: &[Amount], resource: Resource) -> u64 {
    named(amounts, resource).unwrap_or(0)
}

/// The bytes of memory.
pub fn memory(amounts: &[Amount]) -> u64 {
    units(amounts, Resource::Memory)
}

/// Memory, and nothing else.
pub fn of_memory(bytes: u64) -> Vec<Amount> {
    vec![Amount { resource: Resource::Memory as i32, units: bytes }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_nothing() {
        assert_eq!(memory(&of_memory(7)), 7);
        assert_eq!(units(&of_memory(7), Resource::Network), 0);
        assert_eq!(named(&of_memory(0), Resource::Memory), Some(0));
        assert_eq!(named(&[], Resource::Memory), None);
        assert_eq!(memory(&[]), 0);
        // A resource of a later revision.
        assert_eq!(memory(&[Amount { resource: 99, units: 5 }]), 0);
    }
}
