//! Closed sets that travel as small numbers.

/// An enum with explicit numbers, the list of all its members, a name for each, and the way back from the
/// number.
macro_rules! numbered {
    (
        $(#[$doc:meta])*
        pub enum $name:ident: $repr:ty {
            $($(#[$member_doc:meta])* $member:ident = $number:literal, $text:literal;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($repr)]
        pub enum $name {
            $($(#[$member_doc])* $member = $number,)*
        }

        impl $name {
            /// Every member, by number.
            pub const ALL: &'static [Self] = &[$(Self::$member,)*];

            /// The name that output, options and metrics use.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$member => $text,)*
                }
            }

            /// The member with this number.
            pub const fn from_number(number: $repr) -> Option<Self> {
                match number {
                    $($number => Some(Self::$member),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use numbered;
