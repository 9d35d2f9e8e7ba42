//! The repository's own commands: `cargo xtask tidy` checks the house rules that a machine can
//! check, and `cargo xtask ci` runs every check and every test.
//!
//! It is a crate of the workspace rather than a set of scripts, so that the checks are typed,
//! tested and as portable as the code that they check. It depends on little, because it is built
//! before everything else.

#![forbid(unsafe_code)]

mod ci;
mod finding;
mod house;
mod measures;
mod modules;
mod ratchet;
mod repository;
mod source;
mod tidy;
mod tree;
mod vocabulary;

use std::process::ExitCode;

/// A command of `cargo xtask`: its name, its arguments, what it does, and the function that does
/// it.
struct Command {
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    run: fn(&[String]) -> anyhow::Result<bool>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "tidy",
        arguments: "[--tighten | --moved]",
        summary: "check the house rules; --tighten lowers the numbers in xtask/ratchet.toml to what they are now, \
                  --moved moves its counts between crates after code has moved",
        run: tidy::command,
    },
    Command {
        name: "ci",
        arguments: "[STEP...]",
        summary: "run every check and every test, or only the named steps",
        run: ci::command,
    },
    Command {
        name: "house",
        arguments: "[--circles | --edges CRATE | --places MEASURE [ROOM] | --rebuild PATH] [--by file|folder]",
        summary: "measure circles of modules, edges between modules, sizes, and what a change compiles again",
        run: house::command,
    },
    Command { name: "help", arguments: "", summary: "list the commands", run: help },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command that the first argument names; `Ok(false)` says that it ran and found something
/// wrong.
fn dispatch(arguments: &[String]) -> anyhow::Result<bool> {
    let Some((name, rest)) = arguments.split_first() else {
        return help(&[]);
    };
    let name = if matches!(name.as_str(), "-h" | "--help") { "help" } else { name };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        anyhow::bail!("there is no command `{name}`: `cargo xtask help` lists the commands");
    };
    (command.run)(rest)
}

/// Lists the commands and the steps of `ci`.
fn help(_arguments: &[String]) -> anyhow::Result<bool> {
    println!("Usage: cargo xtask COMMAND\n\nCommands:");
    for command in COMMANDS {
        let usage = format!("{} {}", command.name, command.arguments);
        let gap = if usage.len() > 20 { "\n                       " } else { " " };
        println!("  {usage:<20}{gap}{}", command.summary);
    }
    println!("\nSteps of ci, in their order:");
    for step in ci::steps() {
        println!("  {:<20} {}", step.name, step.summary);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_command_is_refused_by_name() {
        let error = dispatch(&["tidi".to_owned()]).expect_err("no such command");
        assert!(error.to_string().contains("`tidi`"), "{error}");
    }

    #[test]
    fn help_runs_with_and_without_its_name() {
        for arguments in [vec![], vec!["help".to_owned()], vec!["--help".to_owned()]] {
            assert!(dispatch(&arguments).expect("help"));
        }
    }
}
