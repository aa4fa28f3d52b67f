//! `adios_read_ext.h` and `adios_transform_methods.h`.

use super::memory::{Arena, Owned, borrowed, count, is_out, take_back};
use super::read::with_file;
use super::selection;
use super::structures::{
    AdiosFile, AdiosIntersection, AdiosIntersections, AdiosSelection, AdiosTransformMetadata, AdiosVarInfo,
    AdiosVarTransform, AvailableTransforms,
};
use super::{pointer, status, value};
use crate::adios1::error::{Failure, number};
use crate::adios1::read::info::Info;
use crate::adios1::read::scheduled_read::OwnedSelection;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use thalweg_transform::CODECS;
use thalweg_types::BoundingBox;

/// A constant that is an address in C.
#[repr(transparent)]
pub struct View(*const c_void);

// SAFETY: the address is never dereferenced.
unsafe impl Sync for View {}

static LOGICAL: u8 = 0;
static PHYSICAL: u8 = 1;

/// Variables as they were written.
#[unsafe(no_mangle)]
pub static LOGICAL_DATA_VIEW: View = View((&raw const LOGICAL).cast());

/// Variables as they are stored.
#[unsafe(no_mangle)]
pub static PHYSICAL_DATA_VIEW: View = View((&raw const PHYSICAL).cast());

/// No transform.
#[unsafe(no_mangle)]
pub static NO_TRANSFORM: c_int = 0;

/// The number of a transform, from 1; -1 where the name is none.
fn number_of(uid: &str) -> c_int {
    let uid = uid.split(':').next().unwrap_or(uid);
    CODECS.iter().position(|codec| codec.name() == uid).map_or(-1, |i| count(i + 1))
}

/// The number of a transform; -1 where the name is none.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_get_transform_type_by_uid(uid: *const c_char) -> c_int {
    // SAFETY: from C.
    value(-1, || Ok(number_of(unsafe { pointer::text(uid, "the transform's name") }?)))
}

/// How variables are shown. Files of this library are shown as they were written; the other view is refused.
#[unsafe(no_mangle)]
pub extern "C" fn adios_read_set_data_view(fp: *mut AdiosFile, view: *const c_void) -> *const c_void {
    let now = LOGICAL_DATA_VIEW.0;
    value(now, || {
        with_file(fp, |_| match view {
            view if view == now => Ok(now),
            view if view == PHYSICAL_DATA_VIEW.0 => {
                let text = "stored bytes are not shown: variables are always those that were written";
                Err(Failure::new(number::OPERATION_NOT_SUPPORTED, text))
            }
            _ => Err(Failure::argument("neither LOGICAL_DATA_VIEW nor PHYSICAL_DATA_VIEW")),
        })
    })
}

/// The transform of a variable.
///
/// # Safety
/// No other thread uses `varinfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_inq_var_transform(
    fp: *const AdiosFile,
    varinfo: *const AdiosVarInfo,
) -> *mut AdiosVarTransform {
    value(null_mut(), || {
        // SAFETY: as the caller promises; all are handed out with an `Info`.
        let owned = unsafe { borrowed::<_, Info>(varinfo.cast_mut()) }?;
        with_file(fp, |_| Ok(()))?;
        let mut arena = Arena::default();
        let info = &owned.more;
        let metadata = info.transform.as_ref().map(|_| {
            let none = || AdiosTransformMetadata { content: null(), length: 0 };
            arena.array((0..info.all_blocks()).map(|_| none()).collect())
        });
        let shown = AdiosVarTransform {
            varid: owned.shown.varid,
            sum_nblocks: owned.shown.sum_nblocks,
            transform_type: info.transform.as_deref().map_or(NO_TRANSFORM, number_of),
            should_free_transform_metadata: 0,
            transform_metadatas: metadata.unwrap_or(null_mut()),
        };
        Ok(Owned { shown, arena, more: () }.hand_out())
    })
}

/// Frees the result of [`adios_inq_var_transform`]; null has no effect.
///
/// # Safety
/// No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_free_var_transform(transform: *mut AdiosVarTransform) {
    // SAFETY: as the caller promises.
    status(|| unsafe { take_back::<_, ()>(transform) });
}

/// The blocks that a box, or a block's box, meets.
///
/// # Safety
/// See [`super`].
/// # Cost
/// As [`super::inquire::adios_inq_var_blockinfo`]: all blocks of the variable are decoded, also those of other steps.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_find_intersecting_pgs(
    fp: *const AdiosFile,
    varid: c_int,
    sel: *const AdiosSelection,
    from_step: c_int,
    nsteps: c_int,
) -> *mut AdiosIntersections {
    value(null_mut(), || {
        // SAFETY: from C.
        let part = unsafe { selection::part(sel) }?;
        with_file(fp, |state| {
            let info = state.file.info(varid)?;
            let steps = info.file_steps(from_step, nsteps)?.to_vec();
            let blocks = state.file.variable_blocks(&info)?;
            let whole =
                |b: &crate::adios1::read::info::VariableBlock| BoundingBox::new(b.start.clone(), b.count.clone());
            let mut found = Vec::new();
            let mut all = 0usize;
            for (s, (step, n)) in info.steps.iter().zip(&info.blocks).enumerate() {
                for i in 0..*n as usize {
                    let block = whole(&blocks[all + i]);
                    let meets = match &part {
                        OwnedSelection::All => Some(block.clone()),
                        OwnedSelection::Box(b) if b.offset.len() == block.offset.len() => block.intersect(b),
                        OwnedSelection::Block { index, absolute, .. } => {
                            let at = if *absolute { all + i } else { i };
                            (at as u64 == *index).then(|| block.clone())
                        }
                        _ => return Err(Failure::new(number::INVALID_SELECTION, "expected a box or a block")),
                    };
                    if let (Some(meets), true) = (meets, steps.contains(step)) {
                        found.push(AdiosIntersection {
                            timestep: count(s),
                            blockidx: count(all + i),
                            blockidx_in_timestep: count(i),
                            pg_bounds_sel: selection::made_box(&block.offset, &block.count)?,
                            intersection_sel: selection::made_box(&meets.offset, &meets.count)?,
                        });
                    }
                }
                all += *n as usize;
            }
            let mut arena = Arena::default();
            let npg = count(found.len());
            let shown = AdiosIntersections { intersections: arena.array(found), npg };
            Ok(Owned { shown, arena, more: () }.hand_out())
        })
    })
}

/// Frees the result of [`adios_find_intersecting_pgs`] with its selections, and sets the program's pointer to null.
///
/// # Safety
/// No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_free_pg_intersections(intersections: *mut *mut AdiosIntersections) {
    status(|| {
        // SAFETY: from C.
        let place = unsafe { pointer::out(intersections, "the intersections' address") }?;
        if is_out(*place) {
            // SAFETY: handed out by `adios_find_intersecting_pgs`, with the stated number of selections of ours.
            unsafe {
                let list = &**place;
                for i in 0..list.npg as usize {
                    let one = &*list.intersections.add(i);
                    selection::delete(one.pg_bounds_sel);
                    selection::delete(one.intersection_sel);
                }
            }
        }
        // SAFETY: as the caller promises.
        unsafe { take_back::<_, ()>(*place) }?;
        *place = null_mut();
        Ok(())
    });
}

/// From a block's number in a step to its number over all steps; -1 where there is none.
///
/// # Safety
/// No other thread uses `varinfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_get_absolute_writeblock_index(
    varinfo: *const AdiosVarInfo,
    in_step: c_int,
    step: c_int,
) -> c_int {
    value(-1, || {
        // SAFETY: as the caller promises; all are handed out with an `Info`.
        let owned = unsafe { borrowed::<_, Info>(varinfo.cast_mut()) }?;
        let info = &owned.more;
        info.file_steps(step, 1)?;
        let step = step as usize;
        let n = u64::try_from(in_step).ok().filter(|n| *n < info.blocks[step]);
        let n = n.ok_or_else(|| {
            let text = format!("{} at step {step}: no block {in_step}", info.name);
            Failure::new(number::OUT_OF_BOUND, text)
        })?;
        Ok(count((info.blocks[..step].iter().sum::<u64>() + n) as usize))
    })
}

/// The names of transforms.
#[unsafe(no_mangle)]
pub extern "C" fn adios_available_transform_methods() -> *mut AvailableTransforms {
    value(null_mut(), || {
        let mut arena = Arena::default();
        let shown = AvailableTransforms {
            ntransforms: count(CODECS.len()),
            name: arena.texts(CODECS.iter().map(|codec| codec.name())),
            description: arena.texts(CODECS.iter().map(|codec| codec.about())),
        };
        Ok(Owned { shown, arena, more: () }.hand_out())
    })
}

/// Frees the result of [`adios_available_transform_methods`]; null has no effect.
///
/// # Safety
/// No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_available_transform_methods_free(methods: *mut AvailableTransforms) {
    // SAFETY: as the caller promises.
    status(|| unsafe { take_back::<_, ()>(methods) });
}
