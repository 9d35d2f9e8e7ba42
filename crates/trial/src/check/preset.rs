//! Declared checks with names: CacheLib's consistency and slab-release stress, in this project's
//! own parameters.
//!
//! Each preset stands for a configuration of facebook/CacheLib's
//! `cachebench/test_configs/consistency` or `feature_stress/slab_release` of the same name: as much
//! memory, as many pools, keys and threads, the same sizes and the same calls. What an original has
//! that the engine does not is said in every report: flash, chained items. Slabs are rebalanced at
//! random, as in the originals but more often, and limits of pools and memory move as well. Values
//! are at least 32 bytes, which the checksum needs.

use base::ByteSize;
use millpond::strategy::{Random, Strategy};
use millpond::{PolicyKind, SizeClassConfig};
use workload::{Mix, Popularity, Sizes};

use super::CheckSpec;

/// The share of writes that have a lifetime.
const ADDED_TTL_SHARE: f64 = 0.1;

/// A range of sizes with its weight: smallest, largest, weight.
type Part = (u32, u32, f64);

/// A check with a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    memory_mib: u64,
    pools: &'static [f64],
    class_factor: f64,
    keys: u64,
    threads: usize,
    key_size: &'static [Part],
    value_size: &'static [Part],
    /// Gets, sets (with what appends to chains), deletes.
    mix: (f64, f64, f64),
    lacks: &'static [&'static str],
    /// A class with no more slabs gives none.
    min_slabs: u64,
}

const NO_FLASH: &str = "the flash tier: the engine has none, so that what would go to flash is evicted";
const NO_ENCRYPTION: &str = "encryption of flash";
const NO_REINSERTION: &str = "reinsertion of flash regions";
const NO_TRUNCATION: &str = "truncation of items to their asked-for size on flash";
const NO_CHAINS: &str = "chained items: an append to a chain is a set here";
const ALWAYS_MOVING: &str = "eviction of the items of a released slab: they are moved where they can be";

const TWO_POOLS: &[f64] = &[0.5, 0.5];
const ONE_POOL: &[f64] = &[1.0];
const SHORT_KEYS: &[Part] = &[(1, 7, 0.5), (8, 63, 0.5)];
const SMALL_VALUES: &[Part] = &[(256, 1_023, 0.2), (1_024, 4_095, 0.7), (4_096, 8_191, 0.1)];
const STRESS_KEYS: &[Part] = &[(1, 7, 0.1), (8, 31, 0.1), (32, 63, 0.2), (64, 127, 0.3), (128, 250, 0.3)];
const STRESS_VALUES: &[Part] = &[
    (1, 127, 0.1),
    (128, 1_023, 0.1),
    (1_024, 4_095, 0.2),
    (4_096, 10_239, 0.2),
    (10_240, 20_479, 0.2),
    (20_480, 40_959, 0.1),
    (40_960, 59_999, 0.1),
];

/// 150 MB, two pools, 200,000 keys, mostly reads.
const RAM: Preset = Preset {
    name: "ram",
    about: "two pools in memory, no deletes",
    memory_mib: 150,
    pools: TWO_POOLS,
    class_factor: 2.0,
    keys: 200_000,
    threads: 40,
    key_size: SHORT_KEYS,
    value_size: SMALL_VALUES,
    mix: (0.8, 0.15, 0.0),
    lacks: &[NO_CHAINS],
    min_slabs: 1,
};
const NAVY_LACKS: &[&str] = &[NO_FLASH, NO_CHAINS];
const NAVY: Preset =
    Preset { name: "navy", about: "the same with a flash tier of 1 GiB", lacks: NAVY_LACKS, ..RAM };
const NAVY_DELETES: Preset =
    Preset { name: "navy-with-deletes", about: "flash and deletes", mix: (0.8, 0.15, 0.01), ..NAVY };
const NAVY_ENCRYPTION: Preset = Preset {
    name: "navy-with-encryption",
    about: "encrypted flash and deletes",
    lacks: &[NO_FLASH, NO_ENCRYPTION, NO_CHAINS],
    ..NAVY_DELETES
};
/// 100 MB, one pool, a million keys, as many writes as reads.
const NAVY_REINSERTION: Preset = Preset {
    name: "navy-with-reinsertion",
    about: "a million keys, half of the calls are sets, reinsertion on flash",
    memory_mib: 100,
    pools: ONE_POOL,
    keys: 1_000_000,
    key_size: &[(1, 7, 1.0)],
    value_size: &[(1_024, 10_239, 1.0)],
    mix: (0.5, 0.5, 0.0),
    lacks: &[NO_FLASH, NO_REINSERTION],
    ..RAM
};
/// 250 MB, one pool, few keys with large values.
const CHAINED_MOVING: Preset = Preset {
    name: "chained-items-stress-moving",
    about: "20,000 keys with large values, many deletes, items moved",
    memory_mib: 250,
    pools: ONE_POOL,
    keys: 20_000,
    key_size: &[(64, 64, 1.0)],
    value_size: &[(11_920, 81_919, 1.0)],
    mix: (0.5, 0.25, 0.2),
    ..RAM
};
/// 10 GiB, one pool, all sizes.
const SLAB_RELEASE: Preset = Preset {
    name: "slab-release",
    about: "slabs released at random, items evicted",
    memory_mib: 10_240,
    pools: ONE_POOL,
    class_factor: 1.5,
    keys: 1_000_000,
    threads: 32,
    key_size: STRESS_KEYS,
    value_size: STRESS_VALUES,
    mix: (0.5, 0.1, 0.001),
    lacks: &[ALWAYS_MOVING],
    min_slabs: 2,
};
const SLAB_RELEASE_CHAINED: Preset = Preset {
    name: "slab-release-chained-items",
    about: "the same with ten million keys and chained items",
    keys: 10_000_000,
    key_size: &[(8, 15, 0.3), (16, 63, 0.7)],
    value_size: &[(1, 127, 0.3), (128, 4_095, 0.5), (4_096, 20_479, 0.2)],
    mix: (0.3, 0.25, 0.0002),
    lacks: &[NO_CHAINS, ALWAYS_MOVING],
    ..SLAB_RELEASE
};

/// All of them: 14 for consistency, 4 for slab release.
pub const PRESETS: [Preset; 18] = [
    RAM,
    Preset {
        name: "ram-with-deletes",
        about: "two pools in memory, with deletes",
        mix: (0.8, 0.15, 0.01),
        ..RAM
    },
    NAVY,
    NAVY_DELETES,
    Preset {
        name: "navy-with-deletes-inmem-buf",
        about: "flash with write buffers in memory, deletes",
        ..NAVY_DELETES
    },
    Preset {
        name: "navy-with-deletes-stack-alloc-inmem-buf",
        about: "flash without size classes, buffers in memory, deletes",
        ..NAVY_DELETES
    },
    Preset {
        name: "navy-with-deletes-with-truncated-alloc-size",
        about: "flash with truncated items, deletes",
        lacks: &[NO_FLASH, NO_TRUNCATION, NO_CHAINS],
        ..NAVY_DELETES
    },
    NAVY_ENCRYPTION,
    Preset {
        name: "navy-with-encryption-inmem-buf",
        about: "the same with buffers in memory",
        ..NAVY_ENCRYPTION
    },
    NAVY_REINSERTION,
    Preset {
        name: "navy-with-reinsertion-inmem-buf",
        about: "the same with buffers in memory",
        ..NAVY_REINSERTION
    },
    Preset {
        name: "navy-with-reinsertion-multiple-clean-threads",
        about: "the same with two threads that clean regions",
        ..NAVY_REINSERTION
    },
    CHAINED_MOVING,
    Preset {
        name: "chained-items-stress-no-moving",
        about: "20,000 keys with large values, many deletes, items evicted",
        lacks: &[NO_CHAINS, ALWAYS_MOVING],
        ..CHAINED_MOVING
    },
    SLAB_RELEASE,
    Preset {
        name: "slab-release-moving",
        about: "slabs released at random, items moved",
        lacks: &[],
        ..SLAB_RELEASE
    },
    SLAB_RELEASE_CHAINED,
    Preset {
        name: "slab-release-chained-items-moving",
        about: "ten million keys, chained items, items moved",
        lacks: &[NO_CHAINS],
        ..SLAB_RELEASE_CHAINED
    },
];

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The declaration. Popularity is normal around the middle key, as CacheBench has it where
    /// nothing is said; the policy is LRU with a refresh time of 60 s, CacheLib's default. One
    /// write in ten has a lifetime, which no original has.
    pub fn spec(&self) -> CheckSpec {
        let sizes = |parts: &[Part]| Sizes::weighted(parts.to_vec()).unwrap_or_else(|| Sizes::fixed(1));
        let (get, set, delete) = self.mix;
        CheckSpec {
            name: self.name.into(),
            memory: ByteSize::mib(self.memory_mib),
            pools: self.pools.to_vec(),
            policy: PolicyKind::LRU,
            strategy: Strategy::Random(Random { min_slabs: self.min_slabs }),
            classes: SizeClassConfig::Factor { factor: self.class_factor, min: 64, max: 1 << 20 },
            keys: self.keys,
            key_size: sizes(self.key_size),
            value_size: sizes(self.value_size),
            popularity: Popularity::Normal,
            mix: Mix { get, set, delete, ..Mix::default() },
            ttl_share: ADDED_TTL_SHARE,
            threads: self.threads,
            not_expressed: self.lacks.iter().map(|&lack| lack.to_owned()).collect(),
            ..CheckSpec::default()
        }
    }
}
