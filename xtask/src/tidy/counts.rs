//! Counts that only fall: what the measures find in each room is at most what the ratchet lists for
//! it.
//!
//! A count below its number passes, so that those who work side by side need not all change the
//! ratchet; [`slack`] says what can be lowered.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::measures::{MEASURES, Measure};
use crate::ratchet::{self, Ratchet};
use crate::tree::Tree;

/// The measure whose counts do not add up.
const CIRCLES: &str = "circles";

/// By measure and room.
type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// Reports counts above their numbers, and numbers of no measure.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let listed = listed(tree);
    let text = tree.file(ratchet::PATH).map_or("", |file| &file.text);
    let report = |measure: &str, room: &str, message| {
        let line = ratchet::line_of(text, measure, room);
        Finding { path: ratchet::PATH.to_owned(), line, rule: "counts", message }
    };
    let unknown = listed.keys().filter(|name| Measure::find(name).is_none());
    let mut findings: Vec<Finding> = unknown
        .map(|name| report(name, "", format!("there is no measure `{name}`; remove its table")))
        .collect();
    for measure in MEASURES {
        for (room, count) in counts(measure, tree) {
            let most = number(&listed, measure.name, &room);
            if count > most {
                let Measure { name, noun, advice, .. } = measure;
                let message = format!(
                    "`{room}` has {count} {noun} and may have {most}; {advice}. `cargo xtask house --places {name} \
                     {room}` lists them. If code moved here from another room: `cargo xtask tidy --moved`"
                );
                findings.push(report(name, &room, message));
            }
        }
    }
    findings
}

/// How many numbers are higher than they need to be.
pub(super) fn slack(tree: &Tree) -> usize {
    let (listed, lowered) = (listed(tree), lowered(tree));
    let numbers = listed.iter().flat_map(|(name, rooms)| rooms.iter().map(move |row| (name, row)));
    numbers.filter(|(name, (room, most))| number(&lowered, name, room) < **most).count()
}

/// The numbers of the ratchet, each lowered to the count; those of 0 are left out. No number grows
/// and none is added.
pub(super) fn lowered(tree: &Tree) -> Counts {
    let mut lowered = Counts::new();
    let listed = listed(tree);
    for measure in MEASURES {
        let counts = counts(measure, tree);
        let rooms = listed.get(measure.name).into_iter().flatten();
        let rooms =
            rooms.map(|(room, most)| (room.clone(), counts.get(room).map_or(0, |now| *most.min(now))));
        lowered.insert(measure.name.to_owned(), rooms.filter(|(_, most)| *most > 0).collect());
    }
    lowered
}

/// The numbers of the ratchet after code has moved between rooms: each is the count, as long as no
/// measure counts more in all rooms together than it did.
///
/// # Errors
/// The measure that does.
pub(super) fn moved(tree: &Tree) -> Result<Counts, String> {
    let listed = listed(tree);
    let is_known = |room: &String| listed.values().any(|rooms| rooms.contains_key(room));
    let mut moved = Counts::new();
    for measure in MEASURES {
        let mut rooms = counts(measure, tree);
        if measure.name == CIRCLES {
            // A circle does not add up over rooms: a crate that is new takes its circles from the
            // one that it was part of, and a known one gets none that is larger.
            for (room, count) in rooms.iter_mut().filter(|(room, _)| is_known(room)) {
                *count = number(&listed, CIRCLES, room).min(*count);
            }
        } else {
            let now: usize = rooms.values().sum();
            let most: usize = listed.get(measure.name).into_iter().flat_map(BTreeMap::values).sum();
            if now > most {
                return Err(format!(
                    "there are {now} {} and may be {most}: that is more than a move",
                    measure.noun
                ));
            }
        }
        rooms.retain(|_, count| *count > 0);
        moved.insert(measure.name.to_owned(), rooms);
    }
    Ok(moved)
}

fn counts(measure: &Measure, tree: &Tree) -> BTreeMap<String, usize> {
    measure.places(tree).into_iter().map(|(room, places)| (room, places.len())).collect()
}

fn number(counts: &Counts, measure: &str, room: &str) -> usize {
    counts.get(measure).and_then(|rooms| rooms.get(room)).copied().unwrap_or(0)
}

/// The counts that the ratchet lists; none if it cannot be read, which is a finding of the rule for
/// lengths.
fn listed(tree: &Tree) -> Counts {
    match &tree.ratchet {
        Some(Ok(Ratchet { counts, .. })) => counts.clone(),
        _ => Counts::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{messages, package, tree};

    /// A crate with this many summaries to mend, and a ratchet.
    fn room(summaries: usize, ratchet: &str) -> Tree {
        let text = format!("//! Slabs.\n{}", "/// What it is.\nconst A: u8 = 0;\n".repeat(summaries));
        let mut tree = tree(&[("crates/slab/src/lib.rs", &text), (ratchet::PATH, ratchet)]);
        tree.packages = vec![package("slab", "lib", &[])];
        tree
    }

    const THREE: &str = "[counts.summaries]\nslab = 3\n";

    #[test]
    fn a_count_above_its_number_is_a_finding() {
        let found = messages(check(&room(4, THREE)));
        assert!(found.starts_with("xtask/ratchet.toml:2: counts: `slab` has 4 summaries"), "{found}");
        assert!(found.contains("may have 3") && found.contains("house --places summaries slab"), "{found}");
        assert!(messages(check(&room(1, ""))).contains("has 1 summaries") && check(&room(0, "")).is_empty());
    }

    #[test]
    fn a_count_below_its_number_is_slack_and_no_finding() {
        assert!(check(&room(3, THREE)).is_empty() && slack(&room(3, THREE)) == 0);
        assert!(check(&room(2, THREE)).is_empty() && slack(&room(2, THREE)) == 1);
    }

    #[test]
    fn numbers_are_lowered_and_never_raised_or_added() {
        let number_at = |summaries, ratchet| number(&lowered(&room(summaries, ratchet)), "summaries", "slab");
        assert_eq!([2, 3, 4].map(|summaries| number_at(summaries, THREE)), [2, 3, 3]);
        assert_eq!(number_at(4, ""), 0);
        let gone = lowered(&room(0, "[counts.summaries]\nslab = 3\nattic = 5\n"));
        assert!(gone["summaries"].is_empty());
    }

    /// The numbers of `slab` after a move, for a measure.
    fn moved_at(summaries: usize, ratchet: &str) -> Result<usize, String> {
        moved(&room(summaries, ratchet)).map(|counts| number(&counts, "summaries", "slab"))
    }

    #[test]
    fn numbers_move_between_rooms_if_the_sum_does_not_grow() {
        let moves = "[counts.summaries]\nattic = 3\nslab = 1\n";
        assert_eq!(moved_at(4, moves), Ok(4));
        assert_eq!(moved_at(2, moves), Ok(2));
        assert!(moved_at(5, moves).expect_err("it grew").contains("there are 5 summaries"));
    }

    #[test]
    fn a_circle_moves_to_a_new_room_only() {
        let files = [
            ("crates/slab/src/lib.rs", "mod a;\nmod b;\n"),
            ("crates/slab/src/a.rs", "use crate::b::B;\npub struct A;\n"),
            ("crates/slab/src/b.rs", "use crate::a::A;\npub struct B;\n"),
        ];
        let circle = |ratchet: &str| {
            let mut tree = tree(&files);
            tree.packages = vec![package("slab", "lib", &[])];
            tree.set_ratchet(ratchet);
            number(&moved(&tree).expect("a move"), "circles", "slab")
        };
        assert_eq!(circle("[counts.circles]\nattic = 2\n"), 2);
        assert_eq!(circle("[counts.circles]\nattic = 2\n[counts.width]\nslab = 1\n"), 0);
        assert_eq!(circle("[counts.circles]\nslab = 3\n"), 2);
    }

    #[test]
    fn a_table_of_no_measure_is_a_finding() {
        let found = messages(check(&room(0, "[counts.commas]\nslab = 3\n")));
        assert!(found.contains("there is no measure `commas`"), "{found}");
    }
}
