//! The interface through which SIGHUP, `CONFIG SET`, `cache_memlimit`, the admin API and programs
//! observe and change a running instance.
//!
//! They all read the same figures and make changes by the same steps, in the names and units of the
//! configuration, so that a change has the same checks, errors and log whoever asked for it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use config::change::Change;
use config::edit::Edited;
use config::{Config, Error};
use millpond::CacheStats;

use crate::tenant_figures::TenantFigures;

/// The figures of an instance at one moment.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The moment, in nanoseconds of the instance's monotonic clock.
    pub monotonic_nanos: u64,
    /// The cache, its pools and their size classes.
    pub cache: CacheStats,
    /// The tenants, in the order of the configuration.
    pub tenants: Vec<TenantFigures>,
}

/// A running instance. A worker calls these methods only for a request that needs them: observing
/// takes time for each pool and tenant, and a change may take seconds.
pub trait Instance: Send + Sync {
    /// Returns the settings in force.
    fn config(&self) -> Arc<Config>;

    /// Returns the present figures.
    fn observe(&self) -> Observation;

    /// Changes single settings, all or none, to the result of `edit` on the configuration in force,
    /// and returns all differences. `by` names in the log who changed them. `edit` must change
    /// nothing by itself: changes are made one after the other.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](config::ErrorKind::Config) if `edit` finds problems, or a setting
    /// needs a restart: with all problems, and those of the files that the change names. Else as
    /// [`Self::reload`].
    fn change(&self, by: &str, edit: &dyn Fn(&Config) -> Edited) -> Result<Vec<Change>, Error>;

    /// Applies the part of `config` that can be changed while serving, and returns all differences.
    /// `by` names the cause of the reload.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](config::ErrorKind::Config) if the configuration, or a file that it
    /// names, is invalid, and nothing was changed;
    /// [`ErrorKind::Engine`](config::ErrorKind::Engine) if the cache rejects a limit: the settings
    /// applied before that stay. [`ErrorKind::System`](config::ErrorKind::System) if the server is
    /// stopping.
    fn reload(&self, config: &Config, by: &str) -> Result<Vec<Change>, Error>;

    /// Returns the file that [`Self::write`] writes.
    ///
    /// # Errors
    /// If the instance was started without one.
    fn config_file(&self) -> Result<&Path, Error>;

    /// Writes settings into the configuration file, and returns their number: these, whether they
    /// were changed or not, or else all that were changed one by one and are not in the file yet.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](config::ErrorKind::Config) if there is no file or it cannot be read,
    /// [`ErrorKind::System`](config::ErrorKind::System) if it cannot be written.
    fn write(&self, paths: Option<&BTreeSet<String>>) -> Result<usize, Error>;

    /// Returns the variable or flag that gives a setting, whatever the file says.
    fn override_of(&self, path: &str) -> Option<&str>;
}
