//! Categories of commands, as the rules of users name them.

/// A category, in Redis's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Category {
    /// Commands on keys, whatever the type of their values.
    Keyspace,
    /// Commands that read keys.
    Read,
    /// Commands that write keys.
    Write,
    /// Commands of sets.
    Set,
    /// Commands of sorted sets.
    SortedSet,
    /// Commands of lists.
    List,
    /// Commands of hashes.
    Hash,
    /// Commands of strings.
    String,
    /// Commands of bitmaps.
    Bitmap,
    /// Commands of HyperLogLogs.
    HyperLogLog,
    /// Commands of geographic indices.
    Geo,
    /// Commands of streams.
    Stream,
    /// Commands of channels.
    PubSub,
    /// Commands of administrators.
    Admin,
    /// Commands of constant or logarithmic time.
    Fast,
    /// Commands that aren't fast.
    Slow,
    /// Commands that may wait for another client.
    Blocking,
    /// Commands that can harm other clients.
    Dangerous,
    /// Commands of connections.
    Connection,
    /// Commands of transactions.
    Transaction,
    /// Commands of scripts.
    Scripting,
}

impl Category {
    /// All categories, in order.
    pub const ALL: [Self; 21] = [
        Self::Keyspace,
        Self::Read,
        Self::Write,
        Self::Set,
        Self::SortedSet,
        Self::List,
        Self::Hash,
        Self::String,
        Self::Bitmap,
        Self::HyperLogLog,
        Self::Geo,
        Self::Stream,
        Self::PubSub,
        Self::Admin,
        Self::Fast,
        Self::Slow,
        Self::Blocking,
        Self::Dangerous,
        Self::Connection,
        Self::Transaction,
        Self::Scripting,
    ];

    /// The name, without `@`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keyspace => "keyspace",
            Self::Read => "read",
            Self::Write => "write",
            Self::Set => "set",
            Self::SortedSet => "sortedset",
            Self::List => "list",
            Self::Hash => "hash",
            Self::String => "string",
            Self::Bitmap => "bitmap",
            Self::HyperLogLog => "hyperloglog",
            Self::Geo => "geo",
            Self::Stream => "stream",
            Self::PubSub => "pubsub",
            Self::Admin => "admin",
            Self::Fast => "fast",
            Self::Slow => "slow",
            Self::Blocking => "blocking",
            Self::Dangerous => "dangerous",
            Self::Connection => "connection",
            Self::Transaction => "transaction",
            Self::Scripting => "scripting",
        }
    }

    /// The category of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == name)
    }
}

/// A set of categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// These, and those that flags imply: `write`, `readonly`, `admin` (and with it `dangerous`),
    /// `pubsub`, and `fast` or, without that flag, `slow`.
    pub(super) const fn of(own: &[Category], flags: &str) -> Self {
        let mut set = Self(0).with_all(own);
        if has_word(flags, "write") {
            set = set.with(Category::Write);
        }
        if has_word(flags, "readonly") {
            set = set.with(Category::Read);
        }
        if has_word(flags, "admin") {
            set = set.with(Category::Admin).with(Category::Dangerous);
        }
        if has_word(flags, "pubsub") {
            set = set.with(Category::PubSub);
        }
        set.with(if has_word(flags, "fast") { Category::Fast } else { Category::Slow })
    }

    const fn with(self, category: Category) -> Self {
        Self(self.0 | 1 << category as u32)
    }

    const fn with_all(mut self, mut all: &[Category]) -> Self {
        while let [category, rest @ ..] = all {
            self = self.with(*category);
            all = rest;
        }
        self
    }

    /// Returns whether the set has the category.
    #[must_use]
    pub const fn has(self, category: Category) -> bool {
        self.0 & 1 << category as u32 != 0
    }

    /// The categories, in order.
    pub fn iter(self) -> impl Iterator<Item = Category> + Clone {
        Category::ALL.into_iter().filter(move |category| self.has(*category))
    }
}

/// Returns whether one of the words of a text is `word`; a space ends a word.
pub(super) const fn has_word(text: &str, word: &str) -> bool {
    let (mut rest, word) = (text.as_bytes(), word.as_bytes());
    loop {
        let (mut left, mut wanted) = (rest, word);
        while let ([a, left_behind @ ..], [b, wanted_behind @ ..]) = (left, wanted) {
            if *a != *b {
                break;
            }
            (left, wanted) = (left_behind, wanted_behind);
        }
        if wanted.is_empty() && matches!(left, [] | [b' ', ..]) {
            return true;
        }
        loop {
            match rest {
                [] => return false,
                [b' ', behind @ ..] => {
                    rest = behind;
                    break;
                }
                [_, behind @ ..] => rest = behind,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole() {
        for word in ["write", "denyoom", "fast"] {
            assert!(has_word("write denyoom fast", word), "{word}");
        }
        for word in ["rite", "denyoo", "fas", "fastest", "deny", "write denyoomx"] {
            assert!(!has_word("write denyoom fast", word), "{word}");
        }
        assert!(!has_word("", "fast"));
    }

    #[test]
    fn categories_are_found_by_their_names_in_order() {
        for (place, category) in Category::ALL.into_iter().enumerate() {
            assert_eq!(category as usize, place);
            assert_eq!(Category::named(category.name()), Some(category));
        }
        let set = Categories::of(&[Category::Hash], "write fast");
        let names: Vec<_> = set.iter().map(Category::name).collect();
        assert_eq!(names, ["write", "hash", "fast"]);
        assert!(!set.has(Category::Slow));
    }
}
