//! Names that agents tell, as terminals may show them.

use std::borrow::Cow;

/// The longest name of a pool, in bytes: that of an instance and of its pool, if a node is led.
pub(crate) const LONGEST_POOL_NAME: usize = 512;

/// Returns whether a character has no place in a name: a control character, or one that changes the
/// direction of what follows.
pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The name of a pool as it is kept: of a bounded length, and without characters that a terminal
/// would obey.
pub(crate) fn pool_name(told: &str) -> Cow<'_, str> {
    let kept = &told[..told.floor_char_boundary(LONGEST_POOL_NAME)];
    if kept.chars().any(is_hidden) {
        kept.chars().map(|character| if is_hidden(character) { '?' } else { character }).collect()
    } else {
        kept.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pools_are_bounded_and_harmless() {
        assert_eq!(pool_name("shop"), "shop");
        assert_eq!(pool_name("\u{1b}[31mred\n\u{202e}"), "?[31mred??");
        assert_eq!(pool_name(&"ä".repeat(300)).len(), 512);
    }
}
