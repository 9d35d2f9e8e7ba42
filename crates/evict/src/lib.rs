//! Eviction policies as plain values: no lock, no clock, no thread.
//!
//! A policy orders the items of one size class of one pool. The engine keeps it behind the lock of
//! that class and lets it choose the items to evict. A hit never takes that lock: it changes the
//! item's own 8 *policy bits* by the policy's [`HitRule`], and the policy applies them when it next
//! examines the item.
//!
//! | policy | what it is |
//! |---|---|
//! | [`lru`] | LRU with lazy promotion |
//! | [`insertion`] | LRU with insertion of new items below the top |
//! | [`split`] | LRU in two partitions by key |
//! | [`two_q`] | 2Q with hot, warm and cold queues |
//! | [`tiny_lfu`] | TinyLFU and W-TinyLFU |
//! | [`s3fifo`] | S3-FIFO |
//! | [`sieve`] | SIEVE |
//! | [`arc`] | ARC |
//!
//! `contract` defines the interface between policies and the engine, and explains how to add a
//! policy; [`Policy`] is the policy of a class. Policies are made of these parts: [`fifo`], queues
//! of 4-byte entries; [`ghost`], a memory of evicted keys; `lists`, LRU lists whose order follows
//! hits that take no lock, by the stamps of `generations`; `sketch`, the request frequencies of
//! keys. [`Policy::convert`] turns one policy into another while the cache serves, in steps.
//!
//! Queues name items by [`Entry`]; when an item is removed or replaced, its entry stays behind and
//! becomes *stale*. A policy drops stale entries when it evicts, and sweeps them out before they
//! exceed a third of its entries.

#![forbid(unsafe_code)]

pub mod arc;
mod contract;
mod convert;
pub mod fifo;
mod generations;
pub mod ghost;
mod hits;
pub mod insertion;
mod kind;
mod lists;
pub mod lru;
mod order;
mod policy;
mod queues;
pub mod s3fifo;
mod scan_budget;
pub mod sieve;
mod sketch;
pub mod split;
pub mod tiny_lfu;
pub mod two_q;

pub use contract::{Claim, Entry, Items, MAX_HELD_TRIES, MAX_QUEUES, PLACE_BITS, Queue};
pub use convert::{Conversion, EmptyQueues};
pub use hits::HitRule;
pub use kind::{PolicyKind, UnknownPolicy};
pub use policy::Policy;
pub use scan_budget::{MAX_SCANNED, MAX_STALE};

#[cfg(test)]
mod behaviour;
#[cfg(test)]
pub(crate) mod testing;
