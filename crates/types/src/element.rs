//! Element types: the type of one number (or string) of a variable.
//!
//! Codes are those of BP version 3 (`docs/format/bp3.md`); names and aliases those ADIOS 1.x XML files use.

use std::fmt;

/// The order of bytes inside one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The order of the machine this runs on.
    pub const NATIVE: ByteOrder = if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
}

/// The type of one element of a variable or attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ElementType {
    /// Signed, 1 byte (`byte`).
    I8 = 0,
    /// Signed, 2 bytes (`short`).
    I16 = 1,
    /// Signed, 4 bytes (`integer`).
    I32 = 2,
    /// Signed, 8 bytes (`long`).
    I64 = 4,
    /// IEEE single (`real`).
    F32 = 5,
    /// IEEE double (`double`).
    F64 = 6,
    /// The C compiler's `long double`, 16 bytes, kept as bytes (`long double`).
    LongDouble = 7,
    /// Bytes of text, no terminator (`string`).
    String = 9,
    /// Two singles, real and imaginary (`complex`).
    Complex = 10,
    /// Two doubles, real and imaginary (`double complex`).
    DoubleComplex = 11,
    /// Several strings; attributes only (`string array`).
    StringArray = 12,
    /// Unsigned, 1 byte (`unsigned byte`).
    U8 = 50,
    /// Unsigned, 2 bytes (`unsigned short`).
    U16 = 51,
    /// Unsigned, 4 bytes (`unsigned integer`).
    U32 = 52,
    /// Unsigned, 8 bytes (`unsigned long`).
    U64 = 54,
    /// A byte of text as adios2 writes it (`char`); read, never written.
    Char = 55,
}

impl ElementType {
    /// Every type, in the order of the codes.
    pub const ALL: [ElementType; 16] = {
        use ElementType::*;
        [I8, I16, I32, I64, F32, F64, LongDouble, String, Complex, DoubleComplex, StringArray, U8, U16, U32, U64, Char]
    };

    /// The code stored in BP files.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The type with this code, or `None` for a code BP version 3 does not know.
    pub fn from_code(code: u8) -> Option<ElementType> {
        ElementType::ALL.into_iter().find(|t| t.code() == code)
    }

    /// Bytes of one element; 0 for strings and string arrays, whose elements have no fixed size.
    pub const fn size(self) -> u64 {
        use ElementType::*;
        match self {
            I8 | U8 | Char => 1,
            I16 | U16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 | Complex => 8,
            LongDouble | DoubleComplex => 16,
            String | StringArray => 0,
        }
    }

    /// Bytes of the part that byte order applies to: half an element for complex types.
    pub const fn word(self) -> u64 {
        match self {
            ElementType::Complex => 4,
            ElementType::DoubleComplex => 8,
            other => {
                if other.size() == 0 {
                    1
                } else {
                    other.size()
                }
            }
        }
    }

    /// Whole numbers: usable as a dimension.
    pub const fn is_integer(self) -> bool {
        use ElementType::*;
        matches!(self, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
    }

    /// Two parts, real and imaginary.
    pub const fn is_complex(self) -> bool {
        matches!(self, ElementType::Complex | ElementType::DoubleComplex)
    }

    /// Text rather than numbers.
    pub const fn is_text(self) -> bool {
        matches!(self, ElementType::String | ElementType::StringArray)
    }

    /// The name used in XML files, by `bpls` and by `thalweg ls`.
    pub const fn name(self) -> &'static str {
        use ElementType::*;
        match self {
            I8 => "byte",
            I16 => "short",
            I32 => "integer",
            I64 => "long long",
            F32 => "real",
            F64 => "double",
            LongDouble => "long double",
            String => "string",
            Complex => "complex",
            DoubleComplex => "double complex",
            StringArray => "string array",
            U8 => "unsigned byte",
            U16 => "unsigned short",
            U32 => "unsigned integer",
            U64 => "unsigned long long",
            Char => "char",
        }
    }

    /// Names and aliases, as ADIOS 1.13 accepts them in XML, without regard to case.
    pub const NAMES: &'static [(&'static str, ElementType)] = {
        use ElementType::*;
        &[
            ("byte", I8),
            ("integer*1", I8),
            ("short", I16),
            ("integer*2", I16),
            ("integer", I32),
            ("integer*4", I32),
            ("long", I64),
            ("long long", I64),
            ("integer*8", I64),
            ("unsigned byte", U8),
            ("unsigned integer*1", U8),
            ("unsigned short", U16),
            ("unsigned integer*2", U16),
            ("unsigned integer", U32),
            ("unsigned integer*4", U32),
            ("unsigned long", U64),
            ("unsigned long long", U64),
            ("unsigned integer*8", U64),
            ("float", F32),
            ("real", F32),
            ("real*4", F32),
            ("double", F64),
            ("real*8", F64),
            ("long double", LongDouble),
            ("real*16", LongDouble),
            ("complex", Complex),
            ("complex*8", Complex),
            ("double complex", DoubleComplex),
            ("complex*16", DoubleComplex),
            ("string", String),
            ("string*1", String),
            ("string array", StringArray),
        ]
    };

    /// The type an XML file names, in any letter case and with any run of blanks.
    pub fn parse(name: &str) -> Option<ElementType> {
        let wanted = name.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
        ElementType::NAMES.iter().find(|(n, _)| *n == wanted).map(|(_, t)| *t)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Turns numbers from one byte order to the other, in place. `word` is [`ElementType::word`].
pub fn swap_bytes(bytes: &mut [u8], word: u64) {
    if word > 1 {
        for number in bytes.chunks_exact_mut(word as usize) {
            number.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_finds_its_type_and_every_name_parses() {
        for t in ElementType::ALL {
            assert_eq!(ElementType::from_code(t.code()), Some(t));
            if t != ElementType::Char {
                assert_eq!(ElementType::parse(t.name()), Some(t), "{t}");
            }
        }
        assert_eq!(ElementType::from_code(3), None);
        assert_eq!(ElementType::parse("  Unsigned   LONG "), Some(ElementType::U64));
        assert_eq!(ElementType::parse("flaot"), None);
    }

    #[test]
    fn complex_numbers_swap_each_half() {
        let mut bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        swap_bytes(&mut bytes, ElementType::Complex.word());
        assert_eq!(bytes, [4, 3, 2, 1, 8, 7, 6, 5]);
    }
}
