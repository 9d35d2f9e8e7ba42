//! `cargo xtask house`: measures of the repository's structure, for those who are about to change
//! it.
//!
//! The command refuses nothing: limits that must hold are rules of `tidy`. It builds nothing and
//! needs no network.

mod rebuild;
mod sizes;

use std::path::Path;

use crate::measures::{MEASURES, Measure};
use crate::modules::Graph;
use crate::repository;
use crate::tree::{Package, Tree};

/// The question that the arguments ask.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    /// Everything in short; with the members of each circle, where asked.
    Summary { with_members: bool, by: By },
    /// The edges between the modules of a crate.
    Edges { name: String, by: By },
    /// The places that a measure counts, in a room or in all.
    Places { measure: String, room: Option<String> },
    /// The code that is compiled again after a change of a file.
    Rebuild { path: String },
}

/// The granularity of a module graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    File,
    Folder,
    /// Both, one after the other.
    Each,
}

impl By {
    /// The graphs to show, each with the word for its nodes.
    fn graphs(self, graph: Graph) -> Vec<(&'static str, Graph)> {
        let folders = graph.by_folder();
        match self {
            Self::File => vec![("files", graph)],
            Self::Folder => vec![("folders", folders)],
            Self::Each => vec![("files", graph), ("folders", folders)],
        }
    }
}

/// The command: prints the answer to what the arguments ask.
pub(crate) fn command(arguments: &[String]) -> anyhow::Result<bool> {
    let mut question = parse(arguments)?;
    let root = repository::root();
    if let Question::Rebuild { path } = &mut question
        && let Ok(relative) = Path::new(path.as_str()).strip_prefix(&root)
    {
        *path = relative.to_string_lossy().into_owned();
    }
    let tree = Tree::load(&root)?;
    print!("{}", answer(&tree, &question)?);
    Ok(true)
}

fn parse(arguments: &[String]) -> anyhow::Result<Question> {
    let mut by = By::Each;
    let mut question = None;
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.next() {
        let mut value = |what: &str| {
            words.next().cloned().ok_or_else(|| anyhow::anyhow!("`{word}` needs {what} after it"))
        };
        let asked = match word.as_str() {
            "--by" => {
                by = match value("`file` or `folder`")?.as_str() {
                    "file" => By::File,
                    "folder" => By::Folder,
                    other => anyhow::bail!("`--by {other}`: give `file` or `folder`"),
                };
                continue;
            }
            "--circles" => Question::Summary { with_members: true, by },
            "--edges" => Question::Edges { name: value("a crate")?, by },
            "--places" => {
                let measure = value("a measure")?;
                let room = words.next_if(|word| !word.starts_with("--")).cloned();
                Question::Places { measure, room }
            }
            "--rebuild" => Question::Rebuild { path: value("a path")?.trim_start_matches("./").to_owned() },
            _ => anyhow::bail!("`{word}` is not an argument of house: `cargo xtask help` lists them"),
        };
        anyhow::ensure!(question.is_none(), "house answers one question at a time");
        question = Some(asked);
    }
    let mut question = question.unwrap_or(Question::Summary { with_members: false, by });
    if let Question::Summary { by: asked, .. } | Question::Edges { by: asked, .. } = &mut question {
        *asked = by;
    }
    Ok(question)
}

fn answer(tree: &Tree, question: &Question) -> anyhow::Result<String> {
    match question {
        Question::Summary { with_members, by } => {
            let circles = circles(tree, *with_members, *by);
            Ok(format!("{circles}\n{}\n{}", sizes::report(tree), counts(tree)))
        }
        Question::Edges { name, by } => edges(find(tree, name)?, tree, *by),
        Question::Places { measure, room } => places(tree, measure, room.as_deref()),
        Question::Rebuild { path } => rebuild::report(tree, path),
    }
}

/// The crate with this name, or with this name after `millpond-`.
fn find<'a>(tree: &'a Tree, name: &str) -> anyhow::Result<&'a Package> {
    let found = tree.packages.iter().find(|package| package.name == name || package.short_name() == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = tree.packages.iter().map(Package::short_name).collect();
        anyhow::anyhow!("there is no crate `{name}`; there are {}", known.join(", "))
    })
}

/// A line per crate and granularity, with the sizes of the circles.
fn circles(tree: &Tree, with_members: bool, by: By) -> String {
    let mut text = String::from("circles of modules (crate, nodes, circles by size):\n");
    for package in &tree.packages {
        for (nodes, graph) in by.graphs(Graph::of(tree, package)) {
            let circles = graph.circles();
            let sizes: Vec<String> = circles.iter().map(|members| members.len().to_string()).collect();
            let sizes = if sizes.is_empty() { "none".to_owned() } else { sizes.join(", ") };
            let count = graph.modules.len();
            text.push_str(&format!("  {:<12} {count:>4} {nodes:<8} {sizes}\n", package.short_name()));
            for members in circles.iter().filter(|_| with_members) {
                text.push_str(&format!("      {}: {}\n", members.len(), members.join(", ")));
            }
        }
    }
    text
}

/// A line per edge, with how many uses make it.
fn edges(package: &Package, tree: &Tree, by: By) -> anyhow::Result<String> {
    let mut text = String::new();
    for (nodes, graph) in by.graphs(Graph::of(tree, package)) {
        text.push_str(&format!("edges between {nodes} of {} (uses, from, to):\n", package.short_name()));
        let name = |at: usize| graph.modules.get(at).map_or("", |module| module.name.as_str());
        let mut rows: Vec<(&str, &str, usize)> =
            graph.edges.iter().map(|((from, to), lines)| (name(*from), name(*to), lines.len())).collect();
        rows.sort_unstable();
        for (from, to, uses) in rows {
            text.push_str(&format!("  {uses:>4} {from} -> {to}\n"));
        }
    }
    Ok(text)
}

/// A line per measure, with the sum over all rooms.
fn counts(tree: &Tree) -> String {
    let mut text = String::from("counts over all rooms (measure, count):\n");
    for measure in MEASURES {
        let count: usize = measure.places(tree).values().map(Vec::len).sum();
        text.push_str(&format!("  {:<12} {count:>6} {}\n", measure.name, measure.noun));
    }
    text
}

/// A line per place, and the counts of the rooms.
fn places(tree: &Tree, name: &str, only: Option<&str>) -> anyhow::Result<String> {
    let Some(measure) = Measure::find(name) else {
        let known: Vec<&str> = MEASURES.iter().map(|measure| measure.name).collect();
        anyhow::bail!("there is no measure `{name}`; there are {}", known.join(", "));
    };
    let mut rooms = measure.places(tree);
    rooms.retain(|room, _| only.is_none_or(|only| only == room));
    let mut text = String::new();
    for place in rooms.values().flatten() {
        text.push_str(&format!("{}:{}: {}\n", place.path, place.line, place.text));
    }
    for (room, places) in &rooms {
        text.push_str(&format!("  {:>6} {room}\n", places.len()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
