//! Looking into the files of a cache that another process has open, without disturbing it.
//!
//! Both files are opened for reading, and no lock is taken. Slabs are *copied* by `read(2)` and
//! looked at in the copy: a mapping would make the kernel give memory to chunks that were never
//! used, and would kill this process if the other one makes the file shorter.
//!
//! Three copies are made of what is looked at, one after the other. Of an item that is returned
//! 1. the state word said in all three that it is in the index, in the same incarnation of its
//!    chunk: it was before the second copy began, and still was when the second one was complete;
//! 2. what never changes of an item – lengths, creation time, tag, flags, key, value – is the same
//!    in the second and the third.
//!
//! So it is what its writer wrote, unless its chunk was used 16 times over between the first copy
//! and the second, which brings an incarnation back, *and* then stood still in the middle of being
//! written from before the second copy until after the third. Copies are made in a few microseconds
//! (an item) to some milliseconds (a slab); a chunk is used again when a batch of others was, and
//! after a grace period. It rests on the kernel's copying an aligned word of four bytes in one
//! piece, as Linux does.
//!
//! Invariants, numbered on from there:
//! 3. A copy belongs to whoever has the [`Copies`]: nobody else reads or writes it. A copy begins
//!    at a multiple of 8 bytes, and so does each chunk in it.
//! 4. The item of a [`Copied`] was in the index, and so was initialised; what its header says of
//!    lengths, and of room for a chain, was found to fit into its chunk.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arena::{SPLIT, runs_of};
use crate::item::{Item, StateWord};
use crate::ptr::{ItemPtr, SlabId};
use crate::run::{NUMBERS_PER_UNIT, Run, UNIT_BYTES, UNITS};
use crate::shared::{ENGINE, HEADER, SLABS, check_header};
use crate::{SLAB_BYTES, SlabInfo};

const WORD: usize = size_of::<u64>();

/// The files of a cache, open for looking.
#[derive(Debug)]
pub struct Onlooker {
    words: File,
    slabs: File,
}

/// Buffers for copies of slabs. Kept between calls, so that they are allocated once.
#[derive(Default)]
pub struct Copies {
    /// By chunk, in the first copy: its incarnation, or [`NO_ITEM`].
    first: Vec<u8>,
    /// Atomics, as parts of an item are read as such.
    second: Vec<AtomicU64>,
    third: Vec<AtomicU64>,
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copies").field("bytes", &(WORD * (self.second.len() + self.third.len()))).finish()
    }
}

const NO_ITEM: u8 = u8::MAX;

/// The content of a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Chunk<'a> {
    /// Nothing that is in the index.
    Free,
    /// It changed while it was looked at.
    Changing,
    /// An item, or a link of a chain.
    Item(Copied<'a>),
}

/// A whole item in a copy of its chunk.
#[derive(Clone, Copy)]
pub struct Copied<'a> {
    item: Item<'a>,
    ptr: ItemPtr,
}

impl std::fmt::Debug for Copied<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copied").field("ptr", &self.ptr).finish_non_exhaustive()
    }
}

/// Bytes of a copy, to be read into.
fn bytes_of(copy: &mut [AtomicU64]) -> &mut [u8] {
    let (len, at) = (size_of_val(copy), copy.as_mut_ptr().cast::<u8>());
    // SAFETY: the same memory, borrowed as `copy` is, so that nobody else uses it (invariant 3);
    // any byte is a byte, and any eight are a word.
    unsafe { std::slice::from_raw_parts_mut(at, len) }
}

/// Reads `bytes` from `file` at `offset`. `false`: the file ends before.
fn read_bytes(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact_at(bytes, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Words of the file `words`; fewer than `count` if the file ends before.
pub(crate) fn read_words(file: &File, first: usize, count: usize) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; count * WORD];
    let is_whole = read_bytes(file, (first * WORD) as u64, &mut bytes)?;
    let words = bytes.chunks_exact(WORD).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)));
    Ok(if is_whole { words.collect() } else { Vec::new() })
}

/// The item in chunk `number` of a copy.
fn item_at(copy: &[AtomicU64], number: usize, chunk_bytes: usize) -> Item<'_> {
    let first = number * chunk_bytes / WORD;
    let chunk = &copy[first..first + chunk_bytes / WORD];
    // SAFETY: the chunk begins at a word (invariant 3) and is `chunk_bytes` long, for as long as
    // the copy is borrowed.
    unsafe { Item::at(NonNull::from(chunk).cast(), chunk_bytes as u32) }
}

fn incarnation(state: &StateWord) -> u8 {
    if state.is_indexed() { state.incarnation() } else { NO_ITEM }
}

/// Returns whether two copies of a chunk have the same item, in all that never changes of one.
fn is_same(one: Item<'_>, other: Item<'_>) -> bool {
    // SAFETY: nobody writes to copies meanwhile (invariant 3), and both items were found to be
    // plausible.
    unsafe {
        one.layout() == other.layout()
            && one.used_bytes() == other.used_bytes()
            && one.created() == other.created()
            && one.cas() == other.cas()
            && one.client_flags() == other.client_flags()
            && one.key() == other.key()
            && (one.is_link() || one.value() == other.value())
    }
}

impl Onlooker {
    /// Opens the files of the cache in `folder`. No lock is taken, and nothing is written.
    ///
    /// # Errors
    /// If the folder is not there or the files may not be read; `InvalidData` if they are of
    /// another layout. The text says what to do.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let open = |name: &str| {
            File::open(folder.join(name)).map_err(|error| {
                let advice = match error.kind() {
                    ErrorKind::NotFound => "no cache is there: name the folder that it was made with",
                    ErrorKind::PermissionDenied => "ask as the user who made it, or let others read it",
                    _ => "look at the file system",
                };
                let path = folder.join(name);
                io::Error::new(error.kind(), format!("cannot read {}: {error} ({advice})", path.display()))
            })
        };
        let (words, slabs) = (open("words")?, open("slabs")?);
        match read_words(&words, 0, 3)?[..] {
            [0, ..] | [] => {
                let text =
                    format!("the cache in {} is not finished: look again in a moment", folder.display());
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
            [magic, layout, slab_bytes] => {
                let advice = "look at it with a program of that version";
                check_header(folder, &[magic, layout, slab_bytes], advice)?;
            }
            _ => return Err(ErrorKind::UnexpectedEof.into()),
        }
        Ok(Self { words, slabs })
    }

    /// Returns whether the files were removed since they were opened: if so, no process will change
    /// them any more.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn is_removed(&self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt as _;
        Ok(self.words.metadata()?.nlink() == 0)
    }

    /// `count` of the engine's words ([`crate::Shared::engine_words`]) as they are now, from the
    /// engine's word `first` on.
    ///
    /// # Errors
    /// If they cannot be read, or if there are not so many.
    pub fn engine_words(&self, first: usize, count: usize) -> io::Result<Vec<u64>> {
        if first + count > ENGINE {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.read(HEADER + first, count)
    }

    /// The runs that are assigned now.
    ///
    /// # Errors
    /// If the tables cannot be read.
    pub fn runs(&self) -> io::Result<Vec<(Run, SlabInfo)>> {
        let mut runs = Vec::new();
        for (slab, word) in self.read(HEADER + ENGINE, SLABS)?.into_iter().enumerate() {
            runs.extend(self.runs_in(SlabId(slab as u16), word)?);
        }
        Ok(runs)
    }

    /// The runs of a slab for which this word stands in the table.
    fn runs_in(&self, slab: SlabId, word: u64) -> io::Result<Vec<(Run, SlabInfo)>> {
        if word != SPLIT {
            return Ok(SlabInfo::checked(word).map(|info| (Run::whole(slab), info)).into_iter().collect());
        }
        let first = usize::from(slab.0) * SLAB_BYTES / WORD;
        let words = read_words(&self.slabs, first, UNITS as usize)?;
        Ok(runs_of(slab, words.into_iter()))
    }

    fn read(&self, first: usize, count: usize) -> io::Result<Vec<u64>> {
        let words = read_words(&self.words, first, count)?;
        if words.is_empty() {
            return Err(io::Error::new(ErrorKind::InvalidData, "the file `words` is too short"));
        }
        Ok(words)
    }

    /// Returns whether a run is assigned, and as `info` says.
    fn is_assigned(&self, run: Run, info: SlabInfo) -> io::Result<bool> {
        let word = self.read(HEADER + ENGINE + usize::from(run.id.slab().0), 1)?;
        let Some(word) = word.first() else { return Ok(false) };
        Ok(self.runs_in(run.id.slab(), *word)?.contains(&(run, info)))
    }

    /// Calls `seen` with each chunk of a run. `false`: the run is not what `info` says any more,
    /// and nothing was seen.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn look_at_run(
        &self,
        run: Run,
        info: SlabInfo,
        copies: &mut Copies,
        mut seen: impl FnMut(Chunk<'_>),
    ) -> io::Result<bool> {
        let chunks = run.chunks(info) as usize;
        if !self.copy(start_of(run), run.bytes() as usize, (chunks, info.chunk_bytes as usize), copies)?
            // Read after the copies: all of them are of the run as it was assigned.
            || !self.is_assigned(run, info)?
        {
            return Ok(false);
        }
        for number in 0..chunks {
            seen(copies.chunk(number, info, run.chunk(number as u32)));
        }
        Ok(true)
    }

    /// Calls `seen` with one chunk of a run. `None`: the run is not what it was.
    ///
    /// # Errors
    /// As [`Self::look_at_run`].
    pub fn look_at_chunk<R>(
        &self,
        (ptr, run): (ItemPtr, Run),
        info: SlabInfo,
        copies: &mut Copies,
        seen: impl FnOnce(Chunk<'_>) -> R,
    ) -> io::Result<Option<R>> {
        let chunk_bytes = info.chunk_bytes as usize;
        let Some(number) = run.number_of(ptr).filter(|number| *number < run.chunks(info)) else {
            return Ok(None);
        };
        let offset = start_of(run) + u64::from(number) * chunk_bytes as u64;
        if !self.copy(offset, chunk_bytes, (1, chunk_bytes), copies)? || !self.is_assigned(run, info)? {
            return Ok(None);
        }
        Ok(Some(seen(copies.chunk(0, info, ptr))))
    }

    /// Makes the three copies of `len` bytes, the chunks of a run.
    fn copy(
        &self,
        offset: u64,
        len: usize,
        (chunks, chunk_bytes): (usize, usize),
        copies: &mut Copies,
    ) -> io::Result<bool> {
        let Copies { first, second, third } = copies;
        second.resize_with(len / WORD, AtomicU64::default);
        third.resize_with(len / WORD, AtomicU64::default);
        if !read_bytes(&self.slabs, offset, bytes_of(third))? {
            return Ok(false);
        }
        first.clear();
        first.extend((0..chunks).map(|number| incarnation(item_at(third, number, chunk_bytes).state())));
        Ok(read_bytes(&self.slabs, offset, bytes_of(second))?
            && read_bytes(&self.slabs, offset, bytes_of(third))?)
    }
}

/// The offset of a run in the file, in bytes.
fn start_of(run: Run) -> u64 {
    let unit = u32::from(run.chunk(0).number()) / NUMBERS_PER_UNIT;
    u64::from(run.id.slab().0) * SLAB_BYTES as u64 + u64::from(unit) * UNIT_BYTES as u64
}

impl Copies {
    fn chunk(&self, number: usize, info: SlabInfo, ptr: ItemPtr) -> Chunk<'_> {
        let chunk_bytes = info.chunk_bytes as usize;
        let (item, again) =
            (item_at(&self.second, number, chunk_bytes), item_at(&self.third, number, chunk_bytes));
        let found = [self.first[number], incarnation(item.state()), incarnation(again.state())];
        match found {
            [NO_ITEM, NO_ITEM, NO_ITEM] => Chunk::Free,
            [one, two, three] if one != two || two != three => Chunk::Changing,
            // SAFETY: nobody writes to copies meanwhile (invariant 3); what their headers name is
            // checked first.
            _ if unsafe { !item.is_plausible() || !again.is_plausible() } || !is_same(item, again) => {
                Chunk::Changing
            }
            _ => Chunk::Item(Copied { item, ptr }),
        }
    }
}

impl<'a> Copied<'a> {
    /// The pointer to the item.
    pub fn ptr(&self) -> ItemPtr {
        self.ptr
    }

    /// The key; empty for a link of a chain.
    pub fn key(&self) -> &'a [u8] {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.key() }
    }

    /// The value, without what is in a chain; empty if the item has a tail in its place.
    pub fn value(&self) -> &'a [u8] {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.value() }
    }

    /// Returns whether the item is a link of a chain.
    pub fn is_link(&self) -> bool {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.is_link() }
    }

    /// Returns whether the item's value is long, and lies in its links.
    pub fn is_long(&self) -> bool {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.is_long() }
    }

    /// Returns whether words that may be written at any time lie in the place of a value.
    pub fn has_tail(&self) -> bool {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.has_tail() }
    }

    /// Returns the number of links that its chain had; they may have changed meanwhile.
    pub fn links(&self) -> u32 {
        // SAFETY: nobody writes to the copy, and the item fits into it with the ends of its chain
        // (invariants 3 and 4).
        if self.item.state().is_chained() { unsafe { self.item.chain() }.1 } else { 0 }
    }

    /// Returns the time at which it was made, in Unix seconds.
    pub fn created(&self) -> u32 {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.created() }
    }

    /// Returns its expiry time, in Unix seconds; 0 = never.
    pub fn expiry(&self) -> u32 {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.expiry() }.map_or(0, |time| time.load(Ordering::Relaxed))
    }

    /// Returns the time at which it was last found, in Unix seconds, for items with a tag.
    pub fn last_access(&self) -> Option<u32> {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.last_access() }.map(|time| time.load(Ordering::Relaxed))
    }

    /// The client's flags; 0 if it has none.
    pub fn client_flags(&self) -> u32 {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.client_flags() }
    }

    /// CAS token and client flags, of items with a tag.
    pub fn tag(&self) -> Option<(u64, u32)> {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { Some((self.item.cas()?, self.item.client_flags())) }
    }

    /// Bytes of its chunk that it uses.
    pub fn used_bytes(&self) -> usize {
        // SAFETY: nobody writes to the copy, and the item fits into it (invariants 3 and 4).
        unsafe { self.item.used_bytes() }
    }

    /// Returns whether the item was ever found.
    pub fn is_fetched(&self) -> bool {
        self.item.state().is_fetched()
    }
}
