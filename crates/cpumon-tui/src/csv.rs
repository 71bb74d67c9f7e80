//! The rows on screen as CSV (RFC 4180), in their order and with exact values.

use std::fmt::Write;

use cpumon_model::{COLUMNS, ColumnId, Interval, Value};

use crate::columns::Cells;
use crate::rows::{Item, RowList};
use crate::text::{safe, utc_seconds};
use crate::theme::Theme;
use crate::view::View;

/// The columns of the file.
const EXPORTED: [ColumnId; 33] = [
    ColumnId::EndUtc,
    ColumnId::DurationNs,
    ColumnId::Pid,
    ColumnId::Tid,
    ColumnId::Name,
    ColumnId::ProcessName,
    ColumnId::StartNs,
    ColumnId::UserNs,
    ColumnId::SystemNs,
    ColumnId::RunNs,
    ColumnId::RunDelayNs,
    ColumnId::VoluntarySwitches,
    ColumnId::InvoluntarySwitches,
    ColumnId::CpuPct,
    ColumnId::Uid,
    ColumnId::Container,
    ColumnId::ThreadRows,
    ColumnId::State,
    ColumnId::Life,
    ColumnId::Flags,
    ColumnId::BlockedNs,
    ColumnId::DelayAfterWakeupNs,
    ColumnId::LongestRunDelayNs,
    ColumnId::Wakeups,
    ColumnId::Migrations,
    ColumnId::WaitReason,
    ColumnId::WaitNs,
    ColumnId::OpenWait,
    ColumnId::CpuLimit,
    ColumnId::Periods,
    ColumnId::ThrottledPeriods,
    ColumnId::ThrottledNs,
    ColumnId::PressureSomeNs,
];

/// The name of a column in the shared table.
pub(crate) fn column_name(id: ColumnId) -> &'static str {
    COLUMNS.iter().find(|column| column.id == id).map_or("", |column| column.name)
}

/// File name (without `.csv`) and text.
pub(crate) fn export(interval: &Interval, rows: &RowList, hostname: &str) -> (String, String) {
    let view = View::default();
    let cells = Cells::new(interval, &view, Theme { color: false, ascii: false }, None);
    let mut csv = String::from("host");
    for id in EXPORTED {
        csv.push(',');
        csv.push_str(column_name(id));
    }
    csv.push_str("\r\n");
    let host = field(&Value::Text(hostname.into()));
    for item in rows.rows.iter().filter_map(|row| rows.item(interval, row)) {
        csv.push_str(&host);
        for id in EXPORTED {
            csv.push(',');
            csv.push_str(&field(&cell(&cells, &item, id)));
        }
        csv.push_str("\r\n");
    }
    (file_stem(hostname, interval.end.wall_ns), csv)
}

fn cell<'a>(cells: &'a Cells<'_>, item: &Item<'a>, id: ColumnId) -> Value<'a> {
    match (item, id) {
        (Item::Group(group), ColumnId::Name) => Value::Text((&*group.name).into()),
        // A process has its name in both columns, so that a filter on either one finds it.
        (Item::Process(process), ColumnId::ProcessName) => Value::Text((&*process.info.name).into()),
        _ => cells.value(item, id),
    }
}

/// A field: control characters spelled out, a text between quotes, with a leading apostrophe if a spreadsheet would run it as a
/// formula.
fn field(value: &Value<'_>) -> String {
    match value {
        Value::Null => String::new(),
        Value::Int(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => {
            let mut text = safe(text);
            if text.starts_with(['=', '+', '-', '@', '|', '%', '＝', '＋', '－', '＠']) {
                text.insert(0, '\'');
            }
            format!("\"{}\"", text.replace('"', "\"\""))
        }
    }
}

/// A file name for any file system: every character except letters, digits, `-` and `_` becomes `_`.
fn file_stem(hostname: &str, wall_ns: i64) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    let host: String = hostname.chars().take(40).map(clean).collect();
    let time: String = utc_seconds(wall_ns).chars().filter(char::is_ascii_alphanumeric).collect();
    let mut stem = String::from("cpumon");
    if !host.is_empty() {
        let _ = write!(stem, "-{host}");
    }
    let _ = write!(stem, "-{time}");
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_defused_and_quotes_are_doubled() {
        let field = |text: &str| field(&Value::Text(text.to_string().into()));
        assert_eq!(field("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
        assert_eq!(field("say \"hi\", you"), "\"say \"\"hi\"\", you\"");
        assert_eq!(field("\t=1"), "\"\\t=1\"");
        assert_eq!(field("-1\n"), "\"'-1\\n\"");
        assert_eq!(field("plain"), "\"plain\"");
    }

    #[test]
    fn a_file_name_cannot_leave_the_directory() {
        assert_eq!(file_stem("../../etc/passwd", 0), "cpumon-______etc_passwd-19700101000000Z");
        assert_eq!(file_stem("", 0), "cpumon-19700101000000Z");
    }
}
