//! A target that does nothing: its figures are what the bench itself costs.

use super::{Direct, DirectSession};

/// Every read misses, everything else succeeds.
#[derive(Debug, Default)]
pub struct Null;

impl Direct for Null {
    type Session<'a> = Self;

    fn session(&self) -> Self {
        Self
    }

    fn describe(&self) -> String {
        "null (the bench's own cost)".into()
    }
}

impl DirectSession for Null {
    #[inline]
    fn get(&mut self, _pool: u16, key: &[u8], _seen: impl FnOnce(&[u8])) -> bool {
        std::hint::black_box(key);
        false
    }

    #[inline]
    fn set(&mut self, _pool: u16, key: &[u8], value: &[u8], _ttl_secs: u32) -> bool {
        std::hint::black_box((key, value));
        true
    }

    #[inline]
    fn delete(&mut self, _pool: u16, key: &[u8]) -> bool {
        std::hint::black_box(key);
        true
    }

    #[inline]
    fn touch(&mut self, _pool: u16, key: &[u8], _ttl_secs: u32) -> bool {
        std::hint::black_box(key);
        true
    }
}
