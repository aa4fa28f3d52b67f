//! Files that are there.

use super::{Handle, begin, c_text, datatype, done, failed, handle, number_of, space};
use crate::source::found::{Attribute, Form, Value, trimmed};
use hdf5_metno_sys::h5t::H5T_class_t as Class;
use hdf5_metno_sys::{h5, h5a, h5d, h5f, h5g, h5i, h5l, h5o, h5p, h5s, h5t};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};
use thalweg_views::hdf5::Kind;

/// What `H5Gget_objinfo` tells; `hdf5-metno-sys` keeps the members for itself.
#[repr(C)]
struct Stat {
    file: [c_ulong; 2],
    object: [c_ulong; 2],
    links: c_uint,
    kind: c_int,
    modified: i64,
    link_length: usize,
    header: [u64; 2],
    messages: [c_uint; 2],
}

#[link(name = "hdf5_hl")]
unsafe extern "C" {
    fn H5DSis_scale(dataset: h5i::hid_t) -> c_int;
    fn H5DSget_num_scales(dataset: h5i::hid_t, axis: c_uint) -> c_int;
    fn H5DSiterate_scales(
        dataset: h5i::hid_t,
        axis: c_uint,
        at: *mut c_int,
        visit: unsafe extern "C" fn(h5i::hid_t, c_uint, h5i::hid_t, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

#[link(name = "hdf5")]
unsafe extern "C" {
    fn H5Gget_objinfo(group: h5i::hid_t, name: *const c_char, follow: c_int, told: *mut Stat) -> c_int;
}

/// A file that is read.
pub struct File {
    root: Handle,
    _file: Handle,
}

/// What a link leads to.
pub enum Object {
    /// A group.
    Group(Handle),
    /// A dataset.
    Dataset(Handle),
    /// Something else: a type.
    Other,
}

impl File {
    /// Opens a file for reading.
    pub fn open(name: &str) -> Result<File> {
        begin();
        let path = c_text(name)?;
        // SAFETY: the text ends with a byte 0.
        let file = unsafe { h5f::H5Fopen(path.as_ptr(), h5f::H5F_ACC_RDONLY, 0) };
        let file = handle(file, &format!("open '{name}'")).map_err(|e| match is_classic(name) {
            true => {
                let what = "it has netCDF's classic format, which is not read here: 'nccopy -k nc4 IN OUT' makes a netCDF-4 file of it";
                Error::new(ErrorKind::Unsupported, what)
            }
            false => e,
        })?;
        // SAFETY: the handle lives.
        let root = unsafe { h5g::H5Gopen2(file.0, c"/".as_ptr(), 0) };
        Ok(File { root: handle(root, "open the root group")?, _file: file })
    }

    /// The root group.
    pub fn root(&self) -> &Handle {
        &self.root
    }
}

/// Whether a file begins as netCDF's classic formats do.
fn is_classic(name: &str) -> bool {
    use std::io::Read;
    let mut begin = [0u8; 3];
    std::fs::File::open(name).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && &begin == b"CDF"
}

/// Names of the links in a group, in the order in which they were made where the file knows it.
pub fn names(group: &Handle) -> Result<Vec<String>> {
    let what = "list a group";
    // SAFETY: the handle lives.
    let own = handle(unsafe { h5g::H5Gopen2(group.0, c".".as_ptr(), 0) }, what)?;
    let mut told = h5g::H5G_info_t::default();
    // SAFETY: the handle lives, and `told` outlives the call.
    done(unsafe { h5g::H5Gget_info(own.0, &raw mut told) }, what)?;
    // SAFETY: the handle lives.
    let made = handle(unsafe { h5g::H5Gget_create_plist(own.0) }, what)?;
    let mut flags: c_uint = 0;
    // SAFETY: the handle lives, and `flags` outlives the call.
    done(unsafe { h5p::H5Pget_link_creation_order(made.0, &raw mut flags) }, what)?;
    let by = if flags & 1 == 1 { h5::H5_index_t::H5_INDEX_CRT_ORDER } else { h5::H5_index_t::H5_INDEX_NAME };
    let name = |number: u64| {
        named(what, |text, length| {
            let rising = h5::H5_iter_order_t::H5_ITER_INC;
            // SAFETY: the handle lives, and `text` has `length` bytes, or is null.
            unsafe { h5l::H5Lget_name_by_idx(own.0, c".".as_ptr(), by, rising, number, text, length, 0) }
        })
    };
    (0..told.nlinks).map(name).collect()
}

/// A text of the library: asked for its length, then for its bytes.
fn named(what: &str, ask: impl Fn(*mut c_char, usize) -> isize) -> Result<String> {
    let length = usize::try_from(ask(ptr::null_mut(), 0)).map_err(|_| failed(what))?;
    let mut text = vec![0u8; length + 1];
    if ask(text.as_mut_ptr().cast(), text.len()) < 0 {
        return Err(failed(what));
    }
    text.truncate(length);
    String::from_utf8(text).map_err(|_| Error::new(ErrorKind::Unsupported, format!("cannot {what}: it is not UTF-8")))
}

/// Opens what a link leads to.
pub fn object(group: &Handle, name: &str) -> Result<Object> {
    let path = c_text(name)?;
    // SAFETY: the handle lives, and the text ends with a byte 0.
    let made = handle(unsafe { h5o::H5Oopen(group.0, path.as_ptr(), 0) }, &format!("open {name}"))?;
    // SAFETY: the handle lives.
    Ok(match unsafe { h5i::H5Iget_type(made.0) } {
        h5i::H5I_type_t::H5I_GROUP => Object::Group(made),
        h5i::H5I_type_t::H5I_DATASET => Object::Dataset(made),
        _ => Object::Other,
    })
}

/// Opens a dataset, to read values of it.
///
/// - `cache`: bytes of decoded chunks that are kept; at least 1 MiB.
pub fn dataset(group: &Handle, name: &str, cache: usize) -> Result<Handle> {
    let path = c_text(name)?;
    // SAFETY: the class is the library's own.
    let access = handle(unsafe { h5p::H5Pcreate(*h5p::H5P_CLS_DATASET_ACCESS) }, "create properties")?;
    // SAFETY: the handle lives.
    done(unsafe { h5p::H5Pset_chunk_cache(access.0, 12_421, cache.max(1 << 20), 0.75) }, "set a cache")?;
    // SAFETY: the handles live, and the text ends with a byte 0.
    handle(unsafe { h5d::H5Dopen2(group.0, path.as_ptr(), access.0) }, &format!("open the dataset {name}"))
}

/// Whether a link names a path or another file, where nothing may be; others lead to an object of this file.
pub fn is_by_name(group: &Handle, name: &str) -> Result<bool> {
    /// The library's number for a link by a path; that of links of other sorts is larger.
    const SOFT: c_int = 3;
    Ok(look(group, name, false)?.kind >= SOFT)
}

/// What distinguishes the object that a link leads to from others.
pub fn identity(group: &Handle, name: &str) -> Result<[u64; 4]> {
    let told = look(group, name, true)?;
    Ok([told.file[0], told.file[1], told.object[0], told.object[1]])
}

/// - `follow`: asks for what a link leads to, not for the link.
fn look(group: &Handle, name: &str, follow: bool) -> Result<Stat> {
    let path = c_text(name)?;
    let (zero, none) = ([0; 2], [0; 2]);
    let mut told = Stat {
        file: zero,
        object: zero,
        links: 0,
        kind: 0,
        modified: 0,
        link_length: 0,
        header: none,
        messages: [0; 2],
    };
    // SAFETY: the handle lives, the text ends with a byte 0, and `told` has the members of the library's structure.
    done(
        unsafe { H5Gget_objinfo(group.0, path.as_ptr(), c_int::from(follow), &raw mut told) },
        &format!("look at {name}"),
    )?;
    Ok(told)
}

/// The extents of a dataset; `None` if it has no space for elements.
pub fn shape(dataset: &Handle) -> Result<Option<Vec<u64>>> {
    // SAFETY: the handle lives.
    extents(&handle(unsafe { h5d::H5Dget_space(dataset.0) }, "get the extents of a dataset")?)
}

fn extents(space: &Handle) -> Result<Option<Vec<u64>>> {
    // SAFETY: the handle lives.
    match unsafe { h5s::H5Sget_simple_extent_type(space.0) } {
        h5s::H5S_class_t::H5S_SCALAR => Ok(Some(vec![])),
        h5s::H5S_class_t::H5S_SIMPLE => {
            let mut extents = vec![0u64; space.axes()?];
            // SAFETY: the array has an entry for each axis.
            let axes = unsafe { h5s::H5Sget_simple_extent_dims(space.0, extents.as_mut_ptr(), ptr::null_mut()) };
            if axes < 0 { Err(failed("get extents")) } else { Ok(Some(extents)) }
        }
        _ => Ok(None),
    }
}

/// What the elements of a dataset are.
pub fn form(dataset: &Handle) -> Result<Form> {
    // SAFETY: the handle lives.
    form_of(&handle(unsafe { h5d::H5Dget_type(dataset.0) }, "get the type of a dataset")?)
}

fn form_of(own: &Handle) -> Result<Form> {
    let what = "get a type";
    // SAFETY: the handle lives.
    let (class, size) = unsafe { (h5t::H5Tget_class(own.0), h5t::H5Tget_size(own.0) as u64) };
    let is_big = ByteOrder::NATIVE == ByteOrder::Big;
    Ok(match (class, size) {
        (Class::H5T_INTEGER, 1 | 2 | 4 | 8) => {
            // SAFETY: the handle lives.
            let is_signed = unsafe { h5t::H5Tget_sign(own.0) } == h5t::H5T_sign_t::H5T_SGN_2;
            Form::Numbers(Kind::Integer(size, is_signed, is_big))
        }
        (Class::H5T_FLOAT, 4 | 8) => Form::Numbers(Kind::Real(size, is_big)),
        (Class::H5T_FLOAT, 1 | 2) => Form::Nearest(Kind::Real(4, is_big), "of half width"),
        (Class::H5T_FLOAT, _) => Form::Nearest(Kind::Real(8, is_big), "of more than 8 bytes"),
        (Class::H5T_STRING, _) => {
            // SAFETY: the handle lives.
            match unsafe { h5t::H5Tis_variable_str(own.0) } {
                0 => Form::Words(size),
                any if any > 0 => Form::Texts,
                _ => return Err(failed(what)),
            }
        }
        (Class::H5T_COMPOUND, _) => complex(own)?.map_or(Form::Other("compound".into()), Form::Numbers),
        (Class::H5T_ENUM, _) => {
            // SAFETY: the handle lives.
            let base = handle(unsafe { h5t::H5Tget_super(own.0) }, what)?;
            match form_of(&base)? {
                Form::Numbers(kind @ Kind::Integer(..)) => Form::Enumeration(kind, members(own, &base, kind)?),
                _ => Form::Other("enumeration".into()),
            }
        }
        (Class::H5T_TIME, _) => Form::Other("time".into()),
        (Class::H5T_BITFIELD, _) => Form::Other("bit field".into()),
        (Class::H5T_OPAQUE, _) => Form::Other("opaque".into()),
        (Class::H5T_REFERENCE, _) => Form::Other("reference".into()),
        (Class::H5T_VLEN, _) => Form::Other("array of variable length".into()),
        (Class::H5T_ARRAY, _) => Form::Other("array inside an element".into()),
        (Class::H5T_INTEGER, _) => Form::Other(format!("integer of {size} bytes")),
        _ => Form::Other("unknown".into()),
    })
}

/// The kind of complex numbers, if a compound is one: two real numbers `r` and `i` of 4 or 8 bytes.
fn complex(own: &Handle) -> Result<Option<Kind>> {
    // SAFETY: the handle lives.
    if unsafe { h5t::H5Tget_nmembers(own.0) } != 2 {
        return Ok(None);
    }
    let mut sizes = [0u64; 2];
    for (number, wanted) in [(0, "r"), (1, "i")] {
        // SAFETY: the handle lives, and there are two members.
        let part = handle(unsafe { h5t::H5Tget_member_type(own.0, number) }, "get a type")?;
        match form_of(&part)? {
            Form::Numbers(Kind::Real(bytes, _)) if member(own, number)? == wanted => sizes[number as usize] = bytes,
            _ => return Ok(None),
        }
    }
    Ok((sizes[0] == sizes[1]).then_some(Kind::Complex(sizes[0], ByteOrder::NATIVE == ByteOrder::Big)))
}

/// The name of a member that is there.
fn member(own: &Handle, number: c_uint) -> Result<String> {
    // SAFETY: the handle lives.
    let text = unsafe { h5t::H5Tget_member_name(own.0, number) };
    if text.is_null() {
        return Err(failed("get the name of a member"));
    }
    // SAFETY: a text of the library, which is ours until it is freed.
    let name = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: the library has made it, and it is not used again.
    unsafe { h5::H5free_memory(text.cast()) };
    Ok(name)
}

/// The names of an enumeration, with the bytes of their values as this kind.
fn members(own: &Handle, base: &Handle, kind: Kind) -> Result<Vec<(String, Vec<u8>)>> {
    let native = datatype(kind)?;
    // SAFETY: the handle lives.
    let count = unsafe { h5t::H5Tget_nmembers(own.0) };
    let one = |number: c_uint| {
        let mut value = [0u8; 8];
        // SAFETY: the handles live; the value has at least as many bytes as either type.
        let got = unsafe {
            h5t::H5Tget_member_value(own.0, number, value.as_mut_ptr().cast()).min(h5t::H5Tconvert(
                base.0,
                native.0,
                1,
                value.as_mut_ptr().cast(),
                ptr::null_mut(),
                0,
            ))
        };
        done(got, "get the value of a member")?;
        Ok((member(own, number)?, value[..kind.size() as usize].to_vec()))
    };
    (0..c_uint::try_from(count).unwrap_or(0)).map(one).collect()
}

/// The type as which elements are read.
fn read_as(form: &Form) -> Result<Handle> {
    match form {
        // Without the byte 0 at the end of each.
        Form::Words(bytes) => datatype(Kind::Word(*bytes)),
        Form::Texts => datatype(Kind::Text),
        other => datatype(other.kind().ok_or_else(|| Error::new(ErrorKind::Unsupported, "elements of another sort"))?),
    }
}

/// Texts are read in the character set that they have.
fn with_set_of(target: Handle, own: &Handle) -> Result<Handle> {
    // SAFETY: the handles live.
    done(unsafe { h5t::H5Tset_cset(target.0, h5t::H5Tget_cset(own.0)) }, "set a character set")?;
    Ok(target)
}

fn memory(bytes: u64) -> Result<Vec<u8>> {
    let none = || Error::new(ErrorKind::NoMemory, format!("the system has no {bytes} bytes of memory for values"));
    let length = usize::try_from(bytes).map_err(|_| none())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(length).map_err(|_| none())?;
    memory.resize(length, 0);
    Ok(memory)
}

/// Bytes of so many elements.
fn bytes_of(form: &Form, count: &[u64]) -> Result<u64> {
    let bytes = number_of(count).and_then(|all| all.checked_mul(form.size()));
    bytes.ok_or_else(|| Error::new(ErrorKind::OutOfBounds, "values of more bytes than 64 bits count"))
}

/// Reads every `stride`-th element of a box: numbers, and texts of a fixed length.
///
/// - `offset`, `stride`, `count`: one number for each axis, slowest first; inside the dataset.
pub fn read(dataset: &Handle, form: &Form, offset: &[u64], stride: &[u64], count: &[u64]) -> Result<Vec<u8>> {
    if *form == Form::Texts {
        return Err(Error::new(ErrorKind::Unsupported, "texts of any length have no box"));
    }
    let mut bytes = memory(bytes_of(form, count)?)?;
    if bytes.is_empty() {
        return Ok(bytes);
    }
    // SAFETY: the handle lives.
    let there = handle(unsafe { h5d::H5Dget_space(dataset.0) }, "get the extents of a dataset")?;
    if there.axes()? != count.len() || offset.len() != count.len() || stride.len() != count.len() {
        return Err(Error::new(ErrorKind::InvalidArgument, "a box has other axes than its dataset"));
    }
    if !count.is_empty() {
        let stride: Vec<u64> = stride.iter().map(|stride| (*stride).max(1)).collect();
        there.select(offset, &stride, count, &vec![1; count.len()])?;
    }
    let (here, own) = (space(Some(count), false)?, read_as(form)?);
    let own = match form {
        // SAFETY: the handle lives.
        Form::Words(_) => with_set_of(own, &handle(unsafe { h5d::H5Dget_type(dataset.0) }, "get a type")?)?,
        _ => own,
    };
    // SAFETY: the handles live, and there are as many bytes as the box has.
    done(unsafe { h5d::H5Dread(dataset.0, own.0, here.0, there.0, 0, bytes.as_mut_ptr().cast()) }, "read values")?;
    Ok(bytes)
}

/// Reads all texts of any length of a dataset.
///
/// - `elements`: as many as it has.
pub fn texts(dataset: &Handle, elements: u64) -> Result<Vec<Vec<u8>>> {
    // SAFETY: the handle lives.
    let own = handle(unsafe { h5d::H5Dget_type(dataset.0) }, "get a type")?;
    all_texts(&own, elements, &|read_as, into| {
        // SAFETY: the handles live, and there are as many pointers as the dataset has texts.
        unsafe { h5d::H5Dread(dataset.0, read_as, 0, 0, 0, into) }
    })
}

fn all_texts(own: &Handle, elements: u64, read: &dyn Fn(h5i::hid_t, *mut c_void) -> c_int) -> Result<Vec<Vec<u8>>> {
    if elements == 0 {
        return Ok(Vec::new());
    }
    let too_many = || Error::new(ErrorKind::NoMemory, format!("the system has no memory for {elements} texts"));
    let length = usize::try_from(elements).map_err(|_| too_many())?;
    let mut pointers: Vec<*mut c_char> = Vec::new();
    pointers.try_reserve_exact(length).map_err(|_| too_many())?;
    pointers.resize(length, ptr::null_mut());
    let kind = with_set_of(datatype(Kind::Text)?, own)?;
    done(read(kind.0, pointers.as_mut_ptr().cast()), "read texts")?;
    let text = |text: &*mut c_char| match text.is_null() {
        true => Vec::new(),
        // SAFETY: a text of the library that ends with a byte 0 and lives until it is given back below.
        false => unsafe { CStr::from_ptr(*text) }.to_bytes().to_vec(),
    };
    let texts = pointers.iter().map(text).collect();
    let space = space(Some(&[elements]), false)?;
    // SAFETY: the library has made the texts, and they are not used again.
    #[allow(deprecated)] // Its successor is not there in HDF5 1.10.
    unsafe {
        h5d::H5Dvlen_reclaim(kind.0, space.0, 0, pointers.as_mut_ptr().cast())
    };
    Ok(texts)
}

/// The attributes of an object, in the order in which they were made where the file knows it.
pub fn attributes(of: &Handle) -> Result<Vec<Attribute>> {
    let what = "read an attribute";
    let mut all = Vec::new();
    let (root, rising) = (c".".as_ptr(), h5::H5_iter_order_t::H5_ITER_INC);
    let by = |index, number: u64| {
        // SAFETY: the handle lives.
        unsafe { h5a::H5Aopen_by_idx(of.0, root, index, rising, number, 0, 0) }
    };
    // SAFETY: the handle lives.
    #[allow(deprecated)] // The simplest call that all releases have.
    let count = unsafe { h5a::H5Aget_num_attrs(of.0) };
    for number in 0..u64::try_from(count).unwrap_or(0) {
        let opened = match by(h5::H5_index_t::H5_INDEX_CRT_ORDER, number) {
            refused if refused < 0 => by(h5::H5_index_t::H5_INDEX_NAME, number),
            opened => opened,
        };
        let own = handle(opened, what)?;
        let name = named(what, |text, length| {
            // SAFETY: the handle lives, and `text` has `length` bytes, or is null.
            unsafe { h5a::H5Aget_name(own.0, length, text) }
        })?;
        // SAFETY: the handle lives.
        let kind = handle(unsafe { h5a::H5Aget_type(own.0) }, what)?;
        // SAFETY: the handle lives.
        let shape = extents(&handle(unsafe { h5a::H5Aget_space(own.0) }, what)?)?;
        let form = form_of(&kind)?;
        let Some(shape) = shape else {
            // netCDF writes an empty text so.
            let value = match form {
                Form::Words(_) | Form::Texts => Value::Texts(vec![vec![]]),
                _ => Value::Other("it has no value".into()),
            };
            all.push(Attribute { name, shape: vec![], value });
            continue;
        };
        let value = match &form {
            Form::Other(sort) => Value::Other(format!("its type: {sort}")),
            Form::Texts => {
                let elements = number_of(&shape).ok_or_else(|| failed(what))?;
                Value::Texts(all_texts(&kind, elements, &|read_as, into| {
                    // SAFETY: the handles live, and there are as many pointers as the attribute has texts.
                    unsafe { h5a::H5Aread(own.0, read_as, into) }
                })?)
            }
            form => {
                let mut bytes = memory(bytes_of(form, &shape)?)?;
                let read_as = read_as(form)?;
                let read_as = if matches!(form, Form::Words(_)) { with_set_of(read_as, &kind)? } else { read_as };
                if !bytes.is_empty() {
                    // SAFETY: the handles live, and there are as many bytes as the attribute has.
                    done(unsafe { h5a::H5Aread(own.0, read_as.0, bytes.as_mut_ptr().cast()) }, what)?;
                }
                match (form, form.kind()) {
                    (Form::Words(width), _) => Value::Texts(bytes.chunks(*width as usize).map(trimmed).collect()),
                    (_, Some(kind)) => Value::Numbers(kind, bytes),
                    (_, None) => Value::Other("its type".into()),
                }
            }
        };
        all.push(Attribute { name, shape, value });
    }
    Ok(all)
}

/// Whether a dataset is a dimension scale.
pub fn is_scale(dataset: &Handle) -> Result<bool> {
    // SAFETY: the handle lives.
    match unsafe { H5DSis_scale(dataset.0) } {
        told if told < 0 => Err(failed("ask for a dimension scale")),
        told => Ok(told > 0),
    }
}

/// The full name of the first scale of each axis of a dataset; `None` for an axis without one.
pub fn scales(dataset: &Handle, axes: usize) -> Result<Vec<Option<String>>> {
    unsafe extern "C" fn first(_: h5i::hid_t, _: c_uint, scale: h5i::hid_t, into: *mut c_void) -> c_int {
        // SAFETY: `into` is the name of `scales`, which waits for this call.
        let into = unsafe { &mut *into.cast::<Option<String>>() };
        *into = named("get the name of a scale", |text, length| {
            // SAFETY: the library passes a handle that lives, and `text` has `length` bytes, or is null.
            unsafe { h5i::H5Iget_name(scale, text, length) }
        })
        .ok();
        1
    }
    let scale = |axis: usize| {
        // SAFETY: the handle lives.
        if unsafe { H5DSget_num_scales(dataset.0, axis as c_uint) } <= 0 {
            return Ok(None);
        }
        let (mut name, mut at) = (None::<String>, 0 as c_int);
        // SAFETY: the function fits the type of the callback, and `name` and `at` outlive the call.
        let told = unsafe { H5DSiterate_scales(dataset.0, axis as c_uint, &raw mut at, first, (&raw mut name).cast()) };
        if told < 0 { Err(failed("ask for dimension scales")) } else { Ok(name) }
    };
    (0..axes).map(scale).collect()
}
