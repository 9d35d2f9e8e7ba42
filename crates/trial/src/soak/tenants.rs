//! The tenants of a soak, what each holds as the history knows it, and what keys are called.
//!
//! All tenants have keys of the same texts. A value names its tenant beside its key, so that one
//! that crosses over shows.

use crate::check::Violation;
use crate::check::history::{Found, History};
use crate::check::value::{Stamp, read};

/// A tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tenant {
    Shop,
    Blog,
    /// Comes and goes.
    Guest,
}

impl Tenant {
    pub(super) const ALL: [Self; 3] = [Self::Shop, Self::Blog, Self::Guest];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Shop => "shop",
            Self::Blog => "blog",
            Self::Guest => "guest",
        }
    }

    /// The database by which `SELECT` finds it.
    pub(super) const fn database(self) -> u16 {
        self as u16 + 1
    }
}

/// Seconds by which a value may be returned after its end: clocks tick once a second, and the
/// server reads its own.
const SLACK_SECS: u64 = 2;
/// Position of the tenant in a stamp's key number, in bits.
const TENANT_SHIFT: u32 = 40;
/// Each eight keys in a row are of these kinds: strings, a hash, a list, a set and a sorted set.
const KINDS: &[u8; 8] = b"sssshlez";

/// A tenant's keys.
pub(super) struct Book {
    tenant: Tenant,
    pub(super) history: History,
}

impl Book {
    pub(super) fn new(tenant: Tenant, keys: u64) -> Self {
        Self { tenant, history: History::new(keys, SLACK_SECS) }
    }

    /// The stamp that a value of `key` carries.
    pub(super) fn stamp(&self, key: u64, version: u64) -> Stamp {
        Stamp { key: (self.tenant as u64) << TENANT_SHIFT | key, version }
    }

    /// Classifies the value that a get of `key` returned.
    pub(super) fn what_is(&self, value: &[u8], key: u64) -> Found {
        match read(value) {
            None => Found::Damaged(value.len()),
            Some(stamp) if stamp.key != self.stamp(key, 0).key => Found::OtherKey(stamp),
            Some(stamp) => Found::Version(stamp.version),
        }
    }

    /// The violation with its key's name, and in words whose value it is where that is another's.
    pub(super) fn name(&self, mut violation: Violation, found: Option<Found>) -> Violation {
        violation.key_text = format!("{} of {}", key_text(violation.key), self.tenant.name());
        if let Some(Found::OtherKey(stamp)) = found {
            let (tenant, key) = (stamp.key >> TENANT_SHIFT, stamp.key & ((1 << TENANT_SHIFT) - 1));
            let owner = Tenant::ALL.get(tenant as usize).map_or("nobody", |tenant| tenant.name());
            violation.what = format!("a get returned v{} of {} of {owner}", stamp.version, key_text(key));
        }
        violation
    }
}

/// The type of the values of a role's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    Strings,
    /// Hashes, lists, sets and sorted sets.
    Collections,
}

impl Holding {
    /// A key of this kind near `key`.
    pub(super) const fn near(self, key: u64) -> u64 {
        match self {
            Self::Strings => key - key % 8 + key % 4,
            Self::Collections => key - key % 8 + 4 + key % 4,
        }
    }
}

/// Writes a key's text, which begins with a letter for its kind; 8 to 57 bytes.
pub(super) fn write_key(key: u64, out: &mut Vec<u8>) {
    let size = 8 + (key.wrapping_mul(31) % 50) as usize;
    out.clear();
    out.push(KINDS[(key % 8) as usize]);
    out.extend_from_slice(key.to_string().as_bytes());
    out.resize(out.len().max(size), b'.');
}

fn key_text(key: u64) -> String {
    let mut text = Vec::new();
    write_key(key, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
