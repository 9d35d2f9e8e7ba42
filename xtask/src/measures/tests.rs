use super::*;
use crate::tree::testing::{package, tree};

/// The places of a measure in these files, each as `room path:line: text`.
fn places(measure: &str, files: &[(&str, &str)]) -> Vec<String> {
    let mut tree = tree(files);
    tree.packages = vec![package("slab", "lib", &[])];
    let rooms = Measure::find(measure).expect("a measure").places(&tree);
    rooms
        .iter()
        .flat_map(|(room, places)| {
            places.iter().map(move |place| format!("{room} {}:{}: {}", place.path, place.line, place.text))
        })
        .collect()
}

#[test]
fn a_planted_wide_comment_is_counted_and_tables_are_not() {
    let wide = "x".repeat(97);
    let code = "y".repeat(120);
    let text = format!(
        "//! {wide}\n//! {wide}{wide}\n//! | {wide} |\n// See https://{wide}\nfn f() {{\n    // {}\n    g(\"{code}\"); // {wide}\n    h(\"{code}\");\n}}\n",
        &wide[3..]
    );
    let at = |path: &str| places("width", &[(path, &text)]);
    assert_eq!(
        at("crates/slab/src/a.rs"),
        [
            "slab crates/slab/src/a.rs:1: 101 columns",
            "slab crates/slab/src/a.rs:2: 198 columns",
            "slab crates/slab/src/a.rs:6: 101 columns",
            "slab crates/slab/src/a.rs:7: 231 columns",
        ]
    );
    assert!(at("examples/a.rs")[0].starts_with("examples "));
    assert!(at("a.rs")[0].starts_with("top "));
}

#[test]
fn a_summary_is_the_first_line_of_each_block() {
    let text = "\
//! What a room is.
//!
//! Where it lies.

/// Whether it is so.
/// Who asks.
struct A;
///
/// Whose it is.
struct B(
    /// What-not.
    u8,
);
/// Returns whether it is so.
/// What follows is no summary.
/// Whatever.
fn f() {}
/** Where it is. */
fn g() {}
// What is plain.
";
    let found = places("summaries", &[("crates/slab/src/a.rs", text)]);
    let lines: Vec<&str> = found.iter().filter_map(|place| place.split(':').nth(1)).collect();
    assert_eq!(lines, ["1", "5", "9", "11", "18"]);
    assert!(found[1].ends_with("begins with `Whether`"), "{found:?}");
}

#[test]
fn a_safety_comment_without_a_numbered_invariant_is_counted() {
    let text = "\
fn f() {
    // SAFETY: the slot is there, by
    // invariant 2 of `slab::item`.
    unsafe { g() };
    // SAFETY: invariants 1 and 3.
    unsafe { g() };
    // SAFETY: the invariant holds.
    unsafe { g() };
    // SAFETY: passed on.

    // Of another thing invariant 4 speaks.
    unsafe { g() };
}
/// # Safety
/// SAFETY: documentation.
unsafe fn g() {}
";
    assert_eq!(
        places("safety", &[("crates/slab/src/a.rs", text)]),
        [
            "slab crates/slab/src/a.rs:7: SAFETY: the invariant holds.",
            "slab crates/slab/src/a.rs:9: SAFETY: passed on.",
        ]
    );
}

#[test]
fn the_modules_of_the_largest_circle_are_counted() {
    let files = [
        ("crates/slab/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\n"),
        ("crates/slab/src/a.rs", "use crate::b::B;\npub struct A;\n"),
        ("crates/slab/src/b.rs", "use crate::c::C;\npub struct B;\n"),
        ("crates/slab/src/c.rs", "use crate::a::A;\npub struct C;\n"),
        ("crates/slab/src/d.rs", "use crate::e::E;\npub struct D;\n"),
        ("crates/slab/src/e.rs", "use crate::d::D;\npub struct E;\n"),
    ];
    let found = places("circles", &files);
    assert_eq!(found.len(), 3);
    assert_eq!(found[0], "slab crates/slab/src/a.rs:1: `a` is one of 3 modules in a circle");
}

#[test]
fn a_phrase_is_found_across_lines_but_not_across_sentences() {
    let text = "\
// A scan gives
// way to clients. It gives `x` way. It gives.
// Way off, so many items that it is full, so long as it lasts.
// Here are so many; there is no key, and it is no longer.
// It gives

// way.
";
    assert_eq!(
        places("prose", &[("crates/slab/src/a.rs", text)]),
        [
            "slab crates/slab/src/a.rs:1: `gives way`; yields to; is preempted by",
            "slab crates/slab/src/a.rs:4: `so many`; this many; n of them; up to ...",
        ]
    );
    let document = "A key tends to stay.\n```\nby now\n```\nBy now it is `by now` there.\n";
    assert_eq!(
        places("prose", &[("docs/a.md", document)]),
        ["docs docs/a.md:5: `by now`; already, or leave it out"]
    );
}

#[test]
fn messages_are_literals_of_several_words_outside_of_tests() {
    let text = "\
fn f() {
    g(\"stranger\");
    g(\"{name} \\n\\
       is no number; `is no good`\");
}
#[cfg(test)]
mod tests {
    const A: &str = \"is no number\";
}
";
    let found = places("messages", &[("crates/slab/src/a.rs", text), ("crates/slab/tests/a.rs", text)]);
    assert_eq!(found, ["slab crates/slab/src/a.rs:3: `is no`; is not a valid ...; invalid ..."]);
}
