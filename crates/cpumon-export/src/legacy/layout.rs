//! What the layouts of the two years are, and which lines they have.

use std::io::{self, Write};

use cpumon_model::{Delta, Interval, ProcessInterval, ThreadInterval};
use cpumon_store::What;

use super::text::{duration_ms, ms, ticks, write_clock, write_quoted};
use crate::source::Source;
use crate::{ExportError, Kind, LegacyYear};

const PROCESSES_2012: &str = "Process;ProcID;User;Time;Duration;Idx\r\n";
const PROCESSES_2013: &str = "RemoteIP;Process;ProcID;User;Time;Duration;Idx\r\n";
const THREADS: &str = "ThreadID;ProcID;user;kernel;duration;timestamp;idx;\r\n";

pub(crate) enum Layout {
    Pivot,
    Rows(RowLayout),
}

/// The layout of a kind; an error if there is none.
pub(crate) fn layout_of(source: &Source<'_>, year: LegacyYear, kind: Kind) -> Result<Layout, ExportError> {
    let layout = match kind {
        Kind::Pivot => Layout::Pivot,
        Kind::Processes => Layout::Rows(RowLayout { year, what: What::Processes }),
        Kind::Threads => Layout::Rows(RowLayout { year, what: What::Threads }),
        Kind::Cgroups => return Err(ExportError::NoLegacyLayout { kind: "cgroups" }),
        Kind::Ledger => return Err(ExportError::NoLegacyLayout { kind: "ledger" }),
        Kind::Compare => return Err(ExportError::NoLegacyLayout { kind: "compare" }),
    };
    if year == LegacyYear::Y2012 && source.hosts.len() > 1 {
        return Err(ExportError::ManyHosts { known: source.known_hosts() });
    }
    Ok(layout)
}

/// Rows of processes or of threads.
#[derive(Copy, Clone)]
pub(crate) struct RowLayout {
    year: LegacyYear,
    pub what: What,
}

impl RowLayout {
    /// The first line.
    pub fn header(self) -> &'static str {
        match (self.what, self.year) {
            (What::Threads, _) => THREADS,
            (_, LegacyYear::Y2012) => PROCESSES_2012,
            (_, LegacyYear::Y2013) => PROCESSES_2013,
        }
    }

    /// Writes the line of a process.
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

/// Writes the line of a thread.
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
