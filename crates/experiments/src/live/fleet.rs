//! Four servers of a tenant each, which an orchestrator leads by their agents: the paper's several
//! instances (L4). First with equal memory and without an orchestrator, then with one.

use std::time::Duration;

use anyhow::{Context as _, Result};
use base::ByteSize;
use serde_json::{Value, json};
use trial::lookaside::{Load, Tenant, Wire};
use trial::orchestrated::Orchestrated;
use trial::served::{Served, free_port};

use super::tenants::{Course, EQUAL_SECS, MOVED_SECS, SYNTHETIC, Scene, tell, watch};
use crate::report::{Criterion, Report};
use crate::{Context, Experiment, HOLPACA};

/// P1 with four servers.
pub(super) const L4: Experiment = Experiment {
    name: "L4",
    paper: HOLPACA,
    figure: "figure 6, synthetic, live",
    title: "the throughput of four servers grows as an orchestrator moves memory between them",
    run: |context| {
        let mut report = Report::new();
        if let Err(error) = measure(context, &SYNTHETIC, &mut report) {
            report.check(Criterion::holds("it runs", false, format!("{error:#}"), "no error"));
        }
        report
    },
};

/// The time in which an orchestrator must answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts an orchestrator of the scene.
pub(super) fn orchestrator(listen: u16, memory: ByteSize, scene: &Scene) -> Result<Orchestrated> {
    let least = format!("{:.0}", 100.0 * scene.least_part * scene.names.len() as f64);
    let memory = memory.exact();
    let flags = ["--policy", "exact-throughput", "--least-share-percent", &least, "--memory", &memory];
    Orchestrated::start(&Served::own_program()?, &format!("127.0.0.1:{listen}"), &flags)
}

/// The state of the fleet.
fn state(orchestrator: &Orchestrated) -> Result<Value> {
    let http = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().new_agent();
    let mut answer = http.get(format!("http://{}/fleet.json", orchestrator.admin())).call()?;
    serde_json::from_str(&answer.body_mut().read_to_string()?).context("reading /fleet.json")
}

fn config(scene: &Scene, name: &str, memory: ByteSize, orchestrator: u16) -> String {
    format!(
        "memory = \"{}\"\nmax_memory = \"1GiB\"\nthreads = 1\n[watch]\nhot_keys = 0\ncurve_keys = 1024\n\
         curve_one_in = 8\n[fleet]\norchestrators = [\"127.0.0.1:{orchestrator}\"]\nname = \"{name}\"\nnode = \"here\"\n\
         [[tenant]]\nname = \"{name}\"\nbackend_per_sec = {:.0}\n[[listener]]\nname = \"{name}\"\ntenant = \"{name}\"\n",
        memory.exact(),
        scene.backend_per_sec
    )
}

fn measure(context: &Context, scene: &Scene, report: &mut Report) -> Result<()> {
    let memory: ByteSize = scene.memory.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let port = free_port()?;
    let each = ByteSize::new(memory.as_u64() / scene.names.len() as u64);
    let served = scene.names.iter().map(|name| {
        let config = config(scene, name, each, port);
        Served::start(&Served::own_program()?, &config)
    });
    let served: Vec<Served> = served.collect::<Result<_>>()?;
    let tenants = scene.names.iter().zip(&served).zip(0..).map(|((name, served), number)| {
        let (keys, backend_per_sec) = ((scene.keys)(context, number)?, scene.backend_per_sec);
        let tenant =
            Tenant { name, keys, value_bytes: scene.value_bytes, backend_per_sec, wire: Wire::Memcached };
        Ok((tenant, served.address(name)?))
    });
    let load = Load::start(tenants.collect::<Result<_>>()?)?;
    let all = f64::from(EQUAL_SECS + MOVED_SECS);
    let equal = watch(&load, EQUAL_SECS, |second| context.progress(f64::from(second) / all))?;
    let orchestrator = orchestrator(port, memory, scene)?;
    let (moved, fleet) = watch_led(context, &load, &orchestrator, (memory, 1.0), report)?;
    load.stop()?;
    tell(report, scene, (&equal, &moved), &as_decisions(&fleet, memory));
    Ok(())
}

/// Watches the load of servers under an orchestrator, and checks what all of them can have. Returns
/// the course, and the state of the fleet at its end.
pub(super) fn watch_led(
    context: &Context,
    load: &Load,
    orchestrator: &Orchestrated,
    (memory, most): (ByteSize, f64),
    report: &mut Report,
) -> Result<(Course, Value)> {
    let all = f64::from(EQUAL_SECS + MOVED_SECS);
    let mut most_held = 0.0_f64;
    let moved = watch(load, MOVED_SECS, |second| {
        context.progress(f64::from(EQUAL_SECS + second) / all);
        let fleet = state(orchestrator).unwrap_or_default();
        let held = fleet["nodes"][0]["held_bytes"].as_f64().unwrap_or(0.0);
        most_held = most_held.max(held / memory.as_u64() as f64);
    })?;
    report.check(
        Criterion::number("most that all servers could have at any second, of the memory", most_held)
            .decimals(4)
            .at_most(most),
    );
    Ok((moved, state(orchestrator)?))
}

/// The state of a fleet of servers with a pool each, as a server's own decisions are written.
pub(super) fn as_decisions(fleet: &Value, memory: ByteSize) -> Value {
    let instances = fleet["nodes"][0]["instances"].as_array().into_iter().flatten();
    let pools = instances
        .map(|instance| json!({ "name": instance["name"], "granted_bytes": instance["limit_bytes"] }));
    json!({
        "memory_bytes": memory.as_u64(),
        "pools": pools.collect::<Vec<_>>(),
        "predictions": fleet["predictions"],
        "prediction_error": fleet["prediction_error"],
    })
}
