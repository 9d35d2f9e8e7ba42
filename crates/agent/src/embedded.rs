//! The engine in this process, as an orchestrator leads it: its memory, and what its pools are
//! granted.

use std::collections::{HashMap, HashSet};
use std::fmt;

use base::{ByteSize, Part};
use control::amounts;
use control::v1::{self, Amount, PoolGrant, PoolReport};
use millpond::control::{ControlConfig, Controller, PoolSurvey};
use millpond::{Cache, Error, ErrorKind, PoolId};

use crate::instance::{Instance, InstanceError, Look};
use crate::report;

/// The settings of an [`Embedded`].
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// The name of the instance, for people: another one for each process of a machine.
    pub name: String,
    /// The machine, whose memory the instance shares with others. Default: the name of the host.
    pub node: String,
    /// The kind and the version of the program. Default `embedded`, and the engine's version.
    pub kind: String,
    /// The version of the program.
    pub version: String,
    /// The least memory of the cache, if that is more than the engine needs. Default 0.
    pub least_memory: ByteSize,
    /// True if the memory stays in use when the process ends: the cache lies in shared memory.
    /// Default false.
    pub outlives_process: bool,
    /// Promises, backends and costs of misses, which are reported, and the curves that are learnt.
    /// The rest is for caches that decide themselves, and not used here.
    pub control: ControlConfig,
}

impl EmbeddedConfig {
    /// The defaults, with a name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            node: base::machine::host_name(),
            kind: "embedded".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            least_memory: ByteSize::new(0),
            outlives_process: false,
            control: ControlConfig::default(),
        }
    }
}

/// A [`Cache`] of this process as an [`Instance`].
///
/// The cache needs its maintenance ([`Cache::maintained`]), which moves memory between pools as
/// they are granted it. An application that also runs a [`Controller`] makes no rounds while
/// [`Service::is_led`](crate::service::Service::is_led), so that one alone decides.
///
/// ```
/// use agent::embedded::{Embedded, EmbeddedConfig};
/// use agent::Instance;
/// use millpond::{Cache, CacheConfig, PoolConfig};
/// # use millpond_agent as agent;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cache = Cache::maintained(CacheConfig::default())?;
/// cache.add_pool(PoolConfig::named("users"))?;
/// let mut embedded = Embedded::new(cache, EmbeddedConfig::named("shop"))?;
/// assert_eq!(embedded.look()?.pools[0].name, "users");
/// # Ok(())
/// # }
/// ```
pub struct Embedded {
    cache: Cache,
    /// Decides nothing: it knows what pools read and miss.
    controller: Controller,
    control: ControlConfig,
    instance: v1::Instance,
    /// The numbers of pools in messages: a pool that is added has another one than any before.
    numbers: HashMap<PoolId, u32>,
    last_number: u32,
    least_bytes: u64,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("instance", &self.instance).finish_non_exhaustive()
    }
}

impl Embedded {
    /// An instance that speaks for `cache`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the settings of the controller are refused.
    pub fn new(cache: Cache, config: EmbeddedConfig) -> Result<Self, Error> {
        let instance = v1::Instance {
            name: config.name,
            node: config.node,
            incarnation: base::rng::entropy_seed() | 1,
            kind: config.kind,
            version: config.version,
            outlives_agent: config.outlives_process,
            is_alone: config.outlives_process,
        };
        Ok(Self {
            cache,
            controller: Controller::new(config.control.clone())?,
            control: config.control,
            instance,
            numbers: HashMap::new(),
            last_number: 0,
            least_bytes: config.least_memory.as_u64(),
        })
    }

    /// Changes what is reported of promises, backends and costs of misses, and the least memory.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the settings of the controller are refused.
    pub fn set_control(&mut self, control: ControlConfig, least_memory: ByteSize) -> Result<(), Error> {
        self.least_bytes = least_memory.as_u64();
        if control != self.control {
            self.controller = Controller::new(control.clone())?;
            self.control = control;
        }
        Ok(())
    }

    fn report(&mut self, pool: PoolSurvey) -> PoolReport {
        let number = *self.numbers.entry(pool.id).or_insert_with(|| {
            self.last_number += 1;
            self.last_number
        });
        PoolReport {
            id: number,
            name: pool.name,
            granted: pool.granted_bytes.map(amounts::of_memory).unwrap_or_default(),
            used: amounts::of_memory(pool.slab_bytes),
            floors: amounts::of_memory(pool.least_bytes),
            ceilings: pool.most_bytes.map(amounts::of_memory).unwrap_or_default(),
            weight: pool.weight,
            reads: pool.reads,
            misses: pool.misses,
            promised_per_sec: pool.promised_per_sec,
            backend_per_sec: pool.backend_per_sec,
            miss_cost_micros: pool.miss_cost.map_or(0.0, |cost| cost.as_secs_f64() * 1e6),
            curve: pool
                .curve
                .map(|learnt| v1::Curve { samples: pool.curve_samples, ..report::curve(&learnt, 1.0) }),
            // For this report.
            counted_at_millis: 0,
        }
    }
}

impl Instance for Embedded {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let surveyed = self.controller.survey(&self.cache);
        let surveyed = surveyed.map_err(|error| InstanceError::because("the pools cannot be read", error))?;
        let pools: Vec<PoolReport> = surveyed.into_iter().map(|pool| self.report(pool)).collect();
        let there: HashSet<u32> = pools.iter().map(|pool| pool.id).collect();
        self.numbers.retain(|_, number| there.contains(number));
        let ledger = self.cache.ledger();
        let (limit, total) = (ledger.limit(), ledger.total());
        let in_pools: u64 = pools.iter().map(|pool| amounts::memory(&pool.used)).sum();
        // Slabs that no pool has now are room for pools, and not used beside them: a limit that
        // followed them would rise and fall as pools take and leave them.
        let spare = ledger.part(Part::Slabs).saturating_sub(in_pools);
        let used = if total <= limit { total.saturating_sub(spare) } else { total };
        Ok(Look {
            instance: self.instance.clone(),
            limits: amounts::of_memory(limit),
            used: amounts::of_memory(used),
            least: amounts::of_memory(self.least_bytes.max(self.cache.least_memory().as_u64())),
            most: amounts::of_memory(self.cache.max_memory().as_u64()),
            pools,
            learning: None,
        })
    }

    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        let cache = &self.cache;
        // What the engine needs may be more than it was made for.
        let wanted = ByteSize::new(amounts::memory(limits)).max(cache.least_memory());
        let wanted = wanted.min(cache.max_memory());
        if wanted.as_u64() != cache.ledger().limit() {
            match cache.set_memory(wanted) {
                // The limit holds; what readers keep leaves with them.
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {}
                set => set.map_err(|error| InstanceError::because("the memory cannot be changed", error))?,
            }
        }
        let granted: HashMap<u32, &PoolGrant> = grants.iter().map(|grant| (grant.id, grant)).collect();
        for (&pool, number) in &self.numbers {
            if let Some(grant) = granted.get(number) {
                // One that was removed meanwhile has none.
                let _ = cache.set_pool_grant(pool, Some(ByteSize::new(amounts::memory(&grant.amounts))));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millpond::{CacheConfig, ItemOptions, PoolConfig};

    use super::*;

    fn cache() -> Cache {
        let config = CacheConfig {
            memory: ByteSize::mib(32),
            max_memory: Some(ByteSize::mib(128)),
            ..CacheConfig::default()
        };
        Cache::new(config).expect("a cache")
    }

    #[test]
    fn a_resize_sets_the_memory_and_what_pools_are_granted() {
        let cache = cache();
        let first = cache.add_pool(PoolConfig::named("first")).expect("a pool");
        let second = cache.add_pool(PoolConfig::named("second")).expect("a pool");
        let mut embedded = Embedded::new(cache.clone(), EmbeddedConfig::named("shop")).expect("an instance");
        let look = embedded.look().expect("a look");
        assert_eq!((look.instance.name.as_str(), look.instance.kind.as_str()), ("shop", "embedded"));
        let names: Vec<&str> = look.pools.iter().map(|pool| pool.name.as_str()).collect();
        assert_eq!(names, ["first", "second"]);
        assert_eq!(amounts::memory(&look.limits), ByteSize::mib(32).as_u64());

        let grant = |pool: usize, mib| PoolGrant {
            id: look.pools[pool].id,
            amounts: amounts::of_memory(ByteSize::mib(mib).as_u64()),
        };
        let limit = amounts::of_memory(ByteSize::mib(64).as_u64());
        embedded.resize(&limit, &[grant(0, 40), grant(1, 16)]).expect("it is set");
        assert_eq!(cache.ledger().limit(), ByteSize::mib(64).as_u64());
        let granted = |id| {
            let stats = cache.stats();
            stats.pools.iter().find(|pool| pool.id == id).and_then(|pool| pool.granted_bytes)
        };
        assert_eq!(granted(first), Some(ByteSize::mib(40).as_u64()));
        assert_eq!(granted(second), Some(ByteSize::mib(16).as_u64()));
    }

    #[test]
    fn a_limit_beyond_what_the_cache_can_have_is_cut() {
        let cache = cache();
        let mut embedded = Embedded::new(cache.clone(), EmbeddedConfig::named("shop")).expect("an instance");
        let most = embedded.look().expect("a look").most;
        embedded.resize(&amounts::of_memory(u64::MAX), &[]).expect("it is set");
        assert_eq!(cache.ledger().limit(), amounts::memory(&most));
        embedded.resize(&amounts::of_memory(0), &[]).expect("it is set");
        assert_eq!(cache.ledger().limit(), cache.least_memory().as_u64());
    }

    /// Of lowered limits slabs stay that no pool has.
    #[test]
    fn what_is_used_beside_pools_does_not_follow_the_limit() {
        let cache = cache();
        let pool = cache.add_pool(PoolConfig::named("first")).expect("a pool");
        let mut embedded = Embedded::new(cache.clone(), EmbeddedConfig::named("shop")).expect("an instance");
        let mut key = 0_u32;
        let mut beside = Vec::new();
        for limit in [32_u64, 31, 30, 31, 30, 29, 30].map(|mib| mib << 20) {
            cache.set_memory(ByteSize::new(limit - (300 << 10))).expect("nothing is held");
            for _ in 0..2_000 {
                key += 1;
                let item = cache.allocate(pool, &key.to_le_bytes(), 1_000, &ItemOptions::default());
                cache.put(item.expect("room"));
            }
            cache.set_memory(ByteSize::new(limit - (700 << 10))).expect("nothing is held");
            let look = embedded.look().expect("a look");
            let in_pools: u64 = look.pools.iter().map(|pool| amounts::memory(&pool.used)).sum();
            beside.push(amounts::memory(&look.used) - in_pools);
        }
        let most = beside[1..].iter().max().expect("there are some");
        let least = beside[1..].iter().min().expect("there are some");
        assert!(most - least < 200 << 10, "{beside:?}");
    }

    #[test]
    fn promises_may_change() {
        let cache = cache();
        cache.add_pool(PoolConfig::named("first")).expect("a pool");
        let mut embedded = Embedded::new(cache.clone(), EmbeddedConfig::named("shop")).expect("an instance");
        assert_eq!(embedded.look().expect("a look").pools[0].promised_per_sec, 0.0);
        let promises = [("first".to_owned(), 500.0)].into();
        let control = ControlConfig { promises, ..ControlConfig::default() };
        embedded.set_control(control, ByteSize::mib(30)).expect("settings");
        let look = embedded.look().expect("a look");
        assert_eq!(look.pools[0].promised_per_sec, 500.0);
        assert_eq!(amounts::memory(&look.least), ByteSize::mib(30).as_u64());
    }

    #[test]
    fn a_pool_that_is_added_has_another_number_than_one_that_was_removed() {
        let cache = cache();
        let first = cache.add_pool(PoolConfig::named("first")).expect("a pool");
        let mut embedded = Embedded::new(cache.clone(), EmbeddedConfig::named("shop")).expect("an instance");
        let before = embedded.look().expect("a look").pools[0].id;
        cache.remove_pool(first).expect("it goes");
        cache.add_pool(PoolConfig::named("first")).expect("a pool");
        let look = embedded.look().expect("a look");
        assert_eq!(look.pools.len(), 1);
        assert_ne!(look.pools[0].id, before);
    }
}
