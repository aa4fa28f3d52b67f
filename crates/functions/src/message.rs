//! What a caller and its child tell each other: one line of JSON, then bytes of values, in turns.
//!
//! | who | line | bytes behind it |
//! |-----|------|-----------------|
//! | child, once | an [`Answer`]: whether the function was found | none |
//! | caller | a [`Call`] | the values of each argument |
//! | child | an [`Answer`] | the values of the result, unless it failed |
//!
//! Values are in this machine's byte order, slowest dimension first.

use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read};
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// Most bytes of a line.
pub const LONGEST_LINE: u64 = 1 << 20;

/// Type and extents of values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    /// Code of the type, as in BP files and `thalweg.h`.
    pub code: u8,
    /// The type as NumPy names it, as `<f8`.
    pub dtype: String,
    /// Extents; none for a single value.
    pub count: Vec<u64>,
    /// All bytes.
    pub bytes: u64,
}

impl Form {
    /// - `count`: extents, slowest dimension first.
    ///
    /// # Errors
    /// `Unsupported` for types that functions cannot have: texts, `long double`; `OutOfBounds` for more bytes than 64 bits count.
    pub fn new(element: ElementType, count: &[u64]) -> Result<Form> {
        let refused = || Error::new(ErrorKind::Unsupported, format!("functions know no values of type {element}"));
        let dtype = dtype(element).ok_or_else(refused)?;
        let too_many = || Error::new(ErrorKind::OutOfBounds, "a block has more bytes than 64 bits count");
        let elements = count.iter().try_fold(1u64, |product, n| product.checked_mul(*n)).ok_or_else(too_many)?;
        let bytes = elements.checked_mul(element.size()).ok_or_else(too_many)?;
        Ok(Form { code: element.code(), dtype, count: count.to_vec(), bytes })
    }
}

/// A block that is given to a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Full name of its variable.
    pub variable: String,
    /// Number of the block among those of its variable in the step.
    pub number: u64,
    /// Shape of the global array; empty for local arrays and single values.
    pub shape: Vec<u64>,
    /// Its first element there; empty for the same.
    pub offset: Vec<u64>,
    /// Type and extents.
    pub form: Form,
}

/// A call of the function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Step of the file, from 0.
    pub step: u64,
    /// What it is given.
    pub arguments: Vec<Argument>,
    /// What it fills.
    pub result: Form,
}

/// What the child says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Why it failed.
    pub failed: Option<String>,
}

/// NumPy's name of a type; `None` for those that functions cannot have.
fn dtype(element: ElementType) -> Option<String> {
    use ElementType::*;
    let sort = match element {
        I8 | I16 | I32 | I64 => 'i',
        U8 | U16 | U32 | U64 | Char => 'u',
        F32 | F64 => 'f',
        Complex | DoubleComplex => 'c',
        LongDouble | String | StringArray => return None,
    };
    let order = if cfg!(target_endian = "little") { '<' } else { '>' };
    Some(format!("{order}{sort}{}", element.size()))
}

/// A message as a line.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    // Structures of numbers and texts: nothing of them can fail.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Reads a message; `None` where the other end has gone between two messages.
///
/// # Errors
/// Those of reads; `Torn` for half a line; `Corrupt` for one that is no such message, or longer than [`LONGEST_LINE`].
pub fn read<M: for<'a> Deserialize<'a>>(from: &mut impl BufRead) -> Result<Option<M>> {
    let mut line = Vec::new();
    let read = from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
    read.map_err(|e| Error::io("cannot read a message", e))?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        let kind = if line.len() as u64 == LONGEST_LINE { ErrorKind::Corrupt } else { ErrorKind::Torn };
        return Err(Error::new(kind, "a message has no end"));
    }
    let wrong = |e: serde_json::Error| Error::new(ErrorKind::Corrupt, "this is no message").caused_by(e);
    serde_json::from_slice(&line).map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_have_the_types_that_numpy_knows() {
        let form = |element| Form::new(element, &[2, 3]).map(|form| (form.dtype, form.bytes));
        assert_eq!(form(ElementType::F64).unwrap(), ("<f8".to_string(), 48));
        assert_eq!(form(ElementType::DoubleComplex).unwrap(), ("<c16".to_string(), 96));
        assert_eq!(form(ElementType::U16).unwrap(), ("<u2".to_string(), 12));
        assert_eq!(form(ElementType::String).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(Form::new(ElementType::F64, &[1 << 40, 1 << 40]).unwrap_err().kind(), ErrorKind::OutOfBounds);
        assert_eq!(Form::new(ElementType::I32, &[]).unwrap().bytes, 4);
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in(
            variable in ".{0,20}", number in any::<u64>(), step in any::<u64>(), count in prop::collection::vec(0..100u64, 0..4),
            failed in prop::option::of(".{0,40}"),
        ) {
            let form = Form::new(ElementType::F32, &count).unwrap();
            let argument = Argument { variable, number, shape: count.clone(), offset: vec![0; count.len()], form: form.clone() };
            let call = Call { step, arguments: vec![argument], result: form };
            let answer = Answer { failed };
            let bytes = [line(&call), line(&answer)].concat();
            let mut from = bytes.as_slice();
            prop_assert_eq!(read::<Call>(&mut from).unwrap(), Some(call));
            prop_assert_eq!(read::<Answer>(&mut from).unwrap(), Some(answer));
            prop_assert_eq!(read::<Answer>(&mut from).unwrap(), None);
        }

        #[test]
        fn no_bytes_make_reading_fail_otherwise_than_with_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read::<Call>(&mut bytes.as_slice());
            let _ = read::<Answer>(&mut bytes.as_slice());
        }
    }
}
