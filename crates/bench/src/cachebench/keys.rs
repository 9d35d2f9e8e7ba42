//! Every key of CacheBench's configuration: whether it is honoured here, and if not why.
//!
//! CacheBench ignores keys that it does not know, so that a run may not be what its file says. Here
//! each key has a rule: it is honoured, it cannot change what is measured (which is said), or it is
//! refused by name. `docs/cachebench.md` has this table for readers. Source: facebook/CacheLib,
//! `cachebench/util/CacheConfig.h` and `Config.h`.

use serde_json::{Map, Value};

use Rule::{Honoured, Moot, Off, On, OneOf, Refused, UnlessChained};

/// The section of a configuration in which a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// In `cache_config`.
    Cache,
    /// In `test_config`.
    Test,
    /// In `test_config` or in an entry of its `poolDistributions`.
    Requests,
}

/// The handling of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// It means what it means in CacheBench.
    Honoured,
    /// It is accepted, and nothing that is measured depends on it.
    Moot,
    /// Only `false`, 0, an empty text or list is accepted.
    Off,
    /// Only `true` is accepted.
    On,
    /// Only these texts are accepted.
    OneOf(&'static [&'static str]),
    /// It is refused where items are chained; elsewhere it has no effect in CacheBench either.
    UnlessChained,
    /// It is refused.
    Refused,
}

impl Rule {
    /// The rule in a few words, as the documentation has it.
    pub fn in_words(self) -> &'static str {
        match self {
            Honoured => "honoured",
            Moot => "without effect",
            Off => "refused unless off",
            On => "refused unless true",
            OneOf(_) => "some values honoured",
            UnlessChained => "refused with chained items",
            Refused => "refused",
        }
    }
}

/// A key and its rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// The name; one that ends in `*` stands for all that begin like that.
    pub name: &'static str,
    /// The section in which the key may be.
    pub section: Section,
    /// The handling of the key.
    pub rule: Rule,
    /// The key's meaning here, or the reason why it is refused.
    pub why: &'static str,
}

const fn cache(name: &'static str, rule: Rule, why: &'static str) -> Key {
    Key { name, section: Section::Cache, rule, why }
}

const fn test(name: &'static str, rule: Rule, why: &'static str) -> Key {
    Key { name, section: Section::Test, rule, why }
}

const fn requests(name: &'static str, rule: Rule, why: &'static str) -> Key {
    Key { name, section: Section::Requests, rule, why }
}

const FLASH: &str = "the engine has no flash tier";
const REPLAY: &str = "traces are replayed by `millpond bench replay --trace FILE`";
const UNREAD: &str = "CacheBench has no such key any more and does not act on it: leave it out";
const CHAINED: &str = "this program adds no chained items";
const DESTRUCTOR: &str = "this program uses no item destructors";
const SHARED: &str = "the caches of this program are not shared with other processes";
const LOCKS: &str = "hits take no lock here";
const INDEX: &str = "the index grows by itself";

/// All keys.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    cache("allocator", OneOf(&["LRU", "LRU5B", "LRU2Q", "LRU5B2Q"]), "LRU and 2Q with their parameters, as far as the engine has the policy; pointers of 4 and 5 bytes are one here"),
    cache("cacheSizeMB", Honoured, "all memory of the cache in MiB; in CacheLib that of items, in Millpond index and queues count too"),
    cache("numPools", Honoured, "the number of pools"),
    cache("poolSizes", Honoured, "the pools' limits as shares of the memory, rounded down to slabs of 4 MiB, at least one"),
    cache("allocFactor", Honoured, "the factor between chunk sizes, above 1 and at most 4; default 1.5"),
    cache("minAllocSize", Honoured, "the smallest chunk, 64 B to 4 MiB; default 64"),
    cache("maxAllocSize", Honoured, "the largest chunk, at most 4 MiB; default 1 MiB; larger items are refused, and counted"),
    cache("allocSizes", Honoured, "the chunk sizes, 64 B to 4 MiB, instead of the three above"),
    cache("lruRefreshSec", Honoured, "LRU: a hit within this many seconds promotes nothing; default 60"),
    cache("lruIpSpec", Honoured, "LRU: new items enter with 1/2^N of the queue below them, as far as the engine has the policy; 0 is at the top"),
    cache("lru2qHotPct", Honoured, "2Q: the share of the hot queue in percent; default 20"),
    cache("lru2qColdPct", Honoured, "2Q: the share of the cold queue in percent; default 20"),
    cache("lruUpdateOnRead", On, "a hit always updates the policy"),
    cache("lruUpdateOnWrite", Moot, "a set makes a new item, and nothing is looked up for writing"),
    cache("mmReconfigureIntervalSecs", Off, "the refresh time does not adapt"),
    cache("lruRefreshRatio", Moot, "only with mmReconfigureIntervalSecs, which is refused"),
    cache("tryLockUpdate", Moot, LOCKS),
    cache("useCombinedLockForIterators", Moot, LOCKS),
    cache("htBucketPower", Moot, INDEX),
    cache("htLockPower", Moot, INDEX),
    cache("chainedItemHtBucketPower", Moot, CHAINED),
    cache("chainedItemHtLockPower", Moot, CHAINED),
    cache("poolRebalanceIntervalSec", Honoured, "the time between rounds of rebalancing, in seconds; 0: none, and slabs move only when an allocation needs it"),
    cache("rebalanceStrategy", OneOf(&["", "random", "tail-age", "hits"]), "by tail age or by hits per slab; if empty, at random"),
    cache("rebalanceMinSlabs", Honoured, "a class with no more slabs gives none; default 1"),
    cache("rebalanceDiffRatio", Honoured, "by how much, as a share, two classes must differ; default 0.25"),
    cache("moveOnSlabRelease", Moot, "items of a released slab are moved wherever they can be"),
    cache("cacheDir", Refused, "a cache is not kept after the run"),
    cache("memoryTiers", Off, "the engine has one tier of memory"),
    cache("usePosixShm", Off, SHARED),
    cache("shmType", OneOf(&["", "none"]), SHARED),
    cache("hugePageSize", Refused, "the engine asks for transparent huge pages, and for no others"),
    cache("hugePageMountDir", Refused, "the engine asks for transparent huge pages, and for no others"),
    cache("lockMemory", Off, "the engine does not lock its memory"),
    cache("useTraceTimeStamp", Off, REPLAY),
    cache("tickerSynchingSeconds", Off, REPLAY),
    cache("printNvmCounters", Off, FLASH),
    cache("memoryOnlyTTL", Off, FLASH),
    cache("enableItemDestructor", Off, DESTRUCTOR),
    cache("enableItemDestructorCheck", Off, DESTRUCTOR),
    cache("nvmAdmissionRetentionTimeThreshold", Off, FLASH),
    cache("eventTracker*", Refused, "events are not written to a file"),
    cache("fccCoroFiberAdapter*", Refused, "the cache components of CacheLib have no equivalent"),
    cache("customConfigJson", Refused, "it configures caches that CacheBench is extended by"),
    cache("nvmCacheSizeMB", Off, FLASH),
    cache("nvm*", Refused, FLASH),
    cache("navySizeClasses", Refused, UNREAD),
    cache("navyNumInmemBuffers", Refused, UNREAD),
    cache("navy*", Refused, FLASH),
    cache("device*", Refused, FLASH),
    cache("truncateItemToOriginalAllocSizeInNvm", Off, FLASH),
    cache("writeAmpDeviceList", Refused, FLASH),
    cache("rebalanceMinRatio", Refused, UNREAD),
    cache("poolResizeIntervalSec", Refused, UNREAD),

    test("generator", OneOf(&["", "workload", "online"]), "`online` has keys of at least 8 bytes; traces are replayed by `millpond bench replay --trace FILE`"),
    test("name", OneOf(&["", "stressor"]), "the special-purpose stress programs of CacheBench have no equivalent"),
    test("numOps", Honoured, "operations of each thread; scaled by --scale, replaced by --ops or --duration"),
    test("numThreads", Honoured, "threads; replaced by --threads; default 1"),
    test("numKeys", Honoured, "keys of all pools; replaced by --keys"),
    test("keyPoolDistribution", Honoured, "the pools' shares of the keys"),
    test("opPoolDistribution", Honoured, "the pools' shares of the operations"),
    test("poolDistributions", Honoured, "the requests of each pool"),
    test("enableLookaside", Honoured, "a get that misses is followed by a set of the same key; replaced by --look-aside"),
    test("opDelayNs", Honoured, "the pause of a thread after each opDelayBatch operations, in nanoseconds"),
    test("opDelayBatch", Honoured, "how many operations of a thread lie between two pauses"),
    test("opRatePerSec", Honoured, "open loop: operations per second of all threads together, at even distances"),
    test("opRateBurstSize", Off, "an open loop sends no bursts"),
    test("populateItem", On, "values are always written"),
    test("onlySetIfMiss", Off, "a set always writes"),
    test("touchValue", Off, "a hit is looked at in its length and first 8 bytes only"),
    test("checkConsistency", Off, "consistency is checked by `millpond bench check --preset NAME`"),
    test("maxInconsistencyCount", Moot, "only with checkConsistency, which is refused"),
    test("maxInvalidDestructorCount", Moot, "only with enableItemDestructorCheck, which is refused"),
    test("checkNvmCacheWarmUp", Off, FLASH),
    test("samplingIntervalMs", Moot, "progress has its own pace, and figures are those of the whole run"),
    test("ignoreOpCount", Moot, REPLAY),
    test("traceFileName", Refused, REPLAY),
    test("traceFileNames", Refused, REPLAY),
    test("repeatTraceReplay", Refused, REPLAY),
    test("timestampFactor", Refused, REPLAY),
    test("replayGeneratorConfig", Refused, REPLAY),
    test("cachePieceSize", Refused, REPLAY),
    test("maxCachePieces", Refused, REPLAY),
    test("missTraceFile", Refused, "misses are not written to a file"),
    test("dramIterator*", Refused, "the cache is not iterated over during a run"),
    test("preallocateCache", Refused, UNREAD),
    test("prepopulateCache", Refused, UNREAD),
    test("repeatOpCount", Refused, UNREAD),

    requests("keySizeRange", Honoured, "key sizes in bytes; a size that is too small for the key's number is exceeded, and 250 is the most"),
    requests("keySizeRangeProbability", Honoured, "their shares"),
    requests("valSizeRange", Honoured, "value sizes in bytes: as many sizes as shares are exact, one more are the bounds of ranges"),
    requests("valSizeRangeProbability", Honoured, "their shares"),
    requests("valSizeDistFile", Honoured, "a file with the two above, beside the configuration"),
    requests("ttlSecsRange", Honoured, "TTLs of written items, in seconds"),
    requests("ttlSecsRangeProbability", Honoured, "their shares"),
    requests("popularityBuckets", Honoured, "groups of objects; without popularity it is normal around the middle key"),
    requests("popularityWeights", Honoured, "their shares of the requests"),
    requests("popDistFile", Honoured, "a file with the two above, beside the configuration"),
    requests("useLegacyKeyGen", Honoured, "object numbers are not scaled to the number of keys"),
    requests("getRatio", Honoured, "the weight of gets"),
    requests("setRatio", Honoured, "the weight of sets"),
    requests("delRatio", Honoured, "the weight of deletes"),
    requests("loneGetRatio", Honoured, "the weight of gets of keys that no other request uses"),
    requests("loneSetRatio", Honoured, "the weight of sets of keys that no other request uses"),
    requests("addChainedRatio", Off, CHAINED),
    requests("updateRatio", Off, "values are not changed in place"),
    requests("couldExistRatio", Off, "existence is not asked for without a read"),
    requests("chainedItemLengthRange", UnlessChained, CHAINED),
    requests("chainedItemLengthRangeProbability", UnlessChained, CHAINED),
    requests("chainedItemValSizeRange", UnlessChained, CHAINED),
    requests("chainedItemValSizeRangeProbability", UnlessChained, CHAINED),
];

/// The handling of a key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Honoured,
    /// Accepted without effect, and why.
    Moot(&'static str),
    /// Refused, and why.
    Refused(String),
}

/// Decides the handling of `key` with `value` in `section` of `config`.
pub(crate) fn judge(section: Section, key: &str, value: &Value, config: &Map<String, Value>) -> Verdict {
    let Some(known) = find(section, key) else {
        return Verdict::Refused(match nearest(section, key) {
            Some(near) => format!("CacheBench has no such key; `{near}` is the nearest one"),
            None => "CacheBench has no such key".into(),
        });
    };
    let only = |fine: bool, wanted: &str| match fine {
        true => Verdict::Honoured,
        false => Verdict::Refused(format!("{} (only {wanted} can be honoured)", known.why)),
    };
    match known.rule {
        Honoured => Verdict::Honoured,
        Moot => Verdict::Moot(known.why),
        Refused => Verdict::Refused(known.why.into()),
        Off if is_off(value) => Verdict::Honoured,
        Off => Verdict::Refused(known.why.into()),
        On => only(value == &Value::Bool(true), "true"),
        OneOf(texts) => only(value.as_str().is_some_and(|text| texts.contains(&text)), &quoted(texts)),
        UnlessChained if is_unset(config, "addChainedRatio") => Verdict::Moot("only with addChainedRatio"),
        UnlessChained => Verdict::Refused(known.why.into()),
    }
}

/// The key of this name; an exact one before one with a `*`.
fn find(section: Section, name: &str) -> Option<&'static Key> {
    let fits = |key: &&Key| match section {
        Section::Test => key.section != Section::Cache,
        section => key.section == section,
    };
    KEYS.iter().filter(fits).find(|key| key.name == name).or_else(|| {
        let starts = |key: &&Key| key.name.strip_suffix('*').is_some_and(|start| name.starts_with(start));
        KEYS.iter().filter(fits).find(starts)
    })
}

fn is_off(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

fn is_unset(config: &Map<String, Value>, key: &str) -> bool {
    config.get(key).is_none_or(is_off)
}

fn quoted(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ")
}

/// The known key that is spelled most alike, if it is alike at all.
fn nearest(section: Section, name: &str) -> Option<&'static str> {
    let fits = |key: &&Key| find(section, key.name).is_some() && !key.name.ends_with('*');
    let distance = |key: &Key| edits(&key.name.to_lowercase(), &name.to_lowercase());
    let best = KEYS.iter().filter(fits).min_by_key(|key| distance(key))?;
    (distance(best) <= name.len() / 3).then_some(best.name)
}

/// Returns the edit distance of two texts: the number of letters to insert, delete or replace
/// (Levenshtein).
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}
