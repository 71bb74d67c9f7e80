//! Two spans side by side, for the page. In: two ranges. Out: the rows that `cpumon export compare` writes, the first of them.

use cpumon_export::{COMPARE_COLUMNS, COMPARE_POINTS, Change, Comparison, GroupBy, Side};
use cpumon_model::HostStatus;
use cpumon_store::{Query, What};

use super::{Past, Range};
use crate::api::{Cell, CompareJson, Nanos, Table};
use crate::problem::Problem;

/// See the module. `rows`: how many to leave out, and how many to give.
pub(crate) fn compare(
    past: &Past,
    host: &HostStatus,
    spans: [(i64, i64); 2],
    by: GroupBy,
    (offset, limit): (usize, usize),
) -> Result<CompareJson, Problem> {
    let mut comparison = Comparison::new(by);
    for (side, (since_ns, until_ns)) in [Side::Before, Side::After].into_iter().zip(spans) {
        let plan = past.plan(host.info.host, Range { since_ns, until_ns, points: COMPARE_POINTS })?;
        comparison.read_from(side, plan.resolution);
        let query = Query::new(host.info.host).range(plan.since_ns, plan.until_ns).what(What::Processes);
        past.for_each(&query, plan.resolution, &mut |span| comparison.add(side, span.interval))?;
    }
    comparison.sort();
    let total = comparison.rows().len();
    let rows: Vec<_> = comparison.rows().skip(offset).take(limit).map(Change::cells).collect();
    let mut table = Table::new(rows.len(), total);
    for (at, name) in COMPARE_COLUMNS.into_iter().enumerate() {
        table.push(name, rows.iter().map(|row| Cell::from(row[at].clone())));
    }
    let [before, after] = spans.map(|(since, until)| [Nanos(since), Nanos(until)]);
    Ok(CompareJson {
        before,
        after,
        before_covered_ns: comparison.measured_ns(Side::Before),
        after_covered_ns: comparison.measured_ns(Side::After),
        rows: table,
    })
}
