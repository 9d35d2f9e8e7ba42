use super::*;
use crate::source::Source;

fn outline(text: &str) -> Outline {
    Source::parse(text).map(|source| source.outline).unwrap_or_else(|(line, why)| panic!("{line}: {why}"))
}

fn imports(scope: &Scope) -> Vec<(usize, String, Option<&str>, bool)> {
    let imports = scope.imports.iter();
    imports.map(|i| (i.line, i.path.join("::"), i.name.as_deref(), i.is_public)).collect()
}

fn mentions(scope: &Scope) -> Vec<(usize, String)> {
    scope.mentions.iter().map(|mention| (mention.line, mention.path.join("::"))).collect()
}

#[test]
fn use_trees_are_taken_apart_to_their_names() {
    let outline = outline(
        "\
use crate::a::{self, B, c::D as E};
pub(crate) use super::*;
use ::outside::F;
fn f() {
    use self::g::H;
}
",
    );
    assert_eq!(
        imports(&outline.scopes[0]),
        [
            (1, "crate::a".to_owned(), Some("a"), false),
            (1, "crate::a::B".to_owned(), Some("B"), false),
            (1, "crate::a::c::D".to_owned(), Some("E"), false),
            (2, "super".to_owned(), None, true),
            (5, "self::g::H".to_owned(), Some("H"), false),
        ]
    );
}

#[test]
fn paths_are_found_in_types_bodies_and_macro_calls() {
    let outline = outline(
        "\
pub(in crate::hidden) fn f(a: crate::a::A<super::b::B>) -> u8 {
    crate::c::g::<u8>(a);
    ::outside::h();
    println!(\"{}\", [crate::d::D::new(x), single, x.y(self::e::E)])
}
macro_rules! m { ($t:ty) => { $crate::k::K::<$t>::new() }; }
",
    );
    let expected = [
        (1, "crate::a::A"),
        (1, "super::b::B"),
        (2, "crate::c::g"),
        (4, "crate::d::D::new"),
        (4, "self::e::E"),
        (6, "crate::k::K"),
    ];
    assert_eq!(mentions(&outline.scopes[0]), expected.map(|(line, path)| (line, path.to_owned())));
}

#[test]
fn inline_modules_are_scopes_and_tests_are_left_out() {
    let outline = outline(
        "\
mod a;
#[cfg(test)]
mod tests;
mod b {
    mod c {
        struct S;
    }
    mod d;
    use crate::x::X;
}
#[cfg(test)]
use crate::y::Y;
#[test]
fn t() { crate::z::z(); }
#[macro_export]
macro_rules! m { () => {}; }
",
    );
    let paths: Vec<String> = outline.scopes.iter().map(|scope| scope.path.join("::")).collect();
    assert_eq!(paths, ["", "b", "b::c"]);
    assert_eq!(outline.scopes[0].children, ["a"]);
    assert_eq!(outline.scopes[1].children, ["d"]);
    assert_eq!(imports(&outline.scopes[1]), [(9, "crate::x::X".to_owned(), Some("X"), false)]);
    assert!(outline.scopes[2].items.contains("S"));
    assert!(outline.scopes[0].imports.is_empty() && outline.scopes[0].mentions.is_empty());
    assert!(outline.exported_macros.contains("m"));
}
