use super::*;
use crate::tidy::tests::{messages, tree};

#[test]
fn plain_text_passes() {
    let files = [
        ("empty.md", ""),
        ("a.md", "One line.\n"),
        ("a.rs", "//! A room.\n#[cfg(test)]\nmod tests {\n    const PATH: &str = \"/tmp/x\";\n}\n"),
        ("crates/a/tests/b.rs", "//! A test.\nconst PATH: &str = \"/tmp/x\";\n"),
        ("b.md", "See ../shared/work/x, https://host/tmp/x and crates/home/src.\n"),
        ("crates/a/tests/fixtures/raw.txt", "get x \r\n"),
    ];
    assert_eq!(messages(check(&tree(&files))), "");
}

#[test]
fn each_kind_of_stray_white_space_is_a_finding() {
    for (path, text, expected) in [
        ("a.md", "No end", "a.md:1: text: the last line has no newline"),
        ("a.md", "One.\n\n", "a.md:2: text: the file ends with an empty line"),
        ("a.md", "One. \nTwo.\n", "a.md:1: text: white space at the end"),
        ("a.md", "One.\r\n", "a.md:1: text: white space at the end"),
        ("a.rs", "//! A room.\nfn f() {\n\tg();\n}\n", "a.rs:3: text: a tab"),
    ] {
        let found = messages(check(&tree(&[(path, text)])));
        assert!(found.starts_with(expected), "{text:?}: {found}");
    }
}

#[test]
fn a_path_of_one_machine_is_a_finding() {
    for (path, text) in [
        ("a.md", "See /work/main.\n"),
        ("a.toml", "socket = \"/root/x\"\n"),
        ("a.rs", "//! See /tmp/x.\n"),
        ("crates/a/tests/b.rs", "//! See /home/x.\n"),
    ] {
        let found = messages(check(&tree(&[(path, text)])));
        assert!(found.starts_with(&format!("{path}:1: path: ")), "{text:?}: {found}");
    }
}
