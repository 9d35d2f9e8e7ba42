//! State that changes of the configuration need while the server serves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use config::Config;
use config::load::Override;

use crate::log::LogControl;

/// The state that is kept for changes.
#[derive(Default)]
pub struct Changing {
    /// Held while settings are changed, so that one change is made after the other; with the
    /// settings that were changed one by one and are not in the file yet.
    pub unwritten: Mutex<BTreeSet<String>>,
    /// The source of the configuration, if the server was started by one.
    pub origin: OnceLock<Origin>,
    /// Optional listeners that the server was started without.
    absent: OnceLock<Vec<String>>,
}

/// The source of the configuration, and the log that follows it. There is none if a program started
/// the server.
pub struct Origin {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// The settings that variables and flags give.
    pub overrides: Vec<Override>,
    /// The log, whose level follows the configuration.
    pub log: LogControl,
}

impl Changing {
    /// Sets the source of the configuration, once.
    pub fn set_origin(&self, origin: Origin) {
        let _ = self.origin.set(origin);
    }

    /// Sets the names of the optional listeners that are absent, once.
    pub fn set_absent(&self, absent: Vec<String>) {
        let _ = self.absent.set(absent);
    }

    /// `config` without the optional listeners that the server was started without: they are not
    /// missing.
    pub fn without_absent(&self, config: &Config) -> Config {
        let absent = self.absent.get().map_or(&[][..], Vec::as_slice);
        let mut config = config.clone();
        config.listeners.retain(|listener| !(listener.optional && absent.contains(&listener.name)));
        config
    }

    /// The configuration file, if the server was started with one.
    pub fn file(&self) -> Option<&Path> {
        self.origin.get()?.file.as_deref()
    }

    /// The variable or flag that gives a setting, whatever the file says.
    pub fn override_of(&self, path: &str) -> Option<&str> {
        let overrides = &self.origin.get()?.overrides;
        overrides.iter().rfind(|given| given.path == path).map(|given| given.source.as_str())
    }
}
