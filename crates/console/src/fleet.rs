//! `millpond fleet`: what an orchestrator knows of its instances, and what it has decided.

use std::fmt::Write as _;

use base::ByteSize;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::admin::{AdminArguments, url};

/// The smallest grant, and change of one, that a curve is asked for.
const LEAST_CHANGE: ByteSize = ByteSize::kib(64);
/// Pools of a decision whose outcome is shown.
const MOST_OUTCOMES: usize = 4;

/// `millpond fleet`.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Show nodes and their instances: the limit of each, and what it uses.
    Status(FleetArguments),
    /// Show all pools: the grant of each, reads, and measured and predicted miss ratio.
    Tenants(FleetArguments),
    /// Show the latest decisions: what moved, and why.
    Decisions(DecisionArguments),
    /// Show a pool, and the latest decisions about it.
    Explain(ExplainArguments),
    /// Show what a pool would miss with another grant.
    WhatIf(WhatIfArguments),
    /// Say that an instance has ended, so that what it had is free.
    ///
    /// An orchestrator counts the memory of an instance that does not answer, until it knows that
    /// the instance has ended. Of one on a machine that is gone, only a person knows.
    Forget(ForgetArguments),
}

/// The orchestrator to ask.
#[derive(Debug, Args)]
pub struct FleetArguments {
    /// The address of the orchestrator's figures (its --admin); http:// may be left out.
    #[arg(long, value_name = "URL", env = "MILLPOND_ORCHESTRATOR", default_value = "http://127.0.0.1:11221", value_parser = url)]
    orchestrator: String,
    /// The token that the orchestrator asks for; better in the variable, as others see a command's
    /// arguments.
    #[arg(long, value_name = "TOKEN", env = "MILLPOND_FLEET_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The decisions to show.
#[derive(Debug, Args)]
pub struct DecisionArguments {
    #[command(flatten)]
    fleet: FleetArguments,
    /// The most that are shown.
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: usize,
}

/// The pool to explain.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// The pool, as `millpond fleet tenants` names it; a part of the name is enough.
    pool: String,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    decisions: DecisionArguments,
}

/// The node of what is asked about.
#[derive(Debug, Args)]
pub struct PlaceArguments {
    /// The node, if instances of one name are on several.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// The pool, and the grant to try.
#[derive(Debug, Args)]
pub struct WhatIfArguments {
    /// The pool, as `millpond fleet tenants` names it.
    pool: String,
    /// The grant, as in 512MiB; with + or - before it, that much more or less than the present one.
    #[arg(allow_hyphen_values = true)]
    memory: String,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    fleet: FleetArguments,
}

/// The instance to forget.
#[derive(Debug, Args)]
pub struct ForgetArguments {
    /// The instance.
    instance: String,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    fleet: FleetArguments,
}

impl FleetCommand {
    /// Carries it out, and returns the text for the terminal.
    ///
    /// # Errors
    /// Why the orchestrator cannot be asked, or that there is no such pool.
    pub fn execute(&self) -> Result<String, String> {
        match self {
            Self::Status(fleet) => fleet.shown("/fleet.json", status),
            Self::Tenants(fleet) => {
                let (text, state) = fleet.leading()?;
                Ok(if fleet.json { format!("{text}\n") } else { tenants(&state) })
            }
            Self::Decisions(arguments) => {
                let last = arguments.last;
                arguments.fleet.leading()?;
                let path = format!("/decisions.json?last={last}");
                arguments.fleet.shown(&path, |decided| decisions(decided, last, &|_| true))
            }
            Self::Explain(arguments) => arguments.explain(),
            Self::WhatIf(arguments) => arguments.ask(),
            Self::Forget(ForgetArguments { instance, place, fleet }) => {
                let node = place.node.as_ref().map(|node| format!("?node={}", escaped(node)));
                let path = format!("/forget/{}{}", escaped(instance), node.unwrap_or_default());
                fleet.admin().ask(&path, |agent, url| agent.post(url).send_empty())
            }
        }
    }
}

impl FleetArguments {
    fn admin(&self) -> AdminArguments {
        AdminArguments::of_orchestrator(self.orchestrator.clone(), self.token.clone())
    }

    /// A page, as it came and as a value.
    fn page(&self, path: &str) -> Result<(String, Value), String> {
        let text = self.admin().page(path)?;
        let value = serde_json::from_str(&text)
            .map_err(|error| format!("{}{path}: no JSON came: {error}", self.orchestrator))?;
        Ok((text, value))
    }

    fn read(&self, path: &str) -> Result<Value, String> {
        Ok(self.page(path)?.1)
    }

    /// The state that an orchestrator knows which leads: one that follows knows no instance.
    fn leading(&self) -> Result<(String, Value), String> {
        let (text, state) = self.page("/fleet.json")?;
        if state["is_leader"] != false {
            return Ok((text, state));
        }
        Err(match state["leader"].as_str() {
            Some(leader) => format!(
                "{}: this orchestrator follows, and the one where agents register at {leader} leads; name the --admin \
                 address of that one in --orchestrator",
                self.orchestrator
            ),
            None => format!(
                "{}: no orchestrator leads, as far as this one knows; is its etcd up?",
                self.orchestrator
            ),
        })
    }

    fn shown(&self, path: &str, show: impl FnOnce(&Value) -> String) -> Result<String, String> {
        if self.json {
            return self.admin().page(path).map(|text| format!("{text}\n"));
        }
        self.read(path).map(|value| show(&value))
    }
}

impl ExplainArguments {
    fn explain(&self) -> Result<String, String> {
        let fleet = &self.decisions.fleet;
        let (_, state) = fleet.leading()?;
        let all = self.place.pools(&state);
        let (node, pool) = match exact(&all, &self.pool)? {
            Some(found) => found,
            None => part(&all, &self.pool).map_err(|error| silent(&state, &self.pool).unwrap_or(error))?,
        };
        let name = text(pool, "name");
        let asked = format!("node={}&pool={}&last={}", escaped(node), escaped(name), self.decisions.last);
        let decided = fleet.read(&format!("/decisions.json?{asked}"))?;
        if fleet.json {
            let about = |decision: &&Value| is_about(decision, node, name);
            let decisions = decided.as_array().into_iter().flatten().filter(about);
            let decisions: Vec<&Value> = decisions.take(self.decisions.last).collect();
            return Ok(format!(
                "{}\n",
                serde_json::json!({ "node": node, "pool": pool, "decisions": decisions })
            ));
        }
        let mut shown = format!("{name} on {node}\n");
        let _ = writeln!(shown, "  granted     {}", size(pool, "granted_bytes"));
        let _ = writeln!(shown, "  used        {}", size(pool, "used_bytes"));
        let _ = writeln!(shown, "  reads       {:.0} a second", number(pool, "reads_per_sec"));
        let _ = writeln!(shown, "  missed      {}", percent(pool, "missed"));
        let _ = writeln!(shown, "  predicted   {}", percent(pool, "expected"));
        shown.push('\n');
        shown += &decisions(&decided, self.decisions.last, &|decision| is_about(decision, node, name));
        Ok(shown)
    }
}

impl WhatIfArguments {
    fn ask(&self) -> Result<String, String> {
        let (_, state) = self.fleet.leading()?;
        let all = self.place.pools(&state);
        let (node, pool) = exact(&all, &self.pool)?.ok_or_else(|| {
            let unknown = || format!("there is no pool {:?}; `millpond fleet tenants` lists them", self.pool);
            silent(&state, &self.pool).unwrap_or_else(unknown)
        })?;
        let bytes = wanted(pool["granted_bytes"].as_u64().unwrap_or(0), &self.memory)?;
        let path = format!("/what-if?node={}&pool={}&bytes={bytes}", escaped(node), escaped(&self.pool));
        self.fleet.shown(&path, |answer| {
            let saved = number(answer, "saved_misses_per_sec");
            let effect = if saved < 0.0 { "adds" } else { "saves" };
            let known = answer["known_bytes"].as_u64().unwrap_or(u64::MAX);
            let is_beyond = answer["bytes"].as_u64().is_some_and(|bytes| bytes > known);
            let mut shown = format!(
                "{} with {} instead of {}: {} missed instead of {}, which {effect} {:.1} misses a second\n",
                self.pool,
                size(answer, "bytes"),
                size(answer, "granted_bytes"),
                percent(answer, "would_miss"),
                percent(answer, "miss_ratio"),
                saved.abs()
            );
            if let Some(error) = answer["error"].as_f64() {
                let points = 100.0 * error;
                let _ = writeln!(shown, "  its curve is off by at most {points:.1} points on average");
            }
            if is_beyond {
                let known = size(answer, "known_bytes");
                let _ = writeln!(shown, "  no read so far needed more than {known}: it may miss less");
            }
            shown
        })
    }
}

impl PlaceArguments {
    /// The pools that are asked about.
    fn pools<'a>(&self, state: &'a Value) -> Vec<(&'a str, &'a Value)> {
        let is_here = |node: &str| self.node.as_ref().is_none_or(|wanted| wanted == node);
        pools(state).into_iter().filter(|(node, _)| is_here(node)).collect()
    }
}

/// Returns the pool of this name and its node, if there is one.
///
/// # Errors
/// The nodes, if there are several.
fn exact<'a>(all: &[(&'a str, &'a Value)], name: &str) -> Result<Option<(&'a str, &'a Value)>, String> {
    let found: Vec<_> = all.iter().filter(|(_, pool)| text(pool, "name") == name).copied().collect();
    match found.as_slice() {
        [] => Ok(None),
        [found] => Ok(Some(*found)),
        several => {
            let nodes: Vec<&str> = several.iter().map(|(node, _)| *node).collect();
            Err(format!("there is a pool {name:?} on each of {}; name one with --node", nodes.join(", ")))
        }
    }
}

/// Returns the only pool that has this in its name, and its node.
///
/// # Errors
/// If there is none, or several.
fn part<'a>(all: &[(&'a str, &'a Value)], name: &str) -> Result<(&'a str, &'a Value), String> {
    let found: Vec<_> = all.iter().filter(|(_, pool)| text(pool, "name").contains(name)).collect();
    match found.as_slice() {
        [] => Err(format!("no pool's name has {name:?} in it")),
        [found] => Ok(**found),
        several => {
            let names: Vec<String> =
                several.iter().map(|(node, pool)| format!("{} on {node}", text(pool, "name"))).collect();
            Err(format!("{name:?} is a part of several names: {}", names.join(", ")))
        }
    }
}

/// An error that names the instance that does not answer, if the pool is one of such a one.
fn silent(state: &Value, pool: &str) -> Option<String> {
    let instance = pool.split_once('/').map_or(pool, |(instance, _)| instance);
    let nodes = state["nodes"].as_array()?.iter();
    let mut instances = nodes.filter_map(|node| node["instances"].as_array()).flatten();
    let is_it = |known: &&Value| known["is_leased"] == false && text(known, "name") == instance;
    instances.find(is_it)?;
    Some(format!("instance {instance} does not answer, so that nothing is known of its pools"))
}

/// The grant that `text` means, if the present one is `granted`.
fn wanted(granted: u64, text: &str) -> Result<u64, String> {
    let (sign, size) = match text.split_at_checked(1) {
        Some(("+" | "-", size)) => text.split_at(text.len() - size.len()),
        _ => ("", text),
    };
    let size: ByteSize = size.parse().map_err(|error| format!("{text}: {error}"))?;
    if (1..LEAST_CHANGE.as_u64()).contains(&size.as_u64()) {
        return Err(format!("{text} means {size}, less than {LEAST_CHANGE}; give a unit, as in +64MiB"));
    }
    Ok(match sign {
        "+" => granted.saturating_add(size.as_u64()),
        "-" => granted.saturating_sub(size.as_u64()),
        _ => size.as_u64(),
    })
}

fn is_about(decision: &Value, node: &str, name: &str) -> bool {
    let moves = decision["moves"].as_array().into_iter().flatten();
    text(decision, "node") == node
        && moves.into_iter().any(|step| text(step, "from") == name || text(step, "to") == name)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_default()
}

fn size(value: &Value, field: &str) -> String {
    value[field].as_u64().map_or_else(|| "-".to_owned(), |bytes| ByteSize::new(bytes).to_string())
}

fn percent(value: &Value, field: &str) -> String {
    value[field].as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0))
}

/// All pools, with their nodes.
fn pools(state: &Value) -> Vec<(&str, &Value)> {
    let nodes = state["nodes"].as_array().into_iter().flatten();
    nodes
        .flat_map(|node| {
            let name = text(node, "name");
            node["pools"].as_array().into_iter().flatten().map(move |pool| (name, pool))
        })
        .collect()
}

fn status(state: &Value) -> String {
    let mut shown = String::new();
    if state["is_superseded"] == true {
        shown.push_str("Another orchestrator leads the agents: this one decides nothing.\n");
    }
    match (state["is_leader"].as_bool(), state["leader"].as_str()) {
        (Some(false), Some(leader)) => {
            let _ = writeln!(shown, "This orchestrator follows: the one at {leader} leads.");
            return shown;
        }
        (Some(false), None) => return "No orchestrator leads, as far as this one knows.\n".to_owned(),
        (_, Some(leader)) => {
            let _ = writeln!(shown, "This orchestrator leads; agents register at {leader}.");
        }
        (_, None) => {}
    }
    let _ = writeln!(shown, "policy {}, term {}", text(state, "policy"), state["term"]);
    let nodes = state["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if nodes.is_empty() {
        shown.push_str("No instance has registered.\n");
    }
    for node in nodes {
        let (held, memory) = (size(node, "held_bytes"), size(node, "memory_bytes"));
        let _ = writeln!(shown, "\nnode {}: instances can have {held} of {memory}", text(node, "name"));
        for unmet in node["unmet"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let _ = writeln!(shown, "  not kept: {unmet}");
        }
        let _ = writeln!(
            shown,
            "  {:<24} {:<10} {:>10} {:>10} {:>10}  AGENT",
            "INSTANCE", "KIND", "LIMIT", "USED", "DECIDED"
        );
        for instance in node["instances"].as_array().into_iter().flatten() {
            let agent =
                if instance["is_leased"] == true { text(instance, "address") } else { "does not answer" };
            let _ = writeln!(
                shown,
                "  {:<24} {:<10} {:>10} {:>10} {:>10}  {agent}",
                text(instance, "name"),
                text(instance, "kind"),
                size(instance, "limit_bytes"),
                size(instance, "used_bytes"),
                size(instance, "target_bytes"),
            );
        }
    }
    shown
}

fn tenants(state: &Value) -> String {
    let mut shown = format!(
        "{:<32} {:<16} {:>10} {:>10} {:>10} {:>9} {:>9}\n",
        "POOL", "NODE", "GRANTED", "USED", "READS/S", "MISSED", "PREDICTED"
    );
    for (node, pool) in pools(state) {
        let _ = writeln!(
            shown,
            "{:<32} {node:<16} {:>10} {:>10} {:>10.0} {:>9} {:>9}",
            text(pool, "name"),
            size(pool, "granted_bytes"),
            size(pool, "used_bytes"),
            number(pool, "reads_per_sec"),
            percent(pool, "missed"),
            percent(pool, "expected"),
        );
    }
    shown
}

fn decisions(decided: &Value, last: usize, is_shown: &dyn Fn(&Value) -> bool) -> String {
    let all = decided.as_array().map(Vec::as_slice).unwrap_or_default();
    let chosen: Vec<&Value> = all.iter().filter(|decision| is_shown(decision)).take(last).collect();
    if chosen.is_empty() {
        let none = if all.is_empty() {
            "No policy has moved anything yet. Until one decides, weights and use divide the memory: `millpond fleet \
             status`."
        } else {
            "None of the decisions is about it."
        };
        return format!("{none}\n");
    }
    let mut shown = String::new();
    for decision in chosen {
        let at = decision["at_secs"].as_u64().unwrap_or_default();
        let _ = writeln!(
            shown,
            "#{} at {} on {}, by {}",
            decision["number"],
            moment(at),
            text(decision, "node"),
            text(decision, "policy")
        );
        for step in decision["moves"].as_array().into_iter().flatten() {
            let party = |field: &str| if step[field].is_null() { "free memory" } else { text(step, field) };
            let (from, to) = (party("from"), party("to"));
            let _ =
                writeln!(shown, "  {:>10}  {from} -> {to}: {}", size(step, "bytes"), text(step, "reason"));
        }
        let listed = decision["moves"].as_array().map_or(0, Vec::len) as u64;
        let more = decision["moves_count"].as_u64().unwrap_or(0).saturating_sub(listed);
        if more > 0 {
            let _ = writeln!(shown, "  and {more} more, {} together", size(decision, "moved_bytes"));
        }
        outcomes(decision, &mut shown);
    }
    shown
}

/// The miss ratios since a decision, beside those before it and those that were predicted.
fn outcomes(decision: &Value, shown: &mut String) {
    let pools = decision["pools"].as_array().into_iter().flatten();
    for pool in pools.filter(|pool| pool["missed_since"].is_number()).take(MOST_OUTCOMES) {
        let _ = writeln!(
            shown,
            "  since then {} missed {}: {} before, {} predicted",
            text(pool, "name"),
            percent(pool, "missed_since"),
            percent(pool, "missed"),
            percent(pool, "expected")
        );
    }
}

/// A time in seconds since 1970 as people write it.
fn moment(at_secs: u64) -> String {
    let at =
        i64::try_from(at_secs).ok().and_then(|secs| time::OffsetDateTime::from_unix_timestamp(secs).ok());
    let Some(at) = at else { return format!("{at_secs} s") };
    let (date, (hour, minute, second)) = (at.date(), at.to_hms());
    format!("{date} {hour:02}:{minute:02}:{second:02} UTC")
}

/// A name as a part of a path.
fn escaped(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_orchestrator_says_is_shown() {
        let state = serde_json::json!({ "term": 3, "policy": "most-hits", "is_superseded": false, "nodes": [{
            "name": "rack-7", "memory_bytes": 1 << 30, "held_bytes": 1 << 29, "unmet": ["a: its promise"],
            "instances": [{ "name": "m:1", "kind": "memcached", "address": "10.0.0.1:5", "is_leased": false,
                "limit_bytes": 1 << 28, "used_bytes": 1 << 27, "target_bytes": null }],
            "pools": [{ "name": "m:1/all", "granted_bytes": 1 << 28, "used_bytes": 1 << 27,
                "reads_per_sec": 12.3, "missed": 0.25, "expected": null }],
        }]});
        let shown = status(&state);
        for part in [
            "policy most-hits, term 3",
            "512MiB of 1GiB",
            "not kept: a: its promise",
            "m:1",
            "does not answer",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(tenants(&state).contains("25.00 %"));
        for (is_leader, leader, part) in [
            (true, Some("a:1"), "leads; agents register at a:1.\npolicy most-hits"),
            (false, Some("b:2"), "follows: the one at b:2 leads"),
            (false, None, "No orchestrator leads"),
        ] {
            let mut state = state.clone();
            (state["is_leader"], state["leader"]) = (is_leader.into(), leader.into());
            assert!(status(&state).contains(part), "{part}: {}", status(&state));
        }
        let decided = serde_json::json!([{ "number": 4, "at_secs": 9, "node": "rack-7", "policy": "most-hits",
            "moves_count": 71, "moved_bytes": 80 << 20, "moves": [
            { "from": null, "to": "m:1/all", "bytes": 1 << 20, "reason": "it misses most" }] }]);
        let shown = decisions(&decided, 5, &|decision| is_about(decision, "rack-7", "m:1/all"));
        assert!(shown.contains("1MiB  free memory -> m:1/all: it misses most"), "{shown}");
        assert!(shown.contains("and 70 more, 80MiB together"), "{shown}");
        for (node, name) in [("rack-7", "other"), ("rack-8", "m:1/all")] {
            let shown = decisions(&decided, 5, &|decision| is_about(decision, node, name));
            assert_eq!(shown, "None of the decisions is about it.\n");
        }
        assert!(decisions(&serde_json::json!([]), 5, &|_| true).starts_with("No policy has moved"));
    }

    #[test]
    fn a_decision_is_shown_with_its_time_and_what_came_of_it() {
        let decided = serde_json::json!([{ "number": 4, "at_secs": 1_796_008_714, "node": "here",
            "policy": "most-hits", "moves": [], "pools": [
            { "name": "a/default", "missed": 0.5, "expected": 0.25, "missed_since": 0.26 },
            { "name": "b/default", "missed": 0.5, "expected": 0.25, "missed_since": null }] }]);
        let shown = decisions(&decided, 5, &|_| true);
        assert!(shown.starts_with("#4 at 2026-11-30 03:18:34 UTC on here, by most-hits\n"), "{shown}");
        let since = "  since then a/default missed 26.00 %: 50.00 % before, 25.00 % predicted\n";
        assert!(shown.contains(since) && !shown.contains("b/default"), "{shown}");
    }

    #[test]
    fn an_instance_that_does_not_answer_is_named_for_its_pools() {
        let instance =
            |name: &str, is_leased: bool| serde_json::json!({ "name": name, "is_leased": is_leased });
        let nodes =
            serde_json::json!([{ "name": "n", "instances": [instance("a", false), instance("b", true)] }]);
        let state = serde_json::json!({ "nodes": nodes });
        assert!(silent(&state, "a/default").expect("it is silent").contains("instance a does not answer"));
        assert_eq!(silent(&state, "b/default").or_else(|| silent(&state, "c")), None);
    }

    #[test]
    fn a_pool_on_several_nodes_is_found_by_its_node_alone() {
        let node = |name: &str| serde_json::json!({ "name": name, "pools": [{ "name": "shop/default" }] });
        let state = serde_json::json!({ "nodes": [node("here"), node("rack-7")] });
        let found = |node: Option<&str>| {
            let all = PlaceArguments { node: node.map(str::to_owned) }.pools(&state);
            let found = exact(&all, "shop/default")?;
            found.map_or_else(|| part(&all, "shop"), Ok).map(|(node, _)| node.to_owned())
        };
        assert_eq!(found(Some("rack-7")).as_deref(), Ok("rack-7"));
        let ambiguous = found(None).expect_err("two have the name");
        assert!(ambiguous.contains("on each of here, rack-7; name one with --node"), "{ambiguous}");
        assert!(found(Some("rack-8")).is_err());
        let all = pools(&state);
        let several = part(&all, "shop").expect_err("two names have it");
        assert!(several.contains("shop/default on here, shop/default on rack-7"), "{several}");
    }

    #[test]
    fn a_grant_can_be_relative() {
        assert_eq!(wanted(10 << 20, "+1MiB"), Ok(11 << 20));
        assert_eq!(wanted(10 << 20, "-11MiB"), Ok(0));
        assert_eq!(wanted(10 << 20, "3MiB"), Ok(3 << 20));
        assert!(wanted(0, "+lots").is_err() && wanted(0, "").is_err());
        assert_eq!(wanted(1 << 20, "0"), Ok(0));
        let hint = wanted(1 << 20, "+64").expect_err("64 bytes are no change");
        assert!(hint.contains("+64 means 64B, less than 64KiB"), "{hint}");
    }

    #[test]
    fn whatever_an_orchestrator_says_is_no_panic() {
        for odd in
            [serde_json::json!(null), serde_json::json!([1, {"moves": 3}]), serde_json::json!({"nodes": [4]})]
        {
            let _ = (status(&odd), tenants(&odd), decisions(&odd, 9, &|_| true));
        }
    }
}
