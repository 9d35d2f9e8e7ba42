//! `cargo xtask tidy`: the house rules that a machine can check.
//!
//! A rule is a function from the [`Tree`] to its [`Finding`]s; it reads nothing but the tree, so
//! that a test can pass it a small one. [`RULES`] lists them all: a new rule is a module and one
//! line there.

mod counts;
mod doors;
mod headers;
mod lengths;
mod metrics;
mod parses;
mod rooms;
mod text;
mod unsafety;
mod words;

use anyhow::Context;

pub(crate) use lengths::FILE_LINES;

use crate::finding::Finding;
use crate::ratchet::{self, Ratchet};
use crate::repository;
use crate::tree::Tree;

/// A rule sees the whole tree and says what breaks it.
type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    parses::check,
    rooms::check,
    doors::check,
    headers::check,
    lengths::check,
    counts::check,
    unsafety::check,
    words::check,
    text::check,
    metrics::check,
];

/// Runs the command: prints all findings. Returns whether there were none.
pub(crate) fn command(arguments: &[String]) -> anyhow::Result<bool> {
    let root = repository::root();
    let mut tree = Tree::load(&root)?;
    let counts = match arguments {
        [] => None,
        [flag] if flag == "--tighten" => Some(counts::lowered(&tree)),
        [flag] if flag == "--moved" => Some(counts::moved(&tree).map_err(anyhow::Error::msg)?),
        _ => anyhow::bail!("tidy takes no argument but --tighten or --moved"),
    };
    if let Some(counts) = counts {
        let text = Ratchet { counts, ..lengths::lowered(&tree) }.render();
        std::fs::write(root.join(ratchet::PATH), &text)
            .with_context(|| format!("cannot write {}", ratchet::PATH))?;
        tree.set_ratchet(&text);
    }
    let findings = run(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy: {} files, {} crates, nothing to mend", tree.files.len(), tree.packages.len()),
        n => println!("tidy: {n} findings in {} files", tree.files.len()),
    }
    match counts::slack(&tree) {
        0 => {}
        n => println!("tidy: {n} numbers of {} can be lowered: `cargo xtask tidy --tighten`", ratchet::PATH),
    }
    Ok(findings.is_empty())
}

/// All findings of all rules, in the order of their place.
fn run(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests;
