//! The server's configuration, as it is used in production, and what of it moves.

use std::fmt::Write as _;
use std::path::PathBuf;

use base::ByteSize;
use base::rng::{RngExt, SeededRng};

use super::tenants::Tenant;

/// The listeners, by name.
pub(super) const MEMCACHED: &str = "memcached";
pub(super) const REDIS: &str = "redis";
pub(super) const TLS: &str = "tls";

/// Users with passwords: one may do everything as the tenant `blog`, what the other may do changes.
pub(super) const ALICE: [&str; 2] = ["alice", "wonderland"];
pub(super) const BOB: [&str; 2] = ["bob", "builder"];

const POLICIES: [&str; 6] = ["s3-fifo", "sieve", "lru", "2q", "w-tinylfu", "arc"];
const REBALANCING: [&str; 5] = ["clear-gain", "base", "tail-age", "marginal-hits", "free-memory"];
const CLASSES: [&str; 2] = ["fixed", "tuned"];

/// Parts of the memory, in percent: what a pool may have at most, and between which marks it moves.
const POOL_PERCENT: std::ops::RangeInclusive<u64> = 25..=60;
const GUEST_PERCENT: std::ops::RangeInclusive<u64> = 20..=35;
const MEMORY_PERCENT: std::ops::RangeInclusive<u64> = 60..=100;

/// The parts of the configuration that change during a run.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) most: ByteSize,
    pub(super) shared: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    memory: ByteSize,
    pools: [PoolSettings; 2],
    pub(super) guest: bool,
    guest_limit: ByteSize,
    weights: [u32; 3],
    operations_per_sec: [u32; 3],
    pub(super) bob_may_write: bool,
}

#[derive(Clone, Debug)]
struct PoolSettings {
    limit: ByteSize,
    policy: &'static str,
    rebalance: &'static str,
    classes: &'static str,
}

impl Settings {
    pub(super) fn new(most: ByteSize, shared: PathBuf, certificate: PathBuf, key: PathBuf) -> Self {
        let pool = PoolSettings {
            limit: percent(most, 40),
            policy: POLICIES[0],
            rebalance: REBALANCING[0],
            classes: CLASSES[0],
        };
        Self {
            most,
            shared,
            certificate,
            key,
            memory: most,
            pools: [pool.clone(), pool],
            guest: true,
            guest_limit: percent(most, 25),
            weights: [3, 1, 1],
            operations_per_sec: [0; 3],
            bob_may_write: false,
        }
    }

    /// Another weight and rate for a tenant, and another limit where that is the tenant's. What was
    /// changed, in words.
    pub(super) fn change_tenant(&mut self, rng: &mut SeededRng) -> String {
        let tenant = Tenant::ALL[rng.random_range(0..Tenant::ALL.len())];
        let place = tenant as usize;
        self.weights[place] = rng.random_range(1..=10);
        self.operations_per_sec[place] =
            if rng.random_bool(0.5) { 0 } else { rng.random_range(2_000..20_000) };
        let (weight, rate) = (self.weights[place], self.operations_per_sec[place]);
        let mut text = format!("{}: weight {weight}, operations_per_sec {rate}", tenant.name());
        if tenant == Tenant::Guest {
            self.guest_limit = percent(self.most, rng.random_range(GUEST_PERCENT));
            let _ = write!(text, ", limit {}", self.guest_limit);
        }
        text
    }

    /// Another memory limit.
    pub(super) fn move_memory(&mut self, rng: &mut SeededRng) -> String {
        self.memory = percent(self.most, rng.random_range(MEMORY_PERCENT));
        format!("memory {}", self.memory)
    }

    /// Another limit, policy, strategy and kind of size classes for a pool.
    pub(super) fn change_pool(&mut self, rng: &mut SeededRng) -> String {
        let place = rng.random_range(0..self.pools.len());
        let mut pick = |choices: &[&'static str]| choices[rng.random_range(0..choices.len())];
        let (policy, rebalance, classes) = (pick(&POLICIES), pick(&REBALANCING), pick(&CLASSES));
        let limit = percent(self.most, rng.random_range(POOL_PERCENT));
        self.pools[place] = PoolSettings { limit, policy, rebalance, classes };
        format!("{}: limit {limit}, {policy}, {rebalance}, {classes}", Tenant::ALL[place].name())
    }

    /// The whole configuration.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "memory = \"{}\"\nmax_memory = \"{}\"\nthreads = 2\nhuge_pages = false\nshared_memory = \"{}\"\n\
             [watch]\nlatency_one_in = 1000\nslow_log_micros = 1000\nhot_keys = 32\ncurve_keys = 1024\ncurve_one_in = 1\n",
            self.memory,
            self.most,
            self.shared.display()
        );
        self.listeners(&mut text);
        for (pool, tenant) in self.pools.iter().zip(Tenant::ALL) {
            let PoolSettings { limit, policy, rebalance, classes } = pool;
            let _ = write!(
                text,
                "[[pool]]\nname = \"{}\"\nlimit = \"{limit}\"\npolicy = \"{policy}\"\nrebalance = \"{rebalance}\"\n\
                 classes = \"{classes}\"\nclass_factor = 2.0\n",
                tenant.name()
            );
        }
        for tenant in Tenant::ALL.into_iter().filter(|tenant| self.guest || *tenant != Tenant::Guest) {
            let _ = write!(
                text,
                "[[tenant]]\nname = \"{}\"\ndatabases = [{}]\nweight = {}\noperations_per_sec = {}\n",
                tenant.name(),
                tenant.database(),
                self.weights[tenant as usize],
                self.operations_per_sec[tenant as usize]
            );
            if tenant == Tenant::Guest {
                let _ = writeln!(text, "limit = \"{}\"", self.guest_limit);
            }
        }
        self.users(&mut text);
        text
    }

    fn listeners(&self, text: &mut String) {
        for (name, protocol, tenant) in [
            (MEMCACHED, "memcached", Tenant::Shop),
            (REDIS, "resp", Tenant::Shop),
            (TLS, "auto", Tenant::Blog),
        ] {
            let _ = write!(
                text,
                "[[listener]]\nname = \"{name}\"\naddress = \"tcp://127.0.0.1:0\"\nprotocol = \"{protocol}\"\n\
                 tenant = \"{}\"\ntenants = [\"*\"]\n",
                tenant.name()
            );
            if name == TLS {
                let (certificate, key) = (self.certificate.display(), self.key.display());
                let _ = write!(text, "tls_certificate = \"{certificate}\"\ntls_key = \"{key}\"\n");
            }
        }
    }

    fn users(&self, text: &mut String) {
        let bobs = if self.bob_may_write { "~* +@all" } else { "%R~* +@read +@connection" };
        for (name, tenant, rules) in [
            ("default", "", "nopass ~* +@all".to_owned()),
            (ALICE[0], Tenant::Blog.name(), format!(">{} ~* +@all", ALICE[1])),
            (BOB[0], "", format!(">{} {bobs}", BOB[1])),
        ] {
            let _ =
                write!(text, "[[user]]\nname = \"{name}\"\ntenant = \"{tenant}\"\nrules = \"on {rules}\"\n");
        }
    }
}

fn percent(size: ByteSize, percent: u64) -> ByteSize {
    ByteSize::mib((size.as_u64() / 100 * percent) >> 20)
}
