//! Tables for readers: each line starts with the index of its first value.

use super::Form;
use super::part::{ResolvedSlice, StepBox};
use super::read;
use crate::format;
use crate::outcome::Failure;
use crate::terminal::{ASIDE, HEADING, Terminal, plain};
use std::io::Write;
use thalweg_choice::region::StridedBox;
use thalweg_reader::Reader;

/// Columns where there is no terminal; rows of arrays of two and more dimensions are never broken there.
const WIDTH: usize = 100;

pub fn print(reader: &Reader, parts: &[ResolvedSlice], form: &Form, out: &mut Terminal) -> Result<(), Failure> {
    let mut first = true;
    let mut rest = parts;
    while let Some(part) = rest.first() {
        if !first && !form.bare {
            writeln!(out)?;
        }
        first = false;
        // Scalars beside each other make one table.
        let scalars = rest.iter().take_while(|p| p.is_scalar()).count();
        if scalars > 0 {
            print_scalars(reader, &rest[..scalars], form, out)?;
            rest = &rest[scalars..];
        } else {
            print_array(reader, part, form, out)?;
            rest = &rest[1..];
        }
    }
    Ok(())
}

/// A row for each step, a cell for each variable; empty where a step lacks it.
pub fn scalar_rows(
    reader: &Reader,
    parts: &[ResolvedSlice],
    text: &dyn Fn(&thalweg_types::Value) -> String,
) -> Result<Vec<(u64, Vec<String>)>, Failure> {
    let mut rows = std::collections::BTreeMap::new();
    for (i, part) in parts.iter().enumerate() {
        for (step, value) in read::scalars(reader, part)? {
            rows.entry(step).or_insert_with(|| vec![String::new(); parts.len()])[i] = text(&value);
        }
    }
    Ok(rows.into_iter().collect())
}

fn print_scalars(reader: &Reader, parts: &[ResolvedSlice], form: &Form, out: &mut Terminal) -> Result<(), Failure> {
    let rows = scalar_rows(reader, parts, &|value| form.text(value))?;
    if form.bare {
        let there = |cells: &mut dyn Iterator<Item = &String>| -> Vec<String> {
            cells.filter(|cell| !cell.is_empty()).cloned().collect()
        };
        return match form.per_line {
            Some(number) => print_bare(&there(&mut rows.iter().flat_map(|(_, cells)| cells)), number, out),
            None => rows.iter().try_for_each(|(_, cells)| print_bare(&there(&mut cells.iter()), parts.len(), out)),
        };
    }
    let names: Vec<String> = parts.iter().map(|p| plain(&p.variable.name)).collect();
    let widths: Vec<usize> = names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            rows.iter().map(|(_, r)| r[i].chars().count()).chain([name.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let step_width = rows.last().map_or(0, |(s, _)| s.to_string().len()).max(4);
    // Numbers to the right, text to the left.
    let cell = |i: usize, text: &str| {
        if parts[i].variable.element.is_text() {
            format!("  {text:<w$}", w = widths[i])
        } else {
            format!("  {text:>w$}", w = widths[i])
        }
    };
    let heading: String = names.iter().enumerate().map(|(i, n)| cell(i, n)).collect();
    out.styled(HEADING, format!("{:>step_width$}{heading}", "step").trim_end())?;
    writeln!(out)?;
    for (step, cells) in &rows {
        let line: String = cells.iter().enumerate().map(|(i, c)| cell(i, c)).collect();
        writeln!(out, "{}", format!("{step:>step_width$}{line}").trim_end())?;
    }
    Ok(())
}

fn print_array(reader: &Reader, part: &ResolvedSlice, form: &Form, out: &mut Terminal) -> Result<(), Failure> {
    let mut first = true;
    for step in &part.steps {
        for piece in part.pieces(reader, *step)? {
            if !first && !form.bare {
                writeln!(out)?;
            }
            first = false;
            print_piece(reader, part, &piece, form, out)?;
        }
    }
    Ok(())
}

fn print_piece(
    reader: &Reader,
    part: &ResolvedSlice,
    piece: &StepBox,
    form: &Form,
    out: &mut Terminal,
) -> Result<(), Failure> {
    if !form.bare {
        print_heading(part, piece, out)?;
    }
    read::for_each_stretch(reader, part, piece, &mut |area, bytes| {
        let texts: Vec<String> = read::values(part.variable.element, bytes).map(|v| form.text(&v)).collect();
        match form.bare {
            true => {
                let row = *area.count.last().unwrap_or(&1) as usize;
                texts.chunks(row.max(1)).try_for_each(|row_of| print_bare(row_of, form.per_line.unwrap_or(row), out))
            }
            false => print_stretch(&texts, piece, area, form, out),
        }
    })
}

/// Values alone, with a blank between them.
fn print_bare(values: &[String], per_line: usize, out: &mut Terminal) -> Result<(), Failure> {
    for line in values.chunks(per_line.max(1)) {
        writeln!(out, "{}", line.join(" "))?;
    }
    Ok(())
}

/// What a box is of.
fn print_heading(part: &ResolvedSlice, piece: &StepBox, out: &mut Terminal) -> Result<(), Failure> {
    out.styled(HEADING, &plain(&part.variable.name))?;
    write!(out, "  ")?;
    out.styled(ASIDE, part.variable.element.name())?;
    write!(out, "  step {}", piece.step)?;
    if let Some(block) = piece.block {
        write!(out, "  block {block}")?;
    }
    write!(out, "  {}", format::lattice(&piece.area))?;
    if !piece.area.is_all_of(&piece.shape) {
        write!(out, " of {}", format::shape(&piece.shape))?;
    }
    if piece.area.is_empty() {
        write!(out, "  empty")?;
    }
    writeln!(out)?;
    Ok(())
}

fn print_stretch(
    texts: &[String],
    piece: &StepBox,
    area: &StridedBox,
    form: &Form,
    out: &mut Terminal,
) -> Result<(), Failure> {
    let width = texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    let label_of = |index: &[u64]| format!("[{}]", index.iter().map(u64::to_string).collect::<Vec<_>>().join(", "));
    let whole = &piece.area;
    let last = (0..whole.count.len()).map(|d| whole.start[d] + (whole.count[d] - 1) * whole.stride[d]);
    let last: Vec<u64> = last.collect();
    let label_width = label_of(&last).len();
    let row = *area.count.last().unwrap_or(&1) as usize;
    let fit = |columns: usize| (columns.saturating_sub(2 + label_width) / (width + 1)).max(1);
    let rank = area.count.len();
    let at_once = match (form.per_line, out.width(), rank) {
        (Some(number), ..) => number,
        (None, Some(columns), _) => fit(columns),
        (None, None, 1) => fit(WIDTH),
        (None, None, _) => row.max(1),
    };
    let planes = rank > 2 && area.count[rank - 2] > 1;
    let mut index = area.start.clone();
    let mut line = String::new();
    for (r, values) in texts.chunks(row.max(1)).enumerate() {
        // A blank line between planes.
        if planes && r > 0 && index[rank - 2] == area.start[rank - 2] {
            writeln!(out)?;
        }
        for some in values.chunks(at_once) {
            line.clear();
            for text in some {
                line.push_str(&format!(" {text:>width$}"));
            }
            out.styled(ASIDE, &format!("  {:<label_width$}", label_of(&index)))?;
            writeln!(out, "{line}")?;
            some.iter().for_each(|_| read::advance(&mut index, area));
        }
    }
    Ok(())
}
