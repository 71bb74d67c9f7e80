//! SQL functions over run-delay histograms: `merge_run_delays(histogram)` and `run_delay_percentile_ns(histogram, percent)`, both
//! over all rows of a group. Percentiles of a range, or of many processes, cannot be computed from percentiles, but from
//! histograms they can. A histogram is the text of a virtual table, or the blob of a row of sums.

use cpumon_model::{DelayHistogram, LongestDelay};
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

use crate::codec::delays;
use crate::codec::varint::Cursor;

/// Adds the functions to a connection.
pub(super) fn register(connection: &Connection) -> Result<()> {
    // Innocuous: with `trusted_schema = OFF`, views could not use them otherwise.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_aggregate_function("merge_run_delays", 1, flags, Merge)?;
    connection.create_aggregate_function("run_delay_percentile_ns", 2, flags, Percentile)?;
    connection.create_aggregate_function("run_delay_percentile_ns", 3, flags, Percentile)
}

/// The histogram in a cell; `None`: no data.
fn read(context: &Context<'_>) -> Result<Option<DelayHistogram>> {
    let refused = |error: &dyn std::fmt::Display| Error::UserFunctionError(error.to_string().into());
    match context.get_raw(0) {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(bytes) => {
            delays::read(&mut Cursor::new(bytes)).map(Some).map_err(|error| refused(&error))
        }
        ValueRef::Text(bytes) => {
            String::from_utf8_lossy(bytes).parse().map(Some).map_err(|error| refused(&error))
        }
        _ => Err(refused(&cpumon_model::ParseDelaysError)),
    }
}

struct Merge;

impl Aggregate<Option<DelayHistogram>, Option<String>> for Merge {
    fn init(&self, _: &mut Context<'_>) -> Result<Option<DelayHistogram>> {
        Ok(None)
    }

    fn step(&self, context: &mut Context<'_>, sum: &mut Option<DelayHistogram>) -> Result<()> {
        if let Some(more) = read(context)? {
            *sum.get_or_insert_with(DelayHistogram::default) += &more;
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sum: Option<Option<DelayHistogram>>) -> Result<Option<String>> {
        // The outer `None` is a group without rows, the inner one a group in which no row has data.
        Ok(sum.flatten().map(|sum| sum.to_string()))
    }
}

struct Percentile;

/// The histograms of a group so far, and the wanted percentile.
#[derive(Default)]
struct PercentileOf {
    sum: DelayHistogram,
    percent: u32,
    longest: LongestDelay,
}

impl Aggregate<PercentileOf, Option<i64>> for Percentile {
    fn init(&self, _: &mut Context<'_>) -> Result<PercentileOf> {
        Ok(PercentileOf::default())
    }

    fn step(&self, context: &mut Context<'_>, group: &mut PercentileOf) -> Result<()> {
        group.percent = context.get(1)?;
        if group.percent > 100 {
            return Err(Error::UserFunctionError("a percentile is 0 to 100".into()));
        }
        let Some(more) = read(context)? else { return Ok(()) };
        // Without the third argument, and where it is NULL beside a delay, the longest is not known.
        let longest_ns: Option<i64> = if context.len() > 2 { context.get(2)? } else { None };
        if !more.is_empty() {
            group.longest.add(longest_ns.and_then(|ns| u64::try_from(ns).ok()));
        }
        group.sum += &more;
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, group: Option<PercentileOf>) -> Result<Option<i64>> {
        let ns = group.and_then(|group| group.sum.percentile_ns(group.percent, group.longest.ns()));
        Ok(ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)))
    }
}
