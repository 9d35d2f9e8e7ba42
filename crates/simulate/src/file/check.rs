//! Rejects settings that can be read but are invalid, each by its key and with the remedy.

use std::collections::HashSet;

use workload::replay::TimeUnit;
use workload::trace::Column;

use super::refusal::{Problem, Step};
use super::{Written, WrittenTenant, policies};
use crate::scenario::Change;
use Step::{Entry, Key};

type Checked = Result<(), Problem>;

fn refuse(way: &[Step], what: impl Into<String>) -> Checked {
    Err(Problem { way: way.to_vec(), what: what.into() })
}

/// The number must be finite and at least `least`.
fn at_least(way: &[Step], value: f64, least: f64) -> Checked {
    if value.is_finite() && value >= least {
        Ok(())
    } else {
        refuse(way, format!("{value} is not a number from {least} on"))
    }
}

/// The number must be finite and above 0.
fn above_zero(way: &[Step], value: f64) -> Checked {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        refuse(way, format!("{value} is not a number above 0"))
    }
}

/// The most intervals of a record, so that a slip of the pen does not fill all memory.
const MOST_INTERVALS: f64 = 1e6;
/// The most keys of a declared workload: the index of one cache has 4 bytes for each.
const MOST_KEYS: u64 = 1 << 32;
/// The most clients of a tenant.
const MOST_CLIENTS: u32 = 1 << 20;

pub(super) fn check(written: &Written) -> Checked {
    above_zero(&[Key("duration_secs")], written.duration_secs)?;
    above_zero(&[Key("record_secs")], written.record_secs)?;
    if written.duration_secs / written.record_secs > MOST_INTERVALS {
        refuse(&[Key("record_secs")], "more than a million intervals; make them longer")?;
    }
    if let Some(warm_up) = written.warm_up_secs {
        at_least(&[Key("warm_up_secs")], warm_up, 0.0)?;
        if warm_up > written.duration_secs - written.record_secs {
            refuse(
                &[Key("warm_up_secs")],
                "nothing would be left to measure; make it shorter, or duration_secs longer",
            )?;
        }
    }
    check_policies(written)?;
    check_backend(written)?;
    check_control(written)?;
    for (key, share) in written.guard.shares() {
        check_share(&[Key("guard"), Key(key)], share)?;
    }
    check_resources(written)?;
    check_tenants(written)
}

fn check_policies(written: &Written) -> Checked {
    let known = policies();
    for (number, policy) in written.policies.iter().enumerate() {
        let name = policy.get_ref().as_str();
        if known.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let hint = base::suggest::nearest(name, known.iter().map(|(known, _)| *known)).map_or_else(
            || {
                format!(
                    "the policies are: {}",
                    known.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ")
                )
            },
            |near| format!("did you mean `{near}`?"),
        );
        refuse(&[Key("policies"), Entry(number)], format!("there is no policy `{name}`; {hint}"))?;
    }
    Ok(())
}

fn check_backend(written: &Written) -> Checked {
    let backend = written.backend;
    at_least(&[Key("backend"), Key("latency_ms")], backend.latency_ms, 0.0)?;
    at_least(&[Key("backend"), Key("round_trip_ms")], backend.round_trip_ms, 0.001)
}

fn check_control(written: &Written) -> Checked {
    let control = &written.control;
    above_zero(&[Key("control"), Key("interval_secs")], control.interval_secs)?;
    above_zero(&[Key("control"), Key("poll_secs")], control.poll_secs)?;
    let whole = [
        ("window", control.window as u64),
        ("chunk", control.chunk.as_u64()),
        ("sample_one_in", u64::from(control.sample_one_in)),
    ];
    for (key, value) in whole {
        if value == 0 {
            refuse(&[Key("control"), Key(key)], "0 is too little; give at least 1")?;
        }
    }
    if !(3..=100_000).contains(&control.curve_points) {
        refuse(
            &[Key("control"), Key("curve_points")],
            format!("{} is not between 3 and 100000", control.curve_points),
        )?;
    }
    Ok(())
}

fn check_resources(written: &Written) -> Checked {
    let mut names = HashSet::new();
    for (number, resource) in written.resource.iter().enumerate() {
        let at = |key| [Key("resource"), Entry(number), Key(key)];
        if !names.insert(&resource.name) {
            refuse(
                &at("name"),
                format!("two resources are called `{}`; give each its own name", resource.name),
            )?;
        }
        above_zero(&at("total_per_sec"), resource.total_per_sec)?;
    }
    Ok(())
}

fn check_tenants(written: &Written) -> Checked {
    if written.tenant.is_empty() {
        refuse(&[Key("tenant")], "there is none; add [[tenant]] with a name")?;
    }
    if written.tenant.len() > usize::from(u16::MAX) {
        refuse(&[Key("tenant")], "there are more than 65535")?;
    }
    let mut names = HashSet::new();
    let mut floors = 0_u64;
    for (number, tenant) in written.tenant.iter().enumerate() {
        let name = tenant.name.get_ref();
        if !names.insert(name) {
            let way = [Key("tenant"), Entry(number), Key("name")];
            refuse(&way, format!("two tenants are called `{name}`; give each its own name"))?;
        }
        floors = floors.saturating_add(tenant.floor.unwrap_or_default().as_u64());
        if floors > written.memory.as_u64() {
            let way = [Key("tenant"), Entry(number), Key("floor")];
            refuse(
                &way,
                format!("with this floor all floors are more than `memory`, {}; lower one", written.memory),
            )?;
        }
        check_source(number, tenant)?;
        check_load(number, tenant)?;
        for (entry, change) in tenant.change.iter().enumerate() {
            check_change(&[Key("tenant"), Entry(number), Key("change"), Entry(entry)], tenant, change)?;
        }
    }
    Ok(())
}

fn check_source(number: usize, tenant: &WrittenTenant) -> Checked {
    let at = |key| [Key("tenant"), Entry(number), Key(key)];
    let sources = [
        ("workload", tenant.workload.is_some()),
        ("cachebench", tenant.cachebench.is_some()),
        ("trace", tenant.trace.is_some()),
    ];
    let given: Vec<&'static str> =
        sources.iter().filter(|(_, is_given)| *is_given).map(|(key, _)| *key).collect();
    if let [first, second, ..] = given[..] {
        refuse(&at(second), format!("the tenant has `{first}` already; keep one of them"))?;
    }
    let companions = [
        ("cachebench_keys", tenant.cachebench_keys.is_some(), "cachebench"),
        ("trace_requests", tenant.trace_requests.is_some(), "trace"),
        ("trace_object_bytes", tenant.trace_object_bytes.is_some(), "trace"),
        ("trace_passes", tenant.trace_passes.is_some(), "trace"),
        ("trace_times", tenant.trace_times.is_some(), "trace"),
        ("trace_columns", tenant.trace_columns.is_some(), "trace"),
        ("trace_tenant", tenant.trace_tenant.is_some(), "trace"),
    ];
    for (key, is_given, owner) in companions {
        if is_given && !given.contains(&owner) {
            refuse(&at(key), format!("it is for a tenant with `{owner}`, which this one has not"))?;
        }
    }
    if tenant.trace_requests == Some(0) {
        refuse(&at("trace_requests"), "0 is too little; leave it out for all of them")?;
    }
    if let Some(Err(unit)) = tenant.trace_times.as_deref().map(str::parse::<TimeUnit>) {
        refuse(&at("trace_times"), unit)?;
    }
    for column in tenant.trace_columns.iter().flatten() {
        if let Err(none) = column.parse::<Column>() {
            refuse(&at("trace_columns"), none)?;
        }
    }
    if let Some(pattern) = &tenant.workload {
        let at = |key| [Key("tenant"), Entry(number), Key("workload"), Key(key)];
        check_keys(&at("keys"), pattern.keys)?;
        check_share(&at("writes"), pattern.writes)?;
        if pattern.scan_length == 0 {
            refuse(&at("scan_length"), "0 is too little; 1 is for single keys")?;
        }
    }
    Ok(())
}

fn check_keys(way: &[Step], keys: u64) -> Checked {
    if (1..=MOST_KEYS).contains(&keys) {
        Ok(())
    } else {
        refuse(way, format!("{keys} is not between 1 and 2^32"))
    }
}

fn check_share(way: &[Step], share: f64) -> Checked {
    if (0.0..=1.0).contains(&share) {
        Ok(())
    } else {
        refuse(way, format!("{share} is not a share from 0 to 1"))
    }
}

fn check_load(number: usize, tenant: &WrittenTenant) -> Checked {
    let at = |key| [Key("tenant"), Entry(number), Key(key)];
    if tenant.trace_times.is_some() {
        let loads = [
            ("clients", tenant.clients.is_some()),
            ("think_ms", tenant.think_ms.is_some()),
            ("rate_per_sec", tenant.rate_per_sec.is_some()),
        ];
        for (key, _) in loads.into_iter().filter(|(_, is_given)| *is_given) {
            refuse(&at(key), "requests come at the trace's times; leave it or `trace_times` out")?;
        }
    }
    if tenant.rate_per_sec.is_some() {
        for (key, is_given) in
            [("clients", tenant.clients.is_some()), ("think_ms", tenant.think_ms.is_some())]
        {
            if is_given {
                refuse(&at(key), "it is for a closed loop; leave it or `rate_per_sec` out")?;
            }
        }
    }
    if tenant.clients.as_ref().is_some_and(|clients| *clients.get_ref() > MOST_CLIENTS) {
        refuse(&at("clients"), "there are more than 1048576")?;
    }
    let rates = [
        ("think_ms", tenant.think_ms),
        ("rate_per_sec", tenant.rate_per_sec),
        ("weight", tenant.weight),
        ("min_requests_per_sec", tenant.min_requests_per_sec),
    ];
    for (key, value) in rates {
        at_least(&at(key), value.unwrap_or(0.0), 0.0)?;
    }
    let (floor, ceiling) = (tenant.floor.unwrap_or_default(), tenant.ceiling);
    if ceiling.is_some_and(|ceiling| ceiling < floor) {
        refuse(&at("ceiling"), format!("it is below the floor, {floor}"))?;
    }
    Ok(())
}

fn check_change(way: &[Step], tenant: &WrittenTenant, change: &Change) -> Checked {
    let at = |key| [way, &[Key(key)]].concat();
    at_least(&at("at_secs"), change.at_secs, 0.0)?;
    if let Some(keys) = change.keys {
        check_keys(&at("keys"), keys)?;
    }
    check_share(&at("writes"), change.writes.unwrap_or(0.0))?;
    if change.scan_length == Some(0) {
        refuse(&at("scan_length"), "0 is too little; 1 is for single keys")?;
    }
    at_least(&at("rate_per_sec"), change.rate_per_sec.unwrap_or(0.0), 0.0)?;
    if change.clients.is_some_and(|clients| clients > MOST_CLIENTS) {
        refuse(&at("clients"), "there are more than 1048576")?;
    }
    let is_pattern = tenant.trace.is_none() && tenant.cachebench.is_none();
    let of_pattern = [
        ("keys", change.keys.is_some()),
        ("popularity", change.popularity.is_some()),
        ("writes", change.writes.is_some()),
        ("scan_length", change.scan_length.is_some()),
    ];
    for (key, is_given) in of_pattern {
        if is_given && !is_pattern {
            refuse(
                &at(key),
                "only a `workload` can change; traces and CacheBench's distributions are what they are",
            )?;
        }
    }
    let is_open = tenant.rate_per_sec.is_some();
    if is_open && change.clients.is_some() {
        refuse(&at("clients"), "the tenant is an open loop; change `rate_per_sec`")?;
    }
    if !is_open && change.rate_per_sec.is_some() {
        refuse(&at("rate_per_sec"), "the tenant is a closed loop; change `clients`")?;
    }
    Ok(())
}
