//! `adios_read.h`: files, streams, groups, attributes, types.

use super::memory::{Arena, Owned, allocated, copied, copied_text, count, take_back};
use super::structures::{AdiosFile, AvailableReadMethods};
use super::{life, pointer, status, value};
use crate::adios1::error::{Failure, Outcome, number};
use crate::adios1::read::{Advance, ReadFile, mesh, options};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_float, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use thalweg_comm_mpi::ThalwegMpiTable;
use thalweg_types::mutex::Mutex;
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Value};

/// A file that a program has open.
struct OpenAdiosFile {
    /// The structure the program looks at; ours to write and to free.
    shown: *mut AdiosFile,
    state: Mutex<Option<State>>,
}

// SAFETY: `shown` is written under the lock of `state` only, and freed when the file has no user any more.
unsafe impl Send for OpenAdiosFile {}
// SAFETY: likewise.
unsafe impl Sync for OpenAdiosFile {}

impl Drop for OpenAdiosFile {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and freed nowhere else.
        drop(unsafe { Box::from_raw(self.shown) });
    }
}

/// An open file and the memory of its structure.
pub struct State {
    /// The file.
    pub file: ReadFile,
    /// The names of meshes, as they are shown.
    pub meshes: Vec<String>,
    /// The names of links.
    pub links: Vec<String>,
    /// Memory that the last chunk points to.
    pub chunk: Vec<u128>,
    names: Arena,
    groups: Arena,
}

static FILES: Mutex<BTreeMap<usize, Arc<OpenAdiosFile>>> = Mutex::new(BTreeMap::new());

fn no_file() -> Failure {
    Failure::new(number::INVALID_FILE_POINTER, "this is no file opened by adios_read_open or adios_read_open_file")
}

/// Uses an open file; calls of other threads wait.
///
/// # Errors
/// `err_invalid_file_pointer` for a pointer that is not of an open file; errors of `f`.
pub fn with_file<T>(fp: *const AdiosFile, f: impl FnOnce(&mut State) -> Outcome<T>) -> Outcome<T> {
    let open = FILES.lock().get(&(fp as usize)).cloned().ok_or_else(no_file)?;
    let mut state = open.state.lock();
    f(state.as_mut().ok_or_else(no_file)?)
}

/// As [`with_file`]; afterwards the program's structure is updated.
fn changing<T>(fp: *const AdiosFile, f: impl FnOnce(&mut State) -> Outcome<T>) -> Outcome<T> {
    let open = FILES.lock().get(&(fp as usize)).cloned().ok_or_else(no_file)?;
    let mut state = open.state.lock();
    let state = state.as_mut().ok_or_else(no_file)?;
    let outcome = f(state);
    show(state, open.shown);
    outcome
}

/// Writes the facts of a file into the program's structure.
fn show(state: &mut State, shown: *mut AdiosFile) {
    let mut names = Arena::default();
    let file = &state.file;
    state.meshes = mesh::mesh_names(file);
    state.links = mesh::link_names(file);
    let reader = file.reader();
    let number = |n: u64| c_int::try_from(n).unwrap_or(c_int::MAX);
    let now = AdiosFile {
        fh: shown as u64,
        nvars: count(file.variable_names().count()),
        var_namelist: names.texts(file.variable_names()),
        nattrs: count(file.attribute_names().count()),
        attr_namelist: names.texts(file.attribute_names()),
        nmeshes: count(state.meshes.len()),
        mesh_namelist: names.texts(state.meshes.iter().map(String::as_str)),
        nlinks: count(state.links.len()),
        link_namelist: names.texts(state.links.iter().map(String::as_str)),
        current_step: number(file.current_step().unwrap_or(0)),
        last_step: number(file.last_step()),
        is_streaming: c_int::from(file.is_stream()),
        path: names.text(file.path()),
        endianness: c_int::from(reader.status().order == ByteOrder::Big),
        version: 3,
        file_size: reader.status().length,
        internal_data: null_mut(),
    };
    // SAFETY: ours, under the lock of its state. The lists that it showed before are freed after it is overwritten.
    unsafe { shown.write(now) };
    state.names = names;
}

fn opened(file: ReadFile) -> *mut AdiosFile {
    let empty = AdiosFile {
        fh: 0,
        nvars: 0,
        var_namelist: null_mut(),
        nattrs: 0,
        attr_namelist: null_mut(),
        nmeshes: 0,
        mesh_namelist: null_mut(),
        nlinks: 0,
        link_namelist: null_mut(),
        current_step: 0,
        last_step: 0,
        is_streaming: 0,
        path: null_mut(),
        endianness: 0,
        version: 3,
        file_size: 0,
        internal_data: null_mut(),
    };
    let shown = Box::into_raw(Box::new(empty));
    let mut state = State {
        file,
        meshes: Vec::new(),
        links: Vec::new(),
        chunk: Vec::new(),
        names: Arena::default(),
        groups: Arena::default(),
    };
    show(&mut state, shown);
    let open = Arc::new(OpenAdiosFile { shown, state: Mutex::new(Some(state)) });
    FILES.lock().insert(shown as usize, open);
    shown
}

/// The two methods mean the same: files, whoever wrote them.
fn known_method(method: c_int) -> Outcome<()> {
    if matches!(method, 0 | 1) {
        return Ok(());
    }
    let text = format!("read method {method}: expected ADIOS_READ_METHOD_BP or ADIOS_READ_METHOD_BP_AGGREGATE");
    Err(Failure::new(number::INVALID_READ_METHOD, text))
}

/// `adios_read_init_method`, without its communicator.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_core_read_init_method(method: c_int, parameters: *const c_char) -> c_int {
    status(|| {
        known_method(method)?;
        // SAFETY: from C.
        options::set(unsafe { pointer::text_or_empty(parameters, "the parameters") }?);
        Ok(())
    })
}

/// Restores the defaults that `adios_read_init_method` changed.
#[unsafe(no_mangle)]
pub extern "C" fn adios_read_finalize_method(method: c_int) -> c_int {
    status(|| {
        known_method(method)?;
        options::reset();
        Ok(())
    })
}

/// Collective: `adios_read_open_file`. `table` null: no MPI.
///
/// # Safety
/// As [`life::thalweg_core_init`].
/// # Cost
/// Four reductions, one of them in [`life::communicator`], which also duplicates the communicator. Every rank opens the file by
/// itself ([`thalweg_reader::Reader::open`]) and reads the attributes that name meshes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_core_read_open_file(
    fname: *const c_char,
    method: c_int,
    table: *const ThalwegMpiTable,
    handle: *mut c_void,
) -> *mut AdiosFile {
    value(null_mut(), || {
        // SAFETY: from C.
        let comm = unsafe { life::communicator(table, handle) }?;
        // SAFETY: from C.
        let path = known_method(method).and_then(|()| Ok(unsafe { pointer::text(fname, "the file's name") }?));
        ReadFile::open(path, comm).map(opened)
    })
}

/// Collective: `adios_read_open`. `table` null: no MPI.
///
/// # Safety
/// As [`life::thalweg_core_init`].
/// # Cost
/// As [`thalweg_core_read_open_file`], and a reduction for each turn of the wait. Only rank 0 polls the file, every `poll_interval`;
/// a turn is a quarter of the communicator's timeout, at most 10 s. Every rank then looks up all variables of the file, to show
/// those of the step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_core_read_open(
    fname: *const c_char,
    method: c_int,
    lock_mode: c_int,
    timeout_sec: c_float,
    table: *const ThalwegMpiTable,
    handle: *mut c_void,
) -> *mut AdiosFile {
    value(null_mut(), || {
        // SAFETY: from C.
        let comm = unsafe { life::communicator(table, handle) }?;
        let sense = known_method(method).and_then(|()| match lock_mode {
            0..=2 => Ok(()),
            other => Err(Failure::argument(format!("{other} is no way to lock steps"))),
        });
        // SAFETY: from C.
        let path = sense.and_then(|()| Ok(unsafe { pointer::text(fname, "the stream's name") }?));
        ReadFile::stream(path, comm, timeout_sec).map(opened)
    })
}

/// Collective: frees a file.
#[unsafe(no_mangle)]
pub extern "C" fn adios_read_close(fp: *mut AdiosFile) -> c_int {
    status(|| {
        let open = FILES.lock().remove(&(fp as usize)).ok_or_else(no_file)?;
        // A call of another thread that is under way ends first; the next one finds no file.
        open.state.lock().take();
        Ok(())
    })
}

/// Collective: advances a stream.
///
/// # Cost
/// Of a file: no communication. Of a stream: a reduction for each turn of rank 0's wait (see [`thalweg_core_read_open`]), and two
/// more if there is a step. Every rank reads the records of new steps by itself and looks up all variables of the file.
#[unsafe(no_mangle)]
pub extern "C" fn adios_advance_step(fp: *mut AdiosFile, last: c_int, timeout_sec: c_float) -> c_int {
    status(|| {
        let failure = |number, text: &str| Err(Failure::new(number, text));
        match changing(fp, |state| state.file.advance(last != 0, timeout_sec))? {
            Advance::Step => Ok(()),
            Advance::NotYet => failure(number::STEP_NOTREADY, "no new step yet"),
            Advance::End => failure(number::END_OF_STREAM, "there are no more steps"),
            Advance::WriterDied => {
                failure(number::END_OF_STREAM, "its writer ended without closing it: no further step will come")
            }
        }
    })
}

/// Steps of a file stay: nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn adios_release_step(fp: *mut AdiosFile) {
    status(|| with_file(fp, |_| Ok(())));
}

fn sized(bytes: usize) -> Outcome<c_int> {
    c_int::try_from(bytes).map_err(|_| {
        Failure::new(number::OPERATION_NOT_SUPPORTED, format!("{bytes} bytes are more than an int counts"))
    })
}

/// A value of an attribute, in memory that the program frees.
fn attribute_value(element: ElementType, value: &AttributeValue) -> Outcome<(c_int, *mut c_void)> {
    // Pointers, followed by the texts: one piece, freed at once.
    let texts = |values: &[Value]| -> Outcome<(c_int, *mut c_void)> {
        let text_of = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(Failure::new(number::CORRUPTED_VARIABLE, "a list of texts with something else in it")),
        };
        let texts: Vec<Vec<u8>> = values.iter().map(text_of).collect::<Outcome<_>>()?;
        let size = sized(texts.len() * size_of::<*mut c_char>())?;
        let mut at = size as usize;
        let start = allocated(texts.iter().fold(at, |bytes, text| bytes + text.len() + 1))?;
        for (i, text) in texts.iter().enumerate() {
            // SAFETY: the memory was just allocated, zeroed, for as many pointers, and after them each text with a zero byte.
            unsafe {
                let place = start.cast::<u8>().add(at);
                std::ptr::copy_nonoverlapping(text.as_ptr(), place, text.len());
                start.cast::<*mut c_char>().add(i).write(place.cast());
            }
            at += text.len() + 1;
        }
        Ok((size, start))
    };
    match value {
        AttributeValue::One(Value::String(text)) => Ok((sized(text.len() + 1)?, copied_text(text)?.cast())),
        AttributeValue::Many(ElementType::String, values) => texts(values),
        AttributeValue::One(value) => {
            let mut bytes = Vec::new();
            value.append_to(&mut bytes);
            Ok((sized(bytes.len())?, copied(&bytes)?.cast()))
        }
        AttributeValue::Many(_, values) => {
            let mut bytes = Vec::new();
            values.iter().for_each(|v| v.append_to(&mut bytes));
            Ok((sized(bytes.len())?, copied(&bytes)?.cast()))
        }
        AttributeValue::Variable(_) => {
            Err(Failure::new(number::CORRUPTED_VARIABLE, format!("no value of type {element}")))
        }
    }
}

/// The number of a type in `adios_types.h`.
pub fn type_number(element: ElementType) -> c_int {
    match element {
        // adios2's char is a byte to programs that know no such type.
        ElementType::Char => c_int::from(ElementType::I8.code()),
        element => c_int::from(element.code()),
    }
}

/// # Safety
/// See [`super`].
unsafe fn get_attribute(
    fp: *mut AdiosFile,
    place: impl FnOnce(&State) -> Outcome<c_int>,
    element: *mut c_int,
    size: *mut c_int,
    data: *mut *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let data = unsafe { pointer::out(data, "the place for the value's address") }?;
        *data = null_mut();
        let attribute = with_file(fp, |state| state.file.attribute(place(state)?))?;
        let (bytes, start) = attribute_value(attribute.element, &attribute.value)?;
        *data = start;
        // SAFETY: from C; a program may not care.
        unsafe {
            if let Some(element) = element.as_mut() {
                *element = type_number(attribute.element);
            }
            if let Some(size) = size.as_mut() {
                *size = bytes;
            }
        }
        Ok(())
    })
}

/// The value of an attribute, by name.
///
/// # Safety
/// See [`super`].
/// # Cost
/// The name is compared with those of all attributes. The value comes from the attribute's index entry, which is cached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_get_attr(
    fp: *mut AdiosFile,
    attrname: *const c_char,
    element: *mut c_int,
    size: *mut c_int,
    data: *mut *mut c_void,
) -> c_int {
    let place = |state: &State| {
        // SAFETY: from C.
        let name = unsafe { pointer::text(attrname, "the attribute's name") };
        let name = name.map_err(|f| Failure::new(number::INVALID_ATTRNAME, f.text))?;
        state.file.find_attribute(name).map(count)
    };
    // SAFETY: from C.
    unsafe { get_attribute(fp, place, element, size, data) }
}

/// The value of an attribute, by its place.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_get_attr_byid(
    fp: *mut AdiosFile,
    attrid: c_int,
    element: *mut c_int,
    size: *mut c_int,
    data: *mut *mut c_void,
) -> c_int {
    // SAFETY: from C.
    unsafe { get_attribute(fp, |_| Ok(attrid), element, size, data) }
}

/// The name of a type.
#[unsafe(no_mangle)]
pub extern "C" fn adios_type_to_string(element: c_int) -> *const c_char {
    let name = match element {
        0 => c"byte",
        1 => c"short",
        2 => c"integer",
        4 => c"long long",
        50 => c"unsigned byte",
        51 => c"unsigned short",
        52 => c"unsigned integer",
        54 => c"unsigned long long",
        5 => c"real",
        6 => c"double",
        7 => c"long double",
        9 => c"string",
        10 => c"complex",
        11 => c"double complex",
        12 => c"char*[]",
        _ => c"(unknown)",
    };
    name.as_ptr()
}

/// Bytes of a value.
///
/// # Safety
/// `data` of a text: null, or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_type_size(element: c_int, data: *const c_void) -> c_int {
    value(-1, || match u8::try_from(element).ok().and_then(ElementType::from_code) {
        Some(ElementType::String) => {
            // SAFETY: as the caller promises.
            let text = unsafe { pointer::optional_text(data.cast()) };
            sized(text.map_or(0, |text| text.to_bytes_with_nul().len()))
        }
        Some(ElementType::StringArray) => Ok(size_of::<*const c_char>() as c_int),
        Some(ElementType::Char) | None => Err(Failure::argument(format!("{element} is no type"))),
        Some(element) => Ok(element.size() as c_int),
    })
}

/// The names of groups; they stay the file's.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_get_grouplist(fp: *mut AdiosFile, group_namelist: *mut *mut *mut c_char) -> c_int {
    value(-1, || {
        // SAFETY: from C.
        let place = unsafe { pointer::out(group_namelist, "the place for the list of groups") }?;
        with_file(fp, |state| {
            let mut names = Arena::default();
            *place = names.texts(state.file.groups().iter().map(String::as_str));
            state.groups = names;
            Ok(count(state.file.groups().len()))
        })
    })
}

/// Shows one group, or all for -1.
///
/// # Cost
/// O(variables + attributes): the lists of names are made anew; of a stream, every variable is looked up.
#[unsafe(no_mangle)]
pub extern "C" fn adios_group_view(fp: *mut AdiosFile, groupid: c_int) -> c_int {
    status(|| {
        let group = match groupid {
            -1 => None,
            id => {
                let id = usize::try_from(id);
                Some(id.map_err(|_| Failure::new(number::INVALID_GROUP, format!("{groupid} is no group")))?)
            }
        };
        changing(fp, |state| state.file.view_group(group))
    })
}

/// Takes the program's word for the order of dimensions.
///
/// # Cost
/// None, unless another order was set before: then the file is opened again, on this rank alone.
#[unsafe(no_mangle)]
pub extern "C" fn adios_reset_dimension_order(fp: *mut AdiosFile, is_fortran: c_int) {
    status(|| with_file(fp, |state| state.file.assume_fortran(is_fortran != 0)));
}

/// The order of dimensions in the file: 1 fastest first.
#[unsafe(no_mangle)]
pub extern "C" fn adios_read_get_dimension_order(fp: *mut AdiosFile) -> c_int {
    value(number::INVALID_FILE_POINTER, || with_file(fp, |state| state.file.is_fortran().map(c_int::from)))
}

/// Prints the content of a file.
#[unsafe(no_mangle)]
pub extern "C" fn adios_print_fileinfo(fp: *mut AdiosFile) {
    status(|| {
        with_file(fp, |state| {
            let file = &state.file;
            println!("{}", file.path());
            println!("  groups:     {}", file.groups().len());
            println!("  variables:  {}", file.variable_names().count());
            println!("  attributes: {}", file.attribute_names().count());
            println!("  step:       {} of {}", file.current_step().unwrap_or(0), file.last_step());
            for (i, name) in file.variable_names().enumerate() {
                let info = file.info(count(i))?;
                let shape: Vec<String> = info.shape.iter().map(u64::to_string).collect();
                println!("  {name}: {} [{}], {} steps", info.element, shape.join(", "), info.steps.len());
            }
            Ok(())
        })
    });
}

/// The names of read methods.
#[unsafe(no_mangle)]
pub extern "C" fn adios_available_read_methods() -> *mut AvailableReadMethods {
    value(null_mut(), || {
        let mut arena = Arena::default();
        let name = arena.texts(["BP", "BP_AGGREGATE"].into_iter());
        let method_id = arena.array(vec![0, 1]);
        let shown = AvailableReadMethods { nmethods: 2, name, method_id };
        Ok(Owned { shown, arena, more: () }.hand_out())
    })
}

/// Frees the result of [`adios_available_read_methods`]; null has no effect.
///
/// # Safety
/// No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_available_read_methods_free(methods: *mut AvailableReadMethods) {
    // SAFETY: as the caller promises.
    status(|| unsafe { take_back::<_, ()>(methods) });
}

/// A chunk's memory: so many bytes, all zero.
///
/// # Errors
/// `err_no_memory`.
pub fn chunk_memory(state: &mut State, bytes: u64) -> Outcome<*mut c_void> {
    let too_much = || Failure::new(number::NO_MEMORY, format!("no memory for a piece of {bytes} bytes"));
    let words = usize::try_from(bytes.div_ceil(16)).map_err(|_| too_much())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(words.max(1)).map_err(|_| too_much())?;
    memory.resize(words.max(1), 0u128);
    state.chunk = memory;
    Ok(state.chunk.as_mut_ptr().cast())
}

/// For tests of the border: whether a text is one of ours.
#[cfg(test)]
fn text_of(text: *const c_char) -> String {
    // SAFETY: from this file.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_names_and_sizes() {
        assert_eq!(text_of(adios_type_to_string(54)), "unsigned long long");
        // SAFETY: no text.
        unsafe {
            assert_eq!(adios_type_size(11, null_mut()), 16);
            assert_eq!(adios_type_size(9, c"abc".as_ptr().cast()), 4);
            assert_eq!(adios_type_size(33, null_mut()), -1);
        }
    }

    #[test]
    fn a_pointer_that_is_no_file_is_refused() {
        let mut nothing = 0u64;
        let fp: *mut AdiosFile = std::ptr::from_mut(&mut nothing).cast();
        assert_eq!(adios_read_close(fp), number::INVALID_FILE_POINTER);
        assert_eq!(adios_read_close(null_mut()), number::INVALID_FILE_POINTER);
        assert_eq!(adios_advance_step(fp, 0, 0.0), number::INVALID_FILE_POINTER);
    }
}
