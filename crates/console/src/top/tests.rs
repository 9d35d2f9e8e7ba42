//! Tests of the frames in terminals of several sizes, and of the keys.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw::{Known, Screen, whole};
use super::live::press;
use super::{Sample, interval, plain};

/// A server with two tenants, `hits` requests after its start.
fn sample(secs: u64, hits: u64) -> Sample {
    let tenant = |name: &str, share: u64| {
        format!(
            r#"{{"name": "{name}", "pool": "{name}", "connections": 4, "requests": {0}, "hits": {0}, "misses": {1}}}"#,
            hits / share,
            hits / share / 4
        )
    };
    let pool = |name: &str, items: u64| {
        format!(
            r#"{{"name": "{name}", "policy": "s3-fifo", "limit_bytes": 268435456, "slab_bytes": 134217728, "items": {items},
            "curve": {{"samples": 5, "error": 0.01, "miss_ratio": {{"present": 0.25, "gib_more": 0.125}}}},
            "classes": [{{"number": 7, "chunk_bytes": 640, "bytes": 12582912, "items": {items}, "tail_age_secs": 75}}]}}"#
        )
    };
    let text = format!(
        r#"{{"version": "9.8.7", "pid": 1, "uptime_secs": 3700, "monotonic_nanos": {secs}000000000, "threads": 2, "connections": 8,
        "memory_limit_bytes": 1073741824, "memory_bytes": {{"slabs": 536870912, "index": 1048576}},
        "requests": {{"memcached": {{"buckets": [[1e-6, {hits}], [null, 0]]}}, "resp": {{"buckets": []}}}},
        "listeners": [{{"counters": {{"answered_requests": {hits}, "requests_get_hit": {hits}, "received_bytes": {hits}}}}}],
        "tenants": [{}, {}], "pools": [{}, {}]}}"#,
        tenant("blog", 10),
        tenant("shop", 2),
        pool("shop", 4_000),
        pool("blog", 12_000),
    );
    Sample::read(&text, r#"{"shop": [{"key": "user%3A1", "accesses": 7000, "share": 0.125}]}"#)
        .expect("a sample")
}

fn known() -> Known {
    let mut known = Known { address: "http://127.0.0.1:1".to_owned(), ..Known::default() };
    known.learn(Ok(sample(10, 1_000)));
    known.learn(Ok(sample(12, 5_000)));
    known
}

fn drawn(screen: &mut Screen, known: &Known, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| screen.draw(known, frame.area(), frame.buffer_mut())).expect("drawn");
    plain(terminal.backend().buffer())
}

fn key(screen: &mut Screen, code: KeyCode) -> bool {
    press(screen, KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_frame_of_24_lines_has_all_that_matters() {
    let text = drawn(&mut Screen::new(), &known(), (80, 24));
    for part in [
        "millpond 9.8.7  http://127.0.0.1:1  up 1h 1m  threads 2",
        "memory 513 MiB of 1.0 GiB, 50.10%",
        "requests/s 2.0k",
        "hits 100.00%",
        "connections 8",
        "memcached  p50 0.5 µs",
        "slabs       ███████          512 MiB",
        "free        ██████▉          511 MiB",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let (shop, blog) = (text.find("shop").expect("shop"), text.find("blog").expect("blog"));
    assert!(shop < blog, "sorted by requests a second:\n{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.lines().count() == 24);
}

#[test]
fn what_a_full_file_system_does_not_have_is_not_free() {
    let with_room = |free_bytes: u64| {
        let mut known = Known::default();
        let shared_memory = Some(super::sample::SharedMemory { free_bytes });
        known.learn(Ok(Sample { shared_memory, ..sample(10, 1_000) }));
        drawn(&mut Screen::new(), &known, (80, 24))
    };
    let text = with_room(100 << 20);
    for part in [
        "The file system of shared_memory is too full for 411 MiB of the memory.",
        "free        █▎               100 MiB",
        "no room     █████▌           411 MiB",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(text.contains("tenants") && text.lines().count() == 24, "{text}");
    let text = with_room(1 << 30);
    assert!(text.contains("free        ██████▉          511 MiB") && !text.contains("no room"), "{text}");
}

#[test]
fn columns_come_with_the_room_for_them() {
    let narrow = drawn(&mut Screen::new(), &known(), (60, 24));
    let wide = drawn(&mut Screen::new(), &known(), (200, 50));
    assert!(!narrow.contains("evict/s") && narrow.contains("ops/s"), "{narrow}");
    assert!(wide.contains("policy") && wide.contains("s3-fifo"), "{wide}");
}

#[test]
fn nothing_is_too_small_to_draw_in() {
    let mut empty = Known::default();
    empty.learn(Ok(Sample::default()));
    for size in [(1, 1), (1, 40), (10, 3), (19, 24), (300, 2)] {
        for known in [&known(), &empty, &Known::default()] {
            let mut screen = Screen::new();
            for _ in 0..5 {
                drawn(&mut screen, known, size);
                screen.turn(true);
            }
            screen.has_help = true;
            drawn(&mut screen, known, size);
        }
    }
}

#[test]
fn keys_choose_views_and_columns() {
    let (mut screen, known) = (Screen::new(), known());
    assert!(key(&mut screen, KeyCode::Tab));
    assert!(drawn(&mut screen, &known, (80, 24)).contains("chunk"));
    assert!(key(&mut screen, KeyCode::Char('3')));
    let text = drawn(&mut screen, &known, (80, 24));
    assert!(text.contains("user:1") && text.contains("7.0k   12.50%"), "{text}");
    assert!(key(&mut screen, KeyCode::Char('4')));
    let text = drawn(&mut screen, &known, (80, 24));
    assert!(text.contains("–   25.00%     12.50%        –"), "{text}");
    key(&mut screen, KeyCode::BackTab);
    key(&mut screen, KeyCode::Char('1'));
    // From requests a second to the left by four: items.
    (0..4).for_each(|_| assert!(key(&mut screen, KeyCode::Left)));
    let order = |screen: &mut Screen| {
        let text = drawn(screen, &known, (80, 24));
        text.find("blog") < text.find("shop")
    };
    assert!(order(&mut screen), "12,000 items before 4,000");
    key(&mut screen, KeyCode::Char('r'));
    assert!(!order(&mut screen));
    key(&mut screen, KeyCode::PageDown);
    assert!(drawn(&mut screen, &known, (80, 24)).contains("blog"), "there is nothing to scroll to");
    assert!(key(&mut screen, KeyCode::Char('?')));
    assert!(drawn(&mut screen, &known, (80, 24)).contains("Any key closes this."));
    assert!(key(&mut screen, KeyCode::Char('q')), "closes the help");
    assert!(!key(&mut screen, KeyCode::Char('q')) && !key(&mut screen, KeyCode::Esc));
    assert!(!press(&mut screen, KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
}

#[test]
fn a_server_that_is_gone_is_told_of_and_comes_back() {
    let (mut screen, mut known) = (Screen::new(), Known::default());
    known.learn(Err("http://127.0.0.1:1: refused".to_owned()));
    assert!(drawn(&mut screen, &known, (80, 24)).contains("refused"));
    known.learn(Ok(sample(10, 1_000)));
    known.learn(Ok(sample(11, 2_000)));
    known.learn(Err("http://127.0.0.1:1: refused".to_owned()));
    let text = drawn(&mut screen, &known, (80, 24));
    assert!(
        text.contains("The figures are old: http://127.0.0.1:1: refused") && text.contains("shop"),
        "{text}"
    );
    known.learn(Ok(Sample { pid: 2, ..sample(1, 10) }));
    let text = drawn(&mut screen, &known, (80, 24));
    assert!(text.contains("requests/s – ") && !text.contains("refused"), "{text}");
}

#[test]
fn a_frame_of_text_has_all_views() {
    let text = plain(&whole(&known(), 120, true));
    for part in
        ["millpond 9.8.7", "tenants", "shop", "size classes", "640 B", "hot keys", "user:1", "more memory"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(text.lines().all(|line| !line.ends_with(' ')));
}

/// A line was cut at 120 columns, in the middle of an address, where no terminal asks for that.
#[test]
fn a_frame_of_text_has_whole_addresses() {
    let address = format!("http://{}.example:11212", "long-name.".repeat(14));
    let known = Known { address: address.clone(), ..known() };
    let text = plain(&whole(&known, 120, true));
    assert!(
        text.lines().next().is_some_and(|line| line.contains(&address) && line.ends_with("threads 2")),
        "{text}"
    );
    assert!(text.lines().skip(2).all(|line| line.chars().count() <= 120), "{text}");
    assert!(!plain(&whole(&known, 120, false)).contains(&address), "a terminal is as wide as it is");
}

#[test]
fn intervals_are_times() {
    assert_eq!(interval("500ms"), Ok(std::time::Duration::from_millis(500)));
    assert!(interval("10ms").is_err() && interval("soon").is_err());
}

#[test]
fn a_hot_key_is_shown_as_it_is_but_for_what_moves_the_cursor() {
    for (encoded, shown) in [
        ("blog%3A1", "blog:1"),
        ("caf%C3%A9", "café"),
        ("a%1B%5B2J%0A", "a\\u{1b}[2J\\n"),
        ("%FF1", "\\xff1"),
    ] {
        assert_eq!(super::table::readable(encoded), shown);
    }
}

#[test]
fn wide_characters_take_their_columns() {
    let mut frame = Buffer::empty(ratatui::layout::Rect::new(0, 0, 8, 1));
    frame.set_string(0, 0, "漢字|x", ratatui::style::Style::new());
    assert_eq!(plain(&frame), "漢字|x\n");
}
