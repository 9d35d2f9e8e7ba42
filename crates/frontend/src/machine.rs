//! Checks of the files that this process may write to, and its processor time.

use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// Returns an error if this process may not write to the file at `path`, which is not touched.
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// File systems in which the rights of a folder mean nothing, as no files can be made there: proc,
/// sysfs and those of control groups (linux/magic.h).
const KERNEL_FILE_SYSTEMS: [u32; 4] = [0x9fa0, 0x6265_6572, 0x6367_7270, 0x0027_e0eb];

/// Returns an error if this process may not make files in `folder`.
pub fn check_folder(folder: &Path) -> io::Result<()> {
    match std::fs::metadata(folder) {
        Ok(there) if there.is_dir() => {
            if KERNEL_FILE_SYSTEMS.contains(&(rustix::fs::statfs(folder)?.f_type as u32)) {
                let why = "its file system shows what the kernel says, and takes no files";
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
            Ok(accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
        }
        Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
        Err(error) => Err(error),
    }
}

/// Seconds of processor time in user and in system mode, with six decimals.
pub fn processor_seconds() -> (String, String) {
    let read = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The second field, the name, may hold anything; after its closing bracket come plain
        // numbers.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
        Some((ticks.next()??, ticks.next()??))
    };
    let (user, system) = read().unwrap_or((0, 0));
    // Linux gives ticks of 1/100 s to user space on every architecture.
    let seconds = |ticks: u64| format!("{}.{:02}0000", ticks / 100, ticks % 100);
    (seconds(user), seconds(system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_files_are_made_where_the_kernel_shows_its_own() {
        let error = check_folder(Path::new("/proc")).expect_err("whoever asks");
        assert!(error.to_string().contains("takes no files"), "{error}");
        check_folder(tempfile::tempdir().expect("a folder").path()).expect("files can be made");
    }
}
