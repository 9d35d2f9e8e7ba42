//! The rejected requests and their clients, for `ACL LOG`. The log is short, and contains only
//! names of commands, keys and users.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries that are kept.
const MAX_ENTRIES: usize = 128;
/// This many bytes of a name or a key are kept.
const MAX_OBJECT_BYTES: usize = 128;
/// A repeated rejection within this many seconds is counted with the first one.
const GROUP_SECS: u32 = 60;

/// Something that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// How often it was refused.
    pub count: u64,
    /// `auth`, `command` or `key`.
    pub reason: &'static str,
    /// `toplevel` or `multi`.
    pub context: &'static str,
    /// The command, the key, or `AUTH`.
    pub object: Vec<u8>,
    /// The user that was refused it.
    pub user: Vec<u8>,
    /// The connection, as `CLIENT LIST` shows it.
    pub client: String,
    /// When it was refused last, Unix seconds.
    pub at_secs: u32,
}

/// The newest first.
#[derive(Default)]
pub struct AccessLog(Mutex<VecDeque<Entry>>);

impl AccessLog {
    /// Adds an entry, or counts it with one that is alike and recent.
    pub fn add(&self, mut entry: Entry) {
        entry.object.truncate(MAX_OBJECT_BYTES);
        entry.user.truncate(MAX_OBJECT_BYTES);
        let mut entries = self.lock();
        let is_again = |known: &Entry| {
            (known.reason, known.context, &known.object, &known.user)
                == (entry.reason, entry.context, &entry.object, &entry.user)
                && entry.at_secs.saturating_sub(known.at_secs) <= GROUP_SECS
        };
        if let Some(at) = entries.iter().position(is_again)
            && let Some(known) = entries.remove(at)
        {
            entry.count += known.count;
        }
        entries.push_front(entry);
        entries.truncate(MAX_ENTRIES);
    }

    /// Returns this many entries, the newest first.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.lock().iter().take(count).cloned().collect()
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_again_is_counted_and_the_log_is_short() {
        let log = AccessLog::default();
        let entry = |object: &str, at_secs| Entry {
            count: 1,
            reason: "command",
            context: "toplevel",
            object: object.into(),
            user: b"bob".to_vec(),
            client: String::new(),
            at_secs,
        };
        log.add(entry("get", 0));
        log.add(entry("get", 60));
        log.add(entry("get", 121));
        let counts: Vec<u64> = log.newest(9).iter().map(|entry| entry.count).collect();
        assert_eq!(counts, [1, 2]);
        (0..300).for_each(|number| log.add(entry(&format!("c{number}"), 0)));
        assert_eq!(log.newest(usize::MAX).len(), MAX_ENTRIES);
        log.clear();
        assert!(log.newest(1).is_empty());
    }
}
