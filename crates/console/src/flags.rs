//! The flags of `serve` and `config`, and how they become a configuration.

use std::path::PathBuf;

use clap::Args;
use config::load::{Flags, Loaded, Override, Survey, unsurveyed};
use config::{Config, Error, Listen};

use crate::text::{printable, say};

/// The sources of the configuration.
#[derive(Clone, Debug, Args)]
pub struct ServeArguments {
    /// The configuration file, in TOML (`millpond config print --defaults` prints one); takes the
    /// place of --config.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", env = "MILLPOND_CONFIG")]
    config: Option<PathBuf>,
    /// All memory of the cache, as in 512MiB. Default: a quarter of the machine's or container's,
    /// at most 1GiB.
    #[arg(short, long, value_name = "SIZE")]
    memory: Option<String>,
    /// Worker threads. Default: one for each processor.
    #[arg(short, long, value_name = "NUMBER")]
    threads: Option<String>,
    /// Listen here: tcp://IP:PORT or unix:///PATH for all clients, memcached://IP:PORT or
    /// redis://IP:PORT for one kind. With --port and --redis it replaces all listeners of the file;
    /// may be repeated.
    #[arg(short, long, value_name = "ADDRESS", env = "MILLPOND_LISTEN", value_delimiter = ',')]
    listen: Vec<Listen>,
    /// Listen for all clients on this port of 127.0.0.1; may be repeated.
    #[arg(short, long, value_name = "PORT")]
    port: Vec<u16>,
    /// Listen for Redis clients alone, on this address or port, or else on 127.0.0.1:6379.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "6379", value_parser = Listen::redis)]
    redis: Option<Listen>,
    /// Any setting by its name in the file, as in admin.address=127.0.0.1:11312 or
    /// pool.default.limit=64MiB; may be repeated.
    #[arg(short, long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl ServeArguments {
    /// Reads file, variables and flags, and looks at this machine as `survey` does.
    ///
    /// # Errors
    /// All mistakes that were found, each with its line or flag.
    pub fn load(&self, survey: Survey<'_>) -> Result<Loaded, Error> {
        let file = self.file.as_deref().or(self.config.as_deref());
        config::load::load(file, &self.flags(), survey)
    }

    fn flags(&self) -> Flags {
        let (mut settings, mut mistakes) = (Vec::new(), Vec::new());
        for (flag, path, value) in
            [("--memory", "memory", &self.memory), ("--threads", "threads", &self.threads)]
        {
            if let Some(value) = value {
                settings.push(Override {
                    source: flag.to_owned(),
                    path: path.to_owned(),
                    value: value.clone(),
                });
            }
        }
        for assignment in &self.set {
            match Override::parse("--set", assignment) {
                Ok(setting) => settings.push(setting),
                Err(error) => mistakes.push(error.to_string()),
            }
        }
        let ports = self.port.iter().copied().map(Listen::port);
        let listen = self.listen.iter().cloned().chain(ports).chain(self.redis.clone()).collect();
        Flags { listen, settings, mistakes }
    }

    /// `millpond config check`, which looks at this machine as `survey` does.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn check(&self, survey: Survey<'_>) -> Result<(), Error> {
        let loaded = self.load(survey)?;
        loaded
            .warnings
            .iter()
            .for_each(|warning| eprintln!("millpond: warning: {}", printable(warning, &[])));
        say("The configuration is good.\n");
        Ok(())
    }

    /// `millpond config print`: the configuration that would hold, or the `defaults` alone.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn print(&self, defaults: bool) -> Result<(), Error> {
        let config = if defaults { Config::default() } else { self.load(&unsurveyed)?.config };
        say(&config::render(&config)?);
        Ok(())
    }
}
