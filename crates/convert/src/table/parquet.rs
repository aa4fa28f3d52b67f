//! Tables as Parquet files: a row group for the rows that come together, statistics of each; attributes in the file's metadata, as JSON under
//! the key `attributes`.

use super::Sink;
use super::columns::{Cells, Column, Columns, Rows};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use serde_json::{Map, Value as Json};
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use thalweg_choice::Choice;
use thalweg_types::{AttributeValue, ElementType, Error, ErrorKind, Result};
use thalweg_views::arrays::Arrays;

use crate::zarr::names::json_of;

/// A Parquet file.
pub struct Parquet {
    writer: SerializedFileWriter<BufWriter<File>>,
    has_axis: bool,
}

fn failed(e: ParquetError) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write the table: Parquet: {e}"))
}

impl Parquet {
    /// Creates the file.
    ///
    /// # Errors
    /// `Unsupported` for a transform that Parquet does not have; those of writing.
    pub fn create(name: &str, columns: &Columns<'_>, all: &Arrays, choice: &Choice) -> Result<Parquet> {
        let mut fields = Vec::new();
        let whole = |name: &str| field(name, Physical::INT64, None, false);
        if columns.steps() > 0 {
            fields.push(whole(columns.step())?);
        }
        fields.extend(columns.axis().map(whole).transpose()?);
        let mut compression = None;
        for column in columns.columns() {
            let is_optional = column.may_be_empty(columns);
            let (physical, logical) = form(column.element)?;
            for name in column.names() {
                fields.push(field(&name, physical, logical.clone(), is_optional)?);
            }
            compression = compression.or(choice.transform(&column.name));
        }
        let schema = Type::group_type_builder("table").with_fields(fields).build().map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(codec(compression)?)
            .set_created_by("thalweg".into())
            .set_key_value_metadata(Some(vec![KeyValue::new(
                "attributes".into(),
                attributes(columns, all).to_string(),
            )]));
        let file = File::create(name).map_err(|e| Error::io("cannot write the table", e))?;
        let writer = SerializedFileWriter::new(BufWriter::new(file), Arc::new(schema), Arc::new(properties.build()));
        Ok(Parquet { writer: writer.map_err(failed)?, has_axis: columns.axis().is_some() })
    }
}

/// The compression of all columns: zstd at its usual level, unless a transform says another.
fn codec(transform: Option<&str>) -> Result<Compression> {
    let zstd = |level: i32| ZstdLevel::try_new(level).map(Compression::ZSTD).map_err(failed);
    let Some(text) = transform else { return zstd(3) };
    let (name, level) = text.split_once(':').unwrap_or((text, ""));
    match name.to_ascii_lowercase().as_str() {
        "none" => Ok(Compression::UNCOMPRESSED),
        "zstd" => zstd(level.rsplit('=').next().unwrap_or_default().trim().parse().unwrap_or(3)),
        _ => {
            let what = format!("transform {text}: zstd and none are written to Parquet, for all of its columns");
            Err(Error::new(ErrorKind::Unsupported, what))
        }
    }
}

fn field(name: &str, physical: Physical, logical: Option<LogicalType>, is_optional: bool) -> Result<TypePtr> {
    let repetition = if is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let made = Type::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical);
    made.build().map(Arc::new).map_err(failed)
}

/// The type of a column's cells.
fn form(element: ElementType) -> Result<(Physical, Option<LogicalType>)> {
    use ElementType::*;
    let integer = |bits: i8, is_signed| Some(LogicalType::integer(bits, is_signed));
    Ok(match element {
        I8 => (Physical::INT32, integer(8, true)),
        I16 => (Physical::INT32, integer(16, true)),
        I32 => (Physical::INT32, None),
        U8 => (Physical::INT32, integer(8, false)),
        U16 => (Physical::INT32, integer(16, false)),
        U32 => (Physical::INT32, integer(32, false)),
        I64 => (Physical::INT64, None),
        U64 => (Physical::INT64, integer(64, false)),
        F32 | Complex => (Physical::FLOAT, None),
        F64 | DoubleComplex => (Physical::DOUBLE, None),
        String => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        LongDouble | StringArray | Char => {
            return Err(Error::new(ErrorKind::Unsupported, format!("Parquet has no type for {}", element.name())));
        }
    })
}

/// Attributes of the file under "", those of variables under their names.
fn attributes(columns: &Columns<'_>, all: &Arrays) -> Json {
    let of = |attributes: &[(String, AttributeValue)], element| {
        let each = attributes.iter().map(|(key, value)| (key.clone(), json_of(key, value, element)));
        Json::Object(each.collect())
    };
    let mut made = Map::new();
    made.insert(String::new(), of(&all.attributes, None));
    for array in all.arrays.iter().filter(|array| columns.columns().iter().any(|one| one.name == array.name)) {
        made.insert(array.name.clone(), of(&array.attributes, Some(array.element)));
    }
    Json::Object(made)
}

/// The numbers of a column, those of rows where there are any.
fn numbers<const N: usize, T>(
    bytes: &[u8],
    stride: usize,
    offset: usize,
    is_there: &dyn Fn(u64) -> bool,
    of: fn([u8; N]) -> T,
) -> Vec<T> {
    let rows = (0u64..).zip(bytes.chunks_exact(stride.max(1))).filter(|(row, _)| is_there(*row));
    rows.filter_map(|(_, value)| value.get(offset..offset + N)?.try_into().ok().map(of)).collect()
}

impl Sink for Parquet {
    fn rows(&mut self, rows: &Rows<'_>) -> Result<()> {
        let count = rows.len();
        let mut group = self.writer.next_row_group().map_err(failed)?;
        let mut write = |values: &dyn Fn(&mut ColumnWriter<'_>) -> parquet::errors::Result<usize>| -> Result<()> {
            let lost = || Error::new(ErrorKind::InvalidArgument, "a column more than there are");
            let mut column = group.next_column().map_err(failed)?.ok_or_else(lost)?;
            values(column.untyped()).map_err(failed)?;
            column.close().map_err(failed)
        };
        let whole = |numbers: Vec<i64>| {
            move |column: &mut ColumnWriter<'_>| match column {
                ColumnWriter::Int64ColumnWriter(column) => column.write_batch(&numbers, None, None),
                _ => Err(ParquetError::General("another type".into())),
            }
        };
        if !rows.steps.is_empty() {
            let steps: Vec<i64> = (0..count).map(|row| rows.steps[(row / rows.of_step) as usize] as i64).collect();
            write(&whole(steps))?;
        }
        if self.has_axis {
            write(&whole((0..count).map(|row| (row % rows.of_step) as i64).collect()))?;
        }
        for (at, column) in rows.columns.iter().enumerate() {
            let is_there = |row: u64| rows.has(at, row);
            let levels: Vec<i16> = (0..count).map(|row| i16::from(is_there(row))).collect();
            let parts = if column.element.is_complex() { 2 } else { 1 };
            for part in 0..parts {
                write(&|to| cells(column, &rows.cells[at].0, part, &is_there, &levels, to))?;
            }
        }
        group.close().map(drop).map_err(failed)
    }

    fn end(self: Box<Self>) -> Result<()> {
        let inner = self.writer.into_inner().map_err(failed)?;
        inner.into_inner().map(drop).map_err(|e| Error::io("cannot write the table", e.into_error()))
    }
}

/// Writes a column; the levels count where cells may be empty.
fn cells(
    column: &Column,
    cells: &Cells,
    part: usize,
    is_there: &dyn Fn(u64) -> bool,
    levels: &[i16],
    to: &mut ColumnWriter<'_>,
) -> parquet::errors::Result<usize> {
    use ElementType::*;
    let levels = Some(levels);
    let bytes = match cells {
        Cells::Texts(texts) => {
            let there = (0u64..).zip(texts).filter(|(row, _)| is_there(*row));
            let texts: Vec<ByteArray> = there.map(|(_, text)| ByteArray::from(text.as_str())).collect();
            return match to {
                ColumnWriter::ByteArrayColumnWriter(to) => to.write_batch(&texts, levels, None),
                _ => Err(ParquetError::General("another type".into())),
            };
        }
        Cells::Numbers(bytes) => bytes,
    };
    let size = column.size();
    let offset = part * (size / 2);
    match to {
        ColumnWriter::Int32ColumnWriter(to) => {
            let values: Vec<i32> = match column.element {
                I8 => numbers(bytes, size, 0, is_there, |b| i8::from_ne_bytes(b).into()),
                I16 => numbers(bytes, size, 0, is_there, |b| i16::from_ne_bytes(b).into()),
                U8 => numbers(bytes, size, 0, is_there, |b| u8::from_ne_bytes(b).into()),
                U16 => numbers(bytes, size, 0, is_there, |b| u16::from_ne_bytes(b).into()),
                _ => numbers(bytes, size, 0, is_there, i32::from_ne_bytes),
            };
            to.write_batch(&values, levels, None)
        }
        ColumnWriter::Int64ColumnWriter(to) => {
            to.write_batch(&numbers(bytes, size, 0, is_there, i64::from_ne_bytes), levels, None)
        }
        ColumnWriter::FloatColumnWriter(to) => {
            to.write_batch(&numbers(bytes, size, offset, is_there, f32::from_ne_bytes), levels, None)
        }
        ColumnWriter::DoubleColumnWriter(to) => {
            to.write_batch(&numbers(bytes, size, offset, is_there, f64::from_ne_bytes), levels, None)
        }
        _ => Err(ParquetError::General("another type".into())),
    }
}
