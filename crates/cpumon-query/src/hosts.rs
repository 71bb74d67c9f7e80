//! Which hosts a chart or a report is of: names and ids as people write them are looked up.

use cpumon_model::HostStatus;
use cpumon_store::HostRecord;

use crate::QueryError;
use crate::history::History;
use crate::time::{Available, HOUR_NS, TimeRange, now_ns};

/// Most names in an error.
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
        // An id in `all` needs no lookup. The name of one host goes before the id of another.
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

/// From the first data of any of the hosts to the last.
pub(crate) fn available(history: &History, hosts: &[HostStatus]) -> Result<Option<Available>, QueryError> {
    let mut all: Option<Available> = None;
    for host in hosts {
        if let Some(one) = history.available(host.info.host)? {
            let before = all.unwrap_or(one);
            all = Some(Available {
                first_ns: before.first_ns.min(one.first_ns),
                last_ns: before.last_ns.max(one.last_ns),
            });
        }
    }
    Ok(all)
}

/// The range that is asked for: without an end it ends with the data, without a start it is an hour.
pub(crate) fn asked_range(
    history: &History,
    hosts: &[HostStatus],
    since_ns: Option<i64>,
    until_ns: Option<i64>,
) -> Result<TimeRange, QueryError> {
    let last_ns = match until_ns {
        None => available(history, hosts)?.map(|known| known.last_ns),
        until_ns => until_ns,
    };
    let until_ns = last_ns.unwrap_or_else(now_ns);
    let since_ns = since_ns.unwrap_or_else(|| until_ns.saturating_sub(HOUR_NS));
    if since_ns >= until_ns || until_ns.checked_sub(since_ns).is_none() {
        return Err(QueryError::InvalidRange { since_ns, until_ns });
    }
    Ok(TimeRange { since_ns, until_ns })
}
