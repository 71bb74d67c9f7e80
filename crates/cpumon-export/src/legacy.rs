//! The original receiver's pivot, processes and threads files, byte for byte, so that scripts written for them keep working.
//!
//! Fields are separated by `;`, lines end in CRLF, times are in ms, time stamps in ticks of 100 ns since 0001-01-01. Faults of
//! the original are not repeated: processes of one name add up in the pivot instead of hiding each other, every row is written
//! exactly once, and devices do not mix.

use std::io::{self, Write};

use cpumon_model::{Delta, Interval, IntervalView, ProcessKey, SourceKind, Value};
use cpumon_query::Past;
use cpumon_store::What;
use cpumon_store::legacy::SetOrder;

use crate::rows::PivotSink;
use crate::source::{Counter, Source};
use crate::{ExportError, ExportQuery, GroupBy, Kind, LegacyYear, PivotValue, Progress, Report, pivot};

const PROCESSES_HEADER: &str = "RemoteIP;Process;ProcID;User;Time;Duration;Idx\r\n";
const THREADS_HEADER: &str = "ThreadID;ProcID;user;kernel;duration;timestamp;idx;\r\n";
const NS_PER_MS: i64 = 1_000_000;
/// Ticks from 0001-01-01 to 1970-01-01.
const EPOCH_TICKS: i64 = 621_355_968_000_000_000;

pub(crate) enum Layout {
    Pivot,
    /// Rows of this depth, with this header.
    Rows(What, &'static str),
}

/// The layout of a kind; an error if there is none.
pub(crate) fn layout_of(source: &Source<'_>, year: LegacyYear, kind: Kind) -> Result<Layout, ExportError> {
    let layout = match kind {
        Kind::Pivot => Layout::Pivot,
        Kind::Processes => Layout::Rows(What::Processes, PROCESSES_HEADER),
        Kind::Threads => Layout::Rows(What::Threads, THREADS_HEADER),
        Kind::Ledger => return Err(ExportError::NoLegacyLayout { kind: "ledger" }),
        Kind::Compare => return Err(ExportError::NoLegacyLayout { kind: "compare" }),
    };
    if year == LegacyYear::Y2012 && source.hosts.len() > 1 {
        return Err(ExportError::ManyHosts { known: source.known_hosts() });
    }
    Ok(layout)
}

/// Writes the rows that `query` selects in the original's layout. Pivots are by name and hold user time, as the original's.
///
/// Hosts follow one another, each ascending in time. The layouts of 2012 and 2013 differ only in the pivot: that of 2013 begins
/// with `RemoteIP`. That of 2012 has no column for the device, so it fails for several devices.
pub fn legacy(
    reader: &dyn Past,
    year: LegacyYear,
    query: &ExportQuery,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let mut source = Source::open(reader, query, 1)?;
    source.only_active = true;
    let report = match layout_of(&source, year, query.kind)? {
        Layout::Pivot => {
            let by_name =
                ExportQuery { group_by: GroupBy::Name, pivot_value: PivotValue::User, ..query.clone() };
            pivot::run(reader, &by_name, &mut LegacyPivot { year, out }, progress)?
        }
        Layout::Rows(what, header) => rows(&source, what, header, out, progress)?,
    };
    out.flush()?;
    Ok(report)
}

/// The interval's time stamp as the original wrote it: that of the device, or UTC if it sent none.
fn ticks(interval: &Interval) -> i64 {
    interval.v1_ticks.unwrap_or(interval.end.wall_ns.div_euclid(100) + EPOCH_TICKS)
}

/// Rounded to the nearest ms.
fn ms(ns: i64) -> i64 {
    ns.saturating_add(NS_PER_MS / 2).div_euclid(NS_PER_MS)
}

fn duration_ms(interval: &Interval) -> i64 {
    i64::try_from(interval.duration_ns()).map_or(i64::MAX, ms)
}

/// Writes a name. The original quoted nothing, so a separator in a name broke the line: such a name, and one that a spreadsheet
/// would run as a formula, is put between apostrophes.
fn write_name(out: &mut dyn Write, name: &str) -> io::Result<()> {
    if name.contains([';', '\'', '"', '\r', '\n']) || crate::csv::is_formula(name) {
        write_quoted(out, name)
    } else {
        out.write_all(name.as_bytes())
    }
}

/// Writes a name between apostrophes, with apostrophes in it doubled and line ends spelled out.
fn write_quoted(out: &mut dyn Write, name: &str) -> io::Result<()> {
    out.write_all(b"'")?;
    for c in name.chars() {
        match c {
            '\'' => out.write_all(b"''")?,
            '\r' => out.write_all(b"\\r")?,
            '\n' => out.write_all(b"\\n")?,
            c => out.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?,
        }
    }
    out.write_all(b"'")
}

struct LegacyPivot<'w> {
    year: LegacyYear,
    out: &'w mut dyn Write,
}

impl PivotSink for LegacyPivot<'_> {
    fn header(&mut self, columns: &[String]) -> io::Result<()> {
        if self.year == LegacyYear::Y2013 {
            self.out.write_all(b"'RemoteIP';")?;
        }
        self.out.write_all(b"'Time';")?;
        for name in columns {
            write_quoted(self.out, name)?;
            self.out.write_all(b";")?;
        }
        self.out.write_all(b"\r\n")
    }

    fn row(&mut self, host: &str, view: &IntervalView<'_>, cells: &[Value<'_>]) -> io::Result<()> {
        if self.year == LegacyYear::Y2013 {
            write_name(self.out, host)?;
            self.out.write_all(b";")?;
        }
        write!(self.out, "{};", ticks(view.interval()))?;
        for cell in cells {
            if let Value::Int(ns) = cell {
                write!(self.out, "{}", ms(*ns))?;
            }
            self.out.write_all(b";")?;
        }
        self.out.write_all(b"\r\n")
    }
}

/// `Idx` of process rows: the original's own number for imported data, else a running number.
struct Numbering {
    last: i64,
}

impl Numbering {
    /// `Idx` of each process row, and the position of each thread row in the original's order.
    fn of(&mut self, source: &Source<'_>, interval: &Interval) -> Result<SetOrder, ExportError> {
        let threads = u32::try_from(interval.threads.len()).unwrap_or(u32::MAX);
        let mut order = SetOrder { process_idx: Vec::new(), thread_position: (0..threads).collect() };
        if let Some(stored) = source.stored_order(interval)? {
            order.process_idx = stored.process_idx;
            // Where not all threads were read, the stored positions are of other rows.
            if stored.thread_position.len() == interval.threads.len() {
                order.thread_position = stored.thread_position;
            }
        } else {
            order.process_idx = (self.last..).skip(1).take(interval.processes.len()).collect();
        }
        // Numbers go on behind imported ones, so none is used twice.
        self.last = order.process_idx.iter().copied().fold(self.last, i64::max);
        Ok(order)
    }
}

fn rows(
    source: &Source<'_>,
    what: What,
    header: &str,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExportError> {
    let mut counter = Counter::new(progress);
    let mut numbering = Numbering { last: 0 };
    out.write_all(header.as_bytes())?;
    for host in &source.hosts {
        let label = source.label(host);
        let before = counter.report.intervals;
        source.walk(host, what, &mut counter, &mut |interval, report| {
            let order = numbering.of(source, interval)?;
            report.intervals += 1;
            if what == What::Threads {
                write_threads(interval, &order, out)?;
                report.rows += interval.threads.len() as u64;
            } else {
                write_processes(&label, interval, &order, out)?;
                report.rows += interval.processes.len() as u64;
            }
            Ok(())
        })?;
        counter.report.hosts += u64::from(counter.report.intervals > before);
    }
    Ok(counter.report)
}

fn write_processes(host: &str, interval: &Interval, order: &SetOrder, out: &mut dyn Write) -> io::Result<()> {
    let mut rows: Vec<_> = order.process_idx.iter().zip(&interval.processes).collect();
    // As in the original's files, rows follow by their number; an interval has them by key.
    rows.sort_by_key(|(idx, _)| **idx);
    let (time, duration) = (ticks(interval), duration_ms(interval));
    for (idx, row) in rows {
        write_name(out, host)?;
        out.write_all(b";")?;
        write_name(out, &row.info.name)?;
        write!(out, ";{};{};{time};{duration};{idx}\r\n", row.key.pid, ms(row.delta.user_ns))?;
    }
    Ok(())
}

fn write_threads(interval: &Interval, order: &SetOrder, out: &mut dyn Write) -> io::Result<()> {
    let idx_of = |key: ProcessKey| {
        let at = interval.processes.binary_search_by_key(&key, |row| row.key).ok()?;
        order.process_idx.get(at).copied()
    };
    // The original listed threads under their process, in the order in which the device sent them.
    let mut rows: Vec<_> = order
        .thread_position
        .iter()
        .zip(&interval.threads)
        .map(|(position, row)| (idx_of(row.process).unwrap_or(0), *position, row))
        .collect();
    rows.sort_by_key(|(idx, position, _)| (*idx, *position));
    let (time, duration) = (ticks(interval), duration_ms(interval));
    for (idx, _, row) in rows {
        let Delta { user_ns, system_ns, .. } = row.delta;
        let (tid, pid) = (row.key.tid, row.process.pid);
        write!(out, "{tid};{pid};{};{};{duration};{time};{idx};\r\n", ms(user_ns), ms(system_ns))?;
    }
    Ok(())
}

impl Source<'_> {
    /// The order in which the original stored the rows of an imported interval.
    fn stored_order(&self, interval: &Interval) -> Result<Option<SetOrder>, ExportError> {
        if interval.source != SourceKind::Legacy {
            return Ok(None);
        }
        let order = self.reader().legacy_order(interval.host, interval.end.wall_ns)?;
        Ok(order.filter(|order| order.process_idx.len() == interval.processes.len()))
    }
}
