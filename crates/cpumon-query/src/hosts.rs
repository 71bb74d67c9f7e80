//! Which hosts a chart or a report is of: names and ids as people write them are looked up.

use cpumon_model::HostStatus;
use cpumon_store::HostRecord;

use crate::QueryError;
use crate::history::History;

/// Names in an error.
const MAX_NAMED: usize = 8;

/// The only one of these hosts; of several, which there are.
pub(crate) fn only_host<'h>(
    what: &'static str,
    stored: &'h [HostRecord],
) -> Result<&'h HostRecord, QueryError> {
    match stored {
        [one] => Ok(one),
        [] => Err(QueryError::NoHost),
        several => {
            let name = |host: &HostRecord| cpumon_model::escape(&host.info.hostname).to_string();
            let names = several.iter().take(MAX_NAMED).map(name).collect();
            Err(QueryError::WhichHost { what: what.into(), names })
        }
    }
}

/// The hosts of these names and ids, as they are named, each once; without any, all.
pub(crate) fn hosts(history: &History, wanted: &[String]) -> Result<Vec<HostStatus>, QueryError> {
    let all = history.all()?;
    if wanted.is_empty() {
        return if all.is_empty() { Err(QueryError::NoHost) } else { Ok(all) };
    }
    let mut found: Vec<HostStatus> = Vec::new();
    for text in wanted {
        // The list is at hand: an id in it needs no lookup. The name of one host goes before the id of another.
        let by_id = |host: &&HostStatus| host.info.host.to_string() == *text;
        let is_name = all.iter().any(|host| *host.info.hostname == **text);
        let known = all.iter().find(by_id).filter(|_| !is_name);
        let host = known.map_or_else(|| history.host(text), |host| Ok(host.clone()))?;
        if found.iter().all(|one| one.info.host != host.info.host) {
            found.push(host);
        }
    }
    Ok(found)
}
