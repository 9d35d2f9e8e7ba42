//! The tenants whose requests are read, of a trace with a column of tenants such as a server's own
//! request log.

use std::collections::BTreeSet;

use super::TraceError;
use super::error::excerpt;

/// Tenants that are named at most where the one that was asked for is not there.
const MOST_NAMED: usize = 32;

/// The tenants of a trace.
#[derive(Default)]
pub(super) struct Tenants {
    /// The one tenant whose requests are read; all where there is none, told apart by their keys.
    pub(super) only: Option<String>,
    /// True if a request of that tenant was read.
    has_only: bool,
    /// Some of the other tenants, for the message that there is no such tenant.
    others: BTreeSet<Vec<u8>>,
}

impl Tenants {
    /// Returns whether a tenant's request is to be read.
    #[inline]
    pub(super) fn admit(&mut self, tenant: &[u8]) -> bool {
        let Some(only) = &self.only else { return true };
        let is_of = tenant == only.as_bytes();
        self.has_only |= is_of;
        if !is_of && self.others.len() < MOST_NAMED && !self.others.contains(tenant) {
            self.others.insert(tenant.to_vec());
        }
        is_of
    }

    /// Returns the seed by which keys of a tenant are hashed where all are read: each has a key
    /// space of its own.
    #[inline]
    pub(super) fn seed_of(&self, tenant: &[u8]) -> Option<u64> {
        self.only.is_none().then(|| base::hash::key_hash(0, tenant))
    }

    /// Refuses, at the end of the trace, a tenant that it does not have.
    ///
    /// # Errors
    /// Where requests of other tenants were read, and none of the one that was asked for.
    pub(super) fn check(&self, file: &str) -> Result<(), TraceError> {
        let Some(only) = self.only.as_ref().filter(|_| !self.has_only && !self.others.is_empty()) else {
            return Ok(());
        };
        let names: Vec<String> = self.others.iter().map(|name| excerpt(name)).collect();
        let more = if names.len() == MOST_NAMED { " and perhaps others" } else { "" };
        Err(TraceError {
            file: file.into(),
            line: None,
            column: Some("tenant".into()),
            problem: format!("no request is of tenant `{}`", excerpt(only.as_bytes())),
            advice: format!("name one of those that there are: {}{more}", names.join(", ")),
        })
    }
}
