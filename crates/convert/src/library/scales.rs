//! Dimension scales: what HDF5's specification of them keeps in attributes, for many datasets at once.
//!
//! | attribute | of | what it has |
//! |---|---|---|
//! | `DIMENSION_LIST` | a dataset | for each axis, references to its scales |
//! | `REFERENCE_LIST` | a scale | the datasets and axes that have it |
//!
//! The library's own call attaches one scale to one axis, and writes the scale's list anew each time: for n datasets n² entries, and most
//! of the time of a file with a hundred arrays. Here a list is written once. Readers cannot tell the files apart.

use super::{Handle, c_text, done, failed, handle, space};
use hdf5_metno_sys::h5t::hvl_t;
use hdf5_metno_sys::{h5a, h5i, h5r, h5t};
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use thalweg_types::Result;

// HDF5's library for dimension scales, which hdf5-metno-sys does not declare.
#[link(name = "hdf5_hl")]
unsafe extern "C" {
    fn H5DSset_scale(scale: h5i::hid_t, name: *const c_char) -> c_int;
}

/// An object as attributes of others name it.
#[derive(Debug, Clone, Copy)]
pub struct Reference(h5r::hobj_ref_t);

/// An axis that has a scale, as `REFERENCE_LIST` has it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Axis {
    dataset: h5r::hobj_ref_t,
    dimension: c_int,
}

/// Makes a dataset a dimension scale of this name.
pub fn make(dataset: &Handle, name: &str) -> Result<()> {
    let name = c_text(name)?;
    // SAFETY: the handle lives, and the text ends with a byte 0.
    done(unsafe { H5DSset_scale(dataset.0, name.as_ptr()) }, "make a dimension scale")
}

/// How attributes name an object.
pub fn reference(of: &Handle) -> Result<Reference> {
    let mut reference = 0;
    // SAFETY: the handle lives, the text ends with a byte 0, and a reference to an object is written to `reference`, which is one.
    let told =
        unsafe { h5r::H5Rcreate((&raw mut reference).cast(), of.0, c".".as_ptr(), h5r::H5R_type_t::H5R_OBJECT, -1) };
    done(told, "name an object")?;
    Ok(Reference(reference))
}

/// Tells a new dataset the scale of each of its axes.
pub fn of_axes(dataset: &Handle, scales: &[Reference]) -> Result<()> {
    let what = "tell a dataset its dimension scales";
    let mut named: Vec<h5r::hobj_ref_t> = scales.iter().map(|scale| scale.0).collect();
    let lists: Vec<hvl_t> =
        named.iter_mut().map(|scale| hvl_t { len: 1, p: ptr::from_mut(scale).cast::<c_void>() }).collect();
    // SAFETY: the type is the library's own.
    let own = handle(unsafe { h5t::H5Tvlen_create(*h5t::H5T_STD_REF_OBJ) }, what)?;
    let space = space(Some(&[lists.len() as u64]), false)?;
    // SAFETY: the handles live, and the text ends with a byte 0.
    let made = unsafe { h5a::H5Acreate2(dataset.0, c"DIMENSION_LIST".as_ptr(), own.0, space.0, 0, 0) };
    let made = handle(made, what)?;
    // SAFETY: there is a list for each element, and each of them has one reference in `named`, which outlives the call.
    done(unsafe { h5a::H5Awrite(made.0, own.0, lists.as_ptr().cast()) }, what)
}

/// Tells a scale which axes have it, besides those that it knows.
///
/// - `axes`: datasets, and numbers of axes.
pub fn has_axes(scale: &Handle, axes: &[(Reference, usize)]) -> Result<()> {
    let what = "tell a dimension scale its axes";
    let name = c"REFERENCE_LIST";
    let own = type_of_axes()?;
    // SAFETY: the handle lives, and the text ends with a byte 0.
    let told = unsafe { h5a::H5Aexists(scale.0, name.as_ptr()) };
    done(told, what)?;
    let mut all = Vec::new();
    if told > 0 {
        all = known(scale, &own)?;
        // SAFETY: as before.
        done(unsafe { h5a::H5Adelete(scale.0, name.as_ptr()) }, what)?;
    }
    all.extend(axes.iter().map(|(dataset, axis)| Axis { dataset: dataset.0, dimension: *axis as c_int }));
    let space = space(Some(&[all.len() as u64]), false)?;
    // SAFETY: the handles live, and the text ends with a byte 0.
    let made = handle(unsafe { h5a::H5Acreate2(scale.0, name.as_ptr(), own.0, space.0, 0, 0) }, what)?;
    // SAFETY: `all` has as many elements of this type as the attribute.
    done(unsafe { h5a::H5Awrite(made.0, own.0, all.as_ptr().cast()) }, what)
}

/// The type of [`Axis`].
fn type_of_axes() -> Result<Handle> {
    let what = "make a type";
    // SAFETY: no pointers.
    let made = handle(unsafe { h5t::H5Tcreate(h5t::H5T_class_t::H5T_COMPOUND, size_of::<Axis>()) }, what)?;
    // SAFETY: the handle lives, the texts end with a byte 0, and both members lie within the size.
    unsafe {
        let at = offset_of!(Axis, dataset);
        done(h5t::H5Tinsert(made.0, c"dataset".as_ptr(), at, *h5t::H5T_STD_REF_OBJ), what)?;
        let at = offset_of!(Axis, dimension);
        done(h5t::H5Tinsert(made.0, c"dimension".as_ptr(), at, *h5t::H5T_NATIVE_INT), what)?;
    }
    Ok(made)
}

/// The axes that a scale knows.
fn known(scale: &Handle, own: &Handle) -> Result<Vec<Axis>> {
    let what = "read the axes of a dimension scale";
    // SAFETY: the handle lives, and the text ends with a byte 0.
    let list = handle(unsafe { h5a::H5Aopen(scale.0, c"REFERENCE_LIST".as_ptr(), 0) }, what)?;
    // SAFETY: the handle lives.
    let there = handle(unsafe { h5a::H5Aget_space(list.0) }, what)?;
    // SAFETY: the handle lives.
    let number = unsafe { hdf5_metno_sys::h5s::H5Sget_simple_extent_npoints(there.0) };
    let number = usize::try_from(number).map_err(|_| failed(what))?;
    let mut all = vec![Axis { dataset: 0, dimension: 0 }; number];
    // SAFETY: the library writes as many elements of this type as the attribute has.
    done(unsafe { h5a::H5Aread(list.0, own.0, all.as_mut_ptr().cast()) }, what)?;
    Ok(all)
}
