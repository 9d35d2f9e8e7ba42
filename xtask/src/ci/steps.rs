//! The steps of the run. A new step is a function and one entry in [`steps`].
//!
//! Steps share one target folder, and as few builds as can be: the product and its tests are built
//! once in the development profile, and the loom models once with `--cfg loom`. The tests of the
//! workspace come last, so that their output is the last thing before the summary.

use super::{Outcome, Run, Step, packages};
use crate::repository;

/// All steps, in their order.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step {
            name: "packages",
            summary: "the Debian packages that tests compare with",
            run: packages::install,
        },
        Step { name: "fmt", summary: "the formatting of all code", run: format },
        Step { name: "tidy", summary: "the house rules that a machine can check", run: tidy },
        Step { name: "clippy", summary: "lints, as errors", run: clippy },
        Step {
            name: "doc",
            summary: "the documentation builds, and its links lead somewhere",
            run: document,
        },
        Step {
            name: "telemetry",
            summary: "lints and tests of what is behind the feature `opentelemetry`",
            run: telemetry,
        },
        Step { name: "deny", summary: "licences and sources of all dependencies", run: deny },
        Step { name: "loom", summary: "models of lock-free code, over all interleavings", run: loom },
        Step {
            name: "late",
            summary: "the server's tests over a cache beneath memory that answers late",
            run: late,
        },
        Step { name: "test", summary: "all tests, and the examples of the documentation", run: test },
    ]
}

fn format(run: &mut Run) -> anyhow::Result<Outcome> {
    run.execute(run.cargo(&["fmt", "--all", "--check"]))
}

fn tidy(_run: &mut Run) -> anyhow::Result<Outcome> {
    Ok(if crate::tidy::command(&[])? {
        Outcome::Passed
    } else {
        Outcome::Failed("see its findings".to_owned())
    })
}

fn clippy(run: &mut Run) -> anyhow::Result<Outcome> {
    run.execute(run.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Checks that differ with the feature: lints, the unit tests of the code behind it, and spans of a
/// real server. All of the workspace is named, so that only the crates that have the feature are
/// built once more.
fn telemetry(run: &mut Run) -> anyhow::Result<Outcome> {
    let with_it = |what: &str, arguments: &[&str]| {
        let mut command = run.cargo(&[what, "--workspace", "--features", "millpond-cli/opentelemetry"]);
        command.args(arguments);
        command
    };
    let lints = with_it("clippy", &["--all-targets", "--", "-D", "warnings"]);
    let units = with_it("test", &["--lib", "--no-fail-fast", "telemetry", "--", "--show-output"]);
    let served = with_it("test", &["--test", "telemetry", "--no-fail-fast", "--", "--show-output"]);
    for (command, has_tests) in [(lints, false), (units, true), (served, true)] {
        let outcome = if has_tests { run.execute_tests(command)? } else { run.execute(command)? };
        if outcome != Outcome::Passed {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

/// Holds dependencies against `deny.toml`, but for advisories, whose database is on the network.
fn deny(run: &mut Run) -> anyhow::Result<Outcome> {
    if packages::find_program("cargo-deny").is_none() {
        let by_hand = "missing; install with: cargo install cargo-deny --locked".to_owned();
        println!("{by_hand}");
        return Ok(Outcome::Skipped(by_hand));
    }
    run.execute(run.cargo(&["deny", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]))
}

/// Builds the documentation twice: with private items, so that their links are checked too, and
/// then as users see it, where a public page must not link to what is private.
fn document(run: &mut Run) -> anyhow::Result<Outcome> {
    let build = |arguments: &[&str]| {
        let mut command = run.cargo(&["doc", "--workspace", "--no-deps"]);
        command.args(arguments).env("RUSTDOCFLAGS", "-D warnings");
        run.execute(command)
    };
    Ok(match build(&["--document-private-items"])? {
        Outcome::Passed => build(&[])?,
        failed => failed,
    })
}

/// Runs the tests named `loom_*` of each crate that has some, optimised, as they visit many
/// thousands of interleavings.
fn loom(run: &mut Run) -> anyhow::Result<Outcome> {
    let crates = crates_with_models(run)?;
    if crates.is_empty() {
        return Ok(Outcome::Skipped("no crate has a test named `loom_*`".to_owned()));
    }
    let mut arguments = vec!["test", "--release", "--lib", "--no-fail-fast"];
    for name in &crates {
        arguments.extend(["--package", name]);
    }
    arguments.extend(["loom_", "--", "--show-output"]);
    let mut command = run.cargo(&arguments);
    // Linking the tests once more as the product is linked would take most of the step's time.
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_PROFILE_RELEASE_LTO", "off");
    run.execute_tests(command)
}

/// Runs the server's tests once more, with what it stores evicted at once to a cache that answers
/// late.
fn late(run: &mut Run) -> anyhow::Result<Outcome> {
    let mut command =
        run.cargo(&["test", "--package", "millpond-server", "--no-fail-fast", "--", "--show-output"]);
    command.env("MILLPOND_LATE", "1");
    run.execute_tests(command)
}

/// The packages whose sources name a loom model.
fn crates_with_models(run: &Run) -> anyhow::Result<Vec<String>> {
    let mut crates = Vec::new();
    for path in repository::files(&run.root)? {
        let Some((folder, _)) = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/")) else {
            continue;
        };
        let package = if folder == "millpond" { folder.to_owned() } else { format!("millpond-{folder}") };
        if !crates.contains(&package)
            && path.ends_with(".rs")
            && std::fs::read_to_string(run.root.join(&path)).is_ok_and(|text| text.contains("fn loom_"))
        {
            crates.push(package);
        }
    }
    Ok(crates)
}

fn test(run: &mut Run) -> anyhow::Result<Outcome> {
    run.execute_tests(run.cargo(&["test", "--workspace", "--no-fail-fast", "--", "--show-output"]))
}
