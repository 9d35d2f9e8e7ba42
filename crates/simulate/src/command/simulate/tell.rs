//! The results of a simulation, as text.

use std::io::Write;

use anyhow::Result;
use base::ByteSize;

use super::{Compared, Simulated};
use crate::file::SimulationFile;
use crate::scenario::{ItemCost, Source};
use crate::table::Table;
use crate::world::{Figures, Prepared};

/// All about one memory.
pub(super) fn tell(
    file: &SimulationFile,
    prepared: &[Prepared],
    compared: &[Compared],
    out: &mut dyn Write,
) -> Result<()> {
    let scenario = &file.scenario;
    let ended = compared.iter().map(|one| one.run.ended_secs).fold(0.0, f64::max);
    writeln!(
        out,
        "{} of memory, {} s measured after {} s of warm-up, seed {}",
        scenario.memory,
        secs((ended - scenario.warm_up_secs).max(0.0)),
        secs(scenario.warm_up_secs),
        file.seed
    )?;
    match &scenario.item_cost {
        ItemCost::Bytes(overhead) => writeln!(out, "items take {overhead} B besides key and value")?,
        ItemCost::Engine { usable, .. } => writeln!(
            out,
            "items take what the engine spends on them, by its own account; {:.1} % of the memory is left for them",
            100.0 * usable
        )?,
    }
    writeln!(out)?;
    let mut tenants = Table::new("", ["tenant", "keys", "all of them take", "requests"]);
    for (tenant, prepared) in scenario.tenants.iter().zip(prepared) {
        let keys = prepared.distinct_keys();
        let each = scenario.item_cost.of(prepared.mean_size().round() as u32);
        tenants.row([
            tenant.name.clone(),
            keys.to_string(),
            ByteSize::new(keys.saturating_mul(u64::from(each))).to_string(),
            requests(&tenant.source),
        ]);
    }
    writeln!(out, "{}", tenants.render(0))?;
    writeln!(out, "{}", by_tenant(file, compared).render(0))?;
    write!(out, "{}", by_policy(compared).render(0))?;
    broken_promises(file, compared, out)
}

/// Seconds to the millisecond, and no zeros behind.
fn secs(secs: f64) -> String {
    let shown = format!("{secs:.3}");
    shown.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Describes the source of a tenant's requests.
fn requests(source: &Source) -> String {
    match source {
        Source::Trace(trace) => {
            let passes = match trace.passes {
                0 => "again and again".to_owned(),
                1 => "once".to_owned(),
                passes => format!("{passes} times"),
            };
            let times = if trace.time_unit_nanos.is_some() { ", at its times" } else { "" };
            format!("a trace, {passes}{times}")
        }
        Source::Pattern(_) | Source::CacheBench { .. } => "drawn".to_owned(),
    }
}

fn by_tenant(file: &SimulationFile, compared: &[Compared]) -> Table {
    let runs = || compared.iter().map(|one| &one.run);
    let has_passes = runs().any(|run| run.passes.iter().any(Option::is_some));
    let refuses = runs().any(|run| run.totals.iter().any(|figures| figures.refused > 0));
    let against = compared.first().map_or("", |first| first.run.policy.as_str());
    let mut columns =
        ["policy", "tenant", "memory", "used", "hit ratio", "requests/s"].map(str::to_owned).to_vec();
    columns.push(format!("of {against}"));
    columns.extend(["p50 ms", "p99 ms"].map(str::to_owned));
    columns.extend(has_passes.then(|| "passes".to_owned()));
    columns.extend(refuses.then(|| "refused".to_owned()));
    columns.extend(file.scenario.resources.iter().map(|resource| format!("{}/s", resource.name)));
    let mut table = Table::new("", columns);
    for Compared { run, normalised, .. } in compared {
        for (number, name) in run.names.iter().enumerate() {
            let figures = &run.totals[number];
            let mut cells = row(&run.policy, name, figures, normalised[number]);
            let passes = run.passes.get(number).copied().flatten();
            cells.extend(has_passes.then(|| passes.map_or(String::new(), |passes| format!("{passes:.2}"))));
            cells.extend(refuses.then(|| figures.refused.to_string()));
            cells.extend(figures.grants.iter().map(|grant| format!("{grant:.0}")));
            table.row(cells);
        }
    }
    table
}

fn row(policy: &str, tenant: &str, figures: &Figures, normalised: f64) -> Vec<String> {
    let bytes = |bytes: f64| ByteSize::new(bytes as u64).to_string();
    vec![
        policy.to_owned(),
        tenant.to_owned(),
        bytes(figures.memory),
        bytes(figures.used),
        format!("{:.4}", figures.hit_ratio),
        format!("{:.0}", figures.requests_per_sec),
        format!("{normalised:.3}"),
        format!("{:.2}", figures.p50_ms),
        format!("{:.2}", figures.p99_ms),
    ]
}

fn by_policy(compared: &[Compared]) -> Table {
    let mut all =
        Table::new("", ["policy", "hit ratio", "requests/s", "least of tenants", "decisions", "simulated/s"]);
    for one in compared {
        let applied = one.run.decisions.iter().filter(|decided| decided.applied).count();
        all.row([
            one.run.policy.clone(),
            format!("{:.4}", one.hit_ratio),
            format!("{:.0}", one.requests_per_sec),
            format!("{:.3}", one.least_normalised),
            format!("{applied} of {}", one.run.decisions.len()),
            format!("{:.1} M", one.simulated_per_sec / 1e6),
        ]);
    }
    all
}

/// Writes the promises that each policy did not keep, tenant by tenant.
fn broken_promises(file: &SimulationFile, compared: &[Compared], out: &mut dyn Write) -> Result<()> {
    for Compared { run, .. } in compared {
        for (tenant, figures) in file.scenario.tenants.iter().zip(&run.totals) {
            let (promised, had) = (tenant.min_request_rate, figures.requests_per_sec);
            if had < promised {
                writeln!(
                    out,
                    "\nnot kept: {} was promised {promised} requests/s and had {had:.0} under {}",
                    tenant.name, run.policy
                )?;
            }
        }
        let told = run.decisions.iter().rev().find(|decided| !decided.unmet.is_empty());
        for reason in told.iter().flat_map(|decided| &decided.unmet) {
            writeln!(out, "          {}: {reason}", run.policy)?;
        }
    }
    Ok(())
}

/// Several memories beside each other.
pub(super) fn sweep(file: &SimulationFile, sweep: &[Simulated], out: &mut dyn Write) -> Result<()> {
    let mut columns =
        ["memory", "policy", "hit ratio", "requests/s", "least of tenants"].map(str::to_owned).to_vec();
    columns.extend(file.scenario.tenants.iter().map(|tenant| format!("hits {}", tenant.name)));
    let mut table = Table::new("", columns);
    for Simulated { memory, policies } in sweep {
        for one in policies {
            let mut cells = vec![
                memory.to_string(),
                one.run.policy.clone(),
                format!("{:.4}", one.hit_ratio),
                format!("{:.0}", one.requests_per_sec),
                format!("{:.3}", one.least_normalised),
            ];
            cells.extend(one.run.totals.iter().map(|figures| format!("{:.4}", figures.hit_ratio)));
            table.row(cells);
        }
    }
    write!(out, "{}", table.render(0))?;
    for Simulated { memory, policies } in sweep {
        let mut told = Vec::new();
        broken_promises(file, policies, &mut told)?;
        if !told.is_empty() {
            write!(out, "\n{memory}:{}", String::from_utf8_lossy(&told))?;
        }
    }
    Ok(())
}

/// Writes each decision with its time and reason. Decisions that change nothing and give no reason
/// are only counted.
pub(super) fn decisions(compared: &[Compared], out: &mut dyn Write) -> Result<()> {
    for Compared { run, .. } in compared.iter().filter(|one| !one.run.decisions.is_empty()) {
        writeln!(out, "\n{}", run.policy)?;
        let mut stays = 0;
        for decided in &run.decisions {
            if !decided.applied && decided.reasons.is_empty() && decided.unmet.is_empty() {
                stays += 1;
                continue;
            }
            let word = if decided.applied { "applied" } else { "stays" };
            let memory: Vec<String> =
                decided.memory.iter().map(|bytes| ByteSize::new(*bytes).to_string()).collect();
            writeln!(out, "  {:>8.1} s  {word}  {}", decided.at_secs, memory.join(", "))?;
            for reason in decided.reasons.iter().chain(&decided.unmet) {
                writeln!(out, "              {reason}")?;
            }
        }
        if stays > 0 {
            writeln!(out, "  {stays} of {} decisions changed nothing", run.decisions.len())?;
        }
    }
    Ok(())
}
