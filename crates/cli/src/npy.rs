//! NPY files: one array in NumPy's format, version 1.0 (2.0 for a long header), row-major.

use std::io::{self, Write};
use thalweg_types::{ByteOrder, ElementType};

/// NumPy's name of an element type in this machine's byte order; `None` for text.
pub fn descr(element: ElementType) -> Option<String> {
    use ElementType::*;
    let kind = match element {
        I8 | I16 | I32 | I64 | Char => 'i',
        U8 | U16 | U32 | U64 => 'u',
        F32 | F64 | LongDouble => 'f',
        Complex | DoubleComplex => 'c',
        String | StringArray => return None,
    };
    let order = match ByteOrder::NATIVE {
        _ if element.size() == 1 => '|',
        ByteOrder::Little => '<',
        ByteOrder::Big => '>',
    };
    Some(format!("{order}{kind}{}", element.size()))
}

/// Writes everything in front of the values, which follow row-major in this machine's byte order.
pub fn write_header(out: &mut impl Write, descr: &str, shape: &[u64]) -> io::Result<()> {
    let comma = if shape.len() == 1 { "," } else { "" };
    let extents = shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}{comma}), }}");
    let long = header.len() + 1 + 10 + 64 > usize::from(u16::MAX);
    let front = if long { 12 } else { 10 };
    while (front + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    out.write_all(b"\x93NUMPY")?;
    if long {
        out.write_all(&[2, 0])?;
        out.write_all(&(header.len() as u32).to_le_bytes())?;
    } else {
        out.write_all(&[1, 0])?;
        out.write_all(&(header.len() as u16).to_le_bytes())?;
    }
    out.write_all(header.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_what_numpy_reads() {
        let mut out = Vec::new();
        write_header(&mut out, &descr(ElementType::F64).unwrap(), &[5]).unwrap();
        assert_eq!(&out[..8], b"\x93NUMPY\x01\x00");
        assert_eq!(out.len() % 64, 0);
        assert_eq!(usize::from(u16::from_le_bytes([out[8], out[9]])), out.len() - 10);
        let text = std::str::from_utf8(&out[10..]).unwrap();
        let expected = if ByteOrder::NATIVE == ByteOrder::Little { "<f8" } else { ">f8" };
        assert!(
            text.starts_with(&format!("{{'descr': '{expected}', 'fortran_order': False, 'shape': (5,), }}")),
            "{text}"
        );
        assert!(text.ends_with('\n'));
        let mut scalar = Vec::new();
        write_header(&mut scalar, "|i1", &[]).unwrap();
        assert!(String::from_utf8_lossy(&scalar).contains("'shape': (), }"));
    }
}
