//! Agents of servers that are not Millpond's: a real memcached and a real Redis.
//!
//! `memcached` and `redis-server` are looked for in `MILLPOND_MEMCACHED` and `MILLPOND_REDIS`, and
//! in `PATH`. Where one is missing, its tests say so, and pass.

mod fake;
mod memcached;
mod redis;
mod support;
