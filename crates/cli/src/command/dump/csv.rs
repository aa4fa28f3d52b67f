//! Comma-separated values: a row for each step (scalars) or each element (arrays), with its step and indices.

use super::Form;
use super::part::ResolvedSlice;
use super::{read, table};
use crate::format;
use crate::outcome::Failure;
use crate::terminal::Terminal;
use std::io::Write;
use thalweg_reader::{Kind, Reader};
use thalweg_report::csv::{field, parts};
use thalweg_types::Value;

/// The columns a variable takes: two for complex numbers.
fn columns(part: &ResolvedSlice) -> String {
    let name = &part.variable.name;
    if part.variable.element.is_complex() { parts(name).map(|part| field(&part)).join(",") } else { field(name) }
}

fn cell(value: &Value, form: &Form) -> String {
    let text = |value: &Value| match &form.format {
        Some(printf) => field(&printf.text(value)),
        None => format::exact(value),
    };
    match value {
        Value::Complex([re, im]) => format!("{},{}", text(&Value::F32(*re)), text(&Value::F32(*im))),
        Value::DoubleComplex([re, im]) => format!("{},{}", text(&Value::F64(*re)), text(&Value::F64(*im))),
        Value::String(text) if form.format.is_none() => field(&String::from_utf8_lossy(text)),
        other => text(other),
    }
}

pub fn print(reader: &Reader, parts: &[ResolvedSlice], form: &Form, out: &mut Terminal) -> Result<(), Failure> {
    let names = parts.iter().map(columns).collect::<Vec<_>>().join(",");
    if parts.iter().all(ResolvedSlice::is_scalar) {
        writeln!(out, "step,{names}")?;
        for (step, cells) in table::scalar_rows(reader, parts, &|value| cell(value, form))? {
            let cells: Vec<String> = cells
                .into_iter()
                .zip(parts)
                .map(|(c, p)| if c.is_empty() && p.variable.element.is_complex() { ",".to_string() } else { c })
                .collect();
            writeln!(out, "{step},{}", cells.join(","))?;
        }
        return Ok(());
    }
    let [first, others @ ..] = parts else { return Ok(()) };
    let same = |what: &str| {
        let names = parts.iter().map(|p| format!("'{}'", p.variable.name)).collect::<Vec<_>>().join(", ");
        Failure::Absent(format!("{names} have different {what}: as CSV, print them one by one"))
    };
    if others.iter().any(|p| p.steps != first.steps) {
        return Err(same("steps"));
    }
    let mut heading_of: Option<usize> = None;
    for step in &first.steps {
        let pieces = parts.iter().map(|p| p.pieces(reader, *step)).collect::<Result<Vec<_>, _>>()?;
        if pieces.iter().any(|p| *p != pieces[0]) {
            return Err(same("shapes"));
        }
        for piece in &pieces[0] {
            let rank = piece.area.count.len();
            if heading_of.is_none() {
                let block = if first.variable.kind == Kind::Local { "block," } else { "" };
                let indices: String = (0..rank).map(|d| format!("i{d},")).collect();
                writeln!(out, "step,{block}{indices}{names}")?;
                heading_of = Some(rank);
            } else if heading_of != Some(rank) {
                return Err(Failure::Absent(format!("'{}' changes its number of dimensions", first.variable.name)));
            }
            read::for_each_stretch(reader, first, piece, &mut |area, bytes| {
                // The same stretch of the others; parts of one shape have stretches of one shape only where their
                // elements have one size, so it is read by its box.
                let mut columns: Vec<Vec<Value>> = vec![read::values(first.variable.element, bytes).collect()];
                for part in others {
                    let stretch = super::part::StepBox { area: area.clone(), ..piece.clone() };
                    let mut column = Vec::new();
                    read::for_each_stretch(reader, part, &stretch, &mut |_, bytes| {
                        column.extend(read::values(part.variable.element, bytes));
                        Ok(())
                    })?;
                    columns.push(column);
                }
                let mut index = area.start.clone();
                let front = piece.block.map(|b| format!("{step},{b}")).unwrap_or_else(|| step.to_string());
                let mut line = String::new();
                for row in 0..columns[0].len() {
                    line.clear();
                    line.push_str(&front);
                    index.iter().for_each(|i| line.push_str(&format!(",{i}")));
                    for column in &columns {
                        line.push(',');
                        line.push_str(&column.get(row).map(|value| cell(value, form)).unwrap_or_default());
                    }
                    writeln!(out, "{line}")?;
                    read::advance(&mut index, area);
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_fields() {
        assert_eq!(cell(&Value::String(b"two\nlines".to_vec()), &Form::default()), "\"two\nlines\"");
    }

    #[test]
    fn complex_numbers_fill_two_columns() {
        assert_eq!(cell(&Value::Complex([1.5, -2.0]), &Form::default()), "1.5,-2");
    }
}
