//! The model's [`COLUMNS`](cpumon_model::COLUMNS) as JSON: names, units, meanings, for clients of the API. The page has its headings and
//! help from the generated `web/src/feed/columns.generated.ts`.

use cpumon_model::{COLUMNS, Column, Fields, Kind, Tables};
use serde::Serialize;
use utoipa::ToSchema;

/// The tables in answers of the API, by their names there.
const TABLES: [(Tables, &str); 4] = [
    (Tables::PROCESS_INTERVAL, "processes"),
    (Tables::THREAD_INTERVAL, "threads"),
    (Tables::CPU_INTERVAL, "cpus"),
    (Tables::HOST_INTERVAL, "host"),
];

/// Answer of `/api/v1/columns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Columns)]
pub struct ColumnList {
    /// Every column, in order.
    pub columns: Vec<ColumnHelp>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ColumnHelp {
    /// Name in tables.
    pub name: &'static str,
    /// `integer`, `real` or `text`.
    pub kind: &'static str,
    /// Unit; empty for names, ids and counts.
    pub unit: &'static str,
    /// Meaning, one sentence.
    pub help: &'static str,
    /// The tables that have it: `processes`, `threads`, `cpus`, `host`.
    pub tables: Vec<&'static str>,
    /// What a source must measure for it to have data: names of `fields`.
    pub needs: Vec<String>,
}

impl ColumnList {
    /// Every column of the tables that the page shows.
    pub fn all() -> Self {
        let shown = |column: &&Column| TABLES.iter().any(|(table, _)| column.tables.contains(*table));
        Self { columns: COLUMNS.iter().filter(shown).map(ColumnHelp::of).collect() }
    }
}

impl ColumnHelp {
    fn of(column: &Column) -> Self {
        Self {
            name: column.name,
            kind: match column.kind {
                Kind::Integer => "integer",
                Kind::Real => "real",
                Kind::Text => "text",
            },
            unit: column.unit,
            help: column.help,
            tables: TABLES
                .iter()
                .filter(|(table, _)| column.tables.contains(*table))
                .map(|(_, name)| *name)
                .collect(),
            needs: Fields::iter_names(&column.needs).map(|(name, _)| name.to_owned()).collect(),
        }
    }
}
