//! [`Answers`]: who answers questions about the past. [`History`] reads a store, or what a receiver has; a client asks a receiver over
//! HTTP. Both give the same answers, so a command that asks has the same output for both.

use cpumon_model::{HostId, HostStatus, Trust};
use cpumon_store::HostRecord;

use crate::history::{self, History, HostSeries, Lines, Selection, SeriesOptions};
use crate::hosts::{hosts, only_host};
use crate::json::{Gaps, TraceList};
use crate::ledger::LedgerSum;
use crate::report::{Findings, Report, ReportQuery};
use crate::time::{Page, PlotRange, TimeRange};
use crate::why::{Why, WhyQuery};
use crate::{QueryError, TaskKey, ledger, report, why};

const MAX_GAPS: usize = 10_000;
/// Traces of a host at most: more than a store has.
const MAX_TRACES: usize = 10_000;

/// Answers questions from a store or a receiver. Hosts are names or ids, as people write them; an empty list means all.
pub trait Answers {
    /// All hosts with stored data, by name.
    fn hosts(&self) -> Result<Vec<HostRecord>, QueryError>;
    /// Who used the CPU.
    fn report(&self, hosts: &[String], query: &ReportQuery) -> Result<Report, QueryError>;
    /// When and how much a program, a user or a container ran, over all that is stored.
    fn find(&self, hosts: &[String], text: &str, page: Page) -> Result<Findings, QueryError>;
    /// Why something on one host is slow, and who did it.
    fn why(&self, host: &str, query: &WhyQuery) -> Result<Why, QueryError>;
    /// Where the CPU time of each host went; `worst`: how many intervals with the most unattributed are listed.
    fn ledger(&self, hosts: &[String], range: TimeRange, worst: usize) -> Result<Vec<LedgerSum>, QueryError>;
    /// The holes in each host's time.
    fn gaps(&self, hosts: &[String], range: TimeRange, page: Page) -> Result<Vec<Gaps>, QueryError>;
    /// The traces of each host whose time touches a range.
    fn traces(&self, hosts: &[String], range: TimeRange, page: Page) -> Result<Vec<TraceList>, QueryError>;
    /// A host over time: these columns of table `host`.
    fn series(&self, host: HostId, range: PlotRange, columns: &[String]) -> Result<HostSeries, QueryError>;
    /// A task of a host over time, in one line: these columns.
    fn line(
        &self,
        host: HostId,
        task: TaskKey,
        range: PlotRange,
        columns: &[String],
    ) -> Result<Lines, QueryError>;

    /// The host of a question that names none: the machine of the store or of the receiver, else the only host there is. `what` is a
    /// question of one host, as in `a report`.
    fn usual_host(&self, what: &'static str) -> Result<HostId, QueryError> {
        let stored = self.hosts()?;
        let mut local = stored.iter().filter(|host| host.trust == Trust::Local);
        match (local.next(), local.next()) {
            (Some(one), None) => Ok(one.info.host),
            _ => only_host(what, &stored).map(|one| one.info.host),
        }
    }
}

impl Answers for History {
    fn hosts(&self) -> Result<Vec<HostRecord>, QueryError> {
        self.stored()
    }

    fn report(&self, wanted: &[String], query: &ReportQuery) -> Result<Report, QueryError> {
        report::report(self, &hosts(self, wanted)?, query)
    }

    fn find(&self, wanted: &[String], text: &str, page: Page) -> Result<Findings, QueryError> {
        report::find(self, &hosts(self, wanted)?, text, page)
    }

    fn why(&self, host: &str, query: &WhyQuery) -> Result<Why, QueryError> {
        why::why(self, &self.host(host)?, query)
    }

    fn ledger(
        &self,
        wanted: &[String],
        range: TimeRange,
        worst: usize,
    ) -> Result<Vec<LedgerSum>, QueryError> {
        ledger::ledger(self, &hosts(self, wanted)?, range, worst)
    }

    fn gaps(&self, wanted: &[String], range: TimeRange, page: Page) -> Result<Vec<Gaps>, QueryError> {
        let of_host = |host: HostStatus| {
            let gaps = self.gaps_of(host.info.host, range, MAX_GAPS)?;
            let (total, gaps) = (gaps.len(), page.of(gaps).collect());
            Ok(Gaps { host: host.info.host, name: host.info.hostname, total, gaps })
        };
        hosts(self, wanted)?.into_iter().map(of_host).collect()
    }

    fn traces(&self, wanted: &[String], range: TimeRange, page: Page) -> Result<Vec<TraceList>, QueryError> {
        let of_host = |host: HostStatus| {
            let traces = self.ask(|reader| reader.traces(Some(host.info.host), range, MAX_TRACES))?;
            let (total, traces) = (traces.len(), page.of(traces).collect());
            Ok(TraceList { host: host.info.host, name: host.info.hostname, total, traces })
        };
        hosts(self, wanted)?.into_iter().map(of_host).collect()
    }

    fn series(&self, host: HostId, range: PlotRange, columns: &[String]) -> Result<HostSeries, QueryError> {
        let options = SeriesOptions { columns, is_finest: false };
        history::series(self, &self.host(&host.to_string())?, range, options)
    }

    fn line(
        &self,
        host: HostId,
        task: TaskKey,
        range: PlotRange,
        columns: &[String],
    ) -> Result<Lines, QueryError> {
        let selection = match task {
            TaskKey::Process(key) => Selection::Process(key),
            TaskKey::Thread(key) => Selection::Thread { key, process: None },
        };
        history::lines(self, &self.host(&host.to_string())?, range, &[selection], columns)
    }
}
