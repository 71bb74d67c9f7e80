//! `cpumon hosts` of a receiver: a table with losses and clocks, or the list of the page's table.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use anyhow::Context;
use cpumon_export::Format;
use cpumon_model::{HostStatus, LossCounts, counted, escape};
use cpumon_query::fields::{Field, decimal, name_text};
use cpumon_query::fleet::HostOrder;
use cpumon_query::status;
use serde_json::{Value, json};

use crate::cli::{HostsArgs, OutputFormat};
use crate::client::Client;
use crate::exit::{Outcome, Usage, say};
use crate::output::{terminal_columns, write_columns, write_json};
use crate::when;

pub fn hosts(args: &HostsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let client = Client::new(&args.url, &args.access).map_err(Usage)?;
    let columns = terminal_columns();
    let words = args.search.as_deref().filter(|words| !words.trim().is_empty());
    let is_empty = match args.format.get() {
        OutputFormat::Table if args.busiest => {
            let lines = client.fleet_file(&query(args, "jsonl"))?;
            write_busiest(&lines, words, columns, out).context("cannot write the hosts")?;
            rows_of(&lines).next().is_none()
        }
        OutputFormat::Table => {
            let status = client.status()?;
            let rows = rows_of(&client.fleet_file(&query(args, "jsonl"))?).collect();
            let listed = Listed { rows, sort: args.sort, has_order: args.wants_fleet() };
            write_listed(&status, &listed, words, columns, out).context("cannot write the hosts")?;
            listed.is_empty()
        }
        OutputFormat::Json if !args.wants_fleet() => {
            let status = client.status()?;
            let lines = client.fleet_file(&query(args, "jsonl"))?;
            let stored = rows_of(&lines).filter(is_stored).map(|row| {
                json!({"hostname": row["hostname"], "id": row["id"], "trust": row["trust"], "last_ns": last_ns(&row)})
            });
            let stored: Vec<Value> = stored.collect();
            if status.hosts.is_empty() && stored.is_empty() {
                say(&nothing(None, false));
            }
            let reporting = status::Hosts { total: status.hosts.len(), hosts: status.hosts };
            write_json(&AllHosts { reporting, stored }, out)?;
            false
        }
        format => {
            let name = format.file().unwrap_or(Format::Jsonl).name();
            out.write_all(&client.fleet_file(&query(args, name))?).context("cannot write the hosts")?;
            let is_empty = rows_of(&client.fleet_file(&query(args, "jsonl"))?).next().is_none();
            if is_empty {
                say(&nothing(words, args.busiest));
            }
            is_empty
        }
    };
    Ok(if words.is_some() && is_empty { Outcome::NothingFound } else { Outcome::Done })
}

/// Instead of rows, where there are none, or where the words of a search match none.
fn nothing(search: Option<&str>, is_busiest: bool) -> String {
    match (search, is_busiest) {
        (Some(words), true) => format!("no process ran on a host that reports and matches {}", escape(words)),
        (Some(words), false) => format!("no host matches {}", escape(words)),
        (None, true) => "no process ran on a host that reports".to_owned(),
        (None, false) => "no host has reported yet".to_owned(),
    }
}

/// Parameters for the receiver, which filters and sorts.
fn query<'a>(args: &'a HostsArgs, format: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut query = vec![("format", format), ("search", args.search.as_deref().unwrap_or_default())];
    query.extend(args.sort.map(|sort| ("sort", sort.name())));
    query.extend(args.reverse.then_some(("reverse", "true")));
    query.extend(args.busiest.then_some(("busiest", "true")));
    query
}

/// Parses JSON lines; a line that is not JSON is skipped.
fn rows_of(lines: &[u8]) -> impl Iterator<Item = Value> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

/// The table, or that no host matches the words; with all hosts also senders without a host.
fn write_listed(
    status: &status::Status,
    listed: &Listed,
    search: Option<&str>,
    columns: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    match search {
        Some(_) if listed.is_empty() => writeln!(out, "{}", nothing(search, false)),
        Some(_) => write_hosts(status, Some(listed), columns, out),
        None => {
            if status.hosts.is_empty() && !listed.rows.iter().any(is_stored) {
                writeln!(out, "{}", nothing(None, false))?;
            } else {
                write_hosts(status, Some(listed), columns, out)?;
            }
            write_no_hosts(status, out)
        }
    }
}

/// The busiest processes of all hosts, or of those that match the words.
fn write_busiest(lines: &[u8], search: Option<&str>, columns: usize, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<Value> = rows_of(lines).collect();
    if rows.is_empty() {
        return writeln!(out, "{}", nothing(search, true));
    }
    let pid = |row: &Value| escape(text(row, "key").split('-').next().unwrap_or_default()).to_string();
    let mut fields = vec![
        Field::shown("HOST", 0, |row| name_text(text(row, "hostname"))).left(),
        Field::shown("PROCESS", 0, |row| name_text(text(row, "name"))).left(),
    ];
    if rows.iter().any(|row| !text(row, "container").is_empty()) {
        fields.push(Field::shown("CONTAINER", 3, |row| escape(text(row, "container")).to_string()).left());
    }
    fields.extend([
        Field::shown("PID", 2, pid),
        Field::shown("%CPU", 0, |row| decimal(number(row, "cpu_pct"), 1)),
        Field::shown("%HOST", 1, |row| decimal(number(row, "host_pct"), 1)),
    ]);
    write_columns(&fields, &rows, columns, out)
}

/// `hosts --json`: those that report as the API has them, and those that only the store has.
#[derive(Debug, serde::Serialize)]
struct AllHosts {
    #[serde(flatten)]
    reporting: status::Hosts,
    stored: Vec<Value>,
}

/// Whether only the store has the row's host: it did not report since the receiver started.
fn is_stored(row: &Value) -> bool {
    text(row, "state") == "stored"
}

/// End of its data, ns since the UNIX epoch.
fn last_ns(row: &Value) -> i64 {
    row.get("received_ns").and_then(Value::as_i64).unwrap_or(0)
}

/// Columns of the receiver's list of hosts that its status lacks.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    rows: Vec<Value>,
    /// Their order, if the user chose it.
    sort: Option<HostOrder>,
    /// The table has these hosts alone, in their order. Else it is by name, and those of the store come last.
    has_order: bool,
}

impl Listed {
    /// Whether no host is wanted.
    fn is_empty(&self) -> bool {
        self.has_order && self.rows.is_empty()
    }
}

#[derive(Debug)]
struct HostLine<'l> {
    id: String,
    /// The receiver's host; `None` if only the store has it.
    host: Option<&'l HostStatus>,
    /// Row of the list; `None` if the host came after the list was made.
    row: Option<&'l Value>,
}

impl<'l> HostLine<'l> {
    fn all(status: &'l status::Status, listed: Option<&'l Listed>) -> Vec<Self> {
        let rows = listed.map_or(&[][..], |listed| &listed.rows);
        let places: HashMap<&str, usize> = rows.iter().map(|row| text(row, "id")).zip(0..).collect();
        let place = |id: &str| places.get(id).copied();
        let reporting = status.hosts.iter().map(|host| {
            let id = host.info.host.to_string();
            Self { row: place(&id).and_then(|at| rows.get(at)), id, host: Some(host) }
        });
        let stored = rows.iter().filter(|row| is_stored(row));
        let stored = stored.map(|row| Self { id: text(row, "id").to_owned(), host: None, row: Some(row) });
        let mut lines: Vec<Self> = reporting.chain(stored).collect();
        if listed.is_some_and(|listed| listed.has_order) {
            lines.retain(|line| line.row.is_some());
            lines.sort_by_key(|line| place(&line.id));
        }
        lines
    }

    /// The text for a host that reports, else `-`.
    fn of_host(&self, text: impl Fn(&HostStatus) -> String) -> String {
        self.host.map_or_else(|| "-".to_owned(), text)
    }

    /// `-` of a host that is not in the list.
    fn of_row(&self, text: impl Fn(&Value) -> String) -> String {
        self.row.map_or_else(|| "-".to_owned(), text)
    }

    /// When its data came last: in full, and as how long ago.
    fn seen(&self, now_ns: i64) -> [String; 2] {
        let before_s = |ns: i64| now_ns.saturating_sub(ns) / 1_000_000_000;
        if let Some(host) = self.host {
            let seen = format!("{} s ago", before_s(host.received_wall_ns));
            return [seen.clone(), seen];
        }
        let last_ns = self.row.map_or(0, last_ns);
        let before_s = before_s(last_ns).max(0).unsigned_abs();
        [format!("until {}", when::show_clock(last_ns, true)), format!("{} ago", cpumon_tui::ago(before_s))]
    }
}

/// The busiest process with its share of one CPU.
fn busiest(row: &Value) -> String {
    let top = row.get("top_name").and_then(Value::as_str).zip(number(row, "top_cpu_pct"));
    top.map_or_else(|| "-".to_owned(), |(name, share)| format!("{} {share:.1} %", name_text(name)))
}

/// A line a host; with `listed` also how busy each is, and those that only the store has. On a narrow terminal the less important
/// columns are left out.
pub fn write_hosts(
    status: &status::Status,
    listed: Option<&Listed>,
    columns: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let lines = HostLine::all(status, listed);
    let sort = listed.and_then(|listed| listed.sort);
    // The column of the order is always shown.
    let rank = |order, rank| if sort == Some(order) { 0 } else { rank };
    let none = || ["-"; 2].map(str::to_owned);
    let clock = |line: &HostLine<'_>| line.host.map_or_else(none, show_clock);
    let lost = |line: &HostLine<'_>| {
        line.host
            .map_or_else(none, |host| show_loss(&host.loss, over_limit(host, &status.receiver.rejected_by)))
    };
    let mut fields = vec![
        Field::shown("HOST", 0, |line: &HostLine<'_>| {
            line.host.map_or_else(
                || line.of_row(|row| name_text(text(row, "hostname"))),
                |host| name_text(&host.info.hostname),
            )
        })
        .left(),
        Field::shown("ID", 8, |line: &HostLine<'_>| line.id.clone()).whole(),
        Field::shown("TRUST", 2, |line: &HostLine<'_>| {
            let of_row = || line.of_row(|row| escape(text(row, "trust")).to_string());
            line.host.map_or_else(of_row, |host| host.trust.name().to_owned())
        })
        .whole(),
        Field::shown("SOURCE", 7, |line: &HostLine<'_>| line.of_host(|host| host.source.name().to_owned()))
            .whole(),
        Field::shown("ADDRESS", 5, |line: &HostLine<'_>| {
            line.of_host(|host| escape(&host.address).to_string())
        })
        .whole(),
    ];
    if listed.is_some() {
        let busiest =
            Field::shown("BUSIEST", rank(HostOrder::Top, 3), |line: &HostLine<'_>| line.of_row(busiest));
        let figure = sort.and_then(figure_of_order);
        let is_wider = figure.is_some()
            || matches!(sort, Some(HostOrder::Top | HostOrder::Threads | HostOrder::ClockOffset));
        fields.push(busiest.left());
        fields.push(Field::shown("BUSY", u8::from(is_wider), |line: &HostLine<'_>| {
            line.of_row(|row| percent(row, "busy_ratio", 1))
        }));
        if let Some((title, cell)) = figure {
            let field = Field::shown(title, 0, move |line: &HostLine<'_>| line.of_row(cell));
            // Agents choose their texts: these are cut as names are.
            let is_text = matches!(sort, Some(HostOrder::Health | HostOrder::Agent));
            fields.push(if is_text { field.left() } else { field });
        }
    }
    fields.extend([
        Field::shown("THREADS", rank(HostOrder::Threads, 4), |line: &HostLine<'_>| {
            line.of_host(|host| host.thread_count.to_string())
        }),
        in_two("SEEN", 0, |line| line.seen(status.now_wall_ns)),
        in_two("CLOCK", rank(HostOrder::ClockOffset, 6), clock),
        in_two("LOSS", 0, lost),
    ]);
    write_columns(&fields, &lines, columns, out)
}

/// A column with a shorter text for where not all columns fit.
fn in_two<'f, 'l: 'f>(
    title: &'static str,
    rank: u8,
    texts: impl Fn(&HostLine<'l>) -> [String; 2] + Copy + 'f,
) -> Field<'f, HostLine<'l>> {
    let text = move |line: &HostLine<'l>, at: usize| texts(line).into_iter().nth(at).unwrap_or_default();
    Field::shown(title, rank, move |line| text(line, 0)).or_short(move |line| text(line, 1))
}

/// ` (2 bad_seal, 1 plain)`
pub fn show_kinds(kinds: &BTreeMap<String, u64>) -> String {
    let shown: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {}", escape(kind))).collect();
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) }
}

/// Sources of refused datagrams from whose address no host reports.
fn write_no_hosts(status: &status::Status, out: &mut dyn Write) -> io::Result<()> {
    let is_host = |source: &str| {
        ip_of(source).is_some_and(|ip| status.hosts.iter().any(|host| ip_of(&host.address) == Some(ip)))
    };
    for rejects in status.receiver.rejected_by.iter().filter(|rejects| !is_host(&rejects.source)) {
        let (source, kinds) = (escape(&rejects.source), show_kinds(&rejects.by_kind));
        writeln!(out, "no host    {source}: {} datagrams refused{kinds}", rejects.count)?;
    }
    Ok(())
}

/// The address behind `address:port`, or of a source.
fn ip_of(text: &str) -> Option<IpAddr> {
    let ip = text.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| text.parse());
    // An IPv4 sender may be listed by its IPv4-mapped address; both forms are one address.
    ip.ok().map(|ip: IpAddr| ip.to_canonical())
}

/// Datagrams refused from a host's address because it exceeded the rate limit.
fn over_limit(host: &HostStatus, rejected_by: &[status::Rejects]) -> u64 {
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
    let shown = counted(named);
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
fn show_clock(host: &HostStatus) -> [String; 2] {
    const SMALL_NS: u64 = 1_000_000;
    let is_exact = host.clock.is_none_or(|clock| clock.round_trip_ns / 2 < SMALL_NS);
    let offset_ns = host.clock_offset_ns();
    let offset = if is_exact && offset_ns.unsigned_abs() < SMALL_NS {
        "< 1 ms".to_owned()
    } else {
        show_offset(offset_ns)
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

/// A column: the title, and the cell of a row of the receiver's list.
type HostFigure = (&'static str, fn(&Value) -> String);

/// The figure of the list's order; `None`: the table has a column for it.
fn figure_of_order(order: HostOrder) -> Option<HostFigure> {
    Some(match order {
        // BUSY is for the last interval.
        HostOrder::Busy => ("1 MIN", |row| percent(row, "minute_busy_ratio", 1)),
        HostOrder::Peak => ("PEAK", |row| percent(row, "minute_peak_ratio", 1)),
        HostOrder::Ready => ("READY", |row| decimal(number(row, "minute_ready"), 2)),
        HostOrder::RunQueue => ("RQ/CPU", |row| decimal(number(row, "minute_run_queue_per_cpu"), 2)),
        HostOrder::Health => ("HEALTH", |row| text_or(row, "health", "ok")),
        HostOrder::Ledger => ("UNATTR", |row| percent(row, "unattributed_ratio", 2)),
        HostOrder::Agent => ("AGENT", |row| text_or(row, "agent", "-")),
        HostOrder::Name
        | HostOrder::Top
        | HostOrder::Threads
        | HostOrder::Loss
        | HostOrder::ClockOffset
        | HostOrder::LastSeen => return None,
    })
}

/// Empty where the row lacks it.
fn text<'r>(row: &'r Value, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn text_or(row: &Value, name: &str, none: &str) -> String {
    match text(row, name) {
        "" => none.to_owned(),
        text => escape(text).to_string(),
    }
}

fn number(row: &Value, name: &str) -> Option<f64> {
    row.get(name).and_then(Value::as_f64)
}

fn percent(row: &Value, name: &str, digits: usize) -> String {
    number(row, name).map_or_else(|| "-".to_owned(), |ratio| format!("{:.digits$} %", ratio * 100.0))
}

#[cfg(test)]
mod tests;
