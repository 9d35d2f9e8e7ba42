//! Items in a chunk of their own, and the state word's rules.

use super::*;
use crate::{Arena, ItemPtr, SlabInfo};

#[repr(align(8))]
struct Chunk([u8; 128]);

fn with_item(test: impl FnOnce(Item<'_>)) {
    let mut chunk = Chunk([0xee; 128]);
    // SAFETY: `chunk` is aligned, 128 bytes long, and outlives the test: what invariants 1 and 2 of
    // `slab::arena` say of a chunk holds for it.
    test(unsafe { Item::at(NonNull::from(&mut chunk.0).cast(), 128) });
}

fn fields(layout: Layout) -> Fields {
    Fields { layout, created: 11, expiry: 22, cas: 33, client_flags: 44 }
}

#[test]
fn every_layout_keeps_what_it_has_room_for() {
    for layout in [Layout::Plain, Layout::Expiring, Layout::Flagged, Layout::Tagged] {
        with_item(|item| {
            // SAFETY: this test alone owns the chunk (invariant 2), and the item fits.
            unsafe {
                item.state().begin();
                item.init(&fields(layout), b"key", 5);
                item.value_mut().copy_from_slice(b"value");
                assert_eq!((item.key(), item.value()), (&b"key"[..], &b"value"[..]));
                assert_eq!(item.layout(), layout);
                assert_eq!(item.used_bytes(), layout.header_bytes() + 8);
                assert_eq!(item.created(), 11);
                let expiry = item.expiry().map(|expiry| expiry.load(Ordering::Relaxed));
                assert_eq!(expiry, layout.has_expiry().then_some(22));
                assert_eq!(item.cas(), layout.has_tag().then_some(33));
                let access = item.last_access().map(|access| access.load(Ordering::Relaxed));
                assert_eq!(access, layout.has_tag().then_some(11));
                assert_eq!(item.client_flags(), if layout.has_flags() { 44 } else { 0 });
            }
        });
    }
}

#[test]
fn references_are_taken_only_while_indexed() {
    let word = StateWord::new(0);
    word.begin();
    assert_eq!((word.references(), word.incarnation()), (1, 1));
    assert_eq!(word.acquire(), Acquired::Gone);
    word.publish();
    assert_eq!(word.acquire(), Acquired::Yes);
    assert_eq!(word.policy_if_fetched(), None);
    assert!(word.record_access(|bits, first| bits + u8::from(first)));
    assert_eq!(word.acquire(), Acquired::Yes);
    assert_eq!(word.policy_if_fetched(), Some(1));
    assert!(!word.record_access(|bits, _| bits + 1));
    assert_eq!((word.references(), word.policy()), (3, 2));
    assert_eq!(word.claim(), Claim::Held);
    assert!(word.unindex() && !word.unindex());
    assert_eq!(word.references(), 4);
    assert!(!word.release());
    assert!(!word.release());
    assert!(!word.release());
    assert!(word.release(), "the last holder of an unlinked item frees it");
}

#[test]
fn a_claim_takes_an_idle_item_once() {
    let word = StateWord::new(0);
    word.begin();
    word.publish();
    assert_eq!(word.enqueue(0x5a, |_, _| 0), Some(0x5a));
    assert_eq!(word.enqueue(0, |_, _| 0), None, "what is queued is not queued again");
    assert!(!word.release());
    assert_eq!(word.policy(), 0x5a);
    assert_eq!(word.claim(), Claim::Taken);
    assert_eq!(word.claim(), Claim::Gone);
    assert!(!word.is_queued());
    assert_eq!(word.enqueue(0, |_, _| 0), None, "what left the index is not queued");
    assert_eq!(word.acquire(), Acquired::Gone);
}

#[test]
fn what_is_held_is_not_taken_for_a_link() {
    let word = StateWord::new(0);
    word.begin();
    assert_eq!(word.unindex_if_idle(), Claim::Held, "its maker holds it");
    word.publish();
    assert_eq!(word.enqueue(0x5a, |_, _| 0), Some(0x5a));
    assert!(!word.release());
    assert_eq!(word.unindex_if_idle(), Claim::Taken);
    assert_eq!((word.references(), word.is_indexed(), word.is_queued()), (1, false, true));
    assert!(word.release());
    assert_eq!(word.unindex_if_idle(), Claim::Gone);
}

#[test]
fn a_chain_lies_behind_the_value_and_a_link_before_its_own() {
    with_item(|item| {
        let (a, b) = (ItemPtr::from_bits(7), ItemPtr::from_bits(9));
        // SAFETY: this test alone owns the chunk (invariant 2), and the items fit.
        unsafe {
            item.state().begin();
            item.init(&fields(Layout::Expiring), b"key", 5);
            item.value_mut().copy_from_slice(b"value");
            item.init_chain();
            assert_eq!(item.chain(), (None, 0));
            item.set_chain(Some(a), 3);
            assert_eq!((item.chain(), item.value()), ((Some(a), 3), &b"value"[..]));
            assert_eq!(item.used_bytes(), 16 + 3 + 5 + link::CHAIN_BYTES);
            assert!(item.is_plausible() && !item.is_link());

            item.state().begin();
            assert!(!item.state().is_chained(), "a chunk begins without");
            item.init_link(1, 0xabcd, 4);
            item.link_value_mut().copy_from_slice(b"link");
            assert!(item.is_link() && item.is_plausible());
            assert_eq!(item.link(), (None, None));
            item.set_link(Some(b), Some(a));
            item.set_link_before(Some(a));
            assert_eq!((item.link(), item.link_before()), ((Some(b), Some(a)), Some(a)));
            assert_eq!(item.link_tag(), 0xabcd);
            assert_eq!((item.link_value(), item.used_bytes()), (&b"link"[..], link::link_item_bytes(4)));
        }
    });
}

#[test]
fn references_do_not_overflow_into_flags() {
    let word = StateWord::new(0);
    word.begin();
    word.publish();
    let mut taken = 1;
    while word.acquire() != Acquired::Overflow {
        taken += 1;
    }
    assert_eq!(taken, 0x3ffe);
    let bits = word.bits_for_test();
    assert!(!word.duplicate() && !word.duplicate(), "nor by who holds one already");
    assert_eq!(word.bits_for_test(), bits);
    assert!(word.is_indexed() && !word.is_fetched() && !word.is_chained());
    assert!(word.unindex(), "one reference is kept for this");
    assert_eq!((word.references(), word.is_indexed(), word.is_fetched()), (0x3fff, false, false));
    assert!(!word.release() && !word.duplicate() && !word.release() && word.duplicate());
}

#[test]
fn bit_fields_do_not_touch_each_other() {
    let word = StateWord::new(0);
    word.begin();
    word.publish();
    word.set_policy(0xf0, 0xab);
    assert_eq!(word.policy(), 0xa0);
    assert_eq!(word.set_user_bits(0b10), 0);
    assert_eq!(word.set_user_bits(0b11), 0b10);
    assert_eq!(word.clear_user_bits(0b10), 0b11);
    assert_eq!((word.user_bits(), word.policy(), word.references()), (0b01, 0xa0, 1));
    for _ in 0..16 {
        word.begin();
    }
    assert_eq!((word.incarnation(), word.user_bits(), word.policy()), (1, 0, 0));
}

#[test]
fn keys_are_the_same_only_if_every_byte_is() {
    for len in 0..=80_usize {
        let key: Vec<u8> = (0..len).map(|i| i as u8).collect();
        assert!(same_bytes(&key, &key.clone()));
        assert!(!same_bytes(&key, &[&key[..], b"x"].concat()));
        for i in 0..len {
            let mut other = key.clone();
            other[i] ^= 0x80;
            assert!(!same_bytes(&key, &other), "byte {i} of {len}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no such mapping")]
fn a_copy_has_all_that_the_item_has() {
    let arena = Arena::reserve(1, false).expect("address space");
    let info = SlabInfo { chunk_bytes: 256, pool: 0, class: 0, keyspace: 0 };
    let slab = arena.assign(info).expect("a slab");
    for (n, layout) in
        [Layout::Plain, Layout::Expiring, Layout::Flagged, Layout::Tagged].into_iter().enumerate()
    {
        let (from, _) = arena.item(slab.chunk(2 * n as u32));
        let (to, _) = arena.item(slab.chunk(2 * n as u32 + 1));
        let fields = Fields { layout, created: 11, expiry: 22, cas: u64::MAX - 3, client_flags: 44 };
        from.state().begin();
        // SAFETY: this test alone owns the chunks (invariant 2), and the item fits into both.
        unsafe {
            from.init(&fields, b"a key", 200);
            from.value_mut().fill(7);
            from.init_chain();
            from.set_chain(Some(ItemPtr::from_bits(7)), n as u32);
            from.state().publish();
            from.state().record_access(|_, _| 0xa5);
            from.state().set_user_bits(0b10);
            from.copy_to(to);
            assert_eq!((to.key(), to.value(), to.layout()), (from.key(), from.value(), layout));
            assert_eq!((to.chain(), to.used_bytes()), (from.chain(), from.used_bytes()));
            assert_eq!((to.created(), to.cas(), to.client_flags()), (11, from.cas(), from.client_flags()));
            let time = |field: Option<&AtomicU32>| field.map(|field| field.load(Ordering::Relaxed));
            assert_eq!(time(to.expiry()), time(from.expiry()));
            assert_eq!(time(to.last_access()), time(from.last_access()));
        }
        let state = to.state();
        assert_eq!((state.references(), state.is_indexed(), state.is_queued()), (1, false, false));
        assert_eq!((state.policy(), state.user_bits(), state.is_fetched()), (0xa5, 0b10, true));
    }
}

#[test]
fn a_tail_is_the_rest_of_the_chunk_and_its_copy_is_equal() {
    with_item(|item| {
        with_item(|copy| {
            // SAFETY: this test alone owns the chunks (invariant 2), and the item fits.
            unsafe {
                item.state().begin();
                item.init(&fields(Layout::Expiring), b"key", TAILED);
                assert_eq!((item.key(), item.value()), (&b"key"[..], &b""[..]));
                assert!(item.is_plausible());
                let tail = item.tail().expect("made with one");
                // The header takes 16 bytes, the key 3 and the way to the next multiple of 4 one.
                assert_eq!((tail.len() * 4, item.used_bytes()), (128 - 20, 128));
                for (word, number) in tail.iter().zip(1..) {
                    word.store(number, Ordering::Relaxed);
                }
                item.copy_to(copy);
                let words = copy.tail().expect("a copy").iter().map(|word| word.load(Ordering::Relaxed));
                assert!(words.eq(1..=27));
                assert_eq!((copy.key(), copy.value()), (&b"key"[..], &b""[..]));
                item.init(&fields(Layout::Expiring), b"key", 5);
                assert!(item.tail().is_none() && !item.has_tail());
            }
        });
    });
}

/// The rule that look-ups in place rely on for [`Item::is_plain_and_inline`].
#[test]
fn an_item_is_plain_if_it_has_neither_options_nor_a_tail_nor_a_long_value() {
    for layout in [Layout::Plain, Layout::Expiring, Layout::Flagged, Layout::Tagged] {
        for (value_len, chained) in
            [0, 1, 255, 256, MAX_VALUE_BYTES, TAILED].iter().flat_map(|len| [(*len, false), (*len, true)])
        {
            for key_len in [0, 1, MAX_KEY_BYTES] {
                with_item(|item| {
                    let lengths = key_len as u32 | (value_len as u32) << 8 | (layout as u32) << 30;
                    // SAFETY: the chunk belongs to this test alone (invariant 2); only header and
                    // lengths are looked at.
                    unsafe {
                        item.state().begin();
                        item.init(&fields(Layout::Plain), b"", 0);
                        item.chunk.add(4).cast::<u32>().write(lengths);
                        if chained {
                            item.state().set_chained();
                        }
                        let is_usual = !layout.has_expiry() && !item.has_tail() && !item.is_long();
                        assert_eq!(item.is_plain_and_inline(), is_usual, "{lengths:08x}");
                    }
                });
            }
        }
    }
}
