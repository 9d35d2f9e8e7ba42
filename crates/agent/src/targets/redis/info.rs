//! The figures of `INFO`.

use std::collections::HashMap;
use std::io;

use super::super::wire::garbled;

/// The figures of a Redis or Valkey.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Info {
    /// `redis` or `valkey`.
    pub(super) kind: &'static str,
    pub(super) version: String,
    pub(super) run_id: String,
    pub(super) used: u64,
    /// Memory of a server without keys.
    pub(super) startup: u64,
    /// 0 = unlimited.
    pub(super) limit: u64,
    pub(super) policy: String,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) is_replica: bool,
    /// Databases, each with its keys.
    pub(super) databases: Vec<(u32, u64)>,
}

impl Info {
    pub(super) fn parse(text: &[u8]) -> io::Result<Self> {
        let text = String::from_utf8_lossy(text);
        let fields: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once(':')).collect();
        let word = |name: &str| {
            let missing = || garbled(format!("its INFO has no `{name}`"));
            fields.get(name).map(|value| value.trim()).ok_or_else(missing)
        };
        let figure = |name: &str| {
            let value = word(name)?;
            let wrong =
                || garbled(format!("in its INFO `{name}` is not a number: `{}`", value.escape_debug()));
            if value.bytes().all(|byte| byte.is_ascii_digit()) {
                value.parse::<u64>().map_err(|_| wrong())
            } else {
                Err(wrong())
            }
        };
        let (kind, version) = match fields.get("valkey_version") {
            Some(version) => ("valkey", version.trim()),
            None => ("redis", word("redis_version")?),
        };
        let mut databases: Vec<(u32, u64)> =
            fields.iter().filter_map(|(name, value)| database(name, value)).collect();
        databases.sort_unstable();
        Ok(Self {
            kind,
            version: version.to_owned(),
            run_id: word("run_id")?.to_owned(),
            used: figure("used_memory")?,
            startup: figure("used_memory_startup")?,
            limit: figure("maxmemory")?,
            policy: word("maxmemory_policy")?.to_owned(),
            hits: figure("keyspace_hits")?,
            misses: figure("keyspace_misses")?,
            is_replica: word("role")? == "slave",
            databases,
        })
    }

    /// The number of keys.
    pub(super) fn keys(&self) -> u64 {
        self.databases.iter().fold(0, |sum, (_, keys)| sum.saturating_add(*keys))
    }

    /// The memory of keys.
    pub(super) fn in_keys(&self) -> u64 {
        self.used.saturating_sub(self.startup)
    }
}

/// Reads `db0` and `keys=1,expires=0,avg_ttl=0`.
fn database(name: &str, value: &str) -> Option<(u32, u64)> {
    let number = name.strip_prefix("db")?.parse().ok()?;
    let keys = value.trim().split(',').find_map(|part| part.strip_prefix("keys="))?;
    Some((number, keys.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) const TEXT: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n\r\n# Memory\r\n\
        used_memory:2000000\r\nused_memory_startup:900000\r\nmaxmemory:0\r\n\
        maxmemory_policy:allkeys-lru\r\n# Stats\r\nkeyspace_hits:5\r\nkeyspace_misses:3\r\n\
        role:master\r\n# Keyspace\r\ndb0:keys=10,expires=0,avg_ttl=0\r\ndb3:keys=5,expires=1,avg_ttl=9\r\n";

    #[test]
    fn figures_are_read() {
        let info = Info::parse(TEXT.as_bytes()).expect("figures");
        assert_eq!((info.kind, info.version.as_str(), info.run_id.as_str()), ("redis", "7.0.15", "abc"));
        assert_eq!((info.used, info.in_keys(), info.limit), (2_000_000, 1_100_000, 0));
        assert_eq!((info.hits, info.misses, info.is_replica), (5, 3, false));
        assert_eq!((info.databases.as_slice(), info.keys()), (&[(0, 10), (3, 5)][..], 15));
        let text = format!("{TEXT}valkey_version:8.0.1\r\n");
        let info = Info::parse(text.as_bytes()).expect("figures");
        assert_eq!((info.kind, info.version.as_str()), ("valkey", "8.0.1"));
    }

    #[test]
    fn a_missing_or_wrong_figure_is_named() {
        let error = Info::parse(b"redis_version:7").expect_err("an error").to_string();
        assert_eq!(error, "its INFO has no `run_id`");
        let text = TEXT.replace("maxmemory:0", "maxmemory:-1");
        let error = Info::parse(text.as_bytes()).expect_err("an error").to_string();
        assert_eq!(error, "in its INFO `maxmemory` is not a number: `-1`");
    }

    proptest! {
        #[test]
        fn whatever_info_says_is_read_or_refused(
            at in 0..TEXT.len(), bytes in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            let mut text = TEXT.as_bytes().to_vec();
            text.splice(at..(at + bytes.len()).min(TEXT.len()), bytes);
            if let Ok(info) = Info::parse(&text) {
                prop_assert!(info.in_keys() <= info.used);
                let _ = info.keys();
            }
        }
    }
}
