use super::*;
use crate::tree::testing::{package, tree};

fn ask(tree: &Tree, words: &str) -> String {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let question = parse(&words).expect("a question");
    answer(tree, &question).unwrap_or_else(|error| format!("error: {error}"))
}

/// A crate `slab` with a circle of two files in one folder, a user of it, and a user of that in
/// tests only.
fn house() -> Tree {
    let mut tree = tree(&[
        ("crates/slab/src/lib.rs", "//! Slabs.\nmod pool;\n"),
        ("crates/slab/src/pool.rs", "pub mod run;\nuse run::Run;\npub struct Pool(Run);\n"),
        ("crates/slab/src/pool/run.rs", "use super::Pool;\npub struct Run(Box<Pool>);\n"),
        ("crates/slab/src/pool/tests.rs", "use super::Pool;\n"),
        ("crates/slab/tests/model.rs", "//! A model.\n"),
        ("crates/index/src/lib.rs", &format!("//! An index.\n{}", "// A line.\n".repeat(600))),
        ("crates/evict/src/lib.rs", "//! Policies.\n"),
    ]);
    tree.packages = vec![
        package("evict", "lib", &[("index", Some("dev"))]),
        package("index", "lib", &[("slab", None)]),
        package("slab", "lib", &[]),
    ];
    tree
}

#[test]
fn circles_are_counted_in_both_granularities_and_named_on_demand() {
    let summary = ask(&house(), "");
    assert!(summary.contains("slab            3 files    2\n"), "{summary}");
    assert!(summary.contains("slab            2 folders  none\n"), "{summary}");
    assert!(!summary.contains("pool::run"), "{summary}");
    let circles = ask(&house(), "--circles --by file");
    assert!(circles.contains("2: pool, pool::run\n") && !circles.contains("folders"), "{circles}");
}

#[test]
fn edges_are_listed_with_their_counts() {
    let edges = ask(&house(), "--by file --edges slab");
    assert_eq!(
        edges,
        "edges between files of slab (uses, from, to):\n     1 pool -> pool::run\n     1 pool::run -> pool\n"
    );
    assert!(ask(&house(), "--edges attic").contains("there are evict, index, slab"));
}

#[test]
fn sizes_leave_out_tests_and_list_long_files() {
    let summary = ask(&house(), "");
    assert!(summary.contains("\n       7 slab\n"), "{summary}");
    assert!(
        summary.contains("source files over 600 lines: 1\n     601 crates/index/src/lib.rs\n"),
        "{summary}"
    );
}

#[test]
fn a_change_compiles_dependents_but_for_their_tests() {
    let change = ask(&house(), "--rebuild ./crates/slab/src/pool.rs");
    assert!(change.contains("compiles 608 lines in 2 crates:\n     601 index\n       7 slab\n"), "{change}");
    assert!(ask(&house(), "--rebuild crates/index/Cargo.toml").contains("compiles 601 lines in 1 crates"));
    assert!(ask(&house(), "--rebuild crates/slab/tests/model.rs").contains("no library or program"));
    assert!(
        ask(&house(), "--rebuild docs/testing.md").starts_with("error: `docs/testing.md` is in no crate")
    );
}

#[test]
fn places_are_listed_for_one_room_or_for_all() {
    let mut tree = house();
    tree.add_file("crates/evict/src/lru.rs", "//! What it is.\n".to_owned());
    tree.add_file("docs/a.rs", "//! Where it is.\n".to_owned());
    let one = "crates/evict/src/lru.rs:1: the summary begins with `What`\n       1 evict\n";
    assert_eq!(ask(&tree, "--places summaries evict"), one);
    assert!(ask(&tree, "--places summaries").ends_with("       1 docs\n       1 evict\n"));
    assert!(ask(&tree, "").contains("  summaries         2 summaries that"));
    assert!(ask(&tree, "--places commas").contains("there are circles, messages, prose, safety"));
}

#[test]
fn what_house_does_not_know_is_refused() {
    for words in ["--circle", "--by room", "--edges", "--circles --edges slab"] {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        assert!(parse(&words).is_err(), "{words:?}");
    }
}

#[test]
fn the_modules_of_the_repository_are_found() {
    let tree = Tree::load(&repository::root()).expect("the repository");
    for package in &tree.packages {
        let graph = Graph::of(&tree, package);
        let folder = format!("{}/src/", package.folder());
        let (known, lost): (Vec<&str>, Vec<&str>) = tree
            .sources()
            .filter(|(file, _)| file.path.starts_with(&folder) && !file.is_test())
            .map(|(file, _)| file.path.as_str())
            .partition(|path| graph.modules.iter().any(|module| module.file == *path));
        // A file that only tests declare has another name than a file of tests in a few places.
        assert!(known.len() >= lost.len() * 5, "{} lacks {lost:?}", package.name);
    }
}
