//! All blocks of a variable in a file record the same statistics, as the index of BP version 3 is read that way.
//!
//! ADIOS 1.13 takes the bitmap of a variable's first block for all of them, and crashes where another has fewer. So a
//! file keeps the level it began with: where a later run asks for another, the file's is used, and a warning says so.
//! The level is found at open, on the rank that loads the index; ranks whose blocks differ nevertheless (declared
//! otherwise on some) are refused at commit, one by one.

use thalweg_bp::characteristic::{self, bitmap};
use thalweg_bp::index::Index;
use thalweg_bp::statistics::Level;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::Communicator;
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result};

/// An array that may be written, and the level at which its statistics are wanted.
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
}

/// Bitmaps of the array blocks among encoded sets, 0 for blocks without any.
pub fn bitmaps(sets: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let mut c = Cursor::new(sets, ByteOrder::NATIVE, 0);
    std::iter::from_fn(move || {
        while c.left() > 0 {
            let (records, mut set) = characteristic::next_set(&mut c).ok()?;
            if let Some(bits) = bitmap_in(records, &mut set) {
                return Some(bits);
            }
        }
        None
    })
}

/// `None` for scalars, and for transformed blocks, whose statistics are the transform's matter.
fn bitmap_in(records: u8, set: &mut Cursor<'_>) -> Option<u32> {
    let mut array = false;
    for _ in 0..records {
        match set.u8("characteristic").ok()? {
            3 | 6 => drop(set.u64("offset").ok()?),
            7 | 8 => drop(set.u32("number").ok()?),
            4 => {
                set.u8("dimensions").ok()?;
                let length = set.u16("dimensions").ok()?;
                set.take(usize::from(length), "dimensions").ok()?;
                array = true;
            }
            9 => return array.then_some(set.u32("bitmap").ok()?),
            11 => return None,
            _ => break,
        }
    }
    array.then_some(0)
}

/// The arrays of which the file has blocks with another level than wanted, with the file's.
///
/// # Errors
/// `Unsupported` for statistics that we don't write, as those of complex arrays by ADIOS 1.13.
pub fn differing(file: &Index, wanted: &[ArrayLevel]) -> Result<Vec<ArrayLevel>> {
    let mut differing = Vec::new();
    for array in wanted {
        let Some(entry) = file.variables.find(&array.path, &array.name) else { continue };
        let Some(bits) = bitmaps(&entry.sets).next() else { continue };
        if bits == bitmap(array.element, array.level) {
            continue;
        }
        let known = [Level::Off, Level::MinMax, Level::Full].into_iter().find(|l| bitmap(array.element, *l) == bits);
        let level = known.ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the file records statistics of it that are not written here (bitmap {bits:#x}); write a new file"
                ),
            )
            .in_variable(full_name(&array.path, &array.name))
        })?;
        tracing::warn!(variable = %array.name, file = ?level, asked = ?array.level, "a file keeps the statistics it began with");
        differing.push(ArrayLevel { level, ..array.clone() });
    }
    Ok(differing)
}

fn full_name(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}/{name}") }
}

/// Collective where `any` (agreed before) says that there are differing arrays: those of rank 0, on all ranks.
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
        let level = [Level::Off, Level::MinMax, Level::Full].into_iter().find(|l| *l as u8 == level);
        if let (Some(element), Some(level)) = (ElementType::from_code(element), level) {
            told.push(ArrayLevel { path, name, element, level });
        }
    }
    Ok(told)
}

/// Whether the blocks of `step` record what those of `file` do, and the same among each other.
///
/// # Errors
/// `InvalidArgument` naming the variable.
pub fn check(file: &Index, step: &Index) -> Result<()> {
    for entry in step.variables.entries() {
        let mut of_step = bitmaps(&entry.sets);
        let Some(first) = of_step.next() else { continue };
        let of_file = file.variables.find(&entry.path, &entry.name).and_then(|e| bitmaps(&e.sets).next());
        if of_file.is_some_and(|bits| bits != first) || of_step.any(|bits| bits != first) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "its blocks record different statistics; all ranks must declare the same `stats`",
            )
            .in_variable(full_name(&entry.path, &entry.name)));
        }
    }
    Ok(())
}
