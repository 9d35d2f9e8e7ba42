//! Statistics of eight of Twitter's caches, chosen for how much they differ.
//!
//! Source: J. Yang, Y. Yue, K. V. Rashmi, "A large scale analysis of hundreds of in-memory cache
//! clusters at Twitter", OSDI 2020, and the table of per-cluster statistics published with the
//! traces of March 2020 (github.com/twitter/cache-trace, `stat/2020Mar.md`, CC BY 4.0). The figures
//! are those of that table; time-to-live values that it lists as many near ones are joined.

/// The statistics of one cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// The number under which the cluster was published.
    pub number: u32,
    /// The reason for taking this cluster.
    pub note: &'static str,
    /// Mean key size in bytes.
    pub key_size: u32,
    /// Mean value size in bytes.
    pub value_size: u32,
    /// Thousands of requests per second.
    pub kqps: f64,
    /// Requests per object over the week.
    pub mean_frequency: f64,
    /// The share of objects that are asked for once.
    pub one_hit_share: f64,
    /// The exponent of the Zipf law that fits the popularity of its objects.
    pub zipf_alpha: f64,
    /// Operations and their shares.
    pub ops: &'static [(&'static str, f64)],
    /// Times to live in seconds and their shares.
    pub ttls: &'static [(u32, f64)],
}

const HOUR: u32 = 3_600;
const DAY: u32 = 24 * HOUR;

/// The eight clusters, by number.
pub const CLUSTERS: [Cluster; 8] = [
    Cluster {
        number: 12,
        note: "write-heavy, four of five objects used once",
        key_size: 44,
        value_size: 1_030,
        kqps: 4.36,
        mean_frequency: 1.3,
        one_hit_share: 0.8143,
        zipf_alpha: 0.3048,
        ops: &[("set", 0.80), ("get", 0.20)],
        ttls: &[(300, 0.98), (299, 0.02)],
    },
    Cluster {
        number: 14,
        note: "more deletes than writes, long keys",
        key_size: 96,
        value_size: 414,
        kqps: 5.81,
        mean_frequency: 35.4,
        one_hit_share: 0.1094,
        zipf_alpha: 1.2959,
        ops: &[("get", 0.65), ("delete", 0.22), ("set", 0.13)],
        ttls: &[(DAY, 1.0)],
    },
    Cluster {
        number: 18,
        note: "tiny values, very skewed, the highest rate",
        key_size: 18,
        value_size: 37,
        kqps: 26.40,
        mean_frequency: 660.5,
        one_hit_share: 0.0071,
        zipf_alpha: 2.0994,
        ops: &[("get", 0.96), ("add", 0.01), ("gets", 0.01), ("cas", 0.01)],
        ttls: &[(12 * HOUR, 1.0)],
    },
    Cluster {
        number: 22,
        note: "counters",
        key_size: 54,
        value_size: 4,
        kqps: 3.24,
        mean_frequency: 4.3,
        one_hit_share: 0.4148,
        zipf_alpha: 0.7624,
        ops: &[("get", 0.72), ("incr", 0.18), ("set", 0.10)],
        ttls: &[(DAY, 0.85), (HOUR, 0.11), (1_800, 0.03)],
    },
    Cluster {
        number: 29,
        note: "short-lived, a fifth of the objects used once",
        key_size: 36,
        value_size: 799,
        kqps: 10.73,
        mean_frequency: 22.5,
        one_hit_share: 0.2304,
        zipf_alpha: 1.2323,
        ops: &[("get", 0.86), ("set", 0.13)],
        ttls: &[(HOUR, 0.67), (2 * HOUR, 0.33)],
    },
    Cluster {
        number: 40,
        note: "as many writes as reads, hardly skewed",
        key_size: 44,
        value_size: 155,
        kqps: 6.26,
        mean_frequency: 11.8,
        one_hit_share: 0.0010,
        zipf_alpha: 0.8551,
        ops: &[("set", 0.50), ("get", 0.50)],
        ttls: &[(8 * HOUR, 0.95), (DAY, 0.05)],
    },
    Cluster {
        number: 52,
        note: "a large working set at a high rate",
        key_size: 20,
        value_size: 273,
        kqps: 24.25,
        mean_frequency: 32.6,
        one_hit_share: 0.1936,
        zipf_alpha: 1.2117,
        ops: &[("get", 0.91), ("add", 0.04), ("gets", 0.02), ("cas", 0.02)],
        ttls: &[(DAY, 0.65), (14 * DAY, 0.27), (12 * HOUR, 0.07)],
    },
    Cluster {
        number: 53,
        note: "large values that are prepended to",
        key_size: 36,
        value_size: 9_213,
        kqps: 1.38,
        mean_frequency: 27.6,
        one_hit_share: 0.1319,
        zipf_alpha: 1.2061,
        ops: &[("get", 0.89), ("set", 0.03), ("prepend", 0.09)],
        ttls: &[(30 * DAY, 0.66), (21 * DAY, 0.34)],
    },
];
