//! The hot keys of a pool: those with most accesses, in a fixed amount of memory.
//!
//! Accesses are sampled at random, so that a hot key is seen however its key is hashed. The sampled
//! ones go to a HeavyKeeper (Gong et al., "HeavyKeeper: An Accurate Algorithm for Finding Top-k
//! Elephant Flows", USENIX ATC 2018): rows of counters, each of which belongs to one key at a time
//! and fades with accesses to others, with a probability that falls exponentially with its count. A
//! key whose count comes above the least of the list joins it.
//!
//! Differences from the paper: a key in the list is counted there, exactly, where the paper goes on
//! with the counters, which fade; and all counts are halved at every half-life, so that the list
//! follows what changes.
//!
//! Invariant 1: a count is never more than the number of sampled accesses, but for keys of one row
//! whose 32-bit fingerprints are the same.

mod switch;

use std::time::Duration;

use base::rng::Share;

use crate::error::{Error, ErrorKind};

const ROWS: usize = 2;
/// Counters of a row for each key of the list.
const WIDTH_PER_KEY: usize = 16;
/// A counter of `c` fades with probability 1.08^-c, as in the paper.
const BASE: f64 = 1.08;
/// From this count on a counter does not fade: the probability is below 2^-28.
const MOST_FADING: usize = 256;

/// The configuration of finding hot keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotKeysConfig {
    /// The number of keys that are kept, 1 to 1,024. Those at the end of the list are less exact;
    /// ask for fewer. Each takes 524 to 780 bytes. Default 64.
    pub keys: usize,
    /// One access in this many is looked at, at least 1. Default 100.
    pub one_in: u32,
    /// After this time an access counts half; whole seconds, at least 1. Default 60 s.
    pub half_life: Duration,
}

impl Default for HotKeysConfig {
    fn default() -> Self {
        Self { keys: 64, one_in: 100, half_life: Duration::from_secs(60) }
    }
}

impl HotKeysConfig {
    /// The memory that counting takes, in bytes.
    pub fn bytes(&self) -> u64 {
        let rows = ROWS * HotKeys::width(self.keys) * size_of::<Counter>();
        let list = self.keys * (size_of::<Kept>() + size_of::<u64>());
        (size_of::<HotKeys>() + MOST_FADING * size_of::<u32>() + rows + list) as u64
    }
}

/// A hot key.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The key.
    pub key: Vec<u8>,
    /// About how many accesses it had: those of the present half-life whole, those of the one
    /// before half, and so on.
    pub accesses: u64,
    /// The part of all accesses to the pool that was to this key, 0 to 1.
    pub share: f64,
}

/// A counter, and the key that it belongs to by its fingerprint.
#[derive(Clone, Copy, Default)]
struct Counter {
    fingerprint: u32,
    count: u32,
}

/// A key of the list.
struct Kept {
    count: u32,
    key_len: u8,
    key: [u8; crate::MAX_KEY_BYTES],
}

/// The hot keys of a pool.
pub(crate) struct HotKeys {
    config: HotKeysConfig,
    rows: [Box<[Counter]>; ROWS],
    /// The hashes of the keys of the list, and the keys, in the same order.
    hashes: Vec<u64>,
    kept: Vec<Kept>,
    /// No count of the list is below this, where the list is full.
    least: u32,
    /// Sampled accesses, halved as all counts.
    total: u64,
    /// Thresholds of 32 bits for fading, by count.
    fades: Box<[u32; MOST_FADING]>,
    random: u64,
    aged_at_secs: u32,
}

impl HotKeys {
    fn check(config: &HotKeysConfig) -> Result<(), Error> {
        let problem = if !(1..=1_024).contains(&config.keys) {
            format!("{} hot keys: keep 1 to 1,024", config.keys)
        } else if config.one_in == 0 {
            "hot keys of 1 access in 0: look at 1 in 1 or fewer".to_owned()
        } else if config.half_life < Duration::from_secs(1) {
            "a half-life of hot keys of less than a second: give it one or more".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Config, problem))
    }

    pub(crate) fn new(config: HotKeysConfig, now_secs: u32) -> Self {
        let width = Self::width(config.keys);
        let fades = std::array::from_fn(|count| (BASE.powi(-(count as i32)) * f64::from(u32::MAX)) as u32);
        Self {
            config,
            rows: std::array::from_fn(|_| vec![Counter::default(); width].into()),
            hashes: Vec::with_capacity(config.keys),
            kept: Vec::with_capacity(config.keys),
            least: 0,
            total: 0,
            fades: Box::new(fades),
            random: 0x9e37_79b9_7f4a_7c15,
            aged_at_secs: now_secs,
        }
    }

    fn width(keys: usize) -> usize {
        (keys * WIDTH_PER_KEY).next_power_of_two()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.config.bytes() as usize
    }

    /// Counts a sampled access to the key with this hash.
    pub(crate) fn count(&mut self, hash: u64, key: &[u8], now_secs: u32) {
        self.age(now_secs);
        self.total += 1;
        if let Some(at) = self.hashes.iter().position(|kept| *kept == hash) {
            self.kept[at].count = self.kept[at].count.saturating_add(1);
            return;
        }
        let count = self.count_in_rows(hash);
        if self.kept.len() < self.config.keys {
            self.hashes.push(hash);
            self.kept.push(Kept::new(count, key));
        } else if count > self.least {
            let (at, least) = self.find_least();
            self.least = least;
            if count > least {
                self.hashes[at] = hash;
                self.kept[at] = Kept::new(count, key);
            }
        }
    }

    fn count_in_rows(&mut self, hash: u64) -> u32 {
        const SPREAD: [u64; ROWS] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];
        let fingerprint = hash as u32;
        let mut most = 0;
        for (row, spread) in self.rows.iter_mut().zip(SPREAD) {
            let at = (hash.wrapping_mul(spread) >> 40) as usize & (row.len() - 1);
            let counter = &mut row[at];
            if counter.count == 0 {
                *counter = Counter { fingerprint, count: 1 };
            } else if counter.fingerprint == fingerprint {
                counter.count = counter.count.saturating_add(1);
            } else {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                let fades = self.fades.get(counter.count as usize).copied().unwrap_or(0);
                if (self.random as u32) < fades {
                    counter.count -= 1;
                }
                if counter.count > 0 {
                    continue;
                }
                *counter = Counter { fingerprint, count: 1 };
            }
            most = most.max(counter.count);
        }
        most
    }

    fn find_least(&self) -> (usize, u32) {
        let counts = self.kept.iter().map(|kept| kept.count).enumerate();
        counts.min_by_key(|(_, count)| *count).unwrap_or((0, 0))
    }

    /// Halves all counts for each half-life that has passed.
    fn age(&mut self, now_secs: u32) {
        let half_life = self.config.half_life.as_secs().max(1);
        let halvings = (u64::from(now_secs.saturating_sub(self.aged_at_secs)) / half_life).min(32) as u32;
        if halvings == 0 {
            return;
        }
        // A clock that was set back begins anew; time beyond whole half-lives counts for the next.
        self.aged_at_secs = match halvings {
            32 => now_secs,
            halvings => self.aged_at_secs + halvings * half_life as u32,
        };
        let halve = |count: u32| count.checked_shr(halvings).unwrap_or(0);
        self.rows.iter_mut().flat_map(|row| row.iter_mut()).for_each(|c| c.count = halve(c.count));
        self.kept.iter_mut().for_each(|kept| kept.count = halve(kept.count));
        self.least = halve(self.least);
        self.total = self.total.checked_shr(halvings).unwrap_or(0);
        let mut at = 0;
        while at < self.kept.len() {
            if self.kept[at].count == 0 {
                self.kept.swap_remove(at);
                self.hashes.swap_remove(at);
                self.least = 0;
            } else {
                at += 1;
            }
        }
    }

    /// The `k` hottest keys, the hottest first.
    pub(crate) fn top(&mut self, k: usize, now_secs: u32) -> Vec<HotKey> {
        self.age(now_secs);
        let mut kept: Vec<&Kept> = self.kept.iter().collect();
        kept.sort_by_key(|kept| std::cmp::Reverse(kept.count));
        let hot = |kept: &Kept| HotKey {
            key: kept.key[..usize::from(kept.key_len)].to_vec(),
            accesses: u64::from(kept.count) * u64::from(self.config.one_in),
            share: f64::from(kept.count) / self.total.max(1) as f64,
        };
        kept.into_iter().take(k).map(hot).collect()
    }
}

impl Kept {
    fn new(count: u32, key: &[u8]) -> Self {
        let mut kept = Self { count, key_len: key.len() as u8, key: [0; crate::MAX_KEY_BYTES] };
        kept.key[..key.len()].copy_from_slice(key);
        kept
    }
}

/// A pool's hot keys.
#[derive(Default)]
pub(crate) struct PoolHeat {
    /// The share of its accesses that is counted: a [`Share`].
    share: std::sync::atomic::AtomicU64,
    pub(crate) keys: parking_lot::Mutex<Option<Box<HotKeys>>>,
}

impl PoolHeat {
    pub(crate) fn share(&self) -> Share {
        Share::from_bits(self.share.load(std::sync::atomic::Ordering::Relaxed))
    }

    fn set_share(&self, share: Share) {
        self.share.store(share.to_bits(), std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns its memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.lock().as_ref().map_or(0, |keys| keys.bytes())
    }

    /// Counts an access with this draw, if it is in the sample and nobody else is counting.
    pub(crate) fn count(&self, draw: u32, hash: u64, key: &[u8], now_secs: impl Fn() -> u32) {
        if self.share().has(draw)
            && let Some(mut keys) = self.keys.try_lock()
            && let Some(keys) = &mut *keys
        {
            keys.count(hash, key, now_secs());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{RngExt as _, seeded};

    fn config(keys: usize) -> HotKeysConfig {
        HotKeysConfig { keys, one_in: 1, half_life: Duration::from_secs(60) }
    }

    fn key_of(hot: &HotKey) -> u64 {
        u64::from_le_bytes(hot.key[..].try_into().expect("eight bytes"))
    }

    /// Draws keys 0.. with Zipf's law of exponent 1, by the inverse of a table.
    struct Zipf(Vec<f64>);

    impl Zipf {
        fn new(keys: usize) -> Self {
            let mut sum = 0.0;
            Self((1..=keys).map(|rank| (sum += 1.0 / rank as f64, sum).1).collect())
        }

        fn draw(&self, rng: &mut base::rng::SeededRng) -> u64 {
            let at = rng.random_range(0.0..*self.0.last().expect("keys"));
            self.0.partition_point(|sum| *sum <= at) as u64
        }
    }

    #[test]
    fn the_hottest_of_a_zipf_law_are_found_with_their_counts() {
        let (zipf, mut rng) = (Zipf::new(100_000), seeded(3));
        let mut hot = HotKeys::new(config(64), 0);
        let mut exact = vec![0_u32; 100_000];
        let accesses = 400_000;
        for _ in 0..accesses {
            let key = zipf.draw(&mut rng);
            exact[key as usize] += 1;
            hot.count(base::hash::key_hash(5, &key.to_le_bytes()), &key.to_le_bytes(), 0);
        }
        let top = hot.top(32, 0);
        let mut ranks: Vec<usize> = (0..exact.len()).collect();
        ranks.sort_by_key(|key| std::cmp::Reverse(exact[*key]));
        let found = top.iter().filter(|hot| ranks[..32].contains(&(key_of(hot) as usize))).count();
        assert!(found >= 30, "{found} of the 32 hottest were found");
        assert_eq!(top.iter().take(8).map(key_of).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        for hot in &top {
            let (told, true_count) = (hot.accesses as f64, f64::from(exact[key_of(hot) as usize]));
            assert!(told <= true_count && told > true_count * 0.9, "{told} for {true_count}");
            assert!((hot.share - told / f64::from(accesses)).abs() < 1e-9);
        }
        assert_eq!(hot.bytes() as u64, config(64).bytes());
    }

    #[test]
    fn the_list_follows_what_changes_and_forgets() {
        let (zipf, mut rng) = (Zipf::new(10_000), seeded(4));
        let mut hot = HotKeys::new(config(16), 1_000);
        for secs in 0..240_u32 {
            // After two minutes the popular keys are others.
            let offset = if secs < 120 { 0 } else { 1_000_000 };
            for _ in 0..500 {
                let key = (zipf.draw(&mut rng) + offset).to_le_bytes();
                hot.count(base::hash::key_hash(5, &key), &key, 1_000 + secs);
            }
            if secs == 119 {
                assert!(hot.top(8, 1_000 + secs).iter().all(|hot| key_of(hot) < 100));
            }
        }
        // What was hottest before has a quarter left: less than the new third.
        let top = hot.top(3, 1_240);
        assert!(
            top.iter().all(|hot| key_of(hot) >= 1_000_000),
            "{:?}",
            top.iter().map(key_of).collect::<Vec<_>>()
        );
        // 500 a second, just after the fourth half-life of 60 s: 30,000 halved once, twice and so
        // on.
        let all = top[0].accesses as f64 / top[0].share;
        assert_eq!(all.round(), 28_125.0);
        assert!(hot.top(4, 1_240 + 60 * 20).is_empty(), "nobody asked for 20 half-lives");
        hot.count(1, b"8 bytes!", 10);
        assert_eq!(hot.top(1, 10)[0].accesses, 1, "a clock that was set back does no harm");
    }

    #[test]
    fn figures_out_of_range_are_refused() {
        for wrong in [
            HotKeysConfig { keys: 0, ..config(1) },
            HotKeysConfig { keys: 1_025, ..config(1) },
            HotKeysConfig { one_in: 0, ..config(1) },
            HotKeysConfig { half_life: Duration::from_millis(999), ..config(1) },
        ] {
            assert_eq!(HotKeys::check(&wrong).expect_err("out of range").kind(), ErrorKind::Config);
        }
        assert!(HotKeys::check(&HotKeysConfig::default()).is_ok());
    }
}
