//! `thalweg --version`: the version, the commit it was built from, what it was built with, and the MPIs whose libraries are installed with it.

use crate::installed::{library_folders, library_name, own_folder};
use crate::terminal::Terminal;
use std::io::{self, Write};
use std::path::Path;
use thalweg_io::parameters::{Subject, entries};

/// Set by builds of `./dev` for a release: the commit, with "-changed" if files differ from it.
const COMMIT: Option<&str> = option_env!("THALWEG_COMMIT");

pub fn print(out: &mut Terminal) -> io::Result<()> {
    writeln!(out, "thalweg {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "commit    {}", COMMIT.filter(|commit| !commit.is_empty()).unwrap_or("unknown"))?;
    writeln!(out, "build     {}", if cfg!(debug_assertions) { "dev" } else { "release" })?;
    let stores = entries(Subject::Store);
    let built: Vec<&str> = stores.iter().filter(|s| s.lacks.is_none()).map(|s| s.names[0]).collect();
    writeln!(out, "stores    {}", built.join(", "))?;
    let views =
        if own_folder()?.join("thalweg-convert").is_file() { "zarr, openpmd, hdf5, vtk" } else { "zarr, openpmd" };
    writeln!(out, "views     {views}")?;
    let installed = library_folders()?.into_iter().find_map(|folder| {
        let found = mpis(&folder);
        (!found.is_empty()).then_some((folder, found))
    });
    match installed {
        Some((folder, found)) => {
            writeln!(out, "MPI       {}", found.join(", "))?;
            writeln!(out, "libraries {}", folder.canonicalize()?.display())
        }
        None => writeln!(out, "MPI       no libraries are installed beside this command"),
    }
}

/// The MPIs with a library in this folder, each with what there is for it.
fn mpis(folder: &Path) -> Vec<String> {
    let there = |library: String| folder.join(library_name(&library)).is_file();
    let known = ["openmpi", "mpich", "nompi"];
    let found = known.into_iter().filter(|mpi| there(format!("thalweg-{mpi}")));
    let described = found.map(|mpi| {
        let mut parts = vec!["C"];
        if there(format!("thalweg-fortran-{mpi}")) {
            parts.push("Fortran");
        }
        if there(format!("thalweg-mpiio-{mpi}")) {
            parts.push("MPI-IO");
        }
        let name = if mpi == "nompi" { "none" } else { mpi };
        format!("{name} ({})", parts.join(", "))
    });
    described.collect()
}
