//! Memory that C programs look into: kept by us until they hand it back, whole.
//!
//! Memory that programs free with `free()` comes from `malloc` ([`copied`], [`copied_text`]); all other memory is in an [`Arena`]
//! beside its structure, and is freed with it.

use crate::adios1::error::{Failure, Outcome, number};
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use thalweg_types::mutex::Mutex;

/// Arrays and texts of one structure. Their addresses do not change.
#[derive(Default)]
pub struct Arena(Vec<Box<dyn Any>>);

impl Arena {
    /// An array; null where it is empty.
    pub fn array<T: 'static>(&mut self, mut values: Vec<T>) -> *mut T {
        if values.is_empty() {
            return std::ptr::null_mut();
        }
        let start = values.as_mut_ptr();
        // The vector's own memory stays; only its owner moves.
        self.0.push(Box::new(values));
        start
    }

    /// A value of any type.
    pub fn value(&mut self, bytes: &[u8]) -> *mut c_void {
        self.array(aligned(bytes)).cast()
    }

    /// A text, ended by a zero byte.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> *mut c_char {
        let text = text.as_ref();
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend(text.iter().filter(|b| **b != 0));
        bytes.push(0);
        self.array(bytes).cast()
    }

    /// A list of texts; null where there are none.
    pub fn texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> *mut *mut c_char {
        let mut all = Vec::new();
        let mut starts = Vec::new();
        for text in texts {
            starts.push(all.len());
            all.extend(text.bytes().filter(|b| *b != 0));
            all.push(0);
        }
        let first: *mut u8 = self.array(all);
        self.array(starts.into_iter().map(|at| first.wrapping_add(at).cast::<c_char>()).collect())
    }

    /// One pointer per value, null where there is none.
    pub fn values(&mut self, values: &[Option<Vec<u8>>]) -> *mut *mut c_void {
        let mut all: Vec<u128> = Vec::new();
        let mut starts = Vec::with_capacity(values.len());
        for value in values {
            starts.push(value.as_ref().map(|_| all.len()));
            all.extend(aligned(value.as_deref().unwrap_or(&[])));
        }
        let first: *mut u128 = self.array(all);
        let at = |at: Option<usize>| at.map_or(std::ptr::null_mut(), |at| first.wrapping_add(at).cast::<c_void>());
        self.array(starts.into_iter().map(at).collect())
    }
}

/// Bytes where any type may lie.
fn aligned(bytes: &[u8]) -> Vec<u128> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 16];
        word[..bytes.len()].copy_from_slice(bytes);
        u128::from_ne_bytes(word)
    };
    // A value of no bytes has an address, too.
    if bytes.is_empty() { vec![0] } else { bytes.chunks(16).map(word).collect() }
}

/// Structures that are handed out, by address: only these are accepted back.
static OUT: Mutex<BTreeMap<usize, &'static str>> = Mutex::new(BTreeMap::new());

/// A structure as C sees it, and all that belongs to it.
#[repr(C)]
pub struct Owned<T, More = ()> {
    // First: the program's pointer is also ours.
    /// The structure that C sees.
    pub shown: T,
    /// The memory it points to.
    pub arena: Arena,
    /// The data it was created from.
    pub more: More,
}

/// A structure that is handed out under the name of its kind, to distinguish it from others.
pub trait Handed {
    /// For messages.
    const KIND: &'static str;
}

impl<T: Handed, More> Owned<T, More> {
    /// Hands it to the program, until [`take_back`].
    pub fn hand_out(self) -> *mut T {
        let pointer = Box::into_raw(Box::new(self));
        OUT.lock().insert(pointer as usize, T::KIND);
        pointer.cast()
    }
}

/// Whether a pointer is one that was handed out and not taken back.
pub fn is_out<T: Handed>(pointer: *const T) -> bool {
    OUT.lock().get(&(pointer as usize)) == Some(&T::KIND)
}

fn not_ours<T: Handed>() -> Failure {
    Failure::new(number::INVALID_ARGUMENT, format!("this is no {} of this library, or it was freed", T::KIND))
}

/// Looks into a structure that was handed out.
///
/// # Errors
/// `err_invalid_argument` where the pointer is none of those handed out.
///
/// # Safety
/// `More` is the type it was handed out with; no other thread uses or frees it during `'c`.
pub unsafe fn borrowed<'c, T: Handed, More>(pointer: *mut T) -> Outcome<&'c mut Owned<T, More>> {
    if !is_out(pointer) {
        return Err(not_ours::<T>());
    }
    // SAFETY: handed out by `Owned::hand_out`, of this kind, and not taken back.
    Ok(unsafe { &mut *pointer.cast::<Owned<T, More>>() })
}

/// Frees a structure with all it points to; null is nothing.
///
/// # Errors
/// As [`borrowed`].
///
/// # Safety
/// As [`borrowed`].
pub unsafe fn take_back<T: Handed, More>(pointer: *mut T) -> Outcome<()> {
    if pointer.is_null() {
        return Ok(());
    }
    let known = is_out(pointer) && OUT.lock().remove(&(pointer as usize)).is_some();
    if !known {
        return Err(not_ours::<T>());
    }
    // SAFETY: handed out by `Owned::hand_out`, of this kind; it was just removed from the list, so no other call frees it again.
    drop(unsafe { Box::from_raw(pointer.cast::<Owned<T, More>>()) });
    Ok(())
}

/// A number of things, as C counts them.
pub fn count(n: usize) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

/// Memory from `malloc`, all zero.
///
/// # Errors
/// `err_no_memory`.
pub fn allocated(bytes: usize) -> Outcome<*mut c_void> {
    // SAFETY: any sizes will do; 0 bytes might give null, so one at least.
    let start = unsafe { libc::calloc(bytes.max(1), 1) };
    if start.is_null() {
        return Err(Failure::new(number::NO_MEMORY, format!("no memory for {bytes} bytes")));
    }
    Ok(start)
}

/// A copy in memory from `malloc`.
///
/// # Errors
/// `err_no_memory`.
pub fn copied<T: Copy>(values: &[T]) -> Outcome<*mut T> {
    let start = allocated(size_of_val(values))?.cast::<T>();
    // SAFETY: as many bytes as were just taken, and malloc's alignment does for every type of C.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), start, values.len()) };
    Ok(start)
}

/// A text, ended by a zero byte, in memory from `malloc`.
///
/// # Errors
/// `err_no_memory`.
pub fn copied_text(text: &[u8]) -> Outcome<*mut c_char> {
    let start = allocated(text.len() + 1)?.cast::<u8>();
    // SAFETY: one byte more than the text was just taken, all zero.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), start, text.len()) };
    Ok(start.cast())
}

/// Frees memory from `malloc`; null is nothing.
///
/// # Safety
/// From `malloc`, not freed yet, without other users.
pub unsafe fn free<T>(start: *mut T) {
    // SAFETY: as the caller promises.
    unsafe { libc::free(start.cast()) }
}
