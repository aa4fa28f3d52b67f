//! Facts about blocks in the extension section and step records that their index entries lack, by subfile and payload offset.

use std::collections::HashMap;
use thalweg_bp::extension::{Records, Tag};
use thalweg_bp::live::Live;
use thalweg_bp::statistics::ComponentStatistics;
use thalweg_bp::wire::Cursor;
use thalweg_types::{ByteOrder, Result};

/// The extension section's facts about blocks, by subfile and payload offset.
#[derive(Clone, Default)]
pub(super) struct BlockRecords {
    pub(super) complex: HashMap<(u32, u64), (u64, [ComponentStatistics; 3])>,
    pub(super) sums: HashMap<(u32, u64), i128>,
    pub(super) counts: HashMap<(u32, u64), u64>,
}

impl BlockRecords {
    pub(super) fn of(live: &Live, order: ByteOrder) -> BlockRecords {
        let mut known = BlockRecords::default();
        let base = live.base.as_ref().and_then(|b| b.records()).map(|r| (r, order));
        for (records, order) in base.into_iter().chain([(&live.steps.records, ByteOrder::NATIVE)]) {
            // Entries of fixed size; the section's checksum was compared, so a short rest is another version's.
            let _ = known.add(records, order);
        }
        known
    }

    pub(super) fn add(&mut self, records: &Records, order: ByteOrder) -> Result<()> {
        let key = |c: &mut Cursor<'_>| -> Result<(u32, u64)> {
            let file = c.u32("extension record")?;
            c.u32("extension record")?;
            Ok((file, c.u64("extension record")?))
        };
        for entry in records.get(Tag::ComplexStatistics).chunks_exact(120) {
            let mut c = Cursor::new(entry, order, 0);
            let key = key(&mut c)?;
            let finite = c.u64("extension record")?;
            let mut parts = [ComponentStatistics::default(); 3];
            for p in &mut parts {
                (p.min, p.max) = (c.f64("extension record")?, c.f64("extension record")?);
                (p.sum, p.sum_of_squares) = (c.f64("extension record")?, c.f64("extension record")?);
            }
            self.complex.insert(key, (finite, parts));
        }
        for entry in records.get(Tag::ExactSum).chunks_exact(32) {
            let mut c = Cursor::new(entry, order, 0);
            self.sums.insert(key(&mut c)?, c.i128("extension record")?);
        }
        for entry in records.get(Tag::WideCount).chunks_exact(24) {
            let mut c = Cursor::new(entry, order, 0);
            self.counts.insert(key(&mut c)?, c.u64("extension record")?);
        }
        Ok(())
    }
}
