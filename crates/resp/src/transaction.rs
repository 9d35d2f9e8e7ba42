//! Transactions: `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.

use protocol::resp::{Limits, Parse, Parser};
use std::sync::atomic::Ordering;

use super::client::{Transaction, Watched};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use protocol::resp::commands::{Spec, Transactions};

impl<'c> Commands<'_, 'c> {
    /// Keeps a command for `EXEC`.
    pub(super) fn queue(&mut self, args: &[&[u8]]) -> Outcome {
        let max_bytes = self.settings.resp.max_request_bytes;
        let Some(transaction) = &mut self.client.transaction else { return Ok(()) };
        if transaction.queue(args, max_bytes) {
            return Ok(());
        }
        transaction.is_spoilt = true;
        Err(Failure::new("ERR the transaction is too long"))
    }

    pub(super) fn run_transaction(
        &mut self,
        command: Transactions,
        args: &[&[u8]],
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        match command {
            Transactions::Multi => {
                if self.client.transaction.is_some() {
                    return Err(Failure::new("ERR MULTI calls can not be nested"));
                }
                self.client.transaction = Some(Transaction::default());
                w.ok();
            }
            Transactions::Exec => return self.exec(w),
            Transactions::Discard => {
                if self.client.transaction.take().is_none() {
                    return Err(Failure::new("ERR DISCARD without MULTI"));
                }
                self.client.watched = Vec::new();
                w.ok();
            }
            Transactions::Watch => {
                if self.client.transaction.is_some() {
                    return Err(Failure::new("ERR WATCH inside MULTI is not allowed"));
                }
                self.watch(args.get(1..).unwrap_or_default())?;
                w.ok();
            }
            Transactions::Unwatch => {
                self.client.watched = Vec::new();
                w.ok();
            }
        }
        Ok(())
    }

    /// Forgets the transaction of an `EXEC` that has arguments.
    pub(super) fn abort(&mut self) -> Failure {
        self.client.transaction = None;
        self.client.watched = Vec::new();
        Failure::new(
            "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
        )
    }

    fn watch(&mut self, keys: &[&[u8]]) -> Outcome {
        for key in keys {
            if self.client.watched.iter().any(|watched| &*watched.key == *key) {
                continue;
            }
            if self.client.watched.len() >= super::client::MAX_QUEUED {
                return Err(Failure::new("ERR too many watched keys"));
            }
            let token = self.lasting_token(key);
            self.client.watched.push(Watched { key: (*key).into(), token, is_elsewhere: false });
        }
        Ok(())
    }

    /// Carries the transaction out. The key space is closed.
    fn exec(&mut self, w: &mut Writer<'_, 'c>) -> Outcome {
        let Some(transaction) = self.client.transaction.take() else {
            return Err(Failure::new("ERR EXEC without MULTI"));
        };
        let watched = std::mem::take(&mut self.client.watched);
        self.client.is_executing = true;
        let outcome = self.exec_queued(&transaction, &watched, w);
        self.client.is_executing = false;
        outcome
    }

    fn exec_queued(
        &mut self,
        transaction: &Transaction,
        watched: &[Watched],
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        if transaction.is_spoilt {
            return Err(Failure::new("EXECABORT Transaction discarded because of previous errors."));
        }
        let is_as_watched =
            |watched: &Watched| !watched.is_elsewhere && self.token(&watched.key) == watched.token;
        if !watched.iter().all(is_as_watched) {
            w.null_array();
            return Ok(());
        }
        w.array(transaction.count);
        let clock = &self.shared.clock;
        let mut since = self.is_timed.then(|| clock.monotonic_nanos());
        let worker = self.info.place.get().and_then(|(worker, _)| self.shared.workers.get(*worker));
        for_each_request(&transaction.requests, |args| {
            if let Some(worker) = worker {
                worker.steps.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(spec) = args.first().and_then(|name| Spec::find(name)) {
                // `HELLO` within a transaction changes what comes after it.
                w.version = self.client.version;
                match self.may_within(spec, args) {
                    Ok(()) => self.run(spec, args, w.output),
                    Err(failure) => {
                        self.count_error(&failure);
                        w.failure(&failure);
                    }
                }
                if let Some(before) = &mut since {
                    let now = clock.monotonic_nanos();
                    self.note_time(args, now.saturating_sub(*before));
                    *before = now;
                }
            }
        });
        Ok(())
    }
}

/// Calls `act` with each of the requests that a transaction keeps.
pub(super) fn for_each_request(requests: &[u8], mut act: impl FnMut(&[&[u8]])) {
    let most = usize::MAX >> 1;
    let mut parser = Parser::new(Limits {
        max_bulk_bytes: most,
        max_kept_bulk_bytes: most,
        max_request_bytes: most,
        ..Limits::default()
    });
    let mut rest = requests;
    while let Parse::Request { consumed } = parser.parse(rest) {
        let args: Vec<&[u8]> = (0..parser.arg_count()).filter_map(|index| parser.arg(rest, index)).collect();
        act(&args);
        rest = rest.get(consumed..).unwrap_or_default();
    }
}
