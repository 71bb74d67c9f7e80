//! [`coded!`](macro@crate::coded): enums whose variants have a stable number and a stable name, each listed once.

/// Makes an enum whose variants have a stable number (wire, store) and a stable name (API, exports, screens). The two
/// named functions return them. An unknown number or name, such as a newer program's, gives the default.
#[macro_export]
macro_rules! coded {
    (
        $(#[$meta:meta])*
        $of:ident: $code:ident $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $number:literal $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $of {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $of {
            /// The stable number.
            pub fn $code(self) -> u8 {
                match self {
                    $(Self::$variant => $number,)+
                }
            }

            /// From its stable number.
            pub fn from_code(code: u8) -> Self {
                match code {
                    $($number => Self::$variant,)+
                    _ => Self::default(),
                }
            }

            /// The stable name.
            pub fn $name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// From its stable name.
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($text => Self::$variant,)+
                    _ => Self::default(),
                }
            }
        }
    };
}
