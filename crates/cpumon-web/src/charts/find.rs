//! Who a chart is of. In: names, ids, keys as people write them. Out: a host, a process; or what else could have been meant.

use axum::http::StatusCode;
use cpumon_export::chart::ChartQuery;
use cpumon_model::{HostStatus, ProcessKey};

use super::Asked;
use crate::history::{By, Past, Shown, Sort, landscape};
use crate::problem::Problem;
use crate::routes::process_key;

/// Processes among which a name or a pid is looked for.
const MAX_CANDIDATES: usize = 20_000;
/// Keys told when several processes could have been meant.
const MAX_TOLD: usize = 8;

/// The host that a chart of one is of; without a name, the only one there is.
pub(super) fn host(past: &Past, query: &ChartQuery) -> Result<HostStatus, Problem> {
    match query.hosts.as_slice() {
        [] => {}
        [one] => return past.find(one),
        several => {
            let (view, count) = (query.view.name(), several.len());
            let detail = format!("The chart {view} is of one host, and {count} are named.");
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
    }
    let mut stored = past.stored()?;
    let names: Vec<String> = stored
        .iter()
        .take(MAX_TOLD)
        .map(|host| cpumon_model::escape(&host.info.hostname).to_string())
        .collect();
    match (stored.pop(), stored.is_empty()) {
        (Some(one), true) => past.find(&one.info.host.to_string()),
        (None, _) => Err(no_host()),
        (Some(_), false) => {
            let detail = format!("A chart is of one host, and there are several: {}.", names.join(", "));
            Err(Problem::new(StatusCode::BAD_REQUEST, detail).how("Choose one with --host."))
        }
    }
}

fn no_host() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "The store holds no host.")
}

/// The hosts of these names and ids, as they are named, each once; without any, all.
pub(super) fn hosts(past: &Past, wanted: &[String]) -> Result<Vec<HostStatus>, Problem> {
    let all = past.all()?;
    if wanted.is_empty() {
        return if all.is_empty() { Err(no_host()) } else { Ok(all) };
    }
    let mut found: Vec<HostStatus> = Vec::new();
    for text in wanted {
        // Ids of a long list need not be looked for one by one. What one host is called goes before the id of another.
        let by_id = |host: &&HostStatus| host.info.host.to_string() == *text;
        let is_name = all.iter().any(|host| *host.info.hostname == **text);
        let known = all.iter().find(by_id).filter(|_| !is_name);
        let host = known.map_or_else(|| past.find(text), |host| Ok(host.clone()))?;
        if found.iter().all(|one| one.info.host != host.info.host) {
            found.push(host);
        }
    }
    Ok(found)
}

impl Asked<'_> {
    /// The one process that is asked for.
    pub(super) fn one_process(&self) -> Result<ProcessKey, Problem> {
        match self.query.processes.as_slice() {
            [one] => self.process(one),
            _ => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                format!(
                    "The chart {} is of one process: name it, its pid, or its key.",
                    self.query.view.name()
                ),
            )),
        }
    }

    /// `PID-STARTNS`; or a pid or a name that only one process of the range has.
    fn process(&self, text: &str) -> Result<ProcessKey, Problem> {
        if let Ok(key) = process_key(text) {
            return Ok(key);
        }
        let pid: Option<u32> = text.parse().ok();
        let candidates = Shown { sort: Sort::Run, offset: 0, limit: MAX_CANDIDATES };
        let rows = landscape(self.past, self.host, self.range(1), By::Process, candidates)?.rows;
        let keyed = rows.into_iter().filter_map(|row| Some((process_key(&row.key?).ok()?, row.name)));
        let meant = keyed.filter(|(key, name)| pid.map_or_else(|| *name == text, |pid| key.pid == pid));
        let meant: Vec<ProcessKey> = meant.map(|(key, _)| key).collect();
        let shown = cpumon_model::escape(text);
        match meant.as_slice() {
            [one] => Ok(*one),
            [] => Err(Problem::new(
                StatusCode::NOT_FOUND,
                format!("No process {shown} did anything in this range."),
            )),
            several => {
                let keys = several.iter().take(MAX_TOLD).map(|key| crate::api::key_of_process(*key));
                let keys = keys.collect::<Vec<_>>().join(", ");
                let more = if several.len() > MAX_TOLD { ", …" } else { "" };
                let detail = format!("Several processes of this range are {shown}: {keys}{more}.");
                Err(Problem::new(StatusCode::BAD_REQUEST, detail).how("Use one of these keys."))
            }
        }
    }

    /// A process as a line: a key, the one of this pid, or all of a name together.
    pub(super) fn wish(&self, text: &str) -> Result<crate::history::Wish, Problem> {
        use crate::history::Wish;
        if process_key(text).is_ok() || text.parse::<u32>().is_ok() {
            return self.process(text).map(Wish::Process);
        }
        Ok(Wish::Name(text.to_owned()))
    }

    /// `web (pid 20)`.
    pub(super) fn process_title(&self, key: ProcessKey) -> Result<String, Problem> {
        let known = self.past.process(self.host.info.host, key)?;
        let Some((info, _)) = known else {
            return Err(Problem::new(StatusCode::NOT_FOUND, "No such process was ever kept of this host.")
                .how("/api/v1/hosts/{host}/landscape?by=process has the keys of a range."));
        };
        Ok(format!("{} (pid {})", info.name, key.pid))
    }
}
