//! `cpumon status`: the health of a receiver as text, CSV or JSON.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Context;
use cpumon_model::{Fields, Interval, escape};
use cpumon_query::Seek;
use cpumon_query::status;
use cpumon_tui::{events_per_sec, losses_of_agent};

use crate::cli::{OutputFormat, StatusArgs};
use crate::client::Client;
use crate::exit::{Outcome, Usage};
use crate::hosts::{show_kinds, write_hosts};
use crate::output::{Table, terminal_columns, write_document};
use crate::units::show_bytes;

pub fn status(args: &StatusArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let client = Client::new(&args.url, &args.access).map_err(Usage)?;
    let status = client.status()?;
    let agents = agents(&client, &status)?;
    let format = args.format.get();
    if format == OutputFormat::Table {
        write_status(&status, out).context("cannot write the status")?;
        write_agents(&agents, out).context("cannot write the status")?;
        return Ok(Outcome::Done);
    }
    let document = WithAgents { status: &status, agents };
    write_document(&document, format, out)?;
    Ok(Outcome::Done)
}

/// Cost and losses of measuring a host, by its newest interval.
#[derive(Debug, serde::Serialize)]
struct Agent {
    host: String,
    /// CPU time of the agent since its start, ns.
    own_cpu_ns: u64,
    own_rss_bytes: u64,
    probes: String,
    /// Switches and interrupts that the probes took; null where none are watched.
    events_per_sec: Option<f64>,
    /// Counts of losses and failures since its start, by name; null where nothing watches for it.
    drops: BTreeMap<&'static str, Option<u64>>,
    /// The same in words, for the table: losses of data, and normal ones.
    #[serde(skip)]
    losses: [Vec<String>; 2],
}

#[derive(serde::Serialize)]
struct WithAgents<'a> {
    #[serde(flatten)]
    status: &'a status::Status,
    agents: Vec<Agent>,
}

fn agents(client: &Client, status: &status::Status) -> anyhow::Result<Vec<Agent>> {
    let mut agents = Vec::new();
    for host in &status.hosts {
        let Some(interval) = client.seek(host.info.host, Seek::Before(i64::MAX))? else { continue };
        // Senders of version 1 do not report their cost: they have no line.
        if interval.health.own_rss_bytes > 0 {
            agents.push(agent(&host.info.hostname, &interval));
        }
    }
    Ok(agents)
}

fn agent(host: &str, interval: &Interval) -> Agent {
    let health = &interval.health;
    let known = |needs, count| interval.fields.contains(needs).then_some(count);
    let drops = [
        ("exits_lost", Some(health.exits_lost)),
        ("intervals_late", Some(health.intervals_late)),
        ("intervals_skipped", Some(health.intervals_skipped)),
        ("malformed", Some(health.malformed)),
        ("permission_denied", Some(health.permission_denied)),
        ("sched_missed_switches", known(Fields::SCHED, health.sched_missed_switches)),
        ("wakeups_unknown", known(Fields::SCHED, health.wakeups_unknown)),
        ("run_queue_unknown", known(Fields::SCHED, health.run_queue_unknown)),
        ("wakers_unknown", known(Fields::WAITS_FOR, health.wakers_unknown)),
        ("sched_untracked", known(Fields::SCHED, health.sched_untracked)),
        ("histogram_drops", known(Fields::HISTOGRAMS, health.histogram_drops)),
        ("ring_drops", known(Fields::EXITS, health.ring_drops)),
        ("execs_lost", known(Fields::EXITS, health.execs_lost)),
        ("endings_lost", known(Fields::EXITS, health.endings_lost)),
        ("cuts_lost", known(Fields::EXITS, health.cuts_lost)),
        ("hidden_left_out", known(Fields::EXITS, health.hidden_left_out)),
    ];
    let probes: Vec<String> = health.probes.iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect();
    Agent {
        host: host.to_owned(),
        own_cpu_ns: health.own_cpu_ns,
        own_rss_bytes: health.own_rss_bytes,
        probes: probes.join("|"),
        events_per_sec: events_per_sec(interval),
        drops: drops.into(),
        losses: losses_of_agent(health),
    }
}

fn write_agents(agents: &[Agent], out: &mut dyn Write) -> std::io::Result<()> {
    if agents.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new(&["AGENT", "OWN CPU", "MEMORY", "PROBES", "EVENTS/s", "LOST", "NORMAL"]);
    for agent in agents {
        let [lost, normal] = agent
            .losses
            .each_ref()
            .map(|texts| if texts.is_empty() { "none".to_owned() } else { texts.join(", ") });
        table.row([
            escape(&agent.host).to_string(),
            format!("{:.1} s", agent.own_cpu_ns as f64 / 1e9),
            show_bytes(agent.own_rss_bytes),
            if agent.probes.is_empty() { "-".to_owned() } else { agent.probes.clone() },
            agent.events_per_sec.map_or("-".to_owned(), |events| format!("{events:.0}")),
            lost,
            normal,
        ]);
    }
    table.write_within(terminal_columns(), out)
}

fn write_status(status: &status::Status, out: &mut dyn Write) -> std::io::Result<()> {
    let up_s = status.now_wall_ns.saturating_sub(status.started_wall_ns) / 1_000_000_000;
    writeln!(out, "receiver   cpumon {}, pid {}, up {up_s} s", escape(&status.version), status.pid)?;
    writeln!(out, "listening  udp {}, http {}", status.udp.join(" "), status.http)?;
    let receiver = &status.receiver;
    writeln!(
        out,
        "received   {} datagrams, {}, {} intervals; lost in the kernel {}, rejected {}{}, receive errors {}",
        receiver.datagrams,
        show_bytes(receiver.bytes),
        receiver.intervals,
        receiver.kernel_dropped,
        receiver.rejected,
        show_kinds(&receiver.rejected_for),
        receiver.receive_errors
    )?;
    if receiver.rows_over_limit > 0 {
        let left_out = receiver.rows_over_limit;
        writeln!(
            out,
            "left out   {left_out} rows of hosts with more processes, threads or control groups than are taken"
        )?;
    }
    if receiver.ended_unseen > 0 {
        let unseen = receiver.ended_unseen;
        writeln!(
            out,
            "unseen     {unseen} threads ended in lost datagrams: their last CPU time is not known"
        )?;
    }
    if receiver.changed_names > 0 {
        let changed = receiver.changed_names;
        writeln!(
            out,
            "renamed    {changed} times a host had the id of another host as its name; such a host is shown as host-ID"
        )?;
    }
    write_encryption(receiver, out)?;
    for rejects in &receiver.rejected_by {
        let (source, reason) = (escape(&rejects.source), escape(&rejects.reason));
        let kinds = show_kinds(&rejects.by_kind);
        writeln!(out, "rejected   {} from {source}{kinds}; the last: {reason}", rejects.count)?;
    }
    if let Some(connections) = &status.connections {
        write_connections(connections, out)?;
    }
    write_store(&status.store, out)?;
    if let Some(traces) = &status.traces {
        write_traces(traces, out)?;
    }
    write_hosts(status, None, terminal_columns(), out)
}

fn write_traces(traces: &status::Traces, out: &mut dyn Write) -> std::io::Result<()> {
    let status::Traces { files, stored, refused, postponed, deleted, failed, .. } = traces;
    let (bytes, most) = (show_bytes(traces.bytes), show_bytes(traces.max_bytes));
    writeln!(
        out,
        "traces     {files}, {bytes} of {most}; {stored} stored, {refused} refused, {postponed} put off, {deleted} deleted, {failed} failures"
    )?;
    if !traces.error.is_empty() {
        writeln!(out, "traces     the last failure: {}", escape(&traces.error))?;
    }
    Ok(())
}

fn write_encryption(receiver: &status::Receiver, out: &mut dyn Write) -> std::io::Result<()> {
    let taken = |is_taken: bool| if is_taken { "accepted" } else { "refused" };
    let keys = if receiver.keys.is_empty() { "none".to_owned() } else { receiver.keys.join(" ") };
    writeln!(
        out,
        "encrypted  {} datagrams decrypted, keys {}; without encryption v2 is {}, v1 {}",
        receiver.opened,
        escape(&keys),
        taken(receiver.accepts_plain),
        taken(receiver.accepts_v1)
    )
}

fn write_connections(connections: &status::Connections, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "tls        {}; connected: {} devices, {} received; since the start {} enrolled, {} certificates renewed",
        connections.address,
        connections.devices,
        show_bytes(connections.bytes),
        connections.enrolled,
        connections.renewed
    )?;
    writeln!(
        out,
        "tls        {} connections; refused: {} too many or too fast, {} handshakes, {} devices, {} tokens, {} by what they sent",
        connections.accepted,
        connections.refused_early,
        connections.handshakes_failed,
        connections.refused_devices,
        connections.refused_tokens,
        connections.protocol_errors
    )?;
    if !connections.enrolled_error.is_empty() {
        writeln!(
            out,
            "tls        not all enrolled hosts are known: {}",
            escape(&connections.enrolled_error)
        )?;
    }
    if let Some(discovery) = &connections.discovery {
        writeln!(
            out,
            "discovery  key {}; {} queries, {} answered; {} unrelated, {} too many, {} malformed, {} failed",
            escape(&discovery.key),
            discovery.queries,
            discovery.answered,
            discovery.unrelated,
            discovery.too_many,
            discovery.malformed,
            discovery.failed
        )?;
    }
    if connections.requests > 0 {
        writeln!(
            out,
            "requests   {} devices requested enrolment: {} wait for an answer (cpumon hosts pending), {} accepted, {} refused",
            connections.requests,
            connections.requests_waiting,
            connections.requests_accepted,
            connections.requests_refused
        )?;
    }
    for refused in &connections.refused_by {
        let (source, reason) = (escape(&refused.source), escape(&refused.reason));
        writeln!(out, "tls        refused {} of {source}; the last: {reason}", refused.count)?;
    }
    Ok(())
}

fn write_store(store: &status::Store, out: &mut dyn Write) -> std::io::Result<()> {
    let state = match store.state {
        status::StoreState::None => return writeln!(out, "store      none: nothing is stored"),
        status::StoreState::Ok => "ok".to_owned(),
        status::StoreState::Failing => format!("NOT STORING: {}", escape(&store.error)),
    };
    writeln!(
        out,
        "store      {state}; {} ({}), {} intervals written, {} waiting of at most {}, {} dropped",
        store.path,
        show_bytes(store.size_bytes),
        store.written,
        store.queue,
        store.queue_capacity,
        store.dropped
    )?;
    if !store.clock.is_empty() {
        writeln!(out, "clock      {}", escape(&store.clock))?;
    }
    let damaged = store.damage.more.saturating_add(store.damage.holes.len() as u64);
    if damaged > 0 {
        let path = &store.path;
        writeln!(
            out,
            "store      {damaged} parts of it cannot be read: cpumon store check {path} --salvage NEW.db"
        )?;
    }
    if store.damage.nameless > 0 {
        writeln!(
            out,
            "store      the names of {} processes or threads cannot be read",
            store.damage.nameless
        )?;
    }
    if store.damage.sums > 0 {
        let sums = store.damage.sums;
        writeln!(
            out,
            "store      run delays, waits or control groups of {sums} minutes or hours cannot be read"
        )?;
    }
    if store.refused > 0 {
        let refused = store.refused;
        writeln!(
            out,
            "store      {refused} intervals not stored: unauthenticated hosts began boots too often"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cpumon_model::{HostId, HostInfo, HostStatus, SourceKind};

    use super::*;

    #[test]
    fn what_measuring_costs_is_a_line_and_what_is_not_watched_is_no_number() {
        let mut interval = Interval::default();
        (interval.health.own_cpu_ns, interval.health.own_rss_bytes) = (1_260_000_000, 7 << 20);
        (interval.health.exits_lost, interval.health.intervals_late) = (4, 2);
        let plain = agent("a", &interval);
        assert_eq!((plain.events_per_sec, plain.drops["exits_lost"]), (None, Some(4)));
        assert_eq!((plain.drops["histogram_drops"], plain.drops["sched_untracked"]), (None, None));
        interval.fields = Fields::SCHED;
        assert_eq!(agent("a", &interval).drops["sched_untracked"], Some(0));
        let mut lossy = interval.clone();
        lossy.health.run_queue_unknown = 3;
        let lossy = agent("a", &lossy);
        assert_eq!((lossy.drops["run_queue_unknown"], lossy.drops["wakers_unknown"]), (Some(3), None));
        assert_eq!(lossy.losses[1], ["2 late", "3 run queues unknown"]);
        interval.end.mono_ns = 2_000_000_000;
        interval.cpus = vec![cpumon_model::CpuInterval::default()];
        interval.cpus[0].sched.switches = 3_000;
        interval.health.probes = cpumon_model::Probes::SCHED;
        let mut text = Vec::new();
        write_agents(&[plain, agent("b\u{1b}[2J", &interval)], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let cells =
            |line: usize| text.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        // A late pass costs no data: among the losses it alarmed users of healthy machines.
        assert_eq!(cells(1), "AGENT OWN CPU MEMORY PROBES EVENTS/s LOST NORMAL", "{text}");
        assert_eq!(cells(2), "a 1.3 s 7.3 MB - - 4 exits lost 2 late", "{text}");
        assert!(cells(3).ends_with("sched 1500 4 exits lost 2 late") && !text.contains('\u{1b}'), "{text}");
    }

    fn a_host() -> HostStatus {
        let info =
            HostInfo { host: HostId([0xab; 16]), hostname: "evil\u{1b}[2J".into(), ..HostInfo::default() };
        HostStatus {
            info,
            source: SourceKind::V1,
            address: "127.0.0.2:4000".into(),
            thread_count: 12,
            received_wall_ns: 8_000_000_000,
            clock: Some(cpumon_model::HostClock {
                offset_ns: -1_500_000_000,
                round_trip_ns: 400_000,
                drift_ppb: Some(12_300),
                steps: 0,
            }),
            loss: cpumon_model::LossCounts {
                snapshots_lost: 2,
                store_dropped: 1,
                ..cpumon_model::LossCounts::default()
            },
            ..HostStatus::default()
        }
    }

    fn connections() -> status::Connections {
        status::Connections {
            address: "0.0.0.0:3002".into(),
            devices: 2,
            accepted: 9,
            bytes: 5000,
            enrolled: 2,
            enrolled_error: "state/hosts/07 is damaged: a line is missing".into(),
            handshakes_failed: 3,
            requests: 4,
            requests_waiting: 1,
            requests_accepted: 2,
            requests_refused: 1,
            discovery: Some(status::Discovery {
                key: "ab".repeat(16),
                queries: 9,
                answered: 5,
                unrelated: 1,
                too_many: 3,
                malformed: 2,
                failed: 0,
            }),
            refused_by: vec![status::Rejects {
                source: "10.0.0.66".into(),
                count: 3,
                reason: "TLS: invalid peer certificate: UnknownIssuer".into(),
                ..status::Rejects::default()
            }],
            ..status::Connections::default()
        }
    }

    #[test]
    fn a_status_reads_well_and_is_safe_to_print() {
        let status = status::Status {
            version: "0.1.0".into(),
            pid: 42,
            now_wall_ns: 10_000_000_000,
            udp: vec!["0.0.0.0:3001".into(), "[::]:3001".into()],
            http: "127.0.0.1:3080".into(),
            receiver: status::Receiver {
                datagrams: 7,
                bytes: 1234,
                rejected: 3,
                rejected_by: vec![status::Rejects {
                    source: "127.0.0.9".into(),
                    count: 3,
                    reason: "decoding a datagram, byte 0: all bytes are zero".into(),
                    by_kind: [("bad_seal".to_owned(), 2), ("malformed".to_owned(), 1)].into(),
                }],
                opened: 4,
                rejected_for: [("bad_seal".to_owned(), 2), ("host_limit".to_owned(), 1)].into(),
                rows_over_limit: 5_000,
                ended_unseen: 8,
                changed_names: 2,
                keys: vec!["1a2b3c4d".into()],
                accepts_v1: true,
                ..status::Receiver::default()
            },
            connections: Some(connections()),
            store: status::Store {
                path: "x.db".into(),
                state: status::StoreState::Failing,
                error: "disk is full".into(),
                refused: 6,
                damage: cpumon_query::DamageReport { nameless: 4, sums: 3, ..Default::default() },
                ..status::Store::default()
            },
            hosts: vec![a_host()],
            ..status::Status::default()
        };
        let mut text = Vec::new();
        write_status(&status, &mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap());
    }
}
