//! Random operations, against std's maps.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use millpond::structured::{Map, OrderedMap};
use millpond::{Cache, Clock, PoolId};
use proptest::prelude::*;

use super::{cache_of, defaults};

/// One operation; keys are few, so that they meet.
#[derive(Clone, Debug)]
enum Op {
    Insert(u16, Vec<u8>),
    Remove(u16),
    Get(u16),
    Append(u16, u8),
    Range(u16, u16, usize),
    Compact,
    Clear,
    /// Another handle goes on.
    Open,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..300_u16;
    let value = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(any::<u8>(), 0..3_000),
    ];
    let op = prop_oneof![
        10 => (key.clone(), value).prop_map(|(key, value)| Op::Insert(key, value)),
        4 => key.clone().prop_map(Op::Remove),
        4 => key.clone().prop_map(Op::Get),
        2 => (key.clone(), any::<u8>()).prop_map(|(key, byte)| Op::Append(key, byte)),
        2 => (key.clone(), key, 0..50_usize).prop_map(|(a, b, limit)| Op::Range(a, b, limit)),
        1 => Just(Op::Compact),
        1 => prop_oneof![Just(Op::Clear), Just(Op::Compact)],
        1 => Just(Op::Open),
    ];
    prop::collection::vec(op, 0..1_500)
}

/// A cache in which nothing is evicted, though maps grow through many size classes.
fn roomy() -> (Cache, PoolId) {
    cache_of(256, &Clock::manual(1_000))
}

/// Returns what an update makes of a value: longer by a byte, or gone.
fn appended(old: Option<Vec<u8>>, byte: u8) -> Option<Vec<u8>> {
    match old {
        Some(old) if byte.is_multiple_of(8) && old.len().is_multiple_of(2) => None,
        old => Some([old.unwrap_or_default(), vec![byte]].concat()),
    }
}

/// The first eight bytes of a value, for maps whose values are all of one length.
fn number(value: &[u8]) -> u64 {
    value.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_map_is_a_hash_map(ops in ops()) {
        let (cache, pool) = roomy();
        let mut map = Map::<u16, [u8]>::create(&cache, pool, b"map", &defaults()).unwrap().unwrap();
        let fixed = Map::<[u8; 2], u64>::create(&cache, pool, b"fixed", &defaults()).unwrap().unwrap();
        let set = Map::<u16, ()>::create(&cache, pool, b"set", &defaults()).unwrap().unwrap();
        let mut model: HashMap<u16, Vec<u8>> = HashMap::new();
        for op in ops {
            match op {
                Op::Insert(key, value) => {
                    let (bytes, number_of) = (key.to_le_bytes(), number(&value));
                    let old = model.insert(key, value.clone());
                    prop_assert_eq!(fixed.insert(&bytes, &number_of).unwrap().is_some(), old.is_some());
                    prop_assert_eq!(set.insert(&key, &()).unwrap().is_some(), old.is_some());
                    prop_assert_eq!(map.insert(&key, &value).unwrap(), old);
                }
                Op::Remove(key) => {
                    let old = model.remove(&key);
                    prop_assert_eq!(fixed.remove(&key.to_le_bytes()).unwrap().is_some(), old.is_some());
                    prop_assert_eq!(set.remove(&key).unwrap(), old.as_ref().map(|_| ()));
                    prop_assert_eq!(map.remove(&key).unwrap(), old);
                }
                Op::Append(key, byte) => {
                    let old = model.remove(&key);
                    prop_assert_eq!(&map.update(&key, |old| appended(old, byte)).unwrap(), &old);
                    if let Some(new) = appended(old, byte) {
                        fixed.insert(&key.to_le_bytes(), &number(&new)).unwrap();
                        set.insert(&key, &()).unwrap();
                        model.insert(key, new);
                    } else {
                        fixed.remove(&key.to_le_bytes()).unwrap();
                        set.remove(&key).unwrap();
                    }
                }
                Op::Get(key) | Op::Range(key, ..) => {
                    let value = model.get(&key);
                    prop_assert_eq!(&map.get(&key).unwrap(), &value.cloned());
                    prop_assert_eq!(map.contains(&key).unwrap(), value.is_some());
                    let number = value.map(|value| number(value));
                    prop_assert_eq!(fixed.get(&key.to_le_bytes()).unwrap(), number);
                    prop_assert_eq!(set.contains(&key).unwrap(), value.is_some());
                }
                Op::Compact => {
                    map.compact().unwrap();
                    fixed.compact().unwrap();
                    prop_assert_eq!(map.usage().unwrap().garbage_bytes, 0);
                }
                Op::Clear => {
                    map.clear().unwrap();
                    fixed.clear().unwrap();
                    set.clear().unwrap();
                    model.clear();
                }
                Op::Open => map = Map::open(&cache, pool, b"map").unwrap().unwrap(),
            }
            prop_assert_eq!(map.len().unwrap(), model.len());
            let usage = map.usage().unwrap();
            prop_assert!(usage.used_bytes + usage.garbage_bytes <= usage.capacity_bytes, "{:?}", usage);
        }
        prop_assert_eq!(map.entries().unwrap().into_iter().collect::<HashMap<_, _>>(), model.clone());
        let numbers: HashMap<_, _> =
            model.iter().map(|(key, value)| (key.to_le_bytes(), number(value))).collect();
        prop_assert_eq!(fixed.entries().unwrap().into_iter().collect::<HashMap<_, _>>(), numbers);
        prop_assert_eq!(set.len().unwrap(), model.len());
        cache.validate();
    }

    #[test]
    fn an_ordered_map_is_a_btree_map(ops in ops()) {
        let (cache, pool) = roomy();
        let mut map = OrderedMap::<u16, [u8]>::create(&cache, pool, b"map", &defaults()).unwrap().unwrap();
        let fixed = OrderedMap::<i16, u64>::create(&cache, pool, b"fixed", &defaults()).unwrap().unwrap();
        let mut model: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        // Backwards, and over zero.
        let turned = |key: u16| 100 - key as i16;
        for op in ops {
            match op {
                Op::Insert(key, value) => {
                    let old = model.insert(key, value.clone());
                    let was = fixed.insert(&turned(key), &number(&value)).unwrap();
                    prop_assert_eq!(was.is_some(), old.is_some());
                    prop_assert_eq!(map.insert(&key, &value).unwrap(), old);
                }
                Op::Remove(key) => {
                    let old = model.remove(&key);
                    prop_assert_eq!(fixed.remove(&turned(key)).unwrap().is_some(), old.is_some());
                    prop_assert_eq!(map.remove(&key).unwrap(), old);
                }
                Op::Append(key, byte) => {
                    let old = model.remove(&key);
                    prop_assert_eq!(&map.update(&key, |old| appended(old, byte)).unwrap(), &old);
                    if let Some(new) = appended(old, byte) {
                        fixed.insert(&turned(key), &number(&new)).unwrap();
                        model.insert(key, new);
                    } else {
                        fixed.remove(&turned(key)).unwrap();
                    }
                }
                Op::Get(key) => {
                    prop_assert_eq!(&map.get(&key).unwrap(), &model.get(&key).cloned());
                    prop_assert_eq!(map.contains(&key).unwrap(), model.contains_key(&key));
                    let first = model.first_key_value().map(|(key, value)| (*key, value.clone()));
                    let last = model.last_key_value().map(|(key, value)| (*key, value.clone()));
                    prop_assert_eq!((map.first().unwrap(), map.last().unwrap()), (first, last));
                }
                Op::Range(a, b, limit) => {
                    let (low, high) = (a.min(b), a.max(b));
                    let some = |entries: std::collections::btree_map::Range<'_, u16, Vec<u8>>| -> Vec<_> {
                        entries.take(limit).map(|(key, value)| (*key, value.clone())).collect()
                    };
                    prop_assert_eq!(map.range(low..high, limit).unwrap(), some(model.range(low..high)));
                    prop_assert_eq!(map.range(low..=high, limit).unwrap(), some(model.range(low..=high)));
                    prop_assert_eq!(map.range(..low, limit).unwrap(), some(model.range(..low)));
                    let behind = (Bound::Excluded(low), Bound::Unbounded);
                    prop_assert_eq!(map.range(behind, limit).unwrap(), some(model.range(behind)));
                    prop_assert_eq!(map.range(high..low, limit).unwrap(), []);
                }
                Op::Compact => {
                    map.compact().unwrap();
                    fixed.compact().unwrap();
                    prop_assert_eq!(map.usage().unwrap().garbage_bytes, 0);
                }
                Op::Clear => {
                    map.clear().unwrap();
                    fixed.clear().unwrap();
                    model.clear();
                }
                Op::Open => map = OrderedMap::open(&cache, pool, b"map").unwrap().unwrap(),
            }
            prop_assert_eq!(map.len().unwrap(), model.len());
        }
        let numbers: Vec<_> =
            model.iter().rev().map(|(key, value)| (turned(*key), number(value))).collect();
        prop_assert_eq!(fixed.entries().unwrap(), numbers);
        prop_assert_eq!(map.entries().unwrap(), model.into_iter().collect::<Vec<_>>());
        cache.validate();
    }
}
