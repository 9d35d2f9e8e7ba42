//! The estimators by name.

use std::fmt;
use std::str::FromStr;

use curve::{
    Confidence, Estimator, Ghost, Kind, Miniature, MissRatioCurve, ShadowQueue, Shards, StackDistance,
    TailHits,
};
use serde::{Serialize, Serializer};

use super::PolicyCache;

/// How a curve is learnt.
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

    /// Whether it must know the largest size beforehand.
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

/// Any of the estimators.
pub enum Any {
    /// Exact stack distances.
    Exact(StackDistance),
    /// SHARDS.
    Shards(Shards),
    /// The ghost cache.
    Ghost(Ghost),
    /// The engine's policies in miniature.
    Mini(Miniature<PolicyCache>),
    /// A shadow queue.
    Shadow(ShadowQueue),
    /// Tails of 2Q.
    Tail(TailHits),
}

impl Any {
    fn get(&self) -> &dyn Estimator {
        match self {
            Self::Exact(exact) => exact,
            Self::Shards(shards) => shards,
            Self::Ghost(ghost) => ghost,
            Self::Mini(mini) => mini,
            Self::Shadow(shadow) => shadow,
            Self::Tail(tail) => tail,
        }
    }

    fn get_mut(&mut self) -> &mut dyn Estimator {
        match self {
            Self::Exact(exact) => exact,
            Self::Shards(shards) => shards,
            Self::Ghost(ghost) => ghost,
            Self::Mini(mini) => mini,
            Self::Shadow(shadow) => shadow,
            Self::Tail(tail) => tail,
        }
    }

    /// What its curve was learnt from.
    pub fn confidence(&self) -> Option<Confidence> {
        self.curve().confidence()
    }
}

impl Estimator for Any {
    #[inline]
    fn record(&mut self, hash: u64, size: u32, kind: Kind) {
        self.get_mut().record(hash, size, kind);
    }

    fn pass(&mut self, reads: u64) {
        self.get_mut().pass(reads);
    }

    fn follows(&self, hash: u64) -> bool {
        self.get().follows(hash)
    }

    fn curve(&self) -> MissRatioCurve {
        self.get().curve()
    }

    fn age(&mut self) {
        self.get_mut().age();
    }

    fn bytes(&self) -> usize {
        self.get().bytes()
    }
}
