//! Errors, and what to do about each kind. A miss is not an error.

use std::fmt;

/// The error of a call that failed.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    context: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The kinds of errors, by what the caller can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration makes no sense. Change it; a retry does not help.
    Config,
    /// The operating system refused memory. Free some or ask for less.
    System,
    /// No such pool. Create it first.
    NoSuchPool,
    /// A pool of that name exists, or there are too many pools. Use the one there is.
    PoolExists,
    /// A key is empty or longer than 255 bytes. Use another key.
    KeyLength,
    /// The item is larger than the largest chunk of its pool. A retry does not help.
    TooLarge,
    /// The structured item that a handle was opened for is not there any more. Make it anew, and
    /// fill it from its source.
    Gone,
    /// The item of the key is not a structured item of the type that was asked for, or is corrupt.
    /// Open it as what it was made as, or remove it. Or the codec of a typed cache cannot encode
    /// the value.
    WrongType,
    /// The item was not allocated with room for a chain ([`crate::ItemOptions::chainable`]).
    NotChainable,
    /// Every item that could be evicted is held by somebody, or the pool's limit is below one slab.
    /// Drop handles or raise the limit, then retry.
    OutOfMemory,
}

impl Error {
    /// An error without a source, for the rooms above.
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// An error with its source, for the rooms above.
    #[doc(hidden)]
    pub fn with_source(
        kind: ErrorKind,
        context: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, context: context.into(), source: Some(source.into()) }
    }

    /// Returns the kind, which says what the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
