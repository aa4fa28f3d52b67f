//! Tables: variables of a BP file as columns.
//!
//! | variable | column |
//! |---|---|
//! | scalar, text; array of one element | one row for each step |
//! | array of one axis | one row for each element of each step, beside those of other arrays as long, and of single values, which are repeated |
//! | complex numbers | two columns, `name.re` and `name.im` |
//! | anything else | none; listed with the reason |
//!
//! A table has rows of elements if only arrays are chosen, or if variables were chosen by name and an array is among them; else a row for each step.
//! The first column is `step`, the second of a table of elements the position along the arrays' axis. Where a variable was not
//! written in a step, its cells are empty.
//!
//! | room | what it owns |
//! |---|---|
//! | [`columns`] | what the columns are; values of some steps |
//! | [`csv`] | tables as text |
//! | [`parquet`] | tables as Parquet files |

pub mod columns;
pub mod csv;
pub mod parquet;

use columns::{Columns, Rows};
use thalweg_convert::{Converted, Format, LeftOut, Message, Request};
use thalweg_reader::Reader;
use thalweg_types::Result;
use thalweg_views::Chosen;
use thalweg_views::arrays::{Arrays, Pieces};

/// What takes a table, some rows after the others.
pub trait Sink {
    /// Writes rows.
    ///
    /// # Errors
    /// Errors of writing.
    fn rows(&mut self, rows: &Rows<'_>) -> Result<()>;

    /// Writes what follows the last row.
    ///
    /// # Errors
    /// Errors of writing.
    fn end(self: Box<Self>) -> Result<()>;
}

/// Converts a BP file.
///
/// # Errors
/// Those of reads and writes; `Unsupported` for a transform that the format does not have.
pub fn convert(request: &Request, to: Format, tell: &dyn Fn(Message)) -> Result<Converted> {
    let choice = request.chosen.parse()?;
    let reader = Reader::open(thalweg_io::mounts::layout()?, &request.source)?;
    let most = (request.memory / 4).max(1 << 20);
    let all = Arrays::of(&reader, Pieces::Values(Chosen { choice: &choice, most }))?;
    let mut left_out: Vec<LeftOut> = all.left_out.iter().map(|left| LeftOut::new(&left.name, &left.why)).collect();
    let columns = Columns::of(&reader, &all.arrays, &choice, &mut left_out)?;
    let mut sink: Box<dyn Sink> = match to {
        Format::Parquet => Box::new(parquet::Parquet::create(&request.target, &columns, &all, &choice)?),
        _ => Box::new(csv::Csv::create(&request.target, &columns, &all, &mut left_out)?),
    };
    let bytes = columns.bytes();
    tell(Message::Total(bytes));
    let mut done = 0;
    columns.hand_on(most, &mut |rows| {
        sink.rows(rows)?;
        done += rows.bytes();
        tell(Message::Done(done));
        Ok(())
    })?;
    sink.end()?;
    let names: Vec<&str> = reader.variables().iter().map(|head| head.name.as_str()).collect();
    Ok(Converted {
        variables: columns.variables(),
        steps: columns.steps() as u64,
        bytes,
        left_out,
        unknown: choice.unknown(&names).into_iter().map(str::to_string).collect(),
    })
}
