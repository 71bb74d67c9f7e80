//! Parquet: rows as typed columns, compressed with zstd, in groups of rows so that memory is bounded.

use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::{Type, TypePtr};
use cpumon_model::Value;

use crate::rows::RowSink;

/// Rows that are held before they are written. With names they take some 10 MB.
const ROWS: usize = 1 << 16;

/// What a column has; each value may be missing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// Whole numbers of 64 bits.
    Int,
    Text,
}

/// The values of one column that wait.
enum Column {
    Int(Vec<i64>),
    Text(Vec<ByteArray>),
}

struct Waiting {
    column: Column,
    /// Of each row: 1 if it has a value.
    present: Vec<i16>,
}

/// Writes rows. [`Parquet::finish`] ends the file.
pub(crate) struct Parquet<'w> {
    out: &'w mut dyn Write,
    kinds: &'static [ColumnKind],
    columns: Vec<Waiting>,
    rows: usize,
    /// Writes into memory, from which it is taken after each group.
    file: Option<SerializedFileWriter<Vec<u8>>>,
}

impl<'w> Parquet<'w> {
    /// With columns of these kinds.
    pub(crate) fn new(out: &'w mut dyn Write, kinds: &'static [ColumnKind]) -> Self {
        Self { out, kinds, columns: kinds.iter().copied().map(Waiting::new).collect(), rows: 0, file: None }
    }

    fn write_group(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if self.rows > 0 {
            let mut group = file.next_row_group().map_err(error)?;
            for waiting in &mut self.columns {
                let mut writer = group
                    .next_column()
                    .map_err(error)?
                    .ok_or_else(|| io::Error::other("a column is missing"))?;
                let present = Some(waiting.present.as_slice());
                match &waiting.column {
                    Column::Int(values) => writer.typed::<Int64Type>().write_batch(values, present, None),
                    Column::Text(values) => {
                        writer.typed::<ByteArrayType>().write_batch(values, present, None)
                    }
                }
                .map_err(error)?;
                writer.close().map_err(error)?;
                waiting.clear();
            }
            group.close().map_err(error)?;
            self.rows = 0;
        }
        file.flush()?;
        self.out.write_all(&std::mem::take(file.inner_mut()))
    }

    /// Writes the rest and the end of the file.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.write_group()?;
        let Some(mut file) = self.file.take() else { return Ok(()) };
        file.finish().map_err(error)?;
        self.out.write_all(file.inner())?;
        self.out.flush()
    }
}

impl Waiting {
    fn new(kind: ColumnKind) -> Self {
        let column = match kind {
            ColumnKind::Int => Column::Int(Vec::new()),
            ColumnKind::Text => Column::Text(Vec::new()),
        };
        Self { column, present: Vec::new() }
    }

    fn clear(&mut self) {
        match &mut self.column {
            Column::Int(values) => values.clear(),
            Column::Text(values) => values.clear(),
        }
        self.present.clear();
    }

    fn push(&mut self, value: &Value<'_>) -> io::Result<()> {
        let is_present = match (&mut self.column, value) {
            (_, Value::Null) => false,
            (Column::Int(values), Value::Int(value)) => {
                values.push(*value);
                true
            }
            (Column::Text(values), Value::Text(text)) => {
                values.push(text.as_bytes().to_vec().into());
                true
            }
            _ => return Err(io::Error::other("a value is not of its column's kind")),
        };
        self.present.push(is_present.into());
        Ok(())
    }
}

impl RowSink for Parquet<'_> {
    fn header(&mut self, names: &[&'static str]) -> io::Result<()> {
        let columns = names.iter().zip(self.kinds).map(|(name, kind)| column(name, *kind));
        let fields = columns.collect::<Result<_, _>>().map_err(error)?;
        let schema = Type::group_type_builder("rows").with_fields(fields).build().map_err(error)?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties));
        self.file = Some(file.map_err(error)?);
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        for (waiting, value) in self.columns.iter_mut().zip(values) {
            waiting.push(value)?;
        }
        self.rows += 1;
        if self.rows == ROWS { self.write_group() } else { Ok(()) }
    }
}

fn column(name: &str, kind: ColumnKind) -> Result<TypePtr, ParquetError> {
    let builder = match kind {
        ColumnKind::Int => Type::primitive_type_builder(name, Physical::INT64),
        ColumnKind::Text => Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_logical_type(Some(LogicalType::String)),
    };
    builder.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
}

fn error(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
