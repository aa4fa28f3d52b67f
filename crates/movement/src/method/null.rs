//! No output, to measure the cost of an application's own work and of all calls without writing.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | no rank |
//! | when         | never |
//! | where        | nowhere |
//! | what moves   | nothing |
//! | memory       | none for arrays, whose statistics are computed in the program's memory; scalars are dropped at close |
//! | who calls    | every rank; no rank waits for another |
//! | on failure   | only the caller's own mistakes fail |
//!
//! Source: Lofstead et al., SAND2009-7763: the NULL method.

use super::{CloseRequest, Closed, Method, MethodKind, OpenRequest, Opened, Parameters};
use crate::pack::Reach;
use crate::pack::blocks::Takes;
use thalweg_layout::WriteObject;
use thalweg_types::Result;

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["NULL"],
    id: 255,
    about: "writes nothing, to measure a program without its output",
    parameters: &[],
    least: 0,
    tried: &[],
    make,
};

fn make(_: &Parameters) -> Result<Box<dyn Method>> {
    Ok(Box::new(Null))
}

struct Null;

/// Takes bytes and forgets them.
pub(super) struct Nowhere;

impl WriteObject for Nowhere {
    fn write_at(&self, _: u64, _: &[std::io::IoSlice<'_>]) -> Result<()> {
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(0)
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn truncate(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// The step + 1 of an output that no file counts: those of this session are counted.
pub(super) fn count(request: &OpenRequest<'_>, method: &str) -> u32 {
    let key = format!("{method}:{}", request.path);
    let before = match request.mode {
        super::Mode::Write => 0,
        super::Mode::Append => request.cache.end_of(&key).unwrap_or(0),
        super::Mode::AppendAfter(step) => step + 1,
        super::Mode::Update => request.cache.end_of(&key).unwrap_or(0).saturating_sub(1),
    };
    request.cache.set_end(&key, Some(before + 1));
    (before + 1) as u32
}

impl Method for Null {
    fn name(&self) -> &'static str {
        "NULL"
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        Ok(Opened { time_index: count(request, self.name()), first_time: 1, run: request.run, levels: Vec::new() })
    }

    fn at_once(&self, _: &Reach) -> Option<u64> {
        // A copy would only be thrown away.
        Some(0)
    }

    fn takes(&self) -> Takes {
        Takes::Nothing
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        Ok((&Nowhere, 0))
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        request.failed.map_or(Ok(Closed::default()), Err)
    }
}
