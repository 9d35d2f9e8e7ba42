//! Dominant resource fairness over what a share of memory leaves to need.
//!
//! Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011, as HARE (FAST 2026, sections
//! 2.2 and 3.5) has it. Memory is split by weight, so that each pool's miss ratio and with it its demand for the other
//! resources is fixed. Each pool keeps what the scarcest of its shares lets it use; what is left over lifts all by the same share, up
//! to where the first resource is used up. In terms of DRF: all have the same share, by weight, of their dominant resource.

use crate::hare::{self, Settings};
use crate::rank::in_order_of_names;
use crate::{Decision, Grant, Policy, View, fairness, guard};

/// Dominant resource fairness, with memory split by weight.
#[derive(Clone, Debug)]
pub struct Drf {
    /// Whether what no pool's dominant resource needs is given out too, in proportion to what each has. DRF leaves it
    /// unassigned, which makes it useless to lie about one's demands. Default: given out.
    pub conserving: bool,
    /// Added to each miss ratio, as in [`Settings::salt`]. Default: 0.01.
    pub salt: f64,
}

impl Default for Drf {
    fn default() -> Self {
        Self { conserving: true, salt: 0.01 }
    }
}

impl Drf {
    fn settings(&self) -> Settings {
        Settings { conserving: self.conserving, salt: self.salt, ..Settings::default() }
    }
}

/// DRF over pools that have this memory, in bytes, whoever gave it to them.
pub fn with_memory(view: &View, drf: &Drf, memory: &[u64]) -> Vec<Grant> {
    let mut baseline = fairness::baseline(view);
    for (grant, &memory) in baseline.iter_mut().zip(memory) {
        grant.memory = memory;
    }
    hare::without_trade(view, &drf.settings(), &baseline).grants
}

impl Policy for Drf {
    fn name(&self) -> &'static str {
        if self.conserving { "drf" } else { "drf-strict" }
    }

    fn decide(&mut self, view: &View) -> Decision {
        in_order_of_names(view, |view| {
            let allocation = hare::without_trade(view, &self.settings(), &fairness::baseline(view));
            let lifted = 100.0 * allocation.improvement;
            let mut decision = Decision::to(view, allocation.grants, |_, _| {
                format!(
                    "memory by weight; the other resources carry {lifted:.1} % more than shares of them would"
                )
            });
            decision.unmet = guard::unmet(view, &decision);
            decision
        })
    }
}
