use std::collections::HashSet;

use proptest::prelude::*;
use proptest::strategy::Strategy;

use super::history::{Found, History};
use super::lives::{Lives, Wrong};
use super::record::{Answer, CallKind, Record, Tick};
use super::subject::Touched;
use super::*;

/// A call of a history that is made up: what it is, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Made {
    kind: CallKind,
    /// The version that is written or returned; a get without one finds nothing.
    version: Option<u64>,
    begin: Tick,
    end: Tick,
}

fn set(version: u64, begin: Tick, end: Tick) -> Made {
    Made { kind: CallKind::Set, version: Some(version), begin, end }
}

fn get(version: Option<u64>, begin: Tick, end: Tick) -> Made {
    Made { kind: CallKind::Get, version, begin, end }
}

fn delete(begin: Tick, end: Tick) -> Made {
    Made { kind: CallKind::Delete, version: None, begin, end }
}

/// Tells a history to the rule, in the order of its begins and ends. Versions are numbered as sets
/// begin.
fn judge(history: &[Made]) -> Result<(), Wrong> {
    let mut lives = Lives::default();
    let mut moments: Vec<(Tick, usize, bool)> = Vec::new();
    for (i, call) in history.iter().enumerate() {
        moments.extend([(call.begin, i, true), (call.end, i, false)]);
    }
    moments.sort_unstable();
    let mut under_way: Vec<Tick> = Vec::new();
    for (_, i, begins) in moments {
        let call = history[i];
        let mut record = Record {
            begin: call.begin,
            end: Tick::MAX,
            version: call.version.unwrap_or(0),
            size: 0,
            ttl_secs: 0,
            thread: i as u16,
            kind: call.kind,
            answer: Answer::Open,
        };
        if begins {
            under_way.push(call.begin);
            if call.kind == CallKind::Set {
                lives.begin_set(&mut record);
                assert_eq!(Some(record.version), call.version, "sets are numbered as they begin");
            }
            continue;
        }
        under_way.retain(|begin| *begin != call.begin);
        record.end = call.end;
        record.answer = Answer::Done;
        match (call.kind, call.version) {
            (CallKind::Set, _) => lives.end_set(record, u64::MAX)?,
            (CallKind::Get, Some(_)) => lives.read(record, Some(0))?,
            _ => lives.nothing(record)?,
        }
        lives.forget(under_way.iter().copied().min().unwrap_or(Tick::MAX));
    }
    Ok(())
}

/// Returns whether some legal order explains the history, by trying all: an eviction may come at
/// any time.
fn has_legal_order(history: &[Made]) -> bool {
    let all = (1_u32 << history.len()) - 1;
    let mut visited = HashSet::new();
    let mut stack = vec![(0_u32, None::<u64>)];
    while let Some((done, state)) = stack.pop() {
        if done == all {
            return true;
        }
        if !visited.insert((done, state)) {
            continue;
        }
        stack.push((done, None));
        let pending = |i: &usize| done >> i & 1 == 0;
        let first_end = (0..history.len()).filter(pending).map(|i| history[i].end).min().unwrap_or(Tick::MAX);
        for i in (0..history.len()).filter(pending).filter(|i| history[*i].begin < first_end) {
            let next = match (history[i].kind, history[i].version) {
                (CallKind::Set, version) => version,
                (CallKind::Get, found) if found == state => state,
                (CallKind::Get, _) => continue,
                _ => None,
            };
            stack.push((done | 1 << i, next));
        }
    }
    false
}

#[test]
fn tricky_histories_are_judged_right() {
    let v = Some;
    let cases: &[(&str, &[Made], bool)] = &[
        ("a get during a set may see it", &[set(0, 0, 9), get(v(0), 1, 2)], true),
        ("a get after a set may find nothing", &[set(0, 0, 1), get(None, 2, 3)], true),
        ("an evicted value does not return", &[set(0, 0, 1), get(None, 2, 3), get(v(0), 4, 5)], false),
        (
            "a miss that overlaps the set proves nothing",
            &[set(0, 0, 3), get(None, 1, 4), get(v(0), 5, 6)],
            true,
        ),
        ("an overwritten value does not return", &[set(0, 0, 1), set(1, 2, 3), get(v(0), 4, 5)], false),
        ("of two sets at once either may stay", &[set(0, 0, 5), set(1, 1, 4), get(v(0), 6, 7)], true),
        (
            "but not first one, then the other, then the first",
            &[set(0, 0, 9), set(1, 1, 8), get(v(0), 10, 11), get(v(1), 12, 13), get(v(0), 14, 15)],
            false,
        ),
        (
            "a set that nobody saw the end of counts once it was seen",
            &[set(0, 0, 1), set(1, 2, 19), get(v(1), 3, 4), get(v(0), 5, 6)],
            false,
        ),
        ("a slow get may return what is gone by now", &[set(0, 0, 1), get(v(0), 2, 9), set(1, 3, 4)], true),
        ("a removed value does not return", &[set(0, 0, 1), delete(2, 3), get(v(0), 4, 5)], false),
        ("a removal during the set may come first", &[set(0, 0, 4), delete(1, 3), get(v(0), 5, 6)], true),
        (
            "two versions that were both there before and after each other",
            &[get(v(1), 4, 6), set(0, 0, 5), set(1, 1, 7), get(v(0), 2, 3), get(v(0), 8, 9)],
            false,
        ),
        (
            "what a short get has seen, a long one may see",
            &[set(0, 0, 20), get(v(0), 1, 12), get(v(0), 2, 3), get(None, 13, 14)],
            true,
        ),
    ];
    for (name, history, legal) in cases {
        assert_eq!(has_legal_order(history), *legal, "by trying all orders: {name}");
        assert_eq!(judge(history).is_ok(), *legal, "{name}");
    }
}

/// Histories with distinct moments, in which sets are numbered as they begin and gets return
/// versions that exist.
fn histories() -> impl Strategy<Value = Vec<Made>> {
    let call = (0_u8..8, any::<u64>(), any::<u64>(), 0_usize..8);
    prop::collection::vec(call, 1..9).prop_map(|calls| {
        let mut moments: Vec<(u64, usize)> = Vec::new();
        for (i, (_, a, b, _)) in calls.iter().enumerate() {
            // Short calls and long ones.
            let begin = a % 1_000;
            moments.extend([(begin, i), (begin + 1 + b % (1 << (b % 10)), i)]);
        }
        moments.sort_unstable();
        let mut times = vec![Vec::new(); calls.len()];
        moments.iter().enumerate().for_each(|(at, (_, i))| times[*i].push(at as Tick));
        let mut made: Vec<Made> = Vec::new();
        let sets = calls.iter().filter(|call| call.0 < 3).count();
        for ((kind, _, _, version), time) in calls.iter().zip(times) {
            let version = (sets > 0).then(|| (*version % sets.max(1)) as u64);
            made.push(match kind {
                0..3 => set(0, time[0], time[1]),
                3 => delete(time[0], time[1]),
                4 => get(None, time[0], time[1]),
                _ => get(version, time[0], time[1]),
            });
        }
        made.sort_by_key(|call| call.begin);
        let sets = made.iter_mut().filter(|call| call.kind == CallKind::Set);
        sets.zip(0..).for_each(|(call, version)| call.version = Some(version));
        made
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60_000, ..ProptestConfig::default() })]

    /// The rule finds exactly the histories that no order explains.
    #[test]
    fn the_rule_agrees_with_trying_all_orders(history in histories()) {
        let judged = judge(&history);
        prop_assert_eq!(judged.is_ok(), has_legal_order(&history), "{:?}", judged);
    }
}

#[test]
fn nothing_is_kept_for_longer_than_calls_overlap() {
    let history = History::new(1, 0);
    for round in 0..10_000_u32 {
        let ticket = history.begin(0, CallKind::Set, 0, (100, 0), round);
        let version = ticket.record.version;
        history.end_set(ticket, true, round).expect("legal");
        let ticket = history.begin(0, CallKind::Get, 0, (0, 0), round);
        history.end_get(ticket, Found::Version(version)).expect("legal");
        assert!(history.kept(0) <= 3);
    }
}

#[test]
fn expiry_is_judged_by_the_latest_lifetime_that_can_hold() {
    let history = History::new(1, 0);
    let set = |ttl, at| {
        let ticket = history.begin(0, CallKind::Set, 0, (100, ttl), at);
        let version = ticket.record.version;
        history.end_set(ticket, true, at).expect("legal");
        version
    };
    let get = |version, at| {
        let ticket = history.begin(0, CallKind::Get, 1, (0, 0), at);
        history.end_get(ticket, Found::Version(version))
    };
    let version = set(10, 100);
    get(version, 109).expect("it has not expired");
    let wrong = get(version, 110).expect_err("it expires at the start of second 110");
    assert_eq!(wrong.kind, "expired");

    let version = set(10, 200);
    let touch = history.begin(0, CallKind::Touch, 2, (0, 50), 205);
    get(version, 220).expect("a touch is under way and may have been done");
    history.end_touch(touch, Touched::Done, 205).expect("legal");
    get(version, 254).expect("it was touched");
    assert_eq!(get(version, 255).expect_err("expired").kind, "expired");

    let version = set(0, 300);
    let touch = history.begin(0, CallKind::Touch, 2, (0, 5), 300);
    history.end_touch(touch, Touched::Done, 300).expect("legal");
    get(version, 304).expect("not yet");
    assert_eq!(get(version, 305).expect_err("a lone touch shortens a life").kind, "expired");
}

/// A thread that had no processor for a second, while others wrote the same key a thousand times.
#[test]
fn a_value_that_is_written_late_is_legal_however_many_were_written_meanwhile() {
    let history = History::new(1, 0);
    let set = || {
        let ticket = history.begin(0, CallKind::Set, 0, (100, 0), 0);
        history.end_set(ticket, true, 0).expect("legal");
    };
    let get = |version| {
        let ticket = history.begin(0, CallKind::Get, 1, (0, 0), 0);
        history.end_get(ticket, Found::Version(version))
    };
    set();
    let late = history.begin(0, CallKind::Set, 2, (100, 0), 0);
    (0..2_000).for_each(|_| set());
    get(1).expect("it is written only now");
    get(1).expect("it stays until the next one");
    history.end_set(late, true, 0).expect("legal");
    get(1).expect("it stays until the next one");
    assert_eq!(get(0).expect_err("it was replaced long ago").kind, "stale");
    assert_eq!(get(500).expect_err("it was replaced long ago").kind, "stale");
    set();
    assert_eq!(get(1).expect_err("it was replaced").kind, "stale");
    assert!(history.kept(0) <= 1_025);
}

#[test]
fn every_kind_of_wrong_answer_has_its_name_and_its_proof() {
    let history = History::new(5, 0);
    let set = |key, stored| {
        let ticket = history.begin(key, CallKind::Set, 0, (100, 0), 0);
        history.end_set(ticket, stored, 0).expect("legal");
    };
    let get = |key, found| {
        let ticket = history.begin(key, CallKind::Get, 1, (0, 0), 0);
        history.end_get(ticket, found)
    };
    let kind = |told: Result<(), Box<Violation>>| told.expect_err("a violation");
    set(0, true);
    assert_eq!(kind(get(0, Found::Version(7))).kind, "never-written");
    assert_eq!(kind(get(0, Found::Damaged(40))).kind, "torn");
    assert_eq!(kind(get(0, Found::OtherKey(super::value::Stamp { key: 1, version: 0 }))).kind, "other-key");
    set(0, false);
    assert_eq!(kind(get(0, Found::Version(1))).kind, "stale", "a refused set was returned");

    set(2, true);
    let slow = history.begin(2, CallKind::Get, 2, (0, 0), 0);
    set(2, true);
    history.end_get(slow, Found::Version(0)).expect("it began before v0 was gone");
    let stale = kind(get(2, Found::Version(0)));
    assert_eq!(stale.kind, "stale");
    assert!(stale.what.contains("because after it v1 was written"), "{}", stale.what);
    let shown = stale.calls.join("\n");
    assert!(shown.contains("set v0") && shown.contains(" * ") && shown.contains("=> "), "{shown}");

    set(3, true);
    get(3, Found::Nothing).expect("evicted");
    let delete = history.begin(3, CallKind::Delete, 0, (0, 0), 0);
    assert_eq!(kind(history.end_delete(delete, true)).kind, "nothing-there");
    assert_eq!(kind(get(3, Found::Version(0))).kind, "resurrected");

    set(1, true);
    let slow = history.begin(1, CallKind::Get, 2, (0, 0), 0);
    history.flush(|| Ok::<_, ()>(())).expect("flushed").expect("legal");
    history.end_get(slow, Found::Version(0)).expect("it began before the flush");
    let back = kind(get(1, Found::Version(0)));
    assert_eq!(back.kind, "resurrected");
    assert!(back.what.contains("flushed"), "{}", back.what);
}

fn small() -> CheckSpec {
    CheckSpec { keys: 2_000, memory: ByteSize::mib(16), ..CheckSpec::default() }
}

fn operations(count: u64) -> CheckOptions {
    CheckOptions { length: Length::Operations(count), disturb_every_ms: 2, ..CheckOptions::default() }
}

#[test]
fn the_engine_passes_while_everything_happens_to_it() {
    for (policy, flushes) in [(PolicyKind::S3_FIFO, true), (PolicyKind::LRU, false)] {
        // Touches and flushes are checked apart.
        let touch = if flushes { 0.0 } else { 5.0 };
        let mix = Mix { touch, ..small().mix };
        let (pools, memory) = if flushes { (vec![0.5, 0.3, 0.2], 24) } else { (vec![1.0], 48) };
        let classes = SizeClassConfig::List(vec![256, 2_048, 6_000, 20_000]);
        let memory = ByteSize::mib(memory);
        let spec = CheckSpec { policy, mix, pools, classes, memory, keys: 8_000, ..small() };
        let report = check(&spec, &CheckOptions { flushes, ..operations(400_000) }).expect("a check");
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.disturbances.flushes > 0, flushes, "{report}");
        let done = report.disturbances;
        assert!(report.operations == 400_000 && report.hits > 1_000 && report.held_values > 100, "{report}");
        assert!(done.pool_limits > 0 && done.memory_limits > 0 && done.clock_secs > 0, "{report}");
        assert!(flushes || done.slabs_traded > 0, "{report}");
        assert!(report.evictions.is_some_and(|evictions| evictions > 0), "{report}");
    }
}

#[test]
fn the_engine_keeps_its_word_across_restarts() {
    let parent = std::path::Path::new("/dev/shm");
    let parent = if parent.is_dir() { parent.to_owned() } else { std::env::temp_dir() };
    let folder = parent.join(format!("millpond-check-{}", std::process::id()));
    let mix = Mix { touch: 0.0, ..small().mix };
    let spec = CheckSpec { mix, pools: vec![0.6, 0.4], memory: ByteSize::mib(24), ..small() };
    let options = CheckOptions { restarts: 5, shared: Some(folder.clone()), ..operations(240_000) };
    let report = check(&spec, &options).expect("a check");
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.disturbances.restarts, report.operations), (5, 240_000));
    assert!(!folder.exists(), "the folder is gone afterwards");
    let error = check(&spec, &CheckOptions { restarts: 1, ..operations(1) }).expect_err("no folder");
    assert!(error.to_string().contains("folder in memory"), "{error}");
}

#[test]
fn every_planted_fault_is_found() {
    let found = |kind, wanted: &[&str]| {
        // No evictions: a lost removal shows only while the value is there.
        let spec = CheckSpec { memory: ByteSize::mib(64), ttl_share: 0.5, ..small() };
        let options = CheckOptions { plant: Some((kind, 500)), moves_limits: false, ..operations(2_000_000) };
        let report = check(&spec, &options).expect("a check");
        let [violation] = &report.violations[..] else { panic!("{kind} was not found: {report}") };
        assert!(wanted.contains(&violation.kind), "{kind}: {report}");
        assert!(report.planted.is_some_and(|struck| struck > 0));
        assert!(violation.calls.iter().any(|call| call.starts_with("=> ")), "{report}");
        assert!(!violation.key_text.is_empty());
    };
    found(PlantKind::StaleRead, &["stale", "resurrected"]);
    found(PlantKind::LostRemove, &["resurrected", "nothing-there"]);
    found(PlantKind::LostWrite, &["stale"]);
    found(PlantKind::TornValue, &["torn"]);
    found(PlantKind::OtherKey, &["other-key"]);
    found(PlantKind::LostExpiry, &["expired"]);
}

/// Every preset for a moment, scaled down to 32 MiB.
#[test]
fn every_preset_runs() {
    assert_eq!(PRESETS.len(), 18);
    let names: HashSet<_> = PRESETS.iter().map(|preset| preset.name).collect();
    assert_eq!(names.len(), PRESETS.len(), "names are unique");
    for preset in &PRESETS {
        let mut spec = preset.spec();
        spec.fit_into(ByteSize::mib(32));
        spec.keys = spec.keys.min(20_000);
        let report = check(&spec, &operations(40_000)).expect(preset.name);
        assert!(report.is_clean(), "{report}");
        assert_eq!((report.operations, report.threads), (40_000, preset.spec().threads));
    }
}

/// More threads than have a slot of their own in the engine, with all that an administrator does
/// beside them.
#[test]
fn a_hundred_threads_are_right_while_the_cache_is_administered() {
    let spec = CheckSpec { threads: 100, pools: vec![0.5, 0.5], memory: ByteSize::mib(48), ..small() };
    let options = CheckOptions { administers: true, disturb_every_ms: 1, ..operations(200_000) };
    let report = check(&spec, &options).expect("it runs");
    assert!(report.is_clean(), "{report}");
    assert!(!report.administration.is_empty(), "{report}");
    let options = CheckOptions { target: TargetUrl::Null, ..options };
    assert!(check(&spec, &options).expect_err("not embedded").to_string().contains("administered"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (spec, reason) in [
        (CheckSpec { threads: 0, ..small() }, "threads"),
        (CheckSpec { pools: vec![], ..small() }, "shares"),
        (CheckSpec { pools: vec![0.5, -1.0], ..small() }, "shares"),
        (CheckSpec { keys: 0, ..small() }, "keys"),
        (CheckSpec { ttl_share: 2.0, ..small() }, "lifetime"),
        (CheckSpec { mix: Mix { get: 1.0, lone_get: 1.0, ..Mix::default() }, ..small() }, "lone-get"),
    ] {
        let error = check(&spec, &operations(1)).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
    let options = CheckOptions { target: TargetUrl::Null, ..operations(1) };
    assert!(check(&small(), &options).expect_err("null").to_string().contains("null"));
}
