//! The table of pools, and the rules for how long a reference to a pool is valid.
//!
//! A thread reaches a pool in two ways. A thread that has an item (a reference to it, its
//! protection, its chunk, or the locked index bucket that points to it) reads the pool's number
//! from the arena's entry for the item's run: this is the path of a hit, and costs two loads. A
//! thread that has only the number pins the table ([`Pools::enter`], a group of its own) and may
//! use pools until it unpins.
//!
//! Invariants:
//! 1. A pool leaves the table only when no run is assigned to it and none can be. So a thread that
//!    has an item of the pool finds the pool in the table.
//! 2. The memory of a pool is freed after all threads that had the table pinned when the pool left
//!    it have unpinned. So is that of a size class without runs, and of a table of sizes.
//! 3. A thread has the table pinned while it frees a chunk, so that no class is freed while a
//!    thread still holds one of its locks.
//! 4. A number is given to another pool only after the one that had it was freed.
//! 5. The generation of a number is odd while a pool has it, and grows by one when a pool
//!    comes or goes. It grows before the first item of a pool can be seen, and after the last one
//!    is gone. So a thread that finds an item of a pool's key space, and then sees the generation
//!    that the pool had, has found an item of that pool and not of another one with its number. A
//!    number whose generations are used up is given to no pool.

mod id;
mod scope;

pub(crate) use id::MAX_POOLS;
pub use id::PoolId;
pub(crate) use scope::{FirstKeys, Scope};

use std::sync::atomic::{AtomicU32, Ordering};

use base::pin::{Grace, Pinned, Pins};
use parking_lot::Mutex;

use crate::class::Class;
use crate::pool::Pool;
use crate::sizes::Sizes;
use crate::slot::{Retired, Slot};

/// All pools by number.
pub(crate) struct Pools {
    slots: Box<[Slot<Pool>]>,
    /// The generation of each number.
    generations: Box<[AtomicU32]>,
    /// All pools have numbers below this.
    bound: AtomicU32,
    users: Pins,
    /// Remains that left the table, or a pool, and may be looked at yet.
    retired: Mutex<Vec<(Grace, Remains)>>,
}

/// From this generation on a number is given to no pool any more.
const LAST_GENERATION: u32 = u32::MAX - 1;

/// The remains that are to be freed.
pub(crate) enum Remains {
    Pool(Retired<Pool>),
    Class(Retired<Class>),
    Sizes(Retired<Sizes>),
}

/// That a thread uses the table.
pub(crate) type Use<'c> = Option<Pinned<'c>>;

/// A pool that is looked at.
pub(crate) struct PoolRef<'c> {
    pool: &'c Pool,
    _use: Use<'c>,
}

impl std::ops::Deref for PoolRef<'_> {
    type Target = Pool;

    #[inline]
    fn deref(&self) -> &Pool {
        self.pool
    }
}

/// The table, for as long as it is used.
pub(crate) struct AllPools<'c> {
    pools: &'c Pools,
    _use: Use<'c>,
}

impl AllPools<'_> {
    /// The pools, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pool> {
        let bound = self.pools.bound.load(Ordering::Acquire) as usize;
        self.pools.slots.iter().take(bound).filter_map(Slot::get)
    }

    /// The pool with this number.
    pub(crate) fn numbered(&self, number: u16) -> Option<&Pool> {
        self.pools.slots.get(usize::from(number)).and_then(Slot::get)
    }

    /// The pools from number `first` on, by number, and after them those below `first`.
    pub(crate) fn iter_from(&self, first: u16) -> impl Iterator<Item = &Pool> {
        let bound = self.pools.bound.load(Ordering::Acquire) as usize;
        let (below, others) = self.pools.slots[..bound].split_at(bound.min(first.into()));
        others.iter().chain(below).filter_map(Slot::get)
    }
}

impl Pools {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..MAX_POOLS).map(|_| Slot::empty()).collect(),
            generations: (0..MAX_POOLS).map(|_| AtomicU32::new(0)).collect(),
            bound: AtomicU32::new(0),
            users: Pins::new(),
            retired: Mutex::default(),
        }
    }

    /// Memory of the table, in bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        size_of_val::<[Slot<Pool>]>(&self.slots) + size_of_val::<[AtomicU32]>(&self.generations)
    }

    /// Uses the table until the result is dropped. May be nested, but then the outer use must last
    /// as long.
    #[inline]
    pub(crate) fn enter(&self) -> Use<'_> {
        self.users.pin_if_not()
    }

    /// All pools, those that are being removed too.
    pub(crate) fn all(&self) -> AllPools<'_> {
        AllPools { _use: self.enter(), pools: self }
    }

    /// The pool, unless it was or is being removed.
    #[inline]
    pub(crate) fn get(&self, id: PoolId) -> Option<PoolRef<'_>> {
        self.get_even_leaving(id).filter(|pool| !pool.is_leaving())
    }

    /// The pool, unless it was removed.
    #[inline]
    pub(crate) fn get_even_leaving(&self, id: PoolId) -> Option<PoolRef<'_>> {
        let in_use = self.enter();
        let pool = self.slots.get(usize::from(id.0))?.get()?;
        (pool.id() == id).then_some(PoolRef { pool, _use: in_use })
    }

    /// The pool of a slab.
    ///
    /// # Safety
    /// For as long as the result is used, the caller has an item or a chunk of a slab that names
    /// the pool, as the module says, or uses the table.
    #[inline]
    pub(crate) unsafe fn of_run(&self, number: u16) -> &Pool {
        self.slots[usize::from(number)].get().expect("a slab is assigned to a pool that exists")
    }

    /// Returns the id of the pool that has this number now, or would have it.
    pub(crate) fn id_of(&self, number: u16) -> PoolId {
        PoolId(number, self.generation(number) | 1)
    }

    fn generation(&self, number: u16) -> u32 {
        self.generations[usize::from(number)].load(Ordering::Acquire)
    }

    /// Returns whether the pool of this id is in the table, being removed or not.
    #[inline]
    pub(crate) fn has(&self, id: PoolId) -> bool {
        self.generations
            .get(usize::from(id.0))
            .is_some_and(|generation| generation.load(Ordering::Acquire) == id.1)
    }

    /// Returns whether a pool may be given this number.
    pub(crate) fn is_vacant(&self, number: u16) -> bool {
        self.generation(number) < LAST_GENERATION
            && self.slots[usize::from(number)].get().is_none()
            && !self.has_retired(|remains| matches!(remains, Remains::Pool(pool) if pool.number == number))
    }

    /// Adds a pool, whose number is vacant. The caller is the only one who adds or removes pools.
    pub(crate) fn add(&self, pool: Pool) {
        let PoolId(number, generation) = pool.id();
        self.generations[usize::from(number)].store(generation, Ordering::Release);
        let before = self.slots[usize::from(number)].put(Box::new(pool));
        debug_assert!(before.is_none(), "the number is vacant");
        self.bound.fetch_max(u32::from(number) + 1, Ordering::Release);
    }

    /// Takes a pool out of the table, which has no slab and gets none any more. The caller is the
    /// only one who adds or removes pools.
    pub(crate) fn remove(&self, number: u16) {
        if let Some(pool) = self.slots[usize::from(number)].take() {
            self.generations[usize::from(number)].fetch_add(1, Ordering::AcqRel);
            self.retire(Remains::Pool(pool));
        }
    }

    /// Frees what was taken out of the table or a pool when nobody can look at it any more.
    pub(crate) fn retire(&self, remains: Remains) {
        let grace = self.grace();
        self.retired.lock().push((grace, remains));
    }

    /// Returns whether a class with this number was taken out of the pool and not freed yet.
    pub(crate) fn has_retired_class(&self, pool: u16, number: u8) -> bool {
        let is_it = |class: &Class| (class.info.pool, class.info.class) == (pool, number);
        self.has_retired(|remains| matches!(remains, Remains::Class(class) if is_it(class)))
    }

    /// Returns the memory that classes that were taken out of their pools, and are not freed yet,
    /// have been charged for, in bytes.
    pub(crate) fn retired_class_bytes(&self) -> u64 {
        let retired = self.retired.lock();
        let classes = retired.iter().filter_map(|(_, remains)| match remains {
            Remains::Class(class) => Some(class.billed_bytes()),
            Remains::Pool(_) | Remains::Sizes(_) => None,
        });
        classes.sum()
    }

    fn has_retired(&self, is_it: impl Fn(&Remains) -> bool) -> bool {
        self.retired.lock().iter().any(|(_, remains)| is_it(remains))
    }

    /// A grace period of all who use the table now.
    pub(crate) fn grace(&self) -> Grace {
        self.users.grace()
    }

    /// Returns whether those have all stopped.
    pub(crate) fn has_passed(&self, grace: &mut Grace) -> bool {
        grace.has_passed(&self.users)
    }

    /// Frees what nobody can look at any more, each after a call of `freed`. Says how much is left.
    /// Never waits.
    pub(crate) fn free_retired(&self, freed: impl Fn(&Remains)) -> usize {
        let mut retired = self.retired.lock();
        let done: Vec<_> = retired.extract_if(.., |(grace, _)| grace.has_passed(&self.users)).collect();
        for (_, remains) in &done {
            freed(remains);
        }
        let left = retired.len();
        drop(retired);
        for (_, remains) in done {
            // SAFETY: invariant 2: it was taken out, and everybody who used the table then has
            // stopped; nobody has reached it by an item since, as there was none (invariants 1 and
            // 3).
            unsafe {
                match remains {
                    Remains::Pool(pool) => drop(pool.free()),
                    Remains::Class(class) => drop(class.free()),
                    Remains::Sizes(sizes) => drop(sizes.free()),
                }
            }
        }
        left
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        // Nobody uses a table that is being dropped.
        self.free_retired(|_| ());
    }
}
