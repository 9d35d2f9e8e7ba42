//! All instances of a node as one instance: the view that the orchestrator of a fleet has of it.
//!
//! The fleet's orchestrator decides about the pools of many nodes, and tells each node how much all
//! of its instances may have together; the node's own divides that. What the fleet's does not see
//! (a late answer, a chunk that is on its way) is the node's business.
//!
//! Invariants, for the fleet's orchestrator, which counts the most of a node's limit and of what it
//! uses:
//!
//! 1. The reported limit is never less than what the node's instances can have, nor than what they
//!    may get, at any moment and after a restart. It is the memory in force (`led`), or the most
//!    that the instances can have, with the spare, if that is more: while a smaller amount has not
//!    reached all of them, and until an amount was set. Instances that come with memory of their
//!    own take it from the spare; beyond that they count from the next report on.
//! 2. The reported use never exceeds that limit. It has the most that an instance can have only if
//!    that does not answer. If memory that instances can have and do not use were reported as used,
//!    the fleet's orchestrator would take it for need beside the pools, and raise a node again that
//!    it has just lowered. So it sees in the limit that a node has not given all up yet.
//! 3. A pool's number names no other pool as long as the same agent reports. Its reported grant is
//!    what the fleet's orchestrator told, and not what the node decided, so that the former finds
//!    what it asked for, and rests.
//! 4. Counters come with the time at which the pool's own agent reported them. The fleet's
//!    orchestrator takes rates over the difference of two such times, and none from a report before
//!    the agent's next one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use control::curve as messages;
use control::v1::{Curve, PoolGrant, PoolReport};
use control::{MOST_CURVE_POINTS, MOST_POOLS, amounts};

use crate::exchange::Key;
use crate::fleet::Fleet;
use crate::led::Setting;
use crate::member::{Member, PoolState};
use crate::names::LONGEST_POOL_NAME;
use crate::shared::{Shared, apart, lock};
use crate::{MILLI, Nanos};

/// The longest that an agent waits until a smaller amount is saved: long for a disk, and short for
/// the lease, which the same agent renews.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// The time after which an attempt to save is repeated.
const SAVE_AGAIN: Duration = Duration::from_secs(2);

/// The instances of a node, together, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WholeLook {
    /// The memory that they may have, or can have if that is more, with the spare, in bytes.
    pub limit_bytes: u64,
    /// The memory that they use, with the spare, in bytes; of those that do not answer, all that
    /// they can have.
    pub used_bytes: u64,
    /// The least that they can have, with the spare, in bytes.
    pub least_bytes: u64,
    /// The most that the node can have, in bytes.
    pub most_bytes: u64,
    /// The pools of those that answer, named as in decisions: at most [`MOST_POOLS`].
    pub pools: Vec<PoolReport>,
}

/// The reason why a node cannot be spoken for, or its memory not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WholeError {
    /// No memory was set or saved, and instances that run already have not all registered.
    #[error("no memory was ever set for the node, so it waits one lease for servers that run already")]
    Incomplete,
    /// Less memory than before could not be saved.
    #[error(
        "the node keeps the memory that it has, as less cannot be saved ({0}): see to the disk of --state"
    )]
    Unsaved(String),
    /// Less memory than before is not saved yet.
    #[error("the node keeps the memory that it has until less is saved: the disk of --state is slow")]
    Saving,
}

/// A number for each pool, as instances number theirs alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolNumbers {
    /// The last number: those of pools that are gone are not used again.
    last: u32,
    /// By instance, its agent, and the number that this one gives.
    numbers: HashMap<(Key, u64, u32), u32>,
    /// The grants that the fleet's orchestrator told last, in bytes.
    told: HashMap<u32, u64>,
}

impl PoolNumbers {
    fn of(&mut self, key: &Key, session: u64, pool: u32) -> u32 {
        *self.numbers.entry((key.clone(), session, pool)).or_insert_with(|| {
            self.last += 1;
            self.last
        })
    }

    /// Forgets pools of which the fleet knows no more.
    fn forget_gone(&mut self, fleet: &Fleet) {
        self.numbers.retain(|(key, session, pool), _| {
            let member = fleet.members.get(key).filter(|member| member.session == *session);
            member.is_some_and(|member| member.pools.contains_key(pool))
        });
        let here: HashSet<u32> = self.numbers.values().copied().collect();
        self.told.retain(|number, _| here.contains(number));
    }

    /// Notes what the fleet's orchestrator grants pools. One that is missing keeps what it has.
    pub(crate) fn note_told(&mut self, grants: &[PoolGrant]) {
        self.told.extend(grants.iter().map(|grant| (grant.id, amounts::memory(&grant.amounts))));
    }
}

impl Fleet {
    /// The instances of the node that is led, as one.
    ///
    /// # Errors
    /// [`WholeError::Incomplete`].
    pub(crate) fn whole(&self, numbers: &mut PoolNumbers, now: Nanos) -> Result<WholeLook, WholeError> {
        let Some(led) = &self.led else { return Ok(WholeLook::default()) };
        if !led.is_complete(now) {
            return Err(WholeError::Incomplete);
        }
        numbers.forget_gone(self);
        let spare = self.spare();
        let mut look = WholeLook {
            limit_bytes: self.held(&led.node).saturating_add(spare).max(led.in_force().unwrap_or(0)),
            used_bytes: spare,
            least_bytes: spare,
            most_bytes: led.most,
            pools: Vec::new(),
        };
        for (key, member) in self.members.on(&led.node) {
            look.least_bytes = look.least_bytes.saturating_add(member.least);
            let is_leased = member.is_leased(now);
            let used = if is_leased { member.hold.used() } else { member.hold.held() };
            look.used_bytes = look.used_bytes.saturating_add(used);
            if is_leased {
                look.pools.extend(reports(key, member, numbers));
            }
        }
        // Of more, the fleet's orchestrator would lead whichever came first.
        look.pools.sort_unstable_by_key(|pool| pool.id);
        look.pools.truncate(MOST_POOLS);
        Ok(look)
    }
}

fn reports<'a>(
    key: &'a Key,
    member: &'a Member,
    numbers: &'a mut PoolNumbers,
) -> impl Iterator<Item = PoolReport> + 'a {
    let reported_at = member.reported_at.unwrap_or(0);
    member.pools.iter().map(move |(&id, pool)| {
        let (id, name) = (numbers.of(key, member.session, id), &pool.decided_name);
        PoolReport {
            id,
            name: name.get(..name.floor_char_boundary(LONGEST_POOL_NAME)).unwrap_or_default().to_owned(),
            granted: numbers.told.get(&id).copied().map(amounts::of_memory).unwrap_or_default(),
            curve: curve(pool),
            counted_at_millis: match pool.report.counted_at_millis {
                0 => (reported_at / MILLI).max(1),
                // By another one that speaks for others, on its clock.
                at => at,
            },
            ..pool.report.clone()
        }
    })
}

fn curve(pool: &PoolState) -> Option<Curve> {
    let curve = pool.curve.as_ref()?.thinned(MOST_CURVE_POINTS);
    let points = curve.points().iter().map(|point| (point.size, point.miss_ratio));
    let written = messages::write(points.filter(|point| point.0 > 0));
    Some(Curve { samples: pool.samples, error: pool.error, ..written })
}

/// The node of an orchestrator, as an agent speaks for it.
pub struct Whole {
    shared: Arc<Shared>,
    numbers: PoolNumbers,
}

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Whole").field("numbers", &self.numbers).finish_non_exhaustive()
    }
}

impl Whole {
    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared, numbers: PoolNumbers::default() }
    }

    /// The orchestrator's number, which outlasts a restart.
    pub fn id(&self) -> u64 {
        self.shared.fleet().leader().id
    }

    /// Looks at the node.
    ///
    /// # Errors
    /// [`WholeError::Incomplete`].
    pub fn look(&mut self) -> Result<WholeLook, WholeError> {
        let now = self.shared.now();
        self.shared.fleet().whole(&mut self.numbers, now)
    }

    /// Sets the memory that all instances of the node may have together, with the spare, and takes
    /// what the fleet's orchestrator grants pools. More is in force at once, and less once it is
    /// saved, which this waits for a tenth of a second.
    ///
    /// # Errors
    /// [`WholeError::Unsaved`] or [`WholeError::Saving`] if less is not in force yet: it is as soon
    /// as it is saved.
    pub fn set_memory(&mut self, bytes: u64, grants: &[PoolGrant]) -> Result<(), WholeError> {
        self.numbers.note_told(grants);
        let mut fleet = self.shared.fleet();
        if let Some(led) = &mut fleet.led {
            led.set(bytes);
        }
        self.shared.memory_set.notify_one();
        let setting = |fleet: &Fleet| fleet.led.as_ref().map_or(Setting::InForce, |led| led.setting());
        let is_saving = |fleet: &mut Fleet| setting(fleet) == Setting::Saving;
        let waited = self.shared.memory_saved.wait_timeout_while(fleet, LONGEST_WAIT, is_saving);
        let (fleet, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match setting(&fleet) {
            Setting::InForce => Ok(()),
            Setting::Saving => Err(WholeError::Saving),
            Setting::Unsaved(reason) => Err(WholeError::Unsaved(reason)),
        }
    }
}

impl Shared {
    /// Saves the memory of the node that is led, whenever it was set, for as long as the caller
    /// polls this.
    pub(crate) async fn keep_memory(self: Arc<Self>) {
        let Some(store) = self.store.clone() else { return };
        loop {
            // An attempt that failed is repeated.
            let _ = tokio::time::timeout(SAVE_AGAIN, self.memory_set.notified()).await;
            loop {
                let begun =
                    self.fleet().led.as_mut().and_then(|led| Some((led.node.clone(), led.begin_save()?)));
                let Some((node, bytes)) = begun else { break };
                let store = Arc::clone(&store);
                let outcome = apart(move || store.save_memory(&node, bytes)).await;
                let is_saved = outcome.is_ok();
                if let Err(error) = &outcome {
                    lock(&self.failures).unsaved += 1;
                    tracing::error!(error, bytes, "The memory that was set for the node cannot be saved.");
                }
                if let Some(led) = &mut self.fleet().led {
                    led.note_save(bytes, outcome);
                }
                self.memory_saved.notify_all();
                if !is_saved {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
