//! Checks that the folder of `shared_memory` is in memory, and has room for the cache.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use base::ByteSize;
use rustix::fs::statfs;

/// File systems that are memory, by the numbers that `statfs` knows them by: tmpfs, ramfs,
/// hugetlbfs.
const IN_MEMORY: [u32; 3] = [0x0102_1994, RAMFS, 0x9584_58f6];
/// The one that has no limit of its own.
const RAMFS: u32 = 0x8584_58f6;
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Returns warnings about a folder that can work but is probably not intended.
pub(super) fn warnings(folder: &Path, memory: ByteSize) -> Vec<String> {
    if folder.as_os_str().is_empty() {
        return Vec::new();
    }
    // The server makes the missing parts of it.
    let here = Path::new(".");
    let there = folder.ancestors().chain([here]).find(|place| place.is_dir());
    let Some((there, system)) = there.and_then(|there| Some((there, statfs(there).ok()?))) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let kind = system.f_type as u32;
    if !IN_MEMORY.contains(&kind) {
        warnings.push(format!(
            "shared_memory: {} is not in memory (tmpfs or hugetlbfs), so that the kernel writes what changes in the cache to \
             a disk; use a folder below /dev/shm",
            folder.display()
        ));
    }
    let free = system.f_bavail.saturating_mul(system.f_bsize as u64);
    // The files that an earlier process left there are used again.
    let had = if there == folder { bytes_in(folder) } else { 0 };
    let room = ByteSize::new(free.saturating_add(had));
    if room < memory && kind != RAMFS {
        warnings.push(format!(
            "shared_memory: the file system of {} has room for {room}, and memory is {memory}: the cache will not have more \
             than fits; give that file system more room (mount -o remount,size=…), or lower memory",
            folder.display()
        ));
    }
    warnings
}

/// Returns the bytes that the files of a folder take.
fn bytes_in(folder: &Path) -> u64 {
    let Ok(files) = fs::read_dir(folder) else { return 0 };
    files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * BLOCK_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_on_a_disk_and_one_without_room_are_warned_of() {
        let enough = ByteSize::mib(16);
        assert_eq!(warnings(Path::new(""), enough), [""; 0]);
        assert_eq!(warnings(Path::new("/dev/shm/not/made/yet"), ByteSize::new(1)), [""; 0]);
        let told = warnings(Path::new("not-made-yet"), ByteSize::new(1));
        assert!(told[0].contains("not-made-yet is not in memory"), "{told:?}");
        // /proc is a file system that is neither in memory nor has room for anything.
        let told = warnings(Path::new("/proc/self"), enough);
        assert!(told[0].contains("/proc/self is not in memory"), "{told:?}");
        assert!(told[1].contains("has room for 0B, and memory is 16MiB"), "{told:?}");
    }
}
