//! Words that name one of several choices.

/// A word that is not one of the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {text:?}: expected one of {choices}")]
pub struct ChoiceError {
    /// Noun for the choices, as in `unknown chart`.
    pub what: &'static str,
    /// The given word, cut to 64 characters.
    pub text: String,
    /// Valid words, separated by commas.
    pub choices: String,
}

impl ChoiceError {
    /// The error for `text`, which is not one of `choices`.
    pub fn new(what: &'static str, text: &str, choices: &[&str]) -> Self {
        Self { what, text: text.chars().take(64).collect(), choices: choices.join(", ") }
    }
}

/// Makes an enum whose variants have a word each.
#[macro_export]
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $($(#[$attribute:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$attribute])* $variant),+ }

        impl $name {
            /// All variants in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word that users write for the variant.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

/// Makes an enum of words, the same in a URL and on a command line, each with its help text.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$attribute:meta])* $variant:ident = $word:literal: $help:literal),+ $(,)?) => {
        $crate::named! { $(#[$doc])* $name, $(#[doc = $help] $(#[$attribute])* $variant = $word),+ }

        impl std::str::FromStr for $name {
            type Err = $crate::ChoiceError;

            fn from_str(text: &str) -> Result<Self, $crate::ChoiceError> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::ChoiceError::new($what, text, &[$($word),+])),
                }
            }
        }

        impl $crate::clap::ValueEnum for $name {
            fn value_variants<'a>() -> &'a [Self] {
                Self::ALL
            }

            fn to_possible_value(&self) -> Option<$crate::clap::builder::PossibleValue> {
                let help = match self { $(Self::$variant => $help),+ };
                Some($crate::clap::builder::PossibleValue::new(self.name()).help(help))
            }
        }
    };
}
