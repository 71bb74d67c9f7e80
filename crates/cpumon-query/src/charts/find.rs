//! Which host and which process a chart is of: names, pids and keys as people write them are looked up.

use cpumon_model::{HostStatus, ProcessInterval, ProcessKey};

use super::query::ChartQuery;
use super::request::ChartRequest;
use crate::QueryError;
use crate::error::ProcessChoice;
use crate::history::{self, History, Selection};
use crate::hosts::only_host;
use crate::parse::parse_process_key;

/// Names and keys in an error.
const MAX_NAMED: usize = 8;
/// Of a command line, characters.
const MAX_COMMAND: usize = 60;

/// The host that a chart of one is of; without a name, the only one there is.
pub(super) fn host(history: &History, query: &ChartQuery) -> Result<HostStatus, QueryError> {
    match query.hosts.as_slice() {
        [] => {}
        [one] => return history.host(one),
        several => {
            return Err(QueryError::ManyHosts { view: query.view.name().into(), count: several.len() });
        }
    }
    // By its id once more: of a host that reports, the receiver knows more than the record says.
    history.host(&only_host("a chart", &history.stored()?)?.info.host.to_string())
}

impl ChartRequest<'_> {
    /// The one process that is asked for.
    pub(super) fn one_process(&self) -> Result<ProcessKey, QueryError> {
        match self.query.processes.as_slice() {
            [one] => self.process(one),
            _ => Err(QueryError::NotOneProcess { view: self.query.view.name().into() }),
        }
    }

    /// `PID-STARTNS`; or a pid or a name that only one process of the range has.
    fn process(&self, text: &str) -> Result<ProcessKey, QueryError> {
        if let Ok(key) = parse_process_key(text) {
            return Ok(key);
        }
        let pid: Option<u32> = text.parse().ok();
        // A sum of the range, and no plot of it: a plot looks up when each process began and ended.
        let mut processes =
            history::sum(self.history, self.host, self.plot(1).time(), false)?.interval.processes;
        processes.retain(|row| pid.map_or_else(|| *row.info.name == *text, |pid| row.key.pid == pid));
        let process = cpumon_model::escape(text).to_string();
        match processes.as_slice() {
            [one] => Ok(one.key),
            [] => Err(QueryError::NoProcess { process }),
            _ => self.which(process, processes),
        }
    }

    /// Which of several to choose from.
    fn which(&self, process: String, mut several: Vec<ProcessInterval>) -> Result<ProcessKey, QueryError> {
        let count = several.len();
        // Only theirs are looked up: a shell may have run 10,000 times.
        several.sort_by_key(|row| std::cmp::Reverse(row.key.start_ns));
        several.truncate(MAX_NAMED);
        let keys: Vec<ProcessKey> = several.iter().map(|row| row.key).collect();
        let began = self.history.began(self.host.info.host, &keys)?;
        let choice = |row: &ProcessInterval| ProcessChoice {
            key: row.key,
            began_ns: began.get(&row.key).copied(),
            run_ns: row.delta.run_ns,
            command: row.info.cmdline.chars().take(MAX_COMMAND).collect(),
        };
        let mut newest: Vec<_> = several.iter().map(choice).collect();
        newest.sort_by_key(|one| std::cmp::Reverse((one.began_ns, one.run_ns)));
        Err(QueryError::WhichProcess { process, count, newest })
    }

    /// A process as a line: a key, the one of this pid, or all of a name together.
    pub(super) fn selection(&self, text: &str) -> Result<Selection, QueryError> {
        if parse_process_key(text).is_ok() || text.parse::<u32>().is_ok() {
            return self.process(text).map(Selection::Process);
        }
        Ok(Selection::Name(text.to_owned()))
    }

    /// `web (pid 20)`.
    pub(super) fn process_title(&self, key: ProcessKey) -> Result<String, QueryError> {
        let known = self.history.process(self.host.info.host, key)?;
        let (info, _) = known.ok_or(QueryError::UnknownProcess)?;
        Ok(format!("{} (pid {})", info.name, key.pid))
    }
}
