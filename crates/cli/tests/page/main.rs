//! The web page of a server and of an orchestrator, in a browser: what it shows of real processes,
//! that it follows them, and that it works by the keyboard, in both themes, with 500 tenants.
//!
//! `MILLPOND_SCREENSHOTS=FOLDER` has pictures written, of which docs/images has some.

mod browser;
mod faked;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use base::rng::{RngExt as _, seeded};
use browser::Browser;
use trial::lookaside::{Keys, Load, Tenant, Wire};
use trial::orchestrated::Orchestrated;
use trial::served::{Served, free_port};

const MILLPOND: &str = env!("CARGO_BIN_EXE_millpond");
/// Keys that the tenants ask for: more memory is of use to the first two alone.
const TENANTS: [(&str, u64); 3] = [("shop", 40_000), ("login", 15_000), ("crawler", 1_000_000)];
const TENANT_ROWS: &str = "document.querySelectorAll('#view tbody tr th a')";

/// Returns a browser; prints why if there is none.
fn browser() -> Option<Browser> {
    match browser::find() {
        Ok(program) => Some(Browser::start(&program)),
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

/// A tenant's load: keys alike, or for the crawler one after the other.
fn load(name: &'static str, keys: u64, address: SocketAddr) -> (Tenant, SocketAddr) {
    let (mut rng, mut last) = (seeded(keys), 0);
    let keys: Keys = if name == "crawler" {
        Box::new(move || {
            last = (last + 1) % keys;
            last
        })
    } else {
        Box::new(move || (rng.random_range(0.0..1.0_f64).powi(2) * keys as f64) as u64)
    };
    (Tenant { name, keys, value_bytes: 1_000, backend_per_sec: 3_000.0, wire: Wire::Memcached }, address)
}

/// A server of the three tenants, and their load.
fn busy_server() -> (Served, Load) {
    let tenants = TENANTS.map(|(name, _)| {
        format!(
            "[[tenant]]\nname = \"{name}\"\noperations_per_sec = 10000\nmin_operations_per_sec = 500\n\
             [[listener]]\nname = \"{name}\"\ntenant = \"{name}\"\n"
        )
    });
    let config = format!(
        "memory = \"64MiB\"\nthreads = 1\n[watch]\ncurve_keys = 1024\ncurve_one_in = 4\nhot_keys = 64\n\
         [control]\nperiod_secs = 2\n{}",
        tenants.concat()
    );
    let served = Served::start(Path::new(MILLPOND), &config).expect("a server");
    let tenants = TENANTS.map(|(name, keys)| load(name, keys, served.address(name).expect("an address")));
    (served, Load::start(tenants.into()).expect("a load"))
}

/// An orchestrator, and the addresses of agents and of the page.
struct Orchestrator {
    _process: Orchestrated,
    listen: String,
    admin: String,
}

impl Orchestrator {
    fn start(memory: &str) -> Self {
        let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
        let flags = ["--memory", memory, "--node", "rack-7=256MiB", "--period", "500ms", "--lease", "5s"];
        let process = Orchestrated::start(Path::new(MILLPOND), &listen, &flags).expect("an orchestrator");
        Self { admin: format!("http://{}", process.admin()), listen, _process: process }
    }
}

fn led_server(name: &str, node: &str, memory: &str, orchestrator: &Orchestrator) -> Served {
    let config = format!(
        "memory = \"{memory}\"\nmax_memory = \"96MiB\"\nthreads = 1\n[watch]\ncurve_keys = 1024\ncurve_one_in = 4\n\
         [[listener]]\nname = \"main\"\n\
         [fleet]\norchestrators = [\"{}\"]\nname = \"{name}\"\nnode = \"{node}\"\n",
        orchestrator.listen
    );
    Served::start(Path::new(MILLPOND), &config).expect("a server")
}

/// Checks that the page asked its own server alone, and that a console would be empty.
fn check_quiet(browser: &Browser, own: &[&str]) {
    assert!(browser.problems().is_empty(), "{:#?}", browser.problems());
    let requests = browser.requests();
    let is_own = |url: &str| {
        own.iter().any(|own| url.starts_with(own)) || url.starts_with("data:,") || url == "about:blank"
    };
    let foreign: Vec<&String> = requests.iter().filter(|url| !is_own(url)).collect();
    assert!(requests.len() > 10 && foreign.is_empty(), "{foreign:?}");
}

/// Looks at a view in both themes.
fn look_in_both_themes(browser: &mut Browser, name: &str) {
    let background = "getComputedStyle(document.body).backgroundColor";
    let light = browser.text(background);
    browser.wait("figures of some rounds", "Number(document.body.dataset.polls) > 2");
    browser.picture(&format!("{name}-light"));
    browser.theme("dark");
    browser.wait("the dark theme", &format!("{background} !== '{light}'"));
    let charts = ".chart').length";
    browser.wait(
        "each chart as before",
        &format!("document.querySelectorAll('{charts} === document.querySelectorAll('.chart canvas').length"),
    );
    browser.picture(&format!("{name}-dark"));
    browser.theme("light");
    browser.wait("the light theme", &format!("{background} === '{light}'"));
}

/// Waits until the page has read its figures this many times more.
fn rounds(browser: &mut Browser, more: u64) {
    let polls = "Number(document.body?.dataset.polls || 0)";
    let before = browser.value(polls).as_u64().expect("a number");
    browser.wait("further rounds", &format!("{polls} >= {}", before + more));
}

/// Writes into the search field of the view.
fn search(browser: &mut Browser, words: &str) {
    let field = "document.querySelector('#view input[type=search]')";
    browser.value(&format!("{field}.value = '{words}'; {field}.dispatchEvent(new Event('input'))"));
}

/// Follows a link by the keyboard.
fn follow(browser: &mut Browser, link: &str) {
    browser.value(&format!("document.querySelector('{link}').focus()"));
    browser.press("Enter", 13);
}

/// Goes through all views; `row` is one whose curve is known.
fn walk(browser: &mut Browser, name: &str, row: &str) {
    browser.wait("a decision", "document.querySelector('#view .timeline li')");
    look_in_both_themes(browser, &format!("{name}-overview"));

    follow(browser, "nav a[href=\"#/decisions\"]");
    let outcomes = "[...document.querySelectorAll('.timeline .outcome')].map(one => one.innerText).join()";
    browser.wait("an outcome", &format!("/as measured, it (saved|added)/.test({outcomes})"));
    browser.wait("the focus in the view", "document.activeElement.id === 'view'");
    follow(browser, ".timeline > li a");
    browser.wait("the curves as they were", "document.querySelector('#view .chart canvas')");
    look_in_both_themes(browser, &format!("{name}-decisions"));
    search(browser, "no such pool");
    browser.wait("no decision", "document.querySelectorAll('.timeline > li').length === 0");

    browser.value(&format!("location.hash = '#/pool/' + encodeURIComponent('{row}')"));
    browser.wait("the curve", "document.querySelector('#view .chart canvas')");
    browser.wait("one more and one less", "document.querySelectorAll('tr.now').length === 1");
    let chart = browser.text("document.querySelector('.chart').getAttribute('aria-label')");
    assert!(chart.contains("missed with that"), "the chart in words: {chart}");
    assert!(chart.contains("off by at most"), "its error band: {chart}");
    assert!(browser.text("document.querySelector('dl.facts').innerText").contains("Working set"));
    look_in_both_themes(browser, &format!("{name}-pool"));

    ask_what_if(browser, name);
}

/// Takes memory from a pool by the keyboard, and puts it back.
fn ask_what_if(browser: &mut Browser, name: &str) {
    follow(browser, "nav a[href=\"#/what-if\"]");
    browser.wait("sliders", "document.querySelectorAll('#view input[type=range]').length >= 2");
    let sum = "document.querySelector('#view [role=status]').innerText";
    let changes =
        "[...document.querySelectorAll('#view tbody tr')].map(row => row.children[3].innerText).join()";
    let before = browser.text(sum);
    assert!(before.contains("As it is now"), "{before}");
    browser.value("document.querySelector('#view input[type=range]').focus()");
    for _ in 0..2 {
        browser.press("PageDown", 34);
    }
    browser.wait("givers and receivers", &format!("/\\+/.test({changes}) && /−/.test({changes})"));
    let then = browser.text(sum);
    let total = |text: &str| text.split('.').next().map(str::to_owned);
    assert_eq!(total(&before), total(&then), "the sum stays");
    browser.theme("dark");
    browser.picture(&format!("{name}-what-if-dark"));
    browser.theme("light");
    browser.picture(&format!("{name}-what-if-light"));
    let reset =
        "[...document.querySelectorAll('#view button')].find(one => one.innerText === 'As it is now')";
    browser.value(&format!("{reset}.click()"));
    browser.wait("the present sizes", &format!("!/[+−]/.test({changes})"));
}

#[test]
fn a_server_is_watched_in_a_browser() {
    let Some(mut browser) = browser() else { return };
    let (served, load) = busy_server();
    let admin = served.admin().expect("an address");
    browser.theme("light");
    browser.open(&admin);
    browser.wait("the tenants", &format!("{TENANT_ROWS}.length === 3"));
    // It follows without being loaded again.
    let figure = "document.querySelector('.cards .big').innerText";
    browser.wait("a rate", &format!("/[1-9]/.test({figure})"));
    let first = browser.text(figure);
    browser.wait("another rate", &format!("{figure} !== '{first}'"));
    walk(&mut browser, "server", "shop");
    browser.value("location.hash = '#/pool/shop'");
    browser.wait("hot keys", "/Hot keys/.test(document.querySelector('#view').innerText) && document.querySelectorAll('.pair .card').length === 2");
    check_quiet(&browser, &[&admin]);
    load.stop().expect("a load");
}

#[test]
fn a_fleet_is_watched_in_a_browser() {
    let Some(mut browser) = browser() else { return };
    let orchestrator = Orchestrator::start("96MiB");
    // The first one fills whatever it is granted: else no outcome is measured.
    let servers = [("shop", 120_000), ("login", 15_000)]
        .map(|(name, keys)| (led_server(name, "here", "24MiB", &orchestrator), name, keys));
    let other = led_server("mail", "rack-7", "24MiB", &orchestrator);
    let tenants = servers
        .iter()
        .map(|(served, name, keys)| load(name, *keys, served.address("main").expect("an address")));
    let load = Load::start(
        tenants.chain([load("mail", 60_000, other.address("main").expect("an address"))]).collect(),
    )
    .expect("a load");
    browser.theme("light");
    browser.open(&orchestrator.admin);
    browser.wait("the pools", &format!("{TENANT_ROWS}.length === 3"));
    walk(&mut browser, "fleet", "shop/default");
    check_quiet(&browser, &[&orchestrator.admin]);
    load.stop().expect("a load");
}

/// Asks `millpond fleet` of an orchestrator; returns whether it succeeded, and what it said.
fn console(orchestrator: &Orchestrator, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(MILLPOND);
    let output = command.arg("fleet").args(arguments).args(["--orchestrator", &orchestrator.admin]).output();
    let output = output.expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn instances_of_one_name_on_two_machines_are_told_apart() {
    let Some(mut browser) = browser() else { return };
    let orchestrator = Orchestrator::start("96MiB");
    let servers = ["here", "rack-7"].map(|node| led_server("shop", node, "24MiB", &orchestrator));
    let tenants = servers
        .iter()
        .zip([40_000, 60_000])
        .map(|(served, keys)| load("shop", keys, served.address("main").expect("an address")));
    let load = Load::start(tenants.collect()).expect("a load");
    browser.theme("light");
    browser.open(&orchestrator.admin);
    browser.wait("both pools", &format!("{TENANT_ROWS}.length === 2"));
    let machines = "[...document.querySelectorAll('#view tbody tr:has(th a)')].map(row => row.children[1].innerText).sort().join()";
    assert_eq!(browser.text(machines), "here,rack-7");
    let facts = "document.querySelector('dl.facts').innerText";
    for node in ["here", "rack-7"] {
        browser.value("location.hash = '#/'");
        let link = format!("a[href=\"#/pool/shop%2Fdefault/{node}\"]");
        browser.wait("the pool", &format!("document.querySelector('{link}')"));
        follow(&mut browser, &link);
        browser.wait("the machine", &format!("/{node}/.test({facts})"));
        browser.wait("its curve", "document.querySelector('#view .chart canvas')");
    }
    browser.picture("fleet-equal-names-light");
    browser.theme("dark");
    browser.picture("fleet-equal-names-dark");
    // Without the machine, the page asks which is meant.
    browser.value("location.hash = '#/pool/shop%2Fdefault'");
    browser.wait(
        "both links",
        "document.querySelectorAll('#view a[href^=\"#/pool/shop%2Fdefault/\"]').length === 2",
    );
    follow(&mut browser, "nav a[href=\"#/what-if\"]");
    browser.wait("one slider", "document.querySelectorAll('#view input[type=range]').length === 1");
    assert_eq!(
        browser.value("document.querySelectorAll('#view select option').length"),
        2,
        "a choice of machines"
    );
    check_quiet(&browser, &[&orchestrator.admin]);
    for command in [&["what-if", "shop/default", "+1MiB"][..], &["explain", "shop/default"]] {
        let (succeeded, said) = console(&orchestrator, command);
        assert!(!succeeded && said.contains("on each of here, rack-7; name one with --node"), "{said}");
        let (succeeded, said) = console(&orchestrator, &[command, &["--node", "rack-7"]].concat());
        assert!(succeeded && said.contains("shop/default"), "{said}");
    }
    load.stop().expect("a load");
}

#[test]
fn a_token_is_asked_for_before_figures_are_shown() {
    let Some(mut browser) = browser() else { return };
    let config = "memory = \"32MiB\"\n[admin]\ntoken = \"0123456789abcdef\"\n[[listener]]\nname = \"main\"\n";
    let served = Served::start(Path::new(MILLPOND), config).expect("a server");
    browser.open(&served.admin().expect("an address"));
    let form = "document.querySelector('#login')";
    browser.wait("the form", &format!("{form} && !{form}.hidden"));
    assert_eq!(browser.value(&format!("{TENANT_ROWS}.length")), 0);
    browser.value("document.querySelector('#token').value = '0123456789abcdef'");
    browser.value("document.querySelector('#token').focus()");
    browser.press("Enter", 13);
    browser.wait("the tenant", &format!("{TENANT_ROWS}.length === 1 && {form}.hidden"));
}

#[test]
fn five_hundred_tenants_are_searched_and_sorted() {
    let Some(mut browser) = browser() else { return };
    let orchestrator = Orchestrator::start("512MiB");
    let mut config = format!(
        "memory = \"256MiB\"\nmax_memory = \"512MiB\"\nthreads = 1\n[[listener]]\nname = \"main\"\ntenant = \"tenant-000\"\n\
         [fleet]\norchestrators = [\"{}\"]\nname = \"many\"\nnode = \"here\"\n",
        orchestrator.listen
    );
    for number in 0..500 {
        write!(config, "[[tenant]]\nname = \"tenant-{number:03}\"\n").expect("text");
    }
    let served = Served::start(Path::new(MILLPOND), &config).expect("a server");
    let admin = served.admin().expect("an address");
    for (page, prefix) in [(&admin, ""), (&orchestrator.admin, "many/")] {
        browser.open(page);
        browser.wait("the first hundred", &format!("{TENANT_ROWS}.length === 100"));
        // Search finds those beyond them, and sorting turns the order round.
        search(&mut browser, "tenant-49");
        browser.wait("the ten", &format!("{TENANT_ROWS}.length === 10"));
        search(&mut browser, "");
        browser.value("document.querySelector('#view thead th[aria-sort] button').click()");
        browser.wait("the last one first", &format!("{TENANT_ROWS}[0].innerText === '{prefix}tenant-499'"));
        assert_eq!(
            browser.text("document.querySelector('th[aria-sort]').getAttribute('aria-sort')"),
            "descending"
        );
        let all =
            "[...document.querySelectorAll('#view button')].find(one => one.innerText === 'Show all 500')";
        browser.value(&format!("{all}.click()"));
        browser.wait("all of them", &format!("{TENANT_ROWS}.length === 500"));
        // A round of figures changes cells and replaces no row, so that the focus stays.
        browser.value(&format!("{TENANT_ROWS}[250].focus()"));
        let focused = browser.text("document.activeElement.innerText");
        rounds(&mut browser, 2);
        assert_eq!(browser.text("document.activeElement.innerText"), focused);
        browser.picture(if prefix.is_empty() { "server-500" } else { "fleet-500" });
        check_quiet(&browser, &[&admin, &orchestrator.admin]);
    }
}
