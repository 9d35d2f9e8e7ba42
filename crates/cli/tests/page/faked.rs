//! The page with figures that a test makes up: those that real processes hardly have, or only after
//! a long time.

use std::path::Path;

use serde_json::{Value, json};
use trial::served::Served;

use super::browser::Browser;
use super::{MILLPOND, Orchestrator, TENANT_ROWS, browser, rounds};

const MIB: u64 = 1 << 20;
const VIEW: &str = "document.querySelector('#view').innerText";

/// The figures of a fleet of one machine: its pools, each with a curve, and its decisions.
fn fleet(pools: &[(&str, u64)], decisions: &Value) -> Value {
    let pool = |&(name, bytes): &(&str, u64)| {
        json!({
            "name": name, "used_bytes": bytes, "granted_bytes": bytes, "floor_bytes": 0, "promised_per_sec": 0.0,
            "reads_per_sec": 1_000.0, "missed": 0.25, "expected": 0.2,
        })
    };
    let instance = |&(name, bytes): &(&str, u64)| {
        json!({
            "name": name, "kind": "millpond", "version": "0.1.0", "address": "127.0.0.1:1", "is_leased": true,
            "limit_bytes": bytes, "used_bytes": bytes, "held_bytes": bytes, "target_bytes": bytes,
        })
    };
    let curve = |&(name, bytes): &(&str, u64)| {
        json!({
            "node": "here", "name": name, "granted_bytes": bytes, "used_bytes": bytes, "reads_per_sec": 1_000.0,
            "miss_ratio": 0.25, "miss_cost_secs": 0.01, "floor_bytes": 0, "samples": 1e4, "error": 0.01,
            "age_secs": 3.0, "working_set_bytes": 64 * MIB, "points": [[MIB, 0.6], [64 * MIB, 0.1]],
        })
    };
    let curves: Vec<Value> = pools.iter().map(curve).collect();
    let node = json!({
        "name": "here", "memory_bytes": 1 << 30, "held_bytes": 1 << 29, "is_short": true,
        "unmet": ["a/all: its promise"], "instances": pools.iter().map(instance).collect::<Vec<_>>(),
        "pools": pools.iter().map(pool).collect::<Vec<_>>(),
    });
    json!({
        "/fleet.json": {
            "term": 1, "policy": "most-hits", "is_leader": true, "leader": null, "is_superseded": false,
            "predictions": 0, "prediction_error": null, "nodes": [node],
        },
        "/curves.json": curves, "/curve": curves[0], "/decisions.json": decisions,
    })
}

/// A decision of a hundred moves, of which four are listed.
fn decision() -> Value {
    let now = base::Clock::System.unix_secs();
    let step = |i| json!({ "from": null, "to": "a/all", "bytes": MIB + i, "saved_misses_per_sec": 1.0, "reason": "it misses most" });
    json!({
        "number": 1, "at_secs": now, "policy": "most-hits", "node": "here", "memory_bytes": 1 << 30,
        "moves": (0..4).map(step).collect::<Vec<_>>(), "moves_count": 100, "moved_bytes": 100 * MIB,
        "outcome": { "predicted_saved_misses_per_sec": 10.0, "measured_saved_misses_per_sec": 1.0 }, "unmet": [],
    })
}

/// Opens a page of the fleet with these figures.
fn open(browser: &mut Browser, figures: &Value, hash: &str) -> Orchestrator {
    let orchestrator = Orchestrator::start("96MiB");
    browser.fake(figures);
    browser.open(&format!("{}/{hash}", orchestrator.admin));
    browser.wait("figures", "Number(document.body?.dataset.polls) > 0");
    orchestrator
}

/// Checks that something keeps the focus, and its scrolled place, while figures change.
fn check_kept(browser: &mut Browser, what: &str) {
    browser.wait(what, &format!("document.querySelector('{what}')"));
    browser.value(&format!(
        "window.kept = document.querySelector('{what}'); kept.focus(); kept.scrollLeft = 30; scrollTo(0, 150)"
    ));
    let state =
        "JSON.stringify([document.activeElement === kept, kept.isConnected, kept.scrollLeft, scrollY])";
    let before = browser.text(state);
    assert!(before.starts_with("[true,true,"), "{what}: {before}");
    rounds(browser, 2);
    assert_eq!(browser.text(state), before, "{what}");
}

#[test]
fn focus_and_scrolling_stay_as_figures_change() {
    let Some(mut browser) = browser() else { return };
    let mut figures = fleet(&[("a/all", 32 * MIB), ("b/all", 16 * MIB)], &json!([decision()]));
    figures["/decisions/1"] = decision();
    browser.resize(420, 500);
    let _orchestrator = open(&mut browser, &figures, "");
    browser.value(
        "setInterval(() => {
            const node = figures['/fleet.json'].nodes[0], outcome = figures['/decisions.json'][0].outcome;
            for (const one of [...node.pools, ...node.instances, figures['/curve']]) one.used_bytes += 65536;
            outcome.measured_saved_misses_per_sec += 1;
        }, 100), 0",
    );
    check_kept(&mut browser, "[aria-label=\"Instances of Machine here\"]");
    let scrolled = browser.value("kept.scrollLeft").as_u64();
    assert_eq!(scrolled, Some(30), "the table is wider than the window");
    // Another instance adds a row, and leaves the others.
    browser.value(
        "{ const { instances } = figures['/fleet.json'].nodes[0]; instances.push({ ...instances[0], name: 'c' }) }",
    );
    check_kept(&mut browser, "[aria-label=\"Instances of Machine here\"]");
    browser.wait("the third instance", "kept.querySelectorAll('tbody tr').length === 3");
    check_kept(&mut browser, ".timeline a");

    browser.value("location.hash = '#/pool/a%2Fall/here'");
    browser.wait("the curve", "document.querySelector('#view .chart canvas')");
    browser.value("document.querySelector('#view details').open = true");
    check_kept(&mut browser, "[aria-label=\"One more, one less\"]");
    check_kept(&mut browser, "[aria-label=\"The curve as a table\"]");
    check_kept(&mut browser, "#view ul li a");
    assert!(browser.problems().is_empty(), "{:#?}", browser.problems());
}

#[test]
fn the_moves_that_are_not_kept_are_counted() {
    let Some(mut browser) = browser() else { return };
    let mut figures = fleet(&[("a/all", 32 * MIB)], &json!([decision()]));
    figures["/decisions/1"] = decision();
    let pool = json!({ "name": "a/all", "before_bytes": MIB, "granted_bytes": 2 * MIB });
    (figures["/decisions/1"]["pools"], figures["/decisions/1"]["pools_count"]) = (json!([pool]), json!(70));
    let _orchestrator = open(&mut browser, &figures, "");
    browser.wait("all bytes", &format!("{VIEW}.includes('1 decision moved 100 MiB')"));
    browser.wait("all moves", &format!("{VIEW}.includes('and 99 more')"));
    browser.value("location.hash = '#/decisions/1'");
    browser.wait("the moves", &format!("{VIEW}.includes('and 96 more moves; all move 100 MiB together.')"));
    browser.wait("the pools", &format!("{VIEW}.includes('and 69 more pools, which change less.')"));
    assert!(browser.problems().is_empty(), "{:#?}", browser.problems());
}

#[test]
fn pools_without_memory_or_curve_have_no_broken_figures() {
    let Some(mut browser) = browser() else { return };
    let mut figures = fleet(&[("a/all", 0), ("b/all", 0), ("c/all", 0)], &json!([]));
    figures["/curves.json"][2]["points"] = json!([]);
    let _orchestrator = open(&mut browser, &figures, "#/what-if");
    let sliders = "[...document.querySelectorAll('#view input[type=range]')]";
    browser.wait("sliders", &format!("{sliders}.length === 2"));
    browser.wait("the pool without a curve", &format!("{VIEW}.includes('1 pool whose curve is not known')"));
    assert_eq!(browser.text(&format!("{sliders}.map(one => one.value).join()")), "0,0");
    let move_first = "{ const one = document.querySelector('#view input[type=range]'); one.value = 700; one.dispatchEvent(new Event('input')) }";
    browser.value(move_first);
    assert_eq!(browser.text(&format!("{sliders}.map(one => one.value).join()")), "0,0");
    for hash in ["#/what-if", "#/", "#/pool/a%2Fall"] {
        browser.value(&format!("location.hash = '{hash}'"));
        rounds(&mut browser, 2);
        let shown = browser.text("document.querySelector('main').outerHTML");
        assert!(!shown.contains("NaN") && !shown.contains("undefined"), "{hash}: {shown}");
    }
    // A view that could not read the curves says so, and its buttons work.
    browser.value("figures['/curves.json'] = null, location.hash = '#/what-if'");
    browser.wait("the reason", &format!("{VIEW}.includes('There is none.')"));
    browser.value("[...document.querySelectorAll('#view button')].find(one => one.innerText === 'As it is now').click()");
    browser.wait("no curve", &format!("{VIEW}.includes('No curve is known yet.')"));
    let is_thrown = |problem: &String| problem.contains("exceptionThrown");
    assert!(!browser.problems().iter().any(is_thrown), "{:#?}", browser.problems());
}

#[test]
fn an_address_that_names_no_view_shows_the_overview() {
    let Some(mut browser) = browser() else { return };
    let figures = fleet(&[("a/all", 32 * MIB)], &json!([]));
    let _orchestrator = open(&mut browser, &figures, "#/pool/%E0%A4%A");
    let is_overview = format!("{TENANT_ROWS}.length === 1 && document.querySelector('.cards')");
    let state = "document.querySelector('#state').innerText";
    for hash in ["#/pool/%E0%A4%A", "#/pool/a/%", "#/pool/", "#/decisions/last", "#/nothing"] {
        browser.value(&format!("location.hash = '{hash}'"));
        browser.wait("the reason", &format!("{state} === 'The address names no view: {hash}'"));
        browser.wait("the overview", &is_overview);
    }
    browser.value("location.hash = '#/'");
    browser.wait("no reason", &format!("{state} === ''"));
    assert!(browser.problems().is_empty(), "{:#?}", browser.problems());
}

#[test]
fn pools_that_vanish_and_counters_that_go_back_give_no_wrong_rates() {
    let Some(mut browser) = browser() else { return };
    let config = "memory = \"32MiB\"\n[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"b\"\n\
                  [[listener]]\nname = \"main\"\ntenant = \"a\"\n";
    let served = Served::start(Path::new(MILLPOND), config).expect("a server");
    let mut stats = served.stats().expect("figures");
    for pool in stats["pools"].as_array_mut().expect("pools") {
        pool["evictions"] = json!(if pool["name"] == "b" { 5_000 } else { 100 });
        pool["classes"] = json!([{ "departures": { "expired": 100 } }]);
    }
    browser.fake(&json!({
        "/stats.json": stats, "/curves.json": {}, "/hotkeys.json": {},
        "/decisions.json": { "mode": "off", "decisions": [] },
    }));
    browser.open(&served.admin().expect("an address"));
    rounds(&mut browser, 1);
    // A pool has gone, whose evictions do not count against those of others; a protocol is new.
    browser.value(
        "{
            const stats = figures['/stats.json'];
            stats.monotonic_nanos += 2e9;
            stats.pools = stats.pools.filter(pool => pool.name !== 'b');
            stats.pools.find(pool => pool.name === 'a').evictions += 40;
            stats.requests.another = structuredClone(Object.values(stats.requests)[0]);
        }",
    );
    let card =
        "[...document.querySelectorAll('.cards .card')].find(one => one.innerText.startsWith('Evictions'))";
    browser.wait("the rate of the other pool", &format!("{card}.querySelector('.big').innerText === '20'"));

    // Removals by reason, at 30 a second, and then of a pool that was made anew time and again.
    browser.value(
        "window.growth = 30, location.hash = '#/pool/a', setInterval(() => {
            const stats = figures['/stats.json'];
            stats.monotonic_nanos += 1e9;
            stats.pools.forEach(pool => pool.classes[0].departures.expired += growth);
        }, 100), 0",
    );
    let row =
        "[...document.querySelectorAll('.pair tbody tr')].find(one => one.innerText.startsWith('expired'))";
    browser.wait("the rate", &format!("{row}?.children[2].innerText === '30'"));
    browser.value("figures['/stats.json'].pools.forEach(pool => pool.classes[0].departures.expired = 1e6), growth = -30");
    browser.wait(
        "no rate",
        &format!("{row}.children[1].innerText.endsWith('k') && {row}.children[2].innerText === '–'"),
    );
    browser.value("figures['/stats.json'].pools = []");
    browser.wait("the reason", &format!("{VIEW}.includes('There is no pool a.')"));
    let old = browser.value("document.querySelectorAll('#view dl > *, #view .pair > *').length");
    assert_eq!(old, 0, "figures of a pool that is gone");
    assert!(browser.problems().is_empty(), "{:#?}", browser.problems());
}
