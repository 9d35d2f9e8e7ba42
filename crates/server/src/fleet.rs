//! The server as an orchestrator leads it.
//!
//! Invariant 1: while an orchestrator leads, the server's own policy makes no rounds
//! (`Control::set_led`): there is one who decides.

use std::sync::Arc;

use agent::embedded::{Embedded, EmbeddedConfig};
use agent::service::{Service, ServiceConfig};
use agent::{Instance, InstanceError, Look};
use base::ByteSize;
use config::{Config, Error, ErrorKind};
use control::access::{Access, Files};
use control::v1::{Amount, PoolGrant};
use frontend::shared::Shared;

/// The server, for its agent.
struct Led {
    engine: Embedded,
    shared: Arc<Shared>,
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
    let engine = Embedded::new(shared.cache.clone(), as_instance(shared, &config));
    let engine = engine.map_err(|e| Error::with_source(ErrorKind::Engine, "fleet", e))?;
    let led = Led { engine, shared: Arc::clone(shared) };
    let started = Service::start(service, access, led, shared.clock.clone());
    started.map(Some).map_err(|e| Error::with_source(ErrorKind::Listen, "fleet.listen", e))
}

/// The server as the orchestrator knows it.
fn as_instance(shared: &Shared, config: &Config) -> EmbeddedConfig {
    let host = base::machine::host_name();
    let or = |set: &str, other: String| if set.is_empty() { other } else { set.to_owned() };
    let port = shared.listeners.first().map(|listener| listener.address.to_string());
    let port = port.as_deref().and_then(|address| address.rsplit_once(':')).map_or("", |(_, port)| port);
    EmbeddedConfig {
        node: or(&config.fleet.node, host.clone()),
        kind: "millpond".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        least_memory: least_memory(config),
        // What is in shared memory stays there.
        outlives_process: !config.shared_memory.as_os_str().is_empty(),
        control: config.control_wanted(),
        ..EmbeddedConfig::named(or(&config.fleet.name, format!("{host}:{port}")))
    }
}

/// The least memory of the server: what is promised to its pools, unless it is set.
fn least_memory(config: &Config) -> ByteSize {
    let reserves = config.all_pools().iter().map(|pool| pool.reserve.as_u64()).sum();
    config.fleet.least_memory.or(|| ByteSize::new(reserves))
}

impl Instance for Led {
    fn look(&mut self) -> Result<Look, InstanceError> {
        // Promises and costs change while serving.
        let config = self.shared.config();
        let changed = self.engine.set_control(config.control_wanted(), least_memory(&config));
        changed.map_err(|error| InstanceError::because("the settings of control are refused", error))?;
        self.engine.look()
    }

    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        self.engine.resize(limits, grants)?;
        self.shared.maintenance.wake();
        Ok(())
    }

    fn set_led(&mut self, is_led: bool) {
        self.shared.control.set_led(is_led);
    }
}
