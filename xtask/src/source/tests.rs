use super::*;

fn parse(text: &str) -> Source {
    Source::parse(text).unwrap_or_else(|(line, reason)| panic!("line {line}: {reason}"))
}

fn comments(source: &Source) -> Vec<(usize, &str, bool, bool)> {
    source.comments.iter().map(|c| (c.line, c.text.as_str(), c.is_doc, c.is_alone)).collect()
}

#[test]
fn comments_are_told_from_strings_and_documentation() {
    let source = parse(
        "\
//! Top.
//! More.
fn f() -> &'static str { // beside
    /* one /* two */
    end */
    \"// no\"; r#\"/* no \"# ; 'a'; '\"'; b'/';
    // étoile
    g()
}
/// Doc.
/** Block
    doc. */
struct S; // last",
    );
    assert_eq!(
        comments(&source),
        [
            (1, "//! Top.", true, true),
            (2, "//! More.", true, true),
            (3, "// beside", false, false),
            (4, "/* one /* two */\n    end */", false, true),
            (7, "// étoile", false, true),
            (10, "/// Doc.", true, true),
            (11, "/** Block\n    doc. */", true, true),
            (13, "// last", false, false),
        ]
    );
    let lines: Vec<_> = source.comments[6].lines().collect();
    assert_eq!(lines, [(11, "Block"), (12, "doc.")]);
}

#[test]
fn functions_are_measured_from_fn_to_brace_under_their_path() {
    let source = parse(
        "\
mod m {
    impl fmt::Display for Pool {
        /// Doc.
        #[inline]
        pub fn fmt(
            &self,
        ) {
            g!(fn not_seen() {});
        }
    }
    trait T {
        fn declared();
        fn given() {}
    }
}
",
    );
    let functions: Vec<_> = source.functions.iter().map(|f| (f.line, f.path.as_str(), f.lines)).collect();
    assert_eq!(functions, [(5, "m::Pool::fmt", 5), (13, "m::T::given", 1)]);
}

#[test]
fn tests_are_known_by_their_attributes() {
    let source = parse(
        "\
#[cfg(not(test))]
fn product() {}
#[cfg(all(test, not(loom)))]
fn f() {}
#[cfg(test)]
mod tests {
    #[test]
    fn g() {}
}
#[test]
fn h() {}
",
    );
    let lines: Vec<usize> = (1..=11).filter(|line| source.is_test_line(*line)).collect();
    assert_eq!(lines, [4, 6, 7, 8, 9, 11]);
}

#[test]
fn unsafe_names_and_literals_are_found() {
    let source = parse(
        "\
#![forbid(missing_docs, unsafe_code)]
// unsafe
fn f() { unsafe { g(\"unsafe\") } }
struct S;
macro_rules! m { () => { unsafe {} } }
",
    );
    assert!(source.forbids_unsafe);
    assert_eq!(source.unsafe_lines, [3, 5]);
    assert_eq!(
        source.literals.iter().map(|l| (l.line, l.text.as_str())).collect::<Vec<_>>(),
        [(3, "unsafe")]
    );
    assert_eq!(source.names.iter().map(|n| n.text.as_str()).collect::<Vec<_>>(), ["S"]);
}

#[test]
fn what_is_not_rust_is_refused_with_its_line() {
    for (text, line) in [("fn f() {\n", 1), ("//! A room.\nfn f() -> {}\n", 2)] {
        assert_eq!(Source::parse(text).err().map(|(line, _)| line), Some(line));
    }
}
