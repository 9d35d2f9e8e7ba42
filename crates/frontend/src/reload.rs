//! Changing settings while serving. SIGHUP, `CONFIG SET` and the admin API all come here, with the
//! same checks, errors and log.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use config::change::{self, Change, shown_value};
use config::edit::Edited;
use config::{Config, Error, ErrorKind, rewrite};

use crate::instance::{Instance, Observation};
use crate::mailbox::Message;
use crate::pools::{add_pool, policy_refused, set_shares, strategy, tuning};
use crate::requests::Files;
use crate::shared::Shared;
use crate::tenant_figures::tenants;
use crate::{files, tenant_changes, tls};

/// The path of the setting that an orchestrator changes.
const MEMORY: &str = "memory";

impl Instance for Shared {
    fn config(&self) -> Arc<Config> {
        Self::config(self)
    }

    fn observe(&self) -> Observation {
        // First, so that the pool of each tenant is in the statistics.
        let (directory, monotonic_nanos) = (self.directory(), self.clock.monotonic_nanos());
        let cache = self.cache.stats();
        let tenants = tenants(self, &directory, &cache);
        Observation { monotonic_nanos, cache, tenants }
    }

    fn change(&self, by: &str, edit: &dyn Fn(&Config) -> Edited) -> Result<Vec<Change>, Error> {
        self.check_serving()?;
        let mut unwritten = self.changing.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.config();
        let Edited { config: new, mut problems } = edit(&old);
        let changes = self.changes(&old, &new)?;
        problems.extend(changes.iter().filter(|change| !change.online).map(|Change { path, .. }| {
            if path == MEMORY && self.control.was_led() {
                format!(
                    "{path}: an orchestrator sets it; change what the orchestrator has to divide (docs/fleet.md), \
                     or what the server starts with in the file"
                )
            } else {
                format!("{path}: it takes effect at the next start only; set it in the file")
            }
        }));
        if !problems.is_empty() {
            let is_changed = |problem: &String| {
                changes.iter().any(|change| problem.split(": ").next() == Some(change.path.as_str()))
            };
            problems.extend(files::files(&new).problems.into_iter().filter(is_changed));
            return Err(Error::new(ErrorKind::Config, problems.join("\n")));
        }
        self.apply(&new, by, Files::Keep)?;
        unwritten.extend(changes.iter().map(|change| change.path.clone()));
        Ok(changes)
    }

    fn reload(&self, config: &Config, by: &str) -> Result<Vec<Change>, Error> {
        self.check_serving()?;
        let mut unwritten = self.changing.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.apply(config, by, Files::Reopen)?;
        // Settings that were changed one by one no longer hold, or are the same in the file.
        unwritten.clear();
        Ok(changes)
    }

    fn config_file(&self) -> Result<&Path, Error> {
        self.changing.file().ok_or_else(|| {
            Error::new(ErrorKind::Config, "The server is running without a config file".to_owned())
        })
    }

    fn write(&self, paths: Option<&BTreeSet<String>>) -> Result<usize, Error> {
        let mut unwritten = self.changing.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let all = unwritten.clone();
        let paths = paths.unwrap_or(&all);
        let file = self.config_file()?;
        rewrite::rewrite(file, &self.config(), paths)?;
        unwritten.retain(|path| !paths.contains(path));
        let written = paths.len();
        match rewrite::link_target(file) {
            Some(target) => tracing::info!(
                file = %target.display(), link = %file.display(), settings = written,
                "The configuration file, to which a symbolic link leads, was rewritten."
            ),
            None => {
                tracing::info!(file = %file.display(), settings = written, "The configuration file was rewritten.");
            }
        }
        Ok(written)
    }

    fn override_of(&self, path: &str) -> Option<&str> {
        self.changing.override_of(path)
    }
}

impl Shared {
    /// # Errors
    /// If the server stops: a change could begin what nobody would end.
    fn check_serving(&self) -> Result<(), Error> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::System, "the server is stopping".to_owned()));
        }
        Ok(())
    }

    /// All settings that differ, and whether they can be changed now.
    fn changes(&self, old: &Config, new: &Config) -> Result<Vec<Change>, Error> {
        let mut changes = change::between(old, new)?;
        if self.control.was_led() {
            for change in changes.iter_mut().filter(|change| change.path == MEMORY) {
                change.online = false;
            }
        }
        Ok(changes)
    }

    /// Puts a configuration in force, and logs each change.
    fn apply(&self, config: &Config, by: &str, files: Files) -> Result<Vec<Change>, Error> {
        let changes = Reload { shared: self }.apply(config, files)?;
        if let Some(origin) = self.changing.origin.get() {
            origin.log.set_level(config.log.level);
        }
        for change in changes.iter().filter(|change| !change.is_default) {
            let setting = &change.path;
            let (old, new) = (shown_value(setting, &change.old), shown_value(setting, &change.new));
            if change.online {
                tracing::info!(setting, old, new, by, "A setting was changed.");
            } else {
                tracing::warn!(
                    setting,
                    old,
                    new,
                    by,
                    "A setting has changed that takes effect at the next start only."
                );
            }
        }
        Ok(changes)
    }
}

/// Puts settings in force while serving; called by [`Instance::reload`] and its like.
struct Reload<'a> {
    shared: &'a Shared,
}

impl Reload<'_> {
    /// Applies the part of `config` that can be changed while serving, and returns all differences.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the configuration, or a file that it names, is invalid, and nothing
    /// was changed; [`ErrorKind::Engine`] if the cache rejects a limit: the settings applied before
    /// that stay.
    fn apply(&self, config: &Config, files: Files) -> Result<Vec<Change>, Error> {
        let config = &self.shared.changing.without_absent(config);
        config::check::check(config)?;
        let old = self.shared.config();
        let is_led = self.shared.control.was_led();
        let changes = self.shared.changes(&old, config)?;
        let mut merged = change::with_online(&old, config);
        if is_led {
            merged.memory = old.memory;
        }
        // A setting that needs a restart stays, and may name something that is to be removed.
        config::check::check(&merged)?;
        let (certificates, access) = files::read(&merged)?;
        files::check_logs(&old.watch, &merged.watch)?;
        let cache = &self.shared.cache;
        // Steps that can be rejected come before those that change something.
        let refused = |e| Error::with_source(ErrorKind::Engine, "memory cannot be changed", e);
        if old.memory() != merged.memory() {
            cache.check_memory(merged.memory()).map_err(refused)?;
        }
        for settings in &merged.all_pools() {
            if let Some(pool) = self.shared.directory().pool(&settings.name) {
                cache
                    .check_pool_policy(pool.id, settings.policy)
                    .map_err(|e| policy_refused(&pool.name, e))?;
            }
        }
        self.shared.request_log.apply(cache.ledger(), &merged.watch, files)?;
        self.shared.watching.apply(cache, &self.shared.directory().pools, &merged.watch)?;
        self.shared.tracing.apply(cache.ledger(), &merged.telemetry)?;
        let monitoring = &self.shared.monitoring;
        // A monitor takes back by itself the memory that it has given back.
        let is_lent = monitoring.is(&merged.monitor) && monitoring.status().is_some();
        if !is_lent || old.memory() != merged.memory() {
            monitoring.stop();
            // Items are evicted on the maintenance thread: a client may have asked for the change,
            // and the others of its worker do not wait.
            if !is_led {
                cache.set_memory_lazily(merged.memory()).map_err(refused)?;
            }
            monitoring.start(cache, &merged.monitor)?;
        }
        tenant_changes::apply(self.shared, &merged, |settings| {
            let pool = add_pool(cache, settings, Arc::default())?;
            self.shared.watching.apply_to(cache, &pool)?;
            Ok(pool)
        })?;
        self.apply_to_pools(&merged)?;
        self.shared.control.apply(cache, &merged)?;
        put_in_force(self.shared, certificates);
        self.shared.admin_access.set(access);
        // Users that were made while serving stay until those of the configuration change.
        if old.users != merged.users {
            self.shared.users.replace(&merged);
        }
        self.shared.set_config(merged);
        self.shared.workers.iter().for_each(|worker| worker.mailbox.send(Message::Reload));
        self.shared.maintenance.wake();
        Ok(changes)
    }

    /// Applies the settings of pools.
    fn apply_to_pools(&self, merged: &Config) -> Result<(), Error> {
        let cache = &self.shared.cache;
        let directory = self.shared.directory();
        set_shares(cache, merged, &directory.pools)?;
        for settings in &merged.all_pools() {
            let Some(pool) = directory.pool(&settings.name) else { continue };
            cache.set_pool_limit_lazily(pool.id, settings.limit.set()).map_err(|e| {
                Error::with_source(
                    ErrorKind::Engine,
                    format!("the limit of pool {} cannot be changed", pool.name),
                    e,
                )
            })?;
            let refused = |e| policy_refused(&pool.name, e);
            cache.set_pool_policy_lazily(pool.id, settings.policy).map_err(refused)?;
            cache.set_pool_strategy(pool.id, strategy(settings)).map_err(refused)?;
            cache.set_pool_tuning(pool.id, tuning(settings)).map_err(refused)?;
        }
        Ok(())
    }
}

/// Has new connections speak TLS with `certificates`.
pub fn put_in_force(shared: &Shared, certificates: tls::Loaded) {
    let now = shared.clock.unix_secs();
    for (listener, tls) in shared.listeners.iter().zip(certificates.listeners) {
        listener.tls.set(&listener.name, tls, now);
    }
    shared.admin_tls.set("admin", certificates.admin, now);
}
