use axum::body::Body;
use axum::http::HeaderMap;
use sha2::{Digest, Sha256};

use super::*;

fn text(name: &str) -> &'static str {
    asset(name).map(|(_, text)| text).expect("a file")
}

/// The names in quotes that follow `before`.
fn quoted<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split('"').next())
}

#[test]
fn the_library_is_the_one_that_is_recorded() {
    let recorded = include_str!("../assets/vendored/README.md");
    let files: [(&str, &[u8]); 3] = [
        ("LICENSE", include_bytes!("../assets/vendored/LICENSE")),
        ("uPlot.iife.min.js", text("uplot.js").as_bytes()),
        ("uPlot.min.css", text("uplot.css").as_bytes()),
    ];
    for (name, bytes) in files {
        let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(recorded.contains(&format!("| `{name}` | `{hash}` |")), "{name} is {hash}");
    }
    assert!(include_str!("../assets/vendored/LICENSE").starts_with("The MIT License"));
}

#[test]
fn every_file_that_is_named_is_served() {
    let html = include_str!("../assets/page.html");
    let sources = ["server.js", "fleet.js"];
    let linked = quoted(html, "=\"/page/").flat_map(|name| match name {
        "SOURCE.js" => sources.to_vec(),
        name => vec![name],
    });
    let mut named: Vec<&str> = linked.collect();
    for (_, _, text) in ASSETS.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
        named.extend(quoted(text, "from \"./"));
    }
    named.sort_unstable();
    named.dedup();
    let served: Vec<&str> = ASSETS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(named, served, "what is named is served, and what is served is named");
}

#[test]
fn files_are_served_with_a_policy_that_lets_nothing_else_in() {
    let is_strict = |headers: &HeaderMap| {
        let policy = headers.get(header::CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
        policy.is_some_and(|policy| {
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe") && !policy.contains("http")
        })
    };
    for page in [Page::Server, Page::Fleet] {
        let response: Response<Body> = page.response();
        assert!(is_strict(response.headers()));
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
    }
    assert!(is_strict(
        &about(SCRIPT).into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect()
    ));
}

#[test]
fn our_files_need_nothing_that_the_policy_forbids() {
    let html = include_str!("../assets/page.html");
    assert!(!html.contains("style=") && !html.contains(" on"), "parts in the page itself");
    for (name, _, text) in ASSETS.iter().filter(|(name, ..)| !name.starts_with("uplot")) {
        for forbidden in ["innerHTML", "eval(", "https:", "\"style\"", "@import", "document.write"] {
            assert!(!text.contains(forbidden), "{forbidden} in {name}");
        }
        // The name of a language, which is not asked for.
        let addresses = text.matches("http:").count();
        assert_eq!(addresses, text.matches("http://www.w3.org/2000/svg").count(), "{name}");
    }
}

#[test]
fn the_moves_asked_for_are_those_of_the_pool_and_with_the_words() {
    let asked = |pool: Option<&str>, words: Option<&str>| Asked {
        pool: pool.map(str::to_owned),
        words: words.map(str::to_owned),
        ..Asked::default()
    };
    let has = |asked: Asked| asked.has_move(Some("shop"), None, "Crawler saves nothing");
    assert!(has(asked(None, None)) && has(asked(Some("shop"), Some("crawler"))));
    assert!(!has(asked(Some("sho"), None)) && !has(asked(Some("shop"), Some("login"))));
    let brief = Asked { brief: true, ..Asked::default() };
    assert_eq!(brief.moves(&[1, 2, 3, 4, 5, 6], |step| step % 2 == 0), Some(vec![&2, &4, &6]));
    assert_eq!(brief.moves(&[1; 9], |_| true).map(|moves| moves.len()), Some(LISTED_MOVES));
    assert_eq!(brief.moves(&[1], |_| false), None);
}

#[test]
fn an_outcome_compares_the_pools_that_were_measured() {
    let pool =
        |missed, expected, missed_since| PoolOutcome { reads_per_sec: 100.0, missed, expected, missed_since };
    let outcome = |pools: &[PoolOutcome]| {
        let Outcome { predicted_saved_misses_per_sec, measured_saved_misses_per_sec } =
            Outcome::of(pools.iter().copied());
        [predicted_saved_misses_per_sec, measured_saved_misses_per_sec].map(|n| n.map(f64::round))
    };
    let (gains, loses) = (pool(Some(0.5), Some(0.2), Some(0.3)), pool(Some(0.1), Some(0.2), None));
    assert_eq!(outcome(&[]), [None, None]);
    assert_eq!(outcome(&[pool(None, Some(0.2), Some(0.1))]), [None, None]);
    assert_eq!(outcome(&[loses]), [Some(-10.0), None]);
    assert_eq!(outcome(&[gains, loses]), [Some(30.0), Some(20.0)]);
}
