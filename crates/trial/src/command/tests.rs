use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use super::attack::AttackArgs;
use super::check::CheckArgs;
use super::soak::SoakArgs;
use super::{attack, check, soak};

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(Box<CheckArgs>),
    Soak(SoakArgs),
    Attack(AttackArgs),
}

fn run(line: &str) -> Result<String> {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    let mut out = Vec::new();
    match Program::try_parse_from(words)?.command {
        Command::Check(args) => check::execute(&args, &mut out)?,
        Command::Soak(args) => soak::execute(&args, &mut out)?,
        Command::Attack(args) => attack::execute(&args, &mut out)?,
    }
    Ok(String::from_utf8(out)?)
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(&run(line).expect(line)).expect("json")
}

fn refusal(line: &str) -> String {
    format!("{:#}", run(line).expect_err(line))
}

#[test]
fn flags_are_consistent() {
    Program::command().debug_assert();
}

/// Every flag says what it does and, where it takes a value, which one it has otherwise.
#[test]
fn help_is_complete() {
    let mut program = Program::command();
    for name in ["check"] {
        let command = program.find_subcommand_mut(name).expect(name);
        let help = command.render_long_help().to_string();
        for arg in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()))
        {
            let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(text.len() > 5, "{name} --{} has no help", arg.get_id());
            let has_default = !arg.get_default_values().is_empty() || text.contains("[default:");
            let takes_value = arg.get_action().takes_values() && !arg.is_required_set();
            let optional = ["operations"].contains(&arg.get_id().as_str());
            assert!(!takes_value || has_default || optional, "{name} --{} tells no default", arg.get_id());
        }
        assert!(help.contains("--"), "{help}");
    }
}

#[test]
fn a_check_reports_what_it_did_and_fails_where_it_finds_something() {
    let flags = "--operations 60000 --keys 500 --threads 3 --pools 2 --mix get=6,set=3,delete=1";
    let report = json(&format!("check {flags} --json"));
    assert_eq!((&report["operations"], &report["violations"]), (&60_000.into(), &serde_json::json!([])));
    let text = run(&format!("check {flags}")).expect("a check");
    for word in ["nothing wrong was found", "memory limits moved", "by 3 threads"] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    let found = refusal(&format!("check {flags} --plant torn-value --plant-every 100"));
    assert!(found.contains("violations found: 1"), "{found}");
    let both = json("check --preset all --operations 300 --keys 3000 --threads 2 --memory 16MiB --json");
    assert_eq!(both.as_array().map(Vec::len), Some(18));
    let list = run("check --list-presets").expect("a list");
    assert!(list.contains("ram-with-deletes") && list.contains("slab-release-moving"), "{list}");
    let unknown = refusal("check --preset rams");
    assert!(unknown.contains("--list-presets"), "{unknown}");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    for (line, reason) in [
        ("attack --only stampede", "half-open"),
        ("attack --rounds 0", "at least one round"),
        ("attack --memory 8MiB", "at least 64MiB"),
        ("check --target null", "stores nothing to check"),
        ("check --target memcached://127.0.0.1:1", "connecting to 127.0.0.1:1"),
        ("check --target redis://127.0.0.1:1", "connecting to 127.0.0.1:1"),
        ("check --plant gremlins", "stale-read"),
        ("check --mix get=1,lone-get=1", "lone-get"),
    ] {
        let error = refusal(line);
        assert!(error.contains(reason), "{line}: {error}");
    }
}
