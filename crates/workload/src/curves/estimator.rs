//! The estimators by name.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The method by which a curve is learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Exact stack distances.
    Exact,
    /// SHARDS of fixed size.
    #[default]
    Shards,
    /// SHARDS of fixed rate.
    ShardsFixedRate,
    /// HopperKV's ghost cache.
    Ghost,
    /// Simulation in miniature.
    Mini,
    /// Cliffhanger's shadow queue: the curve around one size.
    Shadow,
    /// Hits in the tails of 2Q: the curve just below one size.
    Tail,
}

impl Method {
    /// All, as they are named on the command line.
    pub const NAMES: [(&str, Self); 7] = [
        ("exact", Self::Exact),
        ("shards", Self::Shards),
        ("shards-fixed-rate", Self::ShardsFixedRate),
        ("ghost", Self::Ghost),
        ("mini", Self::Mini),
        ("shadow", Self::Shadow),
        ("tail", Self::Tail),
    ];

    /// Returns whether the estimator must know the largest size beforehand.
    pub fn needs_max_size(self) -> bool {
        matches!(self, Self::Ghost | Self::Mini | Self::Shadow | Self::Tail)
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, method)| *method).ok_or_else(|| {
            let names: Vec<&str> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is not a method; the methods are {}", names.join(", "))
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, method)| method == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
