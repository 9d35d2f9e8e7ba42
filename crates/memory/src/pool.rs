//! A pool.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::pin::Grace;
use base::{ByteSize, Part};
use evict::{Policy, PolicyKind};
use parking_lot::{Mutex, RwLock};
use rebalance::reclaim::Stake;
use slab::run::UNIT_BYTES;
use slab::{SizeClasses, SlabInfo};

use crate::cache::Core;
use crate::class::Class;
use crate::lifecycle::Hooks;
use crate::long_lock::LongLock;
use crate::pools::PoolId;
use crate::rebalance::step_for;
use crate::sizes::{Classes, Sizes};
use crate::sizing::Range;
use crate::slot::{Retired, Slot};
use crate::split::Splits;
use crate::stats::ClassStats;
use crate::strategy::{Rebalancer, Strategy, VictimRule};
use crate::tune::{LeavingClass, Tuner};
use crate::upkeep::{FlushWalk, Upkeep};
use crate::watch::{Curves, PoolHeat, Shadows};

/// For how long a pool that could not give memory is asked after the others, in seconds.
const REFUSAL_SECS: u32 = 10;
/// Most looks at the counts until no class has left meanwhile.
const MOST_COUNTS: u32 = 64;

/// The state of a pool's removal.
#[derive(Default)]
pub(crate) struct Removal {
    /// Of those who may have seen the pool before it was being removed: until they have stopped,
    /// slabs may come.
    pub(crate) grace: Mutex<Option<Grace>>,
}

/// A part of the cache with its own limit, policy and size classes.
pub(crate) struct Pool {
    pub(crate) number: u16,
    /// Tells it from pools that had its number before: see [`crate::pools::Pools`].
    generation: u32,
    pub(crate) name: String,
    pub(crate) keyspace: u16,
    policy: RwLock<PolicyKind>,
    sizes: Slot<Sizes>,
    /// The bounds of its sizes.
    pub(crate) range: Range,
    /// The tuner that keeps its sizes to its items, if there is one.
    pub(crate) tuner: Mutex<Option<Box<Tuner>>>,
    /// Classes that it allocates from no more.
    pub(crate) leaving_classes: Mutex<Vec<LeavingClass>>,
    /// Counts of classes that are gone.
    pub(crate) past: Mutex<Option<Box<ClassStats>>>,
    /// Bytes of items that were ever put into those.
    pub(crate) past_bytes_in: AtomicU64,
    /// Grows by one before a class leaves and its counts become past ones, and after that.
    count_moves: AtomicU32,
    /// Most bytes of slabs and runs; `u64::MAX` = whatever is free.
    limit_bytes: AtomicU64,
    slab_bytes: AtomicU64,
    /// Bytes of slabs that other pools do not take from it.
    reserve_bytes: AtomicU64,
    /// The grant of a policy; 0 = none.
    granted_bytes: AtomicU64,
    /// The part of the grant that counts: all grants together may exceed the memory.
    counted_bytes: AtomicU64,
    /// Its part of what is beyond the reserves.
    weight: AtomicU32,
    /// True if there was no memory for it when it asked for some.
    wants_memory: AtomicBool,
    /// Most bytes of slabs for now, as others want memory who have less; `u64::MAX` = nobody does.
    ceiling_bytes: AtomicU64,
    classes: Classes,
    /// Its marks of what is due.
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) flushed: FlushWalk,
    /// Held while slabs are taken away from the pool's classes.
    pub(crate) resizing: LongLock,
    /// Held while an allocation that found no chunk looks for one everywhere.
    pub(crate) searching: LongLock,
    /// Number of slabs that allocations have moved between classes, and the bytes that had been
    /// inserted when the last one was.
    pub(crate) moves: Mutex<(u64, u64)>,
    /// The decider of which slabs should move.
    pub(crate) rebalancer: Mutex<Rebalancer>,
    /// The lifecycle hooks of its items.
    pub(crate) hooks: Option<Arc<Hooks>>,
    /// Number of slabs that were moved between classes, whatever for.
    pub(crate) slabs_moved: AtomicU64,
    /// Number of those that its strategy asked for.
    pub(crate) rebalances: AtomicU64,
    /// The time at which it last could not give a slab, in seconds; 0 = it could.
    pub(crate) refused_at: AtomicU32,
    /// Number of slabs that other pools took from it.
    pub(crate) slabs_reclaimed: AtomicU64,
    /// Number of times its limit was set.
    pub(crate) resizes: AtomicU64,
    pub(crate) hot: PoolHeat,
    pub(crate) curves: Curves,
    /// Shadow queues of its classes, for the strategy that goes by them.
    pub(crate) shadows: Shadows,
    /// The split of its queues, for the policy that has one.
    pub(crate) splits: Splits,
    /// Set once the pool has taken over what one of its name left: see [`crate::recover`].
    pub(crate) recovered: OnceLock<()>,
    /// True if it is being removed; then for ever.
    is_leaving: AtomicBool,
    pub(crate) removal: Removal,
}

impl Pool {
    pub(crate) fn new(
        id: PoolId,
        keyspace: u16,
        name: String,
        policy: PolicyKind,
        sizes: SizeClasses,
        limit_bytes: u64,
        strategy: Strategy,
    ) -> Self {
        let range = Range::of(sizes.sizes());
        let upkeep = Arc::new(Upkeep::new());
        upkeep.set_waits_for_failures(strategy == Strategy::OnFailures);
        let classes = Classes::new(sizes.sizes().len());
        let rebalancer = Rebalancer::with(strategy, VictimRule::default(), id.0.into()).of_a_new_pool();
        Self {
            number: id.0,
            generation: id.1,
            name,
            keyspace,
            policy: RwLock::new(policy),
            sizes: Slot::with(Box::new(Sizes::new(sizes))),
            range,
            tuner: Mutex::new(None),
            leaving_classes: Mutex::default(),
            past: Mutex::default(),
            past_bytes_in: AtomicU64::new(0),
            count_moves: AtomicU32::new(0),
            limit_bytes: AtomicU64::new(limit_bytes),
            slab_bytes: AtomicU64::new(0),
            reserve_bytes: AtomicU64::new(0),
            granted_bytes: AtomicU64::new(0),
            counted_bytes: AtomicU64::new(0),
            weight: AtomicU32::new(0),
            wants_memory: AtomicBool::new(false),
            ceiling_bytes: AtomicU64::new(u64::MAX),
            classes,
            upkeep,
            flushed: FlushWalk::default(),
            resizing: LongLock::default(),
            searching: LongLock::default(),
            moves: Mutex::new((0, 0)),
            rebalancer: Mutex::new(rebalancer),
            hooks: None,
            slabs_moved: AtomicU64::new(0),
            rebalances: AtomicU64::new(0),
            refused_at: AtomicU32::new(0),
            slabs_reclaimed: AtomicU64::new(0),
            resizes: AtomicU64::new(0),
            hot: PoolHeat::default(),
            curves: Curves::default(),
            shadows: Shadows::default(),
            splits: Splits::default(),
            recovered: OnceLock::new(),
            is_leaving: AtomicBool::new(false),
            removal: Removal::default(),
        }
    }

    /// Number of slabs that were moved between its classes, and the bytes of those it has.
    pub(crate) fn holding(&self) -> (u64, u64) {
        (self.slabs_moved.load(Ordering::Relaxed), self.slab_bytes())
    }

    /// Waits until nobody takes slabs away from its classes, or it has other ones than `before`,
    /// for as long as that at most.
    pub(crate) fn wait_for_resizing(&self, before: (u64, u64), patience: Duration) {
        self.resizing.wait_within(patience, || self.holding() != before);
    }

    /// Returns whether it is being removed.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Has it get no more slabs and items, but from those who have looked already.
    pub(crate) fn set_leaving(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// The policy that its classes have, or are to be converted to.
    pub(crate) fn policy(&self) -> PolicyKind {
        *self.policy.read()
    }

    /// Creates the policy of a class; `now` in seconds.
    fn new_policy(&self, now: u32) -> Policy {
        Policy::following(self.policy(), Arc::clone(&self.splits.target), now)
    }

    /// Sets the policy of classes to come, to which those that there are have to be converted.
    pub(crate) fn set_policy(&self, policy: PolicyKind) {
        let before = std::mem::replace(&mut *self.policy.write(), policy);
        if before != policy {
            if [before, policy].contains(&PolicyKind::LruSplit) {
                self.splits.end();
            }
            self.upkeep.note_conversion();
        }
    }

    /// Returns its id.
    pub(crate) fn id(&self) -> PoolId {
        PoolId(self.number, self.generation)
    }

    /// The classes that it allocates from.
    #[inline]
    pub(crate) fn sizes(&self) -> &Sizes {
        self.sizes.get().expect("a pool has sizes for as long as it is there")
    }

    /// Has it allocate from these classes, and returns those of before.
    pub(crate) fn swap_sizes(&self, sizes: Sizes) -> Option<Retired<Sizes>> {
        self.sizes.put(Box::new(sizes))
    }

    /// Returns whether it allocates from the class with this number no more.
    pub(crate) fn is_class_leaving(&self, number: u8) -> bool {
        self.sizes().place_of(number).is_none()
    }

    /// Has `leave` take a class out and add its counts to the past ones. The caller holds
    /// `resizing`.
    pub(crate) fn while_counts_move<R>(&self, leave: impl FnOnce() -> R) -> R {
        self.count_moves.fetch_add(1, Ordering::AcqRel);
        let left = leave();
        self.count_moves.fetch_add(1, Ordering::AcqRel);
        left
    }

    /// Returns what `look` sees of the classes and of past counts, with no class in both or in
    /// neither. Only if one leaves at each of several looks is the result as it may be.
    pub(crate) fn see_counts<R>(&self, look: impl Fn() -> R) -> R {
        for _ in 0..MOST_COUNTS {
            let before = self.count_moves.load(Ordering::Acquire);
            let seen = look();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.count_moves.load(Ordering::Relaxed) == before {
                return seen;
            }
            std::thread::yield_now();
        }
        look()
    }

    /// Takes a class out that has no slab and gets none any more.
    pub(crate) fn take_class(&self, number: u8) -> Option<Retired<Class>> {
        self.classes.take(number)
    }

    /// The class with this number, if it was ever used.
    #[inline]
    pub(crate) fn used_class(&self, class: u8) -> Option<&Class> {
        self.classes.get(class)
    }

    /// The memory that a class that has to evict takes from the largest, if it has less, in bytes:
    /// as much as moves at a time in the pool, but at most half of what a class has on average, so
    /// that the largest always has more to give.
    pub(crate) fn least_share(&self) -> u64 {
        let bytes = self.slab_bytes();
        step_for(bytes).min(bytes / (2 * self.used_classes().count().max(1) as u64))
    }

    /// The memory that strategies move between classes at a time, in bytes: a slab or less of a
    /// pool with few or large classes, and of one with many small ones no more than half of what
    /// they have on average. Else hardly any of them could give as much.
    pub(crate) fn rebalanced_step(&self) -> u64 {
        let of_class = self.least_share() / UNIT_BYTES as u64 * UNIT_BYTES as u64;
        of_class.max(step_for(0))
    }

    /// The classes that were ever used, with their numbers.
    pub(crate) fn used_classes(&self) -> impl Iterator<Item = (u8, &Class)> {
        self.classes.iter()
    }

    /// Memory of the pool's own tables, in bytes. Classes count for themselves.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        let tuner = if self.tuner.lock().is_some() { Tuner::bytes() } else { 0 };
        let tables = self.classes.table_bytes()
            + size_of::<Upkeep>()
            + self.sizes().table_bytes()
            + self.hot.bytes()
            + self.curves.bytes()
            + self.shadows.bytes()
            + Splits::bytes();
        let past = if self.past.lock().is_some() { size_of::<ClassStats>() as u64 } else { 0 };
        (size_of::<Self>() + tables) as u64 + tuner + past
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit_bytes(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Lowers the limit, if it stays at `least` or above and there is one.
    pub(crate) fn lower_limit(&self, bytes: u64, least: u64) -> bool {
        let lower =
            |limit: u64| limit.checked_sub(bytes).filter(|after| limit != u64::MAX && *after >= least);
        self.limit_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower).is_ok()
    }

    /// Raises the limit, if there is one.
    pub(crate) fn raise_limit(&self, bytes: u64) {
        let raise = |limit: u64| (limit != u64::MAX).then(|| limit.saturating_add(bytes));
        let _ = self.limit_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
    }

    /// Sets what it is entitled to.
    pub(crate) fn set_share(&self, reserve: ByteSize, weight: u32) {
        self.reserve_bytes.store(reserve.as_u64(), Ordering::Relaxed);
        self.weight.store(weight, Ordering::Relaxed);
    }

    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_grant(&self, bytes: u64) {
        self.granted_bytes.store(bytes, Ordering::Relaxed);
        self.counted_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn granted_bytes(&self) -> u64 {
        self.granted_bytes.load(Ordering::Relaxed)
    }

    /// Counts only this part of what its grant has beyond its reserve.
    pub(crate) fn count_grant(&self, part: f64) {
        let (reserve, granted) = (self.reserve_bytes(), self.granted_bytes());
        let beyond = (granted.saturating_sub(reserve) as f64 * part) as u64;
        let counted = if granted > reserve { reserve + beyond } else { granted };
        self.counted_bytes.store(counted, Ordering::Relaxed);
    }

    /// Returns the memory that other pools do not take from it, unless it is vacant: its reserve,
    /// or what counts of its grant if that is more.
    pub(crate) fn entitled_bytes(&self) -> u64 {
        self.reserve_bytes().max(self.counted_bytes.load(Ordering::Relaxed))
    }

    /// Returns whether it could not give memory when it was asked for some lately.
    pub(crate) fn has_refused(&self, now: u32) -> bool {
        let refused_at = self.refused_at.load(Ordering::Relaxed);
        refused_at != 0 && now.saturating_sub(refused_at) <= REFUSAL_SECS
    }

    /// Returns its memory, and the share that it is entitled to.
    pub(crate) fn stake(&self) -> Stake {
        Stake {
            pool: self.number,
            bytes: self.slab_bytes(),
            reserve_bytes: self.entitled_bytes(),
            weight: self.weight.load(Ordering::Relaxed),
            // What is vacant in it comes first.
            wants: self.wants_memory.load(Ordering::Relaxed)
                && self.upkeep.vacant.bytes() < self.step_to_take(),
        }
    }

    /// Notes whether there was no memory for a run of it.
    pub(crate) fn set_wants_memory(&self, wants: bool) {
        if self.wants_memory.load(Ordering::Relaxed) != wants {
            self.wants_memory.store(wants, Ordering::Relaxed);
        }
    }

    /// Has it have no more than this for now.
    pub(crate) fn set_ceiling_bytes(&self, bytes: u64) {
        self.ceiling_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns whether it may not grow as its limit allows for now.
    pub(crate) fn is_held_back(&self) -> bool {
        self.ceiling_bytes.load(Ordering::Relaxed) != u64::MAX
    }

    /// Allows it at least this many bytes more than it has, though it is held back.
    pub(crate) fn raise_ceiling(&self, bytes: u64) {
        // What it is about to give is not to come back, if nothing is idle.
        if bytes > 0 {
            self.ceiling_bytes.fetch_max(self.slab_bytes() + bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn slab_bytes(&self) -> u64 {
        self.slab_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether the limit allows this much more.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.slab_bytes() + bytes <= self.limit_bytes()
    }

    /// Returns the memory that its limits allow it to be given, in bytes.
    pub(crate) fn room_bytes(&self) -> u64 {
        let most = self.limit_bytes().min(self.ceiling_bytes.load(Ordering::Relaxed));
        most.saturating_sub(self.slab_bytes())
    }

    /// Counts the bytes of one more run, if its limits allow it and the pool is to stay.
    pub(crate) fn try_add(&self, run_bytes: u64) -> bool {
        let most = self.limit_bytes().min(self.ceiling_bytes.load(Ordering::Relaxed));
        self.slab_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bytes| {
                let after = bytes + run_bytes;
                (after <= most && !self.is_leaving()).then_some(after)
            })
            .is_ok()
    }

    /// Counts a run that is there already, whatever the limit.
    pub(crate) fn add(&self, run_bytes: u64) {
        self.slab_bytes.fetch_add(run_bytes, Ordering::Relaxed);
    }

    /// Counts a run that was given back.
    pub(crate) fn remove(&self, run_bytes: u64) {
        self.slab_bytes.fetch_sub(run_bytes, Ordering::Relaxed);
    }
}

impl Core {
    /// The class at a place of the pool's sizes. Made when first used.
    #[inline]
    pub(crate) fn class_at<'p>(&self, pool: &'p Pool, sizes: &Sizes, place: usize) -> &'p Class {
        self.class_numbered(pool, sizes.number(place), sizes.sizes()[place])
    }

    /// The class with this number and chunk size. Made when first used.
    #[inline]
    pub(crate) fn class_numbered<'p>(&self, pool: &'p Pool, number: u8, chunk_bytes: u32) -> &'p Class {
        let class = pool.used_class(number).unwrap_or_else(|| self.make_class(pool, number, chunk_bytes));
        debug_assert_eq!(class.info.chunk_bytes, chunk_bytes, "a number stands for one size at a time");
        class
    }

    #[cold]
    fn make_class<'p>(&self, pool: &'p Pool, number: u8, chunk_bytes: u32) -> &'p Class {
        let info = SlabInfo { chunk_bytes, pool: pool.number, class: number, keyspace: pool.keyspace };
        let make = || {
            let class =
                Class::new(info, pool.new_policy(self.now()), pool.hooks.clone(), Arc::clone(&pool.upkeep));
            class.settle_fixed(&self.ledger);
            class
        };
        let (class, table_bytes) = pool.classes.get_or_make(number, make, |other| other.end_bill(self));
        self.ledger.charge(Part::Fixed, table_bytes as u64);
        self.note_idle(class);
        // Whoever changed the policy meanwhile may not have found the class.
        if class.inner.lock().policy.kind() != pool.policy() {
            pool.upkeep.note_conversion();
        }
        class
    }
}
