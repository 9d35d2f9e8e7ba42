use super::*;
use crate::tree::testing::{package, tree};

/// The graph of a crate `evict` with these files below `src`.
fn graph(files: &[(&str, &str)]) -> Graph {
    let files: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("crates/evict/src/{path}"), *text)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let mut tree = tree(&files);
    tree.packages = vec![package("evict", "lib", &[])];
    Graph::of(&tree, &tree.packages[0])
}

/// The edges as in `a -> b: 3 7`, with the lines.
fn edges(graph: &Graph) -> Vec<String> {
    let name = |at: usize| graph.modules[at].name.as_str();
    let show = |((from, to), lines): (&(usize, usize), &Vec<usize>)| {
        let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
        format!("{} -> {}: {}", name(*from), name(*to), lines.join(" "))
    };
    let mut edges: Vec<String> = graph.edges.iter().map(show).collect();
    edges.sort();
    edges
}

#[test]
fn imports_and_paths_make_edges_and_declarations_do_not() {
    let graph = graph(&[
        ("lib.rs", "mod a;\npub mod b;\n"),
        ("a.rs", "mod c;\nuse crate::b::B;\nfn f() { crate::b::g(); super::b::g(); }\n"),
        ("b.rs", "pub struct B;\npub fn g() {}\n"),
        ("a/c.rs", "use super::f;\n"),
    ]);
    assert_eq!(edges(&graph), ["a -> b: 2 3 3", "a::c -> a: 1"]);
    assert_eq!(graph.modules.len(), 4);
    assert!(graph.circles().is_empty());
}

#[test]
fn a_planted_circle_is_found_in_both_granularities() {
    let graph = graph(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
        ("a.rs", "use crate::b::deep::B;\npub struct A;\n"),
        ("b/mod.rs", "pub mod deep;\npub struct Top;\n"),
        ("b/deep.rs", "use crate::c::C;\npub struct B;\n"),
        ("c.rs", "use crate::a::A;\nuse crate::d::D;\npub struct C;\n"),
        ("d.rs", "use crate::b::Top;\npub struct D;\n"),
    ]);
    assert_eq!(graph.circles(), [["a", "b::deep", "c"]]);
    assert_eq!(graph.by_folder().circles(), [["a", "b", "c", "d"]]);
}

#[test]
fn names_are_followed_through_re_exports_to_their_definition() {
    let graph = graph(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::{self, inner::Inner};\npub use b::*;\n"),
        ("a.rs", "pub mod inner;\n"),
        ("a/inner.rs", "pub struct Inner;\n"),
        ("b.rs", "pub fn made() {}\npub enum Kind { One }\n"),
        ("c.rs", "use crate::{Inner, made};\nuse crate::a;\nfn f(_: a::Inner) { crate::Kind::One; }\n"),
    ]);
    assert_eq!(edges(&graph), ["c -> a: 3", "c -> a::inner: 1", "c -> b: 1 3"]);
}

#[test]
fn a_parent_that_uses_what_it_does_not_re_export_is_an_edge() {
    let graph = graph(&[
        ("lib.rs", "mod a;\nuse a::A;\npub(crate) use a::Other;\nstruct Root(A);\n"),
        ("a.rs", "use super::Root;\npub struct A;\npub struct Other;\n"),
    ]);
    assert_eq!(edges(&graph), ["a -> lib: 1", "lib -> a: 2"]);
    assert_eq!(graph.circles(), [["a", "lib"]]);
}

#[test]
fn other_crates_types_and_tests_are_no_edges() {
    let graph = graph(&[
        ("lib.rs", "mod a;\nmod b;\npub use base::Clock;\n"),
        (
            "a.rs",
            "use std::fmt;\nuse base::b::X;\nuse crate::Clock;\nfn f() -> fmt::Result { X::new(); Vec::new() }\n\
             #[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
        ),
        ("b.rs", "#[cfg(test)]\nmod tests;\npub struct B;\n"),
        ("b/tests.rs", "use crate::a;\n"),
    ]);
    assert_eq!(edges(&graph), [] as [&str; 0]);
    assert_eq!(graph.modules.len(), 3);
}

#[test]
fn inline_modules_belong_to_their_file() {
    let graph = graph(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "pub mod inner {\n    pub use super::super::b::B;\n    pub struct Own;\n    mod far;\n}\n"),
        ("a/inner/far.rs", "use super::{B, Own};\n"),
        ("b.rs", "pub struct B;\n"),
    ]);
    assert_eq!(edges(&graph), ["a -> b: 2", "a::inner::far -> a: 1", "a::inner::far -> b: 1"]);
}

#[test]
fn imports_that_lead_in_a_circle_end() {
    let graph = graph(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "pub use crate::b::*;\npub use crate::b::Lost;\n"),
        ("b.rs", "pub use crate::a::*;\npub use crate::a::Lost;\n"),
    ]);
    assert_eq!(graph.circles(), [["a", "b"]]);
}

#[test]
fn a_function_with_the_name_of_a_module_is_what_code_calls() {
    let graph = graph(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
        ("a.rs", "pub mod load;\npub use load::load;\n"),
        ("a/load.rs", "pub fn load() {}\n"),
        ("b.rs", "use crate::a;\nfn f() { a::load() }\n"),
        ("c.rs", "use crate::a::load;\n"),
        ("d.rs", "pub mod run;\npub fn run() { run::run() }\n"),
        ("d/run.rs", "pub fn run() { super::run() }\n"),
    ]);
    assert_eq!(edges(&graph), ["b -> a::load: 2", "c -> a::load: 1", "d -> d::run: 2", "d::run -> d: 1"]);
}
