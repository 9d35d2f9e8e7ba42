//! A check of the invariants that tie the parts of a cache together.

use std::sync::atomic::Ordering;

use base::Part;

use super::Cache;
use crate::allocate::metadata_x100_of;
use crate::class::View;

impl Cache {
    /// Walks everything and checks the invariants that tie the parts together. For tests, on a
    /// cache at rest.
    ///
    /// # Panics
    /// Where one does not hold, naming it.
    pub fn validate(&self) {
        let core = &self.core;
        let (mut indexed, mut all_bytes) = (0, core.unclaimed.lock().bytes() + core.retired_runs.bytes());
        let mut metadata_x100 = core.retired_runs.metadata_x100();
        let mut all_vacant = 0;
        for pool in core.pools.all().iter() {
            let (mut bytes, mut vacant) = (0, 0);
            for (number, class) in pool.used_classes() {
                core.fold_magazines(class);
                let inner = class.inner.lock();
                let info = inner.chunks.info();
                assert_eq!((info.pool, info.class), (pool.number, number), "a class's slabs name the class");
                let view = View::new(core, &inner.chunks);
                inner.policy.validate(&view);
                bytes += inner.chunks.bytes();
                vacant += class.vacant_bytes.load(Ordering::Relaxed);
                let (mut items, mut queued, mut links) = (0, 0, 0);
                for run in inner.chunks.runs().collect::<Vec<_>>() {
                    metadata_x100 += metadata_x100_of(run.chunks(info).into(), inner.policy.kind());
                    assert!(core.arena.is_there(run, info), "the tables say whose a run is");
                    for ptr in (0..run.chunks(info)).map(|number| run.chunk(number)) {
                        assert_eq!(core.arena.info_of(ptr), info, "the table says whose a chunk is");
                        let state = core.arena.item(ptr).0.state();
                        queued += usize::from(state.is_queued());
                        // SAFETY: the item is in the index or in a chain, and the lock of the class
                        // is held (invariant 5 of `magazine`).
                        if state.is_indexed() && unsafe { core.arena.item(ptr).0.is_link() } {
                            links += 1;
                            assert!(core.is_chained(ptr), "a link is in the chain of its item");
                        } else if state.is_indexed() {
                            items += 1;
                            assert!(
                                !state.is_chained() || core.is_whole(ptr),
                                "a chain is as long as it says"
                            );
                            assert!(state.is_queued(), "an item in the index is in its queue");
                            // SAFETY: the item is in the index, and the lock of the class is held
                            // (invariant 5 of `magazine`).
                            let hash = unsafe { core.hash_of_item(ptr) };
                            assert!(core.index.contains(hash, ptr), "an indexed item is found in the index");
                        }
                    }
                }
                assert_eq!(queued, inner.policy.len(), "the policy counts what is queued");
                assert_eq!(items, class.items(), "the counters count the items");
                assert_eq!(links, class.links(), "the counters count the links");
                indexed += items;
            }
            assert_eq!(bytes, pool.slab_bytes(), "a pool counts its memory");
            assert_eq!(vacant, pool.upkeep.vacant.bytes(), "a pool counts its vacant memory");
            (all_bytes, all_vacant) = (all_bytes + bytes, all_vacant + vacant);
        }
        assert_eq!(all_vacant, core.vacant.bytes(), "the cache counts its vacant memory");
        assert_eq!(core.index.len(), indexed, "the index has an entry per item");
        let expected_x100 = core.metadata_x100.load(Ordering::Relaxed);
        assert_eq!(expected_x100, metadata_x100, "metadata is expected for the runs that there are");
        let slabs = core.arena.bytes();
        assert_eq!(core.ledger.part(Part::Slabs), slabs, "the bill counts the slabs");
        let tables = core.arena.split_slabs() as u64 * slab::run::UNIT_TABLE_BYTES as u64;
        assert_eq!(all_bytes + tables + core.arena.free_unit_bytes(), slabs, "no memory is lost");
    }
}
