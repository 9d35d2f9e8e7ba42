//! Small made-up trees for tests.

use super::{Dependency, Package, Target, Tree};

/// A tree of these files, without crates.
pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in files {
        tree.add_file(path, (*text).to_owned());
    }
    tree
}

/// A crate as the design places it, with one root file.
pub(crate) fn package(room: &str, kind: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
    let named = |room: &str| if room == "millpond" { room.to_owned() } else { format!("millpond-{room}") };
    let file = if kind == "bin" { "main" } else { "lib" };
    let dependency = |(room, kind): &(&str, Option<&str>)| Dependency {
        name: named(room),
        kind: kind.map(str::to_owned),
        path: Some(String::new()),
    };
    Package {
        name: named(room),
        manifest: format!("crates/{room}/Cargo.toml"),
        dependencies: dependencies.iter().map(dependency).collect(),
        targets: vec![Target { kind: vec![kind.to_owned()], root: format!("crates/{room}/src/{file}.rs") }],
    }
}
