//! Columns of hosts and of their busiest processes. The page's tables and the files are made from the same list.

use cpumon_model::{HostStatus, Ledger, Utc};
use cpumon_query::TaskKey;
use cpumon_query::fields::Field;
use cpumon_query::fleet::{BALANCED_RATIO, FleetHost, Glance, HostState, Minute, SpanHost, TopProcess};
use cpumon_query::time::to_ms;

type HostField = Field<'static, FleetHost>;

/// Counts of this receiver's run say nothing of a host that did not report in it.
fn reported(host: &FleetHost) -> Option<&HostStatus> {
    (host.state != HostState::Stored).then_some(&host.status)
}

fn ledger(host: &FleetHost) -> Option<&Ledger> {
    host.glance.as_ref().map(|glance| &glance.ledger).filter(|ledger| ledger.capacity_ns != 0)
}

/// Columns of hosts.
pub(super) fn host_fields() -> Vec<HostField> {
    let text = |name, get: fn(&HostStatus) -> &str| {
        Field::text(name, move |host: &FleetHost| Some(get(&host.status).into()))
    };
    let some = |number: u64| Some(number).filter(|number| *number != 0);
    let count = |name, get: fn(&HostStatus) -> Option<u64>| {
        Field::count(name, move |host: &FleetHost| get(reported(host)?))
    };
    let int = |name, get: fn(&HostStatus) -> Option<i64>| {
        Field::int(name, move |host: &FleetHost| get(reported(host)?))
    };
    let ratio = |name, get: fn(&Glance) -> Option<f64>| {
        Field::real(name, move |host: &FleetHost| get(host.glance.as_deref()?))
    };
    let booked =
        |name, get: fn(&Ledger) -> i64| Field::int(name, move |host: &FleetHost| ledger(host).map(get));
    let minute = |name, get: fn(&Minute) -> u64| {
        Field::count(name, move |host: &FleetHost| Some(get(&host.glance.as_ref()?.minute)))
    };
    vec![
        Field::text("id", |host: &FleetHost| Some(host.status.info.host.to_string().into())),
        text("hostname", |host| &host.info.hostname),
        text("trust", |host| host.trust.name()),
        Field::text("source", |host: &FleetHost| Some(reported(host)?.source.name().into())),
        text("address", |host| &host.address),
        text("agent", |host| &host.info.agent),
        text("kernel", |host| &host.info.kernel),
        text("arch", |host| &host.info.arch),
        Field::count("cpu_count", move |host: &FleetHost| some(host.status.info.cpu_count.into())),
        Field::count("interval_ns", move |host: &FleetHost| some(host.status.info.interval_ns)),
        Field::text("state", |host: &FleetHost| Some(host.state.name().into())),
        Field::text("health", |host: &FleetHost| Some(host.health().into())),
        int("clock_offset_ns", |host| Some(host.clock_offset_ns())),
        count("clock_round_trip_ns", |host| Some(host.clock?.round_trip_ns)),
        int("clock_drift_ppb", |host| host.clock?.drift_ppb),
        count("threads", |host| Some(host.thread_count.into())),
        count("processes", |host| Some(host.process_count.into())),
        count("lost", |host| Some(host.loss.snapshots_lost.saturating_add(host.loss.snapshots_partial))),
        count("rejected", |host| Some(host.loss.rejected)),
        count("store_dropped", |host| Some(host.loss.store_dropped)),
        ratio("busy_ratio", |glance| glance.busy_ratio),
        ratio("minute_busy_ratio", |glance| glance.minute.busy_ratio),
        ratio("minute_peak_ratio", |glance| glance.minute.peak_ratio),
        ratio("minute_ready", |glance| glance.minute.ready_mean),
        ratio("minute_run_queue_per_cpu", |glance| glance.minute.run_queue_per_cpu),
        ratio("minute_unattributed_ratio", |glance| glance.minute.unattributed_ratio),
        minute("minute_intervals", |minute| minute.intervals.into()),
        minute("minute_incomplete", |minute| minute.incomplete.into()),
        Field::text("top_key", |host: &FleetHost| {
            Some(TaskKey::Process(host.glance.as_ref()?.top.first()?.key).to_string().into())
        }),
        Field::text("top_name", |host: &FleetHost| Some((&*host.glance.as_ref()?.top.first()?.name).into())),
        ratio("top_cpu_pct", |glance| glance.top.first()?.cpu_pct),
        ratio("top_host_pct", |glance| glance.top.first()?.host_pct),
        booked("capacity_ns", |ledger| ledger.capacity_ns),
        booked("unattributed_ns", Ledger::unattributed_ns),
        Field::real("unattributed_ratio", |host: &FleetHost| ledger(host).map(Ledger::unattributed_ratio)),
        booked("ledger_closed", |ledger| i64::from(ledger.unattributed_ratio().abs() <= BALANCED_RATIO)),
        Field::text("flags", |host: &FleetHost| Some((&*host.glance.as_ref()?.flags).into())),
    ]
}

/// Behind them in the page's table: ages, which are newer in each message.
pub(super) fn age_fields() -> [HostField; 2] {
    [
        Field::int("age_ns", |host: &FleetHost| host.age_ns),
        Field::real("end_ms", |host: &FleetHost| to_ms(host.status.last.wall_ns)),
    ]
}

/// And in a file: moments, so that it says the same whenever it is read. A host that never sent an interval has none.
pub(super) fn moment_fields() -> [HostField; 4] {
    let end = |host: &FleetHost| Some(host.status.last.wall_ns).filter(|ns| *ns != 0);
    let received = |host: &FleetHost| Some(host.status.received_wall_ns).filter(|ns| *ns != 0);
    [
        Field::text("end_utc", move |host: &FleetHost| Some(Utc(end(host)?).to_string().into())),
        Field::int("end_ns", end),
        Field::text("received_utc", move |host: &FleetHost| Some(Utc(received(host)?).to_string().into())),
        Field::int("received_ns", received),
    ]
}

/// Hosts over a range.
pub(super) fn span_fields() -> [Field<'static, SpanHost>; 8] {
    [
        Field::text("id", |host: &SpanHost| Some(host.status.info.host.to_string().into())),
        Field::text("hostname", |host: &SpanHost| Some((&*host.status.info.hostname).into())),
        Field::text("trust", |host: &SpanHost| Some(host.status.trust.name().into())),
        Field::int("covered_ns", |host: &SpanHost| host.covered_ns),
        Field::real("busy_ratio", |host: &SpanHost| host.busy_ratio),
        Field::real("peak_ratio", |host: &SpanHost| host.peak_ratio),
        Field::real("peak_ms", |host: &SpanHost| host.peak_ns.map(to_ms)),
        Field::real("run_queue_per_cpu", |host: &SpanHost| host.run_queue_per_cpu),
    ]
}

/// The busiest processes over all hosts that report.
pub(super) fn top_fields<'t>() -> [Field<'static, TopProcess<'t>>; 8] {
    type Top<'t> = TopProcess<'t>;
    [
        Field::text("host_id", |top: &Top<'t>| Some(top.host.info.host.to_string().into())),
        Field::text("hostname", |top: &Top<'t>| Some((&*top.host.info.hostname).into())),
        Field::text("key", |top: &Top<'t>| Some(TaskKey::Process(top.busy.key).to_string().into())),
        Field::text("name", |top: &Top<'t>| Some((&*top.busy.name).into())),
        Field::text("container", |top: &Top<'t>| Some((&*top.busy.container).into())),
        Field::real("cpu_pct", |top: &Top<'t>| top.busy.cpu_pct),
        Field::real("host_pct", |top: &Top<'t>| top.busy.host_pct),
        Field::int("run_ns", |top: &Top<'t>| top.busy.run_ns),
    ]
}
