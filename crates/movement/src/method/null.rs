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
use crate::output_file::cache::Cache;
use crate::pack::Reach;
use crate::pack::blocks::Takes;
use std::sync::Arc;
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
    Ok(Box::new(Null { counted: None }))
}

struct Null {
    /// From `open` to `close`.
    counted: Option<Counted>,
}

/// An output that no file counts.
pub struct Counted {
    cache: Arc<Cache>,
    key: String,
    /// The step + 1.
    pub time_index: u32,
}

impl Counted {
    /// The output is closed: the next one has the next step.
    pub fn close(self) {
        self.cache.set_end(&self.key, Some(u64::from(self.time_index)));
    }
}

/// Takes bytes and forgets them.
pub struct Nowhere;

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

    // A call costs nothing. So a method beside it may write in turns with the statistics.
    fn is_file(&self) -> bool {
        true
    }

    fn punch(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// An output that no file counts: those of this session that were closed are counted.
pub fn count(request: &OpenRequest<'_>, method: &str) -> Counted {
    let key = format!("{method}:{}", request.path);
    let before = match request.mode {
        super::Mode::Write => 0,
        super::Mode::Append => request.cache.end_of(&key).unwrap_or(0),
        super::Mode::AppendAfter(step) => step + 1,
        super::Mode::Update => request.cache.end_of(&key).unwrap_or(0).saturating_sub(1),
    };
    Counted { cache: request.cache.clone(), key, time_index: (before + 1) as u32 }
}

impl Method for Null {
    fn name(&self) -> &'static str {
        "NULL"
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let counted = self.counted.insert(count(request, self.name()));
        Ok(Opened { time_index: counted.time_index, first_time: 1, run: request.run, levels: Vec::new() })
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
        self.counted.take().into_iter().for_each(Counted::close);
        request.failed.map_or(Ok(Closed::default()), Err)
    }
}
