//! Batch mode's JSON: one object for each interval, on one line, with the field names of exports and SQL. No data is `null`. Rows
//! are written one by one, so memory stays small.

use std::io::{self, Write};

use cpumon_model::{ColumnId, IntervalView, Value};
use serde_json::{Map, Value as Json};

use crate::batch::listing::Listing;
use crate::columns::Cells;
use crate::csv::column_name;
use crate::rows::Item;
use crate::theme::Theme;
use crate::view::View;

/// Fields of the interval.
const HOST: [ColumnId; 27] = [
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
];

/// Fields of rows; a row leaves out those that do not apply to it.
const ROW: [ColumnId; 35] = [
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

fn applies(item: &Item<'_>, id: ColumnId) -> bool {
    let of_threads = matches!(
        id,
        ColumnId::Tid
            | ColumnId::ProcessName
            | ColumnId::State
            | ColumnId::LastCpu
            | ColumnId::Nice
            | ColumnId::OpenWait
    );
    let of_processes = matches!(id, ColumnId::ParentPid | ColumnId::Cmdline | ColumnId::ThreadRows);
    match item {
        Item::Thread(_) => !of_processes,
        Item::Process(_) | Item::Group(_) => !of_threads,
    }
}

fn json(value: Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Int(number) => number.into(),
        // JSON has no NaN and no infinity.
        Value::Real(number) => serde_json::Number::from_f64(number).map_or(Json::Null, Json::Number),
        Value::Text(text) => text.into_owned().into(),
    }
}

pub(super) fn write_json(listing: &Listing<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Listing { interval, status, rows, left_out, .. } = *listing;
    let hostname = status.map_or("", |status| &status.info.hostname);
    let values = IntervalView::new(hostname, interval);
    let mut head = Map::new();
    head.insert("host".into(), hostname.into());
    head.insert("host_id".into(), interval.host.to_string().into());
    let trust = interval.trust.or(status.map(|status| status.trust));
    head.insert("trust".into(), trust.map_or(Json::Null, |trust| trust.name().into()));
    head.insert("intervals_not_printed".into(), left_out.into());
    for id in HOST {
        head.insert(column_name(id).into(), json(values.host(id)));
    }
    let text = serde_json::to_string(&head)?;
    // Without its closing brace, so that the rows follow one by one.
    out.write_all(text.trim_end_matches('}').as_bytes())?;
    out.write_all(b",\"rows\":[")?;
    let view = View::default();
    let cells = Cells::new(interval, &view, Theme { color: false, ascii: true }, None);
    let items = rows.rows.iter().filter_map(|row| rows.item(interval, row));
    for (nth, item) in items.enumerate() {
        if nth > 0 {
            out.write_all(b",")?;
        }
        let fields = ROW.into_iter().filter(|id| applies(&item, *id));
        let row: Map<String, Json> =
            fields.map(|id| (column_name(id).into(), json(cells.value(&item, id)))).collect();
        serde_json::to_writer(&mut *out, &row)?;
    }
    out.write_all(b"]}\n")
}
