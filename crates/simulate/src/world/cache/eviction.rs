//! The names of the ways in which a simulated cache evicts.

use std::str::FromStr;

use evict::PolicyKind;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The policy by which a simulated cache chooses its victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The least recently used item, exactly: `exact-lru`.
    #[default]
    ExactLru,
    /// A policy of the engine, by its name there: `s3-fifo`, `lru:0`.
    Engine(PolicyKind),
}

impl FromStr for Eviction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "exact-lru" {
            return Ok(Self::ExactLru);
        }
        text.parse().map(Self::Engine).map_err(|error: evict::UnknownPolicy| format!("{error}; or exact-lru"))
    }
}

impl Serialize for Eviction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::ExactLru => serializer.serialize_str("exact-lru"),
            Self::Engine(kind) => kind.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Eviction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
