//! Comments in the request log of a server: how it was sampled, where it goes on after a restart,
//! and what is missing in it (`docs/formats/traces.md`, "Requests of a server").

use super::csv::parse_u64;

/// The marks in the request log of a server, up to the line that was read last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogMarks {
    /// Requests that are missing as they came faster than the server wrote them.
    pub dropped: u64,
    /// Requests that are missing as the file could not be written, such as on a full disk.
    pub unwritten: u64,
    /// The log has the requests for one key in this many. `None`: it does not say.
    pub one_in: Option<u64>,
    /// Number of changes of the rate within the log.
    pub changes_of_rate: u64,
    /// Number of times that the keys of the sample, or their numbers, became others: a key that was
    /// asked for before and after counts as two.
    pub restarts: u64,
    /// By what the keys are chosen and numbered now.
    numbering: Option<Box<[u8]>>,
}

impl LogMarks {
    /// Reads a line. Returns false if the line isn't a comment.
    pub(super) fn take(&mut self, line: &[u8]) -> bool {
        let Some(comment) = line.strip_prefix(b"# ") else { return false };
        let count = |suffix: &[u8]| comment.strip_suffix(suffix).and_then(parse_u64);
        if let Some(count) = count(b" requests were dropped") {
            self.dropped = self.dropped.saturating_add(count);
        } else if let Some(count) = count(b" requests could not be written") {
            self.unwritten = self.unwritten.saturating_add(count);
        } else if let Some(sample) = comment.strip_prefix(b"one key in ") {
            self.take_sample(sample);
        }
        // Unknown comments, which a later server may write, aren't requests either.
        true
    }

    /// Takes in `N from here on`, and perhaps `, chosen and numbered by NUMBERING`.
    fn take_sample(&mut self, sample: &[u8]) {
        let digits = sample.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (one_in, rest) = sample.split_at(digits);
        let Some(one_in) = parse_u64(one_in).filter(|one_in| *one_in > 0) else { return };
        self.changes_of_rate += u64::from(self.one_in.is_some_and(|before| before != one_in));
        self.one_in = Some(one_in);
        let numbering = rest.strip_prefix(b" from here on, chosen and numbered by ").unwrap_or_default();
        self.restarts += u64::from(self.numbering.as_deref().is_some_and(|before| before != numbering));
        if self.numbering.as_deref() != Some(numbering) {
            self.numbering = Some(numbering.into());
        }
    }

    /// Returns warnings about results from this log, as sentences.
    pub(super) fn warnings(&self) -> Vec<String> {
        let Self { dropped, unwritten, one_in, changes_of_rate, restarts, .. } = self;
        let mut warnings = Vec::new();
        if *dropped > 0 {
            warnings.push(format!(
                "{dropped} requests are missing, as the server that wrote this log dropped them; the others are \
                 not a fair sample (raise watch.request_log_one_in there)"
            ));
        }
        if *unwritten > 0 {
            warnings.push(format!(
                "{unwritten} requests are missing, as the server could not write them (such as on a full disk); the others \
                 are not a fair sample"
            ));
        }
        if *restarts > 0 {
            warnings.push(format!(
                "the log goes on over {restarts} starts of the server, and keys before and after one are different \
                 keys here; cut it at the lines that begin with `# one key in`"
            ));
        }
        match one_in {
            Some(one_in) if *changes_of_rate > 0 => warnings.push(format!(
                "the log has one key in {one_in} at its end, and other samples before; cut it at the lines that begin \
                 with `# one key in`"
            )),
            Some(one_in) if *one_in > 1 => warnings.push(format!(
                "the log has the requests for one key in {one_in}; memory read from it is for these keys alone, and \
                 for all keys {one_in} times as much"
            )),
            _ => {}
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]

    use std::io::Cursor;

    use super::*;
    use crate::trace::{TraceOptions, TraceReader};

    const HEADER: &str = "ts,tenant,protocol,command,op,key,key_size,size,ttl,outcome,latency_us\n";
    const ROW: &str = "5,a,resp,get,get,7,1,,,miss,1.0\n";

    /// The marks of a log with these lines, each before a request.
    fn marks(lines: &[&str]) -> (u64, LogMarks) {
        let text: String = lines.iter().map(|line| format!("{line}\n{ROW}")).collect();
        let source = Cursor::new(HEADER.to_owned() + &text);
        let mut reader =
            TraceReader::from_source("log.csv", Box::new(source), &TraceOptions::default()).unwrap();
        let mut requests = 0;
        while reader.next_request().unwrap().is_some() {
            requests += 1;
        }
        (requests, reader.marks().unwrap().clone())
    }

    #[test]
    fn a_log_tells_its_sample_and_its_holes() {
        let (requests, log) = marks(&[
            "# one key in 100 from here on, chosen and numbered by 0a1b",
            "# 12 requests were dropped",
            "# 7 requests could not be written",
            "# 3 requests were dropped",
            "# what a later server has to say",
        ]);
        assert_eq!((requests, log.dropped, log.unwritten, log.one_in), (5, 15, 7, Some(100)));
        assert_eq!((log.changes_of_rate, log.restarts), (0, 0));
        let warnings = log.warnings();
        for (warning, part) in warnings.iter().zip([
            "15 requests",
            "7 requests are missing, as the server could not",
            "100 times",
        ]) {
            assert!(warning.contains(part), "{warning}");
        }
        assert_eq!(warnings.len(), 3, "{warnings:?}");
    }

    #[test]
    fn a_restart_or_another_rate_within_a_log_is_warned_of() {
        let first = "# one key in 1 from here on, chosen and numbered by 0a1b";
        let (_, log) = marks(&[first, first]);
        assert_eq!((log.restarts, log.warnings()), (0, vec![]), "the file was opened anew");
        let (_, log) = marks(&[first, "# one key in 1 from here on, chosen and numbered by ffff"]);
        assert_eq!(log.restarts, 1);
        assert!(log.warnings()[0].contains("1 starts"), "{log:?}");
        let (_, log) = marks(&[first, "# one key in 10 from here on, chosen and numbered by 0a1b"]);
        assert_eq!((log.restarts, log.changes_of_rate, log.one_in), (0, 1, Some(10)));
        assert!(log.warnings()[0].contains("one key in 10 at its end"), "{log:?}");
        let (_, log) = marks(&["# one key in 1 from here on", "# one key in 1 from here on"]);
        assert_eq!((log.restarts, log.warnings()), (0, vec![]), "keys are named, and all are there");
    }
}
