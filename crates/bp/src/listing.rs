//! A list of blocks of other files: a metadata file whose subfiles are files that exist already, under names of its own.
//!
//! Readers of BP files look for payloads where the index says, and never at process groups. So a small file can give the blocks of
//! another one other names, other attributes and other steps; file `NAME.dir/NAME.K` is a link to the file with the blocks. All of it is
//! one step, and one process group that does not exist.
//!
//! | section | content |
//! |---|---|
//! | process groups | one entry: rank 0, time index 1, offset 0 |
//! | variables | as in [`crate::index`]; sets have the records 3, 6, 7, 8, 4, and no statistics |
//! | attributes | as in [`crate::index`] |
//! | tag, minifooter | those of a metadata file, without an extension section |
//!
//! Unlike other indexes it may be in another machine's byte order: that of the payloads, as a file has only one.
//!
//! Source: `docs/format/bp3.md`, sections 4 and 9.

use crate::characteristic::{self, Location};
use crate::footer::Footer;
use crate::process_group::attribute_code;
use crate::shape::Shape;
use crate::wire::{LONGEST_STRING, Ordered, Put, check_str16};
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Error, ErrorKind, Result, Value};

/// The time index of all blocks and attributes: the first step.
const TIME: u32 = 1;

/// A block of another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its box, slowest dimension first.
    pub shape: Shape,
    /// Number of its file.
    pub file: u32,
    /// Its first byte there.
    pub payload_offset: u64,
}

/// A list that is being made.
#[derive(Debug, Clone)]
pub struct Listing {
    order: ByteOrder,
    group: String,
    variables: Section,
    attributes: Section,
}

#[derive(Debug, Clone)]
struct Section {
    count: u32,
    entries: Ordered,
}

impl Section {
    /// The entry of a name; `sets`: how many, and their bytes.
    fn add(&mut self, group: &str, id: u32, name: &str, code: u8, sets: (u64, Ordered)) -> Result<()> {
        check_str16(name.as_bytes(), "a name").map_err(|e| e.in_variable(name))?;
        let (count, sets) = sets;
        let mut entry = Ordered::new(sets.order());
        entry.put_u32(id);
        entry.put_str16(group.as_bytes());
        entry.put_str16(name.as_bytes());
        entry.put_str16(b"");
        entry.put_u8(code);
        entry.put_u64(count);
        entry.put(&sets.bytes);
        let length = u32::try_from(entry.bytes.len()).map_err(|_| {
            let what = format!("an index entry of {} bytes; BP version 3 holds 4 GiB", entry.bytes.len());
            Error::new(ErrorKind::OutOfBounds, what).in_variable(name)
        })?;
        self.entries.put_u32(length);
        self.entries.put(&entry.bytes);
        self.count += 1;
        Ok(())
    }

    fn encode(&self, out: &mut Ordered) {
        out.put_u32(self.count);
        out.put_u64(self.entries.bytes.len() as u64);
        out.put(&self.entries.bytes);
    }
}

/// Appends a set: its records, whose number `records` returns.
fn put_set(out: &mut Ordered, records: impl FnOnce(&mut Ordered) -> u8) {
    let mut own = Ordered::new(out.order());
    let count = records(&mut own);
    out.put_u8(count);
    out.put_u32(own.bytes.len() as u32);
    out.put(&own.bytes);
}

impl Listing {
    /// An empty list.
    ///
    /// - `group`: name of its group; `order`: byte order of the files with the blocks.
    pub fn new(group: &str, order: ByteOrder) -> Listing {
        let section = || Section { count: 0, entries: Ordered::new(order) };
        Listing { order, group: group.to_string(), variables: section(), attributes: section() }
    }

    /// Variables and attributes so far; ids count them in one sequence from 1.
    fn next_id(&self) -> u32 {
        self.variables.count + self.attributes.count + 1
    }

    /// Lists the blocks of a variable.
    ///
    /// - `name`: full name, which no other variable of the list has.
    ///
    /// # Errors
    /// `OutOfBounds` for a name or an index entry that is too long for BP version 3.
    pub fn variable(&mut self, name: &str, element: ElementType, blocks: &[Listed]) -> Result<()> {
        let mut sets = Ordered::new(self.order);
        for block in blocks {
            let (file_index, payload_offset) = (block.file, block.payload_offset);
            let at = Location { record_offset: payload_offset, payload_offset, file_index, time_index: TIME };
            put_set(&mut sets, |out| {
                characteristic::put_location(out, at);
                characteristic::put_shape(out, &block.shape);
                5
            });
        }
        let id = self.next_id();
        self.variables.add(&self.group, id, name, element.code(), (blocks.len() as u64, sets))
    }

    /// Lists an attribute.
    ///
    /// - `name`: full name, which no other attribute of the list has.
    ///
    /// # Errors
    /// `OutOfBounds` for a name or a text that is too long for BP version 3.
    pub fn attribute(&mut self, name: &str, value: &AttributeValue) -> Result<()> {
        let texts = match value {
            AttributeValue::One(one) => std::slice::from_ref(one),
            AttributeValue::Many(_, values) => values,
            AttributeValue::Variable(_) => &[],
        };
        let longest = texts.iter().filter_map(|value| match value {
            Value::String(text) => Some(text.len()),
            _ => None,
        });
        if longest.max().is_some_and(|length| length > LONGEST_STRING) {
            let what = format!("an attribute's text has more than {LONGEST_STRING} bytes");
            return Err(Error::new(ErrorKind::OutOfBounds, what).in_variable(name));
        }
        let mut sets = Ordered::new(self.order);
        // No reader follows the offsets of attributes; 0 is taken as unknown.
        let at = Location { record_offset: 1, payload_offset: 1, file_index: 0, time_index: TIME };
        put_set(&mut sets, |out| characteristic::put_attribute(out, at, value));
        let id = self.next_id();
        self.attributes.add(&self.group, id, name, attribute_code(value), (1, sets))
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Ordered::new(self.order);
        let mut group = Ordered::new(self.order);
        group.put_str16(self.group.as_bytes());
        group.put_u8(b'n');
        group.put_u32(0);
        group.put_str16(b"");
        group.put_u32(TIME);
        group.put_u64(0);
        out.put_u64(1);
        out.put_u64(group.bytes.len() as u64 + 2);
        out.put_u16(group.bytes.len() as u16);
        out.put(&group.bytes);
        let variables = out.bytes.len() as u64;
        self.variables.encode(&mut out);
        let attributes = out.bytes.len() as u64;
        self.attributes.encode(&mut out);
        let footer = Footer { process_groups: 0, variables, attributes, order: self.order, subfiles: true };
        footer.encode_as("list", &mut out);
        out.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::characteristic::decode_set;
    use crate::footer::MINIFOOTER;
    use crate::index::{Head, process_groups};
    use crate::wire::Cursor;

    fn listed(order: ByteOrder) -> Vec<u8> {
        let mut list = Listing::new("g", order);
        let shape = Shape::global([2, 3], [4, 3], [2, 0]);
        list.variable("/a/b", ElementType::F64, &[Listed { shape, file: 7, payload_offset: 0x1234 }]).unwrap();
        let values = vec![Value::DoubleComplex([1.5, -2.0]), Value::DoubleComplex([0.25, 3.0])];
        list.attribute("/a/c", &AttributeValue::Many(ElementType::DoubleComplex, values)).unwrap();
        list.attribute("/a/t", &AttributeValue::One(Value::String(b"text".to_vec()))).unwrap();
        list.encode()
    }

    #[test]
    fn a_list_is_a_metadata_file_in_either_byte_order() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let bytes = listed(order);
            let end = bytes.len() as u64;
            let tail = bytes[bytes.len() - MINIFOOTER as usize..].try_into().unwrap();
            let footer = Footer::decode(&tail, end).unwrap();
            assert_eq!((footer.order, footer.subfiles, footer.process_groups), (order, true, 0));
            let groups = process_groups(&mut Cursor::new(&bytes, order, 0)).unwrap();
            assert_eq!((groups.len(), groups[0].time_index, groups[0].fortran), (1, 1, false));

            let at = |offset: u64| Cursor::new(&bytes[offset as usize..], order, offset);
            let mut c = at(footer.variables);
            assert_eq!((c.u32("").unwrap(), c.u64("").unwrap()), (1, footer.attributes - footer.variables - 12));
            let length = c.u32("").unwrap();
            let mut entry = c.inside(u64::from(length), "").unwrap();
            let head = Head::decode(&mut entry).unwrap();
            assert_eq!((head.name.as_str(), head.path.as_str(), head.count, head.id), ("/a/b", "", 1, 1));
            let set = decode_set(&mut entry, Some(ElementType::F64), false).unwrap();
            assert_eq!((set.file_index, set.payload_offset, set.time_index), (7, 0x1234, 1));
            assert_eq!(set.shape, Some(Shape::global([2, 3], [4, 3], [2, 0])));
            assert_eq!((entry.left(), c.left() as u64), (0, end - footer.attributes));

            let mut c = at(footer.attributes);
            assert_eq!(c.u32("").unwrap(), 2);
            c.u64("").unwrap();
            for (element, text) in [(ElementType::DoubleComplex, None), (ElementType::String, Some("text"))] {
                let length = c.u32("").unwrap();
                let mut entry = c.inside(u64::from(length), "").unwrap();
                Head::decode(&mut entry).unwrap();
                match (decode_set(&mut entry, Some(element), false).unwrap().value.unwrap(), text) {
                    (AttributeValue::Many(_, values), None) => assert_eq!(values[1], Value::DoubleComplex([0.25, 3.0])),
                    (AttributeValue::One(one), Some(text)) => assert_eq!(one, Value::String(text.as_bytes().to_vec())),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn texts_that_other_readers_do_not_read_are_refused() {
        let long = AttributeValue::One(Value::String(vec![b'x'; LONGEST_STRING + 1]));
        let mut list = Listing::new("g", ByteOrder::NATIVE);
        assert_eq!(list.attribute("a", &long).unwrap_err().kind(), ErrorKind::OutOfBounds);
        let name = "n".repeat(LONGEST_STRING + 1);
        assert_eq!(list.variable(&name, ElementType::I8, &[]).unwrap_err().kind(), ErrorKind::OutOfBounds);
        assert_eq!(list.next_id(), 1, "nothing was added");
    }
}
