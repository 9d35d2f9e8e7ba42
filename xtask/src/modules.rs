//! The module graph of a crate: which of its modules use which others, and the circles among them.
//!
//! A node is a source file, and an edge leads from a file to the file that defines what it uses.
//! Names are followed through re-exports and imports to their definition, so that `use crate::Pool`
//! is an edge to the module that defines `Pool` rather than to the crate's root. Not edges: `mod`
//! declarations, re-exports of a module's own descendants, the import of a module as such (only
//! what is used of it counts), and tests.
//!
//! Not seen: `use` declarations inside macro calls, and methods, which name no module.

mod resolve;

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{Package, Tree};
pub(crate) use resolve::Module;
use resolve::Namespace;

/// The modules of a crate and the edges between them.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) modules: Vec<Module>,
    /// By the places in `modules` of the user and the used: the lines of the user's file that make
    /// the edge.
    pub(crate) edges: BTreeMap<(usize, usize), Vec<usize>>,
}

impl Graph {
    /// Reads the graph of the libraries and programs of `package`.
    pub(crate) fn of(tree: &Tree, package: &Package) -> Self {
        let mut graph = Self::default();
        for root in package.roots() {
            let namespace = Namespace::read(tree, root);
            for (from, to, line) in namespace.edges() {
                let edge = (graph.module(from), graph.module(to));
                graph.edges.entry(edge).or_default().push(line);
            }
            for module in namespace.modules() {
                graph.module(module);
            }
        }
        graph
    }

    /// The place of `module` in the graph, to which it is added if it is new.
    fn module(&mut self, module: Module) -> usize {
        let known = self.modules.iter().position(|known| known.file == module.file);
        known.unwrap_or_else(|| {
            self.modules.push(module);
            self.modules.len() - 1
        })
    }

    /// The same graph with one node for all files below one folder at the top of the crate.
    pub(crate) fn by_folder(&self) -> Self {
        let mut folders = Self::default();
        let mut folder_of = |module: &Module| {
            let top = module.top();
            let known = folders.modules.iter().position(|folder| folder.name == top);
            known.unwrap_or_else(|| {
                folders.modules.push(Module { name: top.to_owned(), file: module.file.clone() });
                folders.modules.len() - 1
            })
        };
        let folder_of: Vec<usize> = self.modules.iter().map(&mut folder_of).collect();
        for ((from, to), lines) in &self.edges {
            let edge = (folder_of[*from], folder_of[*to]);
            if edge.0 != edge.1 {
                folders.edges.entry(edge).or_default().extend(lines);
            }
        }
        folders
    }

    /// The circles: sets of two modules or more each of which uses all others, directly or through
    /// others of the set. The largest comes first, and the names in each are sorted.
    pub(crate) fn circles(&self) -> Vec<Vec<&str>> {
        let reached: Vec<BTreeSet<usize>> = (0..self.modules.len()).map(|from| self.reached(from)).collect();
        let mut circles: Vec<Vec<&str>> = Vec::new();
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        for (from, reached_here) in reached.iter().enumerate() {
            if !reached_here.contains(&from) || seen.contains(&from) {
                continue;
            }
            let members: Vec<usize> =
                reached_here.iter().copied().filter(|to| reached[*to].contains(&from)).collect();
            seen.extend(&members);
            let mut names: Vec<&str> = members.iter().map(|at| self.modules[*at].name.as_str()).collect();
            names.sort_unstable();
            circles.push(names);
        }
        circles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        circles
    }

    /// The modules that `from` uses, directly or through others.
    fn reached(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            for ((_, to), _) in self.edges.range((at, 0)..=(at, usize::MAX)) {
                if reached.insert(*to) {
                    next.push(*to);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests;
