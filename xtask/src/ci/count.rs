//! Reading the output of `cargo test`: its closing lines, what failed tests printed, and the parts
//! that nobody reads.

/// Sums over the `test result:` lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) ignored: u64,
    pub(super) measured: u64,
    pub(super) filtered: u64,
}

impl Counts {
    /// Adds what `line` says, where it is a closing line such as `test result: ok. 3 passed; 0
    /// failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
    pub(super) fn read_line(&mut self, line: &str) {
        let Some(result) = line.trim().strip_prefix("test result: ") else { return };
        for part in result.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(n)), Some(what)) = (words.next().map(str::parse::<u64>), words.next()) else {
                continue;
            };
            match what {
                "passed" => self.passed += n,
                "failed" => self.failed += n,
                "ignored" => self.ignored += n,
                "measured" => self.measured += n,
                "filtered" => self.filtered += n,
                _ => {}
            }
        }
    }

    /// Adds other sums.
    pub(super) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.measured += other.measured;
        self.filtered += other.filtered;
    }

    /// How many tests ran.
    pub(super) fn total(&self) -> u64 {
        self.passed + self.failed
    }
}

/// Finds the lists of passed tests' names that `--show-output` prints a second time, after what
/// those tests printed.
#[derive(Default)]
pub(super) struct NameLists {
    headings: u32,
}

impl NameLists {
    /// Returns whether `line`, the next one, belongs to such a list.
    pub(super) fn hides(&mut self, line: &str) -> bool {
        match line.trim_end() {
            "successes:" => self.headings += 1,
            end if end == "failures:" || end.starts_with("test result: ") => self.headings = 0,
            _ => {}
        }
        self.headings >= 2
    }
}

/// Finds what failed tests printed: the sections between the two headings `failures:`.
#[derive(Default)]
pub(super) struct Failures {
    is_within: bool,
    /// True within what passed tests printed, which may look like a heading.
    is_of_passed: bool,
    /// Number of lines of the present test that were kept.
    kept: usize,
    lines: Vec<String>,
}

impl Failures {
    /// Most lines that are kept of one test: the message is at the top, a backtrace beneath.
    const MOST_LINES: usize = 15;

    /// Keeps `line`, the next one, if a failed test printed it.
    pub(super) fn read_line(&mut self, line: &str) {
        let line = line.trim_end();
        if line == "successes:" {
            self.is_of_passed = !self.is_of_passed;
        } else if line == "failures:" && !self.is_of_passed {
            self.is_within = !self.is_within;
        } else if line.starts_with("test result: ") {
            (self.is_of_passed, self.is_within) = (false, false);
        } else if self.is_within && !line.is_empty() {
            self.kept = if line.starts_with("---- ") { 0 } else { self.kept + 1 };
            if self.kept <= Self::MOST_LINES {
                self.lines.push(line.to_owned());
            }
        }
    }

    /// The lines that were kept.
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_tests_printed_is_kept_from_its_top() {
        let mut failures = Failures::default();
        let long: Vec<String> = (0..100).map(|number| format!("  at {number}")).collect();
        let output =
            ["successes:", "---- a stdout ----", "failures:", "no", "successes:", "    a", "failures:", ""]
                .into_iter()
                .chain(["---- b stdout ----", "thread 'b' panicked", ""])
                .chain(long.iter().map(String::as_str))
                .chain(["---- c stdout ----", "too", "failures:", "    b", "    c"])
                .chain(["test result: FAILED. 1 passed; 2 failed", "no"]);
        output.for_each(|line| failures.read_line(&format!("{line}\n")));
        let lines = failures.lines();
        assert_eq!(&lines[..3], ["---- b stdout ----", "thread 'b' panicked", "  at 0"]);
        assert_eq!(&lines[16..], ["---- c stdout ----", "too"]);
    }

    #[test]
    fn closing_lines_are_summed_and_others_are_not() {
        let mut counts = Counts::default();
        for line in [
            "running 3 tests\n",
            "test a ... ok\n",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n",
            "test result: FAILED. 10 passed; 4 failed; 0 ignored; 5 measured; 0 filtered out; finished in 7.20s\n",
            "7 passed; 7 failed\n",
        ] {
            counts.read_line(line);
        }
        assert_eq!(counts, Counts { passed: 13, failed: 4, ignored: 1, measured: 5, filtered: 2 });
        assert_eq!(counts.total(), 17);
    }

    #[test]
    fn only_the_second_list_of_names_is_hidden() {
        let shown = ["test a ... ok", "successes:", "---- a stdout ----", "skipped: no traces"];
        let hidden = ["successes:", "    a", ""];
        let after =
            ["test result: ok. 1 passed; 0 failed", "running 2 tests", "successes:", "failures:", "    b"];
        let mut lists = NameLists::default();
        assert!(!shown.iter().any(|line| lists.hides(line)));
        assert!(hidden.iter().all(|line| lists.hides(line)));
        assert!(!after.iter().any(|line| lists.hides(line)));
    }
}
