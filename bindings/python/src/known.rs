//! The short way of a write: of a variable that its writer has written before, from values that are stored as they are.
//!
//! Such a write is one call from Python, which looks up the variable, compares type and box, and stores the values. Everything else (other
//! memory layouts, conversions, first writes, mistakes) takes the long way through `python/thalweg/writer.py`, which also makes the errors.

use crate::failure::Outcome;
use crate::value;
use numpy::{
    PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods, npyffi::NPY_TYPES,
};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyString, PyTuple};
use std::collections::HashMap;
use thalweg_io::BlockBox;
use thalweg_types::ElementType;
use thalweg_types::mutex::Mutex;

/// A variable, or one of several that share a name.
struct Definition {
    /// In the group.
    position: usize,
    element: ElementType,
    extents: Extents,
    /// Whether integers of Python are converted to its type: it was declared, not derived from its first value.
    converts: bool,
}

/// The extents of blocks.
enum Extents {
    /// As each write says; scalars and texts have no axes.
    OfWrite { axes: usize, global: bool },
    /// Declared as numbers, slowest axis first.
    Fixed(Vec<u64>),
}

/// The variables of a writer that can be written the short way.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Definitions(Mutex<HashMap<String, Vec<Definition>>>);

impl Definitions {
    fn insert(&self, name: &str, definition: Definition) {
        self.0.lock().entry(name.to_string()).or_default().push(definition);
    }
}

#[pymethods]
impl Definitions {
    #[new]
    fn new() -> Definitions {
        Definitions(Mutex::default())
    }

    /// Adds a variable whose type and number of axes were derived from its first value.
    fn add(&self, name: &str, position: usize, element: &str, axes: usize, is_global: bool) -> Outcome<()> {
        let extents = Extents::OfWrite { axes, global: is_global };
        let element = value::element(element)?;
        self.insert(name, Definition { position, element, extents, converts: false });
        Ok(())
    }

    /// Adds a variable that was declared with these extents; a scalar or text has none.
    fn add_declared(&self, name: &str, position: usize, element: &str, extents: Vec<u64>) -> Outcome<()> {
        let element = value::element(element)?;
        let extents = match extents.is_empty() {
            true => Extents::OfWrite { axes: 0, global: false },
            false => Extents::Fixed(extents),
        };
        self.insert(name, Definition { position, element, extents, converts: true });
        Ok(())
    }
}

/// The bytes of a value or array.
pub enum Bytes<'p> {
    /// Of an array that Python holds: address and length.
    Array(*const u8, usize),
    /// Of a number: the first so many.
    Number([u8; 8], usize),
    /// Of a text.
    Text(&'p str),
}

/// A write that can be carried out.
pub struct KnownWrite<'p> {
    pub position: usize,
    pub bytes: Bytes<'p>,
    pub place: Option<BlockBox>,
}

impl Definitions {
    /// The write of `data` to the variable `name`; `None` if it must take the long way.
    pub fn find<'p>(
        &self,
        name: &Bound<'_, PyAny>,
        data: &'p Bound<'_, PyAny>,
        shape: Option<&Bound<'_, PyAny>>,
        offset: Option<&Bound<'_, PyAny>>,
    ) -> Option<KnownWrite<'p>> {
        let known = self.0.lock();
        let definitions = known.get(name.cast_exact::<PyString>().ok()?.to_str().ok()?)?;
        if let Ok(array) = data.cast_exact::<PyUntypedArray>() {
            return of_array(definitions, array, shape, offset);
        }
        if shape.is_some() || offset.is_some() {
            return None;
        }
        let scalar = |d: &&Definition| matches!(d.extents, Extents::OfWrite { axes: 0, .. });
        let (definition, bytes) = if let Ok(number) = data.cast::<PyFloat>() {
            let definition = definitions.iter().filter(scalar).find(|d| d.element == ElementType::F64)?;
            (definition, Bytes::Number(number.value().to_ne_bytes(), 8))
        } else if let Ok(number) = data.cast_exact::<PyInt>() {
            let number: i64 = number.extract().ok()?;
            let mut scalars = definitions.iter().filter(scalar);
            let definition = scalars.find(|d| d.element == ElementType::I64 || d.converts)?;
            (definition, integer(number, definition.element)?)
        } else {
            let text = data.cast_exact::<PyString>().ok()?.to_str().ok()?;
            let definition = definitions.iter().filter(scalar).find(|d| d.element == ElementType::String)?;
            (definition, Bytes::Text(text))
        };
        Some(KnownWrite { position: definition.position, bytes, place: None })
    }
}

/// An integer as a number of an integer type that can represent it.
fn integer(number: i64, element: ElementType) -> Option<Bytes<'static>> {
    let mut bytes = [0; 8];
    let mut put = |of: &[u8]| {
        bytes[..of.len()].copy_from_slice(of);
        Some(of.len())
    };
    let length = match element {
        ElementType::I8 => put(&i8::try_from(number).ok()?.to_ne_bytes()),
        ElementType::I16 => put(&i16::try_from(number).ok()?.to_ne_bytes()),
        ElementType::I32 => put(&i32::try_from(number).ok()?.to_ne_bytes()),
        ElementType::I64 => put(&number.to_ne_bytes()),
        ElementType::U8 => put(&u8::try_from(number).ok()?.to_ne_bytes()),
        ElementType::U16 => put(&u16::try_from(number).ok()?.to_ne_bytes()),
        ElementType::U32 => put(&u32::try_from(number).ok()?.to_ne_bytes()),
        ElementType::U64 => put(&u64::try_from(number).ok()?.to_ne_bytes()),
        _ => None,
    }?;
    Some(Bytes::Number(bytes, length))
}

/// A contiguous array of the variable's type in this machine's byte order.
fn of_array<'p>(
    definitions: &[Definition],
    array: &'p Bound<'_, PyUntypedArray>,
    shape: Option<&Bound<'_, PyAny>>,
    offset: Option<&Bound<'_, PyAny>>,
) -> Option<KnownWrite<'p>> {
    if !array.is_c_contiguous() {
        return None;
    }
    let element = element_of(array)?;
    let count = array.shape();
    let (whole, start) = (numbers(shape)?, numbers(offset)?);
    let fits = |d: &&Definition| {
        d.element == element
            && match &d.extents {
                Extents::OfWrite { axes, global } => *axes == count.len() && *global != whole.is_empty(),
                Extents::Fixed(extents) => {
                    whole.is_empty()
                        && extents.len() == count.len()
                        && extents.iter().zip(count).all(|(e, n)| *e == *n as u64)
                }
            }
    };
    let definition = definitions.iter().find(fits)?;
    let place = match &definition.extents {
        Extents::OfWrite { axes: 1.., .. } => Some(place(count, whole, start)?),
        _ if start.is_empty() => None,
        _ => return None,
    };
    let length = count.iter().try_fold(array.dtype().itemsize(), |bytes, n| bytes.checked_mul(*n))?;
    // SAFETY: only the address is taken; no element is read as this type.
    #[allow(unsafe_code)]
    let address = unsafe { array.as_any().cast_unchecked::<PyArrayDyn<u8>>() }.data();
    Some(KnownWrite { position: definition.position, bytes: Bytes::Array(address, length), place })
}

/// The box of a block; `None` if it does not lie in the array.
fn place(count: &[usize], whole: Vec<u64>, start: Vec<u64>) -> Option<BlockBox> {
    let count: Vec<u64> = count.iter().map(|n| *n as u64).collect();
    let or_zeros = |given: Vec<u64>| if given.is_empty() { vec![0; count.len()] } else { given };
    if whole.is_empty() && !start.is_empty() {
        return None;
    }
    let is_global = !whole.is_empty();
    let (whole, start) = (or_zeros(whole), or_zeros(start));
    if whole.len() != count.len() || start.len() != count.len() {
        return None;
    }
    let inside = |d: usize| start[d].checked_add(count[d]).is_some_and(|end| end <= whole[d]);
    if is_global && !(0..count.len()).all(inside) {
        return None;
    }
    Some(BlockBox { count, shape: Some(whole), offset: Some(start) })
}

/// The element type of an array; `None` for types that are not stored as they are.
fn element_of(array: &Bound<'_, PyUntypedArray>) -> Option<ElementType> {
    let dtype = array.dtype();
    if dtype.is_native_byteorder() == Some(false) {
        return None;
    }
    let is = |t: NPY_TYPES| dtype.num() == t as std::ffi::c_int;
    // `long` and `long long` are two types of numpy, whatever their sizes.
    match (dtype.kind(), dtype.itemsize()) {
        (b'i', 1) => Some(ElementType::I8),
        (b'i', 2) => Some(ElementType::I16),
        (b'i', 4) => Some(ElementType::I32),
        (b'i', 8) => Some(ElementType::I64),
        (b'u', 1) => Some(ElementType::U8),
        (b'u', 2) => Some(ElementType::U16),
        (b'u', 4) => Some(ElementType::U32),
        (b'u', 8) => Some(ElementType::U64),
        (b'f', 4) => Some(ElementType::F32),
        (b'f', 8) if is(NPY_TYPES::NPY_DOUBLE) => Some(ElementType::F64),
        (b'c', 8) => Some(ElementType::Complex),
        (b'c', 16) if is(NPY_TYPES::NPY_CDOUBLE) => Some(ElementType::DoubleComplex),
        _ => None,
    }
}

/// The numbers of a tuple or list, none if nothing is given; `None` for anything else.
fn numbers(given: Option<&Bound<'_, PyAny>>) -> Option<Vec<u64>> {
    let Some(given) = given else { return Some(Vec::new()) };
    if let Ok(tuple) = given.cast_exact::<PyTuple>() {
        return tuple.iter().map(|n| n.extract().ok()).collect();
    }
    given.cast_exact::<PyList>().ok()?.iter().map(|n| n.extract().ok()).collect()
}
