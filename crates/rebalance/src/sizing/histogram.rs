//! The sizes of the items of a pool.

use std::sync::OnceLock;

use base::geometry::SLAB_BYTES;

/// The useful chunk sizes, ascending.
pub(super) fn useful_sizes() -> &'static [u32] {
    static SIZES: OnceLock<Vec<u32>> = OnceLock::new();
    SIZES.get_or_init(|| base::geometry::useful_sizes().collect())
}

/// The number of items of each size, and their bytes.
///
/// A cell for each useful chunk size holds the items that fit into it and not into the one below:
/// multiples of 8 bytes up to 5.8 KiB, beyond that one for each number of chunks per slab. So the
/// histogram keeps everything that a choice of sizes needs. Takes 23 KiB, whatever is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeHistogram {
    cells: Box<[Cell]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    items: u64,
    bytes: u64,
}

/// Items and the chunks that hold them, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slack {
    /// Bytes of the items, headers included.
    pub item_bytes: f64,
    /// Their chunks, each with its part of the end of the slab.
    pub chunk_bytes: f64,
}

impl Slack {
    /// The slack, in bytes.
    pub fn bytes(&self) -> f64 {
        self.chunk_bytes - self.item_bytes
    }

    /// The slack as a share of the memory, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.chunk_bytes > 0.0 { self.bytes() / self.chunk_bytes } else { 0.0 }
    }
}

/// The bytes of its slab that a chunk of this size takes.
pub(super) fn chunk_share(chunk_bytes: u32) -> f64 {
    let slab = SLAB_BYTES as u32;
    f64::from(slab) / f64::from(slab / chunk_bytes)
}

impl Default for SizeHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl SizeHistogram {
    /// The memory of a histogram, in bytes.
    pub fn memory_bytes() -> usize {
        useful_sizes().len() * size_of::<Cell>()
    }

    /// Creates an empty histogram.
    pub fn new() -> Self {
        Self { cells: vec![Cell::default(); useful_sizes().len()].into() }
    }

    /// Adds `items` of `bytes` each, headers included. Items larger than a slab are left out.
    pub fn add(&mut self, bytes: u32, items: u64) {
        let cell = useful_sizes().partition_point(|size| *size < bytes);
        if let Some(cell) = self.cells.get_mut(cell) {
            cell.items = cell.items.saturating_add(items);
            cell.bytes = cell.bytes.saturating_add(items.saturating_mul(bytes.into()));
        }
    }

    /// Halves the weight of all items added so far.
    pub fn age(&mut self) {
        for cell in &mut self.cells {
            // The mean size does not change.
            let items = cell.items / 2;
            cell.bytes = if cell.items == 0 {
                0
            } else {
                (u128::from(cell.bytes) * u128::from(items) / u128::from(cell.items)) as u64
            };
            cell.items = items;
        }
    }

    /// The number of all items.
    pub fn items(&self) -> u64 {
        self.cells.iter().fold(0, |sum, cell| sum.saturating_add(cell.items))
    }

    /// The items of more than `above` bytes and at most `to`, where both are chunk sizes.
    pub fn items_between(&self, above: u32, to: u32) -> u64 {
        let place = |size: u32| useful_sizes().partition_point(|useful| *useful <= size);
        let cells = self.cells.get(place(above)..place(to)).unwrap_or_default();
        cells.iter().fold(0, |sum, cell| sum.saturating_add(cell.items))
    }

    /// The slack of these items in chunks of `sizes`, ascending. Items that fit into no chunk are
    /// left out.
    pub fn slack(&self, sizes: &[u32]) -> Slack {
        let mut slack = Slack::default();
        let mut classes = sizes.iter().copied().peekable();
        for (cell, largest) in self.cells.iter().zip(useful_sizes()) {
            // All items of a cell fit into a chunk of its size, and none fits into a smaller useful
            // one.
            while classes.next_if(|size| size < largest).is_some() {}
            let Some(size) = classes.peek() else { break };
            slack.item_bytes += cell.bytes as f64;
            slack.chunk_bytes += cell.items as f64 * chunk_share(*size);
        }
        slack
    }

    /// The number of items of each useful size.
    pub(super) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.cells.iter().map(|cell| cell.items)
    }
}
