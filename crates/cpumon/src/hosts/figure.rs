//! The figure that a list of hosts is sorted by, where the table has no column of it.

use cpumon_model::escape;
use cpumon_query::fleet::HostOrder;
use cpumon_query::text::decimal;
use serde_json::Value;

/// Its column: the title, and the cell of a row of the receiver's list.
pub(super) type Figure = (&'static str, fn(&Value) -> String);

/// `None`: the table has it.
pub(super) fn of_order(order: HostOrder) -> Option<Figure> {
    Some(match order {
        // BUSY is of the last interval.
        HostOrder::Busy => ("1 MIN", |row| percent(row, "minute_busy_ratio", 1)),
        HostOrder::Peak => ("PEAK", |row| percent(row, "minute_peak_ratio", 1)),
        HostOrder::Ready => ("READY", |row| decimal(number(row, "minute_ready"), 2)),
        HostOrder::RunQueue => ("RQ/CPU", |row| decimal(number(row, "minute_run_queue_per_cpu"), 2)),
        HostOrder::Health => ("HEALTH", |row| match text(row, "health") {
            health if health.is_empty() => "ok".to_owned(),
            health => health,
        }),
        HostOrder::Ledger => ("UNATTR", |row| percent(row, "unattributed_ratio", 2)),
        HostOrder::Agent => ("AGENT", |row| match text(row, "agent") {
            agent if agent.is_empty() => "-".to_owned(),
            agent => agent,
        }),
        HostOrder::Name
        | HostOrder::Top
        | HostOrder::Threads
        | HostOrder::Loss
        | HostOrder::ClockOffset
        | HostOrder::LastSeen => return None,
    })
}

fn text(row: &Value, name: &str) -> String {
    escape(row.get(name).and_then(Value::as_str).unwrap_or_default()).to_string()
}

fn number(row: &Value, name: &str) -> Option<f64> {
    row.get(name).and_then(Value::as_f64)
}

fn percent(row: &Value, name: &str, digits: usize) -> String {
    number(row, name).map_or_else(|| "-".to_owned(), |ratio| format!("{:.digits$} %", ratio * 100.0))
}
