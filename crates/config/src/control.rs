//! The policy that moves memory between pools: [`millpond::control`].

use std::collections::HashMap;
use std::time::Duration;

use millpond::control::{self, ControlConfig, Objective, Rails};

use super::{Auto, Config, ControlMode, ControlObjective, TenantSettings};

settings! {
    /// The policy that moves memory between pools while memory is short: [`millpond::control`].
    pub struct ControlSettings in "control." {
        /// Moves memory between pools by their miss-ratio curves (docs/control.md): "on", "off",
        /// "dry-run" (decides, logs and shows, and moves nothing) or "auto": on if there are
        /// several pools and none has a `limit`, else off. Reserves are kept, and limits are never
        /// exceeded. It needs `watch.curve_keys`.
        online mode: ControlMode = ControlMode::Auto;

        /// The policy, by its name (docs/allocation.md): "most-hits" maximises hits per second,
        /// each multiplied by the weight of its tenants.
        online policy: String = ControlConfig::default().policy;

        /// The aim: "hits" (every miss counts alike), or "time" (a miss counts by how long clients
        /// take to store the key after it, which is learnt, or by `tenant.miss_cost_micros`).
        online objective: ControlObjective = ControlObjective::Hits;

        /// Seconds between two decisions. "auto": 2 while loads change or more is to be moved, up
        /// to 30 while nothing does.
        online period_secs: Auto<u32> = Auto::Auto, in 1..=3_600;

        /// The least that a pool is left with, in percent of an equal share of the memory.
        online least_share_percent: u32 = 10, in ..=100;

        /// The most that a pool is granted, in percent of all memory. 0: no such bound.
        online most_share_percent: u32 = 0, in ..=100;

        /// The most memory that a decision moves, in percent of all.
        online step_percent: u32 = 10, in 1..=100;

        /// Nothing is moved if the misses of all pools together would fall by less than this many
        /// percent.
        online hysteresis_percent: u32 = 1, in ..=100;

        /// Number of decisions that are kept for /decisions.json.
        online history: usize = 128, in 1..=4_096;
    }
}

impl Config {
    /// The control of memory as the engine wants it; `None` = pools share memory by their reserves
    /// and weights alone.
    pub fn control(&self) -> Option<ControlConfig> {
        self.why_control_is_off().is_none().then(|| self.control_wanted())
    }

    /// The reason why no policy moves memory, in words; `None`: one does.
    pub fn why_control_is_off(&self) -> Option<String> {
        let pools = match self.control.mode {
            ControlMode::Off => return Some("control.mode is off".to_owned()),
            ControlMode::On | ControlMode::DryRun => return None,
            ControlMode::Auto => self.all_pools(),
        };
        let limited = pools.iter().find(|pool| pool.limit != Auto::Auto);
        let why = match limited {
            _ if pools.len() < 2 => "there is one pool".to_owned(),
            Some(pool) => format!("{} has a limit", pool.name),
            None if self.watch.curve_keys == 0 => "watch.curve_keys is 0".to_owned(),
            None => return None,
        };
        Some(format!("control.mode is auto, and {why}"))
    }

    /// The same, whether it is on or not.
    pub fn control_wanted(&self) -> ControlConfig {
        let control = &self.control;
        let share = |percent: u32| f64::from(percent) / 100.0;
        ControlConfig {
            policy: control.policy.clone(),
            objective: match control.objective {
                ControlObjective::Hits => Objective::Hits,
                ControlObjective::Time => Objective::TimeSaved,
            },
            miss_costs: self.miss_costs(),
            promises: self.sums(|tenant| tenant.min_operations_per_sec),
            backends: self.sums(|tenant| tenant.backend_per_sec),
            rails: Rails {
                least_share: share(control.least_share_percent),
                most_share: share(control.most_share_percent),
                step: share(control.step_percent),
                hysteresis: share(control.hysteresis_percent),
                ..ControlConfig::default().rails
            },
            period: control.period_secs.set().map(|secs| Duration::from_secs(secs.into())),
            dry_run: control.mode == ControlMode::DryRun,
            // Those of `watch`, within its share of the memory.
            curves: None,
        }
    }

    /// A rate of tenants, by pool: what all of each have together. Without those that have none.
    fn sums(&self, of: impl Fn(&TenantSettings) -> u64) -> HashMap<String, f64> {
        let mut sums: HashMap<String, f64> = HashMap::new();
        for tenant in self.tenants.iter().filter(|tenant| of(tenant) > 0) {
            *sums.entry(tenant.pool().to_owned()).or_default() += of(tenant) as f64;
        }
        sums
    }

    /// The configured costs of a miss, by pool; of tenants that share a pool, the highest.
    fn miss_costs(&self) -> HashMap<String, Duration> {
        let mut costs: HashMap<String, Duration> = HashMap::new();
        for tenant in &self.tenants {
            if let Some(micros) = tenant.miss_cost_micros.set() {
                let cost = costs.entry(tenant.pool().to_owned()).or_default();
                *cost = (*cost).max(Duration::from_micros(micros.into()));
            }
        }
        costs
    }
}

/// Reports a policy that does not exist, and control without curves.
pub(super) fn check(config: &Config, problems: &mut Vec<String>) {
    if let Err(error) = control::check_policy(&config.control.policy) {
        problems.push(format!("control.policy: {error}"));
    }
    let wants = matches!(config.control.mode, ControlMode::On | ControlMode::DryRun);
    if wants && config.watch.curve_keys == 0 {
        problems.push(
            "control.mode: decisions need curves, and watch.curve_keys is 0; set it to 2048".to_owned(),
        );
    }
}
