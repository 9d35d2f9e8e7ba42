//! Debian packages that some tests compare with or drive.
//!
//! As root on a Debian machine the missing ones are installed; elsewhere the step says what to install, and the tests that
//! need them say that they did not run. Debian starts a server when its package is installed, which would take the ports
//! that tests and users expect to be free; for the time of the installation a policy forbids that.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::{Outcome, Run};

/// Programs and the packages that have them.
const PROGRAMS: &[(&str, &str)] =
    &[("memcached", "memcached"), ("memccapable", "libmemcached-tools"), ("redis-server", "redis-server")];

/// Where Debian asks whether a service may be started, and the answer that says no.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_TEXT: &str = "#!/bin/sh\nexit 101\n";

/// Where a program is on the path, if it is.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Installs what is missing and can be installed.
pub(super) fn install(run: &mut Run) -> anyhow::Result<Outcome> {
    let missing = missing();
    if missing.is_empty() {
        println!("all there");
        return Ok(Outcome::Passed);
    }
    let by_hand = format!("missing; install with: sudo apt-get install {}", missing.join(" "));
    if find_program("apt-get").is_none() || !is_root() {
        println!("{by_hand}");
        return Ok(Outcome::Skipped(by_hand));
    }
    let _policy = Policy::forbid_services()?;
    let attempt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        run.execute(command)
    };
    let mut arguments = vec!["install", "-y", "-q", "--no-install-recommends"];
    arguments.extend(&missing);
    if attempt(&arguments)? != Outcome::Passed {
        // A fresh machine has no lists of packages, or old ones.
        attempt(&["update", "-q"])?;
        if attempt(&arguments)? != Outcome::Passed {
            return Ok(Outcome::Skipped(by_hand));
        }
    }
    Ok(Outcome::Passed)
}

fn missing() -> Vec<&'static str> {
    let absent = PROGRAMS.iter().filter(|(program, _)| find_program(program).is_none());
    absent.map(|(_, package)| *package).collect()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// While it lives, installing a package starts no service. It leaves a policy that was there before alone.
struct Policy {
    is_ours: bool,
}

impl Policy {
    fn forbid_services() -> anyhow::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        if Path::new(POLICY).exists() {
            return Ok(Self { is_ours: false });
        }
        std::fs::write(POLICY, POLICY_TEXT).with_context(|| format!("cannot write {POLICY}"))?;
        let policy = Self { is_ours: true };
        std::fs::set_permissions(POLICY, std::fs::Permissions::from_mode(0o755))
            .with_context(|| format!("cannot make {POLICY} executable"))?;
        Ok(policy)
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = std::fs::remove_file(POLICY)
        {
            eprintln!("cannot remove {POLICY}: {error}; remove it, or services will not start");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }
}
