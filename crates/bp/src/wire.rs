//! Primitive fields: checked reading from untrusted bytes, plain appending.
//!
//! Every multi-byte number is in the byte order of the file's writer. Encoders use this machine's order, because payloads are
//! written from memory unchanged, except for lists of blocks that exist already ([`crate::listing`]); decoders read both. A [`Cursor`] never reads past its slice, and its errors contain the byte
//! of the failure.

use thalweg_types::{ByteOrder, Error, ErrorKind, Result, Value};

/// Reads consecutive fields from untrusted bytes.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    order: ByteOrder,
    base: u64,
}

macro_rules! number {
    ($name:ident, $type:ty) => {
        #[doc = concat!("The next `", stringify!($type), "`.\n\n# Errors\nAs [`Cursor::take`].")]
        #[inline]
        pub fn $name(&mut self, what: &str) -> Result<$type> {
            let bytes = self.take(size_of::<$type>(), what)?;
            let mut word = [0; size_of::<$type>()];
            word.copy_from_slice(bytes);
            Ok(match self.order {
                ByteOrder::Little => <$type>::from_le_bytes(word),
                ByteOrder::Big => <$type>::from_be_bytes(word),
            })
        }
    };
}

impl<'a> Cursor<'a> {
    /// A cursor over `bytes`, which are at byte `base` of their object (for errors).
    pub fn new(bytes: &'a [u8], order: ByteOrder, base: u64) -> Cursor<'a> {
        Cursor { bytes, at: 0, order, base }
    }

    /// The byte order.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Offset of the next byte in the object.
    pub fn place(&self) -> u64 {
        self.base.saturating_add(self.at as u64)
    }

    /// An error at the next byte.
    pub fn fail(&self, kind: ErrorKind, what: impl Into<String>) -> Error {
        Error::new(kind, what).at_byte(self.place())
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// `Torn` where fewer bytes are left; the cursor stays where it is.
    #[inline]
    pub fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8]> {
        match self.bytes[self.at..].get(..length) {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => Err(self.too_few(length, what)),
        }
    }

    /// Separate from [`Cursor::take`], which is then small enough to be inlined: decoding takes a fifth less time.
    #[cold]
    fn too_few(&self, length: usize, what: &str) -> Error {
        let left = self.left();
        self.fail(ErrorKind::Torn, format!("{what} needs {length} bytes, {left} are left"))
    }

    /// The next `length` bytes, the length itself read from the file.
    ///
    /// # Errors
    /// As [`Cursor::take`]; `Corrupt` for more bytes than memory can hold.
    pub fn take_u64(&mut self, length: u64, what: &str) -> Result<&'a [u8]> {
        match usize::try_from(length) {
            Ok(length) => self.take(length, what),
            Err(_) => Err(self.fail(ErrorKind::Corrupt, format!("{what} claims {length} bytes"))),
        }
    }

    /// A cursor over the next `length` bytes; this one moves behind them.
    ///
    /// # Errors
    /// As [`Cursor::take_u64`].
    pub fn inside(&mut self, length: u64, what: &str) -> Result<Cursor<'a>> {
        let base = self.place();
        Ok(Cursor { bytes: self.take_u64(length, what)?, at: 0, order: self.order, base })
    }

    number!(u8, u8);
    number!(u16, u16);
    number!(u32, u32);
    number!(u64, u64);
    number!(f64, f64);
    number!(i128, i128);

    /// A string with a 16-bit length in front.
    ///
    /// # Errors
    /// As [`Cursor::take`].
    pub fn str16(&mut self, what: &str) -> Result<&'a [u8]> {
        let length = self.u16(what)?;
        self.take(usize::from(length), what)
    }

    /// A name: as [`Cursor::str16`], bytes that are no UTF-8 replaced.
    ///
    /// # Errors
    /// As [`Cursor::take`].
    pub fn name(&mut self, what: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(self.str16(what)?).into_owned())
    }
}

/// Appending fields, in this machine's byte order unless [`Put::order`] is another one.
pub trait Put {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
    /// The order of bytes inside numbers.
    fn order(&self) -> ByteOrder {
        ByteOrder::NATIVE
    }
    /// Appends one byte.
    fn put_u8(&mut self, v: u8) {
        self.put(&[v]);
    }
    /// Appends 2 bytes.
    fn put_u16(&mut self, v: u16) {
        match self.order() {
            ByteOrder::Little => self.put(&v.to_le_bytes()),
            ByteOrder::Big => self.put(&v.to_be_bytes()),
        }
    }
    /// Appends 4 bytes.
    fn put_u32(&mut self, v: u32) {
        match self.order() {
            ByteOrder::Little => self.put(&v.to_le_bytes()),
            ByteOrder::Big => self.put(&v.to_be_bytes()),
        }
    }
    /// Appends 8 bytes.
    fn put_u64(&mut self, v: u64) {
        match self.order() {
            ByteOrder::Little => self.put(&v.to_le_bytes()),
            ByteOrder::Big => self.put(&v.to_be_bytes()),
        }
    }
    /// Appends 8 bytes.
    fn put_f64(&mut self, v: f64) {
        match self.order() {
            ByteOrder::Little => self.put(&v.to_le_bytes()),
            ByteOrder::Big => self.put(&v.to_be_bytes()),
        }
    }
    /// Appends a string with a 16-bit length in front. Longer strings are truncated; callers check them with [`check_str16`].
    fn put_str16(&mut self, text: &[u8]) {
        let text = &text[..text.len().min(usize::from(u16::MAX))];
        self.put_u16(text.len() as u16);
        self.put(text);
    }
    /// Appends a value as indexes have it: a text with a 16-bit length in front, else its number or both of its numbers.
    fn put_value(&mut self, value: &Value) {
        if let Value::String(text) = value {
            return self.put_str16(text);
        }
        let mut bytes = Vec::with_capacity(16);
        value.append_to(&mut bytes);
        if self.order() != ByteOrder::NATIVE {
            let element = value.element_type();
            let numbers = if element.is_complex() { 2 } else { 1 };
            bytes.chunks_exact_mut(element.size() as usize / numbers).for_each(<[u8]>::reverse);
        }
        self.put(&bytes);
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.put_str16(text),
            number => number.append_to(self),
        }
    }
}

/// Bytes with numbers in an order that may be another machine's.
#[derive(Debug, Clone)]
pub struct Ordered {
    /// The bytes so far.
    pub bytes: Vec<u8>,
    order: ByteOrder,
}

impl Ordered {
    /// No bytes yet.
    pub fn new(order: ByteOrder) -> Ordered {
        Ordered { bytes: Vec::new(), order }
    }
}

impl Put for Ordered {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn order(&self) -> ByteOrder {
        self.order
    }
}

/// Longest string that both foreign readers accept (bp3 section 5.3).
pub const LONGEST_STRING: usize = 32_767;

/// Refuses strings longer than [`LONGEST_STRING`].
///
/// # Errors
/// `OutOfBounds`, with `what` and its length.
pub fn check_str16(text: &[u8], what: &str) -> Result<()> {
    if text.len() > LONGEST_STRING {
        return Err(Error::new(
            ErrorKind::OutOfBounds,
            format!("{what} has {} bytes; at most {LONGEST_STRING} fit", text.len()),
        ));
    }
    Ok(())
}

/// Overwrites 8 bytes at `at`.
pub fn patch_u64(bytes: &mut [u8], at: usize, v: u64) {
    bytes[at..at + 8].copy_from_slice(&v.to_ne_bytes());
}
