//! The child: calls a function of a shared library for a [`crate::Caller`].
//!
//! The function has the process's standard streams for itself: what it prints goes where the caller's errors go.

use crate::message::{self, Answer, Call, Form};
use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::io::{BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use thalweg_types::{Error, ErrorKind, Result};

/// A block, as a function gets it: `thalweg_block_values`.
#[repr(C)]
struct BlockValues {
    variable: *const c_char,
    step: i64,
    number: u64,
    kind: c_int,
    dimensions: u32,
    /// Null for local arrays and single values.
    shape: *const u64,
    offset: *const u64,
    count: *const u64,
    values: *const c_void,
    bytes: u64,
}

/// What a function fills: `thalweg_function_result`.
#[repr(C)]
struct FunctionResult {
    kind: c_int,
    dimensions: u32,
    count: *const u64,
    values: *mut c_void,
    bytes: u64,
    /// Room for a message, with its length.
    message: *mut c_char,
    message_size: usize,
}

/// `thalweg_function`.
type Function = unsafe extern "C" fn(*const BlockValues, usize, *mut FunctionResult) -> c_int;

/// Room for a function's message, in bytes.
const MESSAGE: usize = 1024;

/// Calls a function as often as the caller at the other end of the standard streams asks for it.
///
/// - `library`: a path, or a name that the system's linker finds; `function`: its symbol.
///
/// # Errors
/// Those of the streams, and `Corrupt` for what is no call. A function or library that is not there is told to the caller.
pub fn run(library: &OsStr, function: &str) -> Result<()> {
    let (from, to) = streams()?;
    // Where the caller dies, a function that has no end must not stay.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let found = find(library, function);
    let failed = found.as_ref().err().map(|e| e.what().to_string());
    let mut to = std::fs::File::from(to);
    let mut answer = |answer: Answer, values: &[u8]| {
        let told = to.write_all(&message::line(&answer)).and_then(|()| to.write_all(values));
        told.map_err(|e| Error::io("cannot answer", e))
    };
    answer(Answer { failed }, &[])?;
    let Ok((_library, function)) = found else { return Ok(()) };
    let mut from = BufReader::new(std::fs::File::from(from));
    while let Some(call) = message::read::<Call>(&mut from)? {
        let mut blocks = Vec::new();
        for argument in &call.arguments {
            let mut values = room(&argument.form)?;
            let bytes = bytes_of(&mut values, argument.form.bytes);
            from.read_exact(bytes).map_err(|e| Error::io("cannot read values", e))?;
            blocks.push(values);
        }
        let mut result = room(&call.result)?;
        match invoke(function, &call, &blocks, &mut result) {
            Ok(()) => answer(Answer::default(), bytes_of(&mut result, call.result.bytes))?,
            Err(e) => answer(Answer { failed: Some(e.what().to_string()) }, &[])?,
        }
    }
    Ok(())
}

/// The streams to the caller. Afterwards the standard input is empty, and the standard output that of errors.
fn streams() -> Result<(OwnedFd, OwnedFd)> {
    let moved = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
        let from = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let to = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let nothing = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?;
        rustix::stdio::dup2_stdin(&nothing)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        // The caller's end does not block; these do.
        rustix::io::ioctl_fionbio(&from, false)?;
        rustix::io::ioctl_fionbio(&to, false)?;
        Ok((from, to))
    };
    moved().map_err(|e| Error::io("cannot take the standard streams", e.into()))
}

/// Values of any type, aligned for all of them.
fn room(form: &Form) -> Result<Vec<u128>> {
    let none = || Error::new(ErrorKind::NoMemory, format!("the system has no {} bytes of memory", form.bytes));
    let length = usize::try_from(form.bytes.div_ceil(16)).map_err(|_| none())?;
    let mut room = Vec::new();
    room.try_reserve_exact(length).map_err(|_| none())?;
    room.resize(length, 0);
    Ok(room)
}

#[allow(unsafe_code)]
fn bytes_of(room: &mut [u128], bytes: u64) -> &mut [u8] {
    let length = (bytes as usize).min(size_of_val(room));
    // SAFETY: `length` bytes of `room`, which is borrowed as long; any bytes are integers, and integers have no padding.
    unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<u8>(), length) }
}

#[allow(unsafe_code)]
fn find(library: &OsStr, function: &str) -> Result<(libloading::Library, Function)> {
    let refused = |e: libloading::Error| Error::new(ErrorKind::NotFound, e.to_string());
    // A name without a slash is looked for where the linker looks.
    let name = CString::new(library.as_bytes()).map_err(|_| Error::new(ErrorKind::NotFound, "a name with a zero"))?;
    let path = OsStr::from_bytes(name.as_bytes());
    // SAFETY: the library is the user's own, and runs in this process, which exists for nothing else; that its initializers may do anything
    // is what the user has asked for.
    let library = unsafe { libloading::Library::new(path) }.map_err(refused)?;
    // SAFETY: that the symbol has this signature is the user's promise (thalweg.h); where it has not, this process alone dies of it.
    let function = unsafe { library.get::<Function>(function.as_bytes()) }.map(|symbol| *symbol).map_err(refused)?;
    Ok((library, function))
}

#[allow(unsafe_code)]
fn invoke(function: Function, call: &Call, blocks: &[Vec<u128>], result: &mut [u128]) -> Result<()> {
    let names: Vec<CString> =
        call.arguments.iter().map(|argument| CString::new(argument.variable.as_str()).unwrap_or_default()).collect();
    let or_null = |numbers: &[u64]| if numbers.is_empty() { std::ptr::null() } else { numbers.as_ptr() };
    let given: Vec<BlockValues> = call
        .arguments
        .iter()
        .zip(blocks)
        .zip(&names)
        .map(|((argument, values), name)| BlockValues {
            variable: name.as_ptr(),
            step: call.step as i64,
            number: argument.number,
            kind: c_int::from(argument.form.code),
            dimensions: argument.form.count.len() as u32,
            shape: or_null(&argument.shape),
            offset: or_null(&argument.offset),
            count: or_null(&argument.form.count),
            values: values.as_ptr().cast(),
            bytes: argument.form.bytes,
        })
        .collect();
    let mut text = vec![0u8; MESSAGE];
    let mut filled = FunctionResult {
        kind: c_int::from(call.result.code),
        dimensions: call.result.count.len() as u32,
        count: or_null(&call.result.count),
        values: result.as_mut_ptr().cast(),
        bytes: call.result.bytes,
        message: text.as_mut_ptr().cast(),
        message_size: MESSAGE,
    };
    // SAFETY: the pointers are valid for the call, with the lengths beside them; what the function promises is said in thalweg.h.
    let status = unsafe { function(given.as_ptr(), given.len(), &mut filled) };
    if status == 0 {
        return Ok(());
    }
    let length = text.iter().position(|byte| *byte == 0).unwrap_or(MESSAGE);
    let said = String::from_utf8_lossy(&text[..length]);
    let what = if said.is_empty() { format!("it returned {status}") } else { format!("it says: {said}") };
    Err(Error::new(ErrorKind::InvalidArgument, what))
}
