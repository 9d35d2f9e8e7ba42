//! Slow requests: the last of them, with their first arguments, as in Redis's slow log.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Ledger, Part};

/// Arguments that are kept of a request, and bytes of each.
const MAX_ARGS: usize = 32;
const MAX_ARG_BYTES: usize = 128;

/// A slow request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Its number since the server was started.
    pub id: u64,
    /// Time of the answer, Unix seconds.
    pub at_secs: u32,
    /// Its duration.
    pub micros: u64,
    /// The tenant of the request: no other tenant sees it.
    pub tenant: String,
    /// The first arguments, shortened, without secrets.
    pub args: Vec<Vec<u8>>,
    /// The client's address, and the name that it gave itself.
    pub peer: String,
    /// The connection's name.
    pub name: Vec<u8>,
}

impl Slow {
    fn held_bytes(&self) -> u64 {
        let args: usize = self.args.iter().map(|arg| arg.capacity() + size_of::<Vec<u8>>()).sum();
        (size_of::<Self>() + args + self.tenant.capacity() + self.peer.capacity() + self.name.capacity())
            as u64
    }
}

/// The log. Locked when a slow request comes, and while it is looked at.
#[derive(Default)]
pub struct SlowLog(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// The latest last.
    entries: VecDeque<Slow>,
    next_id: u64,
}

impl SlowLog {
    /// Keeps a request; if there are more than `most`, the oldest are removed.
    pub fn add(&self, mut slow: Slow, most: usize, ledger: &Ledger) {
        let mut kept = self.lock();
        slow.id = kept.next_id;
        kept.next_id += 1;
        ledger.charge(Part::Fixed, slow.held_bytes());
        kept.entries.push_back(slow);
        while kept.entries.len() > most {
            if let Some(gone) = kept.entries.pop_front() {
                ledger.release(Part::Fixed, gone.held_bytes());
            }
        }
    }

    /// The latest `most` of a tenant, the latest first.
    pub fn latest(&self, tenant: &str, most: usize) -> Vec<Slow> {
        let kept = self.lock();
        kept.entries.iter().rev().filter(|slow| slow.tenant == tenant).take(most).cloned().collect()
    }

    /// Returns the number of a tenant's entries.
    pub fn len(&self, tenant: &str) -> usize {
        self.lock().entries.iter().filter(|slow| slow.tenant == tenant).count()
    }

    /// Returns the number of all entries ever made.
    pub fn total(&self) -> u64 {
        self.lock().next_id
    }

    /// Forgets those of a tenant.
    pub fn clear(&self, tenant: &str, ledger: &Ledger) {
        let mut freed = 0;
        self.lock().entries.retain(|slow| {
            let stays = slow.tenant != tenant;
            freed += if stays { 0 } else { slow.held_bytes() };
            stays
        });
        ledger.release(Part::Fixed, freed);
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a shortened copy of `args`: the first of them, the first bytes of each, and no secret.
pub fn shortened(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let is_long = args.len() > MAX_ARGS;
    let whole = if is_long { MAX_ARGS - 1 } else { args.len() };
    let secret = secrets(args);
    let mut kept: Vec<Vec<u8>> = (0..)
        .zip(args)
        .take(whole)
        .map(|(at, arg)| {
            if secret.contains(&at) {
                return b"(redacted)".to_vec();
            }
            match arg.get(..MAX_ARG_BYTES).filter(|_| arg.len() > MAX_ARG_BYTES) {
                None => arg.to_vec(),
                Some(start) => {
                    [start, format!("... ({} more bytes)", arg.len() - MAX_ARG_BYTES).as_bytes()].concat()
                }
            }
        })
        .collect();
    if is_long {
        kept.push(format!("... ({} more arguments)", args.len() - whole).into_bytes());
    }
    kept
}

/// Returns the places of arguments that are secret.
fn secrets(args: &[&[u8]]) -> Vec<usize> {
    let is =
        |at: usize, word: &str| args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    if is(0, "AUTH") {
        return (1..args.len()).collect();
    }
    if is(0, "HELLO") {
        let auth = (2..args.len()).find(|at| is(*at, "AUTH"));
        return auth.map_or(Vec::new(), |at| vec![at + 1, at + 2]);
    }
    if is(0, "ACL") {
        return (2..args.len()).collect();
    }
    if is(0, "CONFIG") && is(1, "SET") {
        let is_secret = |at: &usize| {
            args.get(*at).is_some_and(|name| {
                let name = name.to_ascii_lowercase();
                ["pass", "secret", ".rules"]
                    .iter()
                    .any(|word| name.windows(word.len()).any(|part| part == word.as_bytes()))
            })
        };
        return (2..args.len()).step_by(2).filter(is_secret).map(|at| at + 1).collect();
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(args: &[&str]) -> Vec<String> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        shortened(&args).into_iter().map(|arg| String::from_utf8(arg).expect("text")).collect()
    }

    #[test]
    fn secrets_are_left_out() {
        assert_eq!(shown(&["auth", "hunter2"]), ["auth", "(redacted)"]);
        assert_eq!(shown(&["AUTH", "me", "hunter2"]), ["AUTH", "(redacted)", "(redacted)"]);
        let hello = shown(&["HELLO", "3", "AUTH", "me", "hunter2", "SETNAME", "n"]);
        assert_eq!(hello, ["HELLO", "3", "AUTH", "(redacted)", "(redacted)", "SETNAME", "n"]);
        assert_eq!(shown(&["HELLO", "3", "SETNAME", "auth"]), ["HELLO", "3", "SETNAME", "auth"]);
        assert_eq!(
            shown(&["acl", "setuser", "me", ">hunter2"]),
            ["acl", "setuser", "(redacted)", "(redacted)"]
        );
        assert_eq!(
            shown(&["config", "set", "timeout", "5", "RequirePass", "hunter2"]),
            ["config", "set", "timeout", "5", "RequirePass", "(redacted)"]
        );
    }

    #[test]
    fn long_requests_are_shortened() {
        let long = "x".repeat(130);
        assert_eq!(shown(&["get", &long])[1], format!("{}... (2 more bytes)", "x".repeat(128)));
        let many = shown(&["k"; 40]);
        assert_eq!((many.len(), many[31].as_str()), (32, "... (9 more arguments)"));
        assert_eq!(shown(&["k"; 32]).len(), 32);
    }

    #[test]
    fn the_log_is_bounded_and_in_the_bill() {
        let (log, ledger) = (SlowLog::default(), Ledger::new(1 << 20));
        let slow = |micros| Slow {
            id: 0,
            at_secs: 1,
            micros,
            tenant: if micros == 0 { "other" } else { "mine" }.to_owned(),
            args: vec![b"get".to_vec()],
            peer: "tcp".to_owned(),
            name: Vec::new(),
        };
        (1..6).for_each(|micros| log.add(slow(micros), 3, &ledger));
        let latest: Vec<(u64, u64)> =
            log.latest("mine", 2).iter().map(|slow| (slow.id, slow.micros)).collect();
        assert_eq!(latest, [(4, 5), (3, 4)]);
        assert_eq!((log.len("mine"), log.total()), (3, 5));
        log.add(slow(0), 3, &ledger);
        assert_eq!((log.len("mine"), log.len("other")), (2, 1));
        log.clear("mine", &ledger);
        assert_eq!((log.len("mine"), log.len("other")), (0, 1));
        assert!(ledger.part(Part::Fixed) > 0);
        log.clear("other", &ledger);
        assert_eq!((log.latest("other", 9), ledger.part(Part::Fixed)), (Vec::new(), 0));
    }
}
