//! Which methods there are.

use super::value;
use crate::adios1::error::Outcome;
use std::ffi::{CString, c_char, c_int};
use thalweg_io::registry;

/// `ADIOS_AVAILABLE_WRITE_METHODS`.
#[repr(C)]
pub struct AvailableWriteMethods {
    nmethods: c_int,
    name: *mut *mut c_char,
}

/// The program's structure, with the memory it points to.
#[repr(C)]
struct Owned {
    // First: the program's pointer is also ours.
    shown: AvailableWriteMethods,
    pointers: Vec<*mut c_char>,
    _names: Vec<CString>,
}

/// The names of all methods; for [`adios_available_write_methods_free`]. Null where there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn adios_available_write_methods() -> *mut AvailableWriteMethods {
    value(std::ptr::null_mut(), || -> Outcome<_> {
        let names: Vec<CString> = registry::names().filter_map(|n| CString::new(n).ok()).collect();
        // The interface's type is `char *`: a program that writes there changes the memory of its own call only.
        let pointers: Vec<*mut c_char> = names.iter().map(|n| n.as_ptr().cast_mut()).collect();
        let shown = AvailableWriteMethods { nmethods: pointers.len() as c_int, name: std::ptr::null_mut() };
        let mut owned = Box::new(Owned { shown, pointers, _names: names });
        owned.shown.name = owned.pointers.as_mut_ptr();
        Ok(Box::into_raw(owned).cast())
    })
}

/// Frees the result of [`adios_available_write_methods`]; null has no effect.
///
/// # Safety
/// Null, or from that function and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_available_write_methods_free(methods: *mut AvailableWriteMethods) {
    if !methods.is_null() {
        // SAFETY: as the caller promises; `shown` is the first field of an `Owned`.
        drop(unsafe { Box::from_raw(methods.cast::<Owned>()) });
    }
}
