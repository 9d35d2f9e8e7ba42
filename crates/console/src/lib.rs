//! The commands with which an operator starts, asks, changes and watches a server.
//!
//! # Modules
//! - [`flags`]: the flags of `serve` and `config`, and how they become a configuration.
//! - [`admin`]: `health` and `config get`, `set`, `diff`, by the admin API of a running server.
//! - [`tenant`], [`top`]: its tenants, and its activity.
//! - [`fleet`]: an orchestrator's instances and decisions.
//! - [`inspect`]: the contents of a cache's shared memory.
//! - [`text`]: what a terminal shows.
//!
//! This crate serves nothing and depends on no client protocol, so that a change of a Redis command
//! does not recompile these commands.

#![forbid(unsafe_code)]

pub mod admin;
mod admin_tls;
pub mod flags;
pub mod fleet;
pub mod inspect;
pub mod tenant;
pub mod text;
pub mod top;
