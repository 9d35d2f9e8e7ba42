//! The free space of the disk that holds the target folder. A linker that meets a full disk ends
//! with a signal and does not say why.

use std::path::{Path, PathBuf};

/// Free space under which the run says that a failure may come from it: some test programs and
/// their libraries, as the linker writes them.
const LITTLE: u64 = 1 << 30;

/// The disk of the target folder, and the bytes that were free on it when the run began.
pub(super) struct Disk {
    path: PathBuf,
    before: Option<u64>,
}

impl Disk {
    /// The disk on which `cargo` builds what lies in `root`.
    pub(super) fn of_builds(root: &Path) -> Self {
        let path = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        // The folder may not be there yet.
        let path = if path.is_dir() { path } else { root.to_path_buf() };
        let before = free(&path);
        Self { path, before }
    }

    /// A line of the summary, or nothing if the file system does not say.
    pub(super) fn report(&self) -> String {
        match (self.before, free(&self.path)) {
            (Some(before), Some(now)) => line(before, now),
            _ => String::new(),
        }
    }
}

fn free(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

fn line(before: u64, now: u64) -> String {
    let gib = |bytes: u64| bytes as f64 / (1 << 30) as f64;
    let warning = if now < LITTLE { "; what failed may have met a full disk" } else { "" };
    format!("\ndisk: {:.1} GiB free, {:.1} before{warning}\n", gib(now), gib(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_is_told() {
        assert_eq!(line(30 << 30, 24 << 30), "\ndisk: 24.0 GiB free, 30.0 before\n");
        let full = line(5 << 30, 10 << 20);
        assert_eq!(full, "\ndisk: 0.0 GiB free, 5.0 before; what failed may have met a full disk\n");
    }

    #[test]
    fn the_disk_of_the_repository_says_what_is_free() {
        let disk = Disk::of_builds(&crate::repository::root());
        assert!(disk.report().starts_with("\ndisk: "), "{}", disk.report());
    }
}
