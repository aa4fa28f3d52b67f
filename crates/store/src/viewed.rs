//! Bytes of a view, as calls on its extents: what objects do that know nothing better.
//!
//! | question | answer |
//! |----------|--------|
//! | writes | one call for each extent; consecutive extents are one |
//! | reads | neighbouring extents are read with one call, the bytes between them too, where that costs less than one more call ([`GAP`]) |
//! | code size | functions are values here, no parameters of types: one copy for all objects |
//! | end of the object | a read ends at the first byte that is not there, in the order of the view |

use std::ops::Range;
use thalweg_types::{Error, ErrorKind, Extent, Result};
use thalweg_view::View;

/// Most bytes that one call reads for several extents.
pub const MOST: u64 = 4 << 20;
/// Most bytes between two extents that are read along rather than asked for separately: about what a system call costs.
pub const GAP: u64 = 8 << 10;

/// Fails where one of these bytes of the view lies beyond the largest file.
///
/// # Errors
/// `OutOfBounds`.
pub fn reachable(view: &View, start: u64, bytes: usize) -> Result<()> {
    if start.checked_add(bytes as u64).is_some_and(|end| view.reaches(start..end)) {
        return Ok(());
    }
    let what = format!("{bytes} bytes from byte {start} of the view: beyond the largest file");
    Err(Error::new(ErrorKind::OutOfBounds, what))
}

/// How many bytes of a range of a view an object of `length` bytes has, before the first one that it lacks.
///
/// # Cost
/// The depth of the datatype; a step for each extent if the view does not rise.
pub fn bytes_before(view: &View, range: Range<u64>, length: u64) -> u64 {
    if let Some(below) = view.count_below(length) {
        return below.clamp(range.start, range.end) - range.start;
    }
    let mut there = 0;
    for extent in view.extents(range) {
        let here = length.saturating_sub(extent.offset).min(extent.length);
        there += here;
        if here < extent.length {
            break;
        }
    }
    there
}

/// Passes the extents of bytes `start..` of a view, and the bytes that belong there, to `write`.
///
/// # Errors
/// Those of `write`; `OutOfBounds`, before any call, for bytes that the view does not have.
pub fn write(view: &View, start: u64, bytes: &[u8], write: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    reachable(view, start, bytes.len())?;
    let mut rest = bytes;
    for extent in view.extents(start..start + bytes.len() as u64) {
        let (part, after) = rest.split_at(extent.length as usize);
        write(extent.offset, part)?;
        rest = after;
    }
    Ok(())
}

/// Reads bytes `start..` of a view with calls of `read`, which return how many bytes there were; returns how many there were of the
/// view.
///
/// # Errors
/// Those of `read`; `OutOfBounds`, before any call, for bytes that the view does not have; `NoMemory`.
/// # Cost
/// One call and a copy for each group of extents, without a copy for an extent alone; memory for [`MOST`] bytes.
pub fn read(
    view: &View,
    start: u64,
    out: &mut [u8],
    read: &mut dyn FnMut(u64, &mut [u8]) -> Result<usize>,
) -> Result<u64> {
    reachable(view, start, out.len())?;
    let mut extents = view.extents(start..start + out.len() as u64).peekable();
    let (mut group, mut between): (Vec<Extent>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut done = 0;
    while let Some(first) = extents.next() {
        let mut end = first.offset + first.length;
        group.clear();
        group.push(first);
        while let Some(next) = extents.next_if(|next| {
            next.offset >= end && next.offset - end <= GAP && next.offset + next.length - first.offset <= MOST
        }) {
            end = next.offset + next.length;
            group.push(next);
        }
        if group.len() == 1 {
            let got = read(first.offset, &mut out[done..done + first.length as usize])?;
            done += got;
            if (got as u64) < first.length {
                return Ok(done as u64);
            }
            continue;
        }
        let span = (end - first.offset) as usize;
        let no_memory = |_| Error::new(ErrorKind::NoMemory, format!("cannot hold {span} bytes"));
        between.try_reserve(span.saturating_sub(between.len())).map_err(no_memory)?;
        between.resize(span.max(between.len()), 0);
        let got = read(first.offset, &mut between[..span])?;
        for extent in &group {
            let from = ((extent.offset - first.offset) as usize).min(got);
            let to = (from + extent.length as usize).min(got);
            out[done..done + to - from].copy_from_slice(&between[from..to]);
            done += to - from;
            if ((to - from) as u64) < extent.length {
                return Ok(done as u64);
            }
        }
    }
    Ok(done as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_view::{Block, Datatype, Pattern};

    fn view(count: u64, block: u64, stride: i64) -> View {
        let byte: Pattern = Datatype::Elementary(1).pattern().unwrap();
        let of = Box::new(Datatype::Elementary(1));
        View::new(3, &byte, Datatype::Vector { count, block, stride, of }.pattern().unwrap()).unwrap()
    }

    #[test]
    fn what_is_written_through_a_view_is_read_through_it_up_to_the_end_of_the_object() {
        for (count, block, stride, start, length) in
            [(5, 2, 7, 0, 10), (4, 3, 3, 1, 20), (9, 1, 20_000, 2, 15), (3, 5000, 9000, 4999, 9000), (2, 1, 4, 0, 0)]
        {
            let view = view(count, block, stride);
            let mut file = Vec::new();
            let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + 1) as u8).collect();
            write(&view, start, &bytes, &mut |offset, part| {
                let end = offset as usize + part.len();
                file.resize(file.len().max(end), 0);
                file[offset as usize..end].copy_from_slice(part);
                Ok(())
            })
            .unwrap();
            for end in [file.len(), file.len() * 2 / 3, file.len() / 3, 0] {
                let mut out = vec![0xee; length];
                let mut calls = 0;
                let got = read(&view, start, &mut out, &mut |offset, out| {
                    calls += 1;
                    let there = file[..end].get(offset as usize..).unwrap_or_default();
                    let got = there.len().min(out.len());
                    out[..got].copy_from_slice(&there[..got]);
                    Ok(got)
                })
                .unwrap() as usize;
                // Bytes of the view before the first one that the object does not have.
                let all = (0..length as u64).take_while(|v| view.file_offset(start + v).unwrap() < end as u64).count();
                assert_eq!(got, all, "{count} {block} {stride} {end}");
                assert_eq!(out[..got], bytes[..got]);
                assert!(stride > GAP as i64 || calls <= 1, "{calls} calls");
            }
        }
    }

    #[test]
    fn bytes_beyond_the_largest_file_are_refused_before_any_is_moved() {
        let view = view(2, 8, 1 << 40);
        let far = 1 << 30;
        let e = write(&view, far, &[0; 64], &mut |_, _| panic!("no byte is written")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::OutOfBounds);
        assert_eq!(
            read(&view, far, &mut [0; 64], &mut |_, _| panic!("no byte is read")).unwrap_err().kind(),
            ErrorKind::OutOfBounds
        );
    }

    #[test]
    fn so_are_views_of_which_the_last_bytes_lie_in_the_file_and_earlier_ones_do_not() {
        let blocks = [(8, 88), (8, 0), (16, 32)].map(|(count, displacement)| Block { count, displacement });
        let of = Box::new(Datatype::Elementary(1));
        let of = Box::new(Datatype::Hindexed { blocks: blocks.to_vec(), of });
        let datatype = Datatype::Resized { lower: 0, extent: i64::MAX - 95, of };
        let byte = Datatype::Elementary(1).pattern().unwrap();
        let view = View::new(17, &byte, datatype.pattern().unwrap()).unwrap();
        assert!(view.file_offset(63).is_some());
        let written = write(&view, 32, &[1; 32], &mut |_, _| panic!("nothing is written"));
        assert_eq!(written.unwrap_err().kind(), ErrorKind::OutOfBounds);
        let got = read(&view, 32, &mut [0; 32], &mut |_, _| panic!("nothing is read"));
        assert_eq!(got.unwrap_err().kind(), ErrorKind::OutOfBounds);
        // The first instance is there.
        assert_eq!(read(&view, 0, &mut [0; 32], &mut |_, out| Ok(out.len())).unwrap(), 32);
    }
}
