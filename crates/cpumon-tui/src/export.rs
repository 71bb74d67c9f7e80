//! Rows for programs, in their order and with exact values: the rows on screen as CSV (RFC 4180), batch mode's intervals as JSON with the
//! field names of exports and SQL.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use cpumon_model::{COLUMNS, Column, ColumnId, HostStatus, Interval, IntervalView, Tables, Value};

use crate::cells::Cells;
use crate::rows::{Item, RowList};
use crate::text::{safe, utc_seconds};
use crate::theme::Theme;
use crate::view::View;

/// Exported columns of the interval.
const HOST: [ColumnId; 41] = [
    ColumnId::BeginUtc,
    ColumnId::EndUtc,
    ColumnId::BeginNs,
    ColumnId::EndNs,
    ColumnId::DurationNs,
    ColumnId::Sequence,
    ColumnId::Source,
    ColumnId::Flags,
    ColumnId::ProcessCount,
    ColumnId::ThreadCount,
    ColumnId::CapacityNs,
    ColumnId::LedgerThreadsNs,
    ColumnId::LedgerExitedNs,
    ColumnId::LedgerIrqNs,
    ColumnId::LedgerSoftirqNs,
    ColumnId::LedgerStealNs,
    ColumnId::LedgerIdleNs,
    ColumnId::UnattributedNs,
    ColumnId::IrqInRunTime,
    ColumnId::PassNs,
    ColumnId::UnknownNs,
    ColumnId::RunQueueMean,
    ColumnId::RunQueueMax,
    ColumnId::Switches,
    ColumnId::Probes,
    ColumnId::PressureSomeNs,
    ColumnId::CgroupsLeftOut,
    ColumnId::PermissionDenied,
    ColumnId::Malformed,
    ColumnId::ExitsLost,
    ColumnId::IntervalsLate,
    ColumnId::IntervalsSkipped,
    ColumnId::SchedUntracked,
    ColumnId::SchedMissedSwitches,
    ColumnId::WakeupsUnknown,
    ColumnId::HistogramDrops,
    ColumnId::RingDrops,
    ColumnId::ExecsLost,
    ColumnId::EndingsLost,
    ColumnId::CutsLost,
    ColumnId::HiddenLeftOut,
];

/// Fields of rows beside the measured values of tasks.
const ROW: [ColumnId; 22] = [
    ColumnId::Pid,
    ColumnId::Tid,
    ColumnId::Name,
    ColumnId::ProcessName,
    ColumnId::StartNs,
    ColumnId::CpuPct,
    ColumnId::ParentPid,
    ColumnId::Uid,
    ColumnId::Container,
    ColumnId::Cmdline,
    ColumnId::ThreadRows,
    ColumnId::State,
    ColumnId::LastCpu,
    ColumnId::Nice,
    ColumnId::Life,
    ColumnId::Flags,
    ColumnId::OpenWait,
    ColumnId::CpuLimit,
    ColumnId::Periods,
    ColumnId::ThrottledPeriods,
    ColumnId::ThrottledNs,
    ColumnId::PressureSomeNs,
];

/// The columns of rows, in the order of the shared table.
fn row_columns() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| ROW.contains(&column.id) || column.is_measured_of_tasks())
}

/// The columns of a row's JSON: those of its table, and of its control groups.
fn is_field_of(column: &Column, item: &Item<'_>) -> bool {
    let own = if let Item::Thread(_) = item { Tables::THREAD_INTERVAL } else { Tables::PROCESS_INTERVAL };
    column.tables.intersects(own | Tables::CGROUP_INTERVAL)
}

/// Batch mode's JSON: one object for each interval, on one line. No data is `null`. Rows are written one by one, so memory stays small.
/// `left_out`: intervals since the last printed one that were not printed.
pub(crate) fn write_json(
    interval: &Interval,
    status: Option<&HostStatus>,
    rows: &RowList,
    left_out: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let hostname = status.map_or("", |status| &status.info.hostname);
    let values = IntervalView::new(hostname, interval);
    let trust = interval.trust.or(status.map(|status| status.trust));
    let mut head: BTreeMap<&str, Value<'_>> =
        HOST.into_iter().map(|id| (id.column().name, values.host(id))).collect();
    head.insert("host", Value::Text(hostname.into()));
    head.insert("host_id", Value::Text(interval.host.to_string().into()));
    head.insert("trust", trust.map_or(Value::Null, |trust| Value::Text(trust.name().into())));
    head.insert("intervals_not_printed", Value::count(left_out));
    let text = serde_json::to_string(&head)?;
    // Without its closing brace, so that the rows follow one by one.
    out.write_all(text.trim_end_matches('}').as_bytes())?;
    out.write_all(b",\"rows\":[")?;
    let view = View::default();
    let cells = Cells::new(interval, &view, Theme { color: false, ascii: true }, None);
    let columns: Vec<&Column> = row_columns().collect();
    let items = rows.rows.iter().filter_map(|row| rows.item(interval, row));
    for (nth, item) in items.enumerate() {
        if nth > 0 {
            out.write_all(b",")?;
        }
        let fields = columns.iter().filter(|column| is_field_of(column, &item));
        let row: BTreeMap<&str, Value<'_>> =
            fields.map(|column| (column.name, cells.value(&item, column.id))).collect();
        serde_json::to_writer(&mut *out, &row)?;
    }
    out.write_all(b"]}\n")
}

/// The columns of the CSV file: when, and the fields of rows but for these.
fn exported() -> Vec<&'static Column> {
    let left_out = [ColumnId::ParentPid, ColumnId::Cmdline, ColumnId::LastCpu, ColumnId::Nice];
    let when = [ColumnId::EndUtc, ColumnId::DurationNs].map(ColumnId::column);
    when.into_iter().chain(row_columns().filter(|column| !left_out.contains(&column.id))).collect()
}

/// The rows as CSV: file name (without `.csv`) and text.
pub(crate) fn csv(interval: &Interval, rows: &RowList, hostname: &str) -> (String, String) {
    let view = View::default();
    let cells = Cells::new(interval, &view, Theme { color: false, ascii: false }, None);
    let (mut csv, columns) = (String::from("host"), exported());
    for column in &columns {
        csv.push(',');
        csv.push_str(column.name);
    }
    csv.push_str("\r\n");
    let host = field(&Value::Text(hostname.into()));
    for item in rows.rows.iter().filter_map(|row| rows.item(interval, row)) {
        csv.push_str(&host);
        for column in &columns {
            csv.push(',');
            csv.push_str(&field(&cell(&cells, &item, column.id)));
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
