//! The public structures of `adios_read.h` and its neighbours, field by field as their headers have them.

use super::memory::Handed;
use std::ffi::{c_char, c_double, c_int, c_void};

/// `ADIOS_FILE`.
#[repr(C)]
pub struct AdiosFile {
    pub(crate) fh: u64,
    pub(crate) nvars: c_int,
    pub(crate) var_namelist: *mut *mut c_char,
    pub(crate) nattrs: c_int,
    pub(crate) attr_namelist: *mut *mut c_char,
    pub(crate) nmeshes: c_int,
    pub(crate) mesh_namelist: *mut *mut c_char,
    pub(crate) nlinks: c_int,
    pub(crate) link_namelist: *mut *mut c_char,
    pub(crate) current_step: c_int,
    pub(crate) last_step: c_int,
    pub(crate) is_streaming: c_int,
    pub(crate) path: *mut c_char,
    pub(crate) endianness: c_int,
    pub(crate) version: c_int,
    pub(crate) file_size: u64,
    pub(crate) internal_data: *mut c_void,
}

/// `struct ADIOS_STAT_STEP` and `struct ADIOS_STAT_BLOCK`.
#[repr(C)]
pub struct AdiosStatistics {
    pub(crate) mins: *mut *mut c_void,
    pub(crate) maxs: *mut *mut c_void,
    pub(crate) avgs: *mut *mut c_double,
    pub(crate) std_devs: *mut *mut c_double,
}

/// `ADIOS_VARSTAT`.
#[repr(C)]
pub struct AdiosVarStat {
    pub(crate) min: *mut c_void,
    pub(crate) max: *mut c_void,
    pub(crate) avg: *mut c_double,
    pub(crate) std_dev: *mut c_double,
    pub(crate) steps: *mut AdiosStatistics,
    pub(crate) blocks: *mut AdiosStatistics,
    pub(crate) histogram: *mut c_void,
}

/// `ADIOS_VARBLOCK`.
#[repr(C)]
pub struct AdiosVarBlock {
    pub(crate) start: *mut u64,
    pub(crate) count: *mut u64,
    pub(crate) process_id: u32,
    pub(crate) time_index: u32,
}

/// `ADIOS_VARMESH`.
#[repr(C)]
pub struct AdiosVarMesh {
    pub(crate) meshid: c_int,
    /// `enum var_centering`: 1 point, 2 cell.
    pub(crate) centering: c_int,
}

/// `ADIOS_VARINFO`.
#[repr(C)]
pub struct AdiosVarInfo {
    pub(crate) varid: c_int,
    pub(crate) element: c_int,
    pub(crate) ndim: c_int,
    pub(crate) dims: *mut u64,
    pub(crate) nsteps: c_int,
    pub(crate) value: *mut c_void,
    pub(crate) global: c_int,
    pub(crate) nblocks: *mut c_int,
    pub(crate) sum_nblocks: c_int,
    pub(crate) nattrs: c_int,
    pub(crate) attr_ids: *mut c_int,
    pub(crate) statistics: *mut AdiosVarStat,
    pub(crate) blockinfo: *mut AdiosVarBlock,
    pub(crate) meshinfo: *mut AdiosVarMesh,
}

impl Handed for AdiosVarInfo {
    const KIND: &'static str = "varinfo";
}

/// `ADIOS_VARCHUNK`.
#[repr(C)]
pub struct AdiosVarChunk {
    pub(crate) varid: c_int,
    pub(crate) element: c_int,
    pub(crate) from_steps: c_int,
    pub(crate) nsteps: c_int,
    pub(crate) sel: *mut AdiosSelection,
    pub(crate) data: *mut c_void,
}

impl Handed for AdiosVarChunk {
    const KIND: &'static str = "chunk";
}

/// `ADIOS_SELECTION_BOUNDINGBOX_STRUCT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdiosBox {
    pub(crate) ndim: c_int,
    pub(crate) start: *mut u64,
    pub(crate) count: *mut u64,
}

/// `ADIOS_SELECTION_POINTS_STRUCT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdiosPoints {
    pub(crate) ndim: c_int,
    pub(crate) free_points_on_delete: c_int,
    pub(crate) npoints: u64,
    pub(crate) points: *mut u64,
    pub(crate) container_selection: *mut AdiosSelection,
}

/// `ADIOS_SELECTION_WRITEBLOCK_STRUCT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdiosBlock {
    pub(crate) index: c_int,
    pub(crate) is_absolute_index: c_int,
    pub(crate) is_sub_pg_selection: c_int,
    pub(crate) element_offset: u64,
    pub(crate) nelements: u64,
}

/// `ADIOS_SELECTION_AUTO_STRUCT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdiosAuto {
    pub(crate) hints: *mut c_char,
}

/// `THALWEG_SELECTION_STRIDED_STRUCT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdiosStrided {
    pub(crate) ndim: c_int,
    pub(crate) start: *mut u64,
    pub(crate) count: *mut u64,
    pub(crate) stride: *mut u64,
}

/// The parts of `ADIOS_SELECTION`, depending on `type`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union AdiosSelectionParts {
    pub(crate) bb: AdiosBox,
    pub(crate) points: AdiosPoints,
    pub(crate) block: AdiosBlock,
    pub(crate) autosel: AdiosAuto,
    pub(crate) strided: AdiosStrided,
}

/// `enum ADIOS_SELECTION_TYPE`.
pub mod selection_type {
    use std::ffi::c_int;
    /// `ADIOS_SELECTION_BOUNDINGBOX`.
    pub const BOX: c_int = 0;
    /// `ADIOS_SELECTION_POINTS`.
    pub const POINTS: c_int = 1;
    /// `ADIOS_SELECTION_WRITEBLOCK`.
    pub const BLOCK: c_int = 2;
    /// `ADIOS_SELECTION_AUTO`.
    pub const AUTO: c_int = 3;
    /// `THALWEG_SELECTION_STRIDED`.
    pub const STRIDED: c_int = 100;
}

/// `ADIOS_SELECTION`. From `malloc`, as programs may free it themselves.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdiosSelection {
    /// [`selection_type`].
    pub(crate) kind: c_int,
    pub(crate) u: AdiosSelectionParts,
}

/// `MESH_UNIFORM`.
#[repr(C)]
pub struct MeshUniform {
    pub(crate) num_dimensions: c_int,
    pub(crate) dimensions: *mut u64,
    pub(crate) origins: *mut c_double,
    pub(crate) spacings: *mut c_double,
    pub(crate) maximums: *mut c_double,
}

/// `MESH_RECTILINEAR`.
#[repr(C)]
pub struct MeshRectilinear {
    pub(crate) use_single_var: c_int,
    pub(crate) num_dimensions: c_int,
    pub(crate) dimensions: *mut u64,
    pub(crate) coordinates: *mut *mut c_char,
}

/// `MESH_STRUCTURED`.
#[repr(C)]
pub struct MeshStructured {
    pub(crate) use_single_var: c_int,
    pub(crate) num_dimensions: c_int,
    pub(crate) dimensions: *mut u64,
    pub(crate) nspaces: c_int,
    pub(crate) points: *mut *mut c_char,
}

/// `MESH_UNSTRUCTURED`.
#[repr(C)]
pub struct MeshUnstructured {
    pub(crate) nspaces: c_int,
    pub(crate) npoints: u64,
    pub(crate) nvar_points: c_int,
    pub(crate) points: *mut *mut c_char,
    pub(crate) ncsets: c_int,
    pub(crate) ccounts: *mut u64,
    pub(crate) cdata: *mut *mut c_char,
    pub(crate) ctypes: *mut c_int,
}

/// `ADIOS_MESH`; `shape` points to one of the four above, depending on `element`.
#[repr(C)]
pub struct AdiosMesh {
    pub(crate) id: c_int,
    pub(crate) name: *mut c_char,
    pub(crate) file_name: *mut c_char,
    pub(crate) time_varying: c_int,
    pub(crate) kind: c_int,
    pub(crate) shape: *mut c_void,
}

impl Handed for AdiosMesh {
    const KIND: &'static str = "mesh";
}

/// `ADIOS_LINK`.
#[repr(C)]
pub struct AdiosLink {
    pub(crate) id: c_int,
    pub(crate) name: *mut c_char,
    pub(crate) nrefs: c_int,
    pub(crate) kinds: *mut c_int,
    pub(crate) ref_names: *mut *mut c_char,
    pub(crate) ref_files: *mut *mut c_char,
}

impl Handed for AdiosLink {
    const KIND: &'static str = "link";
}

/// `ADIOS_TRANSFORM_METADATA`.
#[repr(C)]
pub struct AdiosTransformMetadata {
    pub(crate) content: *const c_void,
    pub(crate) length: u64,
}

/// `ADIOS_VARTRANSFORM`.
#[repr(C)]
pub struct AdiosVarTransform {
    pub(crate) varid: c_int,
    pub(crate) sum_nblocks: c_int,
    pub(crate) transform_type: c_int,
    pub(crate) should_free_transform_metadata: c_int,
    pub(crate) transform_metadatas: *mut AdiosTransformMetadata,
}

impl Handed for AdiosVarTransform {
    const KIND: &'static str = "vartransform";
}

/// `ADIOS_PG_INTERSECTION`.
#[repr(C)]
pub struct AdiosIntersection {
    pub(crate) timestep: c_int,
    pub(crate) blockidx: c_int,
    pub(crate) blockidx_in_timestep: c_int,
    pub(crate) pg_bounds_sel: *mut AdiosSelection,
    pub(crate) intersection_sel: *mut AdiosSelection,
}

/// `ADIOS_PG_INTERSECTIONS`.
#[repr(C)]
pub struct AdiosIntersections {
    pub(crate) intersections: *mut AdiosIntersection,
    pub(crate) npg: c_int,
}

impl Handed for AdiosIntersections {
    const KIND: &'static str = "list of intersections";
}

/// `ADIOS_AVAILABLE_READ_METHODS`.
#[repr(C)]
pub struct AvailableReadMethods {
    pub(crate) nmethods: c_int,
    pub(crate) name: *mut *mut c_char,
    pub(crate) method_id: *mut c_int,
}

impl Handed for AvailableReadMethods {
    const KIND: &'static str = "list of read methods";
}

/// `ADIOS_AVAILABLE_TRANSFORM_METHODS`.
#[repr(C)]
pub struct AvailableTransforms {
    pub(crate) ntransforms: c_int,
    pub(crate) name: *mut *mut c_char,
    pub(crate) description: *mut *mut c_char,
}

impl Handed for AvailableTransforms {
    const KIND: &'static str = "list of transforms";
}
