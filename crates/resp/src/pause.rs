//! `CLIENT PAUSE` and `UNPAUSE`: all clients of the tenant wait, or those that write.
//! `CLIENT UNBLOCK`.

use protocol::resp::number;

use super::arguments::{arg, integer, is};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use frontend::mailbox::Message;
use protocol::resp::commands::{Command, Spec, Transactions};
use tenancy::Paused;

impl<'c> Commands<'_, 'c> {
    pub(super) fn pause(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let paused = match args.get(3..).unwrap_or_default() {
            [] => Paused::All,
            [mode] if is(mode, "ALL") => Paused::All,
            [mode] if is(mode, "WRITE") => Paused::Writes,
            [_] => return Err(Failure::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
            _ => return Err(Failure::wrong_form("CLIENT", arg(args, 1))),
        };
        let millis = number(arg(args, 2));
        let millis = millis.ok_or(Failure::new("ERR timeout is not an integer or out of range"))?;
        let millis = u64::try_from(millis).map_err(|_| Failure::new("ERR timeout is negative"))?;
        let until = self.shared.clock.monotonic_nanos().saturating_add(millis.saturating_mul(1_000_000));
        self.account.tenant.pause.begin(until, paused);
        self.tell_of_pause();
        w.ok();
        Ok(())
    }

    pub(super) fn unpause(&mut self, w: &mut Writer<'_, 'c>) {
        self.account.tenant.pause.end();
        self.tell_of_pause();
        w.ok();
    }

    /// Applies the change to later requests of this turn, and has waiting connections look again.
    fn tell_of_pause(&self) {
        self.paused.set(self.account.tenant.pause.now(&self.shared.clock));
        self.shared.workers.iter().for_each(|worker| worker.mailbox.send(Message::LookAtPauses));
    }

    /// Returns whether a request must wait. The request that ends the pause never does.
    pub(super) fn must_wait(&self, args: &[&[u8]]) -> bool {
        let Some(paused) = self.paused.get() else { return false };
        let ends_it = is(arg(args, 0), "CLIENT") && is(arg(args, 1), "UNPAUSE");
        if ends_it || paused == Paused::All {
            return !ends_it;
        }
        let Some(spec) = Spec::find(arg(args, 0)) else { return false };
        let is_of_writes = self.client.transaction.as_ref().is_some_and(|begun| begun.has_writes);
        spec.writes() || (spec.command == Command::Transactions(Transactions::Exec) && is_of_writes)
    }

    /// Nobody is ever blocked.
    pub(super) fn unblock(&self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        match args.get(3..).unwrap_or_default() {
            [] => {}
            [reason] if is(reason, "TIMEOUT") || is(reason, "ERROR") => {}
            [_] => return Err(Failure::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
            _ => return Err(Failure::wrong_form("CLIENT", arg(args, 1))),
        }
        integer(arg(args, 2))?;
        w.integer(0);
        Ok(())
    }
}
