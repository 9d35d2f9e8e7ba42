//! Passwords: how they are kept and compared.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The stored form of a password: its SHA-256, as Redis stores it.
#[derive(Clone)]
pub struct Password([u8; 32]);

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Password {
    /// The stored form of a password, which itself is not kept.
    pub fn of_plain(plain: &[u8]) -> Self {
        Self(Sha256::digest(plain).into())
    }

    /// Parses 64 hexadecimal digits in lower case; `None` for any other text.
    pub fn of_hex(hex: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if hex.len() != 64 || hex.bytes().any(|digit| !matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Parses the form of the configuration: `sha256:HEX`.
    ///
    /// # Errors
    /// The expected form; never the given text.
    pub fn of_setting(text: &str) -> Result<Self, String> {
        text.strip_prefix("sha256:").and_then(Self::of_hex).ok_or_else(|| {
            "it is not `sha256:` and 64 hexadecimal digits in lower case; make it with `millpond hash-password`".to_owned()
        })
    }

    /// Returns whether this is the password. Takes as long for a wrong one.
    pub fn is(&self, plain: &[u8]) -> bool {
        *self == Self::of_plain(plain)
    }

    /// The digest.
    pub fn shown(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The hash of a password as `password_hash` takes it.
pub fn hash_password(plain: &[u8]) -> String {
    format!("sha256:{}", Password::of_plain(plain).shown())
}

/// Returns bytes that cannot be guessed.
///
/// # Errors
/// If the system has none.
pub fn random<const N: usize>() -> Result<[u8; N], rustix::io::Errno> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_its_digest() {
        let password = Password::of_setting(&hash_password(b"open sesame")).expect("a digest");
        assert!(password.is(b"open sesame") && !password.is(b"open sesam"));
        assert_eq!(password.shown(), "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb");
        assert_ne!(random::<16>(), random::<16>());
    }

    #[test]
    fn what_is_no_hash_is_refused_without_showing_it() {
        for text in ["hunter2", "sha256:12", "sha256:hunter2", ""] {
            let error = Password::of_setting(text).map(drop).expect_err("no hash");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
