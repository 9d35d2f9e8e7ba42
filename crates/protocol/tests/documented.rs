//! The documents of commands outside of the table agree with the table: `docs/resp-commands.md` and
//! the fuzzer's dictionary are generated from its rows.
//!
//! `MILLPOND_BLESS=1 cargo test -p millpond-protocol --test documented` writes them anew.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use millpond_protocol::resp::commands::{Category, Cost, Isolation, SPECS, Spec, number};

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
        "{relative} differs from the table of commands; write it anew: \
         MILLPOND_BLESS=1 cargo test -p millpond-protocol --test documented"
    );
}

const HEAD: &str = "\
# Redis commands

Every command that the server has for Redis clients, as the table in `crates/protocol` knows it: this
page is made from its rows. [resp.md](resp.md) says how the commands differ from Redis 7.0.

- **Arguments**: their number, the command's name among them; `≥` if there may be more.
- **Access**: what a user must be allowed for the command's keys, in Redis's words: `RO` reads, `RW`
  reads and writes, `OW` overwrites, `RM` removes; `-`: the command has no keys.
- **Isolation**: *one key*: the command sees and changes one key at a time; *several, whole*: with
  several keys, it sees and is seen as a whole; *alone*: no other command of the tenant is executed
  meanwhile.
- **Slow by**: what decides whether a request counts as slow, which yields to others, besides the number
  of its arguments.
";

fn access(spec: &Spec) -> String {
    let words = spec.keys.iter().filter_map(|keys| keys.flags.split(' ').next());
    let unique: BTreeSet<&str> = words.collect();
    let of_subcommands = spec.subcommands.iter().any(|sub| sub.has_key).then_some("RO");
    let all: Vec<&str> = unique.into_iter().chain(of_subcommands).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(", ") }
}

const fn isolation(spec: &Spec) -> &'static str {
    match spec.isolation {
        Isolation::Shared => "one key",
        Isolation::ReadsSeveral | Isolation::WritesSeveral => "several, whole",
        Isolation::Exclusive => "alone",
    }
}

const fn slow_by(spec: &Spec) -> &'static str {
    match spec.cost {
        Cost::Arguments | Cost::Report => "-",
        Cost::Collections(_) => "bytes of collections",
        Cost::Strings => "bytes of strings",
        Cost::Pairs => "product of lengths",
        Cost::Queued => "queued commands",
    }
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    let groups: BTreeSet<&str> = SPECS.iter().map(|spec| spec.group.name).collect();
    for group in groups {
        let _ = write!(text, "\n## {group}\n\n");
        text.push_str("| command | since | arguments | access | isolation | slow by | summary |\n");
        text.push_str("|---|---|---|---|---|---|---|\n");
        for spec in SPECS.iter().filter(|spec| spec.group.name == group) {
            let least = if spec.arity < 0 { "≥ " } else { "" };
            let subs: Vec<String> =
                spec.subcommands.iter().map(|sub| format!("`{}`", sub.name.to_uppercase())).collect();
            let subs =
                if subs.is_empty() { String::new() } else { format!(" Subcommands: {}.", subs.join(" ")) };
            let _ = writeln!(
                text,
                "| `{}` | {} | {least}{} | {} | {} | {} | {}{subs} |",
                spec.name.to_uppercase(),
                spec.since,
                spec.arity.unsigned_abs(),
                access(spec),
                isolation(spec),
                slow_by(spec),
                spec.summary,
            );
        }
    }
    text.push_str("\n## Subcommands\n\nAs `HELP` of each command lists them.\n\n");
    text.push_str("| subcommand | since | summary |\n|---|---|---|\n");
    for spec in &SPECS {
        for sub in spec.subcommands {
            let name = format!("{} {}", spec.name, sub.name).to_uppercase();
            let line = format!("{name} {}", sub.arguments).replace('|', r"\|");
            let _ = writeln!(text, "| `{}` | {} | {} |", line.trim_end(), sub.since, sub.summary);
        }
    }
    text.push_str("\n## Categories\n\n");
    text.push_str("Names that the rules of users have for many commands at once, as in `+@read`.\n\n");
    text.push_str("| category | commands |\n|---|---|\n");
    for category in Category::ALL {
        let named = SPECS.iter().filter(|spec| spec.categories.has(category));
        let names: Vec<String> = named.map(|spec| format!("`{}`", spec.name.to_uppercase())).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(" ") };
        let _ = writeln!(text, "| `@{}` | {names} |", category.name());
    }
    text
}

fn dictionary() -> String {
    let mut text = "# Commands and subcommands of RESP, made from the table in crates/protocol.\n".to_owned();
    let names = SPECS.iter().map(|spec| spec.name);
    let subs = SPECS.iter().flat_map(|spec| spec.subcommands).map(|sub| sub.name);
    for name in names.chain(subs).collect::<BTreeSet<_>>() {
        let _ = writeln!(text, "\"{name}\"");
    }
    for frame in
        [r"*1\x0d\x0a", r"*2\x0d\x0a", r"*3\x0d\x0a", r"$-1\x0d\x0a", r"$0\x0d\x0a\x0d\x0a", r"\x0d\x0a"]
    {
        let _ = writeln!(text, "\"{frame}\"");
    }
    text
}

#[test]
fn the_page_of_commands_is_what_the_rows_make() {
    assert_written("docs/resp-commands.md", &page());
}

#[test]
fn the_dictionary_of_the_fuzzer_is_what_the_rows_make() {
    assert_written("fuzz/resp.dict", &dictionary());
}

#[test]
fn a_command_is_found_by_its_number() {
    assert_eq!(SPECS[number("zadd")].name, "zadd");
}

#[test]
fn a_subcommand_is_described_as_it_is_checked() {
    for (spec, sub) in SPECS.iter().flat_map(|spec| spec.subcommands.iter().map(move |sub| (spec, sub))) {
        let name = format!("{} {}", spec.name, sub.name);
        assert!(sub.summary.ends_with('.'), "{name} says what it does, in a sentence");
        assert!(sub.since.split('.').count() == 3, "{name}: {}", sub.since);
        assert_eq!(sub.arguments.is_empty(), sub.most == 0, "{name} takes arguments if it says so");
        let is_optional = sub.arguments.is_empty() || sub.arguments.starts_with('[');
        assert_eq!(is_optional, sub.least == 0, "{name}: {}", sub.arguments);
    }
}
