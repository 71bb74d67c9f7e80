//! Sources of rejected datagrams and connections, as the status shows them.

use cpumon_query::status;

/// The row of all sources that are not listed by themselves; `None` if they sent nothing.
pub(crate) fn other_sources(count: u64) -> Option<status::Rejects> {
    (count > 0).then(|| status::Rejects { source: "others".to_owned(), count, ..status::Rejects::default() })
}
