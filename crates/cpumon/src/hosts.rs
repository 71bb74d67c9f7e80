//! `cpumon hosts` of a receiver: a table with losses, or the list of the page's table.

mod figure;

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use anyhow::Context;
use cpumon_model::{LossCounts, escape};
use cpumon_query::fleet::HostOrder;
use cpumon_web::api;
use serde_json::Value;

use crate::cli::{Format, HostsArgs};
use crate::client::Client;
use crate::exit::{Outcome, Usage};
use crate::json::write_json;
use crate::records::JsonArray;
use crate::report::{Column, Columns};
use crate::table::{name_text, terminal_columns};
use crate::units::whole_seconds;
use crate::when;

/// `cpumon hosts`.
pub fn hosts(args: &HostsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let client = Client::new(&args.url, &args.access).map_err(Usage)?;
    let columns = terminal_columns();
    match args.format.get() {
        Format::Table if args.busiest => {
            let lines = client.fleet_file(&query(args, "jsonl"))?;
            write_busiest(&lines, args.search.as_deref(), columns, out).context("cannot write the hosts")?;
        }
        Format::Table => {
            let status = client.status()?;
            let mut listed = Listed::of_lines(&client.fleet_file(&query(args, "jsonl"))?, args.sort);
            if !args.wants_fleet() {
                listed.order = None;
            }
            write_listed(&status, &listed, args.search.as_deref(), columns, out)
                .context("cannot write the hosts")?;
        }
        Format::Json if !args.wants_fleet() => {
            let status = client.status()?;
            let lines = client.fleet_file(&query(args, "jsonl"))?;
            let Listed { stored, .. } = Listed::of_lines(&lines, None);
            write_json(&AllHosts { total: status.hosts.len(), hosts: status.hosts, stored }, out)?;
        }
        format => write_file(args, format, &client, out)?,
    }
    Ok(Outcome::Done)
}

/// What the receiver is asked for: it filters and sorts.
fn query<'a>(args: &'a HostsArgs, format: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut query = vec![("format", format), ("search", args.search.as_deref().unwrap_or_default())];
    query.extend(args.sort.map(|sort| ("sort", sort.name())));
    query.extend(args.reverse.then_some(("reverse", "true")));
    query.extend(args.busiest.then_some(("busiest", "true")));
    query
}

/// The list of the page's table as a file.
fn write_file(args: &HostsArgs, format: Format, client: &Client, out: &mut dyn Write) -> anyhow::Result<()> {
    let name = if format == Format::Csv { "csv" } else { "jsonl" };
    let file = client.fleet_file(&query(args, name))?;
    if format == Format::Json {
        let mut array = JsonArray::new(out);
        array.write_all(&file).and_then(|()| array.finish())
    } else {
        out.write_all(&file)
    }
    .context("cannot write the hosts")
}

/// The rows of JSON lines.
fn rows_of(lines: &[u8]) -> impl Iterator<Item = Value> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

/// The table, or that no host matches the words; with all hosts also who sends without being one.
fn write_listed(
    status: &api::Status,
    listed: &Listed,
    search: Option<&str>,
    columns: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    match search.filter(|words| !words.trim().is_empty()) {
        Some(words) if listed.order.as_ref().is_some_and(Vec::is_empty) => {
            writeln!(out, "no host matches {}", escape(words))
        }
        Some(_) => write_hosts(status, Some(listed), columns, out),
        None => {
            if status.hosts.is_empty() && listed.stored.is_empty() {
                writeln!(out, "no host has reported yet")?;
            } else {
                write_hosts(status, Some(listed), columns, out)?;
            }
            write_no_hosts(status, out)
        }
    }
}

/// The busiest processes of all hosts, or of those that match the words.
fn write_busiest(
    lines: &[u8],
    search: Option<&str>,
    columns: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let rows: Vec<Value> = rows_of(lines).collect();
    if rows.is_empty() {
        return match search {
            Some(words) => {
                writeln!(out, "no process ran on a host that reports and matches {}", escape(words))
            }
            None => writeln!(out, "no process ran on a host that reports"),
        };
    }
    let text = |row: &Value, name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let share = |row: &Value, name: &str| {
        row.get(name).and_then(Value::as_f64).map_or_else(|| "-".to_owned(), |share| format!("{share:.1}"))
    };
    let column =
        |title, rank, cell: &dyn Fn(&Value) -> String| Column::new(title, rank, rows.iter().map(cell));
    let mut names = vec![
        column("HOST", 0, &|row| name_text(&text(row, "hostname"))),
        column("PROCESS", 0, &|row| name_text(&text(row, "name"))),
    ];
    if rows.iter().any(|row| !text(row, "container").is_empty()) {
        names.push(column("CONTAINER", 3, &|row| escape(&text(row, "container")).to_string()));
    }
    let numbers = vec![
        column("PID", 2, &|row| escape(text(row, "key").split('-').next().unwrap_or_default()).to_string()),
        column("%CPU", 0, &|row| share(row, "cpu_pct")),
        column("%HOST", 1, &|row| share(row, "host_pct")),
    ];
    Columns::new(names, numbers).write(columns, out)
}

/// The address behind `address:port`, or of a source.
fn ip_of(text: &str) -> Option<IpAddr> {
    let ip = text.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| text.parse());
    // An IPv4 sender may be listed by its IPv4-mapped address; both forms are one address.
    ip.ok().map(|ip: IpAddr| ip.to_canonical())
}

/// What was refused of the address that a host sends from, because it sent more than one may.
fn over_limit(host: &api::Host, rejected_by: &[api::Rejects]) -> u64 {
    let from = ip_of(&host.address);
    let of_host = rejected_by.iter().filter(|rejects| from.is_some() && ip_of(&rejects.source) == from);
    of_host.filter_map(|rejects| rejects.by_kind.get("rate_limit")).sum()
}

/// Everything that did not arrive as it was sent: in few words, and their sum for where there is little space.
fn show_loss(counts: &LossCounts, over_limit: u64) -> [String; 2] {
    let named = [
        (counts.snapshots_lost, "lost"),
        (counts.snapshots_partial, "partial"),
        (counts.rejected, "rejected"),
        (counts.duplicates, "doubled"),
        (counts.reordered, "reordered"),
        (counts.store_dropped, "not stored"),
        (over_limit, "datagrams over its source's limit"),
    ];
    let shown: Vec<String> =
        named.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
    if shown.is_empty() {
        return ["none"; 2].map(str::to_owned);
    }
    let sum = named.iter().fold(0_u64, |sum, (count, _)| sum.saturating_add(*count));
    [shown.join(", "), sum.to_string()]
}

/// A difference of clocks: `+1.500 s`, `-3 h 20 min`, `-8333 d 8 h`.
fn show_offset(offset_ns: i64) -> String {
    let sign = if offset_ns < 0 { '-' } else { '+' };
    let minutes = offset_ns.unsigned_abs() / 60_000_000_000;
    match minutes {
        0..60 => format!("{:+.3} s", offset_ns as f64 / 1e9),
        60..1440 => format!("{sign}{} h {:02} min", minutes / 60, minutes % 60),
        _ => format!("{sign}{} d {} h", minutes / 1440, minutes % 1440 / 60),
    }
}

/// How far the host's clock is ahead of the receiver's: `+1.500 s ±0.2 ms, 12 ppm fast`; `~` where it is estimated from arrivals,
/// `< 1 ms` where the difference is not worth a number, and known that well or estimated.
/// Then the same without the error and the rate, for where there is little space.
fn show_clock(host: &api::Host) -> [String; 2] {
    const SMALL_NS: u64 = 1_000_000;
    let is_exact = host.clock.is_none_or(|clock| clock.round_trip_ns / 2 < SMALL_NS);
    let offset = if is_exact && host.clock_offset_ns.unsigned_abs() < SMALL_NS {
        "< 1 ms".to_owned()
    } else {
        show_offset(host.clock_offset_ns)
    };
    let Some(clock) = host.clock else {
        return [format!("~{offset}"), format!("~{offset}")];
    };
    let exact = format!("{offset} ±{:.1} ms", clock.round_trip_ns as f64 / 2e6);
    let full = match clock.drift_ppb {
        Some(ppb) if ppb != 0 => {
            let way = if ppb > 0 { "fast" } else { "slow" };
            format!("{exact}, {:.1} ppm {way}", ppb.unsigned_abs() as f64 / 1e3)
        }
        _ => exact,
    };
    [full, offset]
}

/// How busy a host is.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    /// Share of all CPUs: `12.3 %`; `-` without data.
    all: String,
    /// The busiest process with its share of one CPU.
    busiest: String,
}

/// `hosts --json`: those that report as the API has them, and those that only the store has.
#[derive(Debug, serde::Serialize)]
struct AllHosts {
    total: usize,
    hosts: Vec<api::Host>,
    stored: Vec<StoredHost>,
}

/// A host that did not report since the receiver started.
#[derive(Clone, Debug, serde::Serialize)]
struct StoredHost {
    #[serde(rename = "hostname")]
    name: String,
    id: String,
    trust: String,
    /// End of its data, ns since the UNIX epoch.
    last_ns: i64,
}

/// What the receiver's list of hosts has beside its status.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// By id.
    busy: BTreeMap<String, Busy>,
    stored: Vec<StoredHost>,
    /// Ids of all, in the order of the list. `None`: by name, and those of the store last.
    order: Option<Vec<String>>,
    /// What they are sorted by, if the user chose it.
    sort: Option<HostOrder>,
    /// The figure of that order by id, where the table has no column of it.
    figures: BTreeMap<String, String>,
}

impl Listed {
    /// Reads the list's JSON lines.
    fn of_lines(lines: &[u8], sort: Option<HostOrder>) -> Self {
        let mut listed = Self { sort, ..Self::default() };
        let figure = sort.and_then(figure::of_order);
        let order = listed.order.insert(Vec::new());
        for row in rows_of(lines) {
            let text = |name: &str| row.get(name).and_then(Value::as_str);
            let number = |name: &str| row.get(name).and_then(Value::as_f64);
            let Some(id) = text("id").map(str::to_owned) else { continue };
            order.push(id.clone());
            if let Some((_, cell)) = figure {
                listed.figures.insert(id.clone(), cell(&row));
            }
            if text("state") == Some("stored") {
                listed.stored.push(StoredHost {
                    name: text("hostname").unwrap_or_default().to_owned(),
                    id,
                    trust: text("trust").unwrap_or_default().to_owned(),
                    last_ns: row.get("received_ns").and_then(Value::as_i64).unwrap_or(0),
                });
                continue;
            }
            let percent = |share: f64| format!("{share:.1} %");
            let top = text("top_name").zip(number("top_cpu_pct"));
            let busy = Busy {
                all: number("busy_ratio").map_or_else(|| "-".to_owned(), |ratio| percent(ratio * 100.0)),
                busiest: top.map_or_else(
                    || "-".to_owned(),
                    |(name, share)| format!("{} {}", name_text(name), percent(share)),
                ),
            };
            listed.busy.insert(id, busy);
        }
        listed
    }

    fn figure(&self, id: &str) -> String {
        self.figures.get(id).cloned().unwrap_or_else(|| "-".to_owned())
    }
}

/// What a table has of a host: one that reports, or one that only the store has.
#[derive(Debug, Default)]
struct Line {
    name: String,
    id: String,
    trust: String,
    source: String,
    address: String,
    busy: Busy,
    threads: String,
    /// When its data came last: in full, and as how long ago.
    seen: [String; 2],
    clock: [String; 2],
    loss: [String; 2],
    /// What the list is sorted by.
    figure: String,
}

impl Line {
    fn reporting(host: &api::Host, status: &api::Status, listed: Option<&Listed>) -> Self {
        let seconds = whole_seconds(status.now_wall_ns.saturating_sub(host.received_wall_ns));
        let seen = format!("{seconds} s ago");
        // A host that came between the two requests has no figure yet.
        let busy = listed.and_then(|listed| listed.busy.get(&host.id)).cloned().unwrap_or_default();
        Self {
            name: name_text(&host.hostname),
            id: host.id.clone(),
            trust: escape(&host.trust).to_string(),
            source: escape(&host.source).to_string(),
            address: escape(&host.address).to_string(),
            busy,
            threads: host.thread_count.to_string(),
            seen: [seen.clone(), seen],
            clock: show_clock(host),
            loss: show_loss(&host.loss, over_limit(host, &status.receiver.rejected_by)),
            figure: listed.map_or_else(String::new, |listed| listed.figure(&host.id)),
        }
    }

    /// What is not known of it is `-`.
    fn stored(host: &StoredHost, now_ns: i64, listed: Option<&Listed>) -> Self {
        let before_s = now_ns.saturating_sub(host.last_ns).max(0) / 1_000_000_000;
        let none = || "-".to_owned();
        Self {
            name: name_text(&host.name),
            id: host.id.clone(),
            trust: escape(&host.trust).to_string(),
            source: none(),
            address: none(),
            busy: Busy { all: none(), busiest: none() },
            threads: none(),
            seen: [
                format!("until {}", when::show_clock(host.last_ns, true)),
                format!("{} ago", cpumon_tui::ago(before_s.unsigned_abs())),
            ],
            clock: [none(), none()],
            loss: [none(), none()],
            figure: listed.map_or_else(String::new, |listed| listed.figure(&host.id)),
        }
    }
}

/// A line a host; with `listed` also how busy each is, and those that only the store has. On a narrow terminal the less important
/// columns are left out.
pub fn write_hosts(
    status: &api::Status,
    listed: Option<&Listed>,
    columns: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let reporting = status.hosts.iter().map(|host| Line::reporting(host, status, listed));
    let stored = listed.iter().flat_map(|listed| &listed.stored);
    let mut lines: Vec<Line> =
        reporting.chain(stored.map(|host| Line::stored(host, status.now_wall_ns, listed))).collect();
    if let Some(order) = listed.and_then(|listed| listed.order.as_ref()) {
        let places: HashMap<&str, usize> = order.iter().map(String::as_str).zip(0..).collect();
        lines.retain(|line| places.contains_key(&*line.id));
        lines.sort_by_key(|line| places.get(&*line.id).copied());
    }
    let column =
        |title, rank, cell: &dyn Fn(&Line) -> String| Column::new(title, rank, lines.iter().map(cell));
    let in_two = |title, rank, cells: &dyn Fn(&Line) -> &[String; 2]| {
        let of = |at: usize| lines.iter().map(move |line| cells(line)[at].clone());
        Column::new(title, rank, of(0)).or_short(of(1))
    };
    let sort = listed.and_then(|listed| listed.sort);
    // What the lines are sorted by is always shown.
    let rank = |order, rank| if sort == Some(order) { 0 } else { rank };
    let mut names = vec![
        column("HOST", 0, &|line| line.name.clone()),
        column("ID", 8, &|line| line.id.clone()).whole(),
        column("TRUST", 2, &|line| line.trust.clone()).whole(),
        column("SOURCE", 7, &|line| line.source.clone()).whole(),
        column("ADDRESS", 5, &|line| line.address.clone()).whole(),
    ];
    let mut numbers = Vec::new();
    if listed.is_some() {
        names.push(column("BUSIEST", rank(HostOrder::Top, 3), &|line| line.busy.busiest.clone()));
        let figure = sort.and_then(figure::of_order);
        let is_wider = figure.is_some()
            || matches!(sort, Some(HostOrder::Top | HostOrder::Threads | HostOrder::ClockOffset));
        numbers.push(column("BUSY", u8::from(is_wider), &|line| line.busy.all.clone()));
        if let Some((title, _)) = figure {
            // Agents choose their texts: these are cut as names are.
            let is_text = matches!(sort, Some(HostOrder::Health | HostOrder::Agent));
            let columns = if is_text { &mut names } else { &mut numbers };
            columns.push(column(title, 0, &|line| line.figure.clone()));
        }
    }
    numbers.extend([
        column("THREADS", rank(HostOrder::Threads, 4), &|line| line.threads.clone()),
        in_two("SEEN", 0, &|line| &line.seen),
        in_two("CLOCK", rank(HostOrder::ClockOffset, 6), &|line| &line.clock),
        in_two("LOSS", 0, &|line| &line.loss),
    ]);
    Columns::new(names, numbers).write(columns, out)
}

/// ` (2 bad_seal, 1 plain)`
#[must_use]
pub fn show_kinds(kinds: &BTreeMap<String, u64>) -> String {
    let shown: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {}", escape(kind))).collect();
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) }
}

/// Sources of refused datagrams from whose address no host reports.
fn write_no_hosts(status: &api::Status, out: &mut dyn Write) -> std::io::Result<()> {
    let is_host = |source: &str| {
        ip_of(source).is_some_and(|ip| status.hosts.iter().any(|host| ip_of(&host.address) == Some(ip)))
    };
    for rejects in status.receiver.rejected_by.iter().filter(|rejects| !is_host(&rejects.source)) {
        let (source, kinds) = (escape(&rejects.source), show_kinds(&rejects.by_kind));
        writeln!(out, "no host    {source}: {} datagrams refused{kinds}", rejects.count)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_over_the_limit_of_a_source_are_shown_with_its_hosts_and_below_them() {
        let host = |name: &str, address: &str| api::Host {
            hostname: name.into(),
            address: address.into(),
            ..api::Host::default()
        };
        let rejects = |source: &str, count, kinds: &[(&str, u64)]| api::Rejects {
            source: source.into(),
            count,
            by_kind: kinds.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
            ..api::Rejects::default()
        };
        let status = api::Status {
            hosts: vec![
                host("loud", "10.0.0.1:4000"),
                host("mute", "[fe80::1]:4000"),
                host("mapped", "[::ffff:10.0.0.1]:9"),
                host("unknown", ""),
            ],
            receiver: api::Receiver {
                rejected_by: vec![
                    rejects("10.0.0.1", 12, &[("malformed", 2), ("rate_limit", 10)]),
                    rejects("fe80::1", 1, &[("malformed", 1)]),
                    rejects("10.0.0.66\u{1b}[2J", 700, &[("rate_limit", 700)]),
                    rejects("others", 9, &[]),
                ],
                ..api::Receiver::default()
            },
            ..api::Status::default()
        };
        let mut text = Vec::new();
        write_hosts(&status, None, usize::MAX, &mut text).unwrap();
        write_no_hosts(&status, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).map(str::trim_end).collect();
        for (line, end) in lines.iter().zip([
            "10 datagrams over its source's limit",
            "none",
            "10 datagrams over its source's limit",
            "none",
            "10.0.0.66\\x1b[2J: 700 datagrams refused (700 rate_limit)",
            "no host    others: 9 datagrams refused",
        ]) {
            assert!(line.ends_with(end), "{line} does not end with {end}");
        }
        assert_eq!(lines.len(), 6, "{text}");
    }

    #[test]
    fn a_host_is_shown_with_its_share_of_all_cpus_and_its_busiest_process() {
        let lines = "{\"id\":\"aa\",\"busy_ratio\":0.123,\"top_name\":\"x\\u001b[2J\",\"top_cpu_pct\":99.96}\n\
                     {\"id\":\"bb\",\"busy_ratio\":null,\"top_name\":null,\"top_cpu_pct\":null}\n\
                     {\"id\":\"new\"}\n\
                     {\"id\":\"cc\",\"hostname\":\"gone\\u001b\",\"trust\":\"local\",\"state\":\"stored\",\"received_ns\":1750000000000000000}\n";
        let host = |id: &str| api::Host { id: id.into(), ..api::Host::default() };
        let status =
            api::Status { hosts: vec![host("aa"), host("bb"), host("new")], ..api::Status::default() };
        let mut text = Vec::new();
        write_hosts(&status, Some(&Listed::of_lines(lines.as_bytes(), None)), usize::MAX, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("BUSY") && lines[0].contains("BUSIEST"), "{text}");
        assert!(lines[1].contains("x\\x1b[2J 100.0 %  12.3 %"), "{text}");
        let cells: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(&cells[..6], ["(no", "name)", "bb", "-", "-", "0"], "{text}");
        // It was in the receiver's store only, so this table did not have it.
        assert!(lines[4].starts_with("gone\\x1b") && lines[4].contains("until 2025-06-15 "), "{text}");
    }

    /// They were turned, one column a host and eleven lines each.
    #[test]
    fn hosts_are_lines_at_any_width_and_the_less_important_columns_are_left_out() {
        let day_ns = 86_400_000_000_000;
        let host = |name: &str, id: &str, source: &str, address: &str| api::Host {
            hostname: name.into(),
            id: id.repeat(16),
            trust: "authenticated".into(),
            source: source.into(),
            address: address.into(),
            thread_count: 1234,
            received_wall_ns: 2_000 * day_ns,
            ..api::Host::default()
        };
        let status = api::Status {
            now_wall_ns: 2_000 * day_ns + 1_000_000_000,
            hosts: vec![
                host("board5", "ab", "linux-bpf", "192.168.100.217:40312"),
                host(
                    "=cmd()'; DROP TABLE hosts;--",
                    "cd",
                    "linux-procfs",
                    "[fe80::1ff:fe23:4567:890a]:40312",
                ),
            ],
            ..api::Status::default()
        };
        let busy = |name: &str| Busy { all: "12.3 %".into(), busiest: format!("{name} 99.9 %") };
        let listed = Listed {
            busy: [("ab".repeat(16), busy("cc1plus")), ("cd".repeat(16), busy("a long name of a program"))]
                .into(),
            stored: vec![StoredHost {
                name: "old-board".into(),
                id: "ef".repeat(16),
                trust: "unauthenticated".into(),
                last_ns: 1_990 * day_ns,
            }],
            ..Listed::default()
        };
        let written = |columns| {
            let mut text = Vec::new();
            write_hosts(&status, Some(&listed), columns, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        for columns in [40, 60, 80, 100, 120, 140, 200, usize::MAX] {
            let text = written(columns);
            assert_eq!(text.lines().count(), 4, "{columns}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
            for part in ["HOST", "BUSY", "SEEN", "LOSS", "12.3 %", "1 s ago"] {
                assert!(text.contains(part), "{columns}: {text}");
            }
        }
        let narrow = written(80);
        assert!(narrow.contains("10 d") && narrow.contains("TRUST") && !narrow.contains("ID"), "{narrow}");
        assert!(written(usize::MAX).contains("until 1975-06-14"), "{}", written(usize::MAX));
    }

    /// These were tables of forty columns, turned, with ids and nanoseconds.
    #[test]
    fn a_sorted_list_and_the_busiest_processes_are_tables_for_people() {
        let lines = b"{\"id\":\"bb\",\"busy_ratio\":0.9}\n{\"id\":\"cc\",\"state\":\"stored\",\"hostname\":\"gone\"}\n{\"id\":\"aa\"}\n";
        let host =
            |id: &str| api::Host { id: id.into(), hostname: format!("host-{id}"), ..api::Host::default() };
        let status =
            api::Status { hosts: vec![host("aa"), host("bb"), host("other")], ..api::Status::default() };
        let mut text = Vec::new();
        write_hosts(&status, Some(&Listed::of_lines(lines, None)), 80, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let first: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(first, ["HOST", "host-bb", "gone", "host-aa"], "{text}");

        let lines = b"{\"hostname\":\"a\\u001b\",\"key\":\"7-99\",\"name\":\"=cmd()\",\"container\":\"\",\"cpu_pct\":54.96,\"host_pct\":null}\n";
        let mut text = Vec::new();
        write_busiest(lines, None, 80, &mut text).unwrap();
        let expected = "HOST   PROCESS  PID  %CPU\na\\x1b  =cmd()     7  55.0\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    /// A host had no LOSS exactly where there was much of it.
    #[test]
    fn losses_are_shown_at_every_width_whatever_the_order() {
        let loss = LossCounts {
            snapshots_lost: 12,
            snapshots_partial: 3,
            rejected: 40,
            store_dropped: 14,
            ..LossCounts::default()
        };
        let clock =
            Some(api::Clock { round_trip_ns: 400_000, drift_ppb: Some(-1_500), ..api::Clock::default() });
        let host = api::Host {
            hostname: "a-long-name-of-a-board".into(),
            id: "ab".repeat(16),
            trust: "authenticated".into(),
            source: "linux-procfs".into(),
            address: "[fe80::1ff:fe23:4567:890a]:40312".into(),
            thread_count: 1234,
            clock_offset_ns: -2_000_000,
            clock,
            loss,
            ..api::Host::default()
        };
        let status = api::Status { hosts: vec![host], ..api::Status::default() };
        let row = r#"{"id":"ID","busy_ratio":0.5,"minute_busy_ratio":0.111,"minute_peak_ratio":0.222,"minute_ready":3.333,"minute_run_queue_per_cpu":4.444,"health":"silent, loss","unattributed_ratio":-0.0555,"agent":"cpumon-agent 1.2.3","top_name":"cc","top_cpu_pct":6.6}"#;
        let row = row.replace("ID", &"ab".repeat(16));
        let orders = [
            (None, "BUSY", "50.0 %"),
            (Some(HostOrder::Busy), "1 MIN", "11.1 %"),
            (Some(HostOrder::Peak), "PEAK", "22.2 %"),
            (Some(HostOrder::Ready), "READY", "3.33"),
            (Some(HostOrder::RunQueue), "RQ/CPU", "4.44"),
            (Some(HostOrder::Health), "HEALTH", "silent, "),
            (Some(HostOrder::Ledger), "UNATTR", "-5.55 %"),
            (Some(HostOrder::Agent), "AGENT", "cpumon-"),
            (Some(HostOrder::Top), "BUSIEST", "cc 6.6 %"),
            (Some(HostOrder::Threads), "THREADS", "1234"),
            (Some(HostOrder::ClockOffset), "CLOCK", "-0.002 s"),
            (Some(HostOrder::LastSeen), "SEEN", "0 s ago"),
            (Some(HostOrder::Name), "HOST", "a-long-"),
            (Some(HostOrder::Loss), "LOSS", "69"),
        ];
        for columns in 40..=200 {
            for (sort, title, cell) in orders {
                let mut text = Vec::new();
                write_hosts(&status, Some(&Listed::of_lines(row.as_bytes(), sort)), columns, &mut text)
                    .unwrap();
                let text = String::from_utf8(text).unwrap();
                let is_in = |title: &str| text.lines().next().unwrap().contains(title);
                assert!(is_in("LOSS") && is_in("SEEN") && is_in(title), "{columns} {sort:?}: {text}");
                let has_loss = text.contains("  69\n")
                    || text.contains("12 lost, 3 partial, 40 rejected, 14 not stored");
                assert!(has_loss && (title == "LOSS" || text.contains(cell)), "{columns} {sort:?}: {text}");
                let is_fitting = text.lines().all(|line| line.chars().count() <= columns);
                assert!(is_fitting, "{columns} {sort:?}: {text}");
            }
            let mut text = Vec::new();
            write_hosts(&status, None, columns, &mut text).unwrap();
            assert!(String::from_utf8(text).unwrap().contains("LOSS"), "{columns}: status");
        }
    }

    /// It was `no host matches`, of no words, and the senders that are no hosts were left out.
    #[test]
    fn a_receiver_without_hosts_says_so_without_words_of_a_search() {
        let rejects = api::Rejects {
            source: "10.0.0.66".into(),
            count: 7,
            by_kind: BTreeMap::new(),
            ..api::Rejects::default()
        };
        let receiver = api::Receiver { rejected_by: vec![rejects], ..api::Receiver::default() };
        let status = api::Status { receiver, ..api::Status::default() };
        let written = |search: Option<&str>| {
            let mut text = Vec::new();
            let listed = Listed::of_lines(b"", Some(HostOrder::Busy));
            write_listed(&status, &listed, search, 80, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let text = written(None);
        let expected = "no host has reported yet\nno host    10.0.0.66: 7 datagrams refused\n";
        assert_eq!(text, expected);
        assert_eq!(written(Some("a\u{1b}")), "no host matches a\\x1b\n");
        let busiest = |search: Option<&str>| {
            let mut text = Vec::new();
            write_busiest(b"", search, 80, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(busiest(None), "no process ran on a host that reports\n");
        assert_eq!(busiest(Some("x")), "no process ran on a host that reports and matches x\n");
    }

    #[test]
    fn offsets_of_clocks_read_well() {
        let shown =
            [-1_500_000_000, 3_599_000_000_000, -12_000_000_000_000, -720_000_000_000_000_000, i64::MIN]
                .map(show_offset);
        assert_eq!(shown, ["-1.500 s", "+3599.000 s", "-3 h 20 min", "-8333 d 8 h", "-106751 d 23 h"]);
        let clock = api::Clock { round_trip_ns: 400_000, drift_ppb: Some(-1_500), ..api::Clock::default() };
        let host = |clock_offset_ns, clock| api::Host { clock_offset_ns, clock, ..api::Host::default() };
        let shown = [
            host(-480_000, None),
            host(-1_500_000, None),
            host(0, Some(api::Clock { drift_ppb: None, ..clock })),
            host(-2_000_000, Some(clock)),
            host(300_000, Some(api::Clock { round_trip_ns: 40_000_000, ..clock })),
        ]
        .map(|host| show_clock(&host)[0].clone());
        assert_eq!(
            shown,
            [
                "~< 1 ms",
                "~-0.002 s",
                "< 1 ms ±0.2 ms",
                "-0.002 s ±0.2 ms, 1.5 ppm slow",
                "+0.000 s ±20.0 ms, 1.5 ppm slow"
            ]
        );
    }
}
