//! Tables of references for Zarr as Parquet files: what [`thalweg_views::zarr::tables`] says is written, one change after the other.
//!
//! Each file is written under another name and gets its own when it is whole, the metadata last: readers find files of before or after,
//! each of them whole.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use thalweg_convert::InFolder;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::zarr::tables::Table;

/// Carries out the changes on standard input, a line of JSON each, and answers each with an empty line, until there are no more.
///
/// # Errors
/// `InvalidArgument` for a line that is no change; `Io` if a file cannot be written.
pub fn serve() -> Result<()> {
    let deaf = |e: std::io::Error| Error::io("cannot speak with the program that makes the view", e);
    let (asked, mut said) = (std::io::stdin().lock(), std::io::stdout().lock());
    let form = Form::new().map_err(failed)?;
    for line in asked.lines() {
        let asked: InFolder = serde_json::from_str(&line.map_err(deaf)?).map_err(|e| {
            Error::new(ErrorKind::InvalidArgument, format!("standard input is nothing of this release: {e}"))
        })?;
        form.write(&asked).map_err(|e| e.in_object(asked.shown))?;
        said.write_all(b"\n").and_then(|()| said.flush()).map_err(deaf)?;
    }
    Ok(())
}

fn failed(e: ParquetError) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write the view: Parquet: {e}"))
}

/// Gives a file its content and its name.
fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let mut new = path.as_os_str().to_os_string();
    new.push(".new");
    let written = fs::write(&new, content).and_then(|()| fs::rename(&new, path));
    written.map_err(|e| {
        let _ = fs::remove_file(&new);
        Error::io(format!("cannot write '{}'", path.display()), e)
    })
}

/// The form of all files.
struct Form {
    schema: TypePtr,
    properties: WriterPropertiesPtr,
}

/// The columns of a table, with an entry for each row.
struct Columns {
    paths: Vec<Option<ByteArray>>,
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    values: Vec<Option<ByteArray>>,
}

impl Form {
    fn new() -> parquet::errors::Result<Form> {
        let field = |name: &str, physical, repetition, logical| {
            let field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
            field.with_logical_type(logical).build().map(Arc::new)
        };
        let fields = vec![
            field("path", Physical::BYTE_ARRAY, Repetition::OPTIONAL, Some(LogicalType::String))?,
            field("offset", Physical::INT64, Repetition::REQUIRED, None)?,
            field("size", Physical::INT64, Repetition::REQUIRED, None)?,
            field("raw", Physical::BYTE_ARRAY, Repetition::OPTIONAL, None)?,
        ];
        let schema = Arc::new(Type::group_type_builder("references").with_fields(fields).build()?);
        // Offsets and values differ from row to row, URLs and sizes do not. fastparquet takes integers for real numbers unless statistics
        // say that none is missing.
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_column_statistics_enabled("offset".into(), EnabledStatistics::Chunk)
            .set_column_statistics_enabled("size".into(), EnabledStatistics::Chunk)
            .set_column_dictionary_enabled("offset".into(), false)
            .set_column_dictionary_enabled("raw".into(), false)
            .set_created_by("thalweg".into());
        Ok(Form { schema, properties: Arc::new(properties.build()) })
    }

    fn write(&self, asked: &InFolder) -> Result<()> {
        let folder = Path::new(&asked.folder);
        for table in &asked.change.tables {
            let array = folder.join(&table.array);
            fs::create_dir_all(&array).map_err(|e| Error::io("cannot make a folder of the view", e))?;
            replace(&array.join(format!("refs.{}.parq", table.number)), &self.file(table)?)?;
        }
        replace(&folder.join(".zmetadata"), asked.change.metadata.as_bytes())
    }

    /// The bytes of a file.
    fn file(&self, table: &Table) -> Result<Vec<u8>> {
        let nothing = |what: &str| Error::new(ErrorKind::InvalidArgument, format!("a view's table {what}"));
        let mut values: Vec<Option<ByteArray>> = vec![None; table.places.len()];
        for (row, text) in &table.values {
            let bytes = BASE64_STANDARD.decode(text).map_err(|_| nothing("has values that are not in base64"))?;
            let place = usize::try_from(*row).ok().and_then(|row| values.get_mut(row));
            *place.ok_or_else(|| nothing("has values behind its last row"))? = Some(ByteArray::from(bytes));
        }
        let urls: Vec<ByteArray> = table.urls.iter().map(|url| ByteArray::from(url.as_str())).collect();
        let mut paths = Vec::with_capacity(table.places.len());
        for place in &table.places {
            let url = place.map(|(url, ..)| urls.get(url as usize).cloned().ok_or_else(|| nothing("has no such URL")));
            paths.push(url.transpose()?);
        }
        let number = |of: fn(&(u32, u64, u64)) -> u64| -> Vec<i64> {
            table.places.iter().map(|place| place.as_ref().map_or(0, of) as i64).collect()
        };
        let (offsets, sizes) = (number(|place| place.1), number(|place| place.2));
        self.encode(Columns { paths, offsets, sizes, values }).map_err(failed)
    }

    fn encode(&self, columns: Columns) -> parquet::errors::Result<Vec<u8>> {
        let Columns { paths, offsets, sizes, values } = columns;
        let levels = |column: &[Option<ByteArray>]| column.iter().map(|cell| cell.is_some().into()).collect();
        let levels: [Vec<i16>; 2] = [levels(&paths), levels(&values)];
        let texts = [paths, values].map(|column| column.into_iter().flatten().collect::<Vec<_>>());
        let mut writer = SerializedFileWriter::new(Vec::new(), self.schema.clone(), self.properties.clone())?;
        let mut group = writer.next_row_group()?;
        for number in 0.. {
            let Some(mut column) = group.next_column()? else { break };
            match (column.untyped(), number) {
                (ColumnWriter::ByteArrayColumnWriter(to), 0) => to.write_batch(&texts[0], Some(&levels[0]), None)?,
                (ColumnWriter::Int64ColumnWriter(to), 1) => to.write_batch(&offsets, None, None)?,
                (ColumnWriter::Int64ColumnWriter(to), 2) => to.write_batch(&sizes, None, None)?,
                (ColumnWriter::ByteArrayColumnWriter(to), 3) => to.write_batch(&texts[1], Some(&levels[1]), None)?,
                _ => return Err(ParquetError::General("another type".into())),
            };
            column.close()?;
        }
        group.close()?;
        writer.into_inner()
    }
}
