//! Values of a piece, a stretch of bounded size at a time, so that no array is too large to print.

use super::part::{ResolvedSlice, StepBox};
use crate::outcome::Failure;
use crate::terminal::{complain, plain};
use thalweg_choice::region::StridedBox;
use thalweg_reader::Reader;
use thalweg_report::text::count;
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Selection, Value};

/// Bytes held at once.
const STRETCH: u64 = 32 << 20;

/// Takes a stretch: its elements, and their bytes.
pub type Each<'e> = dyn FnMut(&StridedBox, &[u8]) -> Result<(), Failure> + 'e;

/// Hands each stretch of a piece to `each`, row-major: its elements, and their bytes in this machine's order.
pub fn for_each_stretch(
    reader: &Reader,
    part: &ResolvedSlice,
    piece: &StepBox,
    each: &mut Each<'_>,
) -> Result<(), Failure> {
    let (name, size) = (&part.variable.name, part.variable.element.size());
    if piece.area.is_empty() {
        return Ok(());
    }
    if let Some(block) = piece.block {
        // Blocks of local arrays are read as they were written, then cut.
        let bytes = reader.read_to_vec(name, piece.step, &Selection::Block(block))?;
        return each(&piece.area, &cut(&bytes, &piece.shape, &piece.area, size));
    }
    let mut uncovered = 0;
    let mut bytes = Vec::new();
    for_each_box(&piece.area, STRETCH / size.max(1), &mut |area| {
        let elements = area.elements().unwrap_or(u64::MAX);
        let length = elements.checked_mul(size).and_then(|n| usize::try_from(n).ok());
        let length = length.ok_or_else(|| Error::new(ErrorKind::NoMemory, "one row is too large").in_variable(name))?;
        bytes.clear();
        bytes.resize(length, 0);
        let filled = reader.read(name, piece.step, &area.selection(), &mut bytes)?;
        uncovered += elements.saturating_sub(filled);
        each(&area, &bytes)
    })?;
    if uncovered > 0 {
        let (name, n) = (plain(name), count(uncovered, "element"));
        complain("thalweg", &format!("'{name}', step {}: no block covers {n} of this part; shown as 0", piece.step));
    }
    Ok(())
}

/// Hands boxes of at most `most` elements that make up `area` to `each`, in row-major order; one row may be split, one
/// element not.
fn for_each_box(
    area: &StridedBox,
    most: u64,
    each: &mut dyn FnMut(StridedBox) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let rank = area.count.len();
    // The first dimension of which one index fits.
    let behind = |d: usize| thalweg_types::bounding_box::elements(&area.count[d + 1..]).unwrap_or(u64::MAX);
    let Some(split) = (0..rank).find(|d| behind(*d) <= most.max(1)) else { return each(area.clone()) };
    let at_once = (most / behind(split).max(1)).max(1);
    let mut index = vec![0; split];
    loop {
        let mut start = 0;
        while start < area.count[split] {
            let n = at_once.min(area.count[split] - start);
            let mut one = area.clone();
            for (d, i) in index.iter().enumerate() {
                (one.start[d], one.count[d]) = (area.start[d] + i * area.stride[d], 1);
            }
            (one.start[split], one.count[split]) = (area.start[split] + start * area.stride[split], n);
            each(one)?;
            start += n;
        }
        // The next index of the dimensions in front, the last one fastest.
        let Some(d) = (0..split).rev().find(|d| index[*d] + 1 < area.count[*d]) else { return Ok(()) };
        index[d] += 1;
        index[d + 1..].iter_mut().for_each(|i| *i = 0);
    }
}

/// The elements of a block within `area`.
fn cut(bytes: &[u8], shape: &[u64], area: &StridedBox, size: u64) -> Vec<u8> {
    let Some(last) = shape.len().checked_sub(1) else { return bytes.to_vec() };
    let mut out = Vec::new();
    let mut index = area.start.clone();
    loop {
        let row = index.iter().zip(shape).fold(0u64, |at, (i, n)| at * n + i);
        // Neighbours at once.
        let (pieces, length) = if area.stride[last] == 1 { (1, area.count[last]) } else { (area.count[last], 1) };
        for number in 0..pieces {
            let start = ((row + number * area.stride[last]) * size) as usize;
            let end = start + (length * size) as usize;
            out.extend_from_slice(bytes.get(start..end).unwrap_or(&[]));
        }
        let next = (0..last).rev().find(|d| index[*d].saturating_add(area.stride[*d]) < end(area, *d));
        let Some(d) = next else { return out };
        index[d] += area.stride[d];
        index[d + 1..last].copy_from_slice(&area.start[d + 1..last]);
    }
}

/// The values in bytes of this machine's order.
pub fn values(element: ElementType, bytes: &[u8]) -> impl Iterator<Item = Value> + '_ {
    let size = (element.size() as usize).max(1);
    bytes.chunks_exact(size).filter_map(move |b| Value::from_bytes(element, b, ByteOrder::NATIVE))
}

/// The values of a scalar or text at its steps, the first writer's.
pub fn scalars(reader: &Reader, part: &ResolvedSlice) -> Result<Vec<(u64, Value)>, Failure> {
    let name = &part.variable.name;
    let (Some(first), Some(last)) = (part.steps.first(), part.steps.last()) else { return Ok(Vec::new()) };
    let mut all: Vec<(u64, Value)> = Vec::with_capacity(part.steps.len());
    let mut unknown = Vec::new();
    reader.for_each_block(name, *first..last + 1, &mut |block| {
        // A range of steps may have a stride.
        if block.number == 0 && part.steps.binary_search(&block.step).is_ok() {
            match block.value {
                Some(value) => all.push((block.step, value)),
                None => unknown.push(block.step),
            }
        }
        Ok(())
    })?;
    // A value that the index does not contain is stored with the data.
    for step in unknown {
        all.push((step, reader.value(name, step)?));
    }
    all.sort_by_key(|(step, _)| *step);
    Ok(all)
}

/// Above every index of a dimension.
fn end(area: &StridedBox, d: usize) -> u64 {
    area.start[d].saturating_add(area.count[d].saturating_mul(area.stride[d]))
}

/// The index after `index` among these elements, the last dimension fastest.
pub fn advance(index: &mut [u64], area: &StridedBox) {
    for d in (0..index.len()).rev() {
        index[d] = index[d].saturating_add(area.stride[d]);
        if index[d] < end(area, d) {
            return;
        }
        index[d] = area.start[d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_make_up_the_box_in_order() {
        let area = StridedBox { start: vec![1, 2, 3], stride: vec![1, 4, 2], count: vec![3, 4, 5] };
        for most in [1, 3, 5, 7, 12, 20, 41, 60, 1000] {
            let mut index = area.start.clone();
            let mut seen = 0;
            for_each_box(&area, most, &mut |one| {
                assert!(one.elements().unwrap() <= most);
                let mut inside = one.start.clone();
                for _ in 0..one.elements().unwrap() {
                    assert_eq!(inside, index, "in stretches of {most}");
                    advance(&mut inside, &one);
                    advance(&mut index, &area);
                    seen += 1;
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, 60);
        }
    }

    #[test]
    fn a_block_is_cut_to_the_part_asked_for() {
        let bytes: Vec<u8> = (0..24).collect();
        let of = |start: &[u64], stride: &[u64], count: &[u64]| StridedBox {
            start: start.to_vec(),
            stride: stride.to_vec(),
            count: count.to_vec(),
        };
        assert_eq!(cut(&bytes, &[2, 3, 4], &of(&[0, 1, 2], &[1; 3], &[2, 2, 1]), 1), [6, 10, 18, 22]);
        assert_eq!(cut(&bytes, &[6, 2], &of(&[4, 0], &[1, 1], &[1, 2]), 2), [16, 17, 18, 19]);
        assert_eq!(cut(&bytes, &[24], &of(&[3], &[1], &[2]), 1), [3, 4]);
        assert_eq!(cut(&bytes, &[24], &of(&[3], &[7], &[3]), 1), [3, 10, 17]);
        assert_eq!(cut(&bytes, &[4, 6], &of(&[0, 1], &[3, 2], &[2, 2]), 1), [1, 3, 19, 21]);
    }
}
