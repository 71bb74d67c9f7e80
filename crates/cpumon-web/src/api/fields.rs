//! What several conversions between model and JSON share.

use cpumon_model::SourceKind;

/// Whether a value may be left out of the JSON.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Unknown names (a newer receiver) are [`SourceKind::Unknown`].
pub(super) fn source_from_name(name: &str) -> SourceKind {
    (0..=u8::MAX).map(SourceKind::from_code).find(|kind| kind.name() == name).unwrap_or_default()
}

/// Both types have these fields under the same names.
macro_rules! same_fields {
    ($from:ty => $to:ident { $($field:ident),+ $(,)? }) => {
        impl From<&$from> for $to {
            fn from(from: &$from) -> Self {
                Self { $($field: from.$field),+ }
            }
        }
    };
}
pub(super) use same_fields;
