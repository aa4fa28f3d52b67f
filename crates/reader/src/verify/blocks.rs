//! Blocks: every set of the index, alone, beside its record and with the others of its step.

use super::record::{digest, essence, sums_beside};
use super::*;

impl Check<'_> {
    /// Checks every set of the index, and the blocks of each step together.
    pub(super) fn blocks(&mut self, report: &mut Report) -> Result<()> {
        // Process groups that are damaged are found already; their records can't be compared.
        let damage = [FindingKind::Structure, FindingKind::Checksum, FindingKind::IndexDiffers];
        let damaged = report.findings.iter().any(|f| damage.contains(&f.kind));
        let names: Vec<(bool, Option<usize>, Option<usize>)> = self.entries();
        for (attributes, base, step) in names {
            let place = base.zip(self.live.base.as_ref()).map(|(i, b)| &b.entries[i]);
            let table = if attributes { &self.live.steps.attributes } else { &self.live.steps.variables };
            let entry = step.map(|i| &table.entries()[i]);
            let name = place.map(|p| p.head.name.clone()).or(entry.map(|e| e.name.clone())).unwrap_or_default();
            let path = place.map(|p| p.head.path.clone()).or(entry.map(|e| e.path.clone())).unwrap_or_default();
            let code = place.map(|p| p.head.code).or(entry.map(|e| e.code)).unwrap_or_default();
            let full = full_name(&path, &name);
            let sets = match Sets::load(&self.file, place, self.order, entry, self.live.first_time()) {
                Ok(sets) => sets,
                Err(e) if is_damage(&e) => {
                    report.add_error(FindingKind::Structure, self.path, &e.in_variable(full));
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    report.not_checked.push(format!("\"{full}\": {}", e.what()));
                    continue;
                }
                Err(e) => return Err(e),
            };
            let digest = digest(&(&path, &name));
            for i in 0..sets.len() {
                let set = sets.get(i)?;
                self.one_set(&full, digest, code, attributes, &set, damaged, report)?;
            }
            if !attributes {
                self.steps_of(&full, &sets, report)?;
            }
        }
        Ok(())
    }

    /// Variables and attributes: place of the entry in the full index, and in the step records.
    pub(super) fn entries(&self) -> Vec<(bool, Option<usize>, Option<usize>)> {
        let mut all = Vec::new();
        for attributes in [false, true] {
            let table = if attributes { &self.live.steps.attributes } else { &self.live.steps.variables };
            let mut by_name = HashMap::new();
            for (i, e) in table.entries().iter().enumerate() {
                by_name.insert((&e.path, &e.name), i);
            }
            for (i, e) in self.live.base.iter().flat_map(|b| b.entries.iter().enumerate()) {
                if e.is_attribute == attributes {
                    all.push((attributes, Some(i), by_name.remove(&(&e.head.path, &e.head.name))));
                }
            }
            let mut rest: Vec<usize> = by_name.into_values().collect();
            rest.sort_unstable();
            all.extend(rest.into_iter().map(|i| (attributes, None, Some(i))));
        }
        all
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn one_set(
        &mut self,
        full: &str,
        name: u64,
        code: u8,
        attributes: bool,
        set: &Characteristics,
        damaged: bool,
        report: &mut Report,
    ) -> Result<()> {
        let step = self.live.step_of(set.time_index);
        let at = |kind: FindingKind, object: &str, byte: u64, words: String| Finding {
            kind,
            object: object.to_string(),
            byte: Some(byte),
            step: Some(step),
            variable: Some(full.to_string()),
            words,
        };
        report.blocks += u64::from(!attributes);
        if self.index_file {
            return Ok(());
        }
        let file_index = if self.subfiles { set.file_index } else { SINGLE_FILE };
        let object = match file_index {
            SINGLE_FILE => self.path.to_string(),
            k => object::subfile(self.path, k),
        };
        let length = match file_index {
            SINGLE_FILE => Some(self.file.length()),
            k => match self.lengths.get(&k) {
                Some(length) => *length,
                None => {
                    let length = match Object::open(self.layout, &object) {
                        Ok(o) => Some(o.length()),
                        Err(e) if e.kind() == ErrorKind::NotFound => {
                            report.add(finding(FindingKind::MissingSubfile, &object, "the subfile is missing"));
                            None
                        }
                        Err(e) => return Err(e),
                    };
                    self.lengths.insert(k, length);
                    length
                }
            },
        };
        let Some(length) = length else { return Ok(()) };
        if !attributes {
            let element = ElementType::from_code(code);
            let size = element.map_or(0, ElementType::size);
            let bytes = match (&set.shape, &set.value) {
                (Some(s), _) if s.is_local_value() => Some(size),
                (Some(s), _) => s.elements().and_then(|n| n.checked_mul(size)),
                (None, Some(AttributeValue::One(Value::String(text)))) => Some(text.len() as u64),
                (None, _) => Some(size),
            };
            let end = bytes.and_then(|n| set.payload_offset.checked_add(n));
            if end.is_none_or(|end| end > length) || set.record_offset >= set.payload_offset {
                let words = format!("its payload is outside of the {length} bytes of its file");
                report.add(at(FindingKind::OutOfBounds, &object, set.payload_offset, words));
                return Ok(());
            }
        }
        if !self.groups_known || self.incomparable || damaged {
            return Ok(());
        }
        match self.records.get(&(attributes, file_index, set.record_offset)) {
            None => {
                let words = "the index names a record that no process group has".to_string();
                report.add(at(FindingKind::IndexDiffers, &object, set.record_offset, words));
            }
            Some(seen) if seen.code != code && !attributes => {
                let words = format!("type {code} in the index, {} in the process group", seen.code);
                report.add(at(FindingKind::Type, &object, set.record_offset, words));
            }
            Some(seen)
                if seen.name != name
                    || seen.essence != essence(set, attributes, seen.ours)
                    || seen.sums.is_some_and(|of_group| sums_beside(set).is_some_and(|sums| sums != of_group)) =>
            {
                let words = "the index differs from the process group".to_string();
                report.add(at(FindingKind::IndexDiffers, &object, set.record_offset, words));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Delayed consistency: the blocks of a global array agree on its shape, lie in it, don't overlap and cover it.
    pub(super) fn steps_of(&self, full: &str, sets: &Sets, report: &mut Report) -> Result<()> {
        for step in sets.steps() {
            let time = (step as u32).saturating_add(self.live.first_time());
            let at = |kind: FindingKind, byte: Option<u64>, words: String| Finding {
                kind,
                object: self.path.to_string(),
                byte,
                step: Some(step),
                variable: Some(full.to_string()),
                words,
            };
            let mut shape: Option<Shape> = None;
            let mut boxes = Vec::new();
            let mut places = Vec::new();
            for i in sets.of_steps(step..step + 1) {
                let set = sets.get(i)?;
                let this = set.transform.map(|t| t.shape).or(set.shape);
                let Some(this) = this.filter(|s| s.rank() > 0 && (s.is_global() || shape.is_some())) else { continue };
                if this.global.iter().any(|g| *g >= LOCAL_VALUE) {
                    continue;
                }
                match &shape {
                    Some(first) if first.global != this.global => {
                        let words =
                            format!("a block has the shape {:?}, the first block {:?}", this.global, first.global);
                        report.add(at(FindingKind::Shape, Some(set.record_offset), words));
                    }
                    Some(_) => {}
                    None => shape = Some(this.clone()),
                }
                let block = this.as_box();
                if !block.fits(&this.global) {
                    let words = format!(
                        "a block at {:?} of {:?} leaves the shape {:?}",
                        block.offset, block.count, this.global
                    );
                    report.add(at(FindingKind::OutOfBounds, Some(set.record_offset), words));
                }
                boxes.push(block);
                places.push(set.record_offset);
            }
            let Some(shape) = shape else { continue };
            if let Some((a, b)) = overlap::find(&boxes) {
                let words = format!("blocks {a} and {b} share elements; readers take those of block {b}");
                report.add(at(FindingKind::Overlap, Some(places[b]), words));
                continue;
            }
            let covered: Option<u64> =
                boxes.iter().map(BoundingBox::elements).try_fold(0u64, |sum, n| sum.checked_add(n?));
            let wanted = elements(&shape.global);
            if wanted != covered && !self.partial.contains(&time) {
                let words = format!(
                    "blocks cover {} of {} elements",
                    covered.map_or("?".into(), |n| n.to_string()),
                    wanted.map_or("?".into(), |n| n.to_string())
                );
                report.add(at(FindingKind::Gap, None, words));
            }
        }
        Ok(())
    }
}
