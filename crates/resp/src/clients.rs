//! Other connections: `CLIENT LIST` and `CLIENT KILL`. A client sees those of its own tenant that
//! speak RESP.

use std::sync::Arc;

use protocol::resp::number;

use super::arguments::is;
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use frontend::connections::ConnectionInfo;
use frontend::described::{describe, local_of, peer_of};
use frontend::mailbox::Message;
use protocol::resp::commands::Spec;

/// The types of clients that `TYPE` accepts.
const TYPES: [&str; 5] = ["normal", "master", "replica", "slave", "pubsub"];

/// Which connections are to be closed.
#[derive(Clone, Copy, Debug)]
struct Filter<'x> {
    id: Option<u64>,
    kind: Option<&'static str>,
    user: Option<&'x [u8]>,
    peer: Option<&'x [u8]>,
    local: Option<&'x [u8]>,
    skips_own: bool,
}

impl<'x> Filter<'x> {
    const ALL: Self = Self { id: None, kind: None, user: None, peer: None, local: None, skips_own: true };

    /// One address, or pairs of what is asked and how it is to be.
    fn parse(args: &[&'x [u8]], is_user: impl Fn(&[u8]) -> bool) -> Result<Self, Failure> {
        if let [peer] = args {
            return Ok(Self { peer: Some(*peer), skips_own: false, ..Self::ALL });
        }
        let mut this = Self::ALL;
        let mut rest = args;
        while let [option, value, behind @ ..] = rest {
            rest = behind;
            if is(option, "ID") {
                let id = number(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                this.id = Some(id.ok_or(Failure::new("ERR client-id should be greater than 0"))?);
            } else if is(option, "TYPE") {
                this.kind = Some(type_named(value)?);
            } else if is(option, "USER") {
                if !is_user(value) {
                    return Err(Failure([b"ERR No such user '".as_slice(), value, b"'"].concat().into()));
                }
                this.user = Some(*value);
            } else if is(option, "ADDR") {
                this.peer = Some(*value);
            } else if is(option, "LADDR") {
                this.local = Some(*value);
            } else if is(option, "SKIPME") && (is(value, "YES") || is(value, "NO")) {
                this.skips_own = is(value, "YES");
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        if rest.is_empty() { Ok(this) } else { Err(Failure::SYNTAX) }
    }

    fn fits(&self, info: &ConnectionInfo) -> bool {
        self.id.is_none_or(|id| id == info.id)
            && self.kind.is_none_or(|kind| kind == kind_of(info))
            && self.user.is_none_or(|user| user == info.named().user.as_bytes())
            && self.peer.is_none_or(|peer| peer == peer_of(info).as_bytes())
            && self.local.is_none_or(|local| local == local_of(info).as_bytes())
    }
}

/// The type that a client names.
fn type_named(text: &[u8]) -> Result<&'static str, Failure> {
    TYPES
        .into_iter()
        .find(|known| is(text, known))
        .ok_or_else(|| Failure([b"ERR Unknown client type '".as_slice(), text, b"'"].concat().into()))
}

fn kind_of(info: &ConnectionInfo) -> &'static str {
    if info.is_subscribed() { "pubsub" } else { "normal" }
}

impl<'c> Commands<'_, 'c> {
    /// The connections that the client may know of.
    pub(super) fn clients(&self) -> Vec<Arc<ConnectionInfo>> {
        let own = self.info.named().tenant.clone();
        let mut all = self.shared.registry.list();
        all.retain(|info| {
            let named = info.named();
            named.resp != 0 && named.tenant == own && !info.is_closed()
        });
        all
    }

    /// Has what others are shown of the connection be that of the request `args`, which is being
    /// carried out.
    pub(super) fn publish(&self, args: &[&[u8]]) {
        let figures = &self.info.figures;
        let number = args.first().and_then(|name| Spec::find(name)).and_then(|spec| spec.number_of(args));
        number.into_iter().for_each(|number| figures.note_command(number));
        figures.note_queued(self.client.queued());
    }

    pub(super) fn list_clients(&self, filter: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let mut ids: Option<Vec<u64>> = None;
        let mut kind = None;
        match filter {
            [] => {}
            [option, name] if is(option, "TYPE") => kind = Some(type_named(name)?),
            [option, first, more @ ..] if is(option, "ID") => {
                let id = |text: &&[u8]| {
                    let id = number(text).ok_or(Failure::new("ERR Invalid client ID"))?;
                    Ok::<u64, Failure>(u64::try_from(id).unwrap_or(0))
                };
                ids =
                    Some(std::iter::once(first).chain(more).map(id).collect::<Result<Vec<u64>, Failure>>()?);
            }
            _ => return Err(Failure::SYNTAX),
        }
        let now = self.shared.clock.unix_secs();
        let mut text = String::new();
        for info in self.clients() {
            let is_wanted = ids.as_ref().is_none_or(|ids| ids.contains(&info.id));
            if is_wanted && kind.is_none_or(|kind| kind == kind_of(&info)) {
                text.push_str(&describe(&info, now));
            }
        }
        w.verbatim(text.as_bytes());
        Ok(())
    }

    /// Has connections closed: by their workers a moment later, the own one after the reply.
    pub(super) fn kill_clients(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        // A tenant is not told which users others have: to it, all that there may be exist.
        let has_several_tenants = self.shared.has_several_tenants();
        let is_known = |name: &str| has_several_tenants || self.shared.users.get(name).is_some();
        let is_user = |name: &[u8]| std::str::from_utf8(name).is_ok_and(is_known);
        let filter = Filter::parse(args, is_user)?;
        let mut killed = 0;
        for info in self.clients().into_iter().filter(|info| filter.fits(info)) {
            if info.id == self.info.id {
                if filter.skips_own {
                    continue;
                }
                self.client.is_leaving = true;
            } else {
                let Some((worker, token)) = info.place.get() else { continue };
                info.close();
                if let Some(worker) = self.shared.workers.get(*worker) {
                    worker.mailbox.send(Message::Close(*token));
                }
            }
            killed += 1;
        }
        match args {
            [_] if killed == 0 => return Err(Failure::new("ERR No such client")),
            [_] => w.ok(),
            _ => w.integer(killed),
        }
        Ok(())
    }
}
