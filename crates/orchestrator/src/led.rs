//! The memory that the orchestrator of a fleet sets for a node: the amount in force, and the amount
//! that is saved.
//!
//! The fleet's orchestrator gives other nodes all that this one does not report as its own. So the
//! invariants are about the amount in force, which the node reports, and the amounts that a restart
//! may find:
//!
//! 1. The amount in force is at least every amount that may be saved, at any moment: a restart
//!    never begins with more than the node has reported.
//! 2. The amount in force rises only to what the fleet's orchestrator has set, which that counts
//!    from before it asks.
//! 3. Until an amount was set, or found saved, no instance of the node is raised.
//!
//! The order follows from these. A larger amount is *in force first and saved then*: a restart in
//! between begins with less than was reported. A smaller amount is *saved first and in force once
//! it surely is*: if it were reported before, other nodes would get the difference, and a restart
//! would have it again. A failed attempt to save may have reached the disk all the same, so that
//! one of several amounts is saved. None exceeds the amount in force, and the next attempt settles
//! it.

use crate::Nanos;

/// The memory of a node that is led, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Led {
    pub(crate) node: String,
    /// The most that the node can have.
    pub(crate) most: u64,
    /// The memory that it has; `None`: none was set yet.
    in_force: Option<u64>,
    /// The memory that was set last.
    wanted: Option<u64>,
    /// The amount that is saved, if that is known and there is one.
    saved: Option<u64>,
    /// The reason why the last attempt to save failed, until there is another.
    failure: Option<String>,
    /// Without memory that was set, instances that run already have registered by then.
    complete_at: Nanos,
}

/// The state of the memory that was set last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// It is in force.
    InForce,
    /// It is less than what is in force, and is being saved.
    Saving,
    /// It is less than what is in force, and could not be saved, for this reason.
    Unsaved(String),
}

impl Led {
    /// The memory of `node`, of which `saved` was found; instances that run already have registered
    /// by `complete_at`.
    pub(crate) fn new(node: String, most: u64, saved: Option<u64>, complete_at: Nanos) -> Self {
        Self { node, most, in_force: saved, wanted: saved, saved, failure: None, complete_at }
    }

    /// The memory that the node has; `None`: none was set yet.
    pub(crate) fn in_force(&self) -> Option<u64> {
        self.in_force
    }

    /// Returns whether all instances of the node are known that run already. Those are that were
    /// saved, and none is when the node is led for the first time.
    pub(crate) fn is_complete(&self, now: Nanos) -> bool {
        self.in_force.is_some() || now >= self.complete_at
    }

    /// Sets the memory, up to the most that the node can have.
    pub(crate) fn set(&mut self, bytes: u64) {
        let bytes = bytes.min(self.most);
        self.wanted = Some(bytes);
        self.failure = None;
        // None was set: nothing is saved, and nothing is raised.
        self.in_force = Some(self.in_force.map_or(bytes, |present| present.max(bytes)));
    }

    /// The state of the amount that was set last.
    pub(crate) fn setting(&self) -> Setting {
        match &self.failure {
            _ if self.wanted == self.in_force => Setting::InForce,
            Some(reason) => Setting::Unsaved(reason.clone()),
            None => Setting::Saving,
        }
    }

    /// Begins an attempt to save, if there is something to save: returns the amount.
    pub(crate) fn begin_save(&mut self) -> Option<u64> {
        let wanted = self.wanted.filter(|_| self.wanted != self.saved)?;
        // Until the attempt has succeeded it may be this amount, or a former one.
        self.saved = None;
        Some(wanted)
    }

    /// Notes the outcome of an attempt to save these bytes.
    pub(crate) fn note_save(&mut self, bytes: u64, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                (self.saved, self.failure) = (Some(bytes), None);
                // Another amount may have been set meanwhile: then that is saved next.
                if self.wanted == self.saved {
                    self.in_force = self.wanted;
                }
            }
            Err(reason) => self.failure = Some(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{RngExt, seeded};

    const MOST: u64 = 100;

    /// A disk that may have more than one amount: those of attempts that failed.
    struct Disk {
        may_have: Vec<Option<u64>>,
    }

    impl Disk {
        fn save(&mut self, bytes: u64, fails: bool) -> Result<(), String> {
            if fails {
                self.may_have.push(Some(bytes));
                return Err("the disk is full".to_owned());
            }
            self.may_have = vec![Some(bytes)];
            Ok(())
        }
    }

    fn in_force(led: &Led) -> u64 {
        led.in_force().unwrap_or(0)
    }

    #[test]
    fn more_is_in_force_at_once_and_less_once_it_is_saved() {
        let mut led = Led::new("a".to_owned(), MOST, Some(40), 0);
        led.set(60);
        assert_eq!((led.in_force(), led.setting()), (Some(60), Setting::InForce));
        assert_eq!(led.begin_save(), Some(60));
        led.note_save(60, Err("the disk is full".to_owned()));
        assert_eq!(led.in_force(), Some(60), "the fleet's orchestrator counts it");

        led.set(50);
        assert_eq!((led.in_force(), led.setting()), (Some(60), Setting::Saving));
        assert_eq!(led.begin_save(), Some(50));
        led.note_save(50, Err("the disk is full".to_owned()));
        let failed = Setting::Unsaved("the disk is full".to_owned());
        assert_eq!((led.in_force(), led.setting()), (Some(60), failed), "a restart may have it");
        assert_eq!(led.begin_save(), Some(50), "again");
        led.note_save(50, Ok(()));
        assert_eq!((led.in_force(), led.setting()), (Some(50), Setting::InForce));
        led.set(50);
        assert_eq!(led.begin_save(), None, "it is saved already");
        led.set(MOST + 1);
        assert_eq!(led.in_force(), Some(MOST));
    }

    #[test]
    fn an_amount_that_a_failed_attempt_may_have_saved_is_saved_over() {
        let mut led = Led::new("a".to_owned(), MOST, Some(40), 0);
        led.set(60);
        led.begin_save();
        led.note_save(60, Err("the disk is full".to_owned()));
        // What was saved before that attempt, which is no longer known to be saved.
        led.set(40);
        assert_eq!((led.begin_save(), led.in_force()), (Some(40), Some(60)));
    }

    /// Amounts are set, saved in part, and the process is killed, in any order.
    #[test]
    fn no_restart_begins_with_more_than_was_in_force() {
        for seed in 0..2_000 {
            let mut rng = seeded(seed);
            let mut disk = Disk { may_have: vec![None] };
            let mut led = Led::new("a".to_owned(), MOST, None, 0);
            let mut under_way = None;
            // What the fleet's orchestrator counts: the most of what it set since the node said
            // last what it has, and of that.
            let mut counted = 0;
            for step in 0..60 {
                match rng.random_range(0..6) {
                    0 | 1 => {
                        let bytes = rng.random_range(0..MOST);
                        counted = counted.max(bytes);
                        led.set(bytes);
                    }
                    2 => counted = in_force(&led),
                    3 if under_way.is_none() => under_way = led.begin_save(),
                    4 => {
                        if let Some(bytes) = under_way.take() {
                            let outcome = disk.save(bytes, rng.random_bool(0.4));
                            led.note_save(bytes, outcome);
                        }
                    }
                    5 if rng.random_bool(0.2) => {
                        disk.may_have.extend(under_way.take().map(Some));
                        let found = disk.may_have[rng.random_range(0..disk.may_have.len())];
                        disk.may_have = vec![found];
                        led = Led::new("a".to_owned(), MOST, found, 0);
                    }
                    _ => {}
                }
                let most_saved = disk.may_have.iter().flatten().chain(&under_way).max().copied().unwrap_or(0);
                let known = (counted, in_force(&led), most_saved);
                assert!(counted >= in_force(&led), "seed {seed}, step {step}: {known:?}");
                assert!(in_force(&led) >= most_saved, "seed {seed}, step {step}: {known:?}");
            }
        }
    }
}
