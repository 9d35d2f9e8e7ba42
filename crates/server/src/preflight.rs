//! Checks whether a configuration can work on this machine: the files and folders that it names,
//! and its addresses.
//!
//! Each is checked as a start would use it, and all problems are reported together. Invariant 1:
//! nothing is changed. No file is made, emptied or written to, and no address is listened on.

use std::path::Path;

use config::load::Findings;
use config::{Address, Auto, Config, Error, ErrorKind};
pub use frontend::files::files;
use frontend::machine;
use millpond::Cache;

use crate::activation::Activated;
use crate::net::Listener;

/// Looks at all that a start needs. An address that is in use, perhaps by the very server that has
/// this configuration, is warned of.
pub fn all(config: &Config) -> Findings {
    let mut findings = without_addresses(config);
    for Refusal { setting, error } in refused_addresses(config, &Activated::default()) {
        match error.kind() {
            ErrorKind::Taken => findings.warnings.push(format!(
                "{setting}: something listens there now; unless that is a server with this configuration, it will not start"
            )),
            _ => findings.problems.push(format!("{setting}: {error}")),
        }
    }
    findings
}

/// Looks at all that a start needs, but for the addresses of sockets that were handed over.
pub(crate) fn start(config: &Config, activated: &Activated) -> Findings {
    let mut findings = without_addresses(config);
    let refused = refused_addresses(config, activated).into_iter();
    findings.problems.extend(refused.map(|it| format!("{}: {}", it.setting, it.error)));
    findings
}

fn without_addresses(config: &Config) -> Findings {
    let mut findings = files(config);
    let folder = &config.shared_memory;
    if !folder.as_os_str().is_empty()
        && let Err(what) = check_shared_memory(folder)
    {
        findings.problems.push(format!("shared_memory: {}: {what}", folder.display()));
    }
    findings
}

/// An address that cannot be listened on.
struct Refusal {
    setting: String,
    error: Error,
}

/// The addresses that a start could not listen on, and would not do without.
fn refused_addresses(config: &Config, activated: &Activated) -> Vec<Refusal> {
    let (mut refused, mut missing) = (Vec::new(), Vec::new());
    for listener in config.listeners.iter().filter(|listener| !activated.has(&listener.name, config)) {
        let Err(error) = Listener::probe(&listener.address) else { continue };
        let is_missing = listener.optional && error.kind() == ErrorKind::Taken;
        let refusal = Refusal { setting: format!("listener.{}.address", listener.name), error };
        if is_missing { missing.push(refusal) } else { refused.push(refusal) }
    }
    // One of them is needed.
    if missing.len() == config.listeners.len() {
        refused.append(&mut missing);
    }
    let admin = &config.admin;
    if admin.enabled
        && !activated.has_admin()
        && let Address::Tcp(_) = admin.address()
        && let Err(error) = Listener::probe(&admin.address())
        && (admin.address != Auto::Auto || error.kind() != ErrorKind::Taken)
    {
        refused.push(Refusal { setting: "admin.address".to_owned(), error });
    }
    refused
}

/// Checks that a cache can be made in `folder`, which is created if it is not there.
fn check_shared_memory(folder: &Path) -> Result<(), String> {
    let absolute = std::path::absolute(folder).map_err(|error| error.to_string())?;
    let is_there = |place: &&Path| std::fs::symlink_metadata(place).is_ok();
    let nearest = absolute.ancestors().find(is_there).unwrap_or(Path::new("/"));
    machine::check_folder(nearest)
        .map_err(|error| format!("cannot make files in {}: {error}", nearest.display()))?;
    Cache::check_shared(&absolute).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
