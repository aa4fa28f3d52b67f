//! The index of an open file in memory: records and runs as they were written, with lookup by overlap.
//!
//! Memory: 24.5 bytes a record, 129 bytes a run, and as many for a record or hole of 4 GiB and more. Opening a file merges nothing; overlaps are resolved for the bytes that
//! are read ([`Merged`](super::Merged)).

use super::run::Run;
use super::spans::{Span, Spans};
use super::{Body, Cuts, Loader, MappedRange, Strand};
use thalweg_types::{Error, ErrorKind, Result};

/// Runs of fewer records are stored as records, which use less memory.
const FEW: u64 = 5;

/// Flag in `log`: the entry is a hole.
const HOLE: u64 = 1 << 63;

#[derive(Debug, Clone, Copy)]
struct One {
    start: u64,
    log: u64,
    length: u32,
    strand: u32,
}

impl Span for One {
    fn bounds(&self) -> (u64, u64) {
        (self.start, self.start + u64::from(self.length))
    }

    /// Nothing is stored in a hole.
    fn end_before(&self, offset: u64) -> u64 {
        let (start, end) = self.bounds();
        if start < offset && self.log & HOLE == 0 { end.min(offset) } else { 0 }
    }
}

#[derive(Debug, Clone, Copy)]
struct Placed {
    run: Run,
    end: u64,
    strand: u32,
}

impl Span for Placed {
    /// The first record of a normal run is at its start.
    fn bounds(&self) -> (u64, u64) {
        (self.run.start, self.end)
    }

    fn end_before(&self, offset: u64) -> u64 {
        self.run.end_before(offset)
    }
}

/// Collects entries.
#[derive(Debug, Default)]
pub struct Gather {
    ones: Vec<One>,
    runs: Vec<Placed>,
}

impl Gather {
    /// - `length`: of the piece, which has 32 bits in this table.
    fn one(&mut self, piece: MappedRange, length: u32) -> Result<()> {
        if self.ones.len() == self.ones.capacity() {
            let more = self.ones.len().max(1024);
            self.ones.try_reserve(more).map_err(|_| no_memory(self.ones.len()))?;
        }
        let log = if piece.hole { HOLE | piece.log } else { piece.log };
        self.ones.push(One { start: piece.start, log, length, strand: piece.strand });
        Ok(())
    }
}

impl Gather {
    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.ones.capacity() * size_of::<One>() + self.runs.capacity() * size_of::<Placed>()
    }

    /// Passes all runs to `to`.
    ///
    /// # Errors
    /// Errors of `to`.
    pub fn empty(self, mut to: impl FnMut(u32, &Run) -> Result<()>) -> Result<()> {
        for one in self.ones {
            let run = Run::one(0, one.start, one.length.into(), one.log & !HOLE);
            to(one.strand, &Run { hole: one.log & HOLE != 0, ..run })?;
        }
        self.runs.iter().try_for_each(|placed| to(placed.strand, &placed.run))
    }
}

fn no_memory(records: usize) -> Error {
    Error::new(ErrorKind::NoMemory, format!("no memory for an index of more than {records} records"))
        .safe("the file's bytes; index=distributed keeps the index of an open file on disk")
}

impl Loader for Gather {
    fn add(&mut self, strand: u32, run: &Run) -> Result<()> {
        let run = run.normal();
        let (_, end) = run.bounds();
        if run.records() < FEW
            && let Ok(length) = u32::try_from(run.length)
        {
            // Most records of an irregular file.
            if run.records() == 1 {
                let (start, log, hole) = (run.start, run.log, run.hole);
                return self.one(MappedRange { start, end: start + run.length, log, strand, hole }, length);
            }
            let mut outcome = Ok(());
            run.meeting(0, u64::MAX, |start, log| {
                if outcome.is_ok() {
                    outcome =
                        self.one(MappedRange { start, end: start + run.length, log, strand, hole: run.hole }, length);
                }
            });
            return outcome;
        }
        self.runs.try_reserve(1).map_err(|_| no_memory(self.ones.len()))?;
        self.runs.push(Placed { run, end, strand });
        Ok(())
    }

    fn finish(self: Box<Self>, _strands: &[Strand], _cuts: &Cuts) -> Result<Box<dyn Body>> {
        Ok(Box::new(Tables { ones: Spans::new(self.ones), runs: Spans::new(self.runs) }))
    }
}

/// Records and runs, sorted.
pub struct Tables {
    ones: Spans<One>,
    runs: Spans<Placed>,
}

impl Body for Tables {
    fn pieces(&self, from: u64, to: u64, out: &mut Vec<MappedRange>) -> Result<()> {
        self.ones.meeting(from, to, |one| {
            let (start, end) = one.bounds();
            out.push(MappedRange { start, end, log: one.log & !HOLE, strand: one.strand, hole: one.log & HOLE != 0 });
        });
        self.runs.meeting(from, to, |placed| {
            placed.run.meeting(from, to, |start, log| {
                let (length, strand, hole) = (placed.run.length, placed.strand, placed.run.hole);
                out.push(MappedRange { start, end: start + length, log, strand, hole });
            });
        });
        Ok(())
    }

    fn end_before(&self, offset: u64) -> Result<Option<u64>> {
        Ok(Some(self.ones.end_before(offset).max(self.runs.end_before(offset))))
    }

    fn memory(&self) -> usize {
        self.ones.memory() + self.runs.memory()
    }

    fn entries(&self) -> u64 {
        (self.ones.count() + self.runs.count()) as u64
    }
}
