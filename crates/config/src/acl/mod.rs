//! Access control as data: passwords, and the rules that say which commands, keys and channels a
//! user may use.
//!
//! Absences: no connection, no tenant, no configuration, and nothing of a command but its row.

mod password;
mod rules;
mod selector;

pub use self::password::{Password, hash_password, random};
pub use self::rules::{Rules, hidden, joined};
pub use self::selector::Denied;

/// The user that a connection begins as.
pub const DEFAULT_USER: &str = "default";
