//! The layouts of the two years and the forms of their lines: numbers, names and times of day. Names come from other
//! machines: one that would break a line is escaped.

use std::io::{self, Write};

use cpumon_model::{Delta, Interval, ProcessInterval, ThreadInterval};
use cpumon_store::What;

use crate::csv::is_formula;
use crate::source::ExportSource;
use crate::{ExportError, Kind, LegacyYear};

const PROCESSES_2012: &str = "Process;ProcID;User;Time;Duration;Idx\r\n";
const PROCESSES_2013: &str = "RemoteIP;Process;ProcID;User;Time;Duration;Idx\r\n";
const THREADS: &str = "ThreadID;ProcID;user;kernel;duration;timestamp;idx;\r\n";

pub(crate) enum LegacyLayout {
    Pivot,
    Rows(RowLayout),
}

/// The layout of a kind; an error if there is none.
pub(crate) fn layout_of(
    source: &ExportSource<'_>,
    year: LegacyYear,
    kind: Kind,
) -> Result<LegacyLayout, ExportError> {
    let layout = match kind {
        Kind::Pivot => LegacyLayout::Pivot,
        Kind::Processes => LegacyLayout::Rows(RowLayout { year, what: What::Processes }),
        Kind::Threads => LegacyLayout::Rows(RowLayout { year, what: What::Threads }),
        Kind::Cgroups | Kind::Ledger | Kind::Compare => {
            return Err(ExportError::NoLegacyLayout { kind: kind.name() });
        }
    };
    if year == LegacyYear::Y2012 && source.hosts.len() > 1 {
        return Err(ExportError::ManyHosts { known: source.known_hosts() });
    }
    Ok(layout)
}

#[derive(Copy, Clone)]
pub(crate) struct RowLayout {
    year: LegacyYear,
    pub what: What,
}

impl RowLayout {
    pub fn header(self) -> &'static str {
        match (self.what, self.year) {
            (What::Threads, _) => THREADS,
            (_, LegacyYear::Y2012) => PROCESSES_2012,
            (_, LegacyYear::Y2013) => PROCESSES_2013,
        }
    }

    pub fn process(
        self,
        host: &str,
        interval: &Interval,
        row: &ProcessInterval,
        idx: i64,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if self.year == LegacyYear::Y2013 {
            write_quoted(out, host)?;
            out.write_all(b";")?;
        }
        write_quoted(out, &row.info.name)?;
        write!(out, ";{};{};", row.key.pid, ms(row.delta.user_ns))?;
        write_clock(out, ticks(interval))?;
        write!(out, ";{};{idx}\r\n", duration_ms(interval))
    }
}

pub(super) fn write_thread(
    interval: &Interval,
    row: &ThreadInterval,
    idx: i64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Delta { user_ns, system_ns, .. } = row.delta;
    let (tid, pid) = (row.key.tid, row.process.pid);
    write!(out, "{tid};{pid};{};{};{};", ms(user_ns), ms(system_ns), duration_ms(interval))?;
    write_clock(out, ticks(interval))?;
    write!(out, ";{idx};\r\n")
}

const NS_PER_MS: i64 = 1_000_000;
/// Ticks of 100 ns from 0001-01-01 to 1970-01-01.
const EPOCH_TICKS: i64 = 621_355_968_000_000_000;
const TICKS_PER_MS: i64 = 10_000;
const TICKS_PER_DAY: i64 = 86_400_000 * TICKS_PER_MS;

/// The interval's time stamp as the original wrote it: that of the device, or UTC if it sent none.
pub(super) fn ticks(interval: &Interval) -> i64 {
    interval.v1_ticks.unwrap_or(interval.end.wall_ns.div_euclid(100) + EPOCH_TICKS)
}

/// Rounded to the nearest ms.
pub(super) fn ms(ns: i64) -> i64 {
    ns.saturating_add(NS_PER_MS / 2).div_euclid(NS_PER_MS)
}

fn duration_ms(interval: &Interval) -> i64 {
    i64::try_from(interval.duration_ns()).map_or(i64::MAX, ms)
}

/// Writes a name in a row of a pivot. The original quoted nothing there, so a separator in a name broke the line: such a name,
/// and one that a spreadsheet would run as a formula, is put between apostrophes.
pub(super) fn write_pivot_name(out: &mut dyn Write, name: &str) -> io::Result<()> {
    if name.contains([';', '\'', '"', '\r', '\n']) || is_formula(name) {
        write_between(out, b'\'', name)
    } else {
        out.write_all(name.as_bytes())
    }
}

/// Writes a name between quotation marks, as in rows of processes. One that a spreadsheet would run as a formula gets a leading
/// apostrophe: quotation marks do not keep it from that.
fn write_quoted(out: &mut dyn Write, name: &str) -> io::Result<()> {
    if is_formula(name) {
        write_between(out, b'"', &format!("'{name}"))
    } else {
        write_between(out, b'"', name)
    }
}

/// Writes a name between two of `quote`, with those in it doubled and line ends spelled out.
pub(super) fn write_between(out: &mut dyn Write, quote: u8, name: &str) -> io::Result<()> {
    out.write_all(&[quote])?;
    for c in name.chars() {
        match c {
            '\r' => out.write_all(b"\\r")?,
            '\n' => out.write_all(b"\\n")?,
            c if c == char::from(quote) => out.write_all(&[quote, quote])?,
            c => out.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?,
        }
    }
    out.write_all(&[quote])
}

/// Writes the time of day of a time stamp as `hh:mm:ss.fff` on a twelve-hour clock without AM and PM, rounded down: 00:36 and
/// 12:36 are both `12:36`.
fn write_clock(out: &mut dyn Write, ticks: i64) -> io::Result<()> {
    let ms = ticks.rem_euclid(TICKS_PER_DAY) / TICKS_PER_MS;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    write!(out, "{:02}:{minute:02}:{second:02}.{:03}", (hour + 11) % 12 + 1, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(ticks: i64) -> String {
        let mut out = Vec::new();
        write_clock(&mut out, ticks).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_clock_has_twelve_hours_and_rounds_down() {
        // As the original wrote these two.
        assert_eq!(clock(631_771_077_815_940_000), "12:36:21.594");
        assert_eq!(clock(639_309_822_007_277_509), "10:10:00.727");
        assert_eq!(clock(0), "12:00:00.000");
        assert_eq!(clock(TICKS_PER_DAY - 1), "11:59:59.999");
        assert_eq!(clock(TICKS_PER_DAY / 2), "12:00:00.000");
        assert_eq!(clock(-1), "11:59:59.999");
        assert_eq!((clock(i64::MIN).len(), clock(i64::MAX).len()), (12, 12));
    }

    #[test]
    fn a_name_stays_one_field() {
        let quoted = |name| {
            let mut out = Vec::new();
            write_quoted(&mut out, name).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(quoted("NK.EXE"), "\"NK.EXE\"");
        assert_eq!(quoted("a\"b;c'd"), "\"a\"\"b;c'd\"");
        assert_eq!(quoted("two\r\nlines"), "\"two\\r\\nlines\"");
        assert_eq!(quoted("=cmd()"), "\"'=cmd()\"");
    }
}
