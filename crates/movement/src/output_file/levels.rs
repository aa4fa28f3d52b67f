//! Statistics levels: all blocks of a variable in a file record the same statistics, because readers of the BP version 3 index
//! expect it. The rule does not apply to statistics stored beside that index: a file whose first blocks recorded only minimum and
//! maximum can store sums of later blocks beside the index.
//!
//! ADIOS 1.13 applies the bitmap of a variable's first block to all blocks of the variable, and crashes if a later block records
//! fewer statistics. Therefore a file keeps the level of its first blocks: if a later run requests another level, the file's level
//! is used, with a warning. The rank that loads the index determines the level at open. If the blocks of some ranks still differ,
//! because the ranks' declarations differ, each such rank's fragment is rejected at commit. Transforms follow the same rule, except
//! that a transform other than the file's is an error at open.

use thalweg_bp::characteristic::{self, Record, bitmap, bitmap_in_index};
use thalweg_bp::index::Index;
use thalweg_bp::statistics::Level;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::Communicator;
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result, equal};

/// An array that may be written, and the requested level of its statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayLevel {
    /// Path, as files store it.
    pub path: String,
    /// Name.
    pub name: String,
    /// Type.
    pub element: ElementType,
    /// Level.
    pub level: Level,
    /// The transform of its blocks, by its name in files; empty for none.
    pub transform: String,
}

/// The properties that all blocks of an array must share.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'s> {
    /// Bitmap of the recorded statistics in the BP index.
    pub bitmap: u32,
    /// Name of the transform; empty for none.
    pub transform: &'s [u8],
}

impl PartialEq for Recorded<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bitmap == other.bitmap && equal(self.transform, other.transform)
    }
}

/// The statistics bitmaps of the array blocks in encoded sets of characteristics; 0 for a block without statistics.
pub fn bitmaps(sets: &[u8]) -> impl Iterator<Item = u32> + '_ {
    recorded(sets).map(|r| r.bitmap)
}

/// The statistics bitmap and transform of each array block in encoded sets of characteristics.
pub fn recorded(sets: &[u8]) -> impl Iterator<Item = Recorded<'_>> {
    let mut c = Cursor::new(sets, ByteOrder::NATIVE, 0);
    std::iter::from_fn(move || {
        while c.left() > 0 {
            let (records, mut set) = characteristic::next_set(&mut c).ok()?;
            if let Some(found) = recorded_in(records, &mut set) {
                return Some(found);
            }
        }
        None
    })
}

/// `None` for scalars.
fn recorded_in<'s>(records: u8, set: &mut Cursor<'s>) -> Option<Recorded<'s>> {
    let mut array = false;
    let mut transform: &[u8] = &[];
    for _ in 0..records {
        match Record::next(set).ok()? {
            Record::Dimensions(_) => array = true,
            Record::Bitmap(bitmap) => return array.then_some(Recorded { bitmap: bitmap_in_index(bitmap), transform }),
            Record::Transform(mut of) => transform = characteristic::transform_name(&mut of).ok()?,
            Record::Typed(_) | Record::VariableId(_) => break,
            _ => {}
        }
    }
    array.then_some(Recorded { bitmap: 0, transform })
}

/// The arrays whose blocks in the file have another level than requested, with the file's level.
///
/// # Errors
/// `Unsupported` for a transform other than the file's, and for statistics that Thalweg does not write, such as those that
/// ADIOS 1.13 records of complex arrays.
pub fn differing(file: &Index, wanted: &[ArrayLevel]) -> Result<Vec<ArrayLevel>> {
    let mut differing = Vec::new();
    for array in wanted {
        let Some(entry) = file.variables.find(&array.path, &array.name) else { continue };
        let Some(Recorded { bitmap: bits, transform }) = recorded(&entry.sets).next() else { continue };
        if !transform.eq_ignore_ascii_case(array.transform.as_bytes()) {
            let said = |name: &[u8]| match name {
                b"" => "as it is".to_string(),
                name => format!("through {}", String::from_utf8_lossy(name)),
            };
            let (file, asked) = (said(transform), said(array.transform.as_bytes()));
            let what = format!(
                "the file stores it {file}, the request is {asked}; a file cannot contain both, write a new file"
            );
            return Err(Error::new(ErrorKind::Unsupported, what).in_variable(full_name(&array.path, &array.name)));
        }
        if bits == bitmap(array.element, array.level) {
            continue;
        }
        // If sums are requested and the index records only minimum and maximum, the sums are stored beside the index.
        let all = if array.level.has_sums() { Some(Level::Beside) } else { None };
        let known = all.into_iter().chain(Level::ALL).find(|l| bitmap(array.element, *l) == bits);
        let level = known.ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the file records statistics of it that Thalweg does not write (bitmap {bits:#x}); write a new file"
                ),
            )
            .in_variable(full_name(&array.path, &array.name))
        })?;
        if level < array.level || array.level == Level::Off {
            let (file, asked) = (name_of(level), name_of(array.level));
            tracing::warn!(variable = %array.name, %file, %asked, "a file keeps the statistics it began with");
        }
        differing.push(ArrayLevel { level, ..array.clone() });
    }
    Ok(differing)
}

/// A level as a value of the XML attribute `stats`.
fn name_of(level: Level) -> &'static str {
    match level {
        Level::Off => "stats=off",
        Level::MinMax => "stats=minmax",
        Level::Beside => "stats=default",
        Level::Full => "stats=on",
    }
}

fn full_name(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}/{name}") }
}

/// Broadcasts rank 0's list of arrays with differing levels. Collective if `any`, on which the ranks agreed before, is set;
/// otherwise returns an empty list.
///
/// # Errors
/// `PeerLost` or `Timeout` of the broadcast; `Corrupt` if the message is damaged.
pub fn tell(comm: &dyn Communicator, any: bool, own: Vec<ArrayLevel>) -> Result<Vec<ArrayLevel>> {
    if !any {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    for a in &own {
        bytes.put_str16(a.path.as_bytes());
        bytes.put_str16(a.name.as_bytes());
        bytes.put_u8(a.element.code());
        bytes.put_u8(a.level as u8);
    }
    comm.broadcast(0, &mut bytes)?;
    let mut c = Cursor::new(&bytes, ByteOrder::NATIVE, 0);
    let mut told = Vec::new();
    while c.left() > 0 {
        let (path, name) = (c.name("level")?, c.name("level")?);
        let (element, level) = (c.u8("level")?, c.u8("level")?);
        let level = Level::ALL.into_iter().find(|l| *l as u8 == level);
        if let (Some(element), Some(level)) = (ElementType::from_code(element), level) {
            told.push(ArrayLevel { path, name, element, level, transform: String::new() });
        }
    }
    Ok(told)
}

/// Checks that all blocks of `step` have the statistics and transform of the file's blocks, and of each other.
///
/// # Errors
/// `InvalidArgument` with the variable's name.
pub fn check(file: &Index, step: &Index) -> Result<()> {
    for entry in step.variables.entries() {
        let mut of_step = recorded(&entry.sets);
        let Some(first) = of_step.next() else { continue };
        let of_file = file.variables.find(&entry.path, &entry.name).and_then(|e| recorded(&e.sets).next());
        if let Some(other) = of_file.into_iter().chain(of_step).find(|other| *other != first) {
            let what = match other.transform == first.transform {
                true => "its blocks record different statistics; all ranks must declare the same `stats`",
                false => "its blocks have different transforms; all ranks must declare the same `transform`",
            };
            return Err(Error::new(ErrorKind::InvalidArgument, what).in_variable(full_name(&entry.path, &entry.name)));
        }
    }
    Ok(())
}
