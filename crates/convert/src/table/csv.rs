//! Tables as text: RFC 4180, UTF-8, a line of names first. Numbers are the shortest that read back as the same; `NaN`, `inf`, `-inf`.

use super::Sink;
use super::columns::{Cells, Column, Columns, Rows};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use thalweg_convert::LeftOut;
use thalweg_report::csv::field;
use thalweg_types::{ElementType, Error, ErrorKind, Result};
use thalweg_views::arrays::Arrays;

/// A file of text.
pub struct Csv {
    out: BufWriter<File>,
    has_axis: bool,
}

fn unwritten(e: std::io::Error) -> Error {
    Error::io("cannot write the table", e)
}

impl Csv {
    /// Creates the file, with its first line.
    ///
    /// - `left_out`: gets what text has no place for.
    ///
    /// # Errors
    /// Those of writing.
    pub fn create(name: &str, columns: &Columns<'_>, all: &Arrays, left_out: &mut Vec<LeftOut>) -> Result<Csv> {
        let attributes = all.attributes.len() + all.arrays.iter().map(|array| array.attributes.len()).sum::<usize>();
        // Numbers of steps have one of ours.
        let ours = all
            .arrays
            .iter()
            .filter(|array| matches!(array.axes.as_slice(), [axis] if *axis == array.name && array.has_steps))
            .count();
        if attributes > ours {
            left_out.push(LeftOut::new("attributes", "text has no place for them"));
        }
        let mut line = Vec::new();
        if columns.steps() > 0 {
            line.push(field(columns.step()));
        }
        line.extend(columns.axis().map(field));
        line.extend(columns.columns().iter().flat_map(Column::names).map(|name| field(&name)));
        let file = File::create(name).map_err(unwritten)?;
        let mut made = Csv { out: BufWriter::new(file), has_axis: columns.axis().is_some() };
        made.out.write_all(format!("{}\r\n", line.join(",")).as_bytes()).map_err(unwritten)?;
        Ok(made)
    }
}

/// Appends a number.
fn number(element: ElementType, bytes: &[u8], line: &mut String) -> Result<()> {
    use ElementType::*;
    macro_rules! shown {
        ($type:ty) => {
            bytes.try_into().map(|bytes| write!(line, "{:?}", <$type>::from_ne_bytes(bytes)))
        };
    }
    let done = match element {
        I8 => shown!(i8),
        I16 => shown!(i16),
        I32 => shown!(i32),
        I64 => shown!(i64),
        U8 => shown!(u8),
        U16 => shown!(u16),
        U32 => shown!(u32),
        U64 => shown!(u64),
        F32 => shown!(f32),
        F64 => shown!(f64),
        Complex | DoubleComplex => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            let part = if element == Complex { F32 } else { F64 };
            number(part, real, line)?;
            line.push(',');
            return number(part, imaginary, line);
        }
        LongDouble | String | StringArray | Char => {
            return Err(Error::new(ErrorKind::InvalidArgument, "a type without cells"));
        }
    };
    // A text takes every number.
    done.map(drop).map_err(|_| Error::new(ErrorKind::InvalidArgument, "a number of another length"))
}

impl Sink for Csv {
    fn rows(&mut self, rows: &Rows<'_>) -> Result<()> {
        let mut line = String::new();
        for row in 0..rows.len() {
            line.clear();
            let mut begin = true;
            let mut next = |line: &mut String| {
                if !std::mem::take(&mut begin) {
                    line.push(',');
                }
            };
            if let Some(step) = rows.steps.get((row / rows.of_step) as usize) {
                next(&mut line);
                let _ = write!(line, "{step}");
            }
            if self.has_axis {
                next(&mut line);
                let _ = write!(line, "{}", row % rows.of_step);
            }
            for (at, column) in rows.columns.iter().enumerate() {
                next(&mut line);
                if !rows.has(at, row) {
                    line.push_str(if column.element.is_complex() { "," } else { "" });
                    continue;
                }
                match &rows.cells[at].0 {
                    Cells::Texts(texts) => line.push_str(&field(&texts[row as usize])),
                    Cells::Numbers(bytes) => {
                        let size = column.size();
                        number(column.element, &bytes[row as usize * size..][..size], &mut line)?;
                    }
                }
            }
            line.push_str("\r\n");
            self.out.write_all(line.as_bytes()).map_err(unwritten)?;
        }
        Ok(())
    }

    fn end(mut self: Box<Self>) -> Result<()> {
        self.out.flush().map_err(unwritten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_read_back_as_what_they_are() {
        let of = |element, bytes: &[u8]| {
            let mut line = String::new();
            number(element, bytes, &mut line).unwrap();
            line
        };
        assert_eq!(of(ElementType::F64, &0.1f64.to_ne_bytes()), "0.1");
        assert_eq!(of(ElementType::F64, &f64::NAN.to_ne_bytes()), "NaN");
        assert_eq!(of(ElementType::F64, &1e300f64.to_ne_bytes()).parse::<f64>().unwrap(), 1e300);
        assert_eq!(of(ElementType::U64, &u64::MAX.to_ne_bytes()), u64::MAX.to_string());
        let complex = [1.5f32.to_ne_bytes(), (-2f32).to_ne_bytes()].concat();
        assert_eq!(of(ElementType::Complex, &complex), "1.5,-2.0");
    }
}
