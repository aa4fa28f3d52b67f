//! Drops the last steps of an index.

use crate::characteristic::{self, SINGLE_FILE};
use crate::extension::{Records, Tag};
use crate::index::{Entry, Index};
use crate::process_group::Header;
use crate::wire::{Cursor, Put};
use std::collections::{BTreeMap, HashSet};
use thalweg_types::{ByteOrder, ElementType, Result};

/// Key of a block: subfile and offset of its payload.
type BlockKey = (u32, u64);

/// The index of the steps up to time index `last`.
///
/// # Errors
/// `Corrupt` or `Torn` where a set is damaged.
pub fn up_to(index: &Index, last: u32) -> Result<Index> {
    let mut kept = Index::default();
    let groups = Groups::of(index)?;
    for g in index.process_groups()?.into_iter().filter(|g| g.time_index <= last) {
        let header = Header {
            group: g.group,
            fortran: g.fortran,
            time_name: g.time_name,
            time_index: g.time_index,
            methods: Vec::new(),
        };
        kept.add_process_group(&header, g.rank, g.offset);
    }
    let mut dropped = HashSet::new();
    let variables = section(index.variables.entries(), &groups, last, &mut dropped)?;
    let attributes = section(index.attributes.entries(), &groups, last, &mut dropped)?;
    let at = |bytes| Cursor::new(bytes, ByteOrder::NATIVE, 0);
    kept.append_sections(&mut at(&[0; 16]), &mut at(&variables), &mut at(&attributes))?;
    kept.records = records_without(&index.records, last, &dropped);
    kept.set_first_time(index.first_time());
    Ok(kept)
}

/// Offsets and time indexes of process groups, as attributes of ADIOS have no time index.
struct Groups(BTreeMap<(u32, u64), u32>);

impl Groups {
    fn of(index: &Index) -> Result<Groups> {
        let groups = index.process_groups()?;
        // In subfiles of ADIOS, the rank is the number of the subfile.
        let places =
            groups.iter().flat_map(|g| [(SINGLE_FILE, g.offset), (g.rank, g.offset)].map(|at| (at, g.time_index)));
        Ok(Groups(places.collect()))
    }

    /// The time index of a set, or of its process group if the set has none.
    fn time_of(&self, own: u32, file: u32, payload: u64) -> u32 {
        match own {
            0 => self.0.range((file, 0)..=(file, payload)).next_back().map_or(0, |(_, time)| *time),
            own => own,
        }
    }
}

/// The entry with the sets of the kept steps; the keys of other sets are added to `dropped`.
fn sets_up_to(entry: &Entry, groups: &Groups, last: u32, dropped: &mut HashSet<BlockKey>) -> Result<Entry> {
    let mut kept = Entry { count: 0, sets: Vec::new(), ..entry.clone() };
    let element = ElementType::from_code(entry.code);
    let mut c = Cursor::new(&entry.sets, ByteOrder::NATIVE, 0);
    for _ in 0..entry.count {
        let start = c.position();
        let set = characteristic::decode_set(&mut c, element, false)?;
        if groups.time_of(set.time_index, set.file_index, set.payload_offset) <= last {
            kept.sets.extend_from_slice(&entry.sets[start..c.position()]);
            kept.count += 1;
        } else {
            dropped.insert((set.file_index, set.payload_offset));
        }
    }
    Ok(kept)
}

/// A section of the index with the sets of the kept steps, without empty entries.
fn section(entries: &[Entry], groups: &Groups, last: u32, dropped: &mut HashSet<BlockKey>) -> Result<Vec<u8>> {
    let (mut count, mut body) = (0, Vec::new());
    for entry in entries {
        let e = sets_up_to(entry, groups, last, dropped)?;
        if e.count == 0 {
            continue;
        }
        let mut head = Vec::new();
        head.put_u32(e.id);
        [&e.group, &e.name, &e.path].into_iter().for_each(|name| head.put_str16(name.as_bytes()));
        head.put_u8(e.code);
        head.put_u64(e.count);
        body.put_u32((head.len() + e.sets.len()) as u32);
        body.put(&head);
        body.put(&e.sets);
        count += 1;
    }
    let mut out = Vec::with_capacity(body.len() + 12);
    out.put_u32(count);
    out.put_u64(body.len() as u64);
    out.put(&body);
    Ok(out)
}

/// The records without entries of dropped blocks and steps. Records of unknown tags stay.
fn records_without(records: &Records, last: u32, dropped: &HashSet<BlockKey>) -> Records {
    /// Length of an entry, and its subject.
    enum About {
        Block(usize),
        Time(usize, usize),
    }
    let mut kept = records.clone();
    for (tag, about) in [
        (Tag::ComplexStatistics, About::Block(120)),
        (Tag::ExactSum, About::Block(32)),
        (Tag::WideCount, About::Block(24)),
        (Tag::Partial, About::Time(16, 0)),
        (Tag::Run, About::Time(16, 8)),
        (Tag::Left, About::Time(24, 0)),
    ] {
        let Some(list) = kept.0.get_mut(&(tag as u32)) else { continue };
        let length = match about {
            About::Block(length) | About::Time(length, _) => length,
        };
        let stays = |entry: &&[u8]| {
            let number = |at: usize| Cursor::new(&entry[at..], ByteOrder::NATIVE, 0).u32("").unwrap_or(u32::MAX);
            let wide = |at: usize| Cursor::new(&entry[at..], ByteOrder::NATIVE, 0).u64("").unwrap_or(u64::MAX);
            match about {
                About::Block(_) => !dropped.contains(&(number(0), wide(8))),
                About::Time(_, at) => number(at) <= last,
            }
        };
        *list = list.chunks_exact(length).filter(stays).flatten().copied().collect();
        if list.is_empty() {
            kept.0.remove(&(tag as u32));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::characteristic::Location;
    use crate::pass;
    use crate::process_group::Block;
    use crate::shape::Shape;
    use crate::statistics::Level;
    use thalweg_types::{AttributeValue, Value};

    /// Steps of one scalar, two blocks of sums that no double holds, one of complex numbers, and an attribute.
    fn steps(n: u32) -> Index {
        let mut index = Index::default();
        for time in 1..=n {
            let start = 10_000 * u64::from(time);
            let header = Header { group: "g".into(), time_index: time, ..Header::default() };
            index.add_process_group(&header, 0, start);
            let at = |n: u64| Location {
                record_offset: start + 100 * n,
                payload_offset: start + 100 * n + 50,
                file_index: 0,
                time_index: time,
            };
            let mut block = |at, name: &str, element: ElementType, bytes: &[u8], value: Option<&Value>| {
                let shape = Shape { local: vec![2], global: vec![0], offset: vec![0] };
                let digest = pass::look(bytes, element, Level::Full);
                let block = Block {
                    id: 1,
                    name,
                    path: "",
                    element,
                    is_dimension: false,
                    shape: value.is_none().then_some(&shape),
                    level: Level::Full,
                    statistics: digest.statistics.as_ref(),
                    transform: None,
                    payload: bytes.len() as u64,
                };
                index.add_block("g", &block, at, value).unwrap();
            };
            block(at(1), "n", ElementType::I32, &5i32.to_ne_bytes(), Some(&Value::I32(5)));
            let wide: Vec<u8> = [i64::MAX, i64::from(time)].iter().flat_map(|v| v.to_ne_bytes()).collect();
            block(at(2), "sum", ElementType::I64, &wide, None);
            block(at(3), "sum", ElementType::I64, &wide, None);
            block(at(4), "z", ElementType::Complex, &[0; 16], None);
            let value = AttributeValue::One(Value::F64(f64::from(time)));
            index.add_attribute("g", 9, "", "a", &value, at(5)).unwrap();
            let list = index.records.list(Tag::Partial);
            [time, 3, 1, 0].into_iter().for_each(|n| list.put_u32(n));
            let list = index.records.list(Tag::Run);
            list.put_u64(u64::from(time));
            list.put_u32(time);
            list.put_u32(1);
        }
        index
    }

    #[test]
    fn what_is_left_is_the_index_of_the_steps_kept() {
        for last in 1..=4 {
            let kept = up_to(&steps(4), last).unwrap();
            assert_eq!(kept.to_fragment(), steps(last).to_fragment(), "{last}");
            assert_eq!((kept.last_time(), kept.sets()), (last, steps(last).sets()), "{last}");
        }
    }

    #[test]
    fn what_no_kept_step_has_is_gone() {
        let mut index = steps(1);
        let at = Location { record_offset: 1, payload_offset: 2, file_index: 0, time_index: 2 };
        index.add_attribute("g", 10, "", "late", &AttributeValue::One(Value::I32(1)), at).unwrap();
        assert_eq!(index.attributes.entries().len(), 2);
        assert_eq!(up_to(&index, 1).unwrap().attributes.entries().len(), 1);
    }
}
