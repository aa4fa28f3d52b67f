//! `adios_read.h`: inquiries about variables.

use super::memory::{Arena, Owned, borrowed, count, take_back};
use super::read::{State, type_number, with_file};
use super::structures::{AdiosFile, AdiosStatistics, AdiosVarBlock, AdiosVarInfo, AdiosVarMesh, AdiosVarStat};
use super::{pointer, status, value};
use crate::adios1::error::{Failure, Outcome, number};
use crate::adios1::read::info::{Info, ValueStatistics};
use crate::adios1::read::mesh;
use std::ffi::{c_char, c_double, c_int};
use std::ptr::null_mut;
use thalweg_types::{ElementType, Value};

fn made(state: &State, place: c_int) -> Outcome<*mut AdiosVarInfo> {
    let info = state.file.info(place)?;
    let mut arena = Arena::default();
    let number = |n: u64| c_int::try_from(n).unwrap_or(c_int::MAX);
    let value = match &info.value {
        Some(Value::String(text)) => arena.text(text).cast(),
        Some(value) => {
            let mut bytes = Vec::new();
            value.append_to(&mut bytes);
            arena.value(&bytes)
        }
        None => null_mut(),
    };
    let shown = AdiosVarInfo {
        varid: place,
        element: type_number(info.element),
        ndim: count(info.shape.len()),
        dims: arena.array(info.shape.clone()),
        nsteps: count(info.steps.len()),
        value,
        global: c_int::from(info.is_global()),
        nblocks: arena.array(info.blocks.iter().map(|n| number(*n)).collect()),
        sum_nblocks: number(info.all_blocks()),
        nattrs: count(info.attributes.len()),
        attr_ids: arena.array(info.attributes.iter().map(|i| count(*i)).collect()),
        statistics: null_mut(),
        blockinfo: null_mut(),
        meshinfo: null_mut(),
    };
    Ok(Owned { shown, arena, more: info }.hand_out())
}

/// A variable, by name.
///
/// # Safety
/// See [`super`].
/// # Cost
/// Reads the variable's index entry, if it is not cached; O(blocks of the variable + attributes of the file).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_inq_var(fp: *mut AdiosFile, varname: *const c_char) -> *mut AdiosVarInfo {
    value(null_mut(), || {
        with_file(fp, |state| {
            // SAFETY: from C.
            let name = unsafe { variable_name(varname) }?;
            made(state, count(state.file.find_variable(name)?))
        })
    })
}

/// A name of a variable; null is none.
///
/// # Errors
/// `err_invalid_varname` for a null pointer, and for a name that is not UTF-8.
///
/// # Safety
/// See [`super`].
pub unsafe fn variable_name<'c>(name: *const c_char) -> Outcome<&'c str> {
    // SAFETY: from C.
    let name = unsafe { pointer::text(name, "the variable's name") };
    name.map_err(|f| Failure::new(number::INVALID_VARNAME, f.text))
}

/// A variable, by its place.
#[unsafe(no_mangle)]
pub extern "C" fn adios_inq_var_byid(fp: *mut AdiosFile, varid: c_int) -> *mut AdiosVarInfo {
    value(null_mut(), || with_file(fp, |state| made(state, varid)))
}

/// Frees a variable's structure; null is nothing.
///
/// # Safety
/// No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_free_varinfo(varinfo: *mut AdiosVarInfo) {
    // SAFETY: as the caller promises; all are handed out with an `Info`.
    status(|| unsafe { take_back::<_, Info>(varinfo) });
}

/// Fills in a part of a variable's structure.
///
/// # Safety
/// As [`adios_free_varinfo`].
unsafe fn fill(
    fp: *mut AdiosFile,
    varinfo: *mut AdiosVarInfo,
    f: impl FnOnce(&State, &mut Owned<AdiosVarInfo, Info>) -> Outcome<()>,
) -> c_int {
    status(|| {
        // SAFETY: as the caller promises; all are handed out with an `Info`.
        let owned = unsafe { borrowed::<_, Info>(varinfo) }?;
        with_file(fp, |state| f(state, owned))
    })
}

fn doubles(values: Option<Vec<f64>>, arena: &mut Arena) -> *mut c_double {
    values.map_or(null_mut(), |values| arena.array(values))
}

/// Statistics of steps or blocks as four arrays.
fn lists(known: Vec<ValueStatistics>, arena: &mut Arena) -> *mut AdiosStatistics {
    let bytes = |values: &Option<Vec<f64>>| {
        values.as_ref().map(|v| v.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>())
    };
    let mins: Vec<_> = known.iter().map(|k| k.min.clone()).collect();
    let maxs: Vec<_> = known.iter().map(|k| k.max.clone()).collect();
    let means: Vec<_> = known.iter().map(|k| bytes(&k.mean)).collect();
    let deviations: Vec<_> = known.iter().map(|k| bytes(&k.deviation)).collect();
    let lists = AdiosStatistics {
        mins: arena.values(&mins),
        maxs: arena.values(&maxs),
        avgs: arena.values(&means).cast(),
        std_devs: arena.values(&deviations).cast(),
    };
    arena.array(vec![lists])
}

/// Minimum, maximum, mean and deviation, as they were recorded.
///
/// # Safety
/// As [`adios_free_varinfo`].
/// # Cost
/// Reads no values. Decodes the characteristics of all blocks of the variable, with `per_step` and with `per_block` once more each;
/// memory for the results of each step or block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_inq_var_stat(
    fp: *mut AdiosFile,
    varinfo: *mut AdiosVarInfo,
    per_step: c_int,
    per_block: c_int,
) -> c_int {
    let body = |state: &State, owned: &mut Owned<AdiosVarInfo, Info>| {
        let Owned { shown, arena, more: info } = owned;
        if info.element == ElementType::String {
            // Nothing is recorded about texts; there is a structure all the same.
            shown.statistics = arena.array(vec![AdiosVarStat {
                min: null_mut(),
                max: null_mut(),
                avg: null_mut(),
                std_dev: null_mut(),
                steps: null_mut(),
                blocks: null_mut(),
                histogram: null_mut(),
            }]);
            return Ok(());
        }
        let all = state.file.known_of_all(info)?;
        let steps = if per_step != 0 { Some(state.file.known_of_steps(info)?) } else { None };
        let blocks = if per_block != 0 { Some(state.file.known_of_blocks(info)?) } else { None };
        let bound = |bytes: Option<Vec<u8>>, arena: &mut Arena| bytes.map_or(null_mut(), |b| arena.value(&b));
        let statistics = AdiosVarStat {
            min: bound(all.min, arena),
            max: bound(all.max, arena),
            avg: doubles(all.mean, arena),
            std_dev: doubles(all.deviation, arena),
            steps: steps.map_or(null_mut(), |known| lists(known, arena)),
            blocks: blocks.map_or(null_mut(), |known| lists(known, arena)),
            histogram: null_mut(),
        };
        shown.statistics = arena.array(vec![statistics]);
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { fill(fp, varinfo, body) }
}

/// The boxes of blocks, and the ranks that wrote them.
///
/// # Safety
/// As [`adios_free_varinfo`].
/// # Cost
/// Decodes the characteristics of all blocks of the variable; memory for all of them. To find the ranks, the first
/// call for a file reads the process group index, and for blocks in subfiles the trailers of their process groups:
/// [`thalweg_reader::Reader::writer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_inq_var_blockinfo(fp: *mut AdiosFile, varinfo: *mut AdiosVarInfo) -> c_int {
    let body = |state: &State, owned: &mut Owned<AdiosVarInfo, Info>| {
        let Owned { shown, arena, more: info } = owned;
        if !shown.blockinfo.is_null() {
            return Ok(());
        }
        let all_blocks = state.file.variable_blocks(info)?;
        let mut all: Vec<u64> = all_blocks.iter().flat_map(|p| p.start.iter().chain(&p.count).copied()).collect();
        // Those of scalars have no entry, and an address all the same.
        all.push(0);
        let first = arena.array(all);
        let mut at = 0;
        let mut next = |n: usize| {
            let start = first.wrapping_add(at);
            at += n;
            start
        };
        let blocks = all_blocks.iter().map(|p| AdiosVarBlock {
            start: next(p.start.len()),
            count: next(p.count.len()),
            process_id: p.process,
            time_index: p.time_index,
        });
        let blocks = blocks.collect();
        shown.blockinfo = arena.array(blocks);
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { fill(fp, varinfo, body) }
}

/// The mesh of a variable. 1, and no mesh, if it has none.
///
/// # Safety
/// As [`adios_free_varinfo`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_inq_var_meshinfo(fp: *mut AdiosFile, varinfo: *mut AdiosVarInfo) -> c_int {
    let mut none = false;
    let body = |state: &State, owned: &mut Owned<AdiosVarInfo, Info>| {
        let Owned { shown, arena, more: info } = owned;
        shown.meshinfo = null_mut();
        match mesh::of_variable(&state.file, &state.meshes, &info.name)? {
            Some((meshid, is_cell)) => {
                let centering = if is_cell { 2 } else { 1 };
                shown.meshinfo = arena.array(vec![AdiosVarMesh { meshid: count(meshid), centering }]);
            }
            None => none = true,
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    let code = unsafe { fill(fp, varinfo, body) };
    if code == 0 { c_int::from(none) } else { code }
}

/// A series over steps: of minimum, maximum, mean or deviation.
///
/// # Safety
/// As [`adios_free_varinfo`].
unsafe fn series(varinfo: *mut AdiosVarInfo, characteristic: *const c_char) -> Outcome<Vec<f64>> {
    // SAFETY: as the caller promises; all are handed out with an `Info`.
    let owned = unsafe { borrowed::<_, Info>(varinfo) }?;
    // SAFETY: from C.
    let name = unsafe { pointer::text(characteristic, "the characteristic") }?;
    let nothing = || Failure::argument(format!("{}: adios_inq_var_stat was not asked for each step", owned.more.name));
    // SAFETY: null, or set by `adios_inq_var_stat`.
    let steps = unsafe { owned.shown.statistics.as_ref().and_then(|s| s.steps.as_ref()) }.ok_or_else(nothing)?;
    let element = owned.more.element;
    let bound = |list: *mut *mut std::ffi::c_void, i: usize| -> Option<f64> {
        // SAFETY: as many pointers as there are steps, each null or to a value of the variable's type.
        let at = unsafe { *list.add(i) }.cast::<u8>();
        let length = if element.is_complex() { 8 } else { element.size() as usize };
        if at.is_null() {
            return None;
        }
        // SAFETY: as above; of complex values the first double is the magnitude.
        let bytes = unsafe { std::slice::from_raw_parts(at, length) };
        let element = if element.is_complex() { ElementType::F64 } else { element };
        Value::from_bytes(element, bytes, thalweg_types::ByteOrder::NATIVE)?.as_f64()
    };
    // SAFETY: as many pointers as there are steps, each null or to a double.
    let real = |list: *mut *mut c_double, i: usize| unsafe { (*list.add(i)).as_ref().copied() };
    let one = |i: usize| -> Option<f64> {
        match name {
            "average" | "avg" => real(steps.avgs, i),
            "standard deviation" | "std_dev" | "std" => real(steps.std_devs, i),
            "minimum" | "min" => bound(steps.mins, i),
            "maximum" | "max" => bound(steps.maxs, i),
            _ => None,
        }
    };
    if !["average", "avg", "standard deviation", "std_dev", "std", "minimum", "min", "maximum", "max"].contains(&name) {
        return Err(Failure::argument(format!("\"{name}\": expected average, minimum, maximum or standard deviation")));
    }
    let all: Option<Vec<f64>> = (0..owned.more.steps.len()).map(one).collect();
    all.ok_or_else(|| Failure::argument(format!("{}: \"{name}\" was not recorded in every step", owned.more.name)))
}

/// Covariance and correlation of two series.
///
/// # Safety
/// As [`adios_free_varinfo`].
unsafe fn covariance_and_correlation(
    x: *mut AdiosVarInfo,
    y: *mut AdiosVarInfo,
    characteristic: *const c_char,
    start: u32,
    end: u32,
    lag: u32,
) -> Outcome<(f64, f64)> {
    // SAFETY: as the caller promises.
    let (x, y) = unsafe { (series(x, characteristic)?, series(if y.is_null() { x } else { y }, characteristic)?) };
    let (start, end, lag) = (start as usize, end as usize, lag as usize);
    let too_far = || {
        let text = format!("steps {start} to {end} with lag {lag}, of {} and {}", x.len(), y.len());
        Failure::new(number::INVALID_TIMESTEP, text)
    };
    let xs = x.get(start..end).filter(|s| !s.is_empty()).ok_or_else(too_far)?;
    let ys = end.checked_add(lag).and_then(|end| y.get(start + lag..end)).ok_or_else(too_far)?;
    let n = xs.len() as f64;
    let mean = |s: &[f64]| s.iter().sum::<f64>() / n;
    let (mx, my) = (mean(xs), mean(ys));
    let covariance = xs.iter().zip(ys).map(|(a, b)| (a - mx) * (b - my)).sum::<f64>() / n;
    let spread = |s: &[f64], m: f64| (s.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / n).sqrt();
    Ok((covariance, covariance / (spread(xs, mx) * spread(ys, my))))
}

/// Correlation of two series over steps; the second null: of one with itself. NaN where it fails.
///
/// # Safety
/// As [`adios_free_varinfo`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_stat_cor(
    vix: *mut AdiosVarInfo,
    viy: *mut AdiosVarInfo,
    characteristic: *mut c_char,
    time_start: u32,
    time_end: u32,
    lag: u32,
) -> c_double {
    // SAFETY: as the caller promises.
    value(f64::NAN, || {
        unsafe { covariance_and_correlation(vix, viy, characteristic, time_start, time_end, lag) }.map(|(_, r)| r)
    })
}

/// Covariance of two series over steps.
///
/// # Safety
/// As [`adios_free_varinfo`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_stat_cov(
    vix: *mut AdiosVarInfo,
    viy: *mut AdiosVarInfo,
    characteristic: *mut c_char,
    time_start: u32,
    time_end: u32,
    lag: u32,
) -> c_double {
    // SAFETY: as the caller promises.
    value(f64::NAN, || {
        unsafe { covariance_and_correlation(vix, viy, characteristic, time_start, time_end, lag) }.map(|(c, _)| c)
    })
}
