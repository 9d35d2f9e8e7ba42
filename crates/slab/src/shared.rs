//! The files of a cache that outlives its process: `slabs`, which holds the slabs, and `words`,
//! which says what they are.
//!
//! `docs/formats/shared-memory.md` has the layout. The files lie in a folder of a file system in
//! memory, `/dev/shm` or a mounted `tmpfs` or `hugetlbfs`; on a disk they would work, at its pace.
//! One process has them open at a time, by a lock on `words` that ends with it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::{FallocateFlags, OFlags, fallocate, fstatfs};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

use crate::SLAB_BYTES;
use crate::arena::PAGE_BYTES;
use crate::onlooker::read_words;
use crate::words::Words;

/// `MLPDSHM` and a zero.
const MAGIC: u64 = u64::from_le_bytes(*b"MLPDSHM\0");
/// The layout of both files, and of items in slabs.
const VERSION: u64 = 4;
/// The header of a cache that this program can use.
const KNOWN: [u64; 3] = [MAGIC, VERSION, SLAB_BYTES as u64];
/// Words of the header: magic, version, slab size, and what is not used yet.
pub(crate) const HEADER: usize = 512;
/// Words for the engine: [`Shared::engine_words`].
pub(crate) const ENGINE: usize = 16 << 10;
/// Most slabs: a word each.
pub(crate) const SLABS: usize = 1 << 16;

/// Advice for a cache of another layout.
const RENEW: &str = "remove it to start with an empty one";

/// Refuses a cache of another kind or layout, with the advice.
pub(crate) fn check_header(folder: &Path, found: &[u64; 3], advice: &str) -> io::Result<()> {
    if *found == KNOWN {
        return Ok(());
    }
    let [magic, layout, slab_bytes] = found;
    let folder = folder.display();
    let text = format!(
        "{folder} holds no cache of this version (magic {magic:x}, layout {layout}, slabs of {slab_bytes} bytes): {advice}"
    );
    Err(io::Error::new(ErrorKind::InvalidData, text))
}

/// Makes a file as long as that. A limit on the length of files would end this process by a signal
/// otherwise.
pub(crate) fn set_len(file: &File, bytes: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if most < bytes => Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("files may have {most} bytes at most, and {bytes} are needed: raise `ulimit -f`"),
        )),
        _ => file.set_len(bytes),
    }
}

/// Has the file system set memory aside for a part of a file, of whole slabs or less. Keeps what is
/// in it.
pub(crate) fn reserve(file: &File, at: u64, bytes: usize) -> io::Result<()> {
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), at, bytes as u64)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            // What is written has a place.
            let mut there = vec![0; bytes];
            file.read_exact_at(&mut there, at)?;
            file.write_all_at(&there, at)
        }
        done => Ok(done?),
    }
}

/// Overwrites a slab with zeros.
pub(crate) fn clear(file: &File, at: u64) -> io::Result<()> {
    file.write_all_at(&vec![0; SLAB_BYTES], at)
}

/// The bytes that are free in the file system of a file; nothing if it has no limit or does not
/// tell.
pub(crate) fn free_bytes(file: &File) -> Option<u64> {
    let system = fstatfs(file).ok().filter(|system| system.f_blocks > 0)?;
    Some(system.f_bavail.saturating_mul(system.f_bsize as u64))
}

/// The page that a mapping of the file consists of: more than the smallest in `hugetlbfs`, whose
/// files are of whole pages.
pub(crate) fn page_bytes(file: &File) -> io::Result<usize> {
    const HUGETLBFS: u32 = 0x9584_58f6;
    let system = fstatfs(file)?;
    Ok(if system.f_type as u32 == HUGETLBFS { system.f_bsize as usize } else { PAGE_BYTES })
}

/// The open files of a cache.
#[derive(Debug)]
pub struct Shared {
    words: Arc<Words>,
    slabs: File,
    /// Locked while it is open.
    lock: File,
    was_there: bool,
    /// Memory in `slabs` of which `words` did not say what it is, in bytes.
    lost_bytes: u64,
}

/// Number of times that a process that is ending, or that was just forked from this one, is waited
/// for, and how long each time.
const WAITS: u32 = 50;
const WAIT: Duration = Duration::from_millis(10);

fn lock_soon(file: &File) -> Result<(), TryLockError> {
    for _ in 0..WAITS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => base::thread::sleep(WAIT),
            done => return done,
        }
    }
    file.try_lock()
}

/// Opens a file of a cache for reading and writing, as `options` say besides.
fn open_file(folder: &Path, name: &str, options: &mut OpenOptions) -> io::Result<File> {
    // The folder of somebody else may lead anywhere.
    options
        .read(true)
        .write(true)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(folder.join(name))
        .map_err(|error| {
            let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
            let why = if is_link {
                "it is a symbolic link, which may lead anywhere; remove it, or name the folder in which the file is"
                    .to_owned()
            } else {
                error.to_string()
            };
            io::Error::new(error.kind(), format!("cannot open `{name}` in {}: {why}", folder.display()))
        })
}

impl Shared {
    /// Returns an error if [`Self::open`] would refuse the files in `folder`, whether or not a
    /// process has them open. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// If the files cannot be opened, or are of another layout. Missing or unfinished files are
    /// fine.
    pub fn check(folder: &Path) -> io::Result<()> {
        for name in ["words", "slabs"] {
            let file = match open_file(folder, name, &mut OpenOptions::new()) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if name == "words"
                && let [magic, layout, slab_bytes] = read_words(&file, 0, 3)?[..]
                && magic != 0
            {
                check_header(folder, &[magic, layout, slab_bytes], RENEW)?;
            }
        }
        Ok(())
    }

    /// Opens the cache in `folder` for this process alone. Makes the folder if it is not there.
    ///
    /// # Errors
    /// If the folder cannot be made or the files not be opened; `WouldBlock` if another process has
    /// them open; `InvalidData` if they are of another layout. The text says what to do.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let named = |what: &str, error: io::Error| {
            io::Error::new(error.kind(), format!("{what} {}: {error}", folder.display()))
        };
        // Values are for whoever made the cache, who may let others read them.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| named("cannot make the folder", error))?;
        let open =
            |name: &str| open_file(folder, name, OpenOptions::new().create(true).truncate(false).mode(0o600));
        let lock = open("words")?;
        lock_soon(&lock).map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::new(
                ErrorKind::WouldBlock,
                format!(
                    "the cache in {} is in use by another process: stop that one first",
                    folder.display()
                ),
            ),
            TryLockError::Error(error) => named("cannot lock the cache in", error),
        })?;
        let was_there = lock.metadata()?.len() > 0;
        let page = page_bytes(&lock)?;
        if !SLAB_BYTES.is_multiple_of(page) {
            let error = io::Error::new(
                ErrorKind::Unsupported,
                format!("its pages of {page} bytes are larger than a slab: mount it with `pagesize=2M`"),
            );
            return Err(named("cannot use the file system of", error));
        }
        let words = Words::in_file(&lock, HEADER + ENGINE + SLABS, page)
            .map_err(|error| named("cannot reserve and map `words` in", error))?;
        let found = [0, 1, 2].map(|at: usize| words[at].load(Ordering::Acquire));
        // A process that died before it wrote the magic number left nothing behind.
        let is_new = found[0] == 0;
        if !is_new {
            check_header(folder, &found, RENEW)?;
        }
        let slabs = open("slabs")?;
        let mut lost_bytes = 0;
        if is_new {
            lost_bytes = slabs.metadata()?.blocks() * 512;
            slabs.set_len(0).map_err(|error| named("cannot empty `slabs` in", error))?;
            for (word, value) in words.iter().zip(KNOWN).rev() {
                word.store(value, Ordering::Release);
            }
        }
        Ok(Self { words: Arc::new(words), slabs, lock, was_there: was_there && !is_new, lost_bytes })
    }

    /// Returns whether there was a cache.
    pub fn was_there(&self) -> bool {
        self.was_there
    }

    /// Memory in `slabs` of which `words`, which were new, did not say what it is, in bytes. It was
    /// given up.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// 16,384 words for the engine, as the last process left them: all words, and the first of the
    /// engine's.
    pub fn engine_words(&self) -> (Arc<Words>, usize) {
        (Arc::clone(&self.words), HEADER)
    }

    /// The table of slabs: all words, and the first of the table's.
    pub(crate) fn table(&self) -> (Arc<Words>, usize) {
        (Arc::clone(&self.words), HEADER + ENGINE)
    }

    pub(crate) fn slabs(&self) -> &File {
        &self.slabs
    }

    pub(crate) fn files(&self) -> [&File; 2] {
        [&self.lock, &self.slabs]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_refuses_what_cannot_be_opened_and_changes_nothing() {
        let folder = std::env::temp_dir().join(format!("millpond-shared-check-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Shared::check(&folder).expect("it would be made");
        assert!(!folder.exists());
        let held = Shared::open(&folder).expect("opens");
        Shared::check(&folder).expect("in use, and good");
        drop(held);
        // A process that died before it was done left no magic number.
        fs::write(folder.join("words"), [0; 8192]).expect("writes");
        Shared::check(&folder).expect("it would be begun anew");
        fs::write(folder.join("words"), [7; 8192]).expect("writes");
        let refused = Shared::check(&folder).expect_err("not ours");
        assert_eq!(refused.kind(), ErrorKind::InvalidData);
        assert_eq!(refused.to_string(), Shared::open(&folder).expect_err("not ours").to_string());
        fs::remove_file(folder.join("words")).expect("removes");
        std::os::unix::fs::symlink("/dev/null", folder.join("words")).expect("a link");
        for error in [Shared::check(&folder).expect_err("a link"), Shared::open(&folder).expect_err("a link")]
        {
            let said = error.to_string();
            assert!(said.contains("`words`") && said.contains("a symbolic link"), "{said}");
            assert!(said.contains("remove it"), "what to do: {said}");
        }
        fs::remove_dir_all(&folder).expect("removes");
    }
}
