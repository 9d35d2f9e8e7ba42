use super::writer::HEADER;
use super::*;

fn watch(path: &std::path::Path) -> Watch {
    Watch { request_log: path.to_owned(), request_log_one_in: 1, ..Watch::default() }
}

fn asked(key: &[u8]) -> Asked<'_> {
    Asked { command: "get", does: KeyEffect::Read, key, value_bytes: None, ttl_secs: None, outcome: "miss" }
}

#[test]
fn every_request_for_a_sampled_key_is_written_and_none_for_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
    let log = Arc::new(RequestLog::new(Clock::manual(5), 1));
    assert!(log.notes(0, "t", ProtocolFamily::Resp).is_none(), "off");
    log.apply(&ledger, &Watch { request_log_one_in: 4, ..watch(&path) }, Files::Reopen).expect("a file");
    for _ in 0..3 {
        let notes = log.notes(0, "a,b", ProtocolFamily::Resp).expect("on");
        for key in 0..400_u32 {
            // One that comes while the buffer is being emptied is dropped.
            let mut dropped = None;
            while dropped != Some(log.figures().1) {
                dropped = Some(log.figures().1);
                notes.note(&asked(&key.to_le_bytes()));
            }
        }
    }
    let dropped = log.figures().1;
    log.stop(&ledger);
    assert_eq!(ledger.total(), 0);
    let text = std::fs::read_to_string(&path).expect("the log");
    let mut counts = std::collections::BTreeMap::new();
    for line in text.lines().skip(1).filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!((fields[0], fields[1], fields[2]), ("5000000", "a%2Cb", "resp"), "{line}");
        *counts.entry(fields[5].to_owned()).or_insert(0) += 1;
    }
    assert!((50..150).contains(&counts.len()), "a quarter of 400: {}", counts.len());
    assert!(counts.values().all(|count| *count == 3));
    assert_eq!(log.figures(), (counts.len() as u64 * 3, dropped));
}

#[test]
fn a_full_buffer_drops_and_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
    let log = Arc::new(RequestLog::new(Clock::System, 1));
    log.apply(&ledger, &watch(&path), Files::Reopen).expect("a file");
    // More than the writer can have taken meanwhile is not certain; while its buffer is held
    // nothing is kept at all.
    let notes = log.notes(0, "t", ProtocolFamily::Memcached).expect("on");
    let held = lock(&log.buffers[0]);
    (0..10).for_each(|_| notes.note(&asked(b"k")));
    drop(held);
    assert_eq!(log.figures().1, 10);
    assert!(log.notes(0, "t", ProtocolFamily::Memcached).is_some());
    log.stop(&ledger);
    let text = std::fs::read_to_string(&path).expect("the log");
    let holes =
        text.lines().filter_map(|line| line.strip_prefix("# ")?.strip_suffix(" requests were dropped"));
    let dropped: u64 = holes.map(|count| count.parse::<u64>().expect("a number")).sum();
    assert_eq!(dropped, 10, "{text}");
}

#[test]
fn settings_that_stay_leave_the_file_alone_and_one_that_cannot_be_written_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
    let log = Arc::new(RequestLog::new(Clock::System, 1));
    log.apply(&ledger, &watch(&path), Files::Reopen).expect("a file");
    let moved = folder.path().join("moved.csv");
    std::fs::rename(&path, &moved).expect("moved");
    log.apply(&ledger, &watch(&path), Files::Keep).expect("nothing to do");
    assert!(!path.exists(), "it goes on with the file that it has");
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    for wrong in [folder.path().join("missing/log.csv"), pipe] {
        let error = log.apply(&ledger, &watch(&wrong), Files::Keep).expect_err("it cannot be written");
        assert!(error.to_string().contains(&wrong.display().to_string()), "{error}");
    }
    log.notes(0, "t", ProtocolFamily::Memcached).expect("still on").note(&asked(b"k"));
    log.stop(&ledger);
    assert!(std::fs::read_to_string(&moved).expect("the log").lines().count() == 3);
    assert_eq!(ledger.total(), 0, "the buffers are gone");
    log.apply(&ledger, &watch(&path), Files::Keep).expect("begun anew");
    assert!(path.exists(), "settings that were stopped are not in force");
    log.stop(&ledger);
}

#[test]
fn a_long_file_is_put_aside_and_a_moved_one_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
    let wanted = Watch {
        request_log_max_bytes: base::ByteSize::new(110),
        request_log_plain_keys: true,
        ..watch(&path)
    };
    let log = Arc::new(RequestLog::new(Clock::System, 1));
    log.apply(&ledger, &wanted, Files::Reopen).expect("a file");
    log.notes(0, "t", ProtocolFamily::Memcached).expect("on").note(&asked(b"user 1"));
    log.apply(&ledger, &wanted, Files::Reopen).expect("the same file");
    let aside = std::fs::read_to_string(folder.path().join("log.csv.1")).expect("put aside");
    assert!(aside.starts_with(HEADER) && aside.contains(",get,get,user%201,6,,,miss,"), "{aside}");
    assert_eq!(std::fs::read_to_string(&path).expect("a new one"), HEADER);
    let moved = folder.path().join("moved.csv");
    std::fs::rename(&path, &moved).expect("moved");
    log.apply(&ledger, &Watch { request_log_max_bytes: base::ByteSize::mib(1), ..wanted }, Files::Reopen)
        .expect("a new file");
    log.notes(0, "t", ProtocolFamily::Memcached).expect("on").note(&asked(b"user 2"));
    log.stop(&ledger);
    assert!(std::fs::read_to_string(&path).expect("a new one").contains("user%202"));
    assert_eq!(std::fs::read_to_string(&moved).expect("it is left"), HEADER);
}

#[test]
fn a_file_says_one_key_in_how_many_it_has_and_which_run_of_the_server_numbered_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
    let said = |rates: &[(u32, bool)]| {
        let log = Arc::new(RequestLog::new(Clock::System, 1));
        for (one_in, is_plain) in rates {
            let wanted = Watch {
                request_log_one_in: *one_in,
                request_log_plain_keys: *is_plain,
                request_log_max_bytes: base::ByteSize::mib(1),
                ..watch(&path)
            };
            log.apply(&ledger, &wanted, Files::Keep).expect("a file");
            let notes = log.notes(0, "t", ProtocolFamily::Memcached).expect("on");
            (0..2_000_u32).for_each(|key| notes.note(&asked(&key.to_le_bytes())));
        }
        log.stop(&ledger);
        let text = std::fs::read_to_string(&path).expect("the log");
        let comments = text.lines().filter_map(|line| line.strip_prefix("# one key in "));
        comments.map(str::to_owned).collect::<Vec<_>>()
    };
    let first = said(&[(100, false), (2, false), (1, true)]);
    let numbering = first[0].strip_prefix("100 from here on, chosen and numbered by ").expect("a rate");
    assert!(first[1].starts_with("2 from here on") && first[1].ends_with(numbering), "{first:?}");
    assert_eq!((first.len(), first[2].as_str()), (3, "1 from here on"));
    let second = said(&[(100, false)]);
    assert_eq!(second.len(), 4);
    assert!(second[3].starts_with("100 ") && !second[3].ends_with(numbering), "another run: {second:?}");
}

#[test]
fn requests_that_a_full_disk_did_not_take_are_told_apart_from_those_that_came_too_fast() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, ledger) = (folder.path().join("log.csv"), Ledger::new(1 << 30));
    let log = Arc::new(RequestLog::new(Clock::System, 1));
    log.apply(&ledger, &watch(std::path::Path::new("/dev/full")), Files::Reopen).expect_err("no header fits");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
    let mut writer = Writer {
        log: Arc::clone(&log),
        path: path.clone(),
        max_bytes: u64::MAX,
        sample: log.sample_line(&watch(&path)),
        is_sample_told: false,
        output: Some(Output::of(full)),
        spare: Vec::with_capacity(BUFFERED),
        untold: 0,
        telling: Seldom::once_in(60),
    };
    *lock(&log.buffers[0]) = Buffer { entries: Vec::with_capacity(BUFFERED), is_plain: false };
    log.highest_hash.store(u64::MAX, Ordering::Relaxed);
    let notes = log.notes(0, "t", ProtocolFamily::Memcached).expect("on");
    // The first turn finds the disk full, the second the log at its end.
    for _ in 0..2 {
        (0..3).for_each(|_| notes.note(&asked(b"k")));
        writer.turn();
    }
    let held = lock(&log.buffers[0]);
    notes.note(&asked(b"k"));
    drop(held);
    writer.turn();
    assert_eq!(log.figures(), (0, 7));
    log.apply(&ledger, &watch(&path), Files::Reopen).expect("there is room again");
    log.stop(&ledger);
    let text = std::fs::read_to_string(&path).expect("the log");
    let comments: Vec<&str> = text.lines().filter(|line| line.starts_with("# ")).skip(1).collect();
    assert_eq!(comments, ["# 7 requests could not be written"], "{text}");
}
