//! Commands about the server and all of a tenant's keys.

use protocol::resp::commands::Server;
use protocol::resp::number;

use super::arguments::arg;
use super::commands::Commands;
use super::listing::Walk;
use super::writer::{Failure, Outcome, Writer};

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_server(&mut self, command: Server, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        match command {
            Server::Acl => return self.acl(args, w),
            Server::Command => return self.command(args, w),
            Server::Config => return self.config(args, w),
            Server::DbSize => return self.list_at_once(Walk::DbSize, args, w),
            Server::FlushAll | Server::FlushDb => return self.flush(args, w),
            Server::Info => return self.info(args, w),
            Server::Latency => return self.latency(args, w),
            Server::Memory => return self.memory(args, w),
            Server::Role => {
                w.array(3);
                w.bulk(b"master");
                w.integer(0);
                w.array(0);
            }
            Server::SlowLog => return self.slowlog(args, w),
            Server::SwapDb => {
                let place = |index, which| {
                    number(arg(args, index))
                        .ok_or(Failure::from_text(format!("ERR invalid {which} DB index")))
                };
                if (place(1, "first")?, place(2, "second")?) != (0, 0) {
                    return Err(Failure::BAD_DATABASE);
                }
                w.ok();
            }
            Server::Time => {
                let nanos = self.shared.clock.unix_nanos();
                w.array(2);
                w.bulk((nanos / 1_000_000_000).to_string().as_bytes());
                w.bulk((nanos / 1_000 % 1_000_000).to_string().as_bytes());
            }
            Server::Debug => {
                return Err(Failure::new(
                    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it \
                     from a local connection, otherwise you need to set this option in the configuration file, and then \
                     restart the server.",
                ));
            }
        }
        Ok(())
    }
}
