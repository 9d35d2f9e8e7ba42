//! Opcodes and the operations they request.

use crate::memcached::request::{Direction, StoreCommand};

/// The number of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

/// The operation that an opcode requests, quiet or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get {
        with_key: bool,
        touch: bool,
    },
    Touch,
    Store(StoreCommand),
    Delete,
    Arithmetic(Direction),
    Flush,
    Noop,
    Version,
    Stat,
    Quit,
    /// Asks which ways to authenticate there are.
    AuthenticationList,
    /// Authenticates, or continues an authentication.
    Authentication,
}

/// Declares the opcodes: name, number, kind, quiet, doc.
macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $quiet:literal, $kind:expr;)+) => {
        impl Opcode {
            $($(#[$doc])* pub const $name: Self = Self($number);)+

            /// All opcodes that mean something, with their names.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, $text)),+];

            /// Returns the operation and whether it is quiet, or `None` for an unknown opcode.
            pub(crate) const fn kind(self) -> Option<(Kind, bool)> {
                match self {
                    $(Self::$name => Some(($kind, $quiet)),)+
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    /// Get.
    GET = 0x00, "get", false, Kind::Get { with_key: false, touch: false };
    /// Set.
    SET = 0x01, "set", false, Kind::Store(StoreCommand::Set);
    /// Add.
    ADD = 0x02, "add", false, Kind::Store(StoreCommand::Add);
    /// Replace.
    REPLACE = 0x03, "replace", false, Kind::Store(StoreCommand::Replace);
    /// Delete.
    DELETE = 0x04, "delete", false, Kind::Delete;
    /// Increment.
    INCREMENT = 0x05, "increment", false, Kind::Arithmetic(Direction::Increment);
    /// Decrement.
    DECREMENT = 0x06, "decrement", false, Kind::Arithmetic(Direction::Decrement);
    /// Quit.
    QUIT = 0x07, "quit", false, Kind::Quit;
    /// Flush.
    FLUSH = 0x08, "flush", false, Kind::Flush;
    /// Get, quietly.
    GET_Q = 0x09, "getq", true, Kind::Get { with_key: false, touch: false };
    /// No operation.
    NOOP = 0x0a, "noop", false, Kind::Noop;
    /// Version.
    VERSION = 0x0b, "version", false, Kind::Version;
    /// Get with key.
    GET_K = 0x0c, "getk", false, Kind::Get { with_key: true, touch: false };
    /// Get with key, quietly.
    GET_KQ = 0x0d, "getkq", true, Kind::Get { with_key: true, touch: false };
    /// Append.
    APPEND = 0x0e, "append", false, Kind::Store(StoreCommand::Append);
    /// Prepend.
    PREPEND = 0x0f, "prepend", false, Kind::Store(StoreCommand::Prepend);
    /// Statistics.
    STAT = 0x10, "stat", false, Kind::Stat;
    /// Set, quietly.
    SET_Q = 0x11, "setq", true, Kind::Store(StoreCommand::Set);
    /// Add, quietly.
    ADD_Q = 0x12, "addq", true, Kind::Store(StoreCommand::Add);
    /// Replace, quietly.
    REPLACE_Q = 0x13, "replaceq", true, Kind::Store(StoreCommand::Replace);
    /// Delete, quietly.
    DELETE_Q = 0x14, "deleteq", true, Kind::Delete;
    /// Increment, quietly.
    INCREMENT_Q = 0x15, "incrementq", true, Kind::Arithmetic(Direction::Increment);
    /// Decrement, quietly.
    DECREMENT_Q = 0x16, "decrementq", true, Kind::Arithmetic(Direction::Decrement);
    /// Quit, quietly.
    QUIT_Q = 0x17, "quitq", true, Kind::Quit;
    /// Flush, quietly.
    FLUSH_Q = 0x18, "flushq", true, Kind::Flush;
    /// Append, quietly.
    APPEND_Q = 0x19, "appendq", true, Kind::Store(StoreCommand::Append);
    /// Prepend, quietly.
    PREPEND_Q = 0x1a, "prependq", true, Kind::Store(StoreCommand::Prepend);
    /// Touch.
    TOUCH = 0x1c, "touch", false, Kind::Touch;
    /// Get and touch.
    GAT = 0x1d, "gat", false, Kind::Get { with_key: false, touch: true };
    /// Get and touch, quietly.
    GAT_Q = 0x1e, "gatq", true, Kind::Get { with_key: false, touch: true };
    /// List the ways to authenticate.
    SASL_LIST = 0x20, "sasl_list", false, Kind::AuthenticationList;
    /// Authenticate.
    SASL_AUTH = 0x21, "sasl_auth", false, Kind::Authentication;
    /// Go on authenticating.
    SASL_STEP = 0x22, "sasl_step", false, Kind::Authentication;
    /// Get and touch, with key.
    GAT_K = 0x23, "gatk", false, Kind::Get { with_key: true, touch: true };
    /// Get and touch, with key, quietly.
    GAT_KQ = 0x24, "gatkq", true, Kind::Get { with_key: true, touch: true };
}
