//! Words that name one of several choices.

/// A word that is none of the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {text:?}: expected one of {choices}")]
pub struct ChoiceError {
    /// Of what.
    pub what: &'static str,
    /// What was given, its first 64 characters.
    pub text: String,
    /// What is possible, separated by commas.
    pub choices: String,
}

impl ChoiceError {
    /// `text` is none of `choices`.
    #[must_use]
    pub fn new(what: &'static str, text: &str, choices: &[&str]) -> Self {
        Self { what, text: text.chars().take(64).collect(), choices: choices.join(", ") }
    }
}

/// Makes an enum from words.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every choice, in the order of the help.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word for it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ChoiceError;

            fn from_str(text: &str) -> Result<Self, $crate::ChoiceError> {
                let found = Self::ALL.iter().find(|one| one.name() == text).copied();
                found.ok_or_else(|| $crate::ChoiceError::new($what, text, &[$($word),+]))
            }
        }
    };
}
