//! Mode `r`: the variables of a group read back from the last step of a file, as the papers' `read` does.
//!
//! Dimensions and offsets come from scalars that the program sets, otherwise from the file. A global array is read at that box, whatever its
//! blocks, so the number of ranks may differ at restart. A local or joined array is read from the block of this rank.

use crate::joined::{Requirements, agree_on_open};
use crate::output::OPENING;
use crate::resolve::{self, Scalars};
use crate::session::{DeclaredGroup, Shared};
use crate::staging;
use std::sync::Arc;
use thalweg_bp::shape::JOINED;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_reader::Reader;
use thalweg_schema::dimension::NameRef;
use thalweg_schema::{HostLanguage, Variable};
use thalweg_types::mutex::Mutex;
use thalweg_types::{BoundingBox, ByteOrder, Error, ErrorKind, MemorySelection, Result, Selection, Value};

/// A file open for reading a group back.
pub struct Input {
    shared: Arc<Shared>,
    group: Arc<Mutex<DeclaredGroup>>,
    group_name: String,
    reader: Reader,
    scalars: Scalars,
    rank: u32,
}

impl Input {
    pub(crate) fn open(
        shared: Arc<Shared>,
        group_name: &str,
        declared: Result<Arc<Mutex<DeclaredGroup>>>,
        path: &str,
        comm: Box<dyn Communicator>,
    ) -> Result<Input> {
        let opened = caught(OPENING, || {
            let group = declared?;
            let base = group.lock().all_methods().first().map_or(String::new(), |m| m.base_path.clone());
            let path = if base.is_empty() || path.starts_with('/') {
                path.to_string()
            } else {
                format!("{}/{path}", base.trim_end_matches('/'))
            };
            // Closed steps are read, even if their outputs end later.
            shared.in_flight.settle(std::slice::from_ref(&path), None, comm.timeout())?;
            staging::settle(&*shared.layout, &path)?;
            Ok((group, Reader::open(shared.layout.clone(), &path)?))
        });
        let (opened, outcome) = match opened {
            Ok(opened) => (Some(opened), Ok(())),
            Err(e) => (None, Err(e.in_group(group_name).at_rank(comm.rank()))),
        };
        agree_on_open(&*comm, outcome, OPENING, &[], Requirements::default())?;
        let (group, reader) = opened.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no file is open"))?;
        Ok(Input {
            shared,
            group,
            group_name: group_name.to_string(),
            reader,
            scalars: Scalars::new(),
            rank: comm.rank(),
        })
    }

    /// The reader below, for everything else.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    fn variable(&self, name: &str) -> Result<Variable> {
        let group = self.group.lock();
        let variables = &group.builder.group().variables;
        let full = variables.iter().find(|v| v.full_name() == name || v.full_name() == format!("/{name}"));
        full.or_else(|| variables.iter().find(|v| v.name == name)).cloned().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the group has no such variable")
                .in_variable(name)
                .in_group(self.group_name.clone())
        })
    }

    /// Sets the value that a scalar has in dimensions and offsets from now on.
    ///
    /// # Errors
    /// `NotFound` for an unknown variable, `InvalidArgument` for an array or another number of bytes.
    pub fn set(&mut self, name: &str, data: &[u8]) -> Result<()> {
        let variable = self.variable(name)?;
        let value = Value::from_bytes(variable.element, data, ByteOrder::NATIVE)
            .filter(|_| variable.local.is_empty())
            .ok_or_else(|| {
                Error::new(ErrorKind::InvalidArgument, "only scalars can be set where a file is read").in_variable(name)
            })?;
        self.scalars.insert(variable.full_name(), value);
        Ok(())
    }

    /// The last step in which the file holds a variable.
    fn last_step(&self, full: &str) -> Result<u64> {
        let last = self.reader.last_step_of(full)?;
        last.ok_or_else(|| Error::new(ErrorKind::NotFound, "the file holds no step of it").in_variable(full))
    }

    fn scalar(&self, full: &str) -> Result<Value> {
        match self.scalars.get(full) {
            Some(value) => Ok(value.clone()),
            None => {
                let step = self.last_step(full)?;
                // The value that this rank wrote, if the number of ranks is the same; values of all ranks are not compared.
                let mine = self.reader.block_of_step(full, step, u64::from(self.rank))?.and_then(|b| b.value);
                mine.map_or_else(|| self.reader.value(full, step), Ok)
            }
        }
    }

    /// Step and selection of a read of this variable.
    fn selection(&self, variable: &Variable) -> Result<(u64, Selection)> {
        let full = variable.full_name();
        let step = self.last_step(&full)?;
        if variable.local.is_empty() {
            return Ok((step, Selection::All));
        }
        let group = self.group.lock();
        let group = group.builder.group();
        let known: Scalars = {
            // Names in dimensions that the program did not set are looked up in the file.
            let mut known = self.scalars.clone();
            let mut missing = Vec::new();
            for d in variable.local.iter().chain(&variable.global).chain(&variable.offset) {
                d.for_each_name(&mut |name| {
                    if let NameRef::Variable(name) = name
                        && !known.contains_key(name)
                    {
                        missing.push(name.to_string());
                    }
                });
            }
            for name in missing {
                let value = self.scalar(&name)?;
                known.insert(name, value);
            }
            known
        };
        let shape = resolve::shape(variable, &mut resolve::lookup(group, &known))?;
        Ok((
            step,
            match shape {
                None => Selection::All,
                Some(shape) if shape.global.contains(&JOINED) => Selection::Block(u64::from(self.rank)),
                Some(shape) if shape.is_global() => {
                    let shape =
                        if *self.shared.language.lock() == HostLanguage::Fortran { shape.reversed() } else { shape };
                    Selection::Box(BoundingBox::new(shape.offset, shape.local))
                }
                Some(_) => Selection::Block(u64::from(self.rank)),
            },
        ))
    }

    /// Bytes that a read of this variable fills.
    ///
    /// # Errors
    /// `NotFound` for a variable that the group or the file does not have, `InvalidArgument` for a dimension that has no
    /// value.
    pub fn expected_bytes(&self, name: &str) -> Result<u64> {
        let variable = self.variable(name)?;
        let (step, selection) = self.selection(&variable)?;
        self.reader.length(&variable.full_name(), step, &selection)
    }

    /// Reads a variable of the last step that has it. Not collective.
    ///
    /// - `out`: at least [`Input::expected_bytes`] bytes.
    ///
    /// # Errors
    /// `NotFound` where group or file have no such variable, `OutOfBounds` where the box leaves the array,
    /// `InvalidArgument` where `out` is too small.
    pub fn read(&mut self, name: &str, out: &mut [u8]) -> Result<u64> {
        self.fill(name, out, None)
    }

    /// As [`Input::read`], into a part of a larger array, such as the inside of one with ghost zones.
    ///
    /// - `out`: the whole array that `memory` describes, dimensions in the order of the program's language.
    ///
    /// Returns its bytes.
    ///
    /// # Errors
    /// As [`Input::read`]; `OutOfBounds` too where the box leaves the memory.
    pub fn read_into(&mut self, name: &str, out: &mut [u8], memory: &MemorySelection) -> Result<u64> {
        let fortran = *self.shared.language.lock() == HostLanguage::Fortran;
        let memory = if fortran { memory.reversed() } else { memory.clone() };
        self.fill(name, out, Some(&memory))
    }

    fn fill(&mut self, name: &str, out: &mut [u8], memory: Option<&MemorySelection>) -> Result<u64> {
        let variable = self.variable(name)?;
        let full = variable.full_name();
        let (step, selection) = self.selection(&variable)?;
        if variable.local.is_empty() {
            let value = self.scalar(&full)?;
            let mut bytes = Vec::new();
            value.append_to(&mut bytes);
            if bytes.len() > out.len() {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("{} bytes of memory for {} bytes", out.len(), bytes.len()),
                )
                .in_variable(full));
            }
            out[..bytes.len()].copy_from_slice(&bytes);
            self.scalars.insert(full, value);
            return Ok(bytes.len() as u64);
        }
        let mut batch = self.reader.batch();
        let number = batch.add(&full, &[step], &selection, memory)?;
        let (bytes, room) = (batch.bytes(number), out.len());
        let out = usize::try_from(bytes).ok().and_then(|n| out.get_mut(..n)).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, format!("{room} bytes of memory for {bytes} bytes"))
                .in_variable(full.clone())
        })?;
        batch.perform(&mut [out])?;
        Ok(bytes)
    }
}
