//! Objects of a layout as bytes of the format, and the names of subfiles.

use crate::window::{Window, Windows};
use std::io::IoSliceMut;
use std::sync::Arc;
use thalweg_bp::source::Source;
use thalweg_layout::{Layout, Life, ReadObject};
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

/// An object open for reading, as long as it was when it was opened.
#[derive(Clone)]
pub struct Object {
    /// Its path, for messages.
    pub path: Arc<str>,
    read: Arc<dyn ReadObject>,
    length: u64,
    /// Bytes that were read already.
    windows: Windows,
    /// Bytes at its end, read when it was opened.
    tail: Windows,
}

/// Most bytes that are read from the end of a file when it is opened, where a request costs as much.
const TAIL: u64 = 1 << 20;

impl Object {
    /// Opens it.
    ///
    /// # Errors
    /// `NotFound`, and other failures of the layout.
    /// # Cost
    /// On far stores, an object shorter than the cost of a request is read whole, so that no further request is made for it.
    pub fn open(layout: &dyn Layout, path: &str) -> Result<Object> {
        let read = layout.open_read(path).map_err(|e| e.in_object(path))?;
        let length = read.length().map_err(|e| e.in_object(path))?;
        let (windows, tail) = Default::default();
        let object = Object { path: path.into(), read: read.into(), length, windows, tail };
        match object.read.at_hand() {
            0 if length <= layout.request_cost(path).min(TAIL) => object.with_tail(length),
            _ => Ok(object),
        }
    }

    /// As [`Object::open`], of a file that begins to be read at its end: where requests cost much, as many bytes from there
    /// as a request costs are read at once.
    ///
    /// # Errors
    /// As [`Object::open`].
    pub fn open_at_end(layout: &dyn Layout, path: &str) -> Result<Object> {
        let object = Object::open(layout, path)?;
        // More than is in memory may not be needed.
        let tail = match object.read.at_hand() {
            0 => layout.request_cost(path).min(TAIL),
            there => there,
        };
        match object.tail.is_empty() {
            true => object.with_tail(tail),
            false => Ok(object),
        }
    }

    fn with_tail(self, bytes: u64) -> Result<Object> {
        let bytes = bytes.min(self.length);
        if bytes == 0 {
            return Ok(self);
        }
        let start = self.length - bytes;
        let mut tail = vec![0; bytes as usize];
        self.read.read_exact_at(start, &mut tail).map_err(|e| e.in_object(&*self.path))?;
        Ok(Object { tail: Windows::new(vec![Window { start, bytes: tail }]), ..self })
    }

    /// Bytes that were read already.
    fn known(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.windows.get(offset, length).or_else(|| self.tail.get(offset, length))
    }

    /// The same object, of which these bytes were read already.
    pub(crate) fn with_windows(self, windows: Windows) -> Object {
        Object { windows, ..self }
    }

    /// The same object, with its present length.
    ///
    /// # Errors
    /// Errors of the layout, if it cannot return the length.
    pub fn now(&self) -> Result<Object> {
        let length = self.read.length().map_err(|e| e.in_object(&*self.path))?;
        let tail = if length == self.length { self.tail.clone() } else { Windows::default() };
        Ok(Object { length, tail, ..self.clone() })
    }

    /// Whether it is shorter by now, so that a failed read was due to truncated bytes.
    pub fn was_cut(&self) -> bool {
        self.now().is_ok_and(|now| now.length < self.length)
    }

    /// The same object, with its length updated if it was shorter than `end` when it was opened.
    ///
    /// # Errors
    /// As [`Object::now`].
    pub fn reaching(self, end: u64) -> Result<Object> {
        if end <= self.length { Ok(self) } else { self.now() }
    }

    /// Fills pieces of memory, one after the other, with the bytes from `offset` on.
    ///
    /// # Errors
    /// `Torn` where the object ends before the pieces are full; the failure of the read.
    pub fn read_pieces(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Result<()> {
        let wanted: usize = pieces.iter().map(|p| p.len()).sum();
        if let Some(mut bytes) = self.known(offset, wanted) {
            for piece in pieces {
                let (its, rest) = bytes.split_at(piece.len());
                piece.copy_from_slice(its);
                bytes = rest;
            }
            return Ok(());
        }
        let got = self.read.read_vectored_at(offset, pieces).map_err(|e| e.in_object(&*self.path))?;
        if got == wanted {
            return Ok(());
        }
        let what = format!("cannot read {wanted} bytes from byte {offset}: the object ends");
        Err(Error::new(ErrorKind::Torn, what).in_object(&*self.path).at_byte(offset.saturating_add(got as u64)))
    }

    /// [`ReadObject::picks`].
    pub fn picks(&self) -> bool {
        self.read.picks()
    }

    /// Whether these bytes were read before.
    pub fn has(&self, offset: u64, length: u64) -> bool {
        usize::try_from(length).is_ok_and(|length| self.known(offset, length).is_some())
    }

    /// Fills `out` with the bytes of a view from `start` on.
    ///
    /// # Errors
    /// `Torn` where the object ends before `out` is full; the failure of the read.
    pub fn pick(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<()> {
        let got = self.read.read_view(view, start, out).map_err(|e| e.in_object(&*self.path))?;
        if got == out.len() as u64 {
            return Ok(());
        }
        let what = format!("{} bytes of a block are read, {got} are there: the object ends", out.len());
        let at = view.file_offset(start.saturating_add(got)).unwrap_or(view.displacement());
        Err(Error::new(ErrorKind::Torn, what).in_object(&*self.path).at_byte(at))
    }

    /// Whether a process still extends the object, if its store can determine that.
    ///
    /// # Errors
    /// The layout's, where the look fails.
    pub fn life(&self) -> Result<Life> {
        self.read.life().map_err(|e| e.in_object(&*self.path))
    }
}

impl Source for Object {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        if let Some(bytes) = self.known(offset, out.len()) {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        self.read.read_exact_at(offset, out).map_err(|e| e.in_object(&*self.path))
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.read.stored_before(offset).map_err(|e| e.in_object(&*self.path))
    }
}

/// The first bytes of a source, as if it ended there.
pub struct Before<'a, S: Source + ?Sized> {
    /// The source.
    pub source: &'a S,
    /// Where it is to end.
    pub end: u64,
}

impl<S: Source + ?Sized> Source for Before<'_, S> {
    fn length(&self) -> u64 {
        self.end.min(self.source.length())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > self.length()) {
            return Err(Error::new(ErrorKind::Torn, format!("{} bytes lie beyond the end", out.len())).at_byte(offset));
        }
        self.source.read(offset, out)
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.source.stored_before(offset)
    }
}

/// The folder of subfiles of a metadata file.
pub fn subfile_folder(path: &str) -> String {
    format!("{path}.dir")
}

/// The path of subfile `number`: `a/b.bp` has `a/b.bp.dir/b.bp.<number>`.
pub fn subfile(path: &str, number: u32) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    format!("{path}.dir/{last}.{number}")
}

/// The numbers of the subfiles that are there, rising. None where there is no such folder.
///
/// # Errors
/// Errors of listing the folder, but `NotFound` and `InvalidArgument`, which mean that there is none.
pub fn subfiles(layout: &dyn Layout, path: &str) -> Result<Vec<u32>> {
    let names = match layout.list(&subfile_folder(path)) {
        Ok(names) => names,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let last = path.rsplit('/').next().unwrap_or(path);
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|n| n.strip_prefix(last)?.strip_prefix('.'))
        .filter(|n| *n == "0" || !n.starts_with('0'))
        .filter_map(|n| n.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subfiles_take_their_name_from_the_metadata_file() {
        assert_eq!(subfile("runs/a.bp", 7), "runs/a.bp.dir/a.bp.7");
        assert_eq!(subfile("a.bp", 0), "a.bp.dir/a.bp.0");
    }

    #[test]
    fn bytes_behind_the_end_of_a_view_are_not_there() {
        let bytes = vec![1u8, 2, 3, 4];
        let view = Before { source: &bytes, end: 3 };
        let mut out = [0; 2];
        view.read(1, &mut out).unwrap();
        assert_eq!(out, [2, 3]);
        assert_eq!(view.read(2, &mut out).unwrap_err().kind(), ErrorKind::Torn);
    }
}
