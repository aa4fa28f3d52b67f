//! The 64-bit handles of files, groups and variables. A handle of one kind is never accepted for another kind, and 0 is none.

use crate::adios1::error::{Failure, Outcome, number};

const KIND_SHIFT: u32 = 56;
const FILE: i64 = 1;
const GROUP: i64 = 2;
const VARIABLE: i64 = 3;
const POSITION_BITS: u32 = 28;
const GROUP_BITS: u32 = 16;
const GENERATION_BITS: u32 = 12;

/// A variable of a group declared from code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariableHandle {
    /// Number of the group, from 0.
    pub group: usize,
    /// How often the group's variables were deleted before, modulo 2^12.
    pub generation: u16,
    /// Position in the group.
    pub position: usize,
}

fn number_of(handle: i64, kind: i64, wrong: impl FnOnce() -> Failure) -> Outcome<i64> {
    if handle >> KIND_SHIFT == kind { Ok(handle & ((1 << KIND_SHIFT) - 1)) } else { Err(wrong()) }
}

/// The handle of file `number`.
pub fn file(number: u64) -> i64 {
    FILE << KIND_SHIFT | (number as i64 & ((1 << KIND_SHIFT) - 1))
}

/// The number of a file's handle.
///
/// # Errors
/// `err_invalid_file_pointer`.
pub fn file_number(handle: i64) -> Outcome<u64> {
    number_of(handle, FILE, || no_file(handle)).map(|n| n as u64)
}

/// No file has this handle.
pub fn no_file(handle: i64) -> Failure {
    Failure::new(number::INVALID_FILE_POINTER, format!("{handle} is no open file"))
}

/// The handle of group `number`; `None` where there are more than handles can count.
pub fn group(number: usize) -> Option<i64> {
    (number < 1 << GROUP_BITS).then_some(GROUP << KIND_SHIFT | number as i64)
}

/// The number of a group's handle.
///
/// # Errors
/// `err_invalid_group`.
pub fn group_number(handle: i64) -> Outcome<usize> {
    number_of(handle, GROUP, || no_group(handle)).map(|n| n as usize)
}

/// No group has this handle.
pub fn no_group(handle: i64) -> Failure {
    Failure::new(number::INVALID_GROUP, format!("{handle} is no declared group"))
}

/// No variable has this handle.
pub fn no_variable(handle: i64) -> Failure {
    Failure::new(number::INVALID_VARID, format!("{handle} is no variable of this group"))
}

impl VariableHandle {
    /// As a number for the program; `None` where a group has more variables than handles can count.
    pub fn number(self) -> Option<i64> {
        let position = self.position + 1;
        (position < 1 << POSITION_BITS).then(|| {
            VARIABLE << KIND_SHIFT
                | i64::from(self.generation & ((1 << GENERATION_BITS) - 1)) << (POSITION_BITS + GROUP_BITS)
                | (self.group as i64) << POSITION_BITS
                | position as i64
        })
    }

    /// The variable of a handle.
    ///
    /// # Errors
    /// `err_invalid_varid`.
    pub fn read(handle: i64) -> Outcome<VariableHandle> {
        let bits = number_of(handle, VARIABLE, || no_variable(handle))? as u64;
        let position = (bits & ((1 << POSITION_BITS) - 1)) as usize;
        Ok(VariableHandle {
            group: (bits >> POSITION_BITS & ((1 << GROUP_BITS) - 1)) as usize,
            generation: (bits >> (POSITION_BITS + GROUP_BITS)) as u16,
            position: position.checked_sub(1).ok_or_else(|| no_variable(handle))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_what_it_is_and_nothing_else() {
        let variable = VariableHandle { group: 65535, generation: 4095, position: (1 << 28) - 2 };
        let handle = variable.number().unwrap();
        assert!(handle > 0);
        assert_eq!(VariableHandle::read(handle).unwrap(), variable);
        assert_eq!(file_number(file(7)).unwrap(), 7);
        assert_eq!(group_number(group(0).unwrap()).unwrap(), 0);
        assert_eq!(file_number(handle).unwrap_err().number, number::INVALID_FILE_POINTER);
        assert_eq!(group_number(file(7)).unwrap_err().number, number::INVALID_GROUP);
        for wrong in [0, -1, 1, i64::MIN, i64::MAX, file(7), VARIABLE << KIND_SHIFT] {
            assert_eq!(VariableHandle::read(wrong).unwrap_err().number, number::INVALID_VARID, "{wrong}");
            assert_eq!(group_number(wrong).unwrap_err().number, number::INVALID_GROUP, "{wrong}");
        }
        assert!(VariableHandle { position: (1 << 28) - 1, ..variable }.number().is_none());
        assert!(group(65536).is_none());
    }
}
