//! The ground of both protocols: connections and their turns, and the state that all threads
//! share.
//!
//! # Modules
//! - [`session`]: the contract between a worker and a protocol. [`turn`], [`context`], [`output`]:
//!   what a worker lends to the connection that has its turn, and what the turn results in.
//!   [`mailbox`], [`peer`]: messages to workers, and the other end.
//! - [`lookup`]: lookups, which both protocols make together; [`bringing`]: waiting for items that
//!   are beneath memory; [`deadline`]: expiry times to the millisecond.
//! - [`shared`]: the state that all threads see, and its parts: [`settings`], [`listener`],
//!   [`connections`], [`maintenance`], [`changing`], [`monitoring`], [`control`].
//! - [`tracking`]: which connections have copies of which keys, and the reports of changes to them.
//! - [`tls`]: certificates and keys, read and reported. [`access`]: the tokens of operators.
//! - [`log`], [`slow`]: the log, and that of slow requests.
//! - [`instance`]: what observes and changes an instance, one trait for all who do. [`reload`],
//!   [`tenant_changes`], [`pools`], [`files`]: changes of settings while serving.
//! - [`watching`], [`requests`], [`telemetry`]: samples, and what of them is written to files and
//!   sent to a collector.
//! - [`described`], [`curves`], [`tenant_figures`], [`machine`]: figures for several reports.
//!
//! Absences: no socket is read here, and no command is known. Tenants and users are in
//! [`tenancy`].

#![forbid(unsafe_code)]

pub mod access;
pub mod bringing;
pub mod changing;
pub mod connections;
pub mod context;
pub mod control;
pub mod curves;
pub mod deadline;
pub mod described;
pub mod files;
pub mod instance;
pub mod listener;
pub mod log;
pub mod lookup;
pub mod machine;
pub mod mailbox;
pub mod maintenance;
pub mod monitoring;
pub mod output;
pub mod peer;
pub mod pools;
pub mod reload;
pub mod requests;
pub mod session;
pub mod settings;
pub mod shared;
pub mod slow;
pub mod telemetry;
pub mod tenant_changes;
pub mod tenant_figures;
pub mod tls;
pub mod tracking;
pub mod turn;
pub mod watching;
