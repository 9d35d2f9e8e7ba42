//! The list of commands: `COMMAND`, from the table.

use super::arguments::subcommand;
use super::arguments::{arg, is};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use protocol::resp::commands::{Begin, Category, Find, KeySpec, NUMBERS, SPECS, Spec, name_of, names_with};
use protocol::resp::glob::matches;

/// Bytes of a name or of arguments that an error repeats.
const MAX_REPEATED_BYTES: usize = 128;

/// That there is no such command.
pub(super) fn unknown_command(args: &[&[u8]]) -> Failure {
    // As C reads a string, up to a zero.
    let start = |bytes: &[u8], len: usize| {
        bytes.iter().take(len).copied().take_while(|byte| *byte != 0).collect::<Vec<u8>>()
    };
    let mut text = b"ERR unknown command '".to_vec();
    text.extend(start(arg(args, 0), MAX_REPEATED_BYTES));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut repeated = Vec::new();
    for arg in args.iter().skip(1) {
        let Some(room) = MAX_REPEATED_BYTES.checked_sub(repeated.len()).filter(|room| *room > 0) else {
            break;
        };
        repeated.push(b'\'');
        repeated.extend(start(arg, room));
        repeated.extend_from_slice(b"' ");
    }
    text.extend(repeated);
    Failure(text.into())
}

impl<'c> Commands<'_, 'c> {
    pub(super) fn command(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let names = args.get(2..).unwrap_or_default();
        match subcommand(args) {
            "" => {
                w.array(SPECS.len());
                SPECS.iter().for_each(|spec| tell(spec, w));
            }
            "count" => w.integer(SPECS.len() as i64),
            "info" => {
                let all = names.is_empty();
                w.array(if all { SPECS.len() } else { names.len() });
                if all {
                    SPECS.iter().for_each(|spec| tell(spec, w));
                }
                for name in names {
                    match Spec::find(name) {
                        Some(spec) => tell(spec, w),
                        None => w.null(),
                    }
                }
            }
            "docs" => {
                let specs: Vec<&Spec> = if names.is_empty() {
                    SPECS.iter().collect()
                } else {
                    names.iter().filter_map(|name| Spec::find(name)).collect()
                };
                w.map(specs.len());
                specs.iter().for_each(|spec| document(spec, w));
            }
            "list" => list(names, w)?,
            "getkeys" => return keys_of(names, false, w),
            "getkeysandflags" => return keys_of(names, true, w),
            _ => w.help(args),
        }
        Ok(())
    }
}

fn tell(spec: &Spec, w: &mut Writer<'_, '_>) {
    let flags = || spec.flags.split(' ').filter(|flag| !flag.is_empty());
    w.array(10);
    w.bulk(spec.name.as_bytes());
    w.integer(spec.arity.into());
    w.set(flags().count());
    flags().for_each(|flag| w.simple(flag));
    let (first, last, step) = spec.range;
    [first, last, step].into_iter().for_each(|number| w.integer(number.into()));
    w.set(spec.categories.iter().count());
    spec.categories.iter().for_each(|category| w.simple(&format!("@{}", category.name())));
    w.set(spec.tips.len());
    spec.tips.iter().for_each(|tip| w.bulk(tip.as_bytes()));
    w.set(spec.keys.len());
    spec.keys.iter().for_each(|keys| tell_keys(keys, w));
    // Subcommands.
    w.set(0);
}

fn tell_keys(keys: &KeySpec, w: &mut Writer<'_, '_>) {
    w.map(if keys.note.is_empty() { 3 } else { 4 });
    if !keys.note.is_empty() {
        w.bulk(b"notes");
        w.bulk(keys.note.as_bytes());
    }
    w.bulk(b"flags");
    tell_flags(keys.flags, w);
    w.bulk(b"begin_search");
    match keys.begin {
        Begin::Index(index) => tell_search("index", &[("index", index)], w),
        Begin::Unknown => tell_search("unknown", &[], w),
    }
    w.bulk(b"find_keys");
    match keys.find {
        Find::Range { last, step } => {
            tell_search("range", &[("lastkey", last), ("keystep", step), ("limit", 0)], w);
        }
        Find::Counted => {
            tell_search("keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", 1)], w);
        }
        Find::Unknown | Find::SortDestination => tell_search("unknown", &[], w),
    }
}

fn tell_search(kind: &str, numbers: &[(&str, i8)], w: &mut Writer<'_, '_>) {
    w.map(2);
    w.bulk(b"type");
    w.bulk(kind.as_bytes());
    w.bulk(b"spec");
    w.map(numbers.len());
    for (name, number) in numbers {
        w.bulk(name.as_bytes());
        w.integer(i64::from(*number));
    }
}

/// Writes words as a set.
fn tell_flags(flags: &str, w: &mut Writer<'_, '_>) {
    w.set(flags.split(' ').count());
    flags.split(' ').for_each(|flag| w.simple(flag));
}

fn document(spec: &Spec, w: &mut Writer<'_, '_>) {
    w.bulk(spec.name.as_bytes());
    let has_some = !spec.subcommands.is_empty();
    w.map(3 + usize::from(has_some));
    describe([("summary", spec.summary), ("since", spec.since), ("group", spec.group.name)], w);
    if has_some {
        w.bulk(b"subcommands");
        w.map(spec.subcommands.len());
        for sub in spec.subcommands {
            w.bulk(format!("{}|{}", spec.name, sub.name).as_bytes());
            w.map(3);
            describe([("summary", sub.summary), ("since", sub.since), ("group", spec.group.name)], w);
        }
    }
}

fn describe(pairs: [(&str, &str); 3], w: &mut Writer<'_, '_>) {
    for (name, text) in pairs {
        w.bulk(name.as_bytes());
        w.bulk(text.as_bytes());
    }
}

/// The names of commands and subcommands.
fn list(filter: &[&[u8]], w: &mut Writer<'_, '_>) -> Outcome {
    let all = || (0..NUMBERS).map(name_of);
    let names: Vec<String> = match filter {
        [] => all().collect(),
        [by, kind, value] if is(by, "FILTERBY") && is(kind, "PATTERN") => {
            let pattern = value.to_ascii_lowercase();
            all().filter(|name| matches(&pattern, name.as_bytes())).collect()
        }
        [by, kind, value] if is(by, "FILTERBY") && is(kind, "ACLCAT") => {
            let name = String::from_utf8_lossy(value).to_ascii_lowercase();
            Category::named(&name).map(names_with).unwrap_or_default()
        }
        [by, kind, _] if is(by, "FILTERBY") && is(kind, "MODULE") => Vec::new(),
        _ => return Err(Failure::SYNTAX),
    };
    w.array(names.len());
    names.iter().for_each(|name| w.bulk(name.as_bytes()));
    Ok(())
}

fn keys_of(request: &[&[u8]], with_flags: bool, w: &mut Writer<'_, '_>) -> Outcome {
    let Some(spec) = Spec::find(arg(request, 0)) else {
        return Err(Failure::new("ERR Invalid command specified"));
    };
    if !spec.has_keys(request) {
        return Err(Failure::new("ERR The command has no key arguments"));
    }
    if !spec.takes(request.len()) {
        return Err(Failure::new("ERR Invalid number of arguments specified for command"));
    }
    let places = spec.told_places(request);
    let places = places.ok_or(Failure::new("ERR Invalid arguments specified for command"))?;
    let keys: Vec<&[u8]> = places.into_iter().map(|place| arg(request, place)).collect();
    w.array(keys.len());
    for (nth, key) in keys.iter().enumerate() {
        if with_flags {
            w.array(2);
            w.bulk(key);
            tell_flags(spec.key_flags(nth, request), w);
        } else {
            w.bulk(key);
        }
    }
    Ok(())
}
