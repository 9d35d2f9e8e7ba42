//! A writer of lines that never waits.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written.
const WAITING: usize = 1_024;

/// Lines that were dropped since the start of the process, which has one log.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Returns how many log lines were dropped because standard error took no more.
pub fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

enum Message {
    Line(Vec<u8>),
    /// A request to write everything before it, and then to answer here.
    Flush(SyncSender<()>),
}

/// The side of the threads that log.
#[derive(Clone)]
pub struct LossyLines(Option<SyncSender<Message>>);

impl LossyLines {
    /// Starts the thread that writes to `out`. If no thread can be started, nothing is logged.
    pub fn start(out: impl Write + Send + 'static) -> Self {
        let (lines, waiting) = sync_channel(WAITING);
        let thread = base::thread::spawn("log", move || write_all(out, &waiting));
        Self(thread.is_ok().then_some(lines))
    }

    fn send(&self, line: Vec<u8>) {
        let Some(lines) = &self.0 else { return };
        if let Err(TrySendError::Full(_)) = lines.try_send(Message::Line(line)) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the lines so far are written, or for as long.
    pub(super) fn flush(&self, patience: Duration) {
        let Some(lines) = &self.0 else { return };
        let (done, is_done) = sync_channel(1);
        if lines.try_send(Message::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(patience);
        }
    }
}

/// Writes the lines that arrive, and between two lines how many are missing there.
fn write_all(mut out: impl Write, waiting: &Receiver<Message>) {
    let mut told = dropped_lines();
    for message in waiting {
        match message {
            // A line that cannot be written is not a reason to stop.
            Message::Line(line) => drop(out.write_all(&line)),
            Message::Flush(done) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
        let dropped = dropped_lines();
        if dropped > told {
            let _ = writeln!(out, "({} log lines were dropped: standard error was not read)", dropped - told);
            told = dropped;
        }
    }
}

/// Puts a line together, and sends it when it is dropped.
pub struct Line<'a> {
    bytes: Vec<u8>,
    lines: &'a LossyLines,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.lines.send(std::mem::take(&mut self.bytes));
        }
    }
}

impl<'a> MakeWriter<'a> for LossyLines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { bytes: Vec::new(), lines: self }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// An output that takes nothing while it is locked.
    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Vec<u8>>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("a lock").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn logging_into_a_pipe_that_nobody_reads_drops_and_counts_lines_and_waits_for_nothing() {
        let pipe = Pipe::default();
        let lines = LossyLines::start(pipe.clone());
        let log = |text: String| writeln!(lines.make_writer(), "{text}").expect("a line");
        log("first".to_owned());
        lines.flush(Duration::from_secs(20));
        let before = dropped_lines();
        let full = pipe.0.lock().expect("a lock");
        // Were it to wait, it would for ever.
        (0..3 * WAITING).for_each(|number| log(format!("line {number}")));
        let dropped = dropped_lines() - before;
        assert!(dropped >= 2 * WAITING as u64 - 1, "{dropped} were dropped");
        drop(full);
        wait_for(&pipe, "lines were dropped");
        log("last".to_owned());
        wait_for(&pipe, "last\n");
        let text = String::from_utf8(pipe.0.lock().expect("a lock").clone()).expect("text");
        assert!(text.starts_with("first\n") && text.contains("line 0\n"), "{text}");
        // The writer may have counted before the last of them were dropped, and then reports
        // those apart.
        let told =
            text.lines().filter_map(|line| line.strip_prefix('(')?.split_once(" log lines were dropped"));
        let told: u64 = told.map(|(count, _)| count.parse::<u64>().expect("a number")).sum();
        assert_eq!(told, dropped, "{text}");
    }

    fn wait_for(pipe: &Pipe, wanted: &str) {
        for _ in 0..2_000 {
            if String::from_utf8_lossy(&pipe.0.lock().expect("a lock")).contains(wanted) {
                return;
            }
            base::thread::sleep(Duration::from_millis(10));
        }
        panic!("{wanted} did not come");
    }
}
