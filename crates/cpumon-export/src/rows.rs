//! Interfaces between exports and formats: columns and rows of [`Value`]s. The kinds of exports write to these traits,
//! the formats implement them.

use std::collections::HashSet;
use std::io;

use cpumon_model::{COLUMNS, ColumnId, IntervalView, Kind as ValueKind, Value};
use cpumon_query::fields::Field;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct SinkColumn<'n> {
    /// Name, with its unit.
    pub name: &'n str,
    /// Type of its values; `None`: the first rows show it.
    pub kind: Option<ValueKind>,
}

pub(crate) trait RowSink {
    /// The columns, once, before any row. Those from `nested` on form a group of their own: an object where the format has objects.
    fn columns(&mut self, columns: &[SinkColumn<'_>], nested: Option<usize>) -> io::Result<()>;
    /// One row, as many values as there are columns.
    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()>;
    /// Ends the file and flushes the output.
    fn finish(&mut self) -> io::Result<()>;
}

/// A layout for pivots: columns come from the data.
pub(crate) trait PivotSink {
    /// The data columns, once, before any row.
    fn header(&mut self, columns: &[String]) -> io::Result<()>;
    /// One interval, with as many cells as the header had columns. The interval has only its wall-clock times, length,
    /// boot, source, flags and v1 ticks: the pivot keeps no more between its two passes.
    fn row(&mut self, host: &str, view: &IntervalView<'_>, cells: &[Value<'_>]) -> io::Result<()>;
}

/// The columns of a pivot that name its interval, in the order of [`COLUMNS`].
const PIVOT_KEYS: [ColumnId; 6] = [
    ColumnId::Host,
    ColumnId::BeginUtc,
    ColumnId::EndUtc,
    ColumnId::BeginNs,
    ColumnId::EndNs,
    ColumnId::DurationNs,
];

/// A pivot as rows: the interval, then its cells.
pub(crate) struct PivotRows<'s> {
    pub(crate) sink: &'s mut dyn RowSink,
    pub(crate) kind: ValueKind,
}

impl PivotSink for PivotRows<'_> {
    fn header(&mut self, columns: &[String]) -> io::Result<()> {
        let keys = COLUMNS.iter().filter(|column| PIVOT_KEYS.contains(&column.id));
        let keys = keys.map(|column| SinkColumn { name: column.name, kind: Some(column.kind) });
        let data = columns.iter().map(|name| SinkColumn { name, kind: Some(self.kind) });
        self.sink.columns(&keys.chain(data).collect::<Vec<_>>(), Some(PIVOT_KEYS.len()))
    }

    fn row(&mut self, _host: &str, view: &IntervalView<'_>, cells: &[Value<'_>]) -> io::Result<()> {
        let keys = PIVOT_KEYS.iter().map(|id| view.host(*id));
        self.sink.row(&keys.chain(cells.iter().cloned()).collect::<Vec<_>>())
    }
}

impl From<&'static cpumon_model::Column> for SinkColumn<'static> {
    fn from(column: &'static cpumon_model::Column) -> Self {
        Self { name: column.name, kind: Some(column.kind) }
    }
}

pub(crate) fn columns<R>(fields: &[Field<'_, R>]) -> impl Iterator<Item = SinkColumn<'static>> {
    fields.iter().filter_map(Field::column).map(|(name, kind)| SinkColumn { name, kind: Some(kind) })
}

/// The names of columns; the second column of a name gets `_2` appended, for formats that find a value by its name.
pub(crate) fn unique_names(columns: &[SinkColumn<'_>]) -> Vec<String> {
    let mut taken = HashSet::with_capacity(columns.len());
    let unique = |column: &SinkColumn<'_>| {
        let numbered = (2_u64..).map(|number| format!("{}_{number}", column.name));
        let mut names = std::iter::once(column.name.to_owned()).chain(numbered);
        names.find(|name| taken.insert(name.clone())).unwrap_or_default()
    };
    columns.iter().map(unique).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_columns_have_one_name() {
        let columns = ["a", "b", "a", "a_2", "a"].map(|name| SinkColumn { name, kind: None });
        assert_eq!(unique_names(&columns), ["a", "b", "a_2", "a_2_2", "a_3"]);
    }
}
