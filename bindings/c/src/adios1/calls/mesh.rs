//! Meshes, and variables on them.

use super::{pointer, status};
use crate::adios1::error::{Doing, Outcome};
use crate::adios1::process;
use std::ffi::{c_char, c_int};
use thalweg_params::switch;
use thalweg_schema::{GroupBuilder, Mesh};
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// Changes a group's meshes.
fn change(group: i64, f: impl FnOnce(&mut GroupBuilder) -> Result<()>) -> Outcome<()> {
    let group = process::group(group)?;
    let builder = &mut group.lock().builder;
    f(builder).map_err(|e| Doing::Mesh.failed(e.in_group(builder.group().name.clone())))
}

/// Defines a mesh, and applies the properties that were set before.
fn define(group: i64, name: &str, f: impl FnOnce(&mut GroupBuilder) -> Result<()>) -> Outcome<()> {
    change(group, f)?;
    let early = process::kept_for_mesh(group, name)?;
    change(group, |builder| {
        let mesh = builder.mesh_mut(name)?;
        early.into_iter().for_each(|say| say(mesh));
        Ok(())
    })
}

/// A call about a mesh, which may still have to be defined.
///
/// # Safety
/// See [`super`].
unsafe fn about_mesh(
    group: i64,
    name: *const c_char,
    text: *const c_char,
    say: impl FnOnce(&mut Mesh, String) + Send + 'static,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (name, text) = unsafe { (pointer::text(name, "a name")?, pointer::text(text, "a value")?.to_string()) };
        let shared = process::group(group)?;
        if let Ok(mesh) = shared.lock().builder.mesh_mut(name) {
            say(mesh, text);
            return Ok(());
        }
        process::keep_for_mesh(group, name, Box::new(move |mesh| say(mesh, text)))
    })
}

/// A call with a group, a name, and one text about it.
///
/// # Safety
/// See [`super`].
unsafe fn about(
    group: i64,
    name: *const c_char,
    text: *const c_char,
    f: impl FnOnce(&mut GroupBuilder, &str, &str) -> Result<()>,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (name, text) = unsafe { (pointer::text(name, "a name")?, pointer::text(text, "a value")?) };
        change(group, |builder| f(builder, name, text))
    })
}

/// The version of the mesh schema, as `1.1`.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_schema_version(group: i64, version: *const c_char) -> c_int {
    status(|| {
        // SAFETY: from C.
        let version = unsafe { pointer::text(version, "the version") }?;
        change(group, |builder| builder.set_schema_version(version))
    })
}

/// Lays a variable on a mesh.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_var_mesh(group: i64, name: *const c_char, mesh: *const c_char) -> c_int {
    // SAFETY: from C.
    unsafe { about(group, name, mesh, |b, name, mesh| b.set_variable_mesh(name, mesh)) }
}

/// `cell` or `point`.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_var_centering(
    group: i64,
    name: *const c_char,
    centering: *const c_char,
) -> c_int {
    // SAFETY: from C.
    unsafe { about(group, name, centering, |b, name, centering| b.set_variable_centering(name, centering)) }
}

/// Sets one of the marks in time of a variable, keeping the others.
fn variable_time(
    builder: &mut GroupBuilder,
    name: &str,
    set: impl FnOnce(&mut thalweg_schema::TimeMarks),
) -> Result<()> {
    let known = |v: &&thalweg_schema::Variable| v.full_name() == name || v.name == name;
    let mut time = builder.group().variables.iter().find(known).map(|v| v.time.clone()).unwrap_or_default();
    set(&mut time);
    builder.set_variable_time(name, time)
}

/// Steps that a variable's values belong to.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_var_timesteps(steps: *const c_char, group: i64, name: *const c_char) -> c_int {
    // SAFETY: from C.
    unsafe { about(group, name, steps, |b, name, text| variable_time(b, name, |t| t.steps = Some(text.into()))) }
}

/// Times that a variable's values belong to.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_var_timescale(scale: *const c_char, group: i64, name: *const c_char) -> c_int {
    // SAFETY: from C.
    unsafe { about(group, name, scale, |b, name, text| variable_time(b, name, |t| t.scale = Some(text.into()))) }
}

/// Digits in the names of image files.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_var_timeseriesformat(
    format: *const c_char,
    group: i64,
    name: *const c_char,
) -> c_int {
    // SAFETY: from C.
    unsafe {
        about(group, name, format, |b, name, text| variable_time(b, name, |t| t.series_format = Some(text.into())))
    }
}

/// The part of a variable that viewers show.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_var_hyperslab(
    hyperslab: *const c_char,
    group: i64,
    name: *const c_char,
) -> c_int {
    // SAFETY: from C.
    unsafe { about(group, name, hyperslab, |b, name, text| b.set_variable_hyperslab(name, text)) }
}

/// The file that holds a mesh.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_file(group: i64, name: *const c_char, file: *const c_char) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (name, file) = unsafe { (pointer::text(name, "a name")?, pointer::text(file, "a value")?.to_string()) };
        let shared = process::group(group)?;
        if let Ok(mesh) = shared.lock().builder.mesh_mut(name) {
            mesh.file = Some(file);
            return Ok(());
        }
        // It may never be defined here: the other file has the rest.
        let attribute = format!("/adios_schema/{name}/mesh-file");
        change(group, |builder| builder.define_attribute(&attribute, "", ElementType::String, &file))?;
        process::keep_for_mesh(group, name, Box::new(move |mesh| mesh.file = Some(file)))
    })
}

/// The group that holds a mesh's variables.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_group(of: *const c_char, group: i64, name: *const c_char) -> c_int {
    // SAFETY: from C.
    unsafe { about_mesh(group, name, of, |mesh, text| mesh.group = Some(text)) }
}

/// Whether a mesh changes from step to step: `yes` or `no`.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_timevarying(
    varying: *const c_char,
    group: i64,
    name: *const c_char,
) -> c_int {
    // SAFETY: from C.
    let said = unsafe { pointer::optional_text(varying) }.map(|t| t.to_string_lossy().into_owned());
    if said.as_deref().is_some_and(|t| t.trim().is_empty() || switch(t).is_none()) {
        return status(|| {
            let text =
                format!("\"{}\" is no answer to whether a mesh varies: expected yes or no", said.unwrap_or_default());
            Err(Doing::Mesh.failed(Error::new(ErrorKind::Config, text)))
        });
    }
    // SAFETY: from C.
    unsafe { about_mesh(group, name, varying, |mesh, text| mesh.time_varying = switch(&text).unwrap_or(false)) }
}

/// Steps that a mesh belongs to.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_timesteps(steps: *const c_char, group: i64, name: *const c_char) -> c_int {
    // SAFETY: from C.
    unsafe { about_mesh(group, name, steps, |mesh, text| mesh.time.steps = Some(text)) }
}

/// Times that a mesh belongs to.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_timescale(scale: *const c_char, group: i64, name: *const c_char) -> c_int {
    // SAFETY: from C.
    unsafe { about_mesh(group, name, scale, |mesh, text| mesh.time.scale = Some(text)) }
}

/// Digits in the names of a mesh's image files.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_timeseriesformat(
    format: *const c_char,
    group: i64,
    name: *const c_char,
) -> c_int {
    // SAFETY: from C.
    unsafe { about_mesh(group, name, format, |mesh, text| mesh.time.series_format = Some(text)) }
}

/// A mesh of equally spaced points. Null and `""` leave a part out, here and below.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_uniform(
    dimensions: *const c_char,
    origin: *const c_char,
    spacing: *const c_char,
    maximum: *const c_char,
    nspace: *const c_char,
    group: i64,
    name: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (name, dimensions, origin, spacing, maximum, nspace) = unsafe {
            (
                pointer::text(name, "the mesh's name")?,
                pointer::text(dimensions, "dimensions")?,
                pointer::some_text(origin, "origin")?,
                pointer::some_text(spacing, "spacing")?,
                pointer::some_text(maximum, "maximum")?,
                pointer::some_text(nspace, "nspace")?,
            )
        };
        define(group, name, |b| b.define_mesh_uniform(name, dimensions, origin, spacing, maximum, nspace))
    })
}

/// A rectilinear mesh.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_rectilinear(
    dimensions: *const c_char,
    coordinates: *const c_char,
    nspace: *const c_char,
    group: i64,
    name: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (name, dimensions, coordinates, nspace) = unsafe {
            (
                pointer::text(name, "the mesh's name")?,
                pointer::text(dimensions, "dimensions")?,
                pointer::text(coordinates, "coordinates")?,
                pointer::some_text(nspace, "nspace")?,
            )
        };
        define(group, name, |b| b.define_mesh_rectilinear(name, dimensions, coordinates, nspace))
    })
}

/// A structured mesh.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_structured(
    dimensions: *const c_char,
    points: *const c_char,
    nspace: *const c_char,
    group: i64,
    name: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (name, dimensions, points, nspace) = unsafe {
            (
                pointer::text(name, "the mesh's name")?,
                pointer::text(dimensions, "dimensions")?,
                pointer::text(points, "points")?,
                pointer::some_text(nspace, "nspace")?,
            )
        };
        define(group, name, |b| b.define_mesh_structured(name, dimensions, points, nspace))
    })
}

/// An unstructured mesh; `data`, `count` and `cell_type` have one entry per set of cells.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_mesh_unstructured(
    points: *const c_char,
    data: *const c_char,
    count: *const c_char,
    cell_type: *const c_char,
    npoints: *const c_char,
    nspace: *const c_char,
    group: i64,
    name: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (name, points, data, count, cell_type, npoints, nspace) = unsafe {
            (
                pointer::text(name, "the mesh's name")?,
                pointer::text(points, "points")?,
                pointer::text(data, "data")?,
                pointer::text(count, "count")?,
                pointer::text(cell_type, "the type of cells")?,
                pointer::some_text(npoints, "npoints")?,
                pointer::some_text(nspace, "nspace")?,
            )
        };
        define(group, name, |b| b.define_mesh_unstructured(name, points, data, count, cell_type, npoints, nspace))
    })
}
