//! Trials of correctness and endurance: consistency check, soak and attack suite.
//!
//! A cache that is fast and returns a stale value is broken, and a server that serves well until a
//! client misbehaves cannot be shared. This crate tests both: it checks every answer against the
//! history of its key, serves a load for hours while the server changes, and attacks a server while
//! another tenant is measured.
//!
//! It does not measure speed: the attack suite measures its victim with the load generator of
//! `millpond-bench`, and `millpond-workload` draws the requests.
//!
//! | module | what it is |
//! |---|---|
//! | [`mod@check`] | consistency: threads whose answers are compared with histories |
//! | [`mod@soak`] | a mixed load for hours while tenants, limits and processes change |
//! | [`attacks`] | attacks on a server, and their effect on another tenant |
//! | [`lookaside`] | tenants that read through a cache from backends of limited rate |
//! | [`demo`] | three tenants of one server, and the memory that moves between them |
//! | [`served`] | a server as a child process, for trials and tests |
//! | [`orchestrated`] | an orchestrator as a child process, for the same |
//! | [`command`] | `millpond bench check`, `soak` and `attack`; `millpond demo` |

#![forbid(unsafe_code)]

pub mod attacks;
pub mod check;
pub mod command;
pub mod demo;
pub mod lookaside;
pub mod orchestrated;
pub mod served;
pub mod soak;
