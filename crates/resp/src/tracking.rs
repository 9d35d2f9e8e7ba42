//! Client-side caching: `CLIENT TRACKING` and what belongs to it, and the one channel that there is
//! ([`frontend::tracking`]).

use std::sync::Arc;

use millpond::watch::set_author;
use protocol::resp::{Version, number, reply};

use super::arguments::{arg, is};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use frontend::connections::ConnectionInfo;
use frontend::tracking::{CHANNEL, Space, Wish};
use protocol::resp::commands::{Command, Connection, PubSub, Spec, name_of};

/// Which of the keys that a client reads are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Which {
    #[default]
    All,
    /// Those that are read by the command after `CLIENT CACHING YES`.
    OptIn,
    /// All but those that are read by the command after `CLIENT CACHING NO`.
    OptOut,
}

/// The tracking settings of a client.
#[derive(Clone, Default)]
pub(super) struct Tracks {
    which: Which,
    /// The choice by `CLIENT CACHING` for the next command, or for the transaction.
    caching: Option<bool>,
    no_loop: bool,
    redirect: Option<Arc<ConnectionInfo>>,
    /// Changes of keys that begin so are told, whatever the client has read.
    broadcast: Option<Vec<Box<[u8]>>>,
}

impl std::fmt::Debug for Tracks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracks").field("which", &self.which).finish_non_exhaustive()
    }
}

impl Tracks {
    fn remembers(&self) -> bool {
        self.broadcast.is_none()
            && match self.which {
                Which::All => true,
                Which::OptIn => self.caching == Some(true),
                Which::OptOut => self.caching != Some(false),
            }
    }

    /// On whose behalf the client with this number makes changes.
    pub(super) fn author(&self, id: u64) -> u64 {
        if self.no_loop { id } else { 0 }
    }

    pub(super) fn held_bytes(&self) -> usize {
        let prefixes = self.broadcast.iter().flatten();
        prefixes.map(|prefix| prefix.len() + size_of::<Box<[u8]>>()).sum()
    }
}

/// The options of `CLIENT TRACKING`.
fn options(words: &[&[u8]], commands: &Commands<'_, '_>) -> Result<(bool, Tracks), Failure> {
    let Some((how, mut rest)) = words.split_first() else { return Err(Failure::SYNTAX) };
    let (mut tracks, mut prefixes, mut is_broadcast) = (Tracks::default(), Vec::new(), false);
    let (mut is_in, mut is_out) = (false, false);
    while let Some((option, behind)) = rest.split_first() {
        rest = behind;
        match (option, behind) {
            (option, [id, behind @ ..]) if is(option, "REDIRECT") => {
                if tracks.redirect.is_some() {
                    return Err(Failure::new("ERR A client can only redirect to a single other client"));
                }
                let id = number(id).ok_or(Failure::NOT_AN_INTEGER)?;
                // Whether there is another tenant's is nobody's business.
                let tenant = commands.info.named().tenant.clone();
                let mut all = commands.shared.registry.list().into_iter();
                let found = all.find(|info| info.id as i64 == id && info.named().tenant == tenant);
                let gone = Failure::new("ERR The client ID you want redirect to does not exist");
                tracks.redirect = Some(found.ok_or(gone)?);
                rest = behind;
            }
            (option, [prefix, behind @ ..]) if is(option, "PREFIX") => {
                prefixes.push(Box::from(*prefix));
                rest = behind;
            }
            (option, _) if is(option, "BCAST") => is_broadcast = true,
            (option, _) if is(option, "OPTIN") => is_in = true,
            (option, _) if is(option, "OPTOUT") => is_out = true,
            (option, _) if is(option, "NOLOOP") => tracks.no_loop = true,
            _ => return Err(Failure::SYNTAX),
        }
    }
    let is_on = match how {
        how if is(how, "ON") => true,
        how if is(how, "OFF") => false,
        _ => return Err(Failure::SYNTAX),
    };
    if !is_on {
        return Ok((false, tracks));
    }
    let before = commands.client.tracking.as_ref();
    if !is_broadcast && !prefixes.is_empty() {
        return Err(Failure::new("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    if is_broadcast && !commands.identity.user.rules.has_all_keys() {
        // It would receive notifications of keys that it may not read.
        return Err(Failure::new("NOPERM this user has no permissions to track all keys with a prefix"));
    }
    tracks.which = which(before, is_broadcast, (is_in, is_out))?;
    if is_broadcast {
        let had = before.and_then(|before| before.broadcast.clone()).unwrap_or_default();
        tracks.broadcast = Some(joined(had, prefixes)?);
    }
    Ok((true, tracks))
}

/// Which keys are remembered, as the options say and as they may after those that hold already.
fn which(
    before: Option<&Tracks>,
    is_broadcast: bool,
    (is_in, is_out): (bool, bool),
) -> Result<Which, Failure> {
    if before.is_some_and(|before| before.broadcast.is_some() != is_broadcast) {
        return Err(Failure::new(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with \
             a different mode.",
        ));
    }
    if is_broadcast && (is_in || is_out) {
        return Err(Failure::new("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if is_in && is_out {
        return Err(Failure::new("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    let was = before.map_or(Which::All, |before| before.which);
    if (is_in && was == Which::OptOut) || (is_out && was == Which::OptIn) {
        return Err(Failure::new(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with \
             a different mode.",
        ));
    }
    Ok(match (is_in, is_out) {
        (true, _) => Which::OptIn,
        (_, true) => Which::OptOut,
        _ => Which::All,
    })
}

/// The prefixes that a client has, and those that it names, none of which may be the beginning of
/// another.
fn joined(mut had: Vec<Box<[u8]>>, named: Vec<Box<[u8]>>) -> Result<Vec<Box<[u8]>>, Failure> {
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let refuse = |prefix: &[u8], which: &str, other: &[u8]| {
        let words: [&[u8]; 7] = [
            b"ERR Prefix '",
            prefix,
            b"' overlaps with ",
            which.as_bytes(),
            b" prefix '",
            other,
            b"'. Prefixes for a single client must not overlap.",
        ];
        Failure(words.concat().into())
    };
    for (place, prefix) in named.iter().enumerate() {
        if let Some(other) = had.iter().find(|other| overlap(prefix, other)) {
            return Err(refuse(prefix, "an existing", other));
        }
        if let Some(other) = named.iter().skip(place + 1).find(|other| overlap(prefix, other)) {
            return Err(refuse(prefix, "another provided", other));
        }
    }
    had.extend(named);
    Ok(had)
}

impl<'c> Commands<'_, 'c> {
    /// `CLIENT TRACKING`, `CACHING`, `GETREDIR` and `TRACKINGINFO`.
    pub(super) fn track(&mut self, what: &str, words: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        match what {
            "tracking" => {
                let (is_on, tracks) = options(words, self)?;
                if is_on {
                    self.begin_tracking(tracks)?
                } else {
                    self.end_tracking()
                }
                w.ok();
            }
            "caching" => {
                self.note_caching(arg(words, 0))?;
                w.ok();
            }
            "getredir" => w.integer(match &self.client.tracking {
                None => -1,
                Some(tracks) => tracks.redirect.as_ref().map_or(0, |target| target.id as i64),
            }),
            _ => self.tell_tracking(w),
        }
        Ok(())
    }

    fn begin_tracking(&mut self, tracks: Tracks) -> Outcome {
        if self.directory.is_some() {
            return Err(Failure::new(
                "ERR keys are several tenants' here, by their prefixes: tracking is for the listeners of one",
            ));
        }
        let wish = Wish {
            broadcast: tracks.broadcast.clone(),
            no_loop: tracks.no_loop,
            redirect: tracks.redirect.clone(),
            space: Space::of(self.pool),
        };
        self.shared.tracking.begin(self.shared, self.info, wish)?;
        set_author(tracks.author(self.info.id));
        self.info.named().redirect = Some(tracks.redirect.as_ref().map_or(0, |target| target.id as i64));
        self.client.tracking = Some(tracks);
        Ok(())
    }

    /// The client is told nothing any more.
    pub(super) fn end_tracking(&mut self) {
        if self.client.tracking.take().is_some() {
            self.shared.tracking.end(self.shared, self.info.id);
            self.info.named().redirect = None;
            set_author(0);
        }
    }

    fn note_caching(&mut self, how: &[u8]) -> Outcome {
        let Some(tracks) = self.client.tracking.as_mut().filter(|tracks| tracks.which != Which::All) else {
            return Err(Failure::new(
                "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ));
        };
        tracks.caching = Some(match (how, tracks.which) {
            (how, Which::OptIn) if is(how, "YES") => true,
            (how, Which::OptOut) if is(how, "NO") => false,
            (how, _) if is(how, "YES") => {
                return Err(Failure::new(
                    "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
                ));
            }
            (how, _) if is(how, "NO") => {
                return Err(Failure::new(
                    "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
                ));
            }
            _ => return Err(Failure::SYNTAX),
        });
        Ok(())
    }

    fn tell_tracking(&self, w: &mut Writer<'_, 'c>) {
        let mut flags = Vec::new();
        let tracking = self.client.tracking.as_ref();
        flags.push(if tracking.is_some() { "on" } else { "off" });
        if let Some(tracks) = tracking {
            let named = [
                (tracks.broadcast.is_some(), "bcast"),
                (tracks.which == Which::OptIn, "optin"),
                (tracks.caching == Some(true), "caching-yes"),
                (tracks.which == Which::OptOut, "optout"),
                (tracks.caching == Some(false), "caching-no"),
                (tracks.no_loop, "noloop"),
                (tracks.redirect.as_ref().is_some_and(|target| target.is_closed()), "broken_redirect"),
            ];
            flags.extend(named.into_iter().filter(|(holds, _)| *holds).map(|(_, flag)| flag));
        }
        w.map(3);
        w.bulk(b"flags");
        w.set(flags.len());
        flags.into_iter().for_each(|flag| w.bulk(flag.as_bytes()));
        w.bulk(b"redirect");
        w.integer(tracking.map_or(-1, |tracks| tracks.redirect.as_ref().map_or(0, |info| info.id as i64)));
        w.bulk(b"prefixes");
        let prefixes = tracking.and_then(|tracks| tracks.broadcast.as_deref()).unwrap_or_default();
        w.array(prefixes.len());
        prefixes.iter().for_each(|prefix| w.bulk(prefix));
    }

    /// The client is about to read `key`.
    #[inline]
    pub(super) fn remember(&self, key: &[u8]) {
        if self.client.tracking.as_ref().is_some_and(Tracks::remembers) {
            let max = self.settings.max_tracked_keys;
            self.shared.tracking.remember(self.shared, self.pool, key, self.info.id, max);
        }
    }

    /// The client is about to read the keys of a command, if it is one that reads.
    pub(super) fn remember_all(&self, spec: &Spec, args: &[&[u8]]) {
        let tracks = self.client.tracking.as_ref();
        if tracks.is_some_and(Tracks::remembers) && spec.has_flag("readonly") {
            for place in spec.places_in(args).into_iter().flatten() {
                self.remember(arg(args, place));
            }
        }
    }

    /// A command was carried out: what `CLIENT CACHING` said holds for no other, but within a
    /// transaction.
    pub(super) fn end_caching(&mut self, command: Command) {
        let is_within = self.client.transaction.is_some() || self.client.is_executing;
        if let Some(tracks) = &mut self.client.tracking
            && !is_within
            && command != Command::Connection(Connection::Client)
        {
            tracks.caching = None;
        }
    }

    /// `SUBSCRIBE` and `UNSUBSCRIBE`, for the one channel that there is.
    pub(super) fn run_channel(&mut self, is_on: bool, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let channels = args.get(1..).unwrap_or_default();
        if is_on && channels.iter().any(|channel| *channel != CHANNEL) {
            return Err(Failure::new(
                "ERR there is no channel but __redis__:invalidate: messages cannot be published here",
            ));
        }
        let word = if is_on { "subscribe" } else { "unsubscribe" };
        let version = self.client.version;
        let mut tell = |channel: Option<&[u8]>, count: i64| {
            w.output.compose(|out| {
                reply::push(out, version, 3);
                reply::bulk(out, word.as_bytes());
                match channel {
                    Some(channel) => reply::bulk(out, channel),
                    None => reply::null(out, version),
                }
                reply::integer(out, count);
            });
        };
        let was_on = self.info.is_subscribed();
        for channel in channels {
            let stays = if *channel == CHANNEL { is_on } else { self.info.is_subscribed() };
            self.info.subscribe(stays);
            tell(Some(channel), i64::from(stays));
        }
        if channels.is_empty() {
            self.info.subscribe(false);
            tell(was_on.then_some(CHANNEL), 0);
        }
        Ok(())
    }

    /// Returns the reason why a command isn't allowed while a connection that speaks RESP2 has
    /// subscribed.
    pub(super) fn forbidden_by_subscription(&self, spec: &Spec, args: &[&[u8]]) -> Option<Failure> {
        let allowed = matches!(
            spec.command,
            Command::PubSub(PubSub::Subscribe | PubSub::Unsubscribe)
                | Command::Connection(Connection::Ping | Connection::Quit | Connection::Reset)
        );
        (self.client.version == Version::Resp2 && self.info.is_subscribed() && !allowed).then(|| {
            Failure::from_text(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
                 context",
                spec.number_of(args).map_or_else(|| spec.name.to_owned(), name_of)
            ))
        })
    }
}
