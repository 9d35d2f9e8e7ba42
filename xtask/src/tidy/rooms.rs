//! The rooms of the house, and who may import whom.
//!
//! The table is that of the design; nothing imports upward. A new edge is a design change: it is
//! argued for in the commit that adds it here. Two readings of the table are fixed here. `base` is
//! the ground: every room may import it, named or not. Tests, examples and benchmarks
//! (dev-dependencies) are looser: they may import any room of their own floor or of a floor below,
//! because a test compares neighbours, but never a room above.

use crate::finding::Finding;
use crate::tree::{Dependency, Package, Tree};

/// A crate of the design.
struct Room {
    name: &'static str,
    floor: u8,
    imports: Imports,
}

/// The rooms that a room may import besides `base`.
enum Imports {
    /// These rooms.
    Rooms(&'static [&'static str]),
    /// All rooms of floors 0 and 1.
    Parts,
    /// All rooms of floors 0 to 2.
    Engine,
    /// All rooms of lower floors, and these of its own.
    Below(&'static [&'static str]),
    /// Every room.
    All,
}

use Imports::{All, Below, Engine, Parts, Rooms};

const GROUND: &str = "base";

/// The room that shows the others of the engine, which the floors above do not import.
const FACADE: &str = "millpond";
const ENGINE_FLOOR: u8 = 2;

const ROOMS: &[Room] = &[
    Room { name: GROUND, floor: 0, imports: Rooms(&[]) },
    Room { name: "limit", floor: 0, imports: Rooms(&[]) },
    Room { name: "curve", floor: 0, imports: Rooms(&[]) },
    Room { name: "allocate", floor: 0, imports: Rooms(&["curve"]) },
    Room { name: "slab", floor: 1, imports: Rooms(&[]) },
    Room { name: "index", floor: 1, imports: Rooms(&["slab"]) },
    Room { name: "evict", floor: 1, imports: Rooms(&[]) },
    Room { name: "rebalance", floor: 1, imports: Rooms(&["curve", "allocate"]) },
    Room { name: "device", floor: 1, imports: Rooms(&[]) },
    Room { name: "tier", floor: 1, imports: Rooms(&["limit", "device"]) },
    Room { name: "flash", floor: 1, imports: Rooms(&["device"]) },
    Room { name: "memory", floor: 2, imports: Parts },
    Room { name: "structured", floor: 2, imports: Below(&["memory"]) },
    Room { name: "compact", floor: 2, imports: Below(&["memory"]) },
    Room { name: "millpond", floor: 2, imports: Below(&["memory", "structured", "compact"]) },
    Room { name: "protocol", floor: 3, imports: Rooms(&[]) },
    Room { name: "control", floor: 3, imports: Rooms(&[]) },
    Room { name: "page", floor: 3, imports: Rooms(&[]) },
    Room { name: "config", floor: 4, imports: Rooms(&["millpond", "protocol"]) },
    Room { name: "tenancy", floor: 4, imports: Rooms(&["config", "limit", "millpond", "protocol"]) },
    Room { name: "frontend", floor: 4, imports: Rooms(&["tenancy", "config", "millpond", "protocol"]) },
    Room {
        name: "resp",
        floor: 4,
        imports: Rooms(&["frontend", "tenancy", "config", "millpond", "protocol"]),
    },
    Room {
        name: "memcached",
        floor: 4,
        imports: Rooms(&["frontend", "tenancy", "config", "millpond", "protocol"]),
    },
    Room {
        name: "server",
        floor: 4,
        imports: Rooms(&[
            "frontend", "tenancy", "config", "limit", "millpond", "protocol", "agent", "control", "page",
        ]),
    },
    Room { name: "agent", floor: 4, imports: Rooms(&["millpond", "curve", "control"]) },
    Room { name: "orchestrator", floor: 4, imports: Rooms(&["curve", "allocate", "control", "page"]) },
    Room { name: "hopper", floor: 4, imports: Rooms(&["curve", "limit", "agent", "control"]) },
    Room { name: "bunny", floor: 4, imports: Parts },
    Room { name: "workload", floor: 5, imports: Engine },
    Room { name: "bench", floor: 5, imports: Below(&["workload"]) },
    Room { name: "trial", floor: 5, imports: Below(&["workload", "bench"]) },
    Room { name: "console", floor: 5, imports: Rooms(&["config", "millpond", "workload"]) },
    Room { name: "simulate", floor: 5, imports: Below(&["workload"]) },
    Room { name: "experiments", floor: 5, imports: Below(&["workload", "simulate", "trial"]) },
    Room { name: "cli", floor: 5, imports: All },
    Room { name: "capi", floor: 5, imports: All },
    Room { name: "python", floor: 5, imports: All },
    Room { name: "dst", floor: 5, imports: All },
    Room { name: "fuzz", floor: 5, imports: All },
    Room { name: "xtask", floor: 5, imports: All },
];

impl Room {
    fn find(package_name: &str) -> Option<&'static Self> {
        let name = package_name.strip_prefix("millpond-").unwrap_or(package_name);
        ROOMS.iter().find(|room| room.name == name)
    }

    fn may_import(&self, other: &Self, is_dev: bool) -> bool {
        if is_dev && other.floor <= self.floor {
            return true;
        }
        if self.floor > ENGINE_FLOOR && other.floor == ENGINE_FLOOR && other.name != FACADE {
            return false;
        }
        match self.imports {
            _ if other.name == GROUND && self.name != GROUND => true,
            Rooms(names) => names.contains(&other.name),
            Parts => other.floor <= 1,
            Engine => other.floor <= 2,
            Below(names) => other.floor < self.floor || names.contains(&other.name),
            All => true,
        }
    }

    fn allowed_words(&self) -> String {
        match self.imports {
            Rooms([]) if self.name == GROUND => "nothing".to_owned(),
            Rooms([]) => GROUND.to_owned(),
            Rooms(names) => format!("{GROUND}, {}", names.join(", ")),
            Parts => "the rooms of floors 0 and 1".to_owned(),
            Engine => "the rooms of floors 0 to 2".to_owned(),
            Below([]) => "the rooms of lower floors".to_owned(),
            Below(names) => format!("the rooms of lower floors, {}", names.join(", ")),
            All => "every room".to_owned(),
        }
    }
}

/// Reports crates that the table does not know, that are in the wrong folder, that opt out of the
/// workspace's lints, and edges that the table does not have.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let mut report = |line, message| {
            findings.push(Finding { path: package.manifest.clone(), line, rule: "rooms", message });
        };
        let Some(room) = Room::find(&package.name) else {
            report(
                1,
                format!(
                    "`{}` is not a room of the design; see the table in xtask/src/tidy/rooms.rs",
                    package.name
                ),
            );
            continue;
        };
        let folder = expected_folder(room.name);
        if package.folder() != folder {
            report(
                1,
                format!(
                    "the crate `{}` lives in `{}`; move it to `{folder}`",
                    package.name,
                    package.folder()
                ),
            );
        }
        let manifest = tree.file(&package.manifest).map_or("", |file| &file.text);
        if !manifest.is_empty() && !takes_workspace_lints(manifest) {
            let message =
                "the crate does not take the workspace's lints; add `[lints]` with `workspace = true`";
            report(1, message.to_owned());
        }
        for dependency in &package.dependencies {
            if let Some(message) = edge(room, package, dependency) {
                report(line_naming(manifest, &dependency.name), message);
            }
        }
    }
    findings
}

/// Returns the finding about a dependency, if there is one.
fn edge(room: &Room, package: &Package, dependency: &Dependency) -> Option<String> {
    let other = Room::find(&dependency.name)?;
    if room.may_import(other, dependency.is_dev()) {
        return None;
    }
    let (name, other) = (&package.name, &dependency.name);
    if dependency.is_dev() {
        return Some(format!(
            "tests of `{name}` import `{other}` of a higher floor; move the test up to that room"
        ));
    }
    Some(format!(
        "`{name}` imports `{other}` and may import {}; turn the call round, or change the design's table",
        room.allowed_words()
    ))
}

fn expected_folder(room: &str) -> String {
    match room {
        "xtask" | "fuzz" => room.to_owned(),
        "python" => "bindings/python".to_owned(),
        _ => format!("crates/{room}"),
    }
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let manifest: Option<toml::Table> = manifest.parse().ok();
    let lints = manifest.as_ref().and_then(|manifest| manifest.get("lints"));
    lints.and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
}

/// The line of the manifest that names the dependency, by its package or by its short name; 1 where
/// there is none.
fn line_naming(manifest: &str, dependency: &str) -> usize {
    let short = dependency.strip_prefix("millpond-").unwrap_or(dependency);
    let names = |line: &str| {
        let key = line.split(['.', '=', ' ']).next().unwrap_or("");
        key == short || key == dependency
    };
    manifest.lines().position(names).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{messages, package, tree};

    fn check_edge(from: &str, to: &str, kind: Option<&str>) -> String {
        let mut tree = tree(&[]);
        tree.packages = vec![package(from, "lib", &[(to, kind)])];
        messages(check(&tree))
    }

    #[test]
    fn the_edges_of_the_design_pass() {
        for (from, to) in [
            ("index", "slab"),
            ("evict", "base"),
            ("rebalance", "allocate"),
            ("server", "base"),
            ("memory", "slab"),
            ("structured", "memory"),
            ("millpond", "memory"),
            ("compact", "memory"),
            ("millpond", "structured"),
            ("millpond", "compact"),
            ("millpond", "flash"),
            ("server", "agent"),
            ("server", "page"),
            ("orchestrator", "page"),
            ("server", "limit"),
            ("config", "millpond"),
            ("config", "protocol"),
            ("tenancy", "config"),
            ("tenancy", "limit"),
            ("server", "config"),
            ("frontend", "tenancy"),
            ("server", "tenancy"),
            ("resp", "frontend"),
            ("memcached", "frontend"),
            ("server", "frontend"),
            ("cli", "resp"),
            ("cli", "memcached"),
            ("cli", "console"),
            ("console", "config"),
            ("cli", "config"),
            ("trial", "config"),
            ("bunny", "allocate"),
            ("cli", "server"),
            ("bench", "millpond"),
            ("workload", "millpond"),
            ("workload", "allocate"),
            ("trial", "bench"),
            ("simulate", "workload"),
            ("experiments", "simulate"),
            ("cli", "trial"),
        ] {
            assert_eq!(check_edge(from, to, None), "", "{from} to {to}");
        }
    }

    #[test]
    fn an_edge_upward_or_sideways_is_a_finding() {
        for (from, to) in [
            ("base", "slab"),
            ("evict", "slab"),
            ("rebalance", "slab"),
            ("slab", "index"),
            ("protocol", "millpond"),
            ("millpond", "server"),
            ("memory", "millpond"),
            ("memory", "structured"),
            ("memory", "compact"),
            ("compact", "structured"),
            ("structured", "compact"),
            ("resp", "structured"),
            ("workload", "memory"),
            ("cli", "memory"),
            ("server", "orchestrator"),
            ("server", "slab"),
            ("config", "server"),
            ("config", "limit"),
            ("config", "tenancy"),
            ("tenancy", "frontend"),
            ("tenancy", "server"),
            ("frontend", "resp"),
            ("frontend", "server"),
            ("server", "resp"),
            ("server", "memcached"),
            ("console", "server"),
            ("resp", "memcached"),
            ("memcached", "resp"),
            ("protocol", "config"),
            ("allocate", "slab"),
            ("workload", "protocol"),
            ("workload", "bench"),
            ("bench", "trial"),
            ("simulate", "bench"),
            ("simulate", "experiments"),
            ("limit", "curve"),
        ] {
            let found = check_edge(from, to, None);
            assert!(found.contains(": rooms: `millpond"), "{from} to {to}: {found}");
            assert_eq!(check_edge(from, to, Some("build")), found);
        }
    }

    #[test]
    fn tests_may_import_their_own_floor_but_nothing_above() {
        assert_eq!(check_edge("evict", "slab", Some("dev")), "");
        assert_eq!(check_edge("slab", "curve", Some("dev")), "");
        assert!(check_edge("evict", "millpond", Some("dev")).contains("of a higher floor"));
    }

    #[test]
    fn an_unknown_crate_and_a_wrong_folder_are_findings() {
        let mut tree = tree(&[]);
        tree.packages = vec![package("attic", "lib", &[]), package("slab", "lib", &[])];
        tree.packages[1].manifest = "slab/Cargo.toml".to_owned();
        let found = messages(check(&tree));
        assert!(found.contains("`millpond-attic` is not a room"), "{found}");
        assert!(found.contains("move it to `crates/slab`"), "{found}");
    }

    #[test]
    fn opting_out_of_the_workspace_lints_is_a_finding() {
        let with = "[lints]\nworkspace = true\n[dependencies]\nslab.workspace = true\n";
        let mut tree = tree(&[("crates/evict/Cargo.toml", with), ("crates/index/Cargo.toml", "[package]\n")]);
        tree.packages = vec![package("evict", "lib", &[("slab", None)]), package("index", "lib", &[])];
        let found = messages(check(&tree));
        assert!(found.contains("crates/evict/Cargo.toml:4: rooms: `millpond-evict` imports"), "{found}");
        assert!(found.contains("crates/index/Cargo.toml:1: rooms: the crate does not take"), "{found}");
    }
}
