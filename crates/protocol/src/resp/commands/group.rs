//! The form of a group's rows.

/// Declares the commands of a group: the enum that a server dispatches by, and the rows.
///
/// A row is `Variant(name, since, arity, flags, keys)`, followed by what else it has: `.summary(…)`
/// and the other methods of [`Spec`](super::Spec) that return one.
macro_rules! group {
    (
        $(#[$doc:meta])*
        $group:ident = $of:expr;
        $($command:ident($name:literal, $($column:expr),+) $(.$more:ident($($value:expr),*))*,)+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $group {
            $(#[doc = concat!("`", $name, "`.")] $command,)+
        }

        const OF: Group = $of;

        /// The rows, in no order.
        pub(in super::super) const ROWS: &[Spec] = &[
            $(Spec::new(OF, Command::$group($group::$command), $name, $($column),+)
                $(.$more($($value),*))*,)+
        ];
    };
}

pub(super) use group;
