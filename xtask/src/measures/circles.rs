//! The largest circle of modules in each crate.

use super::place::Place;
use crate::modules::Graph;
use crate::tree::Tree;

/// The files of the largest circle of each crate.
pub(super) fn places(tree: &Tree) -> Vec<Place> {
    let mut places = Vec::new();
    for package in &tree.packages {
        let graph = Graph::of(tree, package);
        let circles = graph.circles();
        let Some(largest) = circles.first() else { continue };
        let members = graph.modules.iter().filter(|module| largest.contains(&module.name.as_str()));
        places.extend(members.map(|module| Place {
            path: module.file.clone(),
            line: 1,
            text: format!("`{}` is one of {} modules in a circle", module.name, largest.len()),
        }));
    }
    places
}
