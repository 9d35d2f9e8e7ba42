//! The errors of starting, running and reloading the server. A failure on a connection is reported
//! to its client and counted, and is not an error here.

use std::fmt;

/// The kind of a failure, which determines what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A setting is wrong. The message names it and its remedy; a retry does not help.
    Config,
    /// An address cannot be listened on: not permitted, or not there. Choose another.
    Listen,
    /// Another program has an address. Stop that one or choose another.
    Taken,
    /// The cache cannot be built as configured. The message says which part.
    Engine,
    /// The operating system refused something else: threads, descriptors, signals.
    System,
}

/// A failure of the server as a whole.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    context: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A failure of this kind, whose message is `context`.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// A failure of this kind that another one caused: the message is `context`, a colon and the
    /// message of `source`.
    pub fn with_source(
        kind: ErrorKind,
        context: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, context: context.into(), source: Some(source.into()) }
    }

    /// Several failures as one of the kind of the first, a line for each.
    pub fn all(errors: &[Self]) -> Self {
        let kind = errors.first().map_or(ErrorKind::System, Self::kind);
        Self::new(kind, errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    /// Returns the kind of failure.
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
        self.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

/// Returns a hint for a name that does not exist.
pub(super) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone, what: &str) -> String {
    match base::suggest::nearest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.clone().next().is_none() => "there are none".to_owned(),
        None => format!("the {what} are: {}", known.collect::<Vec<_>>().join(", ")),
    }
}
