//! `PHDF5` and `NC4`: outputs as HDF5 and netCDF-4 files, which the tools of these formats open.
//!
//! | question | answer |
//! |----------|--------|
//! | how | as every format in which [arrays are whole](crate::whole_arrays) |
//! | where | one file, in the place that HDF5's library has reserved: the program `thalweg-convert`, which rank 0 starts and which is linked with it, creates datasets, extends them by a step and tells where their chunks lie |
//! | what is refused | what no HDF5 file can hold, with its reason ([`crate::whole_arrays::content`]); files on mounts, which HDF5's library cannot open; restarts in the middle of a file |
//!
//! Both write the same file: netCDF-4 is HDF5 with dimension scales. A program that ends before all values are written leaves the file as it
//! was; if it ends while the program of HDF5 writes what the file says of them, HDF5 has no way back.
//!
//! Source: Lofstead et al., SAND2009-7763, the methods for parallel HDF5 and netCDF. Differs: no parallel HDF5, and no MPI-IO
//! (`docs/decisions/0091-hdf5-files-without-parallel-hdf5.md`).

pub mod protocol;
mod writer;

use crate::whole_arrays::content::{Array, Attributes, Content, Rules};
use crate::whole_arrays::{self, Begun, Format, Part, Room, Target, unfinished};
use protocol::{Answer, Ask};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_movement::method::{self, MethodKind, Parameters};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::{Method, Mode, OpenRequest};
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::hdf5::is_no_name;
use writer::Writer;

/// `PHDF5` in the registry.
pub const PHDF5: MethodKind = MethodKind {
    names: &["PHDF5"],
    id: 7,
    about: "one HDF5 file, written by all ranks",
    parameters: &[method::SYNC, method::SPILL_COPY],
    least: thalweg_movement::output_file::spill::LEAST,
    tried: &[],
    make: |parameters| make("PHDF5", parameters),
};
/// `NC4` in the registry.
pub const NC4: MethodKind = MethodKind {
    names: &["NC4"],
    id: 15,
    about: "one netCDF-4 file, written by all ranks",
    make: |parameters| make("NC4", parameters),
    ..PHDF5
};

fn make(name: &'static str, parameters: &Parameters) -> Result<Box<dyn Method>> {
    whole_arrays::make(Hdf5(name), parameters)
}

/// The format, by the name of its method.
struct Hdf5(&'static str);

static RULES: Rules = Rules { format: "HDF5", is_no_name, axes: 32, has_groups: true, attributes: None };

impl Format for Hdf5 {
    fn name(&self) -> &'static str {
        self.0
    }

    fn rules(&self) -> &'static Rules {
        &RULES
    }

    fn keeps_attributes(&self) -> bool {
        true
    }

    fn begin(&self, request: &OpenRequest<'_>) -> Result<Begun> {
        let unsupported = |what: &str| Error::new(ErrorKind::Unsupported, what);
        let plain = request.layout.plain_file(request.path);
        let plain = plain.ok_or_else(|| unsupported("this is a mount: HDF5's library writes plain files alone"))?;
        let file = std::path::absolute(&plain).map_err(|e| Error::io("cannot find the file", e))?;
        let path = file.to_str().ok_or_else(|| unsupported("the name of its folder is not UTF-8"))?.to_string();
        if matches!(request.mode, Mode::AppendAfter(_)) {
            return Err(unsupported(
                "a restart that drops steps of an HDF5 file: copy the steps to keep into a new file",
            ));
        }
        let cache = request.cache.clone();
        let mut writer = Writer::take(&cache.of())?;
        let steps = match request.mode {
            Mode::Write => 0,
            _ => match writer.ask(&Ask::Open { path }, request.comm.timeout())? {
                Answer::Steps(steps) => steps,
                _ => return Err(another()),
            },
        };
        let one = OneFile { writer: Some(writer), cache, file: file.clone(), is_new: steps == 0, begun: false };
        Ok(Begun { target: Box::new(one), file, steps })
    }
}

/// The file, and the program that writes it.
struct OneFile {
    writer: Option<Writer>,
    cache: Arc<Cache>,
    /// As any process finds it.
    file: PathBuf,
    is_new: bool,
    /// The program has made room in the file.
    begun: bool,
}

fn another() -> Error {
    Error::new(ErrorKind::Io, "an answer to another question")
}

impl OneFile {
    fn ask(&mut self, ask: &Ask, patience: Duration) -> Result<Answer> {
        self.writer.as_mut().ok_or_else(method::not_open)?.ask(ask, patience)
    }
}

impl Target for OneFile {
    fn room(&mut self, content: &Content, _: &Attributes, _: bool, patience: Duration) -> Result<Room> {
        let path = self.file.to_string_lossy().into_owned();
        let ask = Ask::Step { path, is_new: self.is_new, content: Box::new(content.clone()) };
        let answer = self.ask(&ask, patience)?;
        self.begun = true;
        let Answer::Places { file, arrays } = answer else {
            return Err(another());
        };
        if arrays.len() != content.arrays.len() {
            return Err(Error::new(ErrorKind::Io, "places of other arrays"));
        }
        let part = |(number, (array, places)): (usize, (&Array, _))| Part {
            name: array.name.clone(),
            file: 0,
            arrays: vec![Some(number)],
            kind: array.kind,
            shape: array.shape.clone(),
            places,
        };
        let parts = content.arrays.iter().zip(arrays).enumerate().map(part).collect();
        Ok(Room { files: vec![file.into()], parts, left_out: Vec::new() })
    }

    fn commit(&mut self, sync: bool, patience: Duration) -> Result<()> {
        self.ask(&Ask::Commit { sync }, patience)?;
        self.begun = false;
        if let Some(writer) = self.writer.take() {
            writer.give_back(&self.cache.of());
        }
        Ok(())
    }
}

impl Drop for OneFile {
    /// Without a commit the file is as before the output.
    fn drop(&mut self) {
        drop(self.writer.take());
        if self.is_new && self.begun {
            // If it cannot be removed, the next output replaces it.
            let _ = std::fs::remove_file(unfinished(&self.file));
        }
    }
}
