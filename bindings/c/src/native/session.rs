//! Sessions, and groups declared from code.

use super::{communicator, element, handle, numbers, place, pointer, status, take_back, text, text_or_empty, wrong};
use crate::leaving;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Weak};
use thalweg_comm_mpi::ThalwegMpiTable;
use thalweg_io::session::SharedGroup;
use thalweg_io::{Output, Session, registry};
use thalweg_schema::{GroupBuilder, Statistics};
use thalweg_types::mutex::Mutex;
use thalweg_types::{ByteOrder, ElementType, Result, Value};

/// `thalweg_session`.
pub(super) struct NativeSession {
    pub(super) session: Arc<Session>,
    /// Boxes, as programs have their addresses.
    #[allow(clippy::vec_box)]
    groups: Mutex<Vec<Box<NativeGroup>>>,
    /// Outputs that are open.
    pub(super) outputs: Arc<OpenOutputs>,
}

/// The outputs of a session that are open, for the end of a program that forgets them.
#[derive(Default)]
pub(super) struct OpenOutputs(Mutex<Vec<Weak<Mutex<Option<Output<'static>>>>>>);

impl OpenOutputs {
    /// Notes one.
    pub(super) fn add(&self, output: &Arc<Mutex<Option<Output<'static>>>>) {
        let mut all = self.0.lock();
        all.retain(|o| o.strong_count() > 0);
        all.push(Arc::downgrade(output));
    }

    /// Drops all of them: nothing of them is written.
    fn drop_all(&self) {
        for output in self.0.lock().drain(..).filter_map(|o| o.upgrade()) {
            // One that another thread is writing to stays as it is.
            if let Some(mut output) = output.try_lock() {
                drop(output.take());
            }
        }
    }
}

/// `thalweg_group`.
pub(super) struct NativeGroup {
    group: SharedGroup,
}

/// A group changed, errors naming it.
unsafe fn change<T>(group: *const NativeGroup, f: impl FnOnce(&mut GroupBuilder) -> Result<T>) -> Result<T> {
    // SAFETY: from C.
    let group = unsafe { handle(group, "group") }?;
    let builder = &mut group.group.lock().builder;
    let name = builder.group().name.clone();
    f(builder).map_err(|e| e.in_group(name))
}

/// Splits a full name into path and name, which join to it again: the path of `/T` is `/`. A path that ends in a slash joins
/// without a further slash, so that the path of `a//T` has both.
fn split(full: &str) -> (&str, &str) {
    match full.rfind('/') {
        None => ("", full),
        Some(at) if full[..at].is_empty() || full[..at].ends_with('/') => full.split_at(at + 1),
        Some(at) => (&full[..at], &full[at + 1..]),
    }
}

/// # Safety
/// See [`crate::pointer`]; `table` and `comm` as in `MpiCommunicator::from_raw`.
/// # Cost
/// Two reductions and the duplicate of [`thalweg_comm_mpi::MpiCommunicator::from_raw`]. Every rank reads and parses the document.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_session_open(
    session: *mut *mut NativeSession,
    config: *const c_char,
    xml: *const c_char,
    name: *const c_char,
    table: *const ThalwegMpiTable,
    comm: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (comm, session, config, xml, name) = unsafe {
            (
                communicator(table, comm)?,
                place(session, "the place for the session")?,
                pointer::optional_text(config),
                pointer::optional_text(xml),
                pointer::optional_text(name),
            )
        };
        let lossy = |text: &CStr| text.to_string_lossy().into_owned();
        // Text that is no UTF-8 is refused as a document, or not found as a file, on all ranks.
        let opened = match (xml, config) {
            (Some(xml), _) => Session::from_xml(&lossy(xml), &name.map_or("configuration".into(), lossy), comm),
            (None, Some(config)) => Session::from_xml_file(&lossy(config), comm),
            (None, None) => Session::without_xml(comm),
        }?;
        let (opened, outputs) = (Arc::new(opened), Arc::new(OpenOutputs::default()));
        let open = outputs.clone();
        leaving::watch(&opened, move || open.drop_all());
        *session = Box::into_raw(Box::new(NativeSession { session: opened, groups: Mutex::default(), outputs }));
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_session_open(session: *mut *mut NativeSession, config: *const c_char) -> c_int {
    let none = std::ptr::null();
    // SAFETY: from C.
    unsafe { thalweg_core_session_open(session, config, none, none, std::ptr::null(), std::ptr::null_mut()) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_session_open_text(
    session: *mut *mut NativeSession,
    xml: *const c_char,
    name: *const c_char,
) -> c_int {
    let xml = if xml.is_null() { c"".as_ptr() } else { xml };
    // SAFETY: from C.
    unsafe { thalweg_core_session_open(session, std::ptr::null(), xml, name, std::ptr::null(), std::ptr::null_mut()) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_session_close(session: *mut NativeSession) -> c_int {
    // SAFETY: from C.
    unsafe { end(session, Session::finalize) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_session_finish(session: *mut NativeSession) -> c_int {
    // SAFETY: from C.
    unsafe { end(session, Session::finish) }
}

/// Ends a session one way or the other.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn end(session: *mut NativeSession, how: impl FnOnce(&Session) -> Result<()>) -> c_int {
    status(|| {
        // SAFETY: from C.
        let NativeSession { session, groups, .. } = *unsafe { take_back(session, "session") }?;
        drop(groups);
        let open = Arc::strong_count(&session) - 1;
        how(&session)?;
        match open {
            0 => Ok(()),
            n => Err(wrong(format!("{n} outputs were not closed; their data is not written"))),
        }
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_session_drop(session: *mut NativeSession) {
    if !session.is_null() {
        status(|| {
            // SAFETY: from C.
            let NativeSession { session, .. } = *unsafe { take_back(session, "session") }?;
            session.leave()
        });
    }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_session_set_buffer(session: *const NativeSession, bytes: u64) -> c_int {
    status(|| {
        // SAFETY: from C.
        let session = unsafe { handle(session, "session") }?;
        session.session.set_buffer_limit((bytes != u64::MAX).then_some(bytes));
        Ok(())
    })
}

/// Reports an event of the program.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn say(session: *const NativeSession, what: fn(&Session)) -> c_int {
    status(|| {
        // SAFETY: from C.
        what(&unsafe { handle(session, "session") }?.session);
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_session_begin_calculation(session: *const NativeSession) -> c_int {
    // SAFETY: from C.
    unsafe { say(session, Session::begin_calculation) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_session_end_calculation(session: *const NativeSession) -> c_int {
    // SAFETY: from C.
    unsafe { say(session, Session::end_calculation) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_session_end_iteration(session: *const NativeSession) -> c_int {
    // SAFETY: from C.
    unsafe { say(session, Session::end_iteration) }
}

/// Gives a group to the program.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn hand_out(
    group: *mut *mut NativeGroup,
    session: *const NativeSession,
    name: *const c_char,
    get: impl FnOnce(&Session, &str) -> Result<SharedGroup>,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (group, session, name) = unsafe {
            (place(group, "the place for the group")?, handle(session, "session")?, text(name, "the group's name")?)
        };
        let mut made = Box::new(NativeGroup { group: get(&session.session, name).map_err(|e| e.in_group(name))? });
        *group = &raw mut *made;
        session.groups.lock().push(made);
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_group_declare(
    group: *mut *mut NativeGroup,
    session: *const NativeSession,
    name: *const c_char,
) -> c_int {
    // SAFETY: from C.
    unsafe { hand_out(group, session, name, |session, name| session.declare(GroupBuilder::new(name)?)) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_group_find(
    group: *mut *mut NativeGroup,
    session: *const NativeSession,
    name: *const c_char,
) -> c_int {
    // SAFETY: from C.
    unsafe { hand_out(group, session, name, Session::group) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_group_method(
    group: *const NativeGroup,
    method: *const c_char,
    parameters: *const c_char,
    base_path: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (method, parameters, base_path) = unsafe {
            (
                text(method, "the method's name")?,
                text_or_empty(parameters, "the method's parameters")?,
                text_or_empty(base_path, "the base path")?,
            )
        };
        // SAFETY: from C.
        unsafe {
            change(group, |builder| {
                // Checked on a copy, so that a refused choice is not chosen.
                let mut tried = GroupBuilder::new(&builder.group().name)?;
                tried.select_method(method, parameters, base_path)?;
                tried.methods().iter().try_for_each(|choice| registry::make(choice).map(|_| ()))?;
                builder.select_method(method, parameters, base_path)
            })
        }
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_group_statistics(group: *const NativeGroup, statistics: c_int) -> c_int {
    status(|| {
        let statistics = match statistics {
            0 => Statistics::Off,
            1 => Statistics::MinMax,
            2 => Statistics::Full,
            3 => Statistics::Default,
            other => return Err(wrong(format!("{other} is no choice of statistics"))),
        };
        // SAFETY: from C.
        unsafe {
            change(group, |builder| {
                builder.set_statistics(statistics);
                Ok(())
            })
        }
    })
}

/// Adds a variable.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn define(
    group: *const NativeGroup,
    name: *const c_char,
    number: c_int,
    [local, global, offset]: [&str; 3],
    needs_box: bool,
) -> Result<()> {
    // SAFETY: from C.
    let full = unsafe { text(name, "the variable's name") }?;
    let (path, name) = split(full);
    let define = |b: &mut GroupBuilder| {
        let at = b.define_variable(name, path, element(number)?, local, global, offset)?;
        if let Some(variable) = b.variable_mut(at) {
            variable.needs_box = needs_box;
        }
        Ok(())
    };
    // SAFETY: from C.
    unsafe { change(group, define) }.map_err(|e| e.in_variable(full))
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_define_scalar(group: *const NativeGroup, name: *const c_char, number: c_int) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { define(group, name, number, ["", "", ""], false) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_define_array(
    group: *const NativeGroup,
    name: *const c_char,
    number: c_int,
    dimensions: *const c_char,
    global: *const c_char,
    offset: *const c_char,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let local = text(dimensions, "dimensions")?;
        if local.trim().is_empty() {
            return Err(wrong("an array without dimensions"));
        }
        let lists = [local, text_or_empty(global, "global dimensions")?, text_or_empty(offset, "offsets")?];
        define(group, name, number, lists, false)
    })
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_define_global(
    group: *const NativeGroup,
    name: *const c_char,
    number: c_int,
    ndim: usize,
    shape: *const u64,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let needs_box = shape.is_null();
        let shape = if needs_box { zeros(ndim)? } else { numbers(shape, ndim, "the shape")? };
        let (shape, offset) = (list(&shape), list(&zeros(ndim)?));
        define(group, name, number, [&shape, &shape, &offset], needs_box)
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_define_local(
    group: *const NativeGroup,
    name: *const c_char,
    number: c_int,
    ndim: usize,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { define(group, name, number, [&list(&zeros(ndim)?), "", ""], true) })
}

/// So many zeros, for a number of dimensions that arrays have.
fn zeros(ndim: usize) -> Result<Vec<u64>> {
    if (1..=255).contains(&ndim) { Ok(vec![0; ndim]) } else { Err(wrong(format!("an array of {ndim} dimensions"))) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_set_transform(
    group: *const NativeGroup,
    variable: *const c_char,
    transform: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (full, transform) =
            unsafe { (text(variable, "the variable's name")?, text_or_empty(transform, "the transform")?) };
        let choose = |b: &mut GroupBuilder| {
            let found = b.group().variables.iter().position(|v| v.full_name() == full);
            let at = found.ok_or_else(|| {
                thalweg_types::Error::new(thalweg_types::ErrorKind::NotFound, "the group has no such variable")
            })?;
            b.set_transform(at, transform)
        };
        // SAFETY: from C.
        unsafe { change(group, choose) }.map_err(|e| e.in_variable(full))
    })
}

/// The values of an attribute.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn values(element: ElementType, count: usize, start: *const c_void) -> Result<Vec<Value>> {
    if start.is_null() {
        return Err(wrong("a null pointer for its values"));
    }
    if count == 0 || (element == ElementType::String && count != 1) {
        return Err(wrong(format!("{count} values of an attribute of type {element}")));
    }
    let of_text = |text: *const c_char| {
        // SAFETY: from C.
        let text = unsafe { pointer::optional_text(text) }.ok_or_else(|| wrong("a null pointer for a text"))?;
        Ok(Value::String(text.to_bytes().to_vec()))
    };
    let size = if element == ElementType::StringArray { size_of::<*const c_char>() } else { element.size() as usize };
    if element == ElementType::String {
        return Ok(vec![of_text(start.cast())?]);
    }
    let length = count.checked_mul(size).ok_or_else(|| wrong(format!("{count} values")))?;
    // SAFETY: from C: as many.
    let bytes = unsafe { pointer::bytes(start, length as u64, "values") }?;
    bytes
        .chunks_exact(size)
        .map(|one| match element {
            // SAFETY: the bytes of one pointer.
            ElementType::StringArray => of_text(unsafe { one.as_ptr().cast::<*const c_char>().read_unaligned() }),
            _ => Value::from_bytes(element, one, ByteOrder::NATIVE).ok_or_else(|| wrong("no value")),
        })
        .collect()
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_define_attribute(
    group: *const NativeGroup,
    name: *const c_char,
    number: c_int,
    count: usize,
    start: *const c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let full = unsafe { text(name, "the attribute's name") }?;
        let (path, name) = split(full);
        // SAFETY: from C.
        unsafe {
            change(group, |builder| {
                let element = element(number)?;
                builder.define_attribute_values(name, path, element, values(element, count, start)?)
            })
        }
        .map_err(|e| e.in_variable(full))
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_define_attribute_of(
    group: *const NativeGroup,
    name: *const c_char,
    variable: *const c_char,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (full, variable) = unsafe { (text(name, "the attribute's name")?, text(variable, "the variable's name")?) };
        let (path, name) = split(full);
        // SAFETY: from C.
        unsafe { change(group, |builder| builder.define_attribute_from(name, path, variable)) }
            .map_err(|e| e.in_variable(full))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_are_split_at_their_last_slash() {
        assert_eq!(split("T"), ("", "T"));
        assert_eq!(split("/T"), ("/", "T"));
        assert_eq!(split("/T/units"), ("/T", "units"));
        assert_eq!(split("fields/T"), ("fields", "T"));
        for full in ["T", "/T", "a/T", "/a/T", "a//T", "//T", "a///T", "a/b//c/T", "a/", "a//"] {
            let (path, name) = split(full);
            assert_eq!(thalweg_schema::full_name(path, name), full);
        }
    }
}
