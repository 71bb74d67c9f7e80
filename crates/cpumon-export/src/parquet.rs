//! Parquet: rows as typed columns, compressed with zstd, in groups of rows so that memory is bounded.

use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::{Type, TypePtr};
use cpumon_model::{Kind as ValueKind, Value};

use crate::rows::{RowSink, SinkColumn, unique_names};

/// Most columns of a pivot: each group of rows has a description of each column, and all are held until the end of the file.
pub(crate) const MAX_PIVOT_COLUMNS: usize = 1000;
/// Rows that are held before they are written.
const ROWS: usize = 1 << 16;
/// Limit of the bytes that are held.
const MAX_HELD_BYTES: usize = 32 << 20;
/// Memory of a text beside its bytes.
const TEXT_BYTES: usize = size_of::<ByteArray>() + 40;

/// Values of one column that are not written yet.
enum ParquetValues {
    /// Values of a column whose type the first rows show.
    Any(Vec<Value<'static>>),
    Int(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<ByteArray>),
}

struct ParquetColumn {
    name: String,
    values: ParquetValues,
    /// For each row: 1 if it has a value.
    present: Vec<i16>,
}

pub(crate) struct Parquet<'w> {
    out: &'w mut dyn Write,
    columns: Vec<ParquetColumn>,
    rows: usize,
    held_bytes: usize,
    /// Writes into memory, from which it is taken after each group. `None`: the types of the columns are not known yet.
    file: Option<SerializedFileWriter<Vec<u8>>>,
}

impl<'w> Parquet<'w> {
    pub(crate) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, columns: Vec::new(), rows: 0, held_bytes: 0, file: None }
    }

    fn begin(&mut self) -> io::Result<SerializedFileWriter<Vec<u8>>> {
        self.columns.iter_mut().try_for_each(ParquetColumn::resolve)?;
        let fields =
            self.columns.iter().map(ParquetColumn::field).collect::<Result<_, _>>().map_err(error)?;
        let schema = Type::group_type_builder("rows").with_fields(fields).build().map_err(error)?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties)).map_err(error)
    }

    fn write_group(&mut self) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.begin()?,
        };
        if self.rows > 0 {
            let mut group = file.next_row_group().map_err(error)?;
            for column in &mut self.columns {
                let mut writer = group
                    .next_column()
                    .map_err(error)?
                    .ok_or_else(|| io::Error::other("a column is missing"))?;
                let present = Some(column.present.as_slice());
                match &column.values {
                    ParquetValues::Int(values) => {
                        writer.typed::<Int64Type>().write_batch(values, present, None)
                    }
                    ParquetValues::Real(values) => {
                        writer.typed::<DoubleType>().write_batch(values, present, None)
                    }
                    ParquetValues::Text(values) => {
                        writer.typed::<ByteArrayType>().write_batch(values, present, None)
                    }
                    ParquetValues::Any(_) => Ok(0),
                }
                .map_err(error)?;
                writer.close().map_err(error)?;
                column.clear();
            }
            group.close().map_err(error)?;
            (self.rows, self.held_bytes) = (0, 0);
        }
        file.flush()?;
        self.out.write_all(&std::mem::take(file.inner_mut()))?;
        self.file = Some(file);
        Ok(())
    }
}

impl ParquetColumn {
    fn new(name: String, kind: Option<ValueKind>) -> Self {
        let values = match kind {
            None => ParquetValues::Any(Vec::new()),
            Some(ValueKind::Integer) => ParquetValues::Int(Vec::new()),
            Some(ValueKind::Real) => ParquetValues::Real(Vec::new()),
            Some(ValueKind::Text) => ParquetValues::Text(Vec::new()),
        };
        Self { name, values, present: Vec::new() }
    }

    fn clear(&mut self) {
        match &mut self.values {
            ParquetValues::Any(values) => values.clear(),
            ParquetValues::Int(values) => values.clear(),
            ParquetValues::Real(values) => values.clear(),
            ParquetValues::Text(values) => values.clear(),
        }
        self.present.clear();
    }

    /// The kind that takes all values so far: text takes any, and is that of a column without one.
    fn resolve(&mut self) -> io::Result<()> {
        let ParquetValues::Any(values) = &mut self.values else { return Ok(()) };
        let values = std::mem::take(values);
        let is_real = |value: &Value<'_>| matches!(value, Value::Int(_) | Value::Real(_));
        self.values = if values.is_empty() || !values.iter().all(is_real) {
            ParquetValues::Text(Vec::new())
        } else if values.iter().all(|value| matches!(value, Value::Int(_))) {
            ParquetValues::Int(Vec::new())
        } else {
            ParquetValues::Real(Vec::new())
        };
        values.iter().try_for_each(|value| self.add(value))
    }

    /// Adds a value of a row; returns its bytes in memory.
    fn push(&mut self, value: &Value<'_>) -> io::Result<usize> {
        let is_present = *value != Value::Null;
        self.present.push(is_present.into());
        if is_present {
            self.add(value)?;
        }
        let bytes = match (&self.values, value) {
            (_, Value::Null) => 0,
            (_, Value::Text(text)) => text.len() + TEXT_BYTES,
            (ParquetValues::Any(_) | ParquetValues::Text(_), Value::Int(_) | Value::Real(_)) => TEXT_BYTES,
            (ParquetValues::Int(_) | ParquetValues::Real(_), Value::Int(_) | Value::Real(_)) => {
                size_of::<i64>()
            }
        };
        Ok(bytes + size_of::<i16>())
    }

    fn add(&mut self, value: &Value<'_>) -> io::Result<()> {
        match (&mut self.values, value) {
            (_, Value::Null) => {}
            (ParquetValues::Any(values), value) => values.push(value.clone().into_owned()),
            (ParquetValues::Int(values), Value::Int(value)) => values.push(*value),
            (ParquetValues::Real(values), Value::Real(value)) => values.push(*value),
            (ParquetValues::Real(values), Value::Int(value)) => values.push(*value as f64),
            (ParquetValues::Text(values), Value::Text(text)) => values.push(text.as_bytes().to_vec().into()),
            (ParquetValues::Text(values), Value::Int(number)) => {
                values.push(number.to_string().into_bytes().into());
            }
            (ParquetValues::Text(values), Value::Real(number)) => {
                values.push(number.to_string().into_bytes().into());
            }
            (ParquetValues::Int(_) | ParquetValues::Real(_), Value::Real(_) | Value::Text(_)) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "column {} has values of another kind than in its first rows; give it one kind with CAST",
                        self.name
                    ),
                ));
            }
        }
        Ok(())
    }

    fn field(&self) -> Result<TypePtr, ParquetError> {
        let builder = match self.values {
            ParquetValues::Int(_) => Type::primitive_type_builder(&self.name, Physical::INT64),
            ParquetValues::Real(_) => Type::primitive_type_builder(&self.name, Physical::DOUBLE),
            ParquetValues::Text(_) | ParquetValues::Any(_) => {
                Type::primitive_type_builder(&self.name, Physical::BYTE_ARRAY)
                    .with_logical_type(Some(LogicalType::String))
            }
        };
        builder.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    }
}

impl RowSink for Parquet<'_> {
    fn columns(&mut self, columns: &[SinkColumn<'_>], _nested: Option<usize>) -> io::Result<()> {
        let kinds = columns.iter().map(|column| column.kind);
        self.columns = unique_names(columns)
            .into_iter()
            .zip(kinds)
            .map(|(name, kind)| ParquetColumn::new(name, kind))
            .collect();
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(values) {
            self.held_bytes += column.push(value)?;
        }
        self.rows += 1;
        if self.rows == ROWS || self.held_bytes >= MAX_HELD_BYTES { self.write_group() } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_group()?;
        if let Some(mut file) = self.file.take() {
            file.finish().map_err(error)?;
            self.out.write_all(file.inner())?;
        }
        self.out.flush()
    }
}

fn error(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
