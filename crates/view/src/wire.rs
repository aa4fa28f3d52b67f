//! The bytes of a pattern and of a view, for servers: a few bytes per repeat, whatever the number of blocks.
//!
//! Numbers are in the base-128 form of LEB128, 7 bits per byte, the lowest first; signed ones as 2 n, or -2 n - 1 if negative.
//!
//! | field | content |
//! |---|---|
//! | view | version 1, displacement, etype, then the pattern |
//! | pattern | signed lower bound, signed upper bound, node |
//! | bytes | 0, signed place, size |
//! | repeat | 1, signed place, count, signed stride, node |
//! | sequence | 2, signed place, number of items, the items |

use crate::datatype::DEEPEST;
use crate::pattern::{Kind, Node, Pattern};
use crate::view::View;
use thalweg_types::{Error, ErrorKind, Result};

const VERSION: u64 = 1;

fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn put_signed(out: &mut Vec<u8>, n: i64) {
    put(out, ((n << 1) ^ (n >> 63)) as u64);
}

fn put_node(out: &mut Vec<u8>, node: &Node) {
    match &node.kind {
        Kind::Bytes => {
            out.push(0);
            put_signed(out, node.at);
            put(out, node.size);
        }
        Kind::Repeat { count, stride, of } => {
            out.push(1);
            put_signed(out, node.at);
            put(out, *count);
            put_signed(out, *stride);
            put_node(out, of);
        }
        Kind::Sequence { items, .. } => {
            out.push(2);
            put_signed(out, node.at);
            put(out, items.len() as u64);
            items.iter().for_each(|item| put_node(out, item));
        }
    }
}

/// Bytes that are read from the front.
struct Bytes<'b> {
    all: &'b [u8],
    at: usize,
}

impl Bytes<'_> {
    fn fail(&self, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("a view that cannot be decoded: {what}")).at_byte(self.at as u64)
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.all.get(self.at).ok_or_else(|| self.fail("it ends early"))?;
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(self.fail("a number that is not in its shortest form, or has more than 64 bits"));
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(self.fail("a number of more than 64 bits"))
    }

    fn signed(&mut self) -> Result<i64> {
        let n = self.number()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    fn node(&mut self, depth: usize) -> Result<Node> {
        if depth > DEEPEST {
            return Err(self.fail("too many levels"));
        }
        let kind = self.byte()?;
        let at = self.signed()?;
        let node = match kind {
            0 => {
                let size = self.number()?;
                if size >= 1 << 62 {
                    return Err(self.fail("a run of more than 2^62 bytes"));
                }
                Node::bytes(0, size)
            }
            1 => {
                let (count, stride) = (self.number()?, self.signed()?);
                Node::repeat(&self.node(depth + 1)?, count, stride)?
            }
            2 => {
                let count = self.number()?;
                // An item has 3 bytes at least.
                if count > (self.all.len() - self.at) as u64 / 3 {
                    return Err(self.fail("more items than bytes"));
                }
                let items = (0..count).map(|_| self.node(depth + 1)).collect::<Result<Vec<_>>>()?;
                Node::sequence(items)?
            }
            _ => return Err(self.fail("an unknown node")),
        };
        node.moved(at)
    }

    fn pattern(&mut self) -> Result<Pattern> {
        let (lower, upper) = (self.signed()?, self.signed()?);
        if upper.checked_sub(lower).is_none() {
            return Err(self.fail("bounds of more than 63 bits"));
        }
        Ok(Pattern { node: self.node(0)?, lower, upper })
    }
}

impl View {
    /// The view as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, VERSION);
        put(&mut out, self.displacement());
        put(&mut out, self.etype());
        let pattern = self.pattern();
        put_signed(&mut out, pattern.lower);
        put_signed(&mut out, pattern.upper);
        put_node(&mut out, &pattern.node);
        out
    }

    /// The view that [`View::encode`] encoded; the bytes are not trusted.
    ///
    /// # Errors
    /// `Corrupt` for bytes that are no view, or that are left over; `Unsupported` for another version; `OutOfBounds` for bounds beyond
    /// 63 bits; as [`View::new`].
    /// # Cost
    /// Linear in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<View> {
        let mut bytes = Bytes { all: bytes, at: 0 };
        let version = bytes.number()?;
        if version != VERSION {
            return Err(Error::new(ErrorKind::Unsupported, format!("a view of version {version}")));
        }
        let (displacement, etype) = (bytes.number()?, bytes.number()?);
        let pattern = bytes.pattern()?;
        if bytes.at < bytes.all.len() {
            return Err(bytes.fail("bytes behind it"));
        }
        View::of_units(displacement, etype, pattern)
    }
}
