//! The real policies of `evict`, driven as plain values: a cache of a fixed number of keys without
//! an engine.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use evict::{Claim, Conversion, Entry, HitRule, Items, Policy, PolicyKind};
use millpond_workload::reference::Simulator;

const INCARNATION_SHIFT: u32 = 28;

#[derive(Clone, Copy)]
struct Slot {
    key: u64,
    bits: u8,
    /// As the chunks of the engine have it: entries of former items of the slot are stale.
    incarnation: u8,
    is_queued: bool,
    was_hit: bool,
}

/// The slots that keys lie in, as a policy sees them.
#[derive(Default)]
struct Slots(RefCell<Vec<Cell<Slot>>>);

impl Slots {
    fn slot(&self, entry: Entry) -> Option<Slot> {
        let slot = self.0.borrow().get((entry.0 & ((1 << INCARNATION_SHIFT) - 1)) as usize)?.get();
        let is_right = slot.is_queued && u32::from(slot.incarnation) == entry.0 >> INCARNATION_SHIFT;
        is_right.then_some(slot)
    }

    fn update(&self, number: u32, change: impl FnOnce(&mut Slot)) -> Slot {
        let slots = self.0.borrow();
        let cell = &slots[number as usize];
        let mut slot = cell.get();
        change(&mut slot);
        cell.set(slot);
        slot
    }
}

impl Items for Slots {
    fn bits(&self, entry: Entry) -> Option<u8> {
        self.slot(entry).map(|slot| slot.bits)
    }

    fn set_bits(&self, entry: Entry, mask: u8, value: u8) {
        if self.slot(entry).is_some() {
            let number = entry.0 & ((1 << INCARNATION_SHIFT) - 1);
            self.update(number, |slot| slot.bits = slot.bits & !mask | value & mask);
        }
    }

    fn claim(&self, entry: Entry) -> Claim {
        if self.slot(entry).is_some() { Claim::Taken } else { Claim::Gone }
    }

    fn fingerprint(&self, entry: Entry) -> u32 {
        self.slot(entry).map_or(0, |slot| fingerprint(slot.key))
    }
}

fn fingerprint(key: u64) -> u32 {
    base::hash::mix64(key) as u32
}

/// A look-aside cache of `capacity` keys around a policy.
pub(crate) struct Driven {
    pub(crate) policy: Policy,
    rule: HitRule,
    slots: Slots,
    places: HashMap<u64, u32>,
    free: Vec<u32>,
    capacity: usize,
    evictions: u64,
}

impl Driven {
    pub(crate) fn new(kind: PolicyKind, capacity: u64) -> Self {
        let policy = Policy::new(kind, 0);
        let rule = policy.hit_rule();
        let capacity = capacity as usize;
        Self {
            policy,
            rule,
            slots: Slots::default(),
            places: HashMap::new(),
            free: Vec::new(),
            capacity,
            evictions: 0,
        }
    }

    /// Turns the policy into another; every key must stay.
    pub(crate) fn convert(&mut self, kind: PolicyKind) {
        while let Conversion::Unfinished(_) = self.policy.convert(kind, 100, &self.slots, 0) {}
        assert_eq!(self.policy.len(), self.places.len(), "{kind}");
        self.validate();
    }

    pub(crate) fn validate(&self) {
        assert_eq!(self.policy.len(), self.places.len());
        self.policy.validate(&self.slots);
    }

    /// Memory that the policy takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.policy.queue_bytes() + self.policy.ghost_bytes()
    }

    fn evict_one(&mut self) {
        let entry = self.policy.evict(&self.slots).expect("something to evict");
        let number = entry.0 & ((1 << INCARNATION_SHIFT) - 1);
        let slot = self.slots.slot(entry).expect("what is evicted was queued");
        self.slots.update(number, |slot| slot.is_queued = false);
        assert_eq!(self.places.remove(&slot.key), Some(number));
        self.free.push(number);
        self.evictions += 1;
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let slot = Slot { key: 0, bits: 0, incarnation: 0, is_queued: false, was_hit: false };
            let mut slots = self.slots.0.borrow_mut();
            slots.push(Cell::new(slot));
            slots.len() as u32 - 1
        })
    }
}

impl Simulator for Driven {
    fn access(&mut self, key: u64, _size: u64) -> bool {
        if self.access_if_held(key) {
            return true;
        }
        while self.places.len() >= self.capacity {
            self.evict_one();
        }
        let number = self.take_slot();
        let bits = self.policy.admit(fingerprint(key));
        let slot = self.slots.update(number, |slot| {
            *slot =
                Slot { key, bits, incarnation: (slot.incarnation + 1) % 16, is_queued: true, was_hit: false };
        });
        self.places.insert(key, number);
        self.policy.push(Entry(u32::from(slot.incarnation) << INCARNATION_SHIFT | number), bits, 0);
        self.policy.restore_shares(&self.slots);
        false
    }

    fn access_if_held(&mut self, key: u64) -> bool {
        let Some(number) = self.places.get(&key) else { return false };
        self.rule.count(|| fingerprint(key));
        self.slots.update(*number, |slot| {
            slot.bits = self.rule.apply(slot.bits, !slot.was_hit, || 0);
            slot.was_hit = true;
        });
        true
    }

    fn remove(&mut self, key: u64) -> bool {
        let Some(number) = self.places.remove(&key) else { return false };
        let slot = self.slots.update(number, |slot| slot.is_queued = false);
        self.policy.removed(slot.bits, &self.slots, || unreachable!("no conversion is under way"));
        self.free.push(number);
        true
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn evictions(&self) -> u64 {
        self.evictions
    }
}
