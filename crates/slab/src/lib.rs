//! Memory of the cache: one reserved range of addresses cut into 4 MiB slabs, slabs, or runs of
//! units of split ones, cut into chunks of one size class, chunks that hold an item each.
//!
//! - [`arena`]: the reserved range, the table of what each slab holds, and giving slabs back to the
//!   system;
//! - [`run`]: what a class is given of it: slabs, or a few units of a slab that is split;
//! - [`ptr`]: the 32-bit compressed item pointer;
//! - [`classes`]: which chunk sizes exist;
//! - [`item`]: header, key and value inside a chunk, and the state word that counts references;
//! - [`shared`] and [`words`]: a cache that outlives its process, in files in memory;
//! - [`onlooker`]: looking into those files while another process has them;
//! - [`chunks`]: free chunks of one pool and class.
//!
//! Nothing here evicts. Only the arena locks, its lists of free slabs and units; the engine puts a
//! [`chunks::Chunks`] behind the lock of its class.

pub mod arena;
pub mod chunks;
pub mod classes;
mod fork;
pub mod item;
pub mod onlooker;
pub mod ptr;
pub mod run;
pub mod shared;
mod units;
pub mod words;

pub use arena::{Arena, SlabInfo, SplitSlab};
pub use base::geometry::{CHUNK_ALIGN, MIN_CHUNK_BYTES, SLAB_BYTES};
pub use chunks::{ChunkNumber, Chunks, Withheld};
pub use classes::{ClassError, SizeClasses};
pub use item::{Item, Layout, StateWord};
pub use onlooker::Onlooker;
pub use ptr::{ItemPtr, SlabId};
pub use run::{Run, RunId};
pub use shared::Shared;
pub use words::Words;
