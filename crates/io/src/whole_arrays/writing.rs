//! Writes blocks, and values of missing elements, to their places in files.

use super::assigned::{Part, Place};
use super::places;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use thalweg_movement::pack::blocks::WrittenBlock;
use thalweg_types::{Error, ErrorKind, Result};

/// The files of a step, which are opened when something is written to them.
pub(super) struct Files<'f> {
    names: &'f [PathBuf],
    opened: HashMap<usize, File>,
}

impl<'f> Files<'f> {
    pub(super) fn new(names: &'f [PathBuf]) -> Files<'f> {
        Files { names, opened: HashMap::new() }
    }

    fn shown(&self, file: usize) -> String {
        self.names.get(file).map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn writable(&mut self, file: usize) -> Result<&File> {
        match self.opened.entry(file) {
            Entry::Occupied(one) => Ok(one.into_mut()),
            Entry::Vacant(none) => {
                let another = || Error::new(ErrorKind::Io, "the place of a block in another file");
                let opened = OpenOptions::new().write(true).open(self.names.get(file).ok_or_else(another)?);
                Ok(none.insert(opened.map_err(|e| Error::io("cannot open the file to write blocks", e))?))
            }
        }
    }

    /// Writes a block, or the blocks with the components of one.
    ///
    /// - `step`: bytes of spilled blocks and of components that are copied at a time.
    ///
    /// # Errors
    /// Failures of the system, with file, byte and variable; `Torn` if values that were spilled are missing.
    pub(super) fn write(&mut self, place: &Place, blocks: &[Option<&WrittenBlock<'_>>], step: usize) -> Result<()> {
        let written = self.writable(place.file).and_then(|object| write_blocks(object, blocks, place, step));
        written.map_err(|e| {
            let e = e.in_object(self.shown(place.file));
            match blocks.iter().flatten().next() {
                Some(block) => e.in_variable(&*block.spec().name),
                None => e,
            }
        })
    }

    /// Gives elements that nobody writes the value of missing ones: their place may have bytes of an output that failed.
    ///
    /// - `have_holes`: whether elements of an array are in no block, for each array.
    ///
    /// # Errors
    /// As [`Files::write`].
    pub(super) fn fill(&mut self, parts: &[Part], have_holes: &[bool]) -> Result<()> {
        for part in parts {
            let has_holes = part.arrays.iter().flatten().any(|array| have_holes.get(*array) == Some(&true));
            let holes = if has_holes { &part.places.chunks[..] } else { &[] };
            for at in part.places.skipped.iter().chain(holes) {
                let filled = self.writable(part.file).and_then(|object| fill_chunk(object, part, *at));
                filled.map_err(|e| e.in_variable(&*part.name).in_object(self.shown(part.file)))?;
            }
        }
        Ok(())
    }

    /// What was written is on the device when this returns.
    ///
    /// # Errors
    /// Failures of the system.
    pub(super) fn sync(&self) -> Result<()> {
        self.opened.iter().try_for_each(|(file, object)| {
            object.sync_data().map_err(|e| Error::io("cannot write to the device", e).in_object(self.shown(*file)))
        })
    }
}

/// Fills a chunk with missing elements.
fn fill_chunk(object: &File, part: &Part, at: u64) -> Result<()> {
    /// Bytes that are written together.
    const PIECE: usize = 1 << 20;
    let row = part.places.rows.checked_mul(part.kind.size());
    let chunk = part.shape.iter().skip(1).fold(row, |all, extent| all?.checked_mul(*extent));
    let chunk = chunk.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a chunk of more than 2^64 bytes"))?;
    let missing = part.kind.missing().repeat(PIECE.min(chunk as usize) / part.kind.size() as usize);
    let mut done = 0;
    while done < chunk {
        let now = (missing.len() as u64).min(chunk - done);
        let written = object.write_all_at(&missing[..now as usize], at + done);
        written.map_err(|e| Error::io("cannot write values of missing elements", e).at_byte(at + done))?;
        done += now;
    }
    Ok(())
}

/// Writes a block, or the components of one, to its places.
///
/// - `step`: bytes of spilled blocks and of components that are copied at a time.
fn write_blocks(object: &File, blocks: &[Option<&WrittenBlock<'_>>], place: &Place, step: usize) -> Result<()> {
    let Place { kind, shape, offset, count, places, .. } = place;
    if count.contains(&0) {
        return Ok(());
    }
    let write = |bytes: &[u8], at: u64| {
        object.write_all_at(bytes, at).map_err(|e| Error::io("cannot write values", e).at_byte(at))
    };
    let runs = places::runs(places, shape, offset, count, kind.size())?;
    if let [Some(block)] = blocks
        && block.spilled().is_none()
    {
        let values = block.values()?;
        return runs.into_iter().try_for_each(|run| write(values.get(run.from.clone()).ok_or_else(lost)?, run.at));
    }
    let (size, several) = (kind.size() as usize, blocks.len());
    let unit = size * several;
    let values = blocks.iter().map(|block| match block {
        Some(block) if block.spilled().is_none() => block.values().map(Some),
        _ => Ok(None),
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    // Both together are a step.
    let elements = (step / if several > 1 { unit + size } else { unit }).max(64);
    let step = elements * unit;
    let (mut memory, mut component) = (vec![0; step], vec![0; if several > 1 { elements * size } else { 0 }]);
    for run in runs {
        let mut done = run.from.start;
        while done < run.from.end {
            let piece = &mut memory[..step.min(run.from.end - done)];
            let from = done / several..(done + piece.len()) / several;
            if let [block] = blocks {
                read(*block, values[0].as_deref(), from, piece)?;
            } else {
                let component = &mut component[..from.len()];
                for (number, (block, values)) in blocks.iter().zip(&values).enumerate() {
                    read(*block, values.as_deref(), from.clone(), component)?;
                    for (to, element) in piece.chunks_exact_mut(unit).zip(component.chunks_exact(size)) {
                        to[number * size..(number + 1) * size].copy_from_slice(element);
                    }
                }
            }
            write(piece, run.at + (done - run.from.start) as u64)?;
            done += piece.len();
        }
    }
    Ok(())
}

fn lost() -> Error {
    Error::new(ErrorKind::Torn, "values that were written before are missing")
}

/// Bytes of a block, wherever they are; zeros of none.
fn read(block: Option<&WrittenBlock<'_>>, values: Option<&[u8]>, from: Range<usize>, to: &mut [u8]) -> Result<()> {
    match (block, values) {
        (None, _) => to.fill(0),
        (Some(_), Some(values)) => to.copy_from_slice(values.get(from).ok_or_else(lost)?),
        (Some(block), None) => {
            let (spilled, first) = block.spilled().ok_or_else(lost)?;
            if spilled.read_at(first + from.start as u64, to)? != to.len() {
                return Err(lost());
            }
        }
    }
    Ok(())
}
