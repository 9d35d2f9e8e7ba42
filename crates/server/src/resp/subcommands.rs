//! The subcommands of commands that contain some, with how many arguments each takes: checked
//! before a command is carried out, and before a transaction keeps it.

use super::arguments::is;
use super::table::{COUNT, Command, SPECS, Spec};
use super::writer::{Failure, Outcome};

const ANY: usize = usize::MAX;

/// The commands that contain some.
const CONTAINERS: &[Command] = &[
    Command::Acl,
    Command::Client,
    Command::Command,
    Command::Config,
    Command::Latency,
    Command::Memory,
    Command::Object,
    Command::PubSub,
    Command::SlowLog,
];

/// How many numbers there are: of each command, its place in the table, and behind those of each
/// subcommand.
pub(crate) const NUMBERS: usize = COUNT + count_before(CONTAINERS.len());

/// How many subcommands the first so many containers have.
const fn count_before(containers: usize) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < containers {
        count += of(CONTAINERS[at]).len();
        at += 1;
    }
    count
}

/// Those of `CLIENT`.
const CLIENT: &[(&str, usize, usize)] = &[
    ("caching", 1, 1),
    ("getname", 0, 0),
    ("getredir", 0, 0),
    ("help", 0, 0),
    ("id", 0, 0),
    ("info", 0, 0),
    ("kill", 1, ANY),
    ("list", 0, ANY),
    ("no-evict", 1, 1),
    ("no-touch", 1, 1),
    ("pause", 1, ANY),
    ("reply", 1, 1),
    ("setinfo", 2, 2),
    ("setname", 1, 1),
    ("tracking", 1, ANY),
    ("trackinginfo", 0, 0),
    ("unblock", 1, ANY),
    ("unpause", 0, 0),
];

/// Names, each with the fewest and the most arguments behind it.
const fn of(command: Command) -> &'static [(&'static str, usize, usize)] {
    match command {
        Command::Acl => &[
            ("cat", 0, 1),
            ("deluser", 1, ANY),
            ("dryrun", 2, ANY),
            ("genpass", 0, 1),
            ("getuser", 1, 1),
            ("help", 0, 0),
            ("list", 0, 0),
            ("load", 0, 0),
            ("log", 0, 1),
            ("save", 0, 0),
            ("setuser", 1, ANY),
            ("users", 0, 0),
            ("whoami", 0, 0),
        ],
        Command::Client => CLIENT,
        Command::Command => &[
            ("count", 0, 0),
            ("docs", 0, ANY),
            ("getkeys", 2, ANY),
            ("getkeysandflags", 2, ANY),
            ("help", 0, 0),
            ("info", 0, ANY),
            ("list", 0, ANY),
        ],
        Command::Config => {
            &[("get", 1, ANY), ("help", 0, 0), ("resetstat", 0, 0), ("rewrite", 0, 0), ("set", 2, ANY)]
        }
        Command::Latency => &[
            ("doctor", 0, 0),
            ("graph", 1, 1),
            ("help", 0, 0),
            ("histogram", 0, ANY),
            ("history", 1, 1),
            ("latest", 0, 0),
            ("reset", 0, ANY),
        ],
        Command::Memory => &[("help", 0, 0), ("usage", 1, ANY)],
        Command::Object => {
            &[("encoding", 1, 1), ("freq", 1, 1), ("help", 0, 0), ("idletime", 1, 1), ("refcount", 1, 1)]
        }
        Command::PubSub => &[
            ("channels", 0, ANY),
            ("help", 0, 0),
            ("numpat", 0, 0),
            ("numsub", 0, ANY),
            ("shardchannels", 0, ANY),
            ("shardnumsub", 0, ANY),
        ],
        Command::SlowLog => &[("get", 0, ANY), ("help", 0, 0), ("len", 0, 0), ("reset", 0, 0)],
        _ => &[],
    }
}

/// Whether a request names a subcommand, where its command has some, and has as many arguments as
/// that takes.
///
/// # Errors
/// As Redis refuses it.
pub(super) fn check(spec: &Spec, args: &[&[u8]]) -> Outcome {
    let (all @ [_, ..], [_, name, values @ ..]) = (of(spec.command), args) else { return Ok(()) };
    match all.iter().find(|(known, ..)| is(name, known)) {
        None => Err(Failure::unknown_subcommand(spec.name, name)),
        Some((_, least, most)) if (*least..=*most).contains(&values.len()) => Ok(()),
        Some((known, ..)) => Err(Failure::wrong_number(&format!("{}|{known}", spec.name))),
    }
}

/// The number of the first subcommand of a command that has some.
fn first_number(command: Command) -> Option<usize> {
    CONTAINERS.iter().position(|container| *container == command).map(|at| COUNT + count_before(at))
}

/// Under which number a request is counted: that of its subcommand, if it has one. `None`: there is
/// no such subcommand.
pub(super) fn number_of(spec: &Spec, args: &[&[u8]]) -> Option<usize> {
    let (all @ [_, ..], Some(name)) = (of(spec.command), args.get(1)) else { return Some(spec.number()) };
    let at = all.iter().position(|(known, ..)| is(name, known))?;
    Some(first_number(spec.command)? + at)
}

/// The numbers under which a command is counted: its own, and those of its subcommands.
pub(super) fn numbers(spec: &Spec) -> impl Iterator<Item = usize> {
    let first = first_number(spec.command).unwrap_or(0);
    std::iter::once(spec.number()).chain(first..first + of(spec.command).len())
}

/// The numbers under which what is called `name` is counted: a command with its subcommands, or one
/// of those.
pub(super) fn numbers_named(name: &[u8]) -> Vec<usize> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let (command, subcommand) = (parts.next().unwrap_or_default(), parts.next());
    match (Spec::find(command), subcommand) {
        (Some(spec), None) => numbers(spec).collect(),
        (Some(spec), Some(_)) if of(spec.command).is_empty() => Vec::new(),
        (Some(spec), Some(subcommand)) => number_of(spec, &[command, subcommand]).into_iter().collect(),
        (None, _) => Vec::new(),
    }
}

/// The name of what is counted under a number, as Redis has it: `get`, `config|get`.
pub(super) fn name_of(number: usize) -> String {
    if let Some(spec) = SPECS.get(number) {
        return spec.name.to_owned();
    }
    let mut left = number - COUNT;
    for spec in CONTAINERS.iter().filter_map(|command| SPECS.get(*command as usize)) {
        match of(spec.command).get(left) {
            Some((name, ..)) => return format!("{}|{name}", spec.name),
            None => left -= of(spec.command).len(),
        }
    }
    String::new()
}

/// The subcommand that a request names, which was checked; none where the command stands alone.
pub(super) fn subcommand(command: Command, args: &[&[u8]]) -> &'static str {
    let is_it = |(known, ..): &&(&'static str, usize, usize)| args.get(1).is_some_and(|name| is(name, known));
    of(command).iter().find(is_it).map_or("", |(known, ..)| *known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_subcommand_has_a_number_of_its_own() {
        let mut met = vec![String::new(); NUMBERS];
        for spec in &SPECS {
            let is_container = CONTAINERS.contains(&spec.command);
            assert_eq!(is_container, !of(spec.command).is_empty(), "{}", spec.name);
            for number in numbers(spec) {
                assert_eq!(met[number], "", "{}", spec.name);
                met[number] = name_of(number);
            }
            for (name, ..) in of(spec.command) {
                let number = number_of(spec, &[spec.name.as_bytes(), name.to_uppercase().as_bytes()]);
                assert_eq!(met[number.expect("it is there")], format!("{}|{name}", spec.name));
            }
            let other = number_of(spec, &[spec.name.as_bytes(), b"bogus"]);
            assert_eq!(other, (!is_container).then_some(spec.number()));
            assert_eq!(number_of(spec, &[spec.name.as_bytes()]), Some(spec.number()));
        }
        assert!(met.iter().all(|name| !name.is_empty()));
    }
}
