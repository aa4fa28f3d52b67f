//! What the fuzz targets share.

use memchr::memmem;
use std::sync::Arc;
use thalweg_bp::extension::{self, Directory, Tag};
use thalweg_bp::step_record;
use thalweg_bp::trailer;
use thalweg_bp::wire::Cursor;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Reader, index_only};
use thalweg_store::{Memory, Store, StoreExt};
use thalweg_types::checksum::{Crc32c, crc32c};
use thalweg_types::{BoundingBox, ByteOrder, ErrorKind, Result, Selection};

/// The first byte of an input, taken apart, and the bytes behind it, mended where it says so.
pub fn input(data: &[u8]) -> Option<(ByteOrder, Vec<u8>)> {
    let (how, bytes) = data.split_first()?;
    let order = if how & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let mut bytes = bytes.to_vec();
    if how & 2 != 0 {
        mend(&mut bytes, order);
    }
    Some((order, bytes))
}

/// Stands between the bytes of a metadata file and those of its subfiles in an input.
pub const SUBFILE: &[u8; 8] = b"\nsubfile";

/// A file of these bytes in memory, subfiles included, as `f.bp`.
pub fn file(bytes: &[u8]) -> (Arc<Memory>, Arc<dyn Layout>) {
    let store = Arc::new(Memory::new());
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(at) = memmem::find(rest, SUBFILE).filter(|_| parts.len() < 4) {
        parts.push(&rest[..at]);
        rest = &rest[at + SUBFILE.len()..];
    }
    parts.push(rest);
    store.write_all("f.bp", parts[0]).expect("memory");
    if parts.len() > 1 {
        store.make_folder("f.bp.dir").expect("memory");
    }
    for (i, part) in parts[1..].iter().enumerate() {
        store.write_all(&format!("f.bp.dir/f.bp.{i}"), part).expect("memory");
    }
    let layout = Direct::new(store.clone()).expect("memory can be written anywhere");
    (store, Arc::new(layout))
}

fn word(bytes: &[u8], at: u64, order: ByteOrder) -> Option<u32> {
    Cursor::new(bytes.get(at as usize..)?, order, 0).u32("").ok()
}

fn long(bytes: &[u8], at: u64, order: ByteOrder) -> Option<u64> {
    Cursor::new(bytes.get(at as usize..)?, order, 0).u64("").ok()
}

fn put(bytes: &mut [u8], at: u64, value: u32, order: ByteOrder) {
    let value = if order == ByteOrder::Little { value.to_le_bytes() } else { value.to_be_bytes() };
    if let Some(place) = bytes.get_mut(at as usize..at as usize + 4) {
        place.copy_from_slice(&value);
    }
}

/// First bytes behind each place where `mark` stands.
fn ends(bytes: &[u8], mark: &[u8]) -> Vec<u64> {
    memmem::find_iter(bytes, mark).map(|i| (i + mark.len()) as u64).collect()
}

/// Sets every checksum right whose place is recognised, so that made-up bytes come past it.
pub fn mend(bytes: &mut [u8], order: ByteOrder) {
    // A bound on the work: bytes full of marks would take quadratic time.
    const MOST: usize = 200;
    for end in ends(bytes, trailer::END).into_iter().take(MOST) {
        mend_trailer(bytes, end, order);
    }
    for end in ends(bytes, step_record::END).into_iter().take(MOST) {
        mend_step_record(bytes, end, order);
    }
    for end in ends(bytes, extension::END).into_iter().take(MOST) {
        mend_extension(bytes, end, order);
    }
}

fn mend_trailer(bytes: &mut [u8], end: u64, order: ByteOrder) -> Option<()> {
    let start = end.checked_sub(u64::from(word(bytes, end.checked_sub(8)?, order)?))?;
    let n = word(bytes, start + 48, order)?;
    if trailer::length(n as usize) != end - start {
        return None;
    }
    let group = long(bytes, start + 16, order)?.min(start);
    let mut framing = Crc32c::new();
    let mut done = group;
    for i in 0..u64::from(n) {
        let at = start + 56 + 20 * i;
        let from = group.checked_add(long(bytes, at, order)?)?;
        let to = from.checked_add(long(bytes, at + 8, order)?)?;
        framing.update(bytes.get(done as usize..usize::try_from(from).ok()?)?);
        let crc = crc32c(bytes.get(from as usize..usize::try_from(to).ok()?)?);
        put(bytes, at + 16, crc, order);
        done = to;
    }
    framing.update(bytes.get(done as usize..start as usize)?);
    put(bytes, start + 52, framing.finish(), order);
    let own = crc32c(&bytes[start as usize..end as usize - 12]);
    put(bytes, end - 12, own, order);
    Some(())
}

fn mend_step_record(bytes: &mut [u8], end: u64, order: ByteOrder) -> Option<()> {
    let tail = end.checked_sub(step_record::TAIL)?;
    let start = long(bytes, tail, order)?;
    let body = crc32c(bytes.get(usize::try_from(start).ok()?..tail as usize)?);
    put(bytes, tail + 36, body, order);
    let own = crc32c(&bytes[tail as usize..tail as usize + 40]);
    put(bytes, tail + 40, own, order);
    Some(())
}

fn mend_extension(bytes: &mut [u8], end: u64, order: ByteOrder) -> Option<()> {
    let tail = end.checked_sub(extension::TAIL)?;
    let start = long(bytes, tail + 8, order)?;
    let index = end.checked_add(long(bytes, tail + 24, order)?)?;
    mend_directory(bytes, start, tail, end, index, order);
    mend_sums(bytes, start, tail, order);
    if let Some(index) = usize::try_from(index).ok().and_then(|i| bytes.get(end as usize..i)) {
        let crc = crc32c(index);
        put(bytes, tail + 32, crc, order);
    }
    let mut own = Crc32c::new();
    own.update(bytes.get(usize::try_from(start).ok()?..tail as usize)?);
    own.update(&bytes[tail as usize + 8..tail as usize + 36]);
    put(bytes, tail + 36, own.finish(), order);
    Some(())
}

/// The checksums in the directory, which is the first record.
fn mend_directory(bytes: &mut [u8], start: u64, tail: u64, end: u64, stop: u64, order: ByteOrder) -> Option<()> {
    let at = start.checked_add(extension::HEAD)?;
    if word(bytes, at, order)? != Tag::Directory as u32 {
        return None;
    }
    let at = at + 16;
    let body = bytes.get(at as usize..tail as usize)?.to_vec();
    let mut c = Cursor::new(&body, order, 0);
    c.take(24, "").ok()?;
    let directory = Directory::decode(&mut Cursor::new(&body, order, 0)).ok()?;
    for e in &directory.entries {
        let crc_at = at + c.position() as u64 + 4;
        c.take(36, "").ok()?;
        for _ in 0..3 {
            c.str16("").ok()?;
        }
        let from = end.checked_add(e.extent.offset)?;
        let to = from.checked_add(e.extent.length)?;
        if let Some(entry) = bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?) {
            let crc = crc32c(entry);
            put(bytes, crc_at, crc, order);
        }
    }
    // Of the process group index and of what is left: heads, tag, minifooter.
    let footer = stop.checked_sub(28)?;
    let [groups, variables, attributes] = [0, 8, 16].map(|n| long(bytes, footer.saturating_add(n), order));
    let part = |from: u64, to: u64| bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?);
    let (variables, attributes) = (variables?, attributes?);
    let crc = crc32c(part(groups?, variables)?);
    let rest = extension::crc_of([
        part(variables, variables.checked_add(12)?)?,
        part(attributes, attributes.checked_add(12)?)?,
        part(stop.checked_sub(56)?, stop)?,
    ]);
    put(bytes, at + 16, crc, order);
    put(bytes, at + 20, rest, order);
    Some(())
}

/// The checksums of sums, which are the last record.
fn mend_sums(bytes: &mut [u8], start: u64, tail: u64, order: ByteOrder) -> Option<()> {
    let mut sums = tail.checked_sub(20 * u64::from(word(bytes, start.checked_add(12)?, order)?))?;
    let mut at = start.checked_add(extension::HEAD)?;
    while at < sums {
        let next = at.checked_add(16)?.checked_add(long(bytes, at + 8, order)?).filter(|next| *next <= sums)?;
        let mut place = at + 16;
        while word(bytes, at, order)? == Tag::SumsOf as u32 && place + 16 <= next {
            let end = sums.checked_add(long(bytes, place + 8, order)?).filter(|end| *end <= tail)?;
            let crc = crc32c(bytes.get(usize::try_from(sums).ok()?..usize::try_from(end).ok()?)?);
            put(bytes, place + 4, crc, order);
            (place, sums) = (place + 16, end);
        }
        at = next;
    }
    Some(())
}

/// Largest selection that is read.
const MUCH: u64 = 4 << 20;

/// Asks a reader for everything it can give, within bounds. Returns the first failure that speaks of damage.
pub fn read_everything(layout: &Arc<dyn Layout>, reader: &Reader) -> Option<thalweg_types::Error> {
    let mut damage = None;
    let mut note = |e: thalweg_types::Error| {
        if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Torn | ErrorKind::OutOfBounds) {
            damage.get_or_insert(e);
        }
    };
    if let Err(e) = reader.process_groups() {
        note(e);
    }
    for head in reader.attributes().iter().take(40) {
        reader.attribute(&head.name).map(drop).unwrap_or_else(&mut note);
    }
    for head in reader.variables().iter().take(40) {
        read_variable(reader, &head.name, &mut note).unwrap_or_else(&mut note);
    }
    // What the index says of places is written into view files.
    thalweg_views::zarr::references(reader, Some("file:///f.bp")).map(drop).unwrap_or_else(&mut note);
    thalweg_views::hdf5::view(reader).map(drop).unwrap_or_else(&mut note);
    if let Ok(index) = index_only(&**layout, "f.bp") {
        // What was made from a file that opens must open.
        let (_, alone) = file(&index);
        Reader::open(alone, "f.bp").expect("an index file opens");
    }
    damage
}

fn read_variable(reader: &Reader, name: &str, note: &mut impl FnMut(thalweg_types::Error)) -> Result<()> {
    let v = reader.variable(name)?;
    reader.summary(name, 0..u64::MAX).map(drop).unwrap_or_else(&mut *note);
    for step in v.steps.iter().copied().take(4) {
        let blocks = reader.blocks(name, step)?;
        if blocks.is_empty() {
            continue;
        }
        // A few bytes may well stand for gigabytes, which reading any of them takes.
        let size = v.element.size().max(1);
        if v.transform.is_some() && blocks.iter().any(|b| b.elements() > MUCH / size) {
            continue;
        }
        let shape = reader.shape(name, step)?;
        let mut selections = vec![Selection::All, Selection::Block(0), Selection::Block(blocks.len() as u64 - 1)];
        if shape.iter().all(|n| *n > 0) {
            let corner = BoundingBox::new(vec![0; shape.len()], vec![1; shape.len()]);
            let last: Vec<u64> = shape.iter().map(|n| n - 1).collect();
            let half = BoundingBox::new(
                shape.iter().map(|n| n / 2).collect::<Vec<_>>(),
                shape.iter().map(|n| (n - n / 2).min(7)).collect::<Vec<_>>(),
            );
            selections.extend([
                Selection::Box(corner),
                Selection::Box(half),
                Selection::Points(vec![last, vec![0; shape.len()]]),
            ]);
        }
        for selection in &selections {
            match reader.length(name, step, selection) {
                Ok(length) if length <= MUCH => {
                    reader.read_to_vec(name, step, selection).map(drop).unwrap_or_else(&mut *note);
                }
                // Scalars and local arrays have no boxes.
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::OutOfBounds => {}
                Err(e) => note(e),
            }
        }
        for block in blocks.iter().take(4) {
            drop(reader.writer(block));
        }
        drop(reader.value(name, step));
    }
    Ok(())
}

/// A cursor over everything.
pub fn cursor(bytes: &[u8], order: ByteOrder) -> Cursor<'_> {
    Cursor::new(bytes, order, 0)
}
