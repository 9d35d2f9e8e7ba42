//! One call as the checker remembers it, and how a report shows it.

use std::fmt;

/// A point of logical time: every begin and end of a call takes the next one.
pub(crate) type Tick = u64;

/// The operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Get,
    Set,
    Delete,
    Touch,
    /// All keys were removed at once.
    Flush,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Not known yet.
    Open,
    /// A get returned the version that the record names.
    Value,
    /// A get, delete or touch found nothing.
    Nothing,
    /// The call was done.
    Done,
    /// A set was refused, and nothing was written; or a touch, or what it was for was not there.
    Refused,
    /// No answer came: the call was carried out or not.
    Unknown,
}

/// A call on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) begin: Tick,
    /// `Tick::MAX` while the call is under way.
    pub(crate) end: Tick,
    /// The version that was written or returned.
    pub(crate) version: u64,
    /// The size of what was written, in bytes.
    pub(crate) size: u32,
    /// The time to live of what was written or touched, in seconds; 0 is for ever.
    pub(crate) ttl_secs: u32,
    pub(crate) thread: u16,
    pub(crate) kind: CallKind,
    pub(crate) answer: Answer,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            Tick::MAX => write!(f, "[{}, under way] ", self.begin)?,
            end => write!(f, "[{}, {end}] ", self.begin)?,
        }
        match self.kind {
            CallKind::Flush => return f.write_str("flush of all keys"),
            CallKind::Get => write!(f, "thread {} get", self.thread)?,
            CallKind::Delete => write!(f, "thread {} delete", self.thread)?,
            CallKind::Touch => write!(f, "thread {} touch", self.thread)?,
            CallKind::Set => write!(f, "thread {} set v{}, {} B", self.thread, self.version, self.size)?,
        }
        if self.ttl_secs > 0 {
            write!(f, ", ttl {} s", self.ttl_secs)?;
        }
        match self.answer {
            Answer::Open => Ok(()),
            Answer::Value => write!(f, " -> v{}", self.version),
            Answer::Nothing => f.write_str(" -> nothing there"),
            Answer::Done => f.write_str(" -> done"),
            Answer::Refused if self.kind == CallKind::Touch => f.write_str(" -> nothing there, or refused"),
            Answer::Refused => f.write_str(" -> refused"),
            Answer::Unknown => f.write_str(" -> no answer came"),
        }
    }
}
