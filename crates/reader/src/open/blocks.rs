//! Blocks of a variable, from the index: their boxes, shapes and characteristics; values of scalars.

use super::Reader;
use super::block_records::BlockRecords;
use super::lookup::IndexedVariable;
use super::origin::{GroupRead, Reads};
use crate::block;
use crate::summary::Joining;
use crate::{Block, Kind, Summary};
use std::ops::Range;
use thalweg_bp::source;
use thalweg_bp::statistics::{Level, Statistics};
use thalweg_types::{ElementType, Error, ErrorKind, Result, Value};

impl Reader {
    /// The shape at a step, slowest first, in elements: of the global array, or of block 0 of local arrays; empty for
    /// scalars. Where blocks disagree, the last one's.
    ///
    /// # Errors
    /// `NotFound` where the variable was not written in that step; errors of [`Reader::blocks`].
    pub fn shape(&self, name: &str, step: u64) -> Result<Vec<u64>> {
        let v = self.look_up(name)?;
        let sets = v.sets.of_steps(step..step.saturating_add(1));
        if sets.is_empty() {
            return Err(self.no_such_step(name, step, &v));
        }
        if v.kind == Kind::Global {
            let block = self.block(&v, sets.end - 1, sets.start)?;
            if !block.shape.contains(&thalweg_bp::shape::JOINED) {
                return Ok(block.shape);
            }
        }
        let blocks = self.blocks_of(&v, sets)?;
        Ok(match v.kind {
            Kind::Local => blocks.into_iter().next().map(|b| b.count),
            _ => blocks.into_iter().last().map(|b| b.shape),
        }
        .unwrap_or_default())
    }

    /// The blocks of a step in the order they were written; none where the variable was not written in it.
    ///
    /// # Errors
    /// As [`Reader::variable`]; `Corrupt` where a block's characteristics are damaged.
    pub fn blocks(&self, name: &str, step: u64) -> Result<Vec<Block>> {
        let v = self.look_up(name)?;
        self.blocks_of(&v, v.sets.of_steps(step..step.saturating_add(1)))
    }

    /// One block of a step; `None` if the step has no more than `number`. The others are decoded only if the block's offset depends
    /// on them.
    ///
    /// # Errors
    /// As [`Reader::blocks`].
    pub fn block_of_step(&self, name: &str, step: u64, number: u64) -> Result<Option<Block>> {
        let v = self.look_up(name)?;
        let sets = v.sets.of_steps(step..step.saturating_add(1));
        if number >= sets.len() as u64 {
            return Ok(None);
        }
        let first = sets.start;
        let block = self.block(&v, first + number as usize, first)?;
        if !block::needs_the_others(&block, v.kind) {
            return Ok(Some(block));
        }
        Ok(Some(self.blocks_of(&v, sets)?.swap_remove(number as usize)))
    }

    /// Number of blocks of a variable in a step; 0 if it was not written. No block is decoded.
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn block_count(&self, name: &str, step: u64) -> Result<u64> {
        Ok(self.look_up(name)?.sets.of_steps(step..step.saturating_add(1)).len() as u64)
    }

    /// The last step in which a variable was written; `None` for one without blocks.
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn last_step_of(&self, name: &str) -> Result<Option<u64>> {
        let sets = self.look_up(name)?.sets;
        Ok(sets.len().checked_sub(1).map(|last| sets.step(last)))
    }

    /// Hands every block of these steps to `each`, step by step.
    ///
    /// # Errors
    /// As [`Reader::blocks`]; the first failure of `each`, which is handed no further block.
    /// # Cost
    /// Memory for one block at a time, or for those of one step where they are joined.
    pub fn for_each_block(
        &self,
        name: &str,
        steps: Range<u64>,
        each: &mut dyn FnMut(Block) -> Result<()>,
    ) -> Result<()> {
        let v = self.look_up(name)?;
        let mut sets = v.sets.of_steps(steps);
        while sets.start < sets.end {
            let step = v.sets.step(sets.start);
            let of_step = v.sets.of_steps(step..step.saturating_add(1));
            sets.start = of_step.end;
            let first = self.block(&v, of_step.start, of_step.start)?;
            if block::needs_the_others(&first, v.kind) {
                self.blocks_of(&v, of_step)?.into_iter().try_for_each(&mut *each)?;
                continue;
            }
            // One at a time: a step may have a hundred thousand.
            let start = of_step.start;
            each(first)?;
            for number in start + 1..of_step.end {
                each(self.block(&v, number, start)?)?;
            }
        }
        Ok(())
    }

    /// Characteristics joined over these steps (`0..u64::MAX` for all). No payload is read.
    ///
    /// # Errors
    /// As [`Reader::blocks`].
    pub fn summary(&self, name: &str, steps: Range<u64>) -> Result<Summary> {
        let v = self.look_up(name)?;
        let mut all = Joining::new(v.original);
        self.for_each_block(name, steps, &mut |block| {
            all.add(&block);
            Ok(())
        })?;
        Ok(all.finish())
    }

    /// The value of a scalar or text at a step: the first block's.
    ///
    /// # Errors
    /// `NotFound` where it was not written in that step; `InvalidArgument` for arrays.
    pub fn value(&self, name: &str, step: u64) -> Result<Value> {
        let v = self.look_up(name)?;
        let sets = v.sets.of_steps(step..step.saturating_add(1));
        if sets.is_empty() {
            return Err(self.no_such_step(name, step, &v));
        }
        if v.kind != Kind::Scalar {
            return Err(self.fail(ErrorKind::InvalidArgument, "an array, not one value", name).at_step(step));
        }
        let block = self.block(&v, sets.start, sets.start)?;
        self.value_of(&v, &block).map_err(|e| e.in_variable(name).at_step(step))
    }

    /// The steps in which a variable was written, rising, and how many blocks each has.
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn block_counts(&self, name: &str) -> Result<Vec<(u64, u64)>> {
        let v = self.look_up(name)?;
        let mut counts: Vec<(u64, u64)> = Vec::new();
        for step in (0..v.sets.len()).map(|i| v.sets.step(i)) {
            match counts.last_mut() {
                Some((last, n)) if *last == step => *n += 1,
                _ => counts.push((step, 1)),
            }
        }
        Ok(counts)
    }

    /// Whether a variable was written in a step.
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn is_written(&self, name: &str, step: u64) -> Result<bool> {
        Ok(!self.look_up(name)?.sets.of_steps(step..step.saturating_add(1)).is_empty())
    }

    /// Block of set `number`, in a step whose sets start at `first`; dimensions that are joined are not resolved.
    pub(super) fn block(&self, v: &IndexedVariable, number: usize, first: usize) -> Result<Block> {
        let set = v.sets.get(number)?;
        let key = (set.file_index, set.payload_offset);
        let mut block = v.how.block(set, v.sets.step(number), (number - first) as u64)?;
        self.add_records(v.original, key, &mut block);
        Ok(block)
    }

    pub(super) fn blocks_of(&self, v: &IndexedVariable, sets: Range<usize>) -> Result<Vec<Block>> {
        let first = sets.start;
        let mut blocks = sets.map(|i| self.block(v, i, first)).collect::<Result<Vec<_>>>()?;
        block::resolve(&mut blocks, v.kind)?;
        Ok(blocks)
    }

    /// Adds the extension section's records of a block.
    fn add_records(&self, element: ElementType, key: (u32, u64), block: &mut Block) {
        if !element.is_complex() && block.statistics.is_none() {
            return;
        }
        let records = self.0.block_records.get_or_init(|| BlockRecords::of(&self.0.live, self.0.order));
        if let (true, Some((finite, parts))) = (element.is_complex(), records.complex.get(&key)) {
            let zero = match element {
                ElementType::Complex => Value::Complex([0.0; 2]),
                _ => Value::DoubleComplex([0.0; 2]),
            };
            block.statistics = Some(Statistics {
                level: Level::Full,
                min: zero.clone(),
                max: zero,
                finite: *finite,
                sum: 0.0,
                sum_of_squares: 0.0,
                exact_sum: None,
                complex: Some(*parts),
            });
        }
        if let Some(s) = &mut block.statistics {
            if let Some(sum) = records.sums.get(&key) {
                s.exact_sum = Some(*sum);
            }
            if let Some(finite) = records.counts.get(&key) {
                s.finite = *finite;
            }
        }
    }

    /// The value of a scalar's block: from the index, or from the data where the index has none.
    pub(super) fn value_of(&self, v: &IndexedVariable, block: &Block) -> Result<Value> {
        if let Some(value) = &block.value {
            return Ok(value.clone());
        }
        if v.how.element.size() == 0 {
            return Err(Error::new(ErrorKind::Unsupported, "a text without a value in the index")
                .in_object(self.0.path.clone())
                .at_byte(block.record_offset));
        }
        let first_reads = self.compare(vec![(0, GroupRead::of(block))]).map_err(|(e, _)| e)?;
        let object =
            self.object_with(block.subfile, &first_reads)?.reaching(block.payload.end().unwrap_or(u64::MAX))?;
        let bytes = source::bytes(&object, block.payload.offset, block.payload.length, "value")
            .map_err(|e| e.in_object(&*object.path))?;
        if self.0.reads == Reads::Checked {
            self.check_sum(&GroupRead::of(block), &bytes).map_err(|e| e.in_object(&*object.path))?;
        }
        Value::from_bytes(v.how.element, &bytes, self.0.order)
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, "a value of no size"))
    }
}
