//! From a request to the command that answers it: what must hold before a command is executed, and
//! how it is kept apart from others.

use frontend::bringing::Needed;
use frontend::turn::Next;
use millpond::secondary::RetainedKey;
use protocol::http;
use protocol::resp::commands::{
    BadSubcommand, Command, Connection, Cost, Generic, Isolation, Spec, Transactions,
};
use protocol::resp::reply;
use tenancy::metrics::Counter;

use super::active_turn::{ActiveTurn, Done};
use super::client::Replies;
use super::introspect;
use super::listing::Walk;
use super::transaction::for_each_request;
use super::writer::Failure;

impl<'c, 'i> ActiveTurn<'_, 'c, 'i> {
    /// Looks the command up, checks it, and carries it out or keeps it for later.
    pub(super) fn execute(&mut self, args: &[&[u8]]) -> Done {
        let name = args.first().copied().unwrap_or_default();
        let Some(spec) = Spec::find(name) else {
            if http::is_first_word(name) {
                return Done::Ends(self.commands.refuse_http());
            }
            self.abort_transaction();
            self.commands.counters.add(Counter::RefusedLine, 1);
            self.fail(&introspect::unknown_command(args));
            return Done::Yes;
        };
        if !spec.takes(args.len()) {
            let failure = if spec.command == Command::Transactions(Transactions::Exec) {
                self.commands.abort()
            } else {
                Failure::wrong_number(spec.name)
            };
            return self.reject(spec, args, &failure);
        }
        if let Err(bad) = spec.check_subcommand(args) {
            let failure = match bad {
                BadSubcommand::Unknown => {
                    Failure::unknown_subcommand(spec.name, args.get(1).copied().unwrap_or_default())
                }
                BadSubcommand::WrongNumber(name) => Failure::wrong_number(&format!("{}|{name}", spec.name)),
            };
            return self.reject(spec, args, &failure);
        }
        if self.commands.identity.is_restricted
            && let Err(failure) = self.commands.may(spec, args)
        {
            return self.reject(spec, args, &failure);
        }
        match self.commands.leads_elsewhere(spec, args) {
            Ok(None) => {}
            Ok(Some(account)) => {
                self.moves_to = Some(account);
                return Done::Later;
            }
            Err(failure) => return self.reject(spec, args, &failure),
        }
        if self.commands.client.transaction.is_some() && !spec.is_immediate {
            let result = self.commands.queue(args);
            match result {
                Ok(()) => self.output.write(reply::QUEUED),
                Err(failure) => self.fail(&failure),
            }
            return Done::Yes;
        }
        if let Some(failure) = self.commands.forbidden_by_subscription(spec, args) {
            return self.reject(spec, args, &failure);
        }
        if self.hands_over() && self.commands.is_slow(spec, args) {
            return Done::Slow;
        }
        self.has_introspection_reply = spec.cost == Cost::Report;
        if !self.commands.shared.cache.has_secondary() {
            return self.carry_out_command(spec, args);
        }
        let Some(kept) = self.bring(spec, args) else { return Done::Bring };
        let done = self.carry_out_command(spec, args);
        drop(kept);
        done
    }

    /// Brings the items of a command's keys into memory, for EXEC those of all commands that were
    /// queued, for SORT those that its patterns name. Keeps them there as long as the result is
    /// held; `None`: some are on their way.
    fn bring(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Option<Vec<RetainedKey<'c>>> {
        let place = (self.commands.shared, &**self.commands.info);
        let space = self.commands.keys();
        let keys = self.keys_to_bring(spec, args);
        let kept = self.bringing.bring(place, space, &keys)?;
        if !is_sort(spec) && spec.command != Command::Transactions(Transactions::Exec) {
            return Some(kept);
        }
        // A collection whose elements name keys may have come since.
        let again = self.keys_to_bring(spec, args);
        if again.iter().all(|needed| keys.binary_search(needed).is_ok()) {
            return Some(kept);
        }
        self.bringing.bring(place, space, &again)
    }

    /// The keys whose items a command needs, in order, each once.
    fn keys_to_bring(&self, spec: &'static Spec, args: &[&[u8]]) -> Vec<Needed> {
        let keys_of = |spec: &Spec, args: &[&[u8]]| -> Vec<Needed> {
            let places = spec.guarded_places(args);
            let needed = places.iter().enumerate().filter(|(nth, _)| !spec.overwrites(*nth, args));
            let mut keys: Vec<Needed> = needed
                .filter_map(|(nth, place)| {
                    let (_, is_written) = spec.access(nth, args);
                    Some(Needed { key: args.get(*place)?.to_vec(), is_written })
                })
                .collect();
            if is_sort(spec) {
                let named = self.commands.keys_of_patterns(args).into_iter();
                keys.extend(named.map(|key| Needed { key, is_written: false }));
            }
            keys
        };
        let mut keys = keys_of(spec, args);
        if spec.command == Command::Transactions(Transactions::Exec)
            && let Some(transaction) = &self.commands.client.transaction
        {
            let watched = self.commands.client.watched.iter();
            keys.extend(watched.map(|watched| Needed { key: watched.key.to_vec(), is_written: false }));
            for_each_request(&transaction.requests, |args| {
                if let Some(spec) = args.first().and_then(|name| Spec::find(name)) {
                    keys.extend(keys_of(spec, args));
                }
            });
        }
        // Those that are written come last of the same key.
        keys.sort_unstable();
        keys.dedup_by(|later, kept| {
            let is_same = later.key == kept.key;
            kept.is_written |= is_same && later.is_written;
            is_same
        });
        keys
    }

    /// Carries a command out that has been checked.
    pub(super) fn carry_out_command(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Done {
        let has_several = || spec.has_several_keys(args.len());
        match spec.isolation {
            Isolation::Exclusive => return self.exclusively(spec, args),
            Isolation::WritesSeveral if has_several() => return self.write_several(spec, args),
            Isolation::ReadsSeveral if has_several() => return self.read_several(spec, args),
            Isolation::Shared | Isolation::WritesSeveral | Isolation::ReadsSeveral => {}
        }
        if let Some(walk) = Walk::of(spec.command)
            && self.commands.client.replies == Replies::On
        {
            match self.commands.begin_listing(walk, args) {
                Ok(listing) => *self.listing = Some(listing),
                Err(failure) => {
                    self.fail(&failure);
                    self.commands.count_call(spec.number, &Err(failure));
                }
            }
            return Done::Yes;
        }
        if spec.command == Command::Connection(Connection::Quit) {
            self.output.write(reply::OK);
            return Done::Ends(Next::Close(Counter::ClosedByQuit));
        }
        self.commands.run(spec, args, self.output);
        Done::Yes
    }

    /// Rejects a command with `failure`. If a transaction is open, it is aborted too.
    pub(super) fn reject(&mut self, spec: &Spec, args: &[&[u8]], failure: &Failure) -> Done {
        self.abort_transaction();
        spec.number_of(args).into_iter().for_each(|number| self.commands.count_rejected(number));
        self.fail(failure);
        Done::Yes
    }

    /// Carries a command out while nobody else is in the key space.
    pub(super) fn exclusively(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Done {
        let gate = &self.commands.pool.gate;
        // On a worker, closing the gate would wait for slow commands that have passed it.
        if !self.is_slow_thread && gate.has_slow() {
            return Done::Slow;
        }
        self.passed = None;
        let Some(closed) = gate.close() else { return Done::Later };
        self.commands.run(spec, args, self.output);
        drop(closed);
        self.passed = gate.pass();
        Done::Yes
    }
}

/// Returns whether a command may name further keys in elements of a collection.
fn is_sort(spec: &Spec) -> bool {
    matches!(spec.command, Command::Generic(Generic::Sort | Generic::SortRo))
}
