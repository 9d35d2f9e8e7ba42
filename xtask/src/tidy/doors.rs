//! Doors inside the rooms that stay shut: modules of one crate that may not use certain others.
//!
//! Where `rooms` keeps the crates in order, this table does so for modules. A row exists once the
//! edge is gone, so that it does not come back unseen. A new row needs a reason that tells a reader
//! where the code belongs instead.

use std::panic::Location;

use crate::finding::Finding;
use crate::modules::{Graph, Module};
use crate::tree::{Package, Tree};

/// Edges that must not exist. Modules are named as in `net::worker`, and stand for those below
/// them as well.
struct Door {
    /// The crate, without the project's prefix.
    room: &'static str,
    from: &'static [&'static str],
    to: &'static str,
    reason: &'static str,
    /// The line of the row in the table.
    line: u32,
}

/// The path of the table.
const TABLE: &str = "xtask/src/tidy/doors.rs";

#[track_caller]
const fn door(
    room: &'static str,
    from: &'static [&'static str],
    to: &'static str,
    reason: &'static str,
) -> Door {
    Door { room, from, to, reason, line: Location::caller().line() }
}

impl Door {
    /// A finding about the row itself.
    fn finding(&self, message: String) -> Finding {
        Finding { path: TABLE.to_owned(), line: self.line as usize, rule: "doors", message }
    }
}

/// The eviction policies.
const POLICIES: &[&str] = &["arc", "insertion", "lru", "s3fifo", "sieve", "tiny_lfu", "two_q"];

const DISPATCHED: &str = "policies keep the contract, and do not know what dispatches to them";
const RULES: &str = "rules are data that know no settings; hand in their text";
const WIRE: &str = "a protocol is parsed on its own; put what two need beside them";

const DOORS: &[Door] = &[
    door("evict", POLICIES, "order", DISPATCHED),
    door("evict", POLICIES, "policy", DISPATCHED),
    door("evict", &["contract"], "order", DISPATCHED),
    door("evict", &["contract"], "policy", DISPATCHED),
    door("config", &["acl"], "users", RULES),
    door("protocol", &["resp"], "memcached", WIRE),
    door("protocol", &["memcached"], "resp", WIRE),
];

/// Reports the uses that the table forbids, and its rows whose modules are gone.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, DOORS)
}

fn check_against(tree: &Tree, doors: &[Door]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rows in doors.chunk_by(|a, b| a.room == b.room) {
        let Some(first) = rows.first() else { continue };
        let Some(package) = tree.packages.iter().find(|package| package.short_name() == first.room) else {
            let message = format!("there is no crate `{}` any more; remove its rows", first.room);
            findings.push(first.finding(message));
            continue;
        };
        let graph = Graph::of(tree, package);
        findings.extend(rows.iter().flat_map(|door| check_door(package, &graph, door)));
    }
    findings
}

fn check_door(package: &Package, graph: &Graph, door: &Door) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in door.from.iter().chain([&door.to]) {
        if !graph.modules.iter().any(|module| is_within(module, name)) {
            let message = format!("`{}` has no module `{name}` any more; correct the row", package.name);
            findings.push(door.finding(message));
        }
    }
    for ((from, to), lines) in &graph.edges {
        let (Some(from), Some(to)) = (graph.modules.get(*from), graph.modules.get(*to)) else { continue };
        if !door.from.iter().any(|name| is_within(from, name)) || !is_within(to, door.to) {
            continue;
        }
        for line in lines {
            let message = format!("`{}` may not use `{}`: {}", from.name, to.name, door.reason);
            findings.push(Finding { path: from.file.clone(), line: *line, rule: "doors", message });
        }
    }
    findings
}

/// Returns whether `module` is `name` or lies below it.
fn is_within(module: &Module, name: &str) -> bool {
    module.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{messages, package, tree};

    const ROW: &[Door] = &[door("slab", &["pool"], "run::list", "pools know no lists")];

    fn found(files: &[(&str, &str)]) -> String {
        let mut tree = tree(files);
        tree.packages = vec![package("slab", "lib", &[]), package("evict", "lib", &[])];
        messages(check_against(&tree, ROW))
    }

    #[test]
    fn a_forbidden_use_below_either_module_is_a_finding() {
        let found = found(&[
            ("crates/slab/src/lib.rs", "mod pool;\nmod run;\n"),
            ("crates/slab/src/pool.rs", "mod deep;\nuse crate::run::Run;\n"),
            ("crates/slab/src/pool/deep.rs", "fn f() {\n    crate::run::list::g();\n}\n"),
            ("crates/slab/src/run.rs", "pub mod list;\nuse crate::pool;\npub struct Run;\n"),
            ("crates/slab/src/run/list.rs", "pub fn g() {}\n"),
        ]);
        let expected = "crates/slab/src/pool/deep.rs:2: doors: \
                        `pool::deep` may not use `run::list`: pools know no lists\n";
        assert_eq!(found, expected);
    }

    #[test]
    fn a_row_whose_module_is_gone_is_a_finding() {
        let found = found(&[
            ("crates/slab/src/lib.rs", "mod pool;\nmod run;\n"),
            ("crates/slab/src/pool.rs", ""),
            ("crates/slab/src/run.rs", "mod lists;\n"),
            ("crates/slab/src/run/lists.rs", ""),
        ]);
        let row = ROW[0].line;
        let expected = format!(
            "{TABLE}:{row}: doors: `millpond-slab` has no module `run::list` any more; correct the row\n"
        );
        assert_eq!(found, expected);
    }

    #[test]
    fn a_row_whose_crate_is_gone_is_a_finding() {
        let found = messages(check_against(&tree(&[]), ROW));
        assert!(found.contains(": doors: there is no crate `slab`"), "{found}");
        assert_ne!(ROW[0].line, DOORS[0].line);
    }
}
