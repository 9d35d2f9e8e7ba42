//! Changing settings while serving. SIGHUP, `CONFIG SET` and the admin API all come here, with the
//! same checks, errors and log.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;

use config::change::{Change, shown_value};
use config::edit::Edited;
use config::{Config, Error, ErrorKind, rewrite};

use crate::preflight;
use crate::requests::Files;
use crate::server::Reload;
use crate::shared::Shared;

impl Shared {
    /// Applies the part of `config` that can be changed while serving, and returns all differences.
    /// `by` names the cause of the reload.
    ///
    /// # Errors
    /// As [`Reload::apply`].
    pub(crate) fn reload(&self, config: &Config, by: &str) -> Result<Vec<Change>, Error> {
        let mut unwritten = self.changing.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.apply(config, by, Files::Reopen)?;
        // Settings that were changed one by one no longer hold, or are the same in the file.
        unwritten.clear();
        Ok(changes)
    }

    /// Changes single settings, all or none, to the result of `edit` on the configuration in force.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if `edit` finds problems, or a setting needs a restart: with all
    /// problems, and those of the files that the change names. Else as [`Reload::apply`].
    pub(crate) fn change(
        &self,
        by: &str,
        edit: impl FnOnce(&Config) -> Edited,
    ) -> Result<Vec<Change>, Error> {
        let mut unwritten = self.changing.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.config();
        let Edited { config: new, mut problems } = edit(&old);
        let changes = config::change::between(&old, &new)?;
        problems.extend(changes.iter().filter(|change| !change.online).map(|Change { path, .. }| {
            format!("{path}: it takes effect at the next start only; set it in the file")
        }));
        if !problems.is_empty() {
            let is_changed = |problem: &String| {
                changes.iter().any(|change| problem.split(": ").next() == Some(change.path.as_str()))
            };
            problems.extend(preflight::files(&new).problems.into_iter().filter(is_changed));
            return Err(Error::new(ErrorKind::Config, problems.join("\n")));
        }
        self.apply(&new, by, Files::Keep)?;
        unwritten.extend(changes.iter().map(|change| change.path.clone()));
        Ok(changes)
    }

    /// Writes settings that were changed one by one into the file, and returns how many.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is no file or it cannot be read, [`ErrorKind::System`] if it
    /// cannot be written.
    pub(crate) fn rewrite_config(&self) -> Result<usize, Error> {
        let mut unwritten = self.changing.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let all = unwritten.clone();
        self.write_settings(&mut unwritten, &all)
    }

    /// Writes these settings into the file, whether they were changed or not, and no others.
    ///
    /// # Errors
    /// As [`Self::rewrite_config`].
    pub(crate) fn write_config(&self, paths: &BTreeSet<String>) -> Result<usize, Error> {
        let mut unwritten = self.changing.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_settings(&mut unwritten, paths)
    }

    fn write_settings(
        &self,
        unwritten: &mut BTreeSet<String>,
        paths: &BTreeSet<String>,
    ) -> Result<usize, Error> {
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

    /// Returns the file that [`Self::rewrite_config`] writes.
    ///
    /// # Errors
    /// If the server was started without one.
    pub(crate) fn config_file(&self) -> Result<&Path, Error> {
        self.changing.file().ok_or_else(|| {
            Error::new(ErrorKind::Config, "The server is running without a config file".to_owned())
        })
    }

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
