//! Which options of `cpumon export` have an effect on which kinds.

use cpumon_export::{Kind, QueryPart};

/// Options of `cpumon export` that have an effect on some kinds only.
pub(super) const PARTS: [(&str, QueryPart); 5] = [
    ("by", QueryPart::GroupBy),
    ("value", QueryPart::PivotValue),
    ("process", QueryPart::Process),
    ("interval", QueryPart::Interval),
    ("active", QueryPart::Active),
];

/// The options without an effect on `kind`, whose variables do not count.
pub(super) fn without_effect(kind: Option<Kind>, is_legacy: bool) -> impl Iterator<Item = &'static str> {
    let has_effect = move |part: QueryPart| {
        kind.is_none_or(|kind| part.kinds().contains(&kind)) && (!is_legacy || part.is_in_legacy())
    };
    PARTS.iter().filter(move |(_, part)| !has_effect(*part)).map(|(id, _)| *id)
}
