//! Times in the names of traces.

use cpumon_model::Utc;

/// A time as part of a file name, in UTC: it sorts, and no file system refuses it.
pub(crate) fn stamp(wall_ns: i64) -> String {
    let text = Utc(wall_ns).to_string();
    let (seconds, nanos) = text.split_once('.').unwrap_or((&text, ""));
    let millis = nanos.get(..3).unwrap_or_default();
    format!("{}.{millis}Z", seconds.replace([':', '-'], ""))
}
