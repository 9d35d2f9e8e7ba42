use std::io::ErrorKind;

use super::*;
use crate::run::UNITS;

fn info(chunk_bytes: u32) -> SlabInfo {
    SlabInfo { chunk_bytes, pool: 513, class: 7, keyspace: 9 }
}

#[test]
fn slabs_are_assigned_once_and_come_back() {
    let arena = Arena::reserve(2, false).expect("address space");
    let a = arena.assign(info(64)).expect("first");
    let b = arena.assign(info(4096)).expect("second");
    assert_ne!(a, b);
    assert_eq!(arena.assign(info(64)), None);
    assert_eq!(arena.info(b.id), info(4096));
    // SAFETY: none of its chunks was ever used, so that nobody can reach one (invariant 3 of
    // `arena`).
    unsafe { arena.give_back(a) };
    assert_eq!(arena.assigned_slabs(), 1);
    assert_eq!(arena.info(a.id).chunk_bytes, 0);
    assert_eq!(arena.assign(info(128)), Some(a));
}

#[test]
fn slabs_that_have_memory_are_assigned_first_and_no_more_than_allowed_keep_it() {
    let arena = Arena::reserve(8, false).unwrap();
    assert_eq!(arena.touch_ahead(2, 8), 2);
    assert_eq!(arena.touch_ahead(2, 8), 0, "they have it already");
    assert_eq!(arena.assigned_slabs(), 0);
    let slab = arena.assign(info(64)).unwrap();
    assert_eq!((slab.id.slab().0, arena.assigned_slabs()), (1, 1));
    assert_eq!(arena.touch_ahead(3, 8), 2);
    assert_eq!(arena.touch_ahead(3, 1), 0);
    assert_eq!(arena.free.lock().touched.len(), 1, "the others gave it back");
    assert_eq!(arena.touch_ahead(100, 100), 6, "there are no more");
    while arena.assign(info(64)).is_some() {}
    assert_eq!(arena.assigned_slabs(), 8);
    // SAFETY: none of its chunks was ever used, so that nobody can reach one (invariant 3 of
    // `arena`).
    unsafe { arena.give_back(slab) };
    assert_eq!((arena.touch_ahead(1, 1), arena.assign(info(64))), (1, Some(slab)));
}

#[test]
fn memory_of_a_returned_slab_reads_as_zeros() {
    let arena = Arena::reserve(1, true).expect("address space");
    let slab = arena.assign(info(64)).expect("a slab");
    let ptr = slab.chunk(65_535);
    arena.item(ptr).0.state().set_bits_for_test(0xffff_ffff);
    // SAFETY: the only user of the chunk is this test, which is done with it (invariant 3 of
    // `arena`).
    unsafe { arena.give_back(slab) };
    assert_eq!(arena.assign(info(64)), Some(slab));
    assert_eq!(arena.item(ptr).0.state().bits_for_test(), 0);
}

#[test]
fn what_a_table_of_units_cannot_mean_is_in_no_run() {
    let slab = SlabId(3);
    let good = info(128).pack_unit(0);
    let mut words = [0; UNITS as usize];
    words[3] = good;
    words[4] = info(128).pack_unit(1);
    words[5] = info(128).pack_unit(3);
    words[6] = info(64).pack_unit(1);
    words[7] = info(8).pack_unit(0);
    words[8] = info(8192).pack_unit(0);
    words[1] = good;
    words[1023] = good;
    let found = runs_of(slab, words.into_iter());
    let expected = [(Run { id: RunId::at_unit(slab, 3), units: 2 }, info(128))];
    assert_eq!(found[..1], expected);
    assert_eq!(found[1..], [(Run { id: RunId::at_unit(slab, 1023), units: 1 }, info(128))]);
}

#[test]
fn a_shared_arena_is_found_as_it_was_left() {
    let folder = std::env::temp_dir().join(format!("millpond-arena-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let open = |slabs| {
        Arena::open(Shared::open(&folder).expect("opens"), slabs, u64::from(slabs) << 22, false)
            .expect("maps")
    };
    let bits = |arena: &Arena, run: Run, number| arena.item(run.chunk(number)).0.state().bits_for_test();
    let arena = open(4);
    assert!(arena.found().is_empty());
    let slabs: Vec<Run> = (0..4).map(|i| arena.assign(info(64 << i)).expect("free")).collect();
    for (i, slab) in slabs.iter().enumerate() {
        arena.item(slab.chunk(7)).0.state().set_bits_for_test(i as u32 + 1);
    }
    // SAFETY: the only user of the chunks is this test, which is done with them (invariant 3 of
    // `arena`).
    unsafe { arena.give_back(slabs[1]) };
    let refused = Shared::open(&folder).expect_err("in use");
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    drop(arena);
    // With fewer slabs, what does not fit is gone; what was free is zero; the rest is there.
    let arena = open(3);
    assert_eq!(arena.found(), [(slabs[0], info(64)), (slabs[2], info(256))]);
    assert_eq!((bits(&arena, slabs[0], 7), bits(&arena, slabs[2], 7)), (1, 3));
    arena.reassign(slabs[2], SlabInfo { pool: 1, ..info(256) });
    let again = arena.assign(info(128)).expect("the one that was given back");
    assert_eq!((again, bits(&arena, again, 7), arena.assign(info(64))), (slabs[1], 0, None));
    drop(arena);
    let arena = open(8);
    assert_eq!(arena.info(slabs[2].id).pool, 1);
    let fourth = arena.assign(info(512)).expect("free");
    assert_eq!((fourth, bits(&arena, fourth, 7)), (slabs[3], 0));
    let found = arena.found();
    // No slab of these words: one that is split does not leave, and no chunk has 65 bytes.
    arena.word(SlabId(5)).store(SPLIT | LEAVING, Ordering::Relaxed);
    arena.word(SlabId(6)).store(65 << 40, Ordering::Relaxed);
    drop(arena);
    assert_eq!(open(8).found(), found);
    std::fs::write(folder.join("words"), [7; 8192]).expect("writes");
    let refused = Shared::open(&folder).expect_err("not ours");
    assert_eq!(refused.kind(), ErrorKind::InvalidData);
    assert!(refused.to_string().contains("remove it"), "{refused}");
    std::fs::remove_dir_all(&folder).expect("removes");
}

#[test]
fn a_run_that_was_given_back_is_never_there_whatever_lies_in_its_slab() {
    let arena = Arena::reserve(1, false).expect("address space");
    let (small, large) = (info(64), info(128));
    // Odd: the first run was given back, and is not there.
    let round = AtomicU64::new(0);
    let (seen, is_over) = (Mutex::new(None), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while is_over.load(Ordering::Acquire) == 0 {
                let Some(run) = *seen.lock() else { continue };
                for _ in 0..100 {
                    let before = round.load(Ordering::Acquire);
                    let is_there = arena.is_there(run, small);
                    let after = round.load(Ordering::Acquire);
                    assert!(!is_there || before != after || before.is_multiple_of(2), "it was given back");
                }
            }
        });
        for _ in 0..2_000 {
            assert!(arena.split());
            let run = arena.assign_units(small, 1).expect("free");
            let other = arena.assign_units(small, 1).expect("free");
            // SAFETY: nobody uses a chunk of the run (invariant 3 of `arena`).
            unsafe { arena.give_back(run) };
            round.fetch_add(1, Ordering::AcqRel);
            *seen.lock() = Some(run);
            // SAFETY: the same (invariant 3 of `arena`).
            unsafe { arena.give_back(other) };
            let whole = arena.assign(large).expect("free");
            // What looks like the table of a slab that has the run.
            let start = arena.slab_start(whole.id.slab()).cast::<u64>();
            for word in 0..UNITS as usize {
                // SAFETY: the slab is this thread's (invariant 2 of `arena`), and longer.
                unsafe { start.add(word).write(small.pack_unit(0)) };
            }
            // SAFETY: the same (invariant 3 of `arena`).
            unsafe { arena.give_back(whole) };
            *seen.lock() = None;
            round.fetch_add(1, Ordering::AcqRel);
        }
        is_over.store(1, Ordering::Release);
    });
}
