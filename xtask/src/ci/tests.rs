use super::*;

fn report(name: &'static str, passed: u64, failed: u64, outcome: Outcome) -> Report {
    Report { name, secs: 1.5, counts: Counts { passed, failed, ..Counts::default() }, outcome }
}

fn run() -> Run {
    Run::new(Box::new(std::io::sink()))
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn the_summary_ends_with_the_sums() {
    let reports = [
        report("fmt", 0, 0, Outcome::Passed),
        report("loom", 2, 0, Outcome::Passed),
        report("wire", 0, 0, Outcome::Skipped("no memcached".to_owned())),
        report("test", 40, 0, Outcome::Passed),
    ];
    let text = summarize(&reports, &run(), "", 4.25);
    assert!(text.contains("skipped      1.5s    no memcached"), "{text}");
    assert!(text.contains("\ntest result: ok. 42 passed; 0 failed; 0 ignored;"), "{text}");
    assert!(text.ends_with("finished in 4.25s\n\n42 passed, 0 failed\n"), "{text}");
}

#[test]
fn a_step_that_fails_without_a_failed_test_counts_as_one() {
    let reports = [
        report("clippy", 0, 0, Outcome::Failed("it ended badly".to_owned())),
        report("test", 40, 2, Outcome::Failed("2 tests failed".to_owned())),
    ];
    let text = summarize(&reports, &run(), "", 1.0);
    assert!(text.contains("clippy     FAILED"), "{text}");
    assert!(text.contains("test result: FAILED. 40 passed; 3 failed;"), "{text}");
    assert!(text.ends_with("\n40 passed, 3 failed\n"), "{text}");
}

#[test]
fn tests_are_counted_and_the_verdict_is_theirs() {
    let line = |passed, failed| {
        format!(
            "echo 'test result: ok. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out'"
        )
    };
    let mut run = run();
    assert_eq!(run.execute_tests(shell(&line(3, 0))).expect("it runs"), Outcome::Passed);
    let failed = run.execute_tests(shell(&format!("{}; exit 1", line(4, 2)))).expect("it runs");
    assert_eq!(failed, Outcome::Failed("2 tests failed".to_owned()));
    assert_eq!((run.counts.passed, run.counts.failed), (7, 2));
}

#[test]
fn what_failed_tests_printed_is_repeated_in_the_summary() {
    let mut run = run();
    // The shell makes lines of these, so that this test prints none that looks like a heading.
    let output = r"failures:\n\n---- a stdout ----\nthe reason\n\nfailures:\n    a\n";
    let outcome = run.execute_tests(shell(&format!(
        "printf '{output}'; echo 'test result: FAILED. 0 passed; 1 failed'; exit 1"
    )));
    assert_eq!(outcome.expect("it runs"), Outcome::Failed("1 tests failed".to_owned()));
    let text = summarize(&[], &run, "", 1.0);
    let repeated = "\nwhat failed tests printed:\n  ---- a stdout ----\n  the reason\n\ntest result";
    assert!(text.contains(repeated), "{text}");
}

#[test]
fn what_tests_skip_is_repeated_once_in_the_summary() {
    let mut run = run();
    let line = "echo '  skipped: no traces here'";
    let outcome =
        run.execute_tests(shell(&format!("{line}; {line}; echo 'test result: ok. 1 passed; 0 failed'")));
    assert_eq!(outcome.expect("it runs"), Outcome::Passed);
    let text = summarize(&[], &run, "", 1.0);
    assert!(text.contains("\ntests that did not run in full:\n  no traces here\n\ntest result"), "{text}");
}

#[test]
fn a_run_of_no_tests_has_failed() {
    let outcome = run().execute_tests(shell("echo nothing")).expect("it runs");
    assert_eq!(outcome, Outcome::Failed("no test ran".to_owned()));
}

#[test]
fn a_command_that_ends_badly_has_failed() {
    for outcome in [run().execute(shell("exit 3")), run().execute_tests(shell("exit 3"))] {
        let Outcome::Failed(reason) = outcome.expect("it runs") else { panic!("it must fail") };
        assert!(reason.contains("sh -c exit 3 ended with exit status: 3"), "{reason}");
    }
    assert!(run().execute(Command::new("no-such-program-anywhere")).is_err());
}

#[test]
fn an_unknown_step_is_refused_by_name() {
    let error = command(&["tets".to_owned()]).expect_err("no such step");
    assert!(error.to_string().contains("`tets`"), "{error}");
}

#[test]
fn the_tests_of_the_workspace_come_last_and_names_are_unique() {
    let mut names: Vec<&str> = steps().iter().map(|step| step.name).collect();
    assert_eq!(names.last(), Some(&"test"));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
