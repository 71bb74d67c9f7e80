//! Run-delay histograms in questions. In: a connection. Out: the functions `merge_run_delays(histogram)` and
//! `run_delay_percentile_ns(histogram, percent)`, both over all rows of a group. Why: percentiles of a range, or of many
//! processes, cannot be had from percentiles; they can from histograms. A histogram is the text of a virtual table, or the blob
//! of a row of sums.

use cpumon_model::DelayHistogram;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

use crate::codec::delays;
use crate::codec::varint::Cursor;

/// Puts the functions on a connection.
pub(super) fn register(connection: &Connection) -> Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_aggregate_function("merge_run_delays", 1, flags, Merge)?;
    connection.create_aggregate_function("run_delay_percentile_ns", 2, flags, Percentile)
}

/// Reads what a cell holds; `None`: no data.
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
        Ok(sum.flatten().map(|sum| sum.to_string()))
    }
}

struct Percentile;

impl Aggregate<(DelayHistogram, u32), Option<i64>> for Percentile {
    fn init(&self, _: &mut Context<'_>) -> Result<(DelayHistogram, u32)> {
        Ok((DelayHistogram::default(), 0))
    }

    fn step(&self, context: &mut Context<'_>, sum: &mut (DelayHistogram, u32)) -> Result<()> {
        sum.1 = context.get(1)?;
        if sum.1 > 100 {
            return Err(Error::UserFunctionError("a percentile is 0 to 100".into()));
        }
        if let Some(more) = read(context)? {
            sum.0 += &more;
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sum: Option<(DelayHistogram, u32)>) -> Result<Option<i64>> {
        let ns = sum.and_then(|(histogram, percent)| histogram.percentile_ns(percent));
        Ok(ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)))
    }
}
