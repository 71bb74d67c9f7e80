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
