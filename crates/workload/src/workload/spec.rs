//! The declared workload: what a TOML file or flags say, before any table is built.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Popularity, Sizes, WorkloadError};

/// A workload as it is declared. Every field may be left out of a file.
///
/// ```
/// let spec: millpond_workload::WorkloadSpec =
///     "keys = 5000\npopularity = \"zipf:1.1\"\nmix = \"get=9,set=1\"".parse().unwrap();
/// assert_eq!(spec.keys, 5000);
/// assert_eq!(spec.value_size.to_string(), "100");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadSpec {
    /// Number of keys. Default 1,000,000.
    pub keys: u64,
    /// Key sizes in bytes. Default 16; at most 250; a size too small for the key's number is
    /// exceeded.
    pub key_size: Sizes,
    /// Value sizes in bytes. Default 100.
    pub value_size: Sizes,
    /// Distribution of requests over keys. Default `zipf:0.99`.
    pub popularity: Popularity,
    /// Operations by weight. Default `get=90,set=10`.
    pub mix: Mix,
    /// Follows a get that misses by a set of the same key. Default false.
    pub look_aside: bool,
    /// The time to live of what is written, in seconds; 0 is for ever. Default 0.
    pub ttl_secs: u32,
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        Self {
            keys: 1_000_000,
            key_size: Sizes::fixed(16),
            value_size: Sizes::fixed(100),
            popularity: Popularity::Zipf { alpha: 0.99 },
            mix: Mix { get: 90.0, set: 10.0, ..Mix::default() },
            look_aside: false,
            ttl_secs: 0,
        }
    }
}

impl WorkloadSpec {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// Where the file cannot be read or says what is not understood; the error names the place and
    /// what is possible.
    pub fn read(path: &Path) -> Result<Self, WorkloadError> {
        let text = std::fs::read_to_string(path).map_err(|error| WorkloadError::file(path, error))?;
        text.parse().map_err(|error| WorkloadError::file(path, error))
    }
}

impl FromStr for WorkloadSpec {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        toml::from_str(text).map_err(|error| WorkloadError::Toml(error.to_string()))
    }
}

/// The weights of the operations, which need not sum to anything. Parses from `get=90,set=10`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mix {
    /// Reads of keys by popularity.
    pub get: f64,
    /// Writes of keys by popularity.
    pub set: f64,
    /// Removals of keys by popularity.
    pub delete: f64,
    /// New expiries for keys by popularity.
    pub touch: f64,
    /// Reads of keys that are asked for once and never again.
    pub lone_get: f64,
    /// Writes of keys that are asked for once and never again.
    pub lone_set: f64,
}

impl Mix {
    pub(super) fn weights(&self) -> [f64; 6] {
        [self.get, self.set, self.delete, self.touch, self.lone_get, self.lone_set]
    }

    fn named(&mut self) -> [(&'static str, &mut f64); 6] {
        [
            ("get", &mut self.get),
            ("set", &mut self.set),
            ("delete", &mut self.delete),
            ("touch", &mut self.touch),
            ("lone-get", &mut self.lone_get),
            ("lone-set", &mut self.lone_set),
        ]
    }
}

impl FromStr for Mix {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let wanted =
            "a list like `get=90,set=10` of get, set, delete, touch, lone-get and lone-set with weights";
        let error = || WorkloadError::text("mix", text, wanted);
        let mut mix = Self::default();
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').ok_or_else(error)?;
            let weight: f64 = weight.trim().parse().map_err(|_| error())?;
            let mut named = mix.named();
            let slot = named.iter_mut().find(|(known, _)| *known == name.trim()).ok_or_else(error)?;
            *slot.1 = weight;
        }
        let fine = mix.weights().iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if fine && mix.weights().iter().sum::<f64>() > 0.0 { Ok(mix) } else { Err(error()) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut copy = *self;
        let parts: Vec<String> = copy
            .named()
            .iter()
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(name, weight)| format!("{name}={weight}"))
            .collect();
        f.write_str(&parts.join(","))
    }
}

/// Implements serde through the text form.
macro_rules! serde_as_text {
    ($($kind:ty),*) => {$(
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}
serde_as_text!(Mix, Popularity);
