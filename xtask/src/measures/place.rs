//! The place of something that is counted.

/// A line of a file, and the reason that it is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) line: usize,
    /// The phrase, the comment or the size found there.
    pub(crate) text: String,
}
