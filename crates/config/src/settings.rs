//! The declaration of a setting: name, type, default, bounds, help, and whether it changes while
//! serving, each stated once.
//!
//! `settings!` makes from the rows of a section its structure, its defaults, its checks of bounds,
//! and its [`Key`]s, from which the example file and the table of docs/configuration.md are made.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

use base::ByteSize;
use toml::Value;

use super::Auto;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its dotted name; entries of `[[listener]]`, `[[pool]]` and `[[tenant]]` are named as if they
    /// were tables.
    pub path: &'static str,
    /// True if a new value is applied without a restart, by SIGHUP, `CONFIG SET` or the admin API.
    pub online: bool,
    /// The lines of its doc comment.
    pub(crate) doc: &'static [&'static str],
    /// Its bounds as a sentence; empty if it has none.
    pub(crate) bounds: fn() -> String,
    /// Its default.
    pub(crate) default: fn() -> Value,
}

impl Key {
    /// The effect of the setting, with its unit and its bounds.
    pub fn help(&self) -> String {
        let mut words: Vec<&str> = self.doc.iter().flat_map(|line| line.split_whitespace()).collect();
        let bounds = (self.bounds)();
        words.extend(bounds.split_whitespace());
        words.join(" ")
    }

    /// Returns whether the setting may be left to the server by writing `"auto"`.
    pub(crate) fn can_be_auto(&self) -> bool {
        (self.default)().as_str() == Some("auto")
    }
}

/// A setting that may have bounds.
pub(crate) trait Bounded {
    /// The type of the bounds.
    type Number: PartialOrd + Display;

    /// The value that the bounds hold for, if it is not left to the server.
    fn number(&self) -> Option<&Self::Number>;

    /// A value that is outside of the bounds, so that it does not look like one of them.
    fn exact(number: &Self::Number) -> String {
        number.to_string()
    }
}

impl Bounded for ByteSize {
    type Number = Self;

    fn number(&self) -> Option<&Self> {
        Some(self)
    }

    fn exact(number: &Self) -> String {
        (*number).exact()
    }
}

macro_rules! bounded {
    ($($number:ty),+) => {
        $(impl Bounded for $number {
            type Number = Self;

            fn number(&self) -> Option<&Self> {
                Some(self)
            }
        })+
    };
}

bounded!(u32, i64, usize);

impl<T: Bounded> Bounded for Auto<T> {
    type Number = T::Number;

    fn number(&self) -> Option<&T::Number> {
        match self {
            Self::Auto => None,
            Self::Set(value) => value.number(),
        }
    }

    fn exact(number: &T::Number) -> String {
        T::exact(number)
    }
}

/// Returns what is wrong with a value that is outside of its bounds.
pub(crate) fn outside<T: Bounded>(value: &T, bounds: &impl RangeBounds<T::Number>) -> Option<String> {
    let number = T::exact(value.number().filter(|number| !bounds.contains(number))?);
    Some(match (bounds.start_bound(), bounds.end_bound()) {
        (Bound::Included(least), Bound::Included(most)) => {
            format!("{number} is not between {least} and {most}")
        }
        (Bound::Included(least), _) => format!("{number} is too small; give at least {least}"),
        (_, most) => format!("{number} is too much; give at most {}", shown(most)),
    })
}

/// Returns bounds as a sentence.
pub(crate) fn sentence<N: Display>(bounds: &impl RangeBounds<N>) -> String {
    match (bounds.start_bound(), bounds.end_bound()) {
        (Bound::Included(least), Bound::Included(most)) => format!("From {least} to {most}."),
        (Bound::Included(least), _) => format!("At least {least}."),
        (_, most) => format!("At most {}.", shown(most)),
    }
}

fn shown<N: Display>(bound: Bound<&N>) -> String {
    match bound {
        Bound::Included(number) | Bound::Excluded(number) => number.to_string(),
        Bound::Unbounded => String::new(),
    }
}

/// Declares a section and its settings.
///
/// A row is `MODE NAME: TYPE = DEFAULT, in BOUNDS;` after its help as a doc comment. MODE is
/// `online` if SIGHUP applies a new value, else `restart`; bounds, if there are any, are a range. A
/// section `and tls` has the settings of TLS after its own.
macro_rules! settings {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident in $prefix:literal {
            $(
                $(#[doc = $help:literal])+
                $mode:ident $field:ident: $type:ty = $default:expr $(, in $bounds:expr)?;
            )+
        }
        $(and sections {
            $(
                $(#[$of_section:meta])+
                $section:ident: $section_type:ty = $section_default:expr;
            )+
        })?
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)+
            $($($(#[$of_section])+ pub $section: $section_type,)+)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $default,)+
                    $($($section: $section_default,)+)?
                }
            }
        }

        impl $name {
            /// The settings, in the order of the example file.
            pub(crate) const KEYS: &'static [$crate::settings::Key] = &[$(
                $crate::settings::Key {
                    path: concat!($prefix, stringify!($field)),
                    online: settings!(@online $mode),
                    doc: &[$($help),+],
                    bounds: || settings!(@sentence $($bounds)?),
                    default: || {
                        let default: $type = $default;
                        ::toml::Value::try_from(default).expect("a default can be written")
                    },
                },
            )+];

            /// Reports each setting outside of its bounds; `section` is what the settings' names
            /// begin with.
            #[allow(unused_variables, clippy::ptr_arg, clippy::unused_self)]
            pub(crate) fn check_bounds(&self, section: &str, problems: &mut Vec<String>) {
                $($(
                    if let Some(problem) = $crate::settings::outside(&self.$field, &($bounds)) {
                        problems.push(format!("{section}{}: {problem}", stringify!($field)));
                    }
                )?)+
            }

            /// Takes over the settings of `new` that change while serving.
            #[allow(unused_variables, dead_code)]
            pub(crate) fn take_online(&mut self, new: &Self) {
                $(settings!(@take $mode self.$field, new.$field);)+
            }
        }
    };
    // A section that can speak TLS.
    (
        $(#[$attribute:meta])*
        pub struct $name:ident in $prefix:literal and tls { $($row:tt)* }
    ) => {
        settings! {
            $(#[$attribute])*
            pub struct $name in $prefix {
                $($row)*

                /// For TLS: a PEM file with the server's certificate and its chain. SIGHUP reads
                /// it, and the files below, again; open connections are kept, and new ones get the
                /// new certificate (docs/tls.md). Empty: no TLS.
                online tls_certificate: ::std::path::PathBuf = ::std::path::PathBuf::new();

                /// A PEM file with the certificate's private key.
                online tls_key: ::std::path::PathBuf = ::std::path::PathBuf::new();

                /// For mutual TLS: a PEM file with the roots of clients' certificates. Empty:
                /// clients are not asked for one.
                online tls_client_ca: ::std::path::PathBuf = ::std::path::PathBuf::new();

                /// Demands a certificate of clients that are asked for one ("required"), or not
                /// ("optional").
                online tls_client_auth: $crate::ClientAuth = $crate::ClientAuth::Required;

                /// The oldest accepted version of TLS: "1.2" or "1.3".
                online tls_min_version: $crate::TlsVersion = $crate::TlsVersion::V1_2;
            }
        }

        impl $name {
            /// How it speaks TLS, if it does.
            pub fn tls(&self) -> Option<$crate::TlsSettings> {
                (!self.tls_certificate.as_os_str().is_empty()).then(|| $crate::TlsSettings {
                    certificate: self.tls_certificate.clone(),
                    key: self.tls_key.clone(),
                    client_ca: self.tls_client_ca.clone(),
                    client_auth: self.tls_client_auth,
                    min_version: self.tls_min_version,
                })
            }
        }
    };
    (@take online $to:expr, $from:expr) => { $to.clone_from(&$from) };
    (@take restart $to:expr, $from:expr) => {};
    (@online online) => { true };
    (@online restart) => { false };
    (@sentence) => { String::new() };
    (@sentence $bounds:expr) => { $crate::settings::sentence(&($bounds)) };
}
