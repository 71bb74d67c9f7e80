//! Plain SQL over a store: read-only virtual tables `hosts`, `processes`, `threads`, `process_interval`, `thread_interval`,
//! `cpu_interval`, `host_interval`, `wait_interval`, `irq_interval`, `cgroup_interval` and `wait_for_interval`. Samples are packed blobs; a query
//! need not know that. [`Sql`] is a connection on which nothing can be written; the loadable extension adds the same tables to any SQLite shell.
//! Columns: `cpumon_model::COLUMNS`, documented in docs/store.md.

mod scan;
#[cfg(feature = "bundled")]
mod session;
mod table;
#[cfg(all(test, feature = "bundled"))]
mod tests;

use std::path::Path;
use std::sync::Arc;

use cpumon_model::{DelayHistogram, LongestDelay, Tables};
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::vtab::Module;
use rusqlite::{Connection, Error, Result};

#[cfg(feature = "bundled")]
pub use self::session::Sql;
use self::table::{StoreTable, TableAux};
use crate::codec::Packed;
use crate::reader::SharedDamage;
use crate::rows::signed;

fn tables() -> impl Iterator<Item = (String, Tables)> {
    Tables::all().iter_names().map(|(name, table)| (name.to_ascii_lowercase(), table))
}

/// Adds the virtual tables, and the functions for run-delay histograms, to `connection`. The tables read the store at `path`
/// through a connection of their own, which is opened at the first use.
pub fn register(connection: &Connection, path: &Path) -> Result<()> {
    register_noting(connection, path, &SharedDamage::default())
}

/// [`register`]; what cannot be read is added to `damage`.
fn register_noting(connection: &Connection, path: &Path, damage: &SharedDamage) -> Result<()> {
    const MODULE: &Module<'_, StoreTable> = &Module::eponymous_only_module();
    register_functions(connection)?;
    for (name, table) in tables() {
        connection.create_module(
            &*name,
            MODULE,
            Some(TableAux { table, path: path.to_owned(), damage: Arc::clone(damage) }),
        )?;
    }
    Ok(())
}

/// Adds the SQL functions for histograms to a connection.
fn register_functions(connection: &Connection) -> Result<()> {
    // Innocuous: with `trusted_schema = OFF`, views could not use them otherwise.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_aggregate_function("merge_run_delays", 1, flags, MergeRunDelays)?;
    connection.create_aggregate_function("run_delay_percentile_ns", 2, flags, RunDelayPercentile)?;
    connection.create_aggregate_function("run_delay_percentile_ns", 3, flags, RunDelayPercentile)
}

/// The histogram in a cell; `None`: no data.
fn histogram(context: &Context<'_>) -> Result<Option<DelayHistogram>> {
    let refused = |error: &dyn std::fmt::Display| Error::UserFunctionError(error.to_string().into());
    match context.get_raw(0) {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(bytes) => DelayHistogram::unpack(bytes).map(Some).map_err(|error| refused(&error)),
        ValueRef::Text(bytes) => {
            String::from_utf8_lossy(bytes).parse().map(Some).map_err(|error| refused(&error))
        }
        _ => Err(refused(&cpumon_model::ParseDelaysError)),
    }
}

struct MergeRunDelays;

impl Aggregate<Option<DelayHistogram>, Option<String>> for MergeRunDelays {
    fn init(&self, _: &mut Context<'_>) -> Result<Option<DelayHistogram>> {
        Ok(None)
    }

    fn step(&self, context: &mut Context<'_>, sum: &mut Option<DelayHistogram>) -> Result<()> {
        if let Some(more) = histogram(context)? {
            *sum.get_or_insert_with(DelayHistogram::default) += &more;
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sum: Option<Option<DelayHistogram>>) -> Result<Option<String>> {
        // The outer `None` is a group without rows, the inner one a group in which no row has data.
        Ok(sum.flatten().map(|sum| sum.to_string()))
    }
}

struct RunDelayPercentile;

/// The histograms of a group so far, and the wanted percentile.
#[derive(Default)]
struct PercentileOf {
    sum: DelayHistogram,
    percent: u32,
    longest: LongestDelay,
}

impl Aggregate<PercentileOf, Option<i64>> for RunDelayPercentile {
    fn init(&self, _: &mut Context<'_>) -> Result<PercentileOf> {
        Ok(PercentileOf::default())
    }

    fn step(&self, context: &mut Context<'_>, group: &mut PercentileOf) -> Result<()> {
        group.percent = context.get(1)?;
        if group.percent > 100 {
            return Err(Error::UserFunctionError("a percentile is 0 to 100".into()));
        }
        let Some(more) = histogram(context)? else { return Ok(()) };
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
        Ok(ns.map(signed))
    }
}
