//! A pool.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use evict::PolicyKind;
use parking_lot::{Mutex, RwLock};
use slab::{SLAB_BYTES, SizeClasses, SlabInfo};

use crate::class::Class;
use crate::strategy::{Rebalancer, Strategy, VictimRule};

/// A part of the cache with its own limit, policy and size classes.
pub(crate) struct Pool {
    pub(crate) id: u16,
    pub(crate) name: String,
    pub(crate) keyspace: u16,
    policy: RwLock<PolicyKind>,
    pub(crate) sizes: SizeClasses,
    /// Most bytes of slabs; `u64::MAX` = whatever is free.
    limit_bytes: AtomicU64,
    slab_bytes: AtomicU64,
    /// Made when first used.
    classes: Box<[OnceLock<Class>]>,
    /// Held while slabs are taken away from the pool's classes.
    pub(crate) resizing: Mutex<()>,
    /// How many slabs allocations have moved between classes, and how many bytes had been inserted when the last one was.
    pub(crate) moves: Mutex<(u64, u64)>,
    /// What decides which slabs should move.
    pub(crate) rebalancer: Mutex<Rebalancer>,
    /// How many slabs were moved between classes, whatever for.
    pub(crate) slabs_moved: AtomicU64,
}

impl Pool {
    pub(crate) fn new(
        id: u16,
        keyspace: u16,
        name: String,
        policy: PolicyKind,
        sizes: SizeClasses,
        limit_bytes: u64,
        strategy: Strategy,
    ) -> Self {
        let classes = sizes.sizes().iter().map(|_| OnceLock::new()).collect();
        Self {
            id,
            name,
            keyspace,
            policy: RwLock::new(policy),
            sizes,
            limit_bytes: AtomicU64::new(limit_bytes),
            slab_bytes: AtomicU64::new(0),
            classes,
            resizing: Mutex::new(()),
            moves: Mutex::new((0, 0)),
            rebalancer: Mutex::new(Rebalancer::with(strategy, VictimRule::default(), id.into())),
            slabs_moved: AtomicU64::new(0),
        }
    }

    /// The policy of its classes.
    pub(crate) fn policy(&self) -> PolicyKind {
        *self.policy.read()
    }

    /// Sets the policy of classes to come, and returns what it was.
    pub(crate) fn set_policy(&self, policy: PolicyKind) -> PolicyKind {
        std::mem::replace(&mut *self.policy.write(), policy)
    }

    /// The class with this number.
    ///
    /// # Panics
    /// Where there is no such class.
    #[inline]
    pub(crate) fn class(&self, class: u8, now: impl Fn() -> u32) -> &Class {
        self.classes[usize::from(class)].get_or_init(|| {
            let info = SlabInfo {
                chunk_bytes: self.sizes.size(class),
                pool: self.id,
                class,
                keyspace: self.keyspace,
            };
            Class::new(info, self.policy(), now())
        })
    }

    /// The class with this number, if it was ever used.
    pub(crate) fn used_class(&self, class: u8) -> Option<&Class> {
        self.classes.get(usize::from(class)).and_then(OnceLock::get)
    }

    /// The classes that were ever used, with their numbers.
    pub(crate) fn used_classes(&self) -> impl Iterator<Item = (u8, &Class)> {
        (0_u8..).zip(&self.classes).filter_map(|(i, class)| class.get().map(|class| (i, class)))
    }

    /// Memory of the pool's own tables, in bytes.
    pub(crate) fn fixed_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val::<[OnceLock<Class>]>(&self.classes) + self.sizes.table_bytes()
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit_bytes(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn slab_bytes(&self) -> u64 {
        self.slab_bytes.load(Ordering::Relaxed)
    }

    /// Counts one more slab, if the limit allows it.
    pub(crate) fn try_add_slab(&self) -> bool {
        self.slab_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bytes| {
                let after = bytes + SLAB_BYTES as u64;
                (after <= self.limit_bytes()).then_some(after)
            })
            .is_ok()
    }

    /// Counts a slab that is there already, whatever the limit.
    pub(crate) fn add_slab(&self) {
        self.slab_bytes.fetch_add(SLAB_BYTES as u64, Ordering::Relaxed);
    }

    pub(crate) fn remove_slab(&self) {
        self.slab_bytes.fetch_sub(SLAB_BYTES as u64, Ordering::Relaxed);
    }
}
