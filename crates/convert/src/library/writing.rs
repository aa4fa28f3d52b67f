//! New files.

use super::{Handle, all_closed, begin, c_text, datatype, done, failed, handle, mistaken, number_of, space};
use hdf5_metno_sys::{h5a, h5ac, h5c, h5d, h5f, h5g, h5l, h5p, h5t};
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use thalweg_types::Result;
use thalweg_views::hdf5::{Kind, Mapping, Stored, Values};

/// Links and attributes keep the order in which they were made: `H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED`.
const IN_ORDER: c_uint = 3;

/// How a dataset is stored.
pub enum Storage<'p> {
    /// In the file.
    Own(&'p Stored),
    /// In another file.
    External(External<'p>),
    /// In other datasets.
    Virtual(&'p Mappings),
    /// In the file, at places that are known before values are there, and that the library writes nothing to.
    Reserved(Reserved<'p>),
}

/// Places of elements.
#[derive(Clone, Copy)]
pub enum Reserved<'p> {
    /// One.
    Whole,
    /// One for each chunk of these extents.
    Chunks(&'p [u64]),
}

/// The oldest release of the library that can read a file.
#[derive(Clone, Copy)]
pub enum Oldest {
    /// 1.8: files have no mark that they are open, which would stay behind where a program ends in between.
    V18,
    /// 1.10: the first one with virtual datasets; its forms of other objects are smaller.
    V110,
}

impl Oldest {
    /// Properties of access to files.
    fn access(self) -> Result<Handle> {
        // SAFETY: the class is the library's own.
        let access = handle(unsafe { h5p::H5Pcreate(*h5p::H5P_CLS_FILE_ACCESS) }, "create properties")?;
        let version = match self {
            Oldest::V18 => h5f::H5F_libver_t::H5F_LIBVER_V18,
            Oldest::V110 => h5f::H5F_libver_t::H5F_LIBVER_V110,
        };
        // SAFETY: the handle lives.
        done(unsafe { h5p::H5Pset_libver_bounds(access.0, version, version) }, "set the properties of the file")?;
        Ok(access)
    }

    /// As `access`; metadata that were changed stay in memory until the file is closed, however many they are.
    fn access_in_memory(self) -> Result<Handle> {
        let access = self.access()?;
        let mut how =
            h5ac::H5AC_cache_config_t { version: h5ac::H5AC__CURR_CACHE_CONFIG_VERSION, ..Default::default() };
        let what = "keep metadata in memory";
        // SAFETY: the handle lives, and `how` outlives the call.
        done(unsafe { h5p::H5Pget_mdc_config(access.0, &raw mut how) }, what)?;
        // A cache that writes nothing has no size to adapt.
        how.evictions_enabled = 0;
        how.incr_mode = h5c::H5C_cache_incr_mode::H5C_incr__off;
        how.flash_incr_mode = h5c::H5C_cache_flash_incr_mode::H5C_flash_incr__off;
        how.decr_mode = h5c::H5C_cache_decr_mode::H5C_decr__off;
        // SAFETY: as before.
        done(unsafe { h5p::H5Pset_mdc_config(access.0, &raw const how) }, what)?;
        Ok(access)
    }
}

/// No place in a file: `HADDR_UNDEF`.
const NOWHERE: u64 = u64::MAX;

/// Elements in another file, as many as the dataset has.
pub struct External<'p> {
    /// Its name.
    pub file: &'p str,
    /// The first byte.
    pub offset: u64,
}

/// The type of a dataset's elements.
#[derive(Clone, Copy)]
pub enum Element<'p> {
    /// A type.
    Plain(Kind),
    /// An enumeration of integers, whose only member 0 has this name.
    Enumeration(Kind, &'p str),
}

/// The parts of a virtual dataset.
pub struct Mappings {
    properties: Handle,
    target: Handle,
    axes: usize,
}

impl Mappings {
    /// None so far.
    pub fn new(shape: &[u64]) -> Result<Mappings> {
        Ok(Mappings { properties: dataset_properties()?, target: space(Some(shape), false)?, axes: shape.len() })
    }

    /// A run of boxes has the elements of a selection of the dataset `source`, which has this many elements.
    pub fn add(&mut self, run: &Mapping, elements: u64, source: &str) -> Result<()> {
        let Mapping { offset, count, times, every, first, stride, .. } = run;
        if offset.len() != self.axes
            || count.len() != self.axes
            || (*times > 1 && count.first().is_none_or(|count| count > every))
        {
            return Err(mistaken("a block has other axes than its dataset"));
        }
        let (source, file) = (c_text(source)?, space(Some(&[elements]), false)?);
        let length = number_of(count).ok_or_else(|| mistaken("a block has more elements than 64 bits count"))?;
        // One box has no distance to another, and may have any extents: strides are at least those.
        let (mut number, mut strides) = (vec![1u64; self.axes], count.clone());
        if *times > 1 {
            (number[0], strides[0]) = (*times, *every);
        }
        self.target.select(offset, &strides, &number, count)?;
        file.select(&[*first], &[(*stride).max(length)], &[*times], &[length])?;
        // SAFETY: the handles live, and the texts end with a byte 0; the library copies all of them.
        let mapped =
            unsafe { h5p::H5Pset_virtual(self.properties.0, self.target.0, c".".as_ptr(), source.as_ptr(), file.0) };
        done(mapped, "map a block")
    }
}

fn dataset_properties() -> Result<Handle> {
    // SAFETY: the class is the library's own.
    let made = handle(unsafe { h5p::H5Pcreate(*h5p::H5P_CLS_DATASET_CREATE) }, "create properties")?;
    // SAFETY: the handle lives.
    done(unsafe { h5p::H5Pset_attr_creation_order(made.0, IN_ORDER) }, "keep the order of attributes")?;
    Ok(made)
}

/// An enumeration of integers, whose only member 0 has this name.
fn enumeration(kind: Kind, member: &str) -> Result<Handle> {
    if !matches!(kind, Kind::Integer(..)) {
        return Err(mistaken("only integers are enumerated"));
    }
    let (base, member) = (datatype(kind)?, c_text(member)?);
    // SAFETY: the handle lives.
    let made = handle(unsafe { h5t::H5Tenum_create(base.0) }, "create a type")?;
    let zero = [0u8; 8];
    // SAFETY: the handle lives, the text ends with a byte 0, and the value has at least as many bytes as the type.
    done(unsafe { h5t::H5Tenum_insert(made.0, member.as_ptr(), zero.as_ptr().cast()) }, "add a member to a type")?;
    Ok(made)
}

/// The values of `elements` elements of a type, as the library takes them.
struct Given {
    bytes: Vec<u8>,
    texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Given {
    fn of(values: &Values, kind: Kind, elements: Option<u64>) -> Result<Given> {
        let wrong = || mistaken("a number of values does not fit the extents");
        let elements = elements.ok_or_else(wrong)?;
        match values {
            Values::Texts(all) if kind == Kind::Text && all.len() as u64 == elements => {
                let texts: Vec<CString> = all.iter().map(|text| c_text(text)).collect::<Result<_>>()?;
                let pointers = texts.iter().map(|text| text.as_ptr()).collect();
                Ok(Given { bytes: Vec::new(), texts, pointers })
            }
            _ if kind == Kind::Text => Err(wrong()),
            _ => {
                let bytes =
                    values.bytes().filter(|bytes| elements.checked_mul(kind.size()) == Some(bytes.len() as u64));
                Ok(Given { bytes: bytes.ok_or_else(wrong)?, texts: Vec::new(), pointers: Vec::new() })
            }
        }
    }

    fn as_ptr(&self) -> *const c_void {
        if self.texts.is_empty() { self.bytes.as_ptr().cast() } else { self.pointers.as_ptr().cast() }
    }
}

/// A new file.
pub struct File {
    file: Handle,
    /// Of new groups.
    in_order: Handle,
}

impl File {
    /// Creates a file, in place of an existing one.
    ///
    /// - `in_memory`: what changes in it stays in memory until it is closed, but for values.
    pub fn create(name: &str, oldest: Oldest, in_memory: bool) -> Result<File> {
        begin();
        let path = c_text(name)?;
        // SAFETY: the class is the library's own.
        let how = handle(unsafe { h5p::H5Pcreate(*h5p::H5P_CLS_FILE_CREATE) }, "create properties")?;
        // SAFETY: the handle lives.
        let set = unsafe {
            h5p::H5Pset_link_creation_order(how.0, IN_ORDER).min(h5p::H5Pset_attr_creation_order(how.0, IN_ORDER))
        };
        done(set, "set the properties of the file")?;
        let access = if in_memory { oldest.access_in_memory()? } else { oldest.access()? };
        // SAFETY: the handles live, and the text ends with a byte 0.
        let file = unsafe { h5f::H5Fcreate(path.as_ptr(), h5f::H5F_ACC_TRUNC, how.0, access.0) };
        File::of(handle(file, &format!("create '{name}'"))?)
    }

    /// Opens a file that is there, to add to it. What changes in it stays in memory until it is closed, but for values.
    pub fn open(name: &str, oldest: Oldest) -> Result<File> {
        begin();
        let (path, access) = (c_text(name)?, oldest.access_in_memory()?);
        // SAFETY: the handle lives, and the text ends with a byte 0.
        let file = unsafe { h5f::H5Fopen(path.as_ptr(), h5f::H5F_ACC_RDWR, access.0) };
        File::of(handle(file, &format!("open '{name}'"))?)
    }

    fn of(file: Handle) -> Result<File> {
        // SAFETY: the class is the library's own.
        let in_order = handle(unsafe { h5p::H5Pcreate(*h5p::H5P_CLS_GROUP_CREATE) }, "create properties")?;
        // SAFETY: the handle lives.
        let set = unsafe {
            h5p::H5Pset_link_creation_order(in_order.0, IN_ORDER)
                .min(h5p::H5Pset_attr_creation_order(in_order.0, IN_ORDER))
        };
        done(set, "set the properties of groups")?;
        Ok(File { file, in_order })
    }

    /// The root group.
    pub fn root(&self) -> &Handle {
        &self.file
    }

    /// Creates a group, whose parent exists.
    pub fn group(&self, name: &str) -> Result<Handle> {
        let path = c_text(name)?;
        // SAFETY: the handles live, and the text ends with a byte 0.
        let made = unsafe { h5g::H5Gcreate2(self.file.0, path.as_ptr(), 0, self.in_order.0, 0) };
        handle(made, &format!("create the group {name}"))
    }

    /// Whether the file has something of this name; nothing above it may be a dataset.
    pub fn has(&self, name: &str) -> Result<bool> {
        let whole = name.len();
        for end in name.match_indices('/').map(|(at, _)| at).chain([whole]) {
            let path = c_text(&name[..end])?;
            // SAFETY: the handle lives, and the text ends with a byte 0.
            match unsafe { h5l::H5Lexists(self.file.0, path.as_ptr(), 0) } {
                told if told < 0 => return Err(failed(&format!("look for {name}"))),
                0 => return Ok(false),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Opens a dataset, to write values of it.
    pub fn dataset(&self, name: &str) -> Result<Handle> {
        /// Bytes of chunks that are kept: rows of chunks, which writes may meet in part.
        const CACHE: usize = 64 << 20;
        let path = c_text(name)?;
        // SAFETY: the class is the library's own.
        let access = handle(unsafe { h5p::H5Pcreate(*h5p::H5P_CLS_DATASET_ACCESS) }, "create properties")?;
        // A prime number of places, and chunks that are written whole go first.
        // SAFETY: the handle lives.
        done(unsafe { h5p::H5Pset_chunk_cache(access.0, 12_421, CACHE, 1.0) }, "set a cache")?;
        // SAFETY: the handles live, and the text ends with a byte 0.
        let opened = unsafe { h5d::H5Dopen2(self.file.0, path.as_ptr(), access.0) };
        handle(opened, &format!("open the dataset {name}"))
    }

    /// Writes all to the file, and closes it. Other objects of it are closed before.
    ///
    /// # Errors
    /// `Io` if this fails, or if an object that was closed before could not be written.
    pub fn close(self) -> Result<()> {
        // SAFETY: the handle lives.
        done(unsafe { h5f::H5Fflush(self.file.0, h5f::H5F_scope_t::H5F_SCOPE_GLOBAL) }, "write the file")?;
        drop(self);
        all_closed()
    }
}

/// Creates a dataset in a group that exists.
///
/// - `is_unlimited`: along the first axis.
pub fn dataset(
    group: &Handle,
    name: &str,
    element: Element<'_>,
    shape: &[u64],
    is_unlimited: bool,
    is_nan_missing: bool,
    storage: &Storage<'_>,
) -> Result<Handle> {
    let (kind, own) = match element {
        Element::Plain(kind) => (kind, datatype(kind)?),
        Element::Enumeration(kind, member) => (kind, enumeration(kind, member)?),
    };
    let (path, space) = (c_text(name)?, space(Some(shape), is_unlimited)?);
    let made = match storage {
        Storage::Virtual(_) => None,
        _ => Some(dataset_properties()?),
    };
    let properties = match (storage, &made) {
        (Storage::Virtual(all), _) => &all.properties,
        (_, Some(made)) => made,
        (_, None) => unreachable!("made above"),
    };
    match storage {
        Storage::Virtual(_) => {}
        Storage::Own(Stored { chunk, deflate }) => {
            let whole = || shape.iter().map(|extent| (*extent).max(1)).collect();
            let chunk = chunk.clone().or_else(|| is_unlimited.then(whole));
            if let Some(chunk) = chunk.filter(|_| !shape.is_empty()) {
                if chunk.len() != shape.len() {
                    return Err(mistaken("a chunk has other axes than its dataset"));
                }
                // SAFETY: the array has an entry for each axis.
                done(unsafe { h5p::H5Pset_chunk(properties.0, shape.len() as c_int, chunk.as_ptr()) }, "set a chunk")?;
                if let Some(level) = deflate {
                    // The bytes of a number one after the other: few of the first ones differ.
                    // SAFETY: the handle lives.
                    let set =
                        unsafe { h5p::H5Pset_shuffle(properties.0).min(h5p::H5Pset_deflate(properties.0, *level)) };
                    done(set, "set the compression")?;
                }
            }
        }
        Storage::Reserved(reserved) => {
            let (early, never) =
                (h5d::H5D_alloc_time_t::H5D_ALLOC_TIME_EARLY, h5d::H5D_fill_time_t::H5D_FILL_TIME_NEVER);
            // SAFETY: the handle lives.
            let set =
                unsafe { h5p::H5Pset_alloc_time(properties.0, early).min(h5p::H5Pset_fill_time(properties.0, never)) };
            done(set, "reserve places")?;
            if let Reserved::Chunks(chunk) = reserved {
                if chunk.len() != shape.len() {
                    return Err(mistaken("a chunk has other axes than its dataset"));
                }
                // SAFETY: the array has an entry for each axis.
                done(unsafe { h5p::H5Pset_chunk(properties.0, shape.len() as c_int, chunk.as_ptr()) }, "set a chunk")?;
            }
        }
        Storage::External(External { file, offset }) => {
            let length = number_of(shape).and_then(|all| all.checked_mul(kind.size()));
            let length = length.ok_or_else(|| mistaken("a block has more bytes than 64 bits count"))?;
            let offset = i64::try_from(*offset).map_err(|_| mistaken("a block lies behind the end of all files"))?;
            let file = c_text(file)?;
            // SAFETY: the handle lives, and the text ends with a byte 0.
            done(unsafe { h5p::H5Pset_external(properties.0, file.as_ptr(), offset, length) }, "name a file")?;
        }
    }
    if is_nan_missing {
        let nan = f64::NAN;
        // SAFETY: the pointer is to one number of the type before.
        let set = unsafe { h5p::H5Pset_fill_value(properties.0, *h5t::H5T_NATIVE_DOUBLE, (&raw const nan).cast()) };
        done(set, "set the value of missing elements")?;
    }
    // SAFETY: the handles live, and the text ends with a byte 0.
    let dataset = unsafe { h5d::H5Dcreate2(group.0, path.as_ptr(), own.0, space.0, 0, properties.0, 0) };
    handle(dataset, &format!("create the dataset {name}"))
}

/// Writes all values of a dataset of this type and these extents.
pub fn write(dataset: &Handle, kind: Kind, shape: &[u64], values: &Values) -> Result<()> {
    let (own, given) = (datatype(kind)?, Given::of(values, kind, number_of(shape))?);
    // SAFETY: `given` has as many values of this type as the dataset.
    done(unsafe { h5d::H5Dwrite(dataset.0, own.0, 0, 0, 0, given.as_ptr()) }, "write values")
}

/// Writes a box of a dataset.
///
/// - `bytes`: its elements in this machine's byte order, as the type says it, slowest axis first.
pub fn write_box(dataset: &Handle, kind: Kind, offset: &[u64], count: &[u64], bytes: &[u8]) -> Result<()> {
    let elements = number_of(count).filter(|all| all.checked_mul(kind.size()) == Some(bytes.len() as u64));
    if elements.is_none() || kind == Kind::Text || offset.len() != count.len() {
        return Err(mistaken("a box has other values than its extents say"));
    }
    if bytes.is_empty() {
        return Ok(());
    }
    let own = datatype(kind)?;
    // SAFETY: the handle lives.
    let there = handle(unsafe { h5d::H5Dget_space(dataset.0) }, "get the extents of a dataset")?;
    let here = space(Some(count), false)?;
    if there.axes()? != count.len() {
        return Err(mistaken("a box has other axes than its dataset"));
    }
    if !count.is_empty() {
        there.select(offset, &vec![1; count.len()], count, &vec![1; count.len()])?;
    }
    // SAFETY: the handles live, and there are as many bytes as the box has.
    done(unsafe { h5d::H5Dwrite(dataset.0, own.0, here.0, there.0, 0, bytes.as_ptr().cast()) }, "write values")
}

/// Gives a dataset other extents.
pub fn extend(dataset: &Handle, shape: &[u64]) -> Result<()> {
    // SAFETY: the handle lives.
    let axes = handle(unsafe { h5d::H5Dget_space(dataset.0) }, "get the extents of a dataset")?.axes()?;
    if axes != shape.len() {
        return Err(mistaken("a dataset has other axes"));
    }
    // SAFETY: the array has an entry for each axis.
    done(unsafe { h5d::H5Dset_extent(dataset.0, shape.as_ptr()) }, "extend a dataset")
}

/// Extents of a dataset's chunks; `None` if it has none.
pub fn chunk(dataset: &Handle, axes: usize) -> Result<Option<Vec<u64>>> {
    // SAFETY: the handle lives.
    let how = handle(unsafe { h5d::H5Dget_create_plist(dataset.0) }, "get the properties of a dataset")?;
    // SAFETY: the handle lives.
    if unsafe { h5p::H5Pget_layout(how.0) } != h5d::H5D_layout_t::H5D_CHUNKED {
        return Ok(None);
    }
    let mut chunk = vec![0u64; axes];
    // SAFETY: the array has as many entries as the call is told.
    let told = unsafe { h5p::H5Pget_chunk(how.0, axes as c_int, chunk.as_mut_ptr()) };
    if told == axes as c_int { Ok(Some(chunk)) } else { Err(failed("get the extents of chunks")) }
}

/// The first byte in the file of a dataset that is one piece.
pub fn place(dataset: &Handle) -> Result<u64> {
    // SAFETY: the handle lives.
    match unsafe { h5d::H5Dget_offset(dataset.0) } {
        NOWHERE => Err(failed("get the place of a dataset")),
        place => Ok(place),
    }
}

/// Whether a dataset has values of this type as they are: in this byte order, and without filters.
pub fn is_plain(dataset: &Handle, kind: Kind) -> Result<bool> {
    let own = datatype(kind)?;
    // SAFETY: the handle lives.
    let there = handle(unsafe { h5d::H5Dget_type(dataset.0) }, "get the type of a dataset")?;
    // SAFETY: the handle lives.
    let how = handle(unsafe { h5d::H5Dget_create_plist(dataset.0) }, "get the properties of a dataset")?;
    // SAFETY: both handles live.
    let equal = unsafe { h5t::H5Tequal(own.0, there.0) };
    done(equal, "compare types")?;
    // SAFETY: the handle lives.
    let filters = unsafe { h5p::H5Pget_nfilters(how.0) };
    done(filters, "get the filters of a dataset")?;
    Ok(equal > 0 && filters == 0)
}

/// The first byte in the file of the chunk that begins at this element.
pub fn place_of_chunk(dataset: &Handle, offset: &[u64]) -> Result<u64> {
    // SAFETY: the handle lives.
    let axes = handle(unsafe { h5d::H5Dget_space(dataset.0) }, "get the extents of a dataset")?.axes()?;
    if axes != offset.len() {
        return Err(mistaken("a dataset has other axes"));
    }
    let (mut filters, mut place, mut size) = (0, NOWHERE, 0);
    let what = "get the place of a chunk";
    // SAFETY: the handle lives, the array has an entry for each axis, and the answers outlive the call.
    let told = unsafe {
        h5d::H5Dget_chunk_info_by_coord(dataset.0, offset.as_ptr(), &raw mut filters, &raw mut place, &raw mut size)
    };
    done(told, what)?;
    if place == NOWHERE { Err(failed(what)) } else { Ok(place) }
}

/// Writes the value at one position of a dataset with one axis.
pub fn write_at(dataset: &Handle, kind: Kind, position: u64, value: &Values) -> Result<()> {
    let (own, given) = (datatype(kind)?, Given::of(value, kind, Some(1))?);
    // SAFETY: the handle lives.
    let there = handle(unsafe { h5d::H5Dget_space(dataset.0) }, "get the extents of a dataset")?;
    let here = space(Some(&[1]), false)?;
    if there.axes()? != 1 {
        return Err(mistaken("a dataset of single values has one axis"));
    }
    there.select(&[position], &[1], &[1], &[1])?;
    // SAFETY: the handles live, and `given` has one value of this type.
    done(unsafe { h5d::H5Dwrite(dataset.0, own.0, here.0, there.0, 0, given.as_ptr()) }, "write a value")
}

/// Removes an attribute, if it is there.
pub fn forget(of: &Handle, key: &str) -> Result<()> {
    let name = c_text(key)?;
    // SAFETY: the handle lives, and the text ends with a byte 0.
    match unsafe { h5a::H5Aexists(of.0, name.as_ptr()) } {
        told if told < 0 => Err(failed(&format!("look for the attribute {key}"))),
        0 => Ok(()),
        // SAFETY: as before.
        _ => done(unsafe { h5a::H5Adelete(of.0, name.as_ptr()) }, &format!("remove the attribute {key}")),
    }
}

/// Writes an attribute; `length`: `None` for a single value.
pub fn attribute(of: &Handle, key: &str, kind: Kind, length: Option<u64>, values: &Values) -> Result<()> {
    let (name, own) = (c_text(key)?, datatype(kind)?);
    let shape = length.map(|length| [length]);
    let space = space(shape.as_ref().map(|shape| &shape[..]), false)?;
    let given = Given::of(values, kind, Some(length.unwrap_or(1)))?;
    // SAFETY: the handles live, and the text ends with a byte 0.
    let made = unsafe { h5a::H5Acreate2(of.0, name.as_ptr(), own.0, space.0, 0, 0) };
    let made = handle(made, &format!("create the attribute {key}"))?;
    // SAFETY: `given` has as many values of this type as the attribute.
    done(unsafe { h5a::H5Awrite(made.0, own.0, given.as_ptr()) }, &format!("write the attribute {key}"))
}
