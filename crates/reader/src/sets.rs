//! The sets of characteristics of one variable or attribute, stored as in the file and decoded on demand.
//!
//! A set of a three-dimensional block has about 160 bytes in the file and several times as many decoded. So a variable of a hundred
//! thousand blocks takes as much memory as in the file, plus 16 bytes per block.

use crate::block::kind_of;
use crate::boxes::Boxes;
use crate::variable::Kind;
use std::ops::Range;
use std::sync::OnceLock;
use thalweg_bp::characteristic::{self, Characteristics, Skimmed};
use thalweg_bp::index::{Entry, Head};
use thalweg_bp::live::EntryPlace;
use thalweg_bp::shape::Shape;
use thalweg_bp::source::Source;
use thalweg_bp::wire::Cursor;
use thalweg_types::{ByteOrder, ElementType, ErrorKind, Result};

#[derive(Clone)]
struct Segment {
    bytes: Vec<u8>,
    /// Where the first set starts in them.
    start: usize,
    order: ByteOrder,
    /// Where the bytes lie in the file, for messages.
    base: u64,
}

/// The location of one set.
#[derive(Clone, Copy)]
struct SetLocation {
    time: u32,
    segment: u32,
    /// Offset in the segment.
    at: u64,
}

/// All sets of one entry: those of the full index, then those of the step records.
#[derive(Clone)]
pub struct Sets {
    /// Type as stored; `None` for codes BP version 3 does not know.
    pub element: Option<ElementType>,
    /// Shape of the first set, before any transform.
    pub shape: Option<Shape>,
    /// Whether another set has other global extents.
    pub global_changes: bool,
    /// Whether another set has other local extents.
    pub local_changes: bool,
    /// The time index of step 0.
    first_time: u32,
    segments: Vec<Segment>,
    locations: Vec<SetLocation>,
    /// Facts from the first set; computed on demand.
    facts: OnceLock<Facts>,
    /// Made when first read from.
    boxes: OnceLock<Option<Boxes>>,
}

/// Facts common to all sets of a variable.
#[derive(Clone)]
pub struct Facts {
    /// Type before any transform.
    pub original: ElementType,
    /// Kind of the variable.
    pub kind: Kind,
    /// Dimensions of a block.
    pub rank: usize,
    /// Name of the transform.
    pub transform: Option<String>,
}

impl Sets {
    /// Reads the entry of the full index, checks it, and joins the sets of step records.
    ///
    /// - `first_time`: the time index of step 0.
    pub fn load(
        source: &(impl Source + ?Sized),
        entry: Option<&EntryPlace>,
        order: ByteOrder,
        steps: Option<&Entry>,
        first_time: u32,
    ) -> Result<Sets> {
        let code = entry.map(|e| e.head.code).or(steps.map(|e| e.code)).unwrap_or(u8::MAX);
        let mut sets = Sets {
            element: ElementType::from_code(code),
            shape: None,
            global_changes: false,
            local_changes: false,
            first_time,
            segments: Vec::new(),
            locations: Vec::new(),
            facts: OnceLock::new(),
            boxes: OnceLock::new(),
        };
        if let Some(entry) = entry {
            let bytes = entry.read(source, order)?;
            let mut c = Cursor::new(&bytes, order, entry.extent.offset);
            c.u32("index entry")?;
            let head = Head::decode(&mut c)?;
            let start = c.position();
            sets.add(Segment { bytes, start, order, base: entry.extent.offset }, head.count)?;
        }
        if let Some(entry) = steps {
            sets.add(Segment { bytes: entry.sets.clone(), start: 0, order: ByteOrder::NATIVE, base: 0 }, entry.count)?;
        }
        // Files keep their sets in this order; one that does not still reads.
        if !sets.locations.is_sorted_by_key(|p| p.time) {
            sets.locations.sort_by_key(|p| p.time);
        }
        Ok(sets)
    }

    fn add(&mut self, segment: Segment, count: u64) -> Result<()> {
        let mut c = Cursor::new(&segment.bytes, segment.order, segment.base);
        c.take(segment.start, "index entry")?;
        // A set has 5 bytes at least.
        self.locations.reserve(count.min(segment.bytes.len() as u64 / 5) as usize);
        for _ in 0..count {
            let at = c.position() as u64;
            let mut whole = c.clone();
            let time = match (characteristic::skim_set(&mut c, self.element)?, &self.shape) {
                (Some(Skimmed { time_index, dimensions: None, .. }), _) => time_index,
                (Some(Skimmed { time_index, dimensions: Some(mut dimensions), .. }), Some(first)) => {
                    let same = dimensions.left() == 24 * first.rank();
                    (self.global_changes, self.local_changes) =
                        (self.global_changes | !same, self.local_changes | !same);
                    for d in 0..if same { first.rank() } else { 0 } {
                        self.local_changes |= dimensions.u64("dimensions")? != first.local[d];
                        self.global_changes |= dimensions.u64("dimensions")? != first.global[d];
                        dimensions.u64("dimensions")?;
                    }
                    time_index
                }
                _ => {
                    let set = characteristic::decode_set(&mut whole, self.element, false)?;
                    if let Some(shape) = set.transform.map(|t| t.shape).or(set.shape) {
                        let first = self.shape.get_or_insert_with(|| shape.clone());
                        self.global_changes |= first.global != shape.global;
                        self.local_changes |= first.local != shape.local;
                    }
                    set.time_index
                }
            };
            self.locations.push(SetLocation { time, segment: self.segments.len() as u32, at });
        }
        if c.left() > 0 {
            return Err(c.fail(ErrorKind::Corrupt, format!("{} bytes after the last set", c.left())));
        }
        self.segments.push(segment);
        Ok(())
    }

    /// Joins the sets of another step record. Returns the bytes of memory that they take.
    pub fn extend(&mut self, entry: &Entry) -> Result<usize> {
        let before = self.weight();
        let known = self.locations.len();
        self.facts = OnceLock::new();
        self.add(Segment { bytes: entry.sets.clone(), start: 0, order: ByteOrder::NATIVE, base: 0 }, entry.count)?;
        if known > 0 && !self.locations[known - 1..].is_sorted_by_key(|p| p.time) {
            self.locations.sort_by_key(|p| p.time);
            self.boxes = OnceLock::new();
        }
        if let Some(Some(mut boxes)) = self.boxes.take()
            && boxes.add(self, known)
        {
            self.boxes = OnceLock::from(Some(boxes));
        }
        Ok(self.weight() - before)
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.locations.len()
    }

    /// Bytes of memory.
    pub fn weight(&self) -> usize {
        let bytes: usize = self.segments.iter().map(|s| s.bytes.len()).sum();
        let rank = self.shape.as_ref().map_or(0, Shape::rank);
        size_of::<Sets>() + bytes + self.locations.len() * (size_of::<SetLocation>() + Boxes::weight(rank))
    }

    /// Facts common to all sets; `None` if there are no sets, or their type is unknown.
    pub fn facts(&self) -> Result<Option<&Facts>> {
        if let Some(facts) = self.facts.get() {
            return Ok(Some(facts));
        }
        let Some(element) = self.element.filter(|_| self.len() > 0) else { return Ok(None) };
        let first = self.get(0)?;
        let shape = first.transform.as_ref().map(|t| &t.shape).or(first.shape.as_ref());
        let mut kind = kind_of(shape);
        // An array without an element is global if a later block is.
        let is_nothing = |shape: Option<&Shape>| shape.is_some_and(Shape::is_nothing);
        for number in 1..if is_nothing(shape) { self.len() } else { 1 } {
            let set = self.get(number)?;
            let shape = set.transform.as_ref().map(|t| &t.shape).or(set.shape.as_ref());
            if !is_nothing(shape) {
                kind = kind_of(shape);
                break;
            }
        }
        let facts = Facts {
            original: first.transform.as_ref().map_or(element, |t| t.element),
            kind,
            rank: shape.map_or(0, |s| s.clone().without_time(false).rank()),
            transform: first.transform.as_ref().map(|t| t.uid.clone()),
        };
        Ok(Some(self.facts.get_or_init(|| facts)))
    }

    /// The boxes of a global array's blocks; `None` if all sets must be decoded.
    pub fn boxes(&self, fortran: bool) -> Option<&Boxes> {
        let boxes = self.boxes.get_or_init(|| {
            let shape = self.shape.as_ref()?;
            let mut boxes = Boxes::new(shape.rank(), self.element?.size(), fortran);
            boxes.add(self, 0).then_some(boxes)
        });
        boxes.as_ref().filter(|b| b.fortran() == fortran)
    }

    /// Skims one set; `None` if it must be decoded.
    pub fn skim(&self, number: usize) -> Result<Option<Skimmed<'_>>> {
        let location = self.locations[number];
        let segment = &self.segments[location.segment as usize];
        let bytes = &segment.bytes[location.at as usize..];
        characteristic::skim_set(&mut Cursor::new(bytes, segment.order, 0), self.element)
    }

    /// The step of a set.
    pub fn step(&self, number: usize) -> u64 {
        u64::from(self.locations[number].time.saturating_sub(self.first_time))
    }

    /// Decodes one set.
    pub fn get(&self, number: usize) -> Result<Characteristics> {
        let location = self.locations[number];
        let segment = &self.segments[location.segment as usize];
        let mut c = Cursor::new(
            &segment.bytes[location.at as usize..],
            segment.order,
            segment.base.saturating_add(location.at),
        );
        characteristic::decode_set(&mut c, self.element, false)
    }

    /// The numbers of the sets of these steps.
    pub fn of_steps(&self, steps: Range<u64>) -> Range<usize> {
        let step = |p: &SetLocation| u64::from(p.time.saturating_sub(self.first_time));
        let from = self.locations.partition_point(|p| step(p) < steps.start);
        let to = self.locations.partition_point(|p| step(p) < steps.end);
        from..to.max(from)
    }

    /// The steps that have sets, rising.
    pub fn steps(&self) -> Vec<u64> {
        let mut steps: Vec<u64> = (0..self.len()).map(|i| self.step(i)).collect();
        steps.dedup();
        steps
    }
}
