//! Values of several blocks, read together.

use thalweg_choice::cast;
use thalweg_reader::Reader;
use thalweg_types::{ElementType, Error, ErrorKind, Result, Selection};

/// Values that are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Full name of the variable.
    pub name: &'a str,
    /// Type of its values.
    pub element: ElementType,
    /// The type that they get.
    pub becomes: ElementType,
    /// Step of the file.
    pub step: u64,
    /// Its part.
    pub from: &'a Selection,
}

/// Reads values, each in this machine's byte order.
///
/// # Errors
/// Those of reads and casts, with variable and step; `Corrupt` if a part has elements that no block has.
/// # Cost
/// As [`thalweg_reader::Batch`], and a pass for each cast.
pub fn fetch(reader: &Reader, wanted: &[Wanted<'_>]) -> Result<Vec<Vec<u8>>> {
    let mut batch = reader.batch();
    let mut memory: Vec<Vec<u8>> = Vec::with_capacity(wanted.len());
    for Wanted { name, step, from, .. } in wanted {
        let number = batch.add(name, &[*step], from, None)?;
        memory.push(zeros(batch.bytes(number))?);
    }
    let mut out: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
    let filled = if batch.is_empty() { vec![] } else { batch.perform(&mut out)? };
    let checked = |((wanted, bytes), filled): ((&Wanted<'_>, Vec<u8>), u64)| {
        let Wanted { name, element, becomes, step, .. } = *wanted;
        let failed = |e: Error| e.in_variable(name).at_step(step);
        if filled.saturating_mul(element.size()) != bytes.len() as u64 {
            let what = format!("{filled} elements of a block of {} bytes were found", bytes.len());
            return Err(failed(Error::new(ErrorKind::Corrupt, what)));
        }
        if element == becomes { Ok(bytes) } else { cast::cast(element, becomes, &bytes).map_err(failed) }
    };
    wanted.iter().zip(memory).zip(filled).map(checked).collect()
}

pub(crate) fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let none = || Error::new(ErrorKind::NoMemory, format!("the system has no {bytes} bytes of memory for a block"));
    let length = usize::try_from(bytes).map_err(|_| none())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(length).map_err(|_| none())?;
    memory.resize(length, 0);
    Ok(memory)
}
