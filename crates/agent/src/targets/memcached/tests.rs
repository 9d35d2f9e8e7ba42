use proptest::prelude::*;

use super::stats::{Table, next_to_shrink, pair};
use super::*;

fn fetch(key: &[u8], outcome: Outcome, class: u8, connection: u32, size: u32) -> Fetch<'_> {
    Fetch { key, outcome, class, connection, size }
}

#[test]
fn entries_of_the_log_are_read() {
    let get = b"ts=1795967049.857025 gid=2 type=item_get key=a%20b status=found clsid=3 cfd=24 size=5";
    assert_eq!(log::parse(get), Some(Entry::Fetch(fetch(b"a%20b", Outcome::Hit, 3, 24, 5))));
    let missed = b"ts=1.1 gid=2 type=item_get key=a status=not_found clsid=0 cfd=24 size=0";
    assert_eq!(log::parse(missed), Some(Entry::Fetch(fetch(b"a", Outcome::Miss, 0, 24, 0))));
    let expired = b"ts=1.1 gid=2 type=item_get key=a status=expired clsid=0 cfd=24 size=0";
    assert_eq!(log::parse(expired), log::parse(missed));
    let set = b"ts=1.1 gid=3 type=item_store key=k=v status=stored cmd=set ttl=0 clsid=1 cfd=2 size=9";
    assert_eq!(log::parse(set), Some(Entry::Store(fetch(b"k=v", Outcome::Unknown, 1, 2, 9), true)));
    let kept = b"ts=1.1 gid=3 type=item_store key=k status=exists cmd=cas ttl=0 clsid=1 cfd=2 size=9";
    assert!(matches!(log::parse(kept), Some(Entry::Store(_, false))));
    assert_eq!(log::parse(b"[skipped: 17]"), Some(Entry::Skipped(17)));
    assert_eq!(log::parse(b"ts=1.1 gid=9 type=eviction key=x fetch=no ttl=-1 la=0 clsid=1 size=1"), None);
}

#[test]
fn damaged_entries_are_left_out() {
    for line in [
        &b""[..],
        b"END",
        b"[skipped: ]",
        b"[skipped: -1]",
        b"[skipped: 99999999999999999999999]",
        b"type=item_get",
        b"type=item_get key= status=found",
        b"type=item_get key=a status=found clsid=300 cfd=1 size=1",
        b"type=item_get key=a status=found clsid=1 cfd=99999999999 size=1",
        b"type=item_get key=a status=found clsid=1 cfd=1 size=-1",
        b"type=item_get key=a  status=found",
    ] {
        assert_eq!(log::parse(line), None, "{}", line.escape_ascii());
    }
}

fn table(text: &str) -> Table {
    text.lines().map(|line| pair(line.as_bytes()).expect(line)).collect()
}

const GENERAL: &str = "STAT pid 7\nSTAT uptime 10\nSTAT time 110\nSTAT limit_maxbytes 67108864\n\
    STAT get_hits 70\nSTAT get_misses 20\nSTAT touch_hits 9\nSTAT touch_misses 1";
const SLABS: &str = "STAT 1:chunk_size 96\nSTAT 1:chunks_per_page 10922\nSTAT 1:total_pages 2\n\
    STAT 1:used_chunks 100\nSTAT 5:chunk_size 240\nSTAT 5:chunks_per_page 4369\nSTAT 5:total_pages 3\n\
    STAT 5:used_chunks 13000\nSTAT active_slabs 2\nSTAT total_malloced 5242880";

#[test]
fn figures_are_read() {
    let settings = table("STAT slab_reassign yes\nSTAT evictions on\nSTAT inter NULL\nSTAT domain_socket ");
    let items = table("STAT items:5:age 30");
    let figures = Figures::from_tables("1.6.18".into(), &table(GENERAL), &settings, &table(SLABS), &items);
    let figures = figures.expect("figures");
    assert_eq!((figures.pid, figures.started, figures.limit), (7, 100, 64 << 20));
    assert_eq!((figures.reads, figures.misses, figures.malloced), (100, 21, 5 << 20));
    assert!(figures.reassigns && figures.evicts);
    assert_eq!(figures.in_chunks(), 100 * 96 + 13_000 * 240);
}

#[test]
fn a_missing_or_wrong_figure_is_named() {
    let wrong = |general: &str| {
        let (settings, items) = (Table::new(), Table::new());
        let figures = Figures::from_tables(String::new(), &table(general), &settings, &table(SLABS), &items);
        figures.expect_err("an error").to_string()
    };
    assert_eq!(wrong("STAT get_hits 1"), "its statistics have no `get_misses`");
    let text = GENERAL.replace("STAT pid 7", "STAT pid seven");
    assert_eq!(wrong(&text), "in its statistics `pid` is not a number: `seven`");
}

#[test]
fn free_pages_go_first_and_then_those_of_the_oldest_items() {
    let items = table("STAT items:1:age 10\nSTAT items:5:age 30");
    let settings = Table::new();
    let figures = Figures::from_tables(String::new(), &table(GENERAL), &settings, &table(SLABS), &items);
    let mut classes = figures.expect("figures").classes;
    let mut taken = Vec::new();
    while let Some(class) = next_to_shrink(&mut classes) {
        taken.push(class.number);
        class.shrink();
    }
    assert_eq!(taken, [1, 5, 5], "each keeps one");
}

proptest! {
    #[test]
    fn whatever_is_logged_is_read_or_left_out(
        line in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "(ts=[0-9.]{1,9} )?type=item_(get|store) key=.{0,9} (status=[a-z_]{0,9} )?clsid=[0-9]{0,4} cfd=[0-9]{0,12} size=[0-9]{0,12}"
                .prop_map(String::into_bytes),
        ]
    ) {
        if let Some(Entry::Fetch(fetch) | Entry::Store(fetch, _)) = log::parse(&line) {
            prop_assert!(!fetch.key.is_empty());
        }
    }

    #[test]
    fn whatever_statistics_say_is_read_or_refused(
        values in proptest::collection::vec(any::<u64>(), 18),
        used in any::<u64>(),
    ) {
        let filled = |text: &str| -> Table {
            let names = text.lines().filter_map(|line| pair(line.as_bytes()));
            names.zip(&values).map(|((name, _), value)| (name, value.to_string())).collect()
        };
        let (general, mut slabs) = (filled(GENERAL), filled(SLABS));
        slabs.insert("5:used_chunks".to_owned(), used.to_string());
        if let Ok(mut figures) =
            Figures::from_tables(String::new(), &general, &Table::new(), &slabs, &Table::new())
        {
            prop_assert!(figures.in_chunks() <= figures.malloced);
            if let Some(class) = next_to_shrink(&mut figures.classes) {
                class.shrink();
            }
        }
    }
}
