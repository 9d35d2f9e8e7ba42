//! A `millpond orchestrate` of our own, as a process that leads servers and is stopped and killed
//! from outside.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::served::free_port;

/// A running orchestrator. Dropping it kills it.
#[derive(Debug)]
pub struct Orchestrated {
    child: Child,
    admin: String,
}

impl Orchestrated {
    /// Starts `program orchestrate` with these flags, for agents that register at `listen`, and
    /// waits until it listens.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(program: &Path, listen: &str, flags: &[&str]) -> Result<Self> {
        let admin = format!("127.0.0.1:{}", free_port()?);
        let child = Command::new(program)
            .args(["orchestrate", "--listen", listen, "--admin", &admin])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting an orchestrator")?;
        let mut started = Self { child, admin };
        let mut said = String::new();
        let output = started.child.stdout.take().context("the output of an orchestrator")?;
        BufReader::new(output).read_line(&mut said)?;
        ensure!(said.starts_with("Agents register at "), "the orchestrator did not start: {said}");
        Ok(started)
    }

    /// The address, `HOST:PORT`, of its page and figures.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// Sends a signal to it.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("signalling the orchestrator")
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().context("waiting for the orchestrator")
    }
}

impl Drop for Orchestrated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
