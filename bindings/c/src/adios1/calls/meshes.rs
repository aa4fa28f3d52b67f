//! `adios_read.h`: meshes and links of a file. (`mesh` has those that a program defines.)

use super::memory::{Arena, Owned, borrowed, count, take_back};
use super::read::with_file;
use super::structures::{
    AdiosFile, AdiosLink, AdiosMesh, MeshRectilinear, MeshStructured, MeshUniform, MeshUnstructured,
};
use super::{status, value};
use crate::adios1::error::{Failure, Outcome};
use crate::adios1::read::mesh::{self, Mesh, Shape};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

fn named<'n>(names: &'n [String], place: c_int, what: &str) -> Outcome<&'n str> {
    let name = usize::try_from(place).ok().and_then(|p| names.get(p));
    let none = || Failure::argument(format!("{what} {place} of {}", names.len()));
    name.map(String::as_str).ok_or_else(none)
}

/// The part of a mesh's structure that its kind decides.
fn shape(mesh: &Mesh, arena: &mut Arena) -> *mut c_void {
    let names = |names: &[String], arena: &mut Arena| arena.texts(names.iter().map(String::as_str));
    match &mesh.shape {
        Shape::Uniform { dimensions, origins, spacings, maximums } => {
            let uniform = MeshUniform {
                num_dimensions: count(dimensions.len()),
                dimensions: arena.array(dimensions.clone()),
                origins: arena.array(origins.clone()),
                spacings: arena.array(spacings.clone()),
                maximums: arena.array(maximums.clone()),
            };
            arena.array(vec![uniform]).cast()
        }
        Shape::Rectilinear { dimensions, coordinates, single } => {
            let rectilinear = MeshRectilinear {
                use_single_var: c_int::from(*single),
                num_dimensions: count(dimensions.len()),
                dimensions: arena.array(dimensions.clone()),
                coordinates: names(coordinates, arena),
            };
            arena.array(vec![rectilinear]).cast()
        }
        Shape::Structured { dimensions, nspaces, points, single } => {
            let structured = MeshStructured {
                use_single_var: c_int::from(*single),
                num_dimensions: count(dimensions.len()),
                dimensions: arena.array(dimensions.clone()),
                nspaces: *nspaces as c_int,
                points: names(points, arena),
            };
            arena.array(vec![structured]).cast()
        }
        Shape::Unstructured { nspaces, npoints, points, cells } => {
            let data: Vec<String> = cells.iter().map(|(_, data, _)| data.clone()).collect();
            let unstructured = MeshUnstructured {
                nspaces: *nspaces as c_int,
                npoints: *npoints,
                nvar_points: count(points.len()),
                points: names(points, arena),
                ncsets: count(cells.len()),
                ccounts: arena.array(cells.iter().map(|(n, _, _)| *n).collect()),
                cdata: names(&data, arena),
                ctypes: arena.array(cells.iter().map(|(_, _, kind)| *kind).collect()),
            };
            arena.array(vec![unstructured]).cast()
        }
    }
}

/// A mesh, by its place. One in another file has that file's name, and is completed by [`adios_complete_meshinfo`].
///
/// # Cost
/// Each property of the mesh is searched among the names of all attributes: O(properties * attributes).
#[unsafe(no_mangle)]
pub extern "C" fn adios_inq_mesh_byid(fp: *mut AdiosFile, meshid: c_int) -> *mut AdiosMesh {
    value(null_mut(), || {
        with_file(fp, |state| {
            let name = named(&state.meshes, meshid, "mesh")?;
            let mut arena = Arena::default();
            let mut shown = AdiosMesh {
                id: meshid,
                name: arena.text(name),
                file_name: null_mut(),
                time_varying: 0,
                kind: 0,
                shape: null_mut(),
            };
            if let Some(other) = mesh::other_file(&state.file, name) {
                shown.file_name = arena.text(other);
            } else {
                let mesh = mesh::mesh(&state.file, name)?;
                shown.time_varying = c_int::from(mesh.time_varying);
                shown.kind = mesh::kind(&mesh.shape);
                shown.shape = shape(&mesh, &mut arena);
            }
            Ok(Owned { shown, arena, more: name.to_string() }.hand_out())
        })
    })
}

/// Fills in a mesh from the file that holds it.
///
/// # Safety
/// No other thread uses the mesh.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_complete_meshinfo(
    datafile: *mut AdiosFile,
    meshfile: *mut AdiosFile,
    meshinfo: *mut AdiosMesh,
) -> c_int {
    status(|| {
        with_file(datafile, |_| Ok(()))?;
        // SAFETY: as the caller promises; all are handed out with their name.
        let owned = unsafe { borrowed::<_, String>(meshinfo) }?;
        with_file(meshfile, |state| {
            let mesh = mesh::mesh(&state.file, &owned.more)?;
            owned.shown.time_varying = c_int::from(mesh.time_varying);
            owned.shown.kind = mesh::kind(&mesh.shape);
            owned.shown.shape = shape(&mesh, &mut owned.arena);
            Ok(())
        })
    })
}

/// Frees a mesh's structure; null is nothing.
///
/// # Safety
/// No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_free_meshinfo(meshinfo: *mut AdiosMesh) {
    // SAFETY: as the caller promises; all are handed out with their name.
    status(|| unsafe { take_back::<_, String>(meshinfo) });
}

/// A link, by its place.
#[unsafe(no_mangle)]
pub extern "C" fn adios_inq_link_byid(fp: *mut AdiosFile, linkid: c_int) -> *mut AdiosLink {
    value(null_mut(), || {
        with_file(fp, |state| {
            let link = mesh::link(&state.file, named(&state.links, linkid, "link")?)?;
            let mut arena = Arena::default();
            let files = link.references.iter().map(|(_, file, _)| match file {
                Some(file) => arena.text(file),
                None => null_mut(),
            });
            let files: Vec<_> = files.collect();
            let shown = AdiosLink {
                id: linkid,
                name: arena.text(&link.name),
                nrefs: count(link.references.len()),
                kinds: arena.array(link.references.iter().map(|(_, _, image)| c_int::from(*image) + 1).collect()),
                ref_names: arena.texts(link.references.iter().map(|(name, _, _)| name.as_str())),
                ref_files: arena.array(files),
            };
            Ok(Owned { shown, arena, more: () }.hand_out())
        })
    })
}

/// Frees a link's structure; null is nothing.
///
/// # Safety
/// No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_free_linkinfo(linkinfo: *mut AdiosLink) {
    // SAFETY: as the caller promises.
    status(|| unsafe { take_back::<_, ()>(linkinfo) });
}
