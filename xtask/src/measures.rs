//! The measures of each room of the repository. The ratchet lets their counts only decrease.
//!
//! A room is a crate, or else a folder at the top of the repository. A measure finds places, so
//! that those who want to lower its number see where to begin.

mod circles;
mod phrases;
mod place;
mod safety;
mod summaries;
mod width;

use std::collections::BTreeMap;

use crate::tree::Tree;
pub(crate) use place::Place;

/// The room of files at the top of the repository.
const TOP: &str = "top";

/// Something that is counted.
pub(crate) struct Measure {
    /// Its name in the ratchet and on the command line.
    pub(crate) name: &'static str,
    /// A noun for its places, in the plural.
    pub(crate) noun: &'static str,
    /// How a number gets smaller.
    pub(crate) advice: &'static str,
    places: fn(&Tree) -> Vec<Place>,
}

pub(crate) const MEASURES: &[Measure] = &[
    Measure {
        name: "circles",
        noun: "modules in its largest circle",
        advice: "turn an edge round, or take apart the module that all others use",
        places: circles::places,
    },
    Measure {
        name: "messages",
        noun: "odd phrases in messages",
        advice: "write what `xtask/words.toml` says instead",
        places: phrases::in_messages,
    },
    Measure {
        name: "prose",
        noun: "odd phrases in comments and documents",
        advice: "write what `xtask/words.toml` says instead",
        places: phrases::in_prose,
    },
    Measure {
        name: "safety",
        noun: "SAFETY comments without a numbered invariant",
        advice: "name the invariant that it relies on, as in `invariant 2 of slab::item`",
        places: safety::places,
    },
    Measure {
        name: "summaries",
        noun: "summaries that begin with a question word",
        advice: "begin with a noun for a thing, and with a verb in the third person for an action",
        places: summaries::places,
    },
    Measure {
        name: "width",
        noun: "comment lines over 100 columns",
        advice: "wrap them; tables and addresses may be wider",
        places: width::places,
    },
];

impl Measure {
    /// The measure with this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        MEASURES.iter().find(|measure| measure.name == name)
    }

    /// All places, by their rooms and in their order.
    pub(crate) fn places(&self, tree: &Tree) -> BTreeMap<String, Vec<Place>> {
        let mut rooms: BTreeMap<String, Vec<Place>> = BTreeMap::new();
        for place in (self.places)(tree) {
            rooms.entry(room_of(tree, &place.path).to_owned()).or_default().push(place);
        }
        rooms.values_mut().for_each(|places| places.sort());
        rooms
    }
}

fn room_of<'a>(tree: &'a Tree, path: &'a str) -> &'a str {
    match (tree.owner(path), path.split_once('/')) {
        (Some(package), _) => package.short_name(),
        (None, Some((folder, _))) => folder,
        (None, None) => TOP,
    }
}

#[cfg(test)]
mod tests;
