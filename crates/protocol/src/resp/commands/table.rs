//! All rows, by name, and the numbers under which calls are counted.

use super::categories::{Categories, Category};
use super::groups;
use super::spec::Spec;
use super::subcommand::Subcommand;

const GROUPS: [&[Spec]; 11] = [
    groups::bitmap::ROWS,
    groups::connection::ROWS,
    groups::generic::ROWS,
    groups::hash::ROWS,
    groups::list::ROWS,
    groups::pubsub::ROWS,
    groups::server::ROWS,
    groups::set::ROWS,
    groups::sorted_set::ROWS,
    groups::string::ROWS,
    groups::transactions::ROWS,
];

/// The number of commands.
pub const COUNT: usize = {
    let (mut count, mut left): (usize, &[&[Spec]]) = (0, &GROUPS);
    while let [rows, rest @ ..] = left {
        count = count.saturating_add(rows.len());
        left = rest;
    }
    count
};

/// The longest name, in bytes.
const LONGEST: usize = 16;

/// All commands in the order of their names; each has its place as its number.
pub static SPECS: [Spec; COUNT] = sorted();

/// The names as numbers, which ascend as the names do.
static NAMES: [u128; COUNT] = names(&SPECS);

/// The number of counters that calls are counted in: one for each command, by its place in
/// [`SPECS`], and behind those one for each subcommand.
pub const NUMBERS: usize = COUNT + {
    let (mut count, mut left): (usize, &[Spec]) = (0, &SPECS);
    while let [spec, rest @ ..] = left {
        count = count.saturating_add(spec.subcommands.len());
        left = rest;
    }
    count
};

#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "evaluated by the compiler")]
const fn sorted() -> [Spec; COUNT] {
    let mut specs = [GROUPS[0][0]; COUNT];
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut row = 0;
        while row < GROUPS[group].len() {
            let spec = GROUPS[group][row];
            let mut place = count;
            while place > 0 && packed(specs[place - 1].name.as_bytes()) > packed(spec.name.as_bytes()) {
                specs[place] = specs[place - 1];
                place -= 1;
            }
            specs[place] = spec;
            (count, row) = (count + 1, row + 1);
        }
        group += 1;
    }
    let mut number = 0;
    while number < COUNT {
        assert!(specs[number].name.len() <= LONGEST, "names are looked up by their first 16 bytes");
        specs[number].number = number;
        number += 1;
    }
    specs
}

#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "evaluated by the compiler")]
const fn names(specs: &[Spec; COUNT]) -> [u128; COUNT] {
    let mut names = [0; COUNT];
    let mut i = 0;
    while i < COUNT {
        names[i] = packed(specs[i].name.as_bytes());
        i += 1;
    }
    names
}

/// The first 16 bytes of a name in lower case, as a number.
#[inline]
const fn packed(mut name: &[u8]) -> u128 {
    let (mut number, mut left) = (0, LONGEST);
    while left > 0 {
        let byte = match name {
            [byte, rest @ ..] => {
                name = rest;
                byte.to_ascii_lowercase()
            }
            [] => 0,
        };
        number = number << 8 | byte as u128;
        left = left.saturating_sub(1);
    }
    number
}

/// The number of the command of that name. For constants: a name that no command has does not
/// compile there.
///
/// # Panics
/// If no command has the name.
#[must_use]
#[expect(clippy::panic, reason = "evaluated by the compiler")]
pub const fn number(name: &str) -> usize {
    let (mut number, mut left): (usize, &[u128]) = (0, &NAMES);
    let wanted = packed(name.as_bytes());
    while let [packed, rest @ ..] = left {
        if *packed == wanted && name.len() <= LONGEST {
            return number;
        }
        number = number.saturating_add(1);
        left = rest;
    }
    panic!("no command has this name")
}

impl Spec {
    /// The command of that name, in whatever case.
    #[inline]
    #[must_use]
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        if name.len() > LONGEST {
            return None;
        }
        let spec = SPECS.get(NAMES.binary_search(&packed(name)).ok()?)?;
        (spec.name.len() == name.len()).then_some(spec)
    }

    /// The number of its first subcommand.
    #[must_use]
    pub fn first_subcommand_number(&self) -> usize {
        let before = SPECS.iter().take(self.number).map(|spec| spec.subcommands.len());
        before.fold(COUNT, usize::saturating_add)
    }

    /// The number under which a request is counted: its subcommand's, if the command has some.
    /// `None`: the command has no such subcommand.
    #[must_use]
    pub fn number_of(&self, args: &[&[u8]]) -> Option<usize> {
        if self.subcommands.is_empty() || args.len() < 2 {
            return Some(self.number);
        }
        Some(self.first_subcommand_number().saturating_add(self.subcommand_place(args)?))
    }

    /// The numbers under which the command is counted: its own, and those of its subcommands.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        let first = self.first_subcommand_number();
        std::iter::once(self.number).chain((first..).take(self.subcommands.len()))
    }
}

/// The names of all commands that have the category, and behind those the names of all
/// subcommands.
#[must_use]
pub fn names_with(category: Category) -> Vec<String> {
    let has = |number: &usize| categories_of(*number).is_some_and(|own| own.has(category));
    (0..NUMBERS).filter(has).map(name_of).collect()
}

/// The numbers under which calls of that name are counted: a command with its subcommands, or one
/// subcommand, as in `config|get`.
#[must_use]
pub fn numbers_named(name: &[u8]) -> Vec<usize> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let (command, subcommand) = (parts.next().unwrap_or_default(), parts.next());
    match (Spec::find(command), subcommand) {
        (Some(spec), None) => spec.numbers().collect(),
        (Some(spec), Some(_)) if spec.subcommands.is_empty() => Vec::new(),
        (Some(spec), Some(subcommand)) => spec.number_of(&[command, subcommand]).into_iter().collect(),
        (None, _) => Vec::new(),
    }
}

/// The command that a number is of, and its subcommand if the number is of one.
#[must_use]
pub fn of_number(number: usize) -> Option<(&'static Spec, Option<&'static Subcommand>)> {
    if let Some(spec) = SPECS.get(number) {
        return Some((spec, None));
    }
    let subs = || SPECS.iter().flat_map(|spec| spec.subcommands.iter().map(move |sub| (spec, Some(sub))));
    subs().nth(number.checked_sub(COUNT)?)
}

/// Returns the categories of the command or subcommand with this number.
#[must_use]
pub fn categories_of(number: usize) -> Option<Categories> {
    let (spec, sub) = of_number(number)?;
    Some(sub.map_or(spec.categories, |sub| sub.categories_in(spec.group)))
}

/// Returns the name of the command or subcommand with this number, as in Redis: `get`,
/// `config|get`.
#[must_use]
pub fn name_of(number: usize) -> String {
    match of_number(number) {
        Some((spec, Some(sub))) => format!("{}|{}", spec.name, sub.name),
        Some((spec, None)) => spec.name.to_owned(),
        None => String::new(),
    }
}

/// Returns whether a request names a command, and the subcommand if it has two words.
pub(super) const fn has(mut words: &[&str]) -> bool {
    let [command, rest @ ..] = words else { return false };
    words = rest;
    match words {
        [] => number(command) < COUNT,
        [name] => {
            let mut left = subcommands_of(number(command));
            while let [sub, rest @ ..] = left {
                if packed(sub.name.as_bytes()) == packed(name.as_bytes()) && sub.name.len() == name.len() {
                    return true;
                }
                left = rest;
            }
            false
        }
        _ => false,
    }
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn subcommands_of(number: usize) -> &'static [Subcommand] {
    SPECS[number].subcommands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::commands::{Command, Cost, Isolation, Str};

    #[test]
    fn every_command_is_found_in_any_case() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        for (place, spec) in SPECS.iter().enumerate() {
            assert_eq!(spec.number, place, "{}", spec.name);
            for name in [spec.name.to_owned(), spec.name.to_ascii_uppercase()] {
                assert_eq!(Spec::find(name.as_bytes()).map(|found| found.name), Some(spec.name));
            }
        }
        for name in ["", "g", "gets", "incrbyfloatx", "aaaaaaaaaaaaaaaaaaaaaaaa", "get\0"] {
            assert!(Spec::find(name.as_bytes()).is_none(), "{name}");
        }
        const GET: usize = number("get");
        assert_eq!(SPECS[GET].command, Command::Str(Str::Get));
    }

    #[test]
    fn every_command_and_subcommand_has_a_number_of_its_own() {
        let mut met = vec![String::new(); NUMBERS];
        for spec in &SPECS {
            for number in spec.numbers() {
                assert_eq!(met[number], "", "{}", spec.name);
                met[number] = name_of(number);
            }
            for sub in spec.subcommands {
                let number = spec.number_of(&[spec.name.as_bytes(), sub.name.to_uppercase().as_bytes()]);
                assert_eq!(met[number.expect("it is there")], format!("{}|{}", spec.name, sub.name));
            }
            let other = spec.number_of(&[spec.name.as_bytes(), b"bogus"]);
            assert_eq!(other, spec.subcommands.is_empty().then_some(spec.number));
            assert_eq!(spec.number_of(&[spec.name.as_bytes()]), Some(spec.number));
        }
        assert!(met.iter().all(|name| !name.is_empty()));
    }

    #[test]
    fn rows_agree_with_themselves() {
        for spec in &SPECS {
            assert!(spec.summary.ends_with('.'), "{}", spec.name);
            assert!(!(spec.writes() && spec.has_flag("readonly")), "{}", spec.name);
            // What writes several keys and is not alone must at least be seen as a whole, and a
            // command that moves keys about must be alone.
            let touches_several = spec.keys.len() > 1 || spec.has_several_keys(9);
            if spec.writes() && touches_several {
                assert_ne!(spec.isolation, Isolation::Shared, "{}", spec.name);
            }
            // What Redis calls slow about collections costs as much as they have, but for two that
            // find one element by its index.
            let is_of_collections = ["hash", "list", "set", "sorted-set"].contains(&spec.group.name);
            if is_of_collections && !spec.has_flag("fast") && !["lindex", "lset"].contains(&spec.name) {
                assert!(matches!(spec.cost, Cost::Collections(_)), "{}", spec.name);
            }
            for flag in spec.keys.iter().flat_map(|keys| keys.flags.split(' ')) {
                let is_write = ["update", "insert", "delete"].contains(&flag);
                assert!(!is_write || spec.writes(), "{}: {flag}", spec.name);
            }
        }
    }
}
