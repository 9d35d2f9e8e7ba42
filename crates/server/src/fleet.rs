//! The server as an orchestrator leads it: its memory, and what its pools are granted.
//!
//! Invariant 1: while an orchestrator leads, the server's own policy makes no rounds
//! (`Control::set_led`): there is one who decides.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use agent::service::{Service, ServiceConfig};
use agent::{Instance, InstanceError, Look};
use base::ByteSize;
use config::{Config, Error, ErrorKind};
use control::access::{Access, Files};
use control::v1::{self, Amount, Curve, PoolGrant, PoolReport};
use control::{amounts, curve};
use frontend::shared::Shared;
use millpond::PoolId;
use millpond::control::{Controller, PoolSurvey};

/// The server, for its agent.
struct Led {
    shared: Arc<Shared>,
    controller: Controller,
    instance: v1::Instance,
    /// The numbers of pools in messages: a pool that is added has another one than any before.
    numbers: HashMap<PoolId, u32>,
    last_number: u32,
    least_bytes: u64,
}

/// Starts the agent, if the configuration names orchestrators.
///
/// # Errors
/// [`ErrorKind::Listen`] if its address cannot be listened on, [`ErrorKind::Config`] if a file of
/// it cannot be read.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<Option<Service>, Error> {
    let config = shared.config();
    let fleet = &config.fleet;
    let Some(listen) = fleet.address() else { return Ok(None) };
    let set = |path: &std::path::PathBuf| Some(path.clone()).filter(|path| !path.as_os_str().is_empty());
    let files = Files {
        token: set(&fleet.token_file),
        certificate: set(&fleet.cert_file).zip(set(&fleet.key_file)),
        authority: set(&fleet.authority_file),
    };
    let access = Access::read(&files).map_err(|e| Error::with_source(ErrorKind::Config, "fleet", e))?;
    let service = ServiceConfig {
        listen,
        advertise: Some(fleet.advertise.clone()).filter(|address| !address.is_empty()),
        orchestrators: fleet.orchestrators.clone(),
    };
    let led = Led::new(Arc::clone(shared), &config)?;
    let started = Service::start(service, access, led, shared.clock.clone());
    started.map(Some).map_err(|e| Error::with_source(ErrorKind::Listen, "fleet.listen", e))
}

impl Led {
    fn new(shared: Arc<Shared>, config: &Config) -> Result<Self, Error> {
        let host = base::machine::host_name();
        let or = |set: &str, other: String| if set.is_empty() { other } else { set.to_owned() };
        let port = shared.listeners.first().map(|listener| listener.address.to_string());
        let port = port.as_deref().and_then(|address| address.rsplit_once(':')).map_or("", |(_, port)| port);
        let is_shared = !config.shared_memory.as_os_str().is_empty();
        let instance = v1::Instance {
            name: or(&config.fleet.name, format!("{host}:{port}")),
            node: or(&config.fleet.node, host),
            incarnation: base::rng::entropy_seed() | 1,
            kind: "millpond".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // What is in shared memory stays there.
            outlives_agent: is_shared,
            is_alone: is_shared,
        };
        let reserves: u64 = config.all_pools().iter().map(|pool| pool.reserve.as_u64()).sum();
        let least = config.fleet.least_memory.or(|| ByteSize::new(reserves));
        let engine = |error| Error::with_source(ErrorKind::Engine, "fleet", error);
        // Decides nothing, and so needs no policy but for its promises and costs.
        let controller = Controller::new(config.control_wanted()).map_err(engine)?;
        let least_bytes = least.as_u64();
        Ok(Self { shared, controller, instance, numbers: HashMap::new(), last_number: 0, least_bytes })
    }

    fn report(&mut self, pool: PoolSurvey) -> PoolReport {
        let number = *self.numbers.entry(pool.id).or_insert_with(|| {
            self.last_number += 1;
            self.last_number
        });
        let curve = pool.curve.map(|learnt| {
            let points = learnt.points().iter().map(|point| (point.size, point.miss_ratio));
            let error = learnt.confidence().map_or(0.0, |confidence| confidence.error);
            Curve { samples: pool.curve_samples, error, ..curve::write(points) }
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
            curve,
        }
    }
}

impl Instance for Led {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let cache = self.shared.cache.clone();
        let surveyed = self.controller.survey(&cache);
        let surveyed = surveyed.map_err(|error| InstanceError::because("the pools cannot be read", error))?;
        let pools: Vec<PoolReport> = surveyed.into_iter().map(|pool| self.report(pool)).collect();
        let there: HashSet<u32> = pools.iter().map(|pool| pool.id).collect();
        self.numbers.retain(|_, number| there.contains(number));
        let ledger = cache.ledger();
        Ok(Look {
            instance: self.instance.clone(),
            limits: amounts::of_memory(ledger.limit()),
            used: amounts::of_memory(ledger.total()),
            least: amounts::of_memory(self.least_bytes.max(cache.least_memory().as_u64())),
            most: amounts::of_memory(cache.max_memory().as_u64()),
            pools,
        })
    }

    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        let cache = &self.shared.cache;
        let wanted = ByteSize::new(amounts::memory(limits)).clamp(cache.least_memory(), cache.max_memory());
        if wanted.as_u64() != cache.ledger().limit() {
            match cache.set_memory(wanted) {
                // The limit holds; what readers keep leaves with them.
                Err(error) if error.kind() == millpond::ErrorKind::OutOfMemory => {}
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
        self.shared.maintenance.wake();
        Ok(())
    }

    fn set_led(&mut self, is_led: bool) {
        self.shared.control.set_led(is_led);
    }
}
