//! Groups declared from code, without XML.

use super::{pointer, status, value};
use crate::adios1::error::{Doing, Failure, Outcome, number};
use crate::adios1::process;
use std::ffi::{CStr, c_char, c_int, c_void};
use thalweg_io::{registry, resolve};
use thalweg_schema::{GroupBuilder, Statistics};
use thalweg_types::{ByteOrder, ElementType, Value};

/// Declares a group; `*id` is its handle, 0 where that fails.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_declare_group(
    id: *mut i64,
    name: *const c_char,
    time_index: *const c_char,
    stats: c_int,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let id = unsafe { pointer::out(id, "the place for the group's handle") }?;
        *id = 0;
        // SAFETY: from C.
        let (name, time_index) = unsafe {
            (pointer::text(name, "the group's name")?, pointer::text_or_empty(time_index, "the time index")?)
        };
        let statistics = match stats {
            -1 | 2 => Statistics::Off, // 2: adios_flag_no, as older programs say
            0 => Statistics::Default,  // as adios_stat_minmax
            1 => Statistics::Full,
            other => return Err(Failure::argument(format!("{other} is no choice of statistics"))),
        };
        *id = process::declare(name, time_index, statistics)?;
        Ok(())
    })
}

/// Forgets a group.
#[unsafe(no_mangle)]
pub extern "C" fn adios_free_group(id: i64) -> c_int {
    status(|| process::forget(id))
}

/// Has no effect: each step is written when it is closed; results do not depend on the buffer size.
#[unsafe(no_mangle)]
pub extern "C" fn adios_set_time_aggregation(group: i64, _buffer_size: u64, _sync_group: i64) -> c_int {
    status(|| process::group(group).map(drop))
}

/// Chooses a method for a group, one more each time.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_select_method(
    group: i64,
    method: *const c_char,
    parameters: *const c_char,
    base_path: *const c_char,
) -> c_int {
    status(|| {
        let group = process::group(group)?;
        // SAFETY: from C.
        let (method, parameters, base_path) = unsafe {
            (
                pointer::text(method, "the method's name")?,
                pointer::text_or_empty(parameters, "the method's parameters")?,
                pointer::text_or_empty(base_path, "the base path")?,
            )
        };
        let builder = &mut group.lock().builder;
        let choose = |builder: &mut GroupBuilder| builder.select_method(method, parameters, base_path);
        // Tried first, so that a choice that cannot work is not kept.
        let tried = || {
            let mut alone = GroupBuilder::new(&builder.group().name)?;
            choose(&mut alone)?;
            alone.methods().iter().map(registry::check).collect::<thalweg_types::Result<Vec<_>>>()
        };
        let left_out = tried().map_err(|e| Doing::Method.failed(e))?;
        choose(builder).map_err(|e| Doing::Method.failed(e))?;
        let session = process::session()?;
        left_out.iter().flatten().for_each(|text| session.warn(text));
        Ok(())
    })
}

/// The type that a program names by its number.
fn element(number: c_int) -> Outcome<ElementType> {
    let known = u8::try_from(number).ok().and_then(ElementType::from_code).filter(|t| *t != ElementType::Char);
    known.ok_or_else(|| Failure::argument(format!("{number} is no type")))
}

/// Defines a variable and returns its handle; 0 where that fails.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_var(
    group_id: i64,
    name: *const c_char,
    path: *const c_char,
    element_type: c_int,
    dimensions: *const c_char,
    global_dimensions: *const c_char,
    local_offsets: *const c_char,
) -> i64 {
    value(0, || {
        let group = process::group(group_id)?;
        let element = element(element_type)?;
        // SAFETY: from C.
        let (name, path, local, global, offset) = unsafe {
            (
                pointer::text(name, "the variable's name")?,
                pointer::text_or_empty(path, "the path")?,
                pointer::text_or_empty(dimensions, "dimensions")?,
                pointer::text_or_empty(global_dimensions, "global dimensions")?,
                pointer::text_or_empty(local_offsets, "local offsets")?,
            )
        };
        let builder = &mut group.lock().builder;
        let position = builder.define_variable(name, path, element, local, global, offset).map_err(|e| {
            let in_group = builder.group().name.clone();
            Doing::Variable.failed(e.in_variable(name).in_group(in_group))
        })?;
        process::variable_handle(group_id, position)
    })
}

/// Forgets the variables of a group.
#[unsafe(no_mangle)]
pub extern "C" fn adios_delete_vardefs(group: i64) -> c_int {
    status(|| process::delete_variables(group))
}

/// Bytes of a write of this variable now, according to the newest open output of its group, or to numbers alone if none is open.
/// 0 if the size is unknown.
#[unsafe(no_mangle)]
pub extern "C" fn adios_expected_var_size(variable: i64) -> u64 {
    value(0, || {
        let (group, position) = process::variable(variable)?;
        let open = process::ask_outputs_of(&group, |file| {
            let output = file.output().ok()?.output();
            Some(output.resolve(position, None, None).and_then(|block| block.bytes()))
        });
        let bytes = match open {
            Some(bytes) => bytes,
            None => {
                let group = group.lock();
                let group = group.builder.group();
                let variable =
                    group.variables.get(position).ok_or_else(|| crate::adios1::handle::no_variable(variable))?;
                resolve::expected_bytes(variable, group, &resolve::Scalars::new())
            }
        };
        bytes
            .map_err(|e| Doing::Variable.failed(e))?
            .ok_or_else(|| Failure::new(number::OPERATION_NOT_SUPPORTED, "a text has no size before it is written"))
    })
}

/// Chooses a transform. An unknown one fails and leaves the variable unchanged. A transform of ADIOS 1.x that is not built in,
/// does not support the variable or has an invalid parameter is ignored with a warning on standard error: the variable is written
/// untransformed. With `THALWEG_STRICT` these fail like an unknown transform.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_set_transform(variable: i64, transform: *const c_char) -> c_int {
    status(|| {
        let (group, position) = process::variable(variable)?;
        // SAFETY: from C.
        let transform = unsafe { pointer::text_or_empty(transform, "the transform") }?;
        let builder = &mut group.lock().builder;
        let before = builder.group().variables.get(position).and_then(|v| v.transform.clone()).unwrap_or_default();
        builder.set_transform(position, transform).map_err(|e| Doing::Transform.failed(e))?;
        let Some(variable) = builder.group().variables.get(position) else { return Ok(()) };
        let chosen = match thalweg_io::transform::of(variable) {
            Err(e) if !thalweg_io::transform::is_known(transform) => Err(e),
            _ => thalweg_io::transform::chosen(variable),
        };
        match chosen {
            Ok(chosen) => {
                let session = process::session()?;
                chosen.instead.iter().for_each(|problem| session.warn(&problem.to_string()));
                Ok(())
            }
            Err(e) => {
                builder.set_transform(position, &before).map_err(|e| Doing::Transform.failed(e))?;
                Err(Doing::Transform.failed(e))
            }
        }
    })
}

/// Defines an attribute: the value of the scalar `var` where that is given, else `value` read as a `type`.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_attribute(
    group: i64,
    name: *const c_char,
    path: *const c_char,
    element_type: c_int,
    text: *const c_char,
    var: *const c_char,
) -> c_int {
    status(|| {
        let group = process::group(group)?;
        // SAFETY: from C.
        let (name, path, var) = unsafe {
            (
                pointer::text(name, "the attribute's name")?,
                pointer::text_or_empty(path, "the path")?,
                pointer::some_text(var, "the variable's name")?,
            )
        };
        let builder = &mut group.lock().builder;
        match var {
            Some(var) => builder.define_attribute_from(name, path, var),
            None => {
                // SAFETY: from C.
                let text = unsafe { pointer::text(text, "the attribute's value") }?;
                builder.define_attribute(name, path, element(element_type)?, text)
            }
        }
        .map_err(|e| Doing::Attribute.failed(e.in_variable(name)))
    })
}

/// Defines an attribute with values: one, or several of a number type. For `adios_string` they are the text itself, for
/// `adios_string_array` as many pointers to texts.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_define_attribute_byvalue(
    group: i64,
    name: *const c_char,
    path: *const c_char,
    element_type: c_int,
    nelems: c_int,
    values: *const c_void,
) -> c_int {
    status(|| {
        let group = process::group(group)?;
        // SAFETY: from C.
        let (name, path) =
            unsafe { (pointer::text(name, "the attribute's name")?, pointer::text_or_empty(path, "the path")?) };
        let element = element(element_type)?;
        let count = usize::try_from(nelems).ok().filter(|n| *n > 0);
        let count = count.ok_or_else(|| Failure::argument(format!("{name}: {nelems} values")))?;
        let null = || Failure::argument(format!("{name}: a null pointer for its values"));
        let text = |pointer: *const c_char| -> Outcome<Value> {
            // SAFETY: from C.
            let text = unsafe { pointer::optional_text(pointer) }.map(CStr::to_bytes).ok_or_else(null)?;
            Ok(Value::String(text.to_vec()))
        };
        let values: Vec<Value> = match element {
            ElementType::String => vec![text(values.cast())?],
            ElementType::StringArray => {
                let bytes = count as u64 * size_of::<*const c_char>() as u64;
                // SAFETY: from C: as many pointers. Read one by one, as they may lie anywhere.
                let array = unsafe { pointer::bytes(values, bytes, name) }?;
                let one = |bytes: &[u8]| {
                    // SAFETY: the bytes of one pointer.
                    text(unsafe { bytes.as_ptr().cast::<*const c_char>().read_unaligned() })
                };
                array.chunks_exact(size_of::<*const c_char>()).map(one).collect::<Outcome<_>>()?
            }
            number => {
                // SAFETY: from C: as many numbers.
                let bytes = unsafe { pointer::bytes(values, count as u64 * number.size(), name) }?;
                let one = |bytes| Value::from_bytes(number, bytes, ByteOrder::NATIVE);
                bytes.chunks_exact(number.size() as usize).filter_map(one).collect()
            }
        };
        let builder = &mut group.lock().builder;
        let defined = builder.define_attribute_values(name, path, element, values);
        defined.map_err(|e| Doing::Attribute.failed(e.in_variable(name)))
    })
}

/// Forgets the attributes of a group.
#[unsafe(no_mangle)]
pub extern "C" fn adios_delete_attrdefs(group: i64) -> c_int {
    status(|| {
        let group = process::group(group)?;
        group.lock().builder.delete_attributes();
        Ok(())
    })
}
