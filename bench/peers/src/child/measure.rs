//! The timed loops.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use base::Clock;
use rustix::time::{ClockId, clock_gettime};

use super::order::{Measured, Plan, Task};
use crate::contestant::Contestant;
use crate::keys::{BATCH, Key, key};

/// The cache, keys and value that the measured loops work on.
pub(super) struct Field<'a, C> {
    pub(super) cache: &'a C,
    /// The numbers of the keys that are asked for, in order, round and round.
    pub(super) order: &'a [u32],
    /// The value that is written.
    pub(super) value: &'a [u8],
    /// The next number that was never inserted.
    pub(super) fresh: &'a AtomicU64,
}

impl<C: Contestant> Field<'_, C> {
    /// Carries out `plan`.
    pub(super) fn measure(&self, plan: Plan) -> Result<Measured> {
        let barrier = Barrier::new(plan.threads);
        let spans: Result<Vec<Span>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..plan.threads)
                .map(|thread| {
                    let barrier = &barrier;
                    scope.spawn(move || self.timed(plan, thread, barrier))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
                .collect()
        });
        let spans = spans?;
        let start = spans.iter().map(|span| span.start).min().unwrap_or(0);
        let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
        Ok(Measured {
            operations: spans.iter().map(|span| span.operations).sum(),
            hits: spans.iter().map(|span| span.hits).sum(),
            wall_nanos: end - start,
            cpu_nanos: spans.iter().map(|span| span.cpu_nanos).sum(),
        })
    }

    fn timed(&self, plan: Plan, thread: usize, barrier: &Barrier) -> Result<Span> {
        base::thread::pin_to_cpu(thread % base::thread::available_cpus())?;
        let at = self.order.len() / plan.threads * thread;
        let mut walk = Walk { order: self.order, at, carry: 0 };
        barrier.wait();
        let (start, cpu) = (Clock::System.monotonic_nanos(), cpu_nanos());
        let (mut now, mut hits, mut operations) = (start, 0, 0);
        while now - start < plan.millis * 1_000_000 {
            hits += match plan.task {
                Task::Find => self.find(&mut walk),
                Task::FindNext => self.find_next(&mut walk),
                Task::FindMany => self.find_many(&mut walk),
                Task::Copy => self.copy(&mut walk),
                Task::Insert => self.insert(),
                Task::Mixed(replaced) => self.mixed(&mut walk, replaced.into()),
            };
            operations += STRETCH;
            now = Clock::System.monotonic_nanos();
        }
        black_box(walk.carry);
        Ok(Span { start, end: now, cpu_nanos: cpu_nanos() - cpu, operations, hits })
    }

    fn find(&self, walk: &mut Walk<'_>) -> u64 {
        let (mut hits, mut sum) = (0, 0);
        for _ in 0..STRETCH {
            if let Some(byte) = self.cache.find(&walk.next(0), |value| value[0]) {
                hits += 1;
                sum += u64::from(byte);
            }
        }
        walk.carry += sum;
        hits
    }

    fn find_next(&self, walk: &mut Walk<'_>) -> u64 {
        let mut hits = 0;
        for _ in 0..STRETCH {
            let carry = walk.carry;
            if let Some(byte) = self.cache.find(&walk.next(carry), |value| value[0]) {
                hits += 1;
                // Values are all zeroes, which the compiler and the processor cannot know.
                walk.carry = u64::from(byte);
            }
        }
        hits
    }

    fn find_many(&self, walk: &mut Walk<'_>) -> u64 {
        let (mut hits, mut sum) = (0, 0);
        for _ in 0..STRETCH / BATCH as u64 {
            let keys: [Key; BATCH] = std::array::from_fn(|_| walk.next(0));
            hits += self.cache.find_many(&keys, &mut sum);
        }
        walk.carry += sum;
        hits
    }

    fn copy(&self, walk: &mut Walk<'_>) -> u64 {
        let mut hits = 0;
        let mut buffer = vec![0; self.value.len()];
        for _ in 0..STRETCH {
            let copied = self.cache.find(&walk.next(0), |value| buffer.copy_from_slice(value));
            hits += u64::from(copied.is_some());
            black_box(&buffer);
        }
        hits
    }

    fn insert(&self) -> u64 {
        let first = self.fresh.fetch_add(STRETCH, Ordering::Relaxed);
        (first..first + STRETCH).map(|number| u64::from(self.cache.insert(&key(number), self.value))).sum()
    }

    fn mixed(&self, walk: &mut Walk<'_>, replaced: u64) -> u64 {
        let (mut hits, mut sum) = (0, 0);
        for i in 0..STRETCH {
            let key = walk.next(0);
            // Spread evenly over each hundred.
            if i * replaced % 100 < replaced {
                hits += u64::from(self.cache.insert(&key, self.value));
            } else if let Some(byte) = self.cache.find(&key, |value| value[0]) {
                hits += 1;
                sum += u64::from(byte);
            }
        }
        walk.carry += sum;
        hits
    }
}

/// Operations between two looks at the clock; a multiple of the batch and of the mix.
const STRETCH: u64 = 4_000;

/// The interval in which a thread worked, and its counts.
struct Span {
    start: u64,
    end: u64,
    cpu_nanos: u64,
    operations: u64,
    hits: u64,
}

/// A thread's way through the order.
struct Walk<'a> {
    order: &'a [u32],
    at: usize,
    /// Sum of the bytes read so far, so that the compiler can't leave the reads out.
    carry: u64,
}

impl Walk<'_> {
    /// The next key, `shift` numbers further on than drawn.
    #[inline]
    fn next(&mut self, shift: u64) -> Key {
        if self.at == self.order.len() {
            self.at = 0;
        }
        let number = self.order[self.at];
        self.at += 1;
        key(u64::from(number) + shift)
    }
}

/// Processor time of this thread, in nanoseconds.
fn cpu_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
