//! A NumPy file of one array: first the steps, if the slice has a range of them, then blocks, then dimensions.

use super::part::{ResolvedSlice, StepBox};
use super::read;
use crate::format::shape as shown_shape;
use crate::npy;
use crate::outcome::Failure;
use crate::terminal::{Terminal, plain};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use thalweg_reader::Reader;
use thalweg_types::Error;

pub fn write(reader: &Reader, part: &ResolvedSlice, target: &Path, out: &mut Terminal) -> Result<(), Failure> {
    let name = plain(&part.variable.name);
    let element = part.variable.element;
    let Some(descr) = npy::descr(element) else {
        return Err(Failure::Absent(format!("'{name}' is text; --npy writes numbers (use --json)")));
    };
    let shape = shape(reader, part, &name)?;
    // Into a file beside it first: one that is there stays until the new one is whole.
    let shown = target.display().to_string();
    let mut beside = target.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = Path::new(&beside);
    let failed = |e: std::io::Error| Failure::File(Error::io(format!("cannot write '{shown}'"), e));
    let written = File::create(beside).map_err(failed).and_then(|file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        npy::write_header(&mut file, &descr, &shape).map_err(failed)?;
        values(reader, part, &mut |bytes| file.write_all(bytes).map_err(failed))?;
        file.flush().map_err(failed)?;
        std::fs::rename(beside, target).map_err(failed)
    });
    if let Err(failure) = written {
        // The failure is returned; it names a leftover file.
        let _ = std::fs::remove_file(beside);
        return Err(failure);
    }
    let shown = plain(&shown);
    writeln!(out, "{shown}: {} of shape {}", element.name(), shown_shape(&shape).replace('{', "(").replace('}', ")"))?;
    Ok(())
}

fn values(
    reader: &Reader,
    part: &ResolvedSlice,
    each: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if part.is_scalar() {
        let mut bytes = Vec::new();
        read::scalars(reader, part)?.iter().for_each(|(_, value)| value.append_to(&mut bytes));
        return each(&bytes);
    }
    for step in &part.steps {
        for piece in part.pieces(reader, *step)? {
            read::for_each_stretch(reader, part, &piece, &mut |_, bytes| each(bytes))?;
        }
    }
    Ok(())
}

/// The shape of the whole array.
fn shape(reader: &Reader, part: &ResolvedSlice, name: &str) -> Result<Vec<u64>, Failure> {
    let steps = if part.keeps_steps { vec![part.steps.len() as u64] } else { Vec::new() };
    if part.is_scalar() {
        return Ok(steps);
    }
    let counts = |p: &[StepBox]| p.iter().map(StepBox::remaining_extents).collect::<Vec<_>>();
    let first = counts(&part.pieces(reader, part.steps[0])?);
    for step in &part.steps[1..] {
        let other = counts(&part.pieces(reader, *step)?);
        if other != first {
            let (a, b) = (part.steps[0], step);
            return Err(Failure::Absent(format!(
                "'{name}' differs in shape between steps {a} and {b}: as one array, select steps or parts of one shape"
            )));
        }
    }
    if first.windows(2).any(|w| w[0] != w[1]) {
        return Err(Failure::Absent(format!(
            "the blocks of '{name}' differ in shape: as one array, select one block, '{name}[step, block]'"
        )));
    }
    let blocks = if part.keeps_blocks() { vec![first.len() as u64] } else { Vec::new() };
    Ok([steps, blocks, first.into_iter().next().unwrap_or_default()].concat())
}
