//! `adios_selection.h`.

use super::memory::{allocated, copied, free};
use super::structures::{
    AdiosAuto, AdiosBlock, AdiosBox, AdiosPoints, AdiosSelection, AdiosSelectionParts, AdiosStrided,
    selection_type as kind,
};
use super::value;
use crate::adios1::error::{Failure, Outcome, number};
use crate::adios1::read::scheduled_read::OwnedSelection;
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use thalweg_types::BoundingBox;

fn wrong(text: impl Into<String>) -> Failure {
    Failure::new(number::INVALID_SELECTION, text)
}

/// A selection in memory from `malloc`.
///
/// # Errors
/// `err_no_memory`.
pub fn made(selection: AdiosSelection) -> Outcome<*mut AdiosSelection> {
    copied(std::slice::from_ref(&selection))
}

/// A box in memory from `malloc`.
///
/// # Errors
/// `err_no_memory`; boxes of different numbers of dimensions.
pub fn made_box(start: &[u64], extents: &[u64]) -> Outcome<*mut AdiosSelection> {
    let ndim = c_int::try_from(start.len()).map_err(|_| wrong("too many dimensions"))?;
    let bb = AdiosBox { ndim, start: copied(start)?, count: copied(extents)? };
    made(AdiosSelection { kind: kind::BOX, u: AdiosSelectionParts { bb } })
}

/// Every so many elements of a box, in memory from `malloc`.
///
/// # Errors
/// As [`made_box`].
fn made_strided(bounds: &BoundingBox, stride: &[u64]) -> Outcome<*mut AdiosSelection> {
    let ndim = c_int::try_from(stride.len()).map_err(|_| wrong("too many dimensions"))?;
    let (start, count) = (copied(&bounds.offset)?, copied(&bounds.count)?);
    let strided = AdiosStrided { ndim, start, count, stride: copied(stride)? };
    made(AdiosSelection { kind: kind::STRIDED, u: AdiosSelectionParts { strided } })
}

/// The same as a selection of C, in memory from `malloc`; null for no selection.
///
/// # Errors
/// `err_no_memory`.
pub fn made_of(part: &OwnedSelection) -> Outcome<*mut AdiosSelection> {
    match part {
        OwnedSelection::All => Ok(null_mut()),
        OwnedSelection::Box(b) => made_box(&b.offset, &b.count),
        OwnedSelection::Strided { bounds, stride } => made_strided(bounds, stride),
        OwnedSelection::Points { rank, coordinates, container } => {
            let container_selection = container.as_deref().map_or(Ok(null_mut()), made_of)?;
            let points = AdiosPoints {
                ndim: *rank as c_int,
                free_points_on_delete: 1,
                npoints: (coordinates.len() / (*rank).max(1)) as u64,
                points: copied(coordinates)?,
                container_selection,
            };
            made(AdiosSelection { kind: kind::POINTS, u: AdiosSelectionParts { points } })
        }
        OwnedSelection::Block { index, absolute, range } => {
            let block = AdiosBlock {
                index: c_int::try_from(*index).unwrap_or(c_int::MAX),
                is_absolute_index: c_int::from(*absolute),
                is_sub_pg_selection: c_int::from(range.is_some()),
                element_offset: range.map_or(0, |r| r.0),
                nelements: range.map_or(0, |r| r.1),
            };
            made(AdiosSelection { kind: kind::BLOCK, u: AdiosSelectionParts { block } })
        }
        OwnedSelection::Auto => {
            let autosel = AdiosAuto { hints: null_mut() };
            made(AdiosSelection { kind: kind::AUTO, u: AdiosSelectionParts { autosel } })
        }
    }
}

/// Numbers of a program's array.
///
/// # Safety
/// Null, or so many numbers.
unsafe fn numbers(start: *const u64, n: u64, what: &str) -> Outcome<Vec<u64>> {
    if n == 0 {
        return Ok(Vec::new());
    }
    let n = usize::try_from(n).ok().filter(|n| *n <= isize::MAX as usize / 8);
    let n = n.ok_or_else(|| wrong(format!("{what}: no memory holds that many")))?;
    if start.is_null() {
        return Err(wrong(format!("{what}: a null pointer for {n} numbers")));
    }
    // Read one by one, because C does not guarantee alignment.
    // SAFETY: not null, and as many, as the caller promises.
    Ok((0..n).map(|i| unsafe { start.add(i).read_unaligned() }).collect())
}

/// A copy of a selection's content; [`OwnedSelection::All`] for null.
///
/// # Errors
/// `err_invalid_selection`.
///
/// # Safety
/// Null, or a selection whose pointers are null or point to the stated number of values; containers likewise.
pub unsafe fn part(selection: *const AdiosSelection) -> Outcome<OwnedSelection> {
    // SAFETY: as the caller promises.
    let Some(selection) = (unsafe { selection.as_ref() }) else { return Ok(OwnedSelection::All) };
    let dimensions = |n: c_int| u64::try_from(n).map_err(|_| wrong(format!("{n} dimensions")));
    match selection.kind {
        kind::BOX => {
            // SAFETY: the kind determines the valid part; its pointers are as the caller promises.
            let (start, extents) = unsafe {
                let bb = selection.u.bb;
                let n = dimensions(bb.ndim)?;
                (numbers(bb.start, n, "start")?, numbers(bb.count, n, "count")?)
            };
            Ok(OwnedSelection::Box(BoundingBox::new(start, extents)))
        }
        kind::POINTS => {
            // SAFETY: as above.
            let points = unsafe { selection.u.points };
            let rank = dimensions(points.ndim)?;
            let n = points.npoints.checked_mul(rank).ok_or_else(|| wrong("too many points"))?;
            if rank == 0 && points.npoints > 0 {
                return Err(wrong("points without a dimension"));
            }
            // SAFETY: as the caller promises.
            let coordinates = unsafe { numbers(points.points, n, "points") }?;
            let container = points.container_selection;
            let container = if container.is_null() {
                None
            } else {
                // SAFETY: as the caller promises; a container of a container is refused, so this ends.
                let inner = unsafe { container.as_ref() }.map(|c| c.kind);
                if inner == Some(kind::POINTS) {
                    return Err(wrong("points lie in a box or a block"));
                }
                // SAFETY: as the caller promises.
                Some(Box::new(unsafe { part(container) }?))
            };
            Ok(OwnedSelection::Points { rank: rank as usize, coordinates, container })
        }
        kind::BLOCK => {
            // SAFETY: as above.
            let block = unsafe { selection.u.block };
            let index = u64::try_from(block.index).map_err(|_| wrong(format!("block {}", block.index)))?;
            let range = (block.is_sub_pg_selection != 0).then_some((block.element_offset, block.nelements));
            Ok(OwnedSelection::Block { index, absolute: block.is_absolute_index != 0, range })
        }
        kind::AUTO => Ok(OwnedSelection::Auto),
        kind::STRIDED => {
            // SAFETY: as above.
            unsafe {
                let s = selection.u.strided;
                strided(s.ndim, s.start, s.count, s.stride)
            }
        }
        other => Err(wrong(format!("{other} is no kind of selection"))),
    }
}

/// A box; `start` and `count` are copied.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_selection_boundingbox(
    ndim: c_int,
    start: *const u64,
    count: *const u64,
) -> *mut AdiosSelection {
    value(null_mut(), || {
        let n = u64::try_from(ndim).map_err(|_| wrong(format!("{ndim} dimensions")))?;
        // SAFETY: from C.
        let (start, count) = unsafe { (numbers(start, n, "start")?, numbers(count, n, "count")?) };
        made_box(&start, &count)
    })
}

/// Every so many elements of a box.
///
/// # Errors
/// `err_invalid_selection`: a stride of 0.
///
/// # Safety
/// Null, or so many numbers each.
unsafe fn strided(ndim: c_int, start: *const u64, count: *const u64, stride: *const u64) -> Outcome<OwnedSelection> {
    let n = u64::try_from(ndim).map_err(|_| wrong(format!("{ndim} dimensions")))?;
    // SAFETY: as the caller promises.
    let (start, count, stride) =
        unsafe { (numbers(start, n, "start")?, numbers(count, n, "count")?, numbers(stride, n, "stride")?) };
    if stride.contains(&0) {
        return Err(wrong(format!("strides {stride:?}: 1 or more for each dimension")));
    }
    Ok(OwnedSelection::Strided { bounds: BoundingBox::new(start, count), stride })
}

/// Every so many elements of a box; the arrays are copied.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_adios_selection_strided(
    ndim: c_int,
    start: *const u64,
    count: *const u64,
    stride: *const u64,
) -> *mut AdiosSelection {
    // SAFETY: from C.
    value(null_mut(), || made_of(&unsafe { strided(ndim, start, count, stride) }?))
}

/// Points; they stay the program's.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_selection_points(ndim: c_int, npoints: u64, points: *const u64) -> *mut AdiosSelection {
    value(null_mut(), || {
        if ndim < 1 {
            return Err(wrong(format!("{ndim} dimensions")));
        }
        let points = AdiosPoints {
            ndim,
            free_points_on_delete: 0,
            npoints,
            points: points.cast_mut(),
            container_selection: null_mut(),
        };
        made(AdiosSelection { kind: kind::POINTS, u: AdiosSelectionParts { points } })
    })
}

/// A block, by its number in the step.
#[unsafe(no_mangle)]
pub extern "C" fn adios_selection_writeblock(index: c_int) -> *mut AdiosSelection {
    value(null_mut(), || {
        let block = AdiosBlock { index, is_absolute_index: 0, is_sub_pg_selection: 0, element_offset: 0, nelements: 0 };
        made(AdiosSelection { kind: kind::BLOCK, u: AdiosSelectionParts { block } })
    })
}

/// A part of a block.
#[unsafe(no_mangle)]
pub extern "C" fn adios_selection_writeblock_bounded(
    index: c_int,
    start_elem: u64,
    num_elems: u64,
    is_timestep_relative: c_int,
) -> *mut AdiosSelection {
    value(null_mut(), || {
        let block = AdiosBlock {
            index,
            is_absolute_index: c_int::from(is_timestep_relative == 0),
            is_sub_pg_selection: 1,
            element_offset: start_elem,
            nelements: num_elems,
        };
        made(AdiosSelection { kind: kind::BLOCK, u: AdiosSelectionParts { block } })
    })
}

/// A selection that the library chooses.
#[unsafe(no_mangle)]
pub extern "C" fn adios_selection_auto(hints: *mut c_char) -> *mut AdiosSelection {
    value(null_mut(), || {
        made(AdiosSelection { kind: kind::AUTO, u: AdiosSelectionParts { autosel: AdiosAuto { hints } } })
    })
}

/// Offsets in a box as points with all coordinates.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_selection_points_1DtoND(
    points: *mut AdiosSelection,
    global: c_int,
) -> *mut AdiosSelection {
    value(null_mut(), || {
        if points.is_null() {
            return Err(wrong("a null pointer for the points"));
        }
        // SAFETY: from C.
        let OwnedSelection::Points { rank: 1, coordinates, container: Some(container) } = unsafe { part(points) }?
        else {
            return Err(wrong("only points of one dimension in a container can be converted"));
        };
        let OwnedSelection::Box(within) = *container else {
            return Err(wrong("only points in a box can be converted"));
        };
        let rank = within.count.len();
        let size = within.elements().ok_or_else(|| wrong("the box is too large"))?;
        let mut all = vec![0; coordinates.len().checked_mul(rank).ok_or_else(|| wrong("too many points"))?];
        for (point, offset) in all.chunks_exact_mut(rank.max(1)).zip(&coordinates) {
            if *offset >= size {
                return Err(Failure::new(number::OUT_OF_BOUND, format!("offset {offset} in a box of {size}")));
            }
            let mut left = *offset;
            for d in (0..rank).rev() {
                point[d] = left % within.count[d] + if global != 0 { within.offset[d] } else { 0 };
                left /= within.count[d];
            }
        }
        let container = (global == 0).then(|| Box::new(OwnedSelection::Box(within)));
        made_of(&OwnedSelection::Points { rank, coordinates: all, container })
    })
}

/// Frees a selection, with its container; points that are the program's stay.
///
/// # Safety
/// Null, or a selection from this library that was not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_selection_delete(selection: *mut AdiosSelection) {
    // SAFETY: as the caller promises.
    unsafe { delete(selection) }
}

/// See [`adios_selection_delete`].
///
/// # Safety
/// As there.
pub unsafe fn delete(selection: *mut AdiosSelection) {
    // SAFETY: null, or a selection, as the caller promises; the kind determines the valid part, and its memory is from `malloc`,
    // as is that of selections that programs create themselves.
    unsafe {
        let Some(inside) = selection.as_ref() else { return };
        match inside.kind {
            kind::BOX => {
                free(inside.u.bb.start);
                free(inside.u.bb.count);
            }
            kind::POINTS => {
                delete(inside.u.points.container_selection);
                if inside.u.points.free_points_on_delete != 0 {
                    free(inside.u.points.points);
                }
            }
            kind::STRIDED => {
                free(inside.u.strided.start);
                free(inside.u.strided.count);
                free(inside.u.strided.stride);
            }
            _ => {}
        }
        free(selection);
    }
}

/// Memory for `n` selections, one after the other, from `malloc`.
///
/// # Errors
/// `err_no_memory`.
pub fn room(n: usize) -> Outcome<*mut AdiosSelection> {
    Ok(allocated(n.saturating_mul(size_of::<AdiosSelection>()))?.cast())
}
