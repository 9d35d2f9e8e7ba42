//! Requests that took longer than `watch.latency_monitor_millis`, as Redis's latency monitor has
//! them: of each kind of event the slowest request of each of the last seconds that had one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Ledger, Part};

/// Seconds that are kept of an event, as in Redis.
const MOST_SPIKES: usize = 160;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A command whose cost depends on its arguments.
    Command,
    /// A command that should always be fast: the cause of the delay is elsewhere.
    FastCommand,
}

impl Event {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Command, Self::FastCommand];

    /// Redis's name of it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::FastCommand => "fast-command",
        }
    }
}

/// The slowest request of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spike {
    /// The second, Unix time.
    pub at_secs: u32,
    /// The duration of the request.
    pub millis: u64,
}

/// The record of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// The latest last.
    pub spikes: VecDeque<Spike>,
    /// The slowest request since the last reset.
    pub worst_millis: u64,
}

impl Series {
    const BYTES: u64 = (size_of::<Self>() + MOST_SPIKES * size_of::<Spike>()) as u64;

    fn add(&mut self, spike: Spike) {
        self.worst_millis = self.worst_millis.max(spike.millis);
        if let Some(latest) = self.spikes.back_mut().filter(|latest| latest.at_secs == spike.at_secs) {
            latest.millis = latest.millis.max(spike.millis);
            return;
        }
        if self.spikes.len() == MOST_SPIKES {
            self.spikes.pop_front();
        }
        self.spikes.push_back(spike);
    }
}

/// The events of a tenant. Locked when a request was slow, and while they are looked at.
#[derive(Default)]
pub struct Spikes(Mutex<[Option<Series>; Event::ALL.len()]>);

impl Spikes {
    /// Records a request that took this long.
    pub fn add(&self, event: Event, spike: Spike, ledger: &Ledger) {
        let mut kept = self.lock();
        let Some(place) = kept.get_mut(event as usize) else { return };
        let series = place.get_or_insert_with(|| {
            ledger.charge(Part::Fixed, Series::BYTES);
            Series { spikes: VecDeque::with_capacity(MOST_SPIKES), worst_millis: 0 }
        });
        series.add(spike);
    }

    /// Returns the record of an event, if there is one.
    pub fn of(&self, event: Event) -> Option<Series> {
        self.lock().get(event as usize)?.clone()
    }

    /// Forgets an event, and says whether there was something to forget.
    pub fn forget(&self, event: Event, ledger: &Ledger) -> bool {
        let gone = self.lock().get_mut(event as usize).and_then(Option::take).is_some();
        ledger.release(Part::Fixed, if gone { Series::BYTES } else { 0 });
        gone
    }

    fn lock(&self) -> MutexGuard<'_, [Option<Series>; Event::ALL.len()]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_each_second_is_kept_for_so_many_seconds() {
        let (spikes, ledger) = (Spikes::default(), Ledger::new(1 << 20));
        let add = |at_secs, millis| spikes.add(Event::Command, Spike { at_secs, millis }, &ledger);
        [(1, 900), (2, 30), (2, 50), (2, 40)].into_iter().for_each(|(at, millis)| add(at, millis));
        let series = spikes.of(Event::Command).expect("some");
        assert_eq!(series.spikes, [Spike { at_secs: 1, millis: 900 }, Spike { at_secs: 2, millis: 50 }]);
        let charged = ledger.total();
        (3..=200).for_each(|at| add(at, 10));
        let series = spikes.of(Event::Command).expect("some");
        assert_eq!((series.spikes.len(), series.worst_millis), (MOST_SPIKES, 900));
        assert_eq!(series.spikes.front(), Some(&Spike { at_secs: 41, millis: 10 }));
        assert_eq!(ledger.total(), charged, "no more than was charged at first");
        assert!(spikes.of(Event::FastCommand).is_none() && !spikes.forget(Event::FastCommand, &ledger));
        assert!(spikes.forget(Event::Command, &ledger) && spikes.of(Event::Command).is_none());
        assert_eq!(ledger.total(), 0);
    }
}
