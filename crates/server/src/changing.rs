//! State that changes of the configuration need while the server serves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use config::Config;

use crate::log::LogControl;

/// The state that is kept for changes.
#[derive(Default)]
pub(crate) struct Changing {
    /// Held while settings are changed, so that one change is made after the other; with the
    /// settings that were changed one by one and are not in the file yet.
    pub(crate) unwritten: Mutex<BTreeSet<String>>,
    pub(crate) origin: OnceLock<Origin>,
    /// Optional listeners that the server was started without.
    absent: OnceLock<Vec<String>>,
}

/// The source of the configuration, and the log that follows it. There is none if a program started
/// the server.
pub(crate) struct Origin {
    pub(crate) file: Option<PathBuf>,
    pub(crate) log: LogControl,
}

impl Changing {
    pub(crate) fn set_origin(&self, origin: Origin) {
        let _ = self.origin.set(origin);
    }

    pub(crate) fn set_absent(&self, absent: Vec<String>) {
        let _ = self.absent.set(absent);
    }

    /// `config` without the optional listeners that the server was started without: they are not
    /// missing.
    pub(crate) fn without_absent(&self, config: &Config) -> Config {
        let absent = self.absent.get().map_or(&[][..], Vec::as_slice);
        let mut config = config.clone();
        config.listeners.retain(|listener| !(listener.optional && absent.contains(&listener.name)));
        config
    }

    /// The configuration file, if the server was started with one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.origin.get()?.file.as_deref()
    }
}
