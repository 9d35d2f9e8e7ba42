//! The expiry of items in a simulated cache: as in the engine, they leave once a second.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Cache;

/// Items that expire, some of them gone already.
#[derive(Default)]
pub(super) struct Expiries {
    /// The time, in seconds, and the node.
    due: BinaryHeap<Reverse<(u32, u32)>>,
    reaped_secs: u32,
}

impl Expiries {
    /// Notes that the item of a node expires at that time; 0 = never.
    #[inline]
    pub(super) fn note(&mut self, at: u32, expires: u32) {
        if expires > 0 {
            self.due.push(Reverse((expires, at)));
        }
    }
}

impl Cache {
    /// Takes out what has expired.
    #[inline]
    pub(super) fn reap(&mut self, now_secs: u32) {
        if self.expiries.reaped_secs < now_secs {
            self.reap_all(now_secs);
        }
    }

    #[cold]
    fn reap_all(&mut self, now_secs: u32) {
        self.expiries.reaped_secs = now_secs;
        if let Some(classes) = &mut self.classes {
            classes.end_filling();
        }
        while let Some(Reverse((expires, at))) = self.expiries.due.peek().copied()
            && expires <= now_secs
        {
            self.expiries.due.pop();
            let node = &self.nodes[at as usize];
            // The node may hold another item meanwhile, or the item have got another time.
            if node.is_there && node.expires > 0 && node.expires <= now_secs {
                self.take_out(at);
            }
        }
        // What was evicted would stay until its time.
        if self.expiries.due.len() > 4 * self.nodes.len() + 1024 {
            let is_current = |&Reverse((expires, at)): &Reverse<(u32, u32)>| {
                let node = &self.nodes[at as usize];
                node.is_there && node.expires == expires
            };
            self.expiries.due.retain(is_current);
        }
    }
}
