//! Tables for a browser as compact JSON, one list for each column. A host has thousands of rows of two dozen columns, and
//! most rows are alike: a list a column is a third of the size of an object a row, and is parsed as fast.
//!
//! [`ColumnList`] has the model's [`COLUMNS`] as JSON: names, units, meanings, for clients of the API. The page has its headings and
//! help from the generated `web/src/feed/columns.generated.ts`.

use std::borrow::{Borrow, Cow};
use std::collections::HashMap;

use cpumon_model::{COLUMNS, Column, ColumnId, Fields, Kind, Tables, Value};
use cpumon_query::fields::Field;
use cpumon_query::json::Named;
use serde::Serialize;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// Texts are written once each where at least this many rows share one.
const SHARED: usize = 2;

pub type Row = Named<Value<'static>>;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TableColumn {
    /// One value a row.
    Each(Vec<Value<'static>>),
    /// Row `i` has `values[index[i]]`.
    Coded {
        /// Each distinct value once.
        values: Vec<Value<'static>>,
        /// Index in `values` of each row.
        index: Vec<usize>,
    },
    /// The value that all rows have.
    All(Value<'static>),
}

/// Rows as lists of values, a list a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// Rows in this answer.
    pub rows: usize,
    /// Number of rows, those of other pages included.
    pub total: usize,
    /// By name: a list with a value a row, one value that all rows have, or `{values, index}`. A column without any data is absent.
    pub columns: Named<TableColumn>,
}

/// A value in an answer: a fraction is rounded to a millionth, and a value that is not a number is no data.
pub(super) fn cell(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Real(number) if number.is_finite() => Value::Real((number * 1e6).round() / 1e6),
        Value::Real(_) => Value::Null,
        value => value.into_owned(),
    }
}

impl TableColumn {
    /// The shortest form; `None` if there is no data in it.
    fn pack(cells: Vec<Value<'static>>) -> Option<Self> {
        let first = cells.first()?;
        if cells.iter().all(|cell| cell == first) {
            return (*first != Value::Null).then(|| Self::All(first.clone()));
        }
        if !cells.iter().any(|cell| matches!(cell, Value::Text(_))) {
            return Some(Self::Each(cells));
        }
        let mut places: HashMap<Option<&str>, usize> = HashMap::new();
        let mut values = Vec::new();
        let index: Vec<usize> = cells
            .iter()
            .map(|cell| {
                let text = if let Value::Text(text) = cell { Some(&**text) } else { None };
                *places.entry(text).or_insert_with(|| {
                    values.push(cell.clone());
                    values.len() - 1
                })
            })
            .collect();
        Some(if values.len() * SHARED <= index.len() {
            Self::Coded { values, index }
        } else {
            Self::Each(cells)
        })
    }
}

impl Table {
    pub fn new(rows: usize, total: usize) -> Self {
        Self { rows, total, columns: Named::default() }
    }

    pub fn of<'f, R, B: Borrow<R>>(
        fields: impl IntoIterator<Item = Field<'f, R>>,
        rows: &[B],
        total: usize,
    ) -> Self {
        let mut table = Self::new(rows.len(), total);
        for field in fields {
            if let Some((name, _)) = field.column() {
                table.push(name, rows.iter().map(|row| field.value(row.borrow())));
            }
        }
        table
    }

    /// Adds a column of one cell a row; one without data is left out.
    pub fn push<'v>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        values: impl IntoIterator<Item = Value<'v>>,
    ) {
        if let Some(column) = TableColumn::pack(values.into_iter().map(cell).collect()) {
            self.columns.0.push((name.into(), column));
        }
    }

    /// Adds columns of the model, `value` giving that of a row.
    pub fn push_columns<'v>(
        &mut self,
        columns: impl IntoIterator<Item = &'static Column>,
        value: impl Fn(usize, ColumnId) -> Value<'v>,
    ) {
        for column in columns {
            self.push(column.name, (0..self.rows).map(|row| value(row, column.id)));
        }
    }
}

fn cells() -> ArrayBuilder {
    ArrayBuilder::new().items(Ref::from_schema_name("Cell"))
}

impl PartialSchema for TableColumn {
    fn schema() -> RefOr<Schema> {
        let index =
            ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)));
        let coded = ObjectBuilder::new()
            .property("values", cells())
            .property("index", index)
            .required("values")
            .required("index")
            .description(Some("Row i has values[index[i]]."));
        OneOfBuilder::new().item(cells()).item(coded).item(Ref::from_schema_name("Cell")).into()
    }
}

impl ToSchema for TableColumn {
    fn name() -> Cow<'static, str> {
        "TableColumn".into()
    }
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push(("Cell".into(), Value::schema()));
    }
}

impl PartialSchema for Table {
    fn schema() -> RefOr<Schema> {
        let count = |description: &str| {
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).description(Some(description))
        };
        ObjectBuilder::new()
            .property("rows", count("Rows in this answer."))
            .property("total", count("Rows there are."))
            .property("columns", Named::<TableColumn>::schema())
            .required("rows")
            .required("total")
            .required("columns")
            .description(Some(
                "Rows as lists of values, a list a column. A column without any data is absent.",
            ))
            .into()
    }
}

impl ToSchema for Table {
    fn name() -> Cow<'static, str> {
        "Table".into()
    }
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push(("TableColumn".into(), TableColumn::schema()));
        TableColumn::schemas(schemas);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_takes_its_shortest_form_and_none_without_data() {
        let text = |text: &'static str| Value::Text(text.into());
        let mut table = Table::new(4, 9);
        table.push("each", [1, 2, 3, 4].map(Value::Int));
        table.push("all", [7, 7, 7, 7].map(Value::Int));
        table.push("none", [Value::Null, Value::Null, Value::Null, Value::Null]);
        table.push("coded", ["a", "b", "a", "b"].map(text));
        table.push("texts", ["a", "b", "c", "d"].map(text));
        table.push("holes", [Value::Int(0), Value::Null, Value::Int(0), Value::Real(f64::NAN)]);
        assert_eq!(
            serde_json::to_string(&table).unwrap(),
            r#"{"rows":4,"total":9,"columns":{"each":[1,2,3,4],"all":7,"coded":{"values":["a","b"],"index":[0,1,0,1]},"texts":["a","b","c","d"],"holes":[0,null,0,null]}}"#
        );
    }

    #[test]
    fn no_rows_are_no_columns() {
        let mut table = Table::new(0, 0);
        table.push("each", []);
        assert_eq!(serde_json::to_string(&table).unwrap(), r#"{"rows":0,"total":0,"columns":{}}"#);
    }
}
