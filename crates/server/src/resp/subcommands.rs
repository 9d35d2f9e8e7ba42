//! The subcommands of commands that contain some, with how many arguments each takes: checked before a command is carried out, and before a
//! transaction keeps it.

use super::arguments::is;
use super::table::{Command, Spec};
use super::writer::{Failure, Outcome};

const ANY: usize = usize::MAX;

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
        Command::Client => &[
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
            ("reply", 1, 1),
            ("setinfo", 2, 2),
            ("setname", 1, 1),
            ("tracking", 1, ANY),
            ("trackinginfo", 0, 0),
        ],
        Command::Command => &[
            ("count", 0, 0),
            ("docs", 0, ANY),
            ("getkeys", 2, ANY),
            ("help", 0, 0),
            ("info", 0, ANY),
            ("list", 0, ANY),
        ],
        Command::Config => {
            &[("get", 1, ANY), ("help", 0, 0), ("resetstat", 0, 0), ("rewrite", 0, 0), ("set", 2, ANY)]
        }
        Command::Memory => &[("help", 0, 0), ("usage", 1, ANY)],
        Command::Object => {
            &[("encoding", 1, 1), ("freq", 1, 1), ("help", 0, 0), ("idletime", 1, 1), ("refcount", 1, 1)]
        }
        Command::SlowLog => &[("get", 0, ANY), ("help", 0, 0), ("len", 0, 0), ("reset", 0, 0)],
        _ => &[],
    }
}

/// Whether a request names a subcommand, where its command has some, and has as many arguments as that takes.
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

/// The subcommand that a request names, which was checked; none where the command stands alone.
pub(super) fn subcommand(command: Command, args: &[&[u8]]) -> &'static str {
    let is_it = |(known, ..): &&(&'static str, usize, usize)| args.get(1).is_some_and(|name| is(name, known));
    of(command).iter().find(is_it).map_or("", |(known, ..)| *known)
}
