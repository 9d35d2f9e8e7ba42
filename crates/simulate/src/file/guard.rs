//! `[guard]`: rails for every policy that decides ([`allocate::guard`]).

use allocate::guard::{Aim, Guarded, Rails};
use allocate::{Policy, registry};
use serde::Deserialize;

/// The rails, as they are written. All are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guard {
    /// No tenant gets less than this share of the mean memory per tenant.
    pub least_share: f64,
    /// No tenant gets more than this share of all memory; 0 = no such bound.
    pub most_share: f64,
    /// The share of all memory that one tenant may gain or lose in a round; 0 = any.
    pub tenant_step: f64,
    /// The share of all memory that may change hands in a round; 0 = any.
    pub step: f64,
    /// The weight of earlier observations against a new request rate.
    pub smoothing: f64,
    /// By what share the aim must improve for anything to move; 0 = by anything.
    pub hysteresis: f64,
    /// The aim in which that improvement is counted.
    pub aim: WrittenAim,
}

/// [`Aim`], as it is written in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrittenAim {
    /// Misses per second.
    #[default]
    Misses,
    /// Requests per second.
    Throughput,
    /// The least normalised throughput.
    Fairness,
}

impl Guard {
    fn rails(self) -> Rails {
        let aim = match self.aim {
            WrittenAim::Misses => Aim::Misses,
            WrittenAim::Throughput => Aim::Throughput,
            WrittenAim::Fairness => Aim::Fairness,
        };
        Rails {
            least_share: self.least_share,
            most_share: self.most_share,
            pool_step: self.tenant_step,
            step: self.step,
            smoothing: self.smoothing,
            hysteresis: self.hysteresis,
            aim,
            ..Rails::default()
        }
    }

    /// The shares, by their keys.
    pub(super) fn shares(&self) -> [(&'static str, f64); 6] {
        [
            ("least_share", self.least_share),
            ("most_share", self.most_share),
            ("tenant_step", self.tenant_step),
            ("step", self.step),
            ("smoothing", self.smoothing),
            ("hysteresis", self.hysteresis),
        ]
    }

    /// The policy of this name, between the rails if there are any; `None` if there is no such
    /// policy.
    pub(super) fn policy(self, name: &str) -> Option<Box<dyn Policy>> {
        let entry = registry::entry(name)?;
        if self == Self::default() {
            return Some(entry.make());
        }
        Some(Box::new(Guarded::new(entry.registered(), self.rails())))
    }
}
