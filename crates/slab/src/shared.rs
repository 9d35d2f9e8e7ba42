//! The files of a cache that outlives its process: `slabs`, which holds the slabs, and `words`, which says what they are.
//!
//! `docs/formats/shared-memory.md` has the layout. The files lie in a folder of a file system in memory, `/dev/shm` or a mounted
//! `tmpfs` or `hugetlbfs`; on a disk they would work, at its pace. One process has them open at a time, by a lock on
//! `words` that ends with it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::SLAB_BYTES;
use crate::words::Words;

/// `MLPDSHM` and a zero.
const MAGIC: u64 = u64::from_le_bytes(*b"MLPDSHM\0");
/// The layout of both files, and of items in slabs.
const VERSION: u64 = 2;
/// What the header of a cache says that this program can use.
const KNOWN: [u64; 3] = [MAGIC, VERSION, SLAB_BYTES as u64];
/// Words of the header: magic, version, slab size, and what is not used yet.
pub(crate) const HEADER: usize = 512;
/// Words for whoever stands above: [`Shared::engine_words`].
pub(crate) const ENGINE: usize = 16 << 10;
/// Most slabs: a word each.
pub(crate) const SLABS: usize = 1 << 16;

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

/// The open files of a cache.
#[derive(Debug)]
pub struct Shared {
    words: Arc<Words>,
    slabs: File,
    /// Locked while it is open.
    _lock: File,
    was_there: bool,
}

/// How often, and how long each time, a process is waited for that is ending, or that was just forked from this one.
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

impl Shared {
    /// Opens the cache in `folder`, which is made where it is not there, for this process alone.
    ///
    /// # Errors
    /// Where the folder cannot be made or the files not be opened; `WouldBlock` where another process has them open;
    /// `InvalidData` where they are of another layout. The text says what to do.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let named = |what: &str, error: io::Error| {
            io::Error::new(error.kind(), format!("{what} {}: {error}", folder.display()))
        };
        fs::create_dir_all(folder).map_err(|error| named("cannot make the folder", error))?;
        let open = |name: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(folder.join(name))
                .map_err(|error| named(&format!("cannot open `{name}` in"), error))
        };
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
        let words =
            Words::in_file(&lock, HEADER + ENGINE + SLABS).map_err(|error| named("cannot map", error))?;
        let found = [0, 1, 2].map(|at: usize| words[at].load(Ordering::Acquire));
        // A process that died before it wrote the magic number left nothing behind.
        let is_new = found[0] == 0;
        if !is_new {
            check_header(folder, &found, "remove it to start with an empty one")?;
        }
        let slabs = open("slabs")?;
        if is_new {
            slabs.set_len(0)?;
            for (word, value) in words.iter().zip(KNOWN).rev() {
                word.store(value, Ordering::Release);
            }
        }
        Ok(Self { words: Arc::new(words), slabs, _lock: lock, was_there: was_there && !is_new })
    }

    /// Whether there was a cache.
    pub fn was_there(&self) -> bool {
        self.was_there
    }

    /// 16,384 words for the engine, as the last process left them: all words, and the first of the engine's.
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
}
