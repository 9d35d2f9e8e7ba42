use super::*;
use crate::tidy::tests::{messages, tree};

fn found(path: &str, text: &str) -> String {
    messages(check(&tree(&[(path, text)])))
}

#[test]
fn good_names_and_sentences_pass() {
    let text = "\
//! A room. In FAST 2020 it had 1 # sign and `TODO` in code; see RFC 2119 and lemma 3.
/// Commonly used: the common_prefix of two keys.
struct UncommonPool;
fn common_prefix() {}
// The slab goes back (to the free list); then the lock is let go.
// size = header + key
// It holds that `let x = f();` does not race.
";
    assert_eq!(found("crates/slab/src/pool.rs", text), "");
    assert_eq!(found("docs/testing.md", "Run it:\n```\n# TODO #12\n```\nMeasured on 2026-01-02.\n"), "");
    assert_eq!(found("CHANGELOG.md", "## 0.1.0 - 2026-01-02\nCloses #12.\n"), "");
}

#[test]
fn a_banned_name_is_a_finding_with_its_replacement() {
    for text in [
        "struct PoolManager;",
        "enum ManagerKind {}",
        "trait IoHelper {}",
        "type Utils = u8;",
        "mod misc {}",
        "union CommonBits { a: u8 }",
    ] {
        let found = found("a.rs", &format!("//! A room.\n{text}\n"));
        assert!(found.starts_with("a.rs:2: words: `") && found.contains("is named by `"), "{text}: {found}");
    }
    assert!(found("a.rs", "//! A room.\nstruct PoolManager;\n").contains("a registry"));
}

#[test]
fn a_banned_file_or_folder_is_a_finding() {
    for path in [
        "crates/slab/src/utils.rs",
        "crates/slab/tests/common/mod.rs",
        "docs/misc.md",
        "scripts/io-helper.sh",
    ] {
        assert!(found(path, "//! A room.\n").contains(": words: `"), "{path}");
    }
}

#[test]
fn a_plan_item_is_a_finding() {
    for (path, text) in [
        ("a.rs", "//! A room.\n// TODO: later\n"),
        ("a.rs", "//! A room.\nfn f() {} // FIXME\n"),
        ("a.md", "A room.\nXXX\n"),
        ("a.toml", "a = 1\n# HACK (for now)\n"),
    ] {
        assert!(found(path, text).starts_with(&format!("{path}:2: words: `")), "{text}");
    }
}

#[test]
fn a_ticket_is_a_finding() {
    for text in ["see #12", "(#12)", "Fixes #12.", "of issue 12", "Ticket 7: slow"] {
        let found = found("a.rs", &format!("//! A room.\n// {text}\n"));
        assert!(found.contains("is a ticket"), "{text}: {found}");
    }
}

#[test]
fn a_date_in_a_comment_is_a_finding() {
    assert!(found("a.rs", "//! Since 2026-01-02.\n").contains("`2026-01-02` is a date"));
    assert!(found("a.toml", "# Since 2026-01-02.\n").contains("is a date"));
}

#[test]
fn code_in_a_comment_is_a_finding() {
    for text in [
        "// let pool = Pool::new(3);",
        "// for slab in slabs {\n//     free(slab);\n// }",
        "/* free(slab); */",
        "// The old way was:\n// self.head = next;",
        "// fn f() {}",
    ] {
        let found = found("a.rs", &format!("//! A room.\n{text}\n"));
        assert!(found.starts_with("a.rs:2: words: a comment that is code"), "{text}: {found}");
    }
}

#[test]
fn names_are_split_in_every_style() {
    for name in ["io_pool2_map", "io-pool2-map", "IoPool2Map"] {
        assert_eq!(split_name(name), ["io", "pool2", "map"], "{name}");
    }
}
