//! The example file and the table in `docs/configuration.md` agree with the settings' declarations.
//!
//! `MILLPOND_BLESS=1 cargo test -p millpond-config --test documented` writes both anew.

use std::fmt::Write as _;
use std::path::PathBuf;

use millpond_config::{Config, keys, render};

/// The line of the page above the table.
const HEAD: &str = "## Settings\n";

fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative)
}

fn assert_written(relative: &str, expected: &str) {
    let path = path(relative);
    if std::env::var_os("MILLPOND_BLESS").is_some() {
        std::fs::write(&path, expected).expect("the file can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{relative} differs from the declarations of settings; write it anew: \
         MILLPOND_BLESS=1 cargo test -p millpond-config --test documented"
    );
}

/// `text` with links to the pages that it names, as `docs/tenants.md#memory`.
fn linked(text: &str) -> String {
    let mut parts = text.split("docs/");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && !"-.#".contains(c)).unwrap_or(part.len());
        let (target, rest) = part.split_at(end);
        let page = target.split('#').next().unwrap_or_default();
        let _ = write!(linked, "[{page}]({target}){rest}");
    }
    linked
}

#[test]
fn the_example_file_is_what_the_declarations_make() {
    assert_written("config/millpond.toml", &render(&Config::default()).expect("printable"));
}

#[test]
fn the_table_of_settings_is_what_the_declarations_make() {
    let page = std::fs::read_to_string(path("docs/configuration.md")).expect("the page");
    let (above, _) = page.split_once(HEAD).expect("the page has a table of settings");
    let mut text = format!("{above}{HEAD}");
    text.push_str("| setting | applies | default | |\n|---|---|---|---|\n");
    for key in keys::all() {
        let mark = if key.online { "online" } else { "restart" };
        let _ = writeln!(text, "| `{}` | {mark} | `{}` | {} |", key.path, key.default(), linked(&key.help()));
    }
    assert_written("docs/configuration.md", &text);
}
