//! `PUBSUB`, over the one channel that there is. A client sees subscriptions of its own tenant.

use super::arguments::{arg, subcommand};
use super::commands::Commands;
use super::writer::{Failure, Outcome, Writer};
use frontend::tracking::CHANNEL;
use protocol::resp::commands::PubSub;
use protocol::resp::glob::matches;

impl<'c> Commands<'_, 'c> {
    pub(super) fn run_pubsub(&mut self, command: PubSub, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        match command {
            PubSub::PubSub => self.pubsub(args, w),
            PubSub::Subscribe => self.run_channel(true, args, w),
            PubSub::Unsubscribe => self.run_channel(false, args, w),
        }
    }

    fn pubsub(&mut self, args: &[&[u8]], w: &mut Writer<'_, 'c>) -> Outcome {
        let known = subcommand(args);
        let values = args.get(2..).unwrap_or_default();
        match known {
            "channels" | "shardchannels" if values.len() > 1 => {
                return Err(Failure::wrong_form("PUBSUB", arg(args, 1)));
            }
            "channels" => {
                let is_shown = values.iter().all(|pattern| matches(pattern, CHANNEL));
                let shown = is_shown && self.subscribers() > 0;
                w.array(usize::from(shown));
                if shown {
                    w.bulk(CHANNEL);
                }
            }
            "numsub" | "shardnumsub" => {
                w.array(2 * values.len());
                for channel in values {
                    w.bulk(channel);
                    let is_it = known == "numsub" && *channel == CHANNEL;
                    w.integer(if is_it { self.subscribers() } else { 0 });
                }
            }
            "numpat" => w.integer(0),
            "shardchannels" => w.array(0),
            _ => w.help(args),
        }
        Ok(())
    }

    fn subscribers(&self) -> i64 {
        self.clients().iter().filter(|info| info.is_subscribed()).count() as i64
    }
}
