//! Commands about the connection and the server's presence.

use frontend::described::describe;
use protocol::resp::commands::Connection;
use protocol::resp::{Version, number, reply};
use tenancy::users::Identity;

use super::arguments::{arg, integer, is, subcommand};
use super::client::{Client, Replies};
use super::commands::Commands;
use super::info::REDIS_VERSION;
use super::writer::{Failure, Outcome, Writer};

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_connection(
        &mut self,
        command: Connection,
        args: &[&[u8]],
        w: &mut Writer<'_, 'c>,
    ) -> Outcome {
        match command {
            Connection::Ping if self.info.is_subscribed() && w.version == Version::Resp2 => {
                w.array(2);
                w.bulk(b"pong");
                w.bulk(arg(args, 1));
            }
            Connection::Ping => match args.get(1..).unwrap_or_default() {
                [] => w.output.write(reply::PONG),
                [text] => w.bulk(text),
                _ => return Err(Failure::wrong_number("ping")),
            },
            Connection::Echo => w.bulk(arg(args, 1)),
            Connection::Hello => return self.hello(args, w),
            Connection::Auth => {
                self.authenticate(args.get(1..).unwrap_or_default())?;
                w.ok();
            }
            Connection::Select => {
                let number = integer(arg(args, 1))?;
                self.select(u32::try_from(number).map_err(|_| Failure::BAD_DATABASE)?)?;
                w.ok();
            }
            Connection::Reset => {
                *self.identity = Identity::new(&self.shared.users, self.info.listener.auth);
                self.select(0)?;
                self.end_tracking();
                self.info.subscribe(false);
                *self.client = Client::default();
                let mut named = self.info.named();
                (named.resp, named.name) = (2, Vec::new());
                named.user.clone_from(&self.identity.user.name);
                w.simple("RESET");
            }
            Connection::Client => return self.client_command(args, w),
            // The connection is closed once this has been sent.
            Connection::Quit => w.ok(),
        }
        Ok(())
    }

    fn hello(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let mut version = self.client.version;
        if let Some(wanted) = args.get(1) {
            version = match number(wanted) {
                Some(2) => Version::Resp2,
                Some(3) => Version::Resp3,
                Some(_) => return Err(Failure::new("NOPROTO unsupported protocol version")),
                None => return Err(Failure::new("ERR Protocol version is not an integer or out of range")),
            };
        }
        let (mut name, mut login) = (None, None);
        let mut rest = args.get(2..).unwrap_or_default();
        while let [option, behind @ ..] = rest {
            rest = match behind {
                [user, password, behind @ ..] if is(option, "AUTH") => {
                    login = Some([*user, *password]);
                    behind
                }
                [value, behind @ ..] if is(option, "SETNAME") => {
                    check_name(value)?;
                    name = Some(value.to_vec());
                    behind
                }
                _ => {
                    let text = [b"ERR Syntax error in HELLO option '".as_slice(), option, b"'"].concat();
                    return Err(Failure(text.into()));
                }
            };
        }
        if let Some(login) = login {
            self.authenticate(&login)?;
        }
        if !self.identity.is_authenticated {
            return Err(Failure::new(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
                 option can be used to authenticate the client and select the RESP protocol version at the same time",
            ));
        }
        self.client.version = version;
        w.version = version;
        let mut named = self.info.named();
        named.resp = version.number() as u8;
        if let Some(name) = name {
            named.name = name;
        }
        w.map(7);
        let text = |w: &mut Writer<'_, 'c>, name: &str, text: &str| {
            w.bulk(name.as_bytes());
            w.bulk(text.as_bytes());
        };
        text(w, "server", "redis");
        text(w, "version", REDIS_VERSION);
        w.bulk(b"proto");
        w.integer(version.number());
        w.bulk(b"id");
        w.integer(self.info.id as i64);
        text(w, "mode", "standalone");
        text(w, "role", "master");
        w.bulk(b"modules");
        w.array(0);
        Ok(())
    }

    pub(super) fn client_command(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let known = subcommand(args);
        let values = args.get(2..).unwrap_or_default();
        if matches!(known, "info" | "list") {
            self.publish(args);
        }
        match known {
            "id" => w.integer(self.info.id as i64),
            "getname" => {
                let name = self.info.named().name.clone();
                if name.is_empty() { w.null() } else { w.bulk(&name) }
            }
            "setname" => {
                check_name(arg(values, 0))?;
                self.info.named().name = arg(values, 0).to_vec();
                w.ok();
            }
            "setinfo" => {
                self.set_info(arg(values, 0), arg(values, 1))?;
                w.ok();
            }
            "info" => w.verbatim(describe(self.info, self.shared.clock.unix_secs()).as_bytes()),
            "list" => return self.list_clients(values, w),
            "kill" => return self.kill_clients(values, w),
            "pause" => return self.pause(args, w),
            "unpause" => self.unpause(w),
            "unblock" => return self.unblock(args, w),
            "tracking" | "caching" | "getredir" | "trackinginfo" => return self.track(known, values, w),
            "reply" => {
                self.client.replies = match arg(values, 0) {
                    how if is(how, "ON") => Replies::On,
                    how if is(how, "OFF") => Replies::Off,
                    how if is(how, "SKIP") => Replies::SkipNext,
                    _ => return Err(Failure::SYNTAX),
                };
                w.ok();
            }
            "help" => w.help(args),
            _ => {
                if !is(arg(values, 0), "ON") && !is(arg(values, 0), "OFF") {
                    return Err(Failure::SYNTAX);
                }
                w.ok();
            }
        }
        Ok(())
    }

    fn set_info(&self, what: &[u8], value: &[u8]) -> Outcome {
        let refused = |what: &str| {
            Failure::from_text(format!("ERR {what} cannot contain spaces, newlines or special characters."))
        };
        let is_plain = value.len() <= MAX_NAME_BYTES && value.iter().all(|byte| (b'!'..=b'~').contains(byte));
        let mut named = self.info.named();
        if is(what, "LIB-NAME") {
            named.library = if is_plain { value.to_vec() } else { return Err(refused("lib-name")) };
        } else if is(what, "LIB-VER") {
            named.library_version = if is_plain { value.to_vec() } else { return Err(refused("lib-ver")) };
        } else {
            let text = [b"ERR Unrecognized option '".as_slice(), what, b"'"].concat();
            return Err(Failure(text.into()));
        }
        Ok(())
    }
}

/// Longest name of a connection or a library.
const MAX_NAME_BYTES: usize = 256;

fn check_name(name: &[u8]) -> Outcome {
    if name.len() <= MAX_NAME_BYTES && name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(Failure::new("ERR Client names cannot contain spaces, newlines or special characters."))
}
