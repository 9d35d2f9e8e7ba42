//! The child's side: carries out orders one after the other.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use base::Clock;
use base::rng::{self, Rng as _};

use super::measure::Field;
use super::order::{Answer, Held, Measured, Order};
use crate::contestant::{Contestant, Foyer, Millpond, Moka, Name, Nothing, QuickCache, Spec};
use crate::keys::{Source, Spread, ZIPF, key, order};
use crate::machine;

/// Numbers from here on are never asked for, only inserted.
const FRESH: u64 = 1 << 40;

/// Carries out orders from standard input until it ends.
pub(crate) fn serve(name: Name) -> Result<()> {
    match name {
        Name::Nothing => Stage::<Nothing>::serve(name),
        Name::Millpond | Name::MillpondLru => Stage::<Millpond>::serve(name),
        Name::QuickCache => Stage::<QuickCache>::serve(name),
        Name::Moka => Stage::<Moka>::serve(name),
        Name::Foyer | Name::FoyerLfu => Stage::<Foyer>::serve(name),
    }
}

/// A contestant and what it is asked.
struct Stage<C> {
    name: Name,
    cache: Option<(C, Spec)>,
    /// Resident memory before the cache was built, in bytes.
    resident_before: u64,
    orders: HashMap<Spread, Vec<u32>>,
    fresh: AtomicU64,
}

impl<C: Contestant> Stage<C> {
    fn serve(name: Name) -> Result<()> {
        let mut stage = Self {
            name,
            cache: None,
            resident_before: 0,
            orders: HashMap::new(),
            fresh: AtomicU64::new(FRESH),
        };
        let mut out = std::io::stdout().lock();
        for line in std::io::stdin().lock().lines() {
            let order: Order = serde_json::from_str(&line?)?;
            let answer = stage.obey(order).unwrap_or_else(|error| Answer::Failed(format!("{error:#}")));
            serde_json::to_writer(&mut out, &answer)?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }

    fn obey(&mut self, order_given: Order) -> Result<Answer> {
        match order_given {
            Order::Draw { keys, length, spread } => {
                let seed = 1 + self.orders.len() as u64;
                self.orders.insert(spread, order(spread, keys, length, seed));
            }
            Order::Build(spec) => {
                self.resident_before = machine::resident_bytes(std::process::id())?;
                self.cache = Some((C::build(self.name, &spec)?, spec));
            }
            Order::Fill { fresh, count } => {
                let from = if fresh { self.fresh.fetch_add(count, Ordering::Relaxed) } else { 0 };
                return self.fill(from, count);
            }
            Order::Count => return self.count(),
            Order::Bill => return Ok(Answer::Bill(self.built()?.0.bill().context("it keeps no account")?)),
            Order::Measure(plan) => {
                let (cache, spec) = self.built()?;
                let order = self.orders.get(&plan.spread).context("no order was drawn for this spread")?;
                let value = vec![0; spec.value_len];
                let measured = Field { cache, order, value: &value, fresh: &self.fresh }.measure(plan)?;
                cache.settle();
                return Ok(Answer::Measured(measured));
            }
            Order::LookAside { keys, warm_up, requests } => return self.look_aside(keys, warm_up, requests),
            Order::Chase { bytes, steps } => return Ok(Answer::Measured(chase(bytes, steps))),
        }
        Ok(Answer::Done)
    }

    fn built(&self) -> Result<&(C, Spec)> {
        self.cache.as_ref().context("no cache was built")
    }

    fn fill(&self, from: u64, count: u64) -> Result<Answer> {
        let (cache, spec) = self.built()?;
        let value = vec![0; spec.value_len];
        for number in from..from + count {
            if !cache.insert(&key(number), &value) {
                bail!("the {}th insert was refused", number - from);
            }
        }
        self.count()
    }

    fn count(&self) -> Result<Answer> {
        let (cache, _) = self.built()?;
        cache.settle();
        let resident = machine::resident_bytes(std::process::id())?;
        let resident_bytes = resident.saturating_sub(self.resident_before);
        Ok(Answer::Held(Held { items: cache.items(), resident_bytes }))
    }

    fn look_aside(&self, keys: u32, warm_up: u64, requests: u64) -> Result<Answer> {
        let (cache, spec) = self.built()?;
        let value = vec![0; spec.value_len];
        let mut source = Source::new(ZIPF, keys, 3);
        let mut hits = 0;
        let start = Clock::System.monotonic_nanos();
        for i in 0..warm_up + requests {
            let key = key(source.draw().into());
            if cache.find(&key, |value| value[0]).is_some() {
                hits += u64::from(i >= warm_up);
            } else {
                cache.insert(&key, &value);
            }
        }
        let wall_nanos = Clock::System.monotonic_nanos() - start;
        Ok(Answer::Measured(Measured { operations: requests, hits, wall_nanos, cpu_nanos: wall_nanos }))
    }
}

/// Walks a random cycle through a region, one cache line a step.
fn chase(bytes: u64, steps: u64) -> Measured {
    let lines = (bytes / 64).max(2) as usize;
    let mut next = vec![[0_u32; 16]; lines];
    // Sattolo's shuffle: one cycle through all lines.
    for (i, line) in next.iter_mut().enumerate() {
        line[0] = i as u32;
    }
    let mut rng = rng::seeded(4);
    for i in (1..lines).rev() {
        let j = ((u128::from(rng.next_u64()) * i as u128) >> 64) as usize;
        let kept = next[i][0];
        next[i][0] = next[j][0];
        next[j][0] = kept;
    }
    let mut at = 0_usize;
    let start = Clock::System.monotonic_nanos();
    for _ in 0..steps {
        at = next[at][0] as usize;
    }
    let wall_nanos = Clock::System.monotonic_nanos() - start;
    black_box(at);
    Measured { operations: steps, hits: steps, wall_nanos, cpu_nanos: wall_nanos }
}
