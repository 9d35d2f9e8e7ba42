//! The places of keys in a request, and what becomes of each: key specifications, as `COMMAND INFO`
//! of Redis 7.0 has them.

use super::is;
use super::spec::Spec;
use crate::resp::number;

/// The beginning of a search for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(i8),
    /// At a place that the note explains.
    Unknown,
}

/// Which arguments from there on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Those up to the last one, which is counted from the first or, below zero, from the end of
    /// the request.
    Range {
        /// The last one.
        last: i8,
        /// The step from key to key.
        step: i8,
    },
    /// As many as the first of them says; the keys follow it.
    Counted,
    /// Those that the note says.
    Unknown,
    /// The destination of `SORT`, which Redis calls unknown, too.
    SortDestination,
}

/// Keys of a command.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// The access to them, in Redis's words, with a space between the words.
    pub flags: &'static str,
    /// The beginning.
    pub begin: Begin,
    /// The selection from there on.
    pub find: Find,
    /// An explanation; most have none, and it is empty.
    pub note: &'static str,
    varies: Option<Varies>,
    depends: Option<Depends>,
}

/// The options with which a request that writes a key depends on what was there before.
#[derive(Clone, Copy, Debug)]
struct Depends {
    /// The request has one of them, or has none.
    with: bool,
    options: &'static [&'static str],
}

impl Depends {
    /// The first place at which an option can be.
    const FROM: usize = 3;

    fn applies(&self, args: &[&[u8]]) -> bool {
        let is_option = |argument: &&[u8]| self.options.iter().any(|option| is(argument, option));
        args.iter().skip(Self::FROM).any(is_option) == self.with
    }
}

/// The access to a key that one of the options of a request decides on.
#[derive(Clone, Copy, Debug)]
struct Varies {
    options: &'static [&'static str],
    /// The first place at which an option can be.
    from: usize,
    with: &'static str,
    without: &'static str,
}

impl KeySpec {
    const fn new(flags: &'static str, begin: Begin, find: Find) -> Self {
        Self { flags, begin, find, note: "", varies: None, depends: None }
    }

    const fn range(index: i8, flags: &'static str, last: i8, step: i8) -> Self {
        Self::new(flags, Begin::Index(index), Find::Range { last, step })
    }

    /// The one at `index`.
    pub(super) const fn at(index: i8, flags: &'static str) -> Self {
        Self::range(index, flags, 0, 1)
    }

    /// The one at `index`, and the next.
    pub(super) const fn two_from(index: i8, flags: &'static str) -> Self {
        Self::range(index, flags, 1, 1)
    }

    /// All from `index` on.
    pub(super) const fn all_from(index: i8, flags: &'static str) -> Self {
        Self::range(index, flags, -1, 1)
    }

    /// The one at `index`, and every second one from there on.
    pub(super) const fn every_second_from(index: i8, flags: &'static str) -> Self {
        Self::range(index, flags, -1, 2)
    }

    /// Those behind their number, which is at `index`.
    pub(super) const fn counted_at(index: i8, flags: &'static str) -> Self {
        Self::new(flags, Begin::Index(index), Find::Counted)
    }

    /// Those that patterns of `SORT` name.
    pub(super) const BY_OR_GET: Self = Self::new("RO access", Begin::Unknown, Find::Unknown).note(
        "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
    );

    /// The key in which `SORT` stores its result.
    pub(super) const STORE: Self = Self::new("OW update", Begin::Unknown, Find::SortDestination).note(
        "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array",
    );

    /// With an explanation.
    pub(super) const fn note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }

    /// Depending on what was there before if the request has one of these options.
    pub(super) const fn depends_with(mut self, options: &'static [&'static str]) -> Self {
        self.depends = Some(Depends { with: true, options });
        self
    }

    /// Depending on what was there before unless the request has one of these options.
    pub(super) const fn depends_without(mut self, options: &'static [&'static str]) -> Self {
        self.depends = Some(Depends { with: false, options });
        self
    }

    /// With other flags depending on whether the request has one of these options.
    pub(super) const fn varies(
        mut self,
        options: &'static [&'static str],
        from: usize,
        with: &'static str,
        without: &'static str,
    ) -> Self {
        self.varies = Some(Varies { options, from, with, without });
        self
    }

    /// The flags for a request.
    fn flags_in(&self, args: &[&[u8]]) -> &'static str {
        let Some(Varies { options, from, with, without }) = self.varies else { return self.flags };
        let is_option = |argument: &&[u8]| options.iter().any(|option| is(argument, option));
        if args.iter().skip(from).any(is_option) { with } else { without }
    }

    /// The first and the last place, the latter below zero if counted from the end, and the step,
    /// if the keys lie in a range.
    const fn bounds(&self) -> Option<(i8, i8, i8)> {
        match (self.begin, self.find) {
            (Begin::Index(first), Find::Range { last, step }) => {
                let last = if last < 0 { last } else { first.saturating_add(last) };
                Some((first, last, step))
            }
            _ => None,
        }
    }
}

/// None.
pub(super) const NO_KEYS: &[KeySpec] = &[];
/// One, of which only existence, type or length is read.
pub(super) const LOOKS: &[KeySpec] = &[KeySpec::at(1, "RO")];
/// One, which is read.
pub(super) const READS: &[KeySpec] = &[KeySpec::at(1, "RO access")];
/// One, which is read and written.
pub(super) const MODIFIES: &[KeySpec] = &[KeySpec::at(1, "RW access update")];
/// One, which is changed and not returned.
pub(super) const UPDATES: &[KeySpec] = &[KeySpec::at(1, "RW update")];
/// One, which is added to.
pub(super) const INSERTS: &[KeySpec] = &[KeySpec::at(1, "RW insert")];
/// One, of which something is returned and removed.
pub(super) const TAKES: &[KeySpec] = &[KeySpec::at(1, "RW access delete")];
/// One, of which something is removed.
pub(super) const DELETES: &[KeySpec] = &[KeySpec::at(1, "RW delete")];
/// One, which is replaced.
pub(super) const OVERWRITES: &[KeySpec] = &[KeySpec::at(1, "OW update")];

/// Returns the first key's place, the last one's and the step of all ranges together, as `COMMAND`
/// reports them; zeros without a range.
pub(super) const fn range_of(mut keys: &[KeySpec]) -> (i8, i8, i8) {
    let mut all = (0, 0, 0);
    while let [spec, rest @ ..] = keys {
        if let Some((first, last, step)) = spec.bounds() {
            all = (if all.0 == 0 { first } else { all.0 }, last, step);
        }
        keys = rest;
    }
    all
}

impl Spec {
    /// Returns whether any argument of a request is, or may be, a key.
    #[must_use]
    pub fn has_keys(&self, args: &[&[u8]]) -> bool {
        self.range.0 != 0 || self.counts_keys_at().is_some() || self.names_key_of_subcommand(args)
    }

    /// Returns whether the request is one of a subcommand that has a key.
    fn names_key_of_subcommand(&self, args: &[&[u8]]) -> bool {
        let named = self.subcommand_place(args).and_then(|place| self.subcommands.get(place));
        args.len() > 2 && named.is_some_and(|named| named.has_key)
    }

    /// Returns the places of a request's keys, as `COMMAND GETKEYS` reports them. `None`: the
    /// request counts its keys wrongly.
    #[must_use]
    pub fn told_places(&self, args: &[&[u8]]) -> Option<Vec<usize>> {
        if self.names_key_of_subcommand(args) { Some(vec![2]) } else { self.places_in(args) }
    }

    /// The places of the keys that a user must be allowed to access: those of subcommands, too. A
    /// request that counts its keys wrongly has none: it will be refused.
    #[must_use]
    pub fn guarded_places(&self, args: &[&[u8]]) -> Vec<usize> {
        if self.subcommands.iter().any(|known| known.has_key) {
            return if args.len() > 2 { vec![2] } else { Vec::new() };
        }
        self.places_in(args).unwrap_or_default()
    }

    /// Returns whether a request reads the value of its `nth` key, and whether it changes the
    /// value. It does neither if it asks for existence, type or length alone.
    #[must_use]
    pub fn access(&self, nth: usize, args: &[&[u8]]) -> (bool, bool) {
        let flags = self.key_flags(nth, args);
        let has = |wanted: &[&str]| flags.split(' ').any(|flag| wanted.contains(&flag));
        (has(&["access"]), has(&["update", "insert", "delete"]))
    }

    /// Returns whether a request writes its `nth` key whatever was there before: neither its effect
    /// nor its reply depends on that.
    #[must_use]
    pub fn overwrites(&self, nth: usize, args: &[&[u8]]) -> bool {
        let depends = self.key_spec(nth).and_then(|keys| keys.depends);
        self.key_flags(nth, args) == "OW update" && !depends.is_some_and(|depends| depends.applies(args))
    }

    /// The access of a request to its `nth` key, in Redis's words.
    #[must_use]
    pub fn key_flags(&self, nth: usize, args: &[&[u8]]) -> &'static str {
        if self.subcommands.iter().any(|known| known.has_key) {
            return "RO";
        }
        let found = self.key_spec(nth);
        let unknown = if self.writes() { "RW access update" } else { "RO access" };
        found.map_or(unknown, |keys| keys.flags_in(args))
    }

    /// The specification of the `nth` key: the first has one of its own, if there are several.
    fn key_spec(&self, nth: usize) -> Option<&'static KeySpec> {
        if nth == 0 { self.keys.first() } else { self.keys.last() }
    }

    /// The place of the number of keys, behind which the keys follow.
    fn counts_keys_at(&self) -> Option<usize> {
        self.keys.iter().find_map(|keys| match (keys.begin, keys.find) {
            (Begin::Index(at), Find::Counted) => usize::try_from(at).ok(),
            _ => None,
        })
    }

    /// The places of the keys in a request. `None`: the request counts them wrongly.
    #[must_use]
    pub fn places_in(&self, args: &[&[u8]]) -> Option<Vec<usize>> {
        let mut places: Vec<usize> = self.key_places(args.len()).collect();
        if let Some(at) = self.counts_keys_at() {
            let first = at.saturating_add(1);
            let count = number(args.get(at)?)?;
            let end = usize::try_from(count).ok().filter(|count| *count > 0)?.checked_add(first)?;
            if end > args.len() {
                return None;
            }
            places.extend(first..end);
        }
        if self.keys.iter().any(|keys| keys.find == Find::SortDestination) {
            places.extend(destination_of_sort(args));
        }
        Some(places)
    }

    /// The places of the keys that lie in a range, in a request of that many arguments.
    pub fn key_places(&self, args: usize) -> impl Iterator<Item = usize> {
        let (first, last, step) = self.range;
        let last = if last < 0 {
            args.saturating_sub(usize::from(last.unsigned_abs()))
        } else {
            usize::from(last.unsigned_abs())
        };
        let end = if first == 0 { 0 } else { last.saturating_add(1) };
        (usize::from(first.unsigned_abs())..end).step_by(usize::from(step.unsigned_abs()).max(1))
    }
}

/// Returns the place of the key in which `SORT` stores its result: behind the last `STORE` that is
/// not an argument of another option.
fn destination_of_sort(args: &[&[u8]]) -> Option<usize> {
    let (mut at, mut found) = (2_usize, None);
    while let Some(option) = args.get(at) {
        let behind = at.saturating_add(1);
        if is(option, "STORE") && behind < args.len() {
            found = Some(behind);
        }
        let words = if is(option, "LIMIT") {
            3
        } else if is(option, "BY") || is(option, "GET") || is(option, "STORE") {
            2
        } else {
            1
        };
        at = at.saturating_add(words);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(request: &str) -> Option<Vec<usize>> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        Spec::find(args[0]).expect("a command").places_in(&args)
    }

    #[test]
    fn keys_are_found_in_ranges_by_number_and_behind_options() {
        for (request, expected) in [
            ("get k", &[1][..]),
            ("mset a 1 b 2", &[1, 3]),
            ("del a b c", &[1, 2, 3]),
            ("copy a b", &[1, 2]),
            ("lcs a b", &[1, 2]),
            ("bitop and d a b", &[2, 3, 4]),
            ("sinterstore d a b", &[1, 2, 3]),
            ("zunionstore d 2 a b weights 1 2", &[1, 3, 4]),
            ("zinter 2 a b withscores", &[2, 3]),
            ("sort k by store get # store d", &[1, 7]),
            ("ping", &[]),
        ] {
            assert_eq!(places(request).as_deref(), Some(expected), "{request}");
        }
        for request in
            ["zinter 3 a b", "zinter 0 a", "zinter x a", "zinter -1 a", "lmpop 9223372036854775807 a left"]
        {
            assert_eq!(places(request), None, "{request}");
        }
    }

    #[test]
    fn options_change_what_a_request_does_to_its_key() {
        let access = |request: &str| {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            Spec::find(args[0]).expect("a command").access(0, &args)
        };
        for (request, expected) in [
            ("set k v", (false, true)),
            ("set k get", (false, true)),
            ("set k v get", (true, true)),
            ("bitfield k get u8 0", (true, false)),
            ("bitfield k incrby u8 0 1", (true, true)),
            ("exists k", (false, false)),
            ("object encoding k", (false, false)),
            ("memory usage k", (false, false)),
            ("get k", (true, false)),
            ("lpop k", (true, true)),
        ] {
            assert_eq!(access(request), expected, "{request}");
        }
    }

    #[test]
    fn what_overwrites_depends_on_nothing_that_was_there() {
        for (request, nth, overwrites) in [
            ("SET k v", 0, true),
            ("set nx xx ex 5", 0, true),
            ("SET k v EX 5 nx", 0, false),
            ("SET k v XX", 0, false),
            ("SET k v KEEPTTL", 0, false),
            ("SET k v GET", 0, false),
            ("MSET a 1 b 2", 1, true),
            ("MSETNX a 1 b 2", 1, false),
            ("GETSET k v", 0, false),
            ("COPY a b", 1, false),
            ("COPY a b REPLACE", 0, false),
            ("COPY a b REPLACE", 1, true),
            ("RENAME a b", 0, false),
            ("RENAME a b", 1, true),
            ("RENAMENX a b", 1, false),
            ("BITOP AND d a b", 0, true),
            ("BITOP AND d a b", 1, false),
            ("APPEND k v", 0, false),
            ("SETEX k 5 v", 0, true),
            ("DEL k", 0, false),
        ] {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let spec = Spec::find(args[0]).expect("a command");
            assert_eq!(spec.overwrites(nth, &args), overwrites, "{request}, key {nth}");
        }
    }
}
