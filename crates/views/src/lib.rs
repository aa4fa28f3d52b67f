//! Views: small files that let tools of other formats read the bytes of a BP file in place.
//!
//! A block of a BP file is a contiguous run of values at a known offset of a known file. A view lists these places in the form of
//! another format, so that a tool of that format reads the values without a copy and without a library of ours. It is made from the
//! index alone; no payload is read. Offsets of blocks never change, so a view stays valid while the file grows: it shows the steps
//! that were closed when it was made.
//!
//! | room | what it owns |
//! |---|---|
//! | [`arrays`] | what of a file's variables is one array of other formats: shapes, dimension names, attributes, where its blocks are; what cannot be shown, and why |
//! | [`chunks`] | extents of chunks, where another format stores an array in chunks; pure |
//! | [`chosen`] | the chosen values of a variable as parts of arrays |
//! | [`boxes`] | whether boxes of an array meet; pure |
//! | [`grid`] | whether the blocks of an array form the chunks of a regular grid; pure |
//! | [`mesh`] | the grid of VTK that a mesh of the file is; pure |
//! | [`openpmd`] | the records and attributes of openPMD that meshes and variables are; the view for openPMD, a BP file with other names |
//! | [`place`] | URLs of the files with payloads |
//! | [`hdf5`] | the content of a view for HDF5: datasets over external storage, virtual datasets, dimension scales |
//! | [`runs`] | which blocks lie at regular places of a file; pure |
//! | [`vtk`] | the content of a view for VTK: that of HDF5 as one grid with arrays at its points and cells |
//! | [`zarr`] | references for Zarr, in kerchunk's JSON |
//!
//! What is promised: each element that a view shows is the one that [`thalweg_reader`] reads; a variable that a format cannot show is
//! listed with the reason, never left out in silence.
//!
//! Source: `docs/format/views.md`.
#![deny(unsafe_code)]

pub mod arrays;
pub mod boxes;
pub mod chosen;
pub mod chunks;
pub mod grid;
pub mod hdf5;
pub mod mesh;
pub mod openpmd;
pub mod place;
pub mod runs;
pub mod vtk;
pub mod zarr;

pub use arrays::{Array, Arrays, Content, LeftOut, Pieces};
pub use chosen::Chosen;
