//! Evaluates dimensions at a write.
//!
//! The value of a scalar is the last one written in the same output, that of an integer attribute its value. The time dimension
//! has one element per step and is not stored, so it is omitted.

use std::collections::HashMap;
use thalweg_bp::shape::{JOINED, Shape};
use thalweg_schema::dimension::{Dimension, NameRef};
use thalweg_schema::{AttributeSource, Group, Variable};
use thalweg_types::{Error, ErrorKind, Result, Value};

/// The last values of scalars, by full name.
pub type Scalars = HashMap<String, Value>;

/// The shape of a block of `variable`, dimensions in the order of the document; `None` for scalars. A joined dimension has
/// the extent [`JOINED`].
///
/// # Errors
/// `InvalidArgument` naming a scalar that was not written yet; `OutOfBounds` for negative results.
pub fn shape(variable: &Variable, lookup: &mut dyn FnMut(NameRef<'_>) -> Result<i128>) -> Result<Option<Shape>> {
    if variable.local.is_empty() {
        return Ok(None);
    }
    let global = !variable.global.is_empty();
    // The time dimension may occur in the local list alone; the others then have one entry less.
    let without_time = |list: &[Dimension]| -> Vec<Dimension> {
        list.iter().filter(|d| !matches!(d, Dimension::Time)).cloned().collect()
    };
    let local = without_time(&variable.local);
    let (globals, offsets) = if variable.global.len() == variable.local.len() {
        let keep = |list: &[Dimension]| -> Vec<Dimension> {
            let pairs = list.iter().zip(&variable.local);
            pairs.filter(|(_, l)| !matches!(l, Dimension::Time)).map(|(d, _)| d.clone()).collect()
        };
        (keep(&variable.global), if variable.offset.is_empty() { Vec::new() } else { keep(&variable.offset) })
    } else {
        (without_time(&variable.global), without_time(&variable.offset))
    };
    let mut shape = Shape::default();
    for (d, extent) in local.iter().enumerate() {
        shape.local.push(extent.evaluate(lookup)?);
        let of = |list: &[Dimension], lookup: &mut dyn FnMut(NameRef<'_>) -> Result<i128>| match list.get(d) {
            Some(Dimension::Joined) => Ok(JOINED),
            Some(dimension) => dimension.evaluate(lookup),
            None => Ok(0),
        };
        shape.global.push(if global { of(&globals, lookup)? } else { 0 });
        shape.offset.push(if global { of(&offsets, lookup)? } else { 0 });
    }
    if global && shape.is_global() {
        check_inside(&shape)?;
    }
    // Only the time dimension remains: one value per step and block.
    Ok((shape.rank() > 0).then_some(shape))
}

fn check_inside(shape: &Shape) -> Result<()> {
    for d in 0..shape.rank() {
        let end = shape.offset[d].checked_add(shape.local[d]);
        if end.is_none_or(|end| end > shape.global[d]) {
            return Err(Error::new(
                ErrorKind::OutOfBounds,
                format!(
                    "dimension {d}: {} elements from {} leave the global extent {}",
                    shape.local[d], shape.offset[d], shape.global[d]
                ),
            ));
        }
    }
    Ok(())
}

/// Checks that a program may give a block of `variable` this shape.
///
/// # Errors
/// `InvalidArgument` for another number of dimensions, or a local block of a global array and vice versa; `OutOfBounds` if it
/// exceeds the array.
pub(crate) fn check_box(variable: &Variable, shape: &Shape) -> Result<()> {
    let dimensions = variable.local.iter().filter(|d| !matches!(d, Dimension::Time)).count();
    let lists = [&shape.local, &shape.global, &shape.offset];
    if dimensions == 0 || lists.iter().any(|list| list.len() != dimensions) {
        let what = format!("a box of {} dimensions, the variable has {dimensions}", shape.rank());
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    match (variable.global.is_empty(), shape.is_global()) {
        (true, true) => {
            Err(Error::new(ErrorKind::InvalidArgument, "a box with a global shape, but the variable is a local array"))
        }
        (false, false) if shape.elements() != Some(0) => {
            Err(Error::new(ErrorKind::InvalidArgument, "a block of a global array needs the array's shape"))
        }
        (false, _) => check_inside(shape),
        (true, _) => Ok(()),
    }
}

/// Refuses a write without a box of an array whose declaration leaves its extents to each write.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_says_extents(variable: &Variable) -> Result<()> {
    if !variable.needs_box {
        return Ok(());
    }
    let what = "the array is defined without extents: each write needs a box with the block's position";
    Err(Error::new(ErrorKind::InvalidArgument, what))
}

/// Bytes of one block of `variable` with the present values of scalars; `None` for text, which has its own length.
///
/// # Errors
/// As for [`shape`]; `OutOfBounds` for more than 2^62 bytes; `InvalidArgument` if only a box can give the extents.
pub fn expected_bytes(variable: &Variable, group: &Group, scalars: &Scalars) -> Result<Option<u64>> {
    check_says_extents(variable).map_err(|e| e.in_variable(variable.full_name()))?;
    let shape = shape(variable, &mut lookup(group, scalars))?;
    block_bytes(variable, shape.as_ref().map(|s| s.local.as_slice()))
}

/// Bytes of a block with these extents; `None` for text.
pub(crate) fn block_bytes(variable: &Variable, local: Option<&[u64]>) -> Result<Option<u64>> {
    if variable.element.is_text() {
        return Ok(None);
    }
    let elements = thalweg_types::bounding_box::elements(local.unwrap_or(&[]));
    elements
        .and_then(|n| n.checked_mul(variable.element.size()))
        .filter(|bytes| *bytes < 1 << 62)
        .map(Some)
        .ok_or_else(|| Error::new(ErrorKind::OutOfBounds, "a block of more than 2^62 bytes"))
}

/// The value of a name in a dimension, among scalars written so far and attributes of the group.
///
/// # Errors
/// The lookup fails with `InvalidArgument` for a scalar that was not written yet, with `Config` for a value that is not a whole
/// number.
pub fn lookup<'s>(group: &'s Group, scalars: &'s Scalars) -> impl FnMut(NameRef<'_>) -> Result<i128> + 's {
    move |name| match name {
        NameRef::Variable(name) => {
            let value = scalars.get(name).ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidArgument,
                    format!("dimension \"{name}\" was not written before the array in this output"),
                )
            })?;
            whole(value, name)
        }
        NameRef::Attribute(name) => {
            let attribute = group.attributes.iter().find(|a| a.full_name() == name);
            match attribute.map(|a| &a.value) {
                Some(AttributeSource::One(value)) => whole(value, name),
                Some(AttributeSource::Variable(variable)) => match scalars.get(variable) {
                    Some(value) => whole(value, name),
                    None => Err(Error::new(
                        ErrorKind::InvalidArgument,
                        format!("variable \"{variable}\" of attribute \"{name}\" was not written yet"),
                    )),
                },
                _ => {
                    Err(Error::new(ErrorKind::Config, format!("\"{name}\" is no single number, so it is no dimension")))
                }
            }
        }
    }
}

fn whole(value: &Value, name: &str) -> Result<i128> {
    match value {
        Value::U64(v) => Ok(i128::from(*v)),
        other => other.as_i64().map(i128::from).ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                format!("\"{name}\" is a {}, dimensions are whole numbers", other.element_type()),
            )
        }),
    }
}
