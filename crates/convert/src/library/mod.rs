//! The calls of the HDF5 library, with handles that close themselves and errors as values.
//!
//! Each call gets handles that live, texts that end with a byte 0, and arrays with as many entries as the space has axes; this
//! is checked here, so callers need no `unsafe`. All calls are made by one thread: HDF5 of most systems allows no more.
//!
//! | room | what it owns |
//! |---|---|
//! | [`writing`] | new files |
//! | [`reading`] | files that are there |
//! | [`scales`] | dimension scales, and the axes that have them |
#![allow(unsafe_code)] // The border to a C library.

pub mod reading;
pub mod scales;
pub mod writing;

use hdf5_metno_sys::{h5, h5e, h5i, h5s, h5t};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::hdf5::Kind;

/// Begins to use the library.
fn begin() {
    // SAFETY: no pointers; without a function the library prints no errors of its own. At its end the process has closed all files: what the
    // library does then finds errors of threads that have ended, and prints that it runs in circles.
    unsafe {
        h5::H5dont_atexit();
        h5::H5open();
        h5e::H5Eset_auto2(h5e::H5E_DEFAULT, None, ptr::null_mut());
    }
}

/// Closes all files that the program that has started this one left open to it: locks on them would last as long as this process.
///
/// Call it before this process has opened any file.
pub fn close_inherited() {
    use std::os::fd::{FromRawFd, OwnedFd};
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<c_int> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The folder itself is closed.
    for number in numbers.into_iter().filter(|number| *number > 2 && is_open(*number)) {
        // SAFETY: nothing of this process has it: it is open, and nothing has been opened here.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

fn is_open(number: c_int) -> bool {
    std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok()
}

thread_local! {
    /// The first object that could not be closed. The library writes values of a dataset when it is closed.
    static NOT_CLOSED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Whether all objects that have ended could be closed, since the last time.
fn all_closed() -> Result<()> {
    NOT_CLOSED.take().map_or(Ok(()), Err)
}

/// An object of the library.
#[derive(Debug)]
pub struct Handle(h5i::hid_t);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and lives; it is not used again.
        if unsafe { h5i::H5Idec_ref(self.0) } < 0 {
            let error = failed("close an object of the file");
            NOT_CLOSED.with_borrow_mut(|first| first.get_or_insert(error).kind());
        }
    }
}

/// The error of the library's last call.
fn failed(what: &str) -> Error {
    unsafe extern "C" fn first(_: c_uint, error: *const h5e::H5E_error2_t, into: *mut c_void) -> c_int {
        // SAFETY: the library passes an entry of its list, and `into` is the text of `failed`, which waits for this call.
        let (error, text) = unsafe { (&*error, &mut *into.cast::<String>()) };
        if text.is_empty() && !error.desc.is_null() {
            // SAFETY: a text of the library, which lives as long as the entry.
            *text = unsafe { CStr::from_ptr(error.desc) }.to_string_lossy().into_owned();
        }
        0
    }
    let mut text = String::new();
    // SAFETY: the function fits the type of the callback, and `text` outlives the call. The innermost error comes first.
    unsafe {
        h5e::H5Ewalk2(h5e::H5E_DEFAULT, h5e::H5E_direction_t::H5E_WALK_UPWARD, Some(first), (&raw mut text).cast())
    };
    Error::new(ErrorKind::Io, format!("cannot {what}: HDF5: {text}"))
}

fn handle(id: h5i::hid_t, what: &str) -> Result<Handle> {
    if id < 0 { Err(failed(what)) } else { Ok(Handle(id)) }
}

fn done(status: c_int, what: &str) -> Result<()> {
    if status < 0 { Err(failed(what)) } else { Ok(()) }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(ErrorKind::InvalidArgument, format!("'{text}' contains a byte 0")))
}

fn mistaken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("the plan is wrong: {what}"))
}

impl Handle {
    /// Number of axes of a space.
    fn axes(&self) -> Result<usize> {
        // SAFETY: the handle lives.
        let axes = unsafe { h5s::H5Sget_simple_extent_ndims(self.0) };
        usize::try_from(axes).map_err(|_| failed("get the number of axes"))
    }

    /// Selects blocks of a space; all arrays have an entry for each of its axes.
    fn select(&self, offset: &[u64], stride: &[u64], times: &[u64], block: &[u64]) -> Result<()> {
        let set = h5s::H5S_seloper_t::H5S_SELECT_SET;
        // SAFETY: all arrays have an entry for each axis of the space, as the caller promises.
        let selected = unsafe {
            h5s::H5Sselect_hyperslab(self.0, set, offset.as_ptr(), stride.as_ptr(), times.as_ptr(), block.as_ptr())
        };
        done(selected, "select blocks")
    }
}

/// A space of these extents; `None` for a single value.
fn space(shape: Option<&[u64]>, is_unlimited: bool) -> Result<Handle> {
    let made = match shape {
        // SAFETY: no pointers.
        None | Some([]) => unsafe { h5s::H5Screate(h5s::H5S_class_t::H5S_SCALAR) },
        Some(shape) => {
            let mut most = shape.to_vec();
            if is_unlimited {
                most[0] = h5s::H5S_UNLIMITED;
            }
            // SAFETY: both arrays have as many entries as the first argument says.
            unsafe { h5s::H5Screate_simple(shape.len() as c_int, shape.as_ptr(), most.as_ptr()) }
        }
    };
    handle(made, "create a space")
}

/// The library's type.
fn datatype(kind: Kind) -> Result<Handle> {
    use h5t::*;
    let copied = |id: h5i::hid_t| {
        // SAFETY: a type of the library, which never ends.
        handle(unsafe { H5Tcopy(id) }, "create a type")
    };
    let real = |bytes: u64, is_big: bool| match (bytes, is_big) {
        (4, false) => Ok(*H5T_IEEE_F32LE),
        (4, true) => Ok(*H5T_IEEE_F32BE),
        (8, false) => Ok(*H5T_IEEE_F64LE),
        (8, true) => Ok(*H5T_IEEE_F64BE),
        _ => Err(mistaken("a real type has 4 or 8 bytes")),
    };
    match kind {
        Kind::Integer(bytes, is_signed, is_big) => {
            let made = copied(if is_signed { *H5T_STD_I64LE } else { *H5T_STD_U64LE })?;
            let order = if is_big { H5T_order_t::H5T_ORDER_BE } else { H5T_order_t::H5T_ORDER_LE };
            // SAFETY: the handle lives.
            let (sized, ordered) = unsafe { (H5Tset_size(made.0, bytes as usize), H5Tset_order(made.0, order)) };
            done(sized.min(ordered), "set the size and order of a type")?;
            Ok(made)
        }
        Kind::Real(bytes, is_big) => copied(real(bytes, is_big)?),
        Kind::Complex(bytes, is_big) => {
            let part = real(bytes, is_big)?;
            // SAFETY: no pointers.
            let made = handle(unsafe { H5Tcreate(H5T_class_t::H5T_COMPOUND, 2 * bytes as usize) }, "create a type")?;
            for (name, offset) in [(c"r", 0), (c"i", bytes as usize)] {
                // SAFETY: the handle lives, and the text ends with a byte 0.
                done(unsafe { H5Tinsert(made.0, name.as_ptr(), offset, part) }, "add a member to a type")?;
            }
            Ok(made)
        }
        Kind::Letter => copied(*H5T_C_S1),
        Kind::Word(bytes) => {
            let made = copied(*H5T_C_S1)?;
            // SAFETY: the handle lives.
            let (sized, padded) =
                unsafe { (H5Tset_size(made.0, bytes as usize), H5Tset_strpad(made.0, H5T_str_t::H5T_STR_NULLPAD)) };
            done(sized.min(padded), "set the size of a type of texts")?;
            Ok(made)
        }
        Kind::Text => {
            let made = copied(*H5T_C_S1)?;
            // SAFETY: the handle lives.
            let (sized, coded) =
                unsafe { (H5Tset_size(made.0, H5T_VARIABLE), H5Tset_cset(made.0, H5T_cset_t::H5T_CSET_UTF8)) };
            done(sized.min(coded), "set the size of a type of texts")?;
            Ok(made)
        }
    }
}

/// Elements of an array.
fn number_of(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |all, extent| all.checked_mul(*extent))
}
