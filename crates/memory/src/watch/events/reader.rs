//! Readers of events: they begin and end the recording, and take what was recorded.

use std::io;
use std::time::Duration;

use base::thread::Repeating;
use base::{ByteSize, Part};

use super::{Buffer, EventConfig, EventSink, EventStats, RECORD_BYTES, first};
use crate::cache::Cache;
use crate::error::{Error, ErrorKind};

impl Cache {
    /// Begins to record events of a sample of keys, for as long as the reader lives. There is one
    /// reader at a time.
    ///
    /// A call on a key that is not sampled pays for a comparison; one on a sampled key takes a lock
    /// that all share, for as long as it takes to copy the key.
    ///
    /// ```
    /// use millpond::watch::{Event, EventConfig, EventKind};
    /// use millpond::{Cache, CacheConfig, ItemOptions, PoolConfig};
    /// # fn main() -> Result<(), millpond::Error> {
    /// let cache = Cache::new(CacheConfig::default())?;
    /// let pool = cache.add_pool(PoolConfig::named("users"))?;
    /// let mut events = cache.events(EventConfig { one_in: 1, ..EventConfig::default() })?;
    /// cache.put(cache.allocate(pool, b"user:1", 0, &ItemOptions::default())?);
    /// cache.find(b"user:1");
    /// let mut kinds = Vec::new();
    /// events.drain(&mut |event: &Event<'_>| kinds.push(event.kind));
    /// assert_eq!(kinds, [EventKind::Allocate, EventKind::Insert, EventKind::Find]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where there is a reader already, or where the buffer is larger than 1
    /// GiB or has no room for an event; [`ErrorKind::OutOfMemory`] where held items keep the cache
    /// from making room for it.
    pub fn events(&self, config: EventConfig) -> Result<EventReader, Error> {
        let least = RECORD_BYTES + crate::MAX_KEY_BYTES;
        if config.buffer.as_usize() < least || config.buffer > ByteSize::gib(1) {
            return Err(Error::new(
                ErrorKind::Config,
                format!("an event buffer of {}: give it {least} bytes to 1GiB", config.buffer),
            ));
        }
        let watch = &self.core().watch;
        let is_free = || match &*watch.buffer.lock() {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::Config,
                "somebody reads the events of this cache already: drop that reader first",
            )),
        };
        is_free()?;
        let spent = self.core().spend(2 * config.buffer.as_u64())?;
        let _switching = watch.switching.lock();
        is_free()?;
        spent.keep();
        *watch.buffer.lock() = Some(Buffer::new(&config));
        watch.sample_events(config.one_in);
        Ok(EventReader { cache: self.clone(), spare: Vec::with_capacity(config.buffer.as_usize()) })
    }

    /// Changes the share of the keys that is sampled, at once: one in this many; 0 = none. `false`:
    /// nobody reads events.
    pub fn set_events_one_in(&self, one_in: u32) -> bool {
        let watch = &self.core().watch;
        let _switching = watch.switching.lock();
        let mut buffer = watch.buffer.lock();
        let Some(buffer) = &mut *buffer else { return false };
        buffer.stats.one_in = one_in;
        watch.sample_events(one_in);
        true
    }

    /// Returns the numbers of events that were recorded and dropped; `None` if nobody reads them.
    pub fn event_stats(&self) -> Option<EventStats> {
        self.core().watch.buffer.lock().as_ref().map(|buffer| buffer.stats)
    }
}

/// Reads the events of a cache. Made by [`Cache::events`]; when it is dropped, recording ends.
#[derive(Debug)]
pub struct EventReader {
    cache: Cache,
    spare: Vec<u8>,
}

impl EventReader {
    /// Gives all events that are there to `sink`, and returns how many there were.
    pub fn drain(&mut self, sink: &mut impl EventSink) -> u64 {
        self.spare.clear();
        if let Some(buffer) = &mut *self.cache.core().watch.buffer.lock() {
            std::mem::swap(&mut buffer.records, &mut self.spare);
        }
        let (mut rest, mut count) = (&self.spare[..], 0);
        while let Some((event, after)) = first(rest) {
            sink.event(&event);
            rest = after;
            count += 1;
        }
        sink.flush();
        count
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let core = self.cache.core();
        let _switching = core.watch.switching.lock();
        core.watch.sample_events(0);
        let gone = core.watch.buffer.lock().take();
        if let Some(gone) = gone {
            core.ledger.release(Part::Fixed, 2 * gone.capacity as u64);
        }
    }
}

/// A thread that reads events now and then, until this is stopped or dropped; then it reads the
/// remaining ones.
#[derive(Debug)]
pub struct EventThread<S>(Repeating<(EventReader, S)>);

impl<S: EventSink + Send + 'static> EventThread<S> {
    /// Starts a thread that gives the events to `sink`, at every `interval`. What comes within an
    /// interval must find room in the buffer.
    ///
    /// # Errors
    /// Where the operating system refuses another thread.
    pub fn start(reader: EventReader, sink: S, interval: Duration) -> io::Result<Self> {
        let read = |(reader, sink): &mut (EventReader, S), _| {
            reader.drain(sink);
        };
        Ok(Self(Repeating::start("events", interval, (reader, sink), read)?))
    }

    /// Ends the recording and returns the sink, which has all events then; `None` where it
    /// panicked.
    pub fn stop(self) -> Option<S> {
        self.0.stop().map(|(_, sink)| sink)
    }
}
