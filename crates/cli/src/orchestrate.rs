//! `millpond orchestrate`: the orchestrator until a signal ends it, and the agent through which the
//! orchestrator of a fleet leads that of a node.

use agent::service::{Service as Agent, ServiceConfig as AgentConfig};
use agent::{Instance, InstanceError, Look};
use base::Clock;
use console::text::say;
use control::access::{Access, causes};
use control::amounts;
use control::v1::{self, Amount, PoolGrant, Resource};
use orchestrator::Whole;
use orchestrator::command::OrchestrateArguments;
use server::{LastLines, LossyLines};

use crate::signals::Stop;

/// Runs the orchestrator until SIGTERM or Ctrl-C.
///
/// # Errors
/// In words, if it cannot be started.
pub(crate) fn run(arguments: &OrchestrateArguments) -> Result<(), String> {
    let _log = log();
    let stop = Stop::on_signal()?;
    let service = arguments.start()?;
    say(&format!("Agents register at {}.\n", service.address()));
    if let Some(admin) = service.admin_address() {
        say(&format!("http://{admin}/ shows what it does, and so does `millpond fleet status`.\n"));
    }
    let above = service.whole().map(|whole| lead(arguments, whole)).transpose()?;
    while !stop.wait(1) {
        if !service.is_up() || above.as_ref().is_some_and(|above| !above.is_up()) {
            return Err(
                "the orchestrator has ended by an error, which the log shows; this is a bug".to_owned()
            );
        }
    }
    if let Some(above) = above {
        above.stop();
    }
    service.stop();
    Ok(())
}

/// Has the orchestrators of a fleet set the memory of this one's node.
fn lead(arguments: &OrchestrateArguments, whole: Whole) -> Result<Agent, String> {
    let name = arguments.led_node().unwrap_or_default();
    let instance = v1::Instance {
        name,
        node: arguments.above_node.clone(),
        incarnation: whole.id(),
        kind: "orchestrator".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        // Its instances go on without it.
        outlives_agent: true,
        ..v1::Instance::default()
    };
    let config = AgentConfig {
        listen: arguments.above_listen,
        advertise: arguments.above_advertise.clone(),
        orchestrators: arguments.above.clone(),
    };
    let access = Access::read(&arguments.access.files()).map_err(|error| causes(&error))?;
    let agent = Agent::start(config, access, Node { whole, instance }, Clock::System);
    let agent = agent.map_err(|error| causes(&error))?;
    say(&format!("The orchestrators at {} set its memory.\n", arguments.above.join(", ")));
    Ok(agent)
}

/// The instances of this orchestrator's node, as one.
struct Node {
    whole: Whole,
    instance: v1::Instance,
}

impl Instance for Node {
    fn look(&mut self) -> Result<Look, InstanceError> {
        let look = self.whole.look().map_err(|error| InstanceError::new(error.to_string()))?;
        Ok(Look {
            instance: self.instance.clone(),
            limits: amounts::of_memory(look.limit_bytes),
            used: amounts::of_memory(look.used_bytes),
            least: amounts::of_memory(look.least_bytes),
            most: amounts::of_memory(look.most_bytes),
            pools: look.pools,
            learning: None,
        })
    }

    /// The pools' grants are left to the node's own decisions, and only said again.
    fn resize(&mut self, limits: &[Amount], grants: &[PoolGrant]) -> Result<(), InstanceError> {
        // A node without servers may have none.
        let bytes = amounts::named(limits, Resource::Memory);
        let bytes = bytes.ok_or_else(|| InstanceError::new("the request names no memory for this node"))?;
        let set = self.whole.set_memory(bytes, grants);
        set.map_err(|error| InstanceError::new(error.to_string()))
    }
}

/// Logs to standard error, as a server does: nothing waits for whoever reads that, or ends with it.
pub(crate) fn log() -> LastLines {
    let filter = tracing_subscriber::EnvFilter::try_from_env("MILLPOND_LOG_LEVEL")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = LossyLines::start(std::io::stderr());
    let log = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(is_terminal).with_target(false);
    // Something else in the process may log already.
    let _ = log.with_env_filter(filter).try_init();
    lines.last_lines()
}
