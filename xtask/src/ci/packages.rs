//! Debian packages that some tests compare with or drive.
//!
//! As root on a Debian machine the missing ones are installed; elsewhere the step says what to
//! install, and the tests that need them say that they did not run. Debian starts a server when its
//! package is installed, which would take the ports that tests and users expect to be free; for the
//! time of the installation a policy forbids that.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::{Outcome, Run};

/// Programs and the packages that have them.
const PROGRAMS: &[(&str, &str)] = &[
    ("memcached", "memcached"),
    ("memccapable", "libmemcached-tools"),
    ("redis-server", "redis-server"),
    ("chromium", "chromium"),
    ("etcd", "etcd-server"),
];

/// The file by which Debian asks whether a service may be started, and the answer that says no.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_TEXT: &str = "\
#!/bin/sh
# Written by `cargo xtask ci` while it installs packages, so that none starts a service; remove it if it is still here.
exit 101
";

/// Returns the place of a program on the path, if it is there.
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
    let _policy = Policy::forbid_services(Path::new(POLICY))?;
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

/// While it lives, installing a package starts no service. It leaves a policy of the machine's own
/// alone, and takes over one that an interrupted run left behind.
struct Policy<'a> {
    path: &'a Path,
    is_ours: bool,
}

impl<'a> Policy<'a> {
    fn forbid_services(path: &'a Path) -> anyhow::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let is_ours = std::fs::read_to_string(path).map_or(!path.exists(), |text| text == POLICY_TEXT);
        let policy = Self { path, is_ours };
        if is_ours {
            let context = || format!("cannot write {}", path.display());
            std::fs::write(path, POLICY_TEXT).with_context(context)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).with_context(context)?;
        }
        Ok(policy)
    }
}

impl Drop for Policy<'_> {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = std::fs::remove_file(self.path)
        {
            eprintln!(
                "cannot remove {}: {error}; remove it, or services will not start",
                self.path.display()
            );
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

    #[test]
    fn the_policy_says_no_while_it_lives_and_goes_away() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("millpond-policy-{}", std::process::id()));
        for left_behind in [None, Some(POLICY_TEXT)] {
            if let Some(text) = left_behind {
                std::fs::write(&path, text).expect("a file");
            }
            let policy = Policy::forbid_services(&path).expect("a policy");
            // Run by `sh`: a file that some other test's child still has open for writing cannot be
            // run itself.
            let answer = Command::new("sh").arg(&path).status().expect("it runs");
            assert_eq!(answer.code(), Some(101));
            let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o111, 0o111);
            drop(policy);
            assert!(!path.exists());
        }
        std::fs::write(&path, "#!/bin/sh\nexit 0\n").expect("a file");
        drop(Policy::forbid_services(&path).expect("a policy"));
        assert_eq!(std::fs::read_to_string(&path).expect("left alone"), "#!/bin/sh\nexit 0\n");
        std::fs::remove_file(&path).expect("a file");
    }
}
