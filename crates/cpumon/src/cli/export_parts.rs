//! Which options of `cpumon export` have an effect on which kinds.

use cpumon_export::QueryPart;

/// Options of `cpumon export` that have an effect on some kinds only.
pub(super) const PARTS: [(&str, QueryPart); 5] = [
    ("by", QueryPart::GroupBy),
    ("value", QueryPart::PivotValue),
    ("process", QueryPart::Process),
    ("interval", QueryPart::Interval),
    ("active", QueryPart::Active),
];
