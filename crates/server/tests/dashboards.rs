//! The dashboards and alerts in `dashboards/` ask for nothing that a server does not tell, and
//! `docs/operations.md` describes all that it tells.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use millpond_server::config::{MonitorMode, TenantSettings};
use serde_json::Value;
use support::{Client, address, config, get_page};

/// Labels that Prometheus adds, and those of histograms.
const OUTSIDE: [&str; 3] = ["instance", "job", "le"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dashboards")
}

/// The names of a server's metrics, and the labels of those that have lines now.
struct Told {
    names: BTreeSet<String>,
    labels: BTreeMap<String, BTreeSet<String>>,
}

impl Told {
    /// By a server on which everything is switched on.
    fn by_a_server() -> Self {
        let mut config = config();
        config.watch.latency_one_in = 1;
        config.watch.hot_keys = 8;
        config.watch.curve_keys = 64;
        config.watch.curve_one_in = 1;
        config.monitor.mode = MonitorMode::FreeMemory;
        config.tenants = vec![TenantSettings::unlimited("default")];
        let server = support::start(config).expect("a server");
        let mut client = Client::connect(address(&server));
        assert_eq!(client.ask("set k 0 0 1\r\n1\r\n"), "STORED");
        assert_eq!(client.ask("mg k s\r\n"), "HD s1");
        Self::read(&get_page(&server, "/metrics").1)
    }

    fn read(page: &str) -> Self {
        let mut told = Self { names: BTreeSet::new(), labels: BTreeMap::new() };
        for line in page.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                let suffixes: &[&str] = match kind {
                    "counter" => &["_total"],
                    "histogram" => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                told.names.extend(suffixes.iter().map(|suffix| format!("{name}{suffix}")));
            } else if let Some((name, rest)) = line.split_once('{') {
                let labels = rest.rsplit_once('}').map_or("", |(labels, _)| labels);
                let names = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
                told.labels.entry(name.to_owned()).or_default().extend(names);
            }
        }
        told
    }

    /// Lists the metrics and labels of an expression that the server doesn't have.
    fn missing(&self, expression: &str) -> Vec<String> {
        let mut missing = Vec::new();
        let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
        for (start, _) in expression.match_indices("millpond_") {
            let rest = &expression[start..];
            let end = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
            let name = &rest[..end];
            if !self.names.contains(name) {
                missing.push(format!("no metric {name}"));
            }
            let selector = rest[end..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let Some((selector, known)) = selector.map(|it| it.0).zip(self.labels.get(name)) else {
                continue;
            };
            let labels = selector.split("\",").filter_map(|label| label.split(['=', '!']).next());
            let unknown = labels.filter(|label| !OUTSIDE.contains(label) && !known.contains(*label));
            missing.extend(unknown.map(|label| format!("{name} has no label {label}")));
        }
        missing
    }
}

/// All texts under keys that hold expressions.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "expr" || name == "definition" => found.push(text.clone()),
                    value => expressions(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[test]
fn the_docs_describe_every_metric() {
    let page = std::fs::read_to_string(folder().join("../docs/operations.md")).expect("a page");
    let described = |name: &str| {
        let ends = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| name.strip_suffix(end));
        let written =
            |name: &str| page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}{{"));
        written(name) || ends.is_some_and(written)
    };
    let missing: Vec<String> =
        Told::by_a_server().names.into_iter().filter(|name| !described(name)).collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn dashboards_ask_for_what_a_server_tells() {
    let told = Told::by_a_server();
    for name in ["millpond-overview.json", "millpond-tenants.json"] {
        let text = std::fs::read_to_string(folder().join(name)).expect("a dashboard");
        let dashboard: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(dashboard["__inputs"][0]["name"], "DS_PROMETHEUS", "{name}");
        let mut found = Vec::new();
        expressions(&dashboard, &mut found);
        assert!(found.len() > 15, "{name}: {found:?}");
        for expression in found {
            assert_eq!(told.missing(&expression), Vec::<String>::new(), "{name}: {expression}");
        }
        let mut ids: Vec<u64> = dashboard["panels"]
            .as_array()
            .expect("panels")
            .iter()
            .filter_map(|it| it["id"].as_u64())
            .collect();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all, "{name}: panels have numbers of their own");
    }
}

#[test]
fn alerts_ask_for_what_a_server_tells() {
    let told = Told::by_a_server();
    let text = std::fs::read_to_string(folder().join("alerts.yml")).expect("alerts");
    assert!(text.matches("- alert: ").count() > 4);
    for line in text.lines() {
        assert_eq!(told.missing(line), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn what_is_not_told_is_found() {
    let told = Told::read("# TYPE millpond_a_b counter\nmillpond_a_b_total{pool=\"x\",class=\"1\"} 3\n");
    assert_eq!(
        told.missing("sum(rate(millpond_a_b_total{pool=~\"$pool\",instance!=\"y\"}[5m]))"),
        Vec::<String>::new()
    );
    assert_eq!(told.missing("millpond_a_b"), ["no metric millpond_a_b"]);
    assert_eq!(
        told.missing("millpond_a_b_total{class=\"1\",reason=\"x\"}"),
        ["millpond_a_b_total has no label reason"]
    );
}
