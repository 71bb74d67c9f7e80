//! Which columns frontends show, and which of them add up over time.

use cpumon_model::{Column, ColumnId, Kind, Tables, columns, delay_percent};

/// Columns that are the same in all rows of an interval, that have another form in tables, or that repeat what another says.
fn is_shown_elsewhere(column: &Column) -> bool {
    matches!(
        column.id,
        ColumnId::Host
            | ColumnId::BootId
            | ColumnId::BeginUtc
            | ColumnId::EndUtc
            | ColumnId::BeginNs
            | ColumnId::EndNs
            | ColumnId::DeviceEndNs
            | ColumnId::DurationNs
            | ColumnId::Source
            | ColumnId::StartNs
            | ColumnId::V1Ticks
            | ColumnId::IntervalTrust
            | ColumnId::RunDelayHistogram
    )
}

/// What the table of processes has of a thread's process.
fn is_of_process(column: &Column) -> bool {
    matches!(
        column.id,
        ColumnId::ProcessName
            | ColumnId::Pid
            | ColumnId::Uid
            | ColumnId::User
            | ColumnId::Cgroup
            | ColumnId::Container
    )
}

/// The columns of a table that frontends show.
pub fn shown_columns(table: Tables) -> impl Iterator<Item = &'static Column> {
    columns(table).filter(move |column| {
        !is_shown_elsewhere(column) && (table != Tables::THREAD_INTERVAL || !is_of_process(column))
    })
}

/// The columns of processes that frontends show.
pub fn process_columns() -> impl Iterator<Item = &'static Column> {
    shown_columns(Tables::PROCESS_INTERVAL)
}

/// Whether values of a column add up over time: ns, and counts of what happened.
pub fn summable(column: &Column) -> bool {
    // The agent's own time counts from its start; the longest wait has another reason in each interval.
    let is_other = matches!(column.id, ColumnId::OwnCpuNs | ColumnId::WaitNs);
    let is_count = column.id == ColumnId::Switches || column.unit.is_empty() && column.is_measured_of_tasks();
    column.kind == Kind::Integer && (is_count || column.unit == "ns" && !is_other && !is_extreme(column))
}

/// Whether a column is the highest of something: over time the highest stays, a sum means nothing. Percentiles of the run delay
/// are no sums either.
pub(crate) fn is_extreme(column: &Column) -> bool {
    matches!(column.id, ColumnId::LongestRunDelayNs | ColumnId::RunQueueMax)
        || delay_percent(column.id).is_some()
}
