//! Tables for a browser as compact JSON, one list for each column. A host has thousands of rows of two dozen
//! columns, most of them alike: a list a column is a third of the size of an object a row, and is parsed as
//! fast.

use std::borrow::{Borrow, Cow};
use std::collections::HashMap;

use cpumon_model::{Column, ColumnId, Value};
use cpumon_query::fields::Field;
use cpumon_query::json::Named;
use serde::Serialize;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// Texts are written once each where at least this many rows share one.
const SHARED: usize = 2;

/// A row: its values by name.
pub type Row = Named<Cell>;

/// One value; `null` is no data.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// No data.
    Null,
    /// A whole number.
    Int(i64),
    /// A fraction, rounded to a millionth.
    Real(f64),
    /// A text. Hostile where it is a name.
    Text(String),
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TableColumn {
    /// One a row.
    Each(Vec<Cell>),
    /// Row `i` has `values[index[i]]`.
    Coded {
        /// Each text once.
        values: Vec<Cell>,
        /// Which text a row has.
        index: Vec<usize>,
    },
    /// All rows have this one.
    All(Cell),
}

/// Rows as lists of values, a list a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// Rows in this answer.
    pub rows: usize,
    /// Rows there are.
    pub total: usize,
    /// By name: a list with a value a row, one value that all rows have, or `{values, index}`. A column without any data is absent.
    pub columns: Named<TableColumn>,
}

impl From<Value<'_>> for Cell {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Int(number) => Self::Int(number),
            Value::Real(number) => Self::real(number),
            Value::Text(text) => Self::Text(text.into_owned()),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Cell {
    /// A fraction, rounded to a millionth; what is no number is no data.
    #[must_use]
    pub fn real(number: f64) -> Self {
        if number.is_finite() { Self::Real((number * 1e6).round() / 1e6) } else { Self::Null }
    }

    /// A count; beyond `i64` it sticks at the top.
    #[must_use]
    pub fn count(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl TableColumn {
    /// The shortest form; `None` if there is no data in it.
    fn pack(cells: Vec<Cell>) -> Option<Self> {
        let first = cells.first()?;
        if cells.iter().all(|cell| cell == first) {
            return (*first != Cell::Null).then(|| Self::All(first.clone()));
        }
        if !cells.iter().any(|cell| matches!(cell, Cell::Text(_))) {
            return Some(Self::Each(cells));
        }
        let mut places: HashMap<Option<&str>, usize> = HashMap::new();
        let mut values = Vec::new();
        let index: Vec<usize> = cells
            .iter()
            .map(|cell| {
                let text = if let Cell::Text(text) = cell { Some(text.as_str()) } else { None };
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
    /// No rows yet.
    #[must_use]
    pub fn new(rows: usize, total: usize) -> Self {
        Self { rows, total, columns: Named::default() }
    }

    /// Rows with these columns.
    pub fn of<'f, R, B: Borrow<R>>(
        fields: impl IntoIterator<Item = Field<'f, R>>,
        rows: &[B],
        total: usize,
    ) -> Self {
        let mut table = Self::new(rows.len(), total);
        for field in fields {
            if let Some((name, _)) = field.column() {
                table.push(name, rows.iter().map(|row| Cell::from(field.value(row.borrow()))));
            }
        }
        table
    }

    /// Adds a column of one cell a row; one without data is left out.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, cells: impl IntoIterator<Item = Cell>) {
        if let Some(column) = TableColumn::pack(cells.into_iter().collect()) {
            self.columns.0.push((name.into(), column));
        }
    }

    /// Adds columns of the model, `cell` giving the value of a row.
    pub fn push_columns<'v>(
        &mut self,
        columns: impl IntoIterator<Item = &'static Column>,
        cell: impl Fn(usize, ColumnId) -> Value<'v>,
    ) {
        for column in columns {
            self.push(column.name, (0..self.rows).map(|row| cell(row, column.id).into()));
        }
    }
}

fn typed(types: &[Type], description: &str) -> RefOr<Schema> {
    let types = SchemaType::Array(types.to_vec());
    ObjectBuilder::new().schema_type(types).description(Some(description)).into()
}

impl PartialSchema for Cell {
    fn schema() -> RefOr<Schema> {
        typed(
            &[Type::Null, Type::Integer, Type::Number, Type::String],
            "A value of a column (its kind and unit: /api/v1/columns). null: no data, which is not zero.",
        )
    }
}

impl ToSchema for Cell {
    fn name() -> Cow<'static, str> {
        "Cell".into()
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
        schemas.push(("Cell".into(), Cell::schema()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_takes_its_shortest_form_and_none_without_data() {
        let mut table = Table::new(4, 9);
        table.push("each", [1, 2, 3, 4].map(Cell::Int));
        table.push("all", [7, 7, 7, 7].map(Cell::Int));
        table.push("none", [Cell::Null, Cell::Null, Cell::Null, Cell::Null]);
        table.push("coded", ["a", "b", "a", "b"].map(Cell::from));
        table.push("texts", ["a", "b", "c", "d"].map(Cell::from));
        table.push("holes", [Cell::Int(0), Cell::Null, Cell::Int(0), Cell::real(f64::NAN)]);
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
