//! The list of classes that may be idle.

use parking_lot::Mutex;

/// Classes that have no run, or had none when this was noted.
#[derive(Default)]
pub(crate) struct Idle(pub(super) Mutex<Vec<IdleClass>>);

/// One of them, and the second in which it was noted.
#[derive(Clone, Copy)]
pub(super) struct IdleClass {
    pub(super) pool: u16,
    pub(super) class: u8,
    pub(super) since: u32,
}
