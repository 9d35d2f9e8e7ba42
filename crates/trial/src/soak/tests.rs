use base::ByteSize;

use super::calls::now;
use super::copies::Copies;
use super::samples::{Flatness, Sample};
use super::settings::Settings;
use super::tenants::{Book, Holding, Tenant, write_key};
use crate::check::history::{Found, History};
use crate::check::record::CallKind;
use crate::check::value::Values;

const KEYS: u64 = 64;

fn set(history: &History, key: u64) -> u64 {
    let ticket = history.begin(key, CallKind::Set, 0, (100, 0), now());
    let version = ticket.record.version;
    history.end_set(ticket, true, now()).expect("a set is right");
    version
}

fn read(history: &History, key: u64, found: Found) -> Result<(), String> {
    let ticket = history.begin(key, CallKind::Get, 1, (0, 0), now());
    history.end_get(ticket, found).map_err(|violation| violation.kind.to_owned())
}

/// A set whose connection ends before its answer comes, as in a restart. The version.
fn lose(history: &History, key: u64) -> u64 {
    let ticket = history.begin(key, CallKind::Set, 2, (100, 0), now());
    let version = ticket.record.version;
    history.end_unknown(ticket);
    version
}

#[test]
fn what_nobody_answered_has_happened_or_not() {
    for happened in [false, true] {
        let history = History::new(KEYS, 0);
        let before = set(&history, 1);
        let lost = lose(&history, 1);
        let seen = if happened { lost } else { before };
        read(&history, 1, Found::Version(seen)).expect("either is right");
        read(&history, 1, Found::Version(seen)).expect("and stays right");
        // It happened before its end was seen or never, and not some time later.
        let other = if happened { before } else { lost };
        assert!(read(&history, 1, Found::Version(other)).is_err(), "happened: {happened}");
    }
}

#[test]
fn what_was_lost_and_then_overwritten_does_not_return() {
    let history = History::new(KEYS, 0);
    let lost = lose(&history, 1);
    let after = set(&history, 1);
    read(&history, 1, Found::Version(after)).expect("the newer one is right");
    assert_eq!(read(&history, 1, Found::Version(lost)), Err("stale".into()));
    // Nor once nothing was found.
    let lost = lose(&history, 2);
    read(&history, 2, Found::Nothing).expect("a miss is right");
    assert!(read(&history, 2, Found::Version(lost)).is_err());
}

#[test]
fn an_old_value_that_a_restart_brings_back_is_found() {
    let history = History::new(KEYS, 0);
    let old = set(&history, 1);
    let newer = set(&history, 1);
    // Of what was under way when the server ended nothing is known.
    lose(&history, 1);
    let delete = history.begin(1, CallKind::Delete, 0, (0, 0), now());
    history.end_unknown(delete);
    read(&history, 1, Found::Version(newer)).expect("what was acknowledged is right");
    assert_eq!(read(&history, 1, Found::Version(old)), Err("stale".into()));
    read(&history, 1, Found::Nothing).expect("a cache may lose anything");
    assert!(read(&history, 1, Found::Version(newer)).is_err(), "but not have it again");
}

#[test]
fn what_a_tenant_held_before_it_was_removed_does_not_return() {
    let history = History::new(KEYS, 0);
    let before = set(&history, 3);
    history.flush(|| Ok::<(), ()>(())).expect("nothing fails").expect("a flush is right");
    assert_eq!(read(&history, 3, Found::Version(before)), Err("resurrected".into()));
}

#[test]
fn a_value_of_another_tenant_is_found() {
    let (shop, blog) = (Book::new(Tenant::Shop, KEYS), Book::new(Tenant::Blog, KEYS));
    let version = set(&blog.history, 5);
    assert_eq!(version, set(&shop.history, 5), "the number says nothing");
    let mut values = Values::new();
    let value = values.make(blog.stamp(5, version), 100).to_vec();
    assert_eq!(blog.what_is(&value, 5), Found::Version(version));
    let found = shop.what_is(&value, 5);
    assert!(matches!(found, Found::OtherKey(_)), "{found:?}");
    let ticket = shop.history.begin(5, CallKind::Get, 0, (0, 0), now());
    let violation = shop.history.end_get(ticket, found).expect_err("a violation");
    let violation = shop.name(*violation, Some(found));
    assert_eq!(violation.kind, "other-key");
    assert!(violation.what.ends_with("of blog"), "{}", violation.what);
    assert!(violation.key_text.ends_with("of shop"), "{}", violation.key_text);
    assert_eq!(shop.what_is(&value[..60], 5), Found::Damaged(60));
}

#[test]
fn a_copy_that_nobody_told_to_forget_is_found() {
    let judge = |told: bool, changed_before: bool| {
        let history = History::new(KEYS, 0);
        let mut copies = Copies::default();
        let version = set(&history, 7);
        read(&history, 7, Found::Version(version)).expect("right");
        copies.keep(7, version);
        if changed_before {
            set(&history, 7);
        }
        if told {
            copies.forget(7, &history);
        }
        copies.begin_audit(7, 0, 10, &history);
        if !changed_before {
            set(&history, 7);
        }
        let mut wrong = Vec::new();
        assert_eq!(copies.end_audits(9, &history, |violation| wrong.push(violation.kind)), 0, "not yet due");
        copies.end_audits(10, &history, |violation| wrong.push(violation.kind));
        wrong
    };
    assert_eq!(judge(false, true), ["stale"]);
    assert!(judge(true, true).is_empty(), "what was forgotten is not judged");
    // What changes while it is held may be told later.
    assert!(judge(false, false).is_empty());
}

#[test]
fn copies_are_forgotten_one_by_one_and_all_at_once() {
    let history = History::new(KEYS, 0);
    let mut copies = Copies::default();
    for key in 0..4 {
        copies.keep(key, set(&history, key));
        copies.begin_audit(key, 0, 10, &history);
    }
    copies.forget(2, &history);
    assert_eq!((copies.get(1), copies.get(2)), (Some(0), None));
    assert!(copies.is_due(10) && !copies.is_due(9));
    copies.forget_all(&history);
    assert!(!copies.is_due(10));
    assert_eq!(copies.get(1), None);
}

#[test]
fn keys_have_the_kind_that_is_wanted() {
    let mut text = Vec::new();
    for key in 0..200 {
        for (holding, letters) in [(Holding::Strings, &b"s"[..]), (Holding::Collections, b"hlez")] {
            let near = holding.near(key);
            assert_eq!(near / 8, key / 8);
            write_key(near, &mut text);
            assert!(letters.contains(&text[0]), "{}", text.escape_ascii());
            assert!((8..=57).contains(&text.len()));
        }
    }
}

#[test]
fn every_configuration_is_one_that_can_be_read() {
    let mut settings = Settings::new(ByteSize::mib(128), "/dev/shm/x".into(), "c.pem".into(), "k.pem".into());
    let mut rng = base::rng::seeded(3);
    for round in 0..50 {
        settings.guest = round % 2 == 0;
        settings.bob_may_write = round % 3 == 0;
        settings.change_tenant(&mut rng);
        settings.change_pool(&mut rng);
        settings.move_memory(&mut rng);
        let table: toml::Table = settings.text().parse().expect("TOML");
        let tenants = table["tenant"].as_array().expect("tenants").len();
        assert_eq!(tenants, if settings.guest { 3 } else { 2 });
    }
}

fn sample(at: u32, life: u64, age: u32, kib: f64) -> Sample {
    Sample {
        at_secs: f64::from(at),
        life,
        age_secs: f64::from(age),
        resident_bytes: (kib * 1024.0) as u64,
        shared_bytes: 0,
        open_files: 0,
        threads: 0,
        connections: 0,
        operations_per_sec: 0.0,
        p99_us: 0.0,
    }
}

/// Samples every ten seconds of processes that live for half an hour each, for four hours.
fn hours(kib: impl Fn(u32, u32) -> f64) -> Flatness {
    let samples: Vec<Sample> = (0..1_440)
        .map(|number| (number * 10, number / 180, number % 180 * 10))
        .map(|(at, life, age)| sample(at, u64::from(life), age, kib(at, age)))
        .collect();
    Flatness::of(&samples)
}

#[test]
fn growth_is_told_from_warming_up_and_from_noise() {
    let noise = |at: u32| f64::from(at.wrapping_mul(2_654_435_761) % 1_000);
    let warming = |age: u32| 20_000.0 + f64::from(age.min(60)) * 200.0;
    let flat = hours(|at, age| warming(age) + noise(at));
    assert_eq!(flat.is_flat, Some(true), "{flat:?}");
    assert!(flat.slope_bytes_per_hour.abs() < 300.0 * 1024.0, "{flat:?}");
    // Within each process: 16 MiB in half an hour.
    let leak = hours(|at, age| warming(age) + noise(at) + f64::from(age) * 16_384.0 / 1_800.0);
    assert_eq!(leak.is_flat, Some(false), "{leak:?}");
    assert!((leak.slope_bytes_per_hour / 1024.0 / 1024.0 - 32.0).abs() < 1.0, "{leak:?}");
    // From one process to the next, as of what lies in shared memory.
    let creeps = hours(|at, age| warming(age) + noise(at) + f64::from(at));
    assert_eq!(creeps.is_flat, Some(false), "{creeps:?}");
    assert_eq!(Flatness::of(&[sample(0, 0, 0, 1.0)]).is_flat, None);
    assert_eq!(Flatness::of(&[]).is_flat, None);
}

#[test]
fn what_nobody_answered_is_forgotten_in_time() {
    let history = History::new(KEYS, 0);
    for _ in 0..10_000 {
        lose(&history, 1);
        set(&history, 1);
    }
    assert!(history.kept(1) < 4, "{} versions are kept", history.kept(1));
}
