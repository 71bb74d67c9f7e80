//! A receiver answers questions about the past as a store does, over HTTP.

use std::io::{Read, Write};

use cpumon_export::{ExportError, ExportQuery, QueryPart, Report as ExportReport};
use cpumon_model::{HostId, HostStatus};
use cpumon_query::history::{HostSeries, Lines};
use cpumon_query::json::{Gaps, TraceList};
use cpumon_query::ledger::LedgerSum;
use cpumon_query::report::{CompareWith, Findings, Report, ReportQuery};
use cpumon_query::status::StoredHosts;
use cpumon_query::time::{Page, PlotRange, TimeRange};
use cpumon_query::why::{Why, WhyQuery, WhySubject};
use cpumon_query::{Answers, HostRecord, QueryError, TaskKey};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;

use super::{Client, ClientError, MAX_ANSWER_BYTES};

/// Rows of a list that a receiver gives at once.
const MAX_ROWS: usize = 10_000;
/// Bytes of a file that are read at once.
const PIECE_BYTES: u64 = 64 << 10;

type Parameters = Vec<(&'static str, String)>;

impl From<ClientError> for QueryError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused { error: Some(reason), .. } => *reason,
            error => Self::Receiver(Box::new(error)),
        }
    }
}

/// The path of a host's answers. Names are hostile: characters with a meaning in a URL are escaped.
fn of_host(host: &str, answer: &str) -> String {
    format!("/api/v1/hosts/{}/{answer}", utf8_percent_encode(host, NON_ALPHANUMERIC))
}

/// No host has an empty name, and a receiver would take one for all hosts.
fn named(hosts: &[String]) -> Result<&[String], QueryError> {
    if hosts.iter().any(String::is_empty) { Err(QueryError::UnknownHost) } else { Ok(hosts) }
}

/// Hosts as a list; a comma in a name would end it, so it is escaped, and so is the escape character.
fn list(hosts: &[String]) -> Result<Parameters, QueryError> {
    let escaped: Vec<String> =
        named(hosts)?.iter().map(|host| host.replace('%', "%25").replace(',', "%2C")).collect();
    Ok(if escaped.is_empty() { Vec::new() } else { vec![("host", escaped.join(","))] })
}

fn range(range: TimeRange) -> Parameters {
    vec![("since", range.since_ns.to_string()), ("until", range.until_ns.to_string())]
}

/// A range for a picture, and the columns that it shows.
fn plot(plot: PlotRange, columns: &[String]) -> Parameters {
    let shown = [("points", plot.points.to_string()), ("columns", columns.join(","))];
    [range(plot.time()), shown.into()].concat()
}

fn between(range: TimeRange) -> String {
    format!("{}..{}", range.since_ns, range.until_ns)
}

/// A part of a list, as the receiver sends it.
struct ListPart<T> {
    /// Number of rows of the whole list.
    total: usize,
    rows: Vec<T>,
    bytes: usize,
}

/// Asks for a page in as many parts as the receiver splits it into. `too_long`: more rows came than were requested, or
/// parts without end.
fn in_parts<T, E>(
    page: Page,
    mut ask: impl FnMut(Parameters) -> Result<ListPart<T>, E>,
    too_long: impl FnOnce() -> E,
) -> Result<(usize, Vec<T>), E> {
    let (mut all, mut bytes) = (Vec::new(), 0_u64);
    loop {
        let offset = page.offset.saturating_add(all.len());
        let limit = page.limit.saturating_sub(all.len()).clamp(1, MAX_ROWS);
        let part = ask(vec![("offset", offset.to_string()), ("limit", limit.to_string())])?;
        bytes = bytes.saturating_add(part.bytes as u64);
        if part.rows.len() > limit || bytes > MAX_ANSWER_BYTES {
            return Err(too_long());
        }
        let is_last = part.rows.len() < limit;
        all.extend(part.rows);
        if is_last || all.len() >= page.limit || page.offset.saturating_add(all.len()) >= part.total {
            all.truncate(page.limit);
            return Ok((part.total, all));
        }
    }
}

/// The moments that are given.
fn moments<const N: usize>(
    all: [(&'static str, Option<i64>); N],
) -> impl Iterator<Item = (&'static str, String)> {
    all.into_iter().filter_map(|(name, ns)| Some((name, ns?.to_string())))
}

fn why_parameters(query: &WhyQuery) -> Parameters {
    let WhyQuery { subject, since_ns, until_ns, at_ns } = query;
    let named = match subject {
        WhySubject::Machine => None,
        WhySubject::Named(name) => Some(("name", name.to_string())),
        WhySubject::Group(by, name) => Some(("within", format!("{}:{name}", by.name()))),
    };
    let moments = moments([("since", *since_ns), ("until", *until_ns), ("at", *at_ns)]);
    named.into_iter().chain(moments).collect()
}

fn report_parameters(hosts: &[String], query: &ReportQuery) -> Result<Parameters, QueryError> {
    let mut all = list(hosts)?;
    all.extend(moments([("since", query.since_ns), ("until", query.until_ns)]));
    all.extend([
        ("by", query.by.name().to_owned()),
        ("sort", query.sort.name().to_owned()),
        ("offset", query.offset.to_string()),
        ("limit", query.limit.to_string()),
    ]);
    let compare = query.compare.map(|with| match with {
        CompareWith::Before => "before".to_owned(),
        CompareWith::Yesterday => "yesterday".to_owned(),
        CompareWith::Range(range) => between(range),
    });
    all.extend(compare.map(|with| ("compare", with)));
    all.extend(query.filter.text.as_deref().map(|text| ("filter", text.to_owned())));
    let within = query.filter.within.as_ref().map(|(by, name)| format!("{}:{name}", by.name()));
    all.extend(within.map(|within| ("within", within)));
    all.extend(query.points.map(|points| ("points", points.to_string())));
    Ok(all)
}

impl Answers for Client {
    fn hosts(&self) -> Result<Vec<HostRecord>, QueryError> {
        Ok(self.host_records()?)
    }

    fn report(&self, hosts: &[String], query: &ReportQuery) -> Result<Report, QueryError> {
        let report: Report = self.must("/api/v1/report", &report_parameters(hosts, query)?)?;
        Ok(Report { query: query.clone(), ..report })
    }

    fn find(&self, hosts: &[String], text: &str, page: Page) -> Result<Findings, QueryError> {
        let parameters = [list(hosts)?, vec![("text", text.to_owned())]].concat();
        Ok(self.listed("/api/v1/find", &parameters, page, |all: &mut Findings| (all.total, &mut all.rows))?)
    }

    fn why(&self, host: &str, query: &WhyQuery) -> Result<Why, QueryError> {
        if host.is_empty() {
            return Err(QueryError::UnknownHost);
        }
        Ok(self.must(&of_host(host, "why"), &why_parameters(query))?)
    }

    fn ledger(&self, hosts: &[String], time: TimeRange, worst: usize) -> Result<Vec<LedgerSum>, QueryError> {
        let parameters = [range(time), vec![("worst", worst.to_string())]].concat();
        self.of_each(hosts, |host| self.must(&of_host(host, "ledger"), &parameters))
    }

    fn gaps(&self, hosts: &[String], time: TimeRange, page: Page) -> Result<Vec<Gaps>, QueryError> {
        self.of_each(hosts, |host| {
            let path = of_host(host, "gaps");
            self.listed(&path, &range(time), page, |one: &mut Gaps| (one.total, &mut one.gaps))
        })
    }

    fn traces(&self, hosts: &[String], time: TimeRange, page: Page) -> Result<Vec<TraceList>, QueryError> {
        self.of_each(hosts, |host| {
            let path = of_host(host, "traces");
            self.listed(&path, &range(time), page, |one: &mut TraceList| (one.total, &mut one.traces))
        })
    }

    fn series(&self, host: HostId, range: PlotRange, columns: &[String]) -> Result<HostSeries, QueryError> {
        Ok(self.must(&of_host(&host.to_string(), "series"), &plot(range, columns))?)
    }

    fn line(
        &self,
        host: HostId,
        task: TaskKey,
        range: PlotRange,
        columns: &[String],
    ) -> Result<Lines, QueryError> {
        let which = if matches!(task, TaskKey::Process(_)) { "processes" } else { "threads" };
        let parameters = [plot(range, columns), vec![(which, task.to_string())]].concat();
        Ok(self.must(&of_host(&host.to_string(), "lines"), &parameters)?)
    }
}

impl Client {
    /// Every host of the receiver's store, by name.
    fn host_records(&self) -> Result<Vec<HostRecord>, ClientError> {
        let path = "/api/v1/stored";
        let all = self.listed(path, &[], Page::ALL, |all: &mut StoredHosts| (all.total, &mut all.hosts))?;
        Ok(all.hosts)
    }

    /// Every host of the receiver's store, by name, with the end of its stored data.
    pub fn stored(&self) -> Result<Vec<HostStatus>, ClientError> {
        let hosts = self.host_records()?.into_iter().filter(|host| host.last_wall_ns.is_some());
        Ok(hosts.map(HostRecord::status).collect())
    }

    /// A list that a receiver gives in parts, as one answer; `rows_of`: how many rows there are, and those of a part.
    fn listed<A: DeserializeOwned, T>(
        &self,
        path: &str,
        parameters: &[(&'static str, String)],
        page: Page,
        rows_of: fn(&mut A) -> (usize, &mut Vec<T>),
    ) -> Result<A, ClientError> {
        let mut last = None;
        let ask = |part| {
            let answer = self.ask_sized(path, &[part, parameters.to_vec()].concat())?;
            let (answer, bytes) = answer.ok_or_else(|| self.empty(path))?;
            let (total, rows) = rows_of(last.insert(answer));
            Ok(ListPart { total, rows: std::mem::take(rows), bytes })
        };
        let too_long = || self.wrong(path, format!("a list of more than {} MB", MAX_ANSWER_BYTES >> 20));
        let (_, all) = in_parts(page, ask, too_long)?;
        let mut whole = last.ok_or_else(|| self.empty(path))?;
        *rows_of(&mut whole).1 = all;
        Ok(whole)
    }

    /// Asks for each of these hosts, or of all.
    fn of_each<T>(
        &self,
        hosts: &[String],
        ask: impl Fn(&str) -> Result<T, ClientError>,
    ) -> Result<Vec<T>, QueryError> {
        let wanted = named(hosts)?.to_vec();
        let all = if wanted.is_empty() { self.host_records()? } else { Vec::new() };
        if wanted.is_empty() && all.is_empty() {
            return Err(QueryError::NoHost);
        }
        let wanted = wanted.into_iter().chain(all.iter().map(|host| host.info.host.to_string()));
        wanted.map(|host| ask(&host).map_err(QueryError::from)).collect()
    }

    /// Writes the rows that a query selects as they arrive, and returns the counts of rows and of missing data.
    pub fn export(&self, query: &ExportQuery, out: &mut dyn Write) -> Result<ExportReport, ExportError> {
        let of_receiver = |error: ClientError| ExportError::Receiver(Box::new(error));
        let (kind, parameters) = (query.kind.name(), export_parameters(query));
        let path = format!("/api/v1/export/{kind}");
        let borrowed: Vec<_> = parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut body = self.download(&path, &borrowed).map_err(of_receiver)?;
        let broken = |reason: String| of_receiver(self.wrong(&path, reason));
        // The report is at the end, and where the end is, only the end says.
        let mut held: Vec<u8> = Vec::new();
        while body
            .by_ref()
            .take(PIECE_BYTES)
            .read_to_end(&mut held)
            .map_err(|error| broken(error.to_string()))?
            > 0
        {
            if held.len() > 2 * ExportReport::MAX_BYTES {
                let end = held.len() - ExportReport::MAX_BYTES;
                out.write_all(&held[..end])?;
                held.drain(..end);
            }
        }
        let (end, report) = ExportReport::behind(&held)
            .ok_or_else(|| broken("the file has no report at its end".to_owned()))?;
        out.write_all(&held[..end])?;
        out.flush()?;
        Ok(report)
    }
}

/// An export as the parameters of a request. Options without effect would be refused there, so they are left out.
fn export_parameters(query: &ExportQuery) -> Parameters {
    let is_legacy = query.legacy.is_some();
    let has = |part: QueryPart| part.kinds().contains(&query.kind) && (!is_legacy || part.is_in_legacy());
    let all = [
        ("host", query.host.clone()),
        ("since", query.since_ns.map(|ns| ns.to_string())),
        ("until", query.until_ns.map(|ns| ns.to_string())),
        ("before", query.compared.map(|compared| between(compared.before))),
        ("after", query.compared.map(|compared| between(compared.after))),
        ("process", query.process.clone()),
        ("interval_ns", query.interval_ns.map(|ns| ns.to_string())),
        ("by", has(QueryPart::GroupBy).then(|| query.group_by.name().to_owned())),
        ("value", has(QueryPart::PivotValue).then(|| query.pivot_value.name().to_owned())),
        ("active", query.only_active.then(|| "true".to_owned())),
        ("format", (!is_legacy).then(|| query.format.name().to_owned())),
        ("legacy", query.legacy.map(|year| year.name().to_owned())),
        ("report", Some("true".to_owned())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_asked_for_in_parts() {
        let all: Vec<usize> = (0..25_000).collect();
        let mut asked = 0;
        let mut of = |page: Page| {
            asked = 0;
            let part = |part: Parameters| {
                asked += 1;
                let number = |at: usize| part[at].1.parse::<usize>().unwrap();
                let page = Page { offset: number(0), limit: number(1) };
                Ok(ListPart { total: all.len(), rows: page.of(all.iter().copied()).collect(), bytes: 1 })
            };
            let (total, rows) = in_parts(page, part, || "too long").unwrap();
            assert_eq!(total, all.len());
            (rows, asked)
        };
        assert_eq!(of(Page::ALL), (all.clone(), 3));
        assert_eq!(of(Page { offset: 24_990, limit: 5 }), (all[24_990..24_995].to_vec(), 1));
        assert_eq!(of(Page { offset: 9_000, limit: 11_000 }), (all[9_000..20_000].to_vec(), 2));
        assert_eq!(of(Page { offset: 30_000, limit: 5 }), (Vec::new(), 1));
    }

    #[test]
    fn names_of_hosts_are_escaped() {
        assert_eq!(of_host("a/b?c#d%41", "gaps"), "/api/v1/hosts/a%2Fb%3Fc%23d%2541/gaps");
        let hosts = ["a,b".to_owned(), "100%2C".to_owned()];
        assert_eq!(list(&hosts).unwrap(), [("host", "a%2Cb,100%252C".to_owned())]);
        assert_eq!(list(&[]).unwrap(), []);
        assert!(matches!(list(&[String::new()]), Err(QueryError::UnknownHost)), "it is not all of them");
    }

    /// It was asked again and again, until the memory was used up.
    #[test]
    fn a_list_without_end_ends() {
        let endless = |bytes: usize, more: usize| {
            let mut asked = 0;
            let part = |part: Parameters| {
                asked += 1;
                let limit = part[1].1.parse::<usize>().unwrap();
                Ok(ListPart { total: usize::MAX, rows: vec![(); limit + more], bytes })
            };
            assert_eq!(in_parts(Page::ALL, part, || "too long"), Err("too long"));
            asked
        };
        assert_eq!(endless(64 << 20, 0), 5, "of 64 MB each");
        assert_eq!(endless(1, 1), 1, "more rows than asked for");
    }
}
