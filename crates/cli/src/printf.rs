//! Values in the format of `printf`: `%8.3f`, `%d`, `[%g]`.
//!
//! | conversion | values |
//! |---|---|
//! | `%d` `%i` `%u` | whole numbers, in their own range |
//! | `%x` `%X` `%o` | whole numbers; negative ones as the two's complement of their type |
//! | `%f` `%e` `%g`, also `%F` `%E` `%G` | all numbers |
//! | `%s` | everything, in the shortest form that reads back equal; a precision cuts |
//!
//! Flags `-`, `+`, blank, `0`, `#`, a width and a precision mean what they mean in C; length modifiers (`%ld`, `%Lf`) are accepted and have no
//! effect, because values have types. `%%` is a percent sign; `\n`, `\t` and `\\` are a line end, a tab and a backslash. Both parts of a
//! complex number have the format.
//!
//! A formatter of its own: those that were found pad in quadratic time, and have no bound for widths or panic at the least 64-bit number.

use crate::format;
use std::iter::Peekable;
use std::str::Chars;
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{ElementType, Value};

/// Largest width and precision.
const MOST: usize = 1000;

/// A format of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printf {
    before: String,
    after: String,
    flags: Flags,
    width: usize,
    precision: Option<usize>,
    /// `d`, `x`, `X`, `o`, `f`, `e`, `g`, `F`, `E`, `G` or `s`.
    conversion: char,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Flags {
    left: bool,
    plus: bool,
    blank: bool,
    zero: bool,
    alternate: bool,
}

impl Printf {
    /// Reads a format.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub fn parse(text: &str) -> Result<Printf, String> {
        let mut before = String::new();
        let mut found: Option<Printf> = None;
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let plain = match (c, rest.peek()) {
                ('\\', Some('n')) => Some('\n'),
                ('\\', Some('t')) => Some('\t'),
                ('\\', Some('\\')) => Some('\\'),
                ('%', Some('%')) => Some('%'),
                ('%', _) => None,
                (c, _) => {
                    found.as_mut().map_or(&mut before, |f| &mut f.after).push(c);
                    continue;
                }
            };
            match plain {
                Some(plain) => {
                    rest.next();
                    found.as_mut().map_or(&mut before, |f| &mut f.after).push(plain);
                }
                None if found.is_some() => {
                    return Err(format!("'{text}' has two conversions; it formats one value, as '%8.3f'"));
                }
                None => found = Some(conversion(&mut rest, text)?),
            }
        }
        let found = found.ok_or_else(|| format!("'{text}' has no conversion, as '%8.3f'"))?;
        Ok(Printf { before, ..found })
    }

    /// Whether it formats values of a type.
    ///
    /// # Errors
    /// The types that it formats.
    pub fn check(&self, element: ElementType) -> Result<(), String> {
        let (c, name) = (self.conversion, element.name());
        match c {
            's' => Ok(()),
            'd' | 'x' | 'X' | 'o' if !(element.is_integer() || element == ElementType::Char) => {
                Err(format!("'%{c}' formats whole numbers, not type {name}; '%g' formats all numbers, '%s' everything"))
            }
            _ if element.is_text() => Err(format!("'%{c}' formats numbers, not type {name}; '%s' formats everything")),
            _ => Ok(()),
        }
    }

    /// A value in this format; values of types that [`Printf::check`] refuses as `%s`.
    pub fn text(&self, value: &Value) -> String {
        let both = |[re, im]: [f64; 2]| format!("({},{})", self.real(re), self.real(im));
        let middle = match (self.conversion, value) {
            ('s', _) | (_, Value::String(_)) => self.padded(self.cut(&format::exact(value)), false),
            (_, Value::Complex([re, im])) => both([f64::from(*re), f64::from(*im)]),
            (_, Value::DoubleComplex(parts)) => both(*parts),
            ('d' | 'x' | 'X' | 'o', _) => match whole(value) {
                Some((number, bits)) => self.whole(number, bits),
                None => self.padded(format::exact(value), false),
            },
            (_, value) => match value {
                Value::F32(v) => self.real(f64::from(*v)),
                Value::F64(v) => self.real(*v),
                Value::LongDouble(v) => self.real(long_double_to_f64(v)),
                other => whole(other).map_or_else(|| format::exact(other), |(number, _)| self.real(number as f64)),
            },
        };
        format!("{}{middle}{}", self.before, self.after)
    }

    fn cut(&self, text: &str) -> String {
        text.chars().take(self.precision.unwrap_or(usize::MAX)).collect()
    }

    /// In the width. `zeros`: zeros may fill it, behind the sign and the prefix.
    fn padded(&self, text: String, zeros: bool) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        if missing == 0 {
            return text;
        }
        if self.flags.left {
            return text + &" ".repeat(missing);
        }
        if !(zeros && self.flags.zero) {
            return " ".repeat(missing) + &text;
        }
        let front = text.len() - text.trim_start_matches(['+', '-', ' ']).len();
        let has_prefix = text[front..].starts_with("0x") || text[front..].starts_with("0X");
        let front = front + if has_prefix { 2 } else { 0 };
        format!("{}{}{}", &text[..front], "0".repeat(missing), &text[front..])
    }

    fn sign(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.flags.plus, self.flags.blank) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    /// - `bits`: of the value's type.
    fn whole(&self, number: i128, bits: u32) -> String {
        let pattern = (number as u128) & (u128::MAX >> (128 - bits));
        let (sign, prefix, digits) = match self.conversion {
            'x' => ("", "0x", format!("{pattern:x}")),
            'X' => ("", "0X", format!("{pattern:X}")),
            'o' => ("", "0", format!("{pattern:o}")),
            _ => (self.sign(number < 0), "", number.unsigned_abs().to_string()),
        };
        let digits = match self.precision {
            Some(0) if number == 0 => String::new(),
            least => format!("{digits:0>width$}", width = least.unwrap_or(1)),
        };
        let prefix = match self.conversion {
            'o' if digits.starts_with('0') => "",
            'x' | 'X' if number == 0 => "",
            _ => prefix,
        };
        let prefix = if self.flags.alternate { prefix } else { "" };
        self.padded(format!("{sign}{prefix}{digits}"), self.precision.is_none())
    }

    fn real(&self, v: f64) -> String {
        let is_upper = self.conversion.is_ascii_uppercase();
        let cased = |text: String| if is_upper { text.to_uppercase() } else { text };
        let sign = self.sign(v.is_sign_negative());
        if !v.is_finite() {
            let name = if v.is_nan() { "nan" } else { "inf" };
            return self.padded(cased(format!("{sign}{name}")), false);
        }
        let (v, precision) = (v.abs(), self.precision.unwrap_or(6));
        let digits = match self.conversion.to_ascii_lowercase() {
            'e' => scientific(v, precision, self.flags.alternate),
            'g' => general(v, precision, self.flags.alternate),
            _ if precision == 0 && self.flags.alternate => format!("{v:.0}."),
            _ => format!("{v:.precision$}"),
        };
        self.padded(cased(format!("{sign}{digits}")), true)
    }
}

/// What follows the percent sign.
fn conversion(rest: &mut Peekable<Chars<'_>>, text: &str) -> Result<Printf, String> {
    let mut flags = Flags::default();
    while let Some(flag) = rest.next_if(|c| "-+ 0#".contains(*c)) {
        match flag {
            '-' => flags.left = true,
            '+' => flags.plus = true,
            ' ' => flags.blank = true,
            '0' => flags.zero = true,
            _ => flags.alternate = true,
        }
    }
    let width = number(rest, text)?;
    let precision = match rest.next_if_eq(&'.') {
        Some(_) => Some(number(rest, text)?),
        None => None,
    };
    while rest.next_if(|c| "hlLqjzt".contains(*c)).is_some() {}
    let conversion = match rest.next() {
        Some('d' | 'i' | 'u') => 'd',
        Some(c @ ('x' | 'X' | 'o' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 's')) => c,
        Some(c) => return Err(format!("'{text}': no conversion '%{c}'; there are %d %x %o %f %e %g %s")),
        None => return Err(format!("'{text}' ends within a conversion")),
    };
    Ok(Printf { before: String::new(), after: String::new(), flags, width, precision, conversion })
}

/// A width or a precision; 0 if there is none.
fn number(rest: &mut Peekable<Chars<'_>>, text: &str) -> Result<usize, String> {
    let mut number = 0;
    while let Some(c) = rest.next_if(char::is_ascii_digit) {
        number = number * 10 + (c as usize - '0' as usize);
        if number > MOST {
            return Err(format!("'{text}': widths and precisions are {MOST} at most"));
        }
    }
    Ok(number)
}

/// A whole number, and the bits of its type.
fn whole(value: &Value) -> Option<(i128, u32)> {
    Some(match value {
        Value::I8(v) => (i128::from(*v), 8),
        Value::I16(v) => (i128::from(*v), 16),
        Value::I32(v) => (i128::from(*v), 32),
        Value::I64(v) => (i128::from(*v), 64),
        Value::U8(v) => (i128::from(*v), 8),
        Value::U16(v) => (i128::from(*v), 16),
        Value::U32(v) => (i128::from(*v), 32),
        Value::U64(v) => (i128::from(*v), 64),
        Value::Char(v) => (i128::from(*v as i8), 8),
        _ => return None,
    })
}

/// `1.500000e+00`.
fn scientific(v: f64, precision: usize, point: bool) -> String {
    let text = format!("{v:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = if point && precision == 0 { "." } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{point}e{sign}{:02}", exponent.abs())
}

/// As `%g`: the shorter of both forms, of so many significant digits.
fn general(v: f64, precision: usize, keeps_zeros: bool) -> String {
    let precision = precision.max(1);
    let rounded = format!("{v:.*e}", precision - 1);
    let exponent: i32 = rounded.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let is_plain = exponent >= -4 && exponent < precision as i32;
    let text = match is_plain {
        true => format!("{v:.*}", (precision as i32 - 1 - exponent).max(0) as usize),
        false => scientific(v, precision - 1, false),
    };
    if keeps_zeros {
        return text;
    }
    let (mantissa, exponent) = text.split_once('e').map_or((&*text, None), |(m, e)| (m, Some(e)));
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    exponent.map_or_else(|| mantissa.to_string(), |e| format!("{mantissa}e{e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: &str, value: Value) -> String {
        Printf::parse(format).unwrap().text(&value)
    }

    #[test]
    fn numbers_look_as_the_printf_of_the_system_prints_them() {
        let reals =
            [0.0, -0.0, 1.0, -1.5, 0.1, 123_456.789, 1e-5, 0.000_123_45, 9.999_999_5, 1e100, 5e-324, 999_999.5, 2.5];
        for format in [
            "%f", "%.0f", "%#.0f", "%8.3f", "%-9.2f|", "%+.1f", "% f", "%012.4f", "%e", "%.0e", "%.3E", "%15e", "%g",
            "%.3g", "%.10g", "%G", "%+012g", "<%g>", "%#.0e",
        ] {
            for v in reals {
                assert_eq!(text(format, Value::F64(v)), of_system(format, &format!("{v:.1100}")), "{format} of {v:?}");
            }
        }
        for format in [
            "%d", "%5d", "%-5d|", "%05d", "%+d", "% d", "%.4d", "%8.4d", "%i%%", "%x", "%X", "%#x", "%#010x", "%o",
            "%#o", "%.0d", "%f",
        ] {
            for v in [0i64, 7, -7, 255, 12345, i64::MIN, i64::MAX] {
                if format == "%f" && v.abs_diff(0) > 1 << 53 {
                    continue;
                }
                assert_eq!(text(format, Value::I64(v)), of_system(format, &v.to_string()), "{format} of {v}");
            }
        }
    }

    /// - `value`: in all its digits, because that program calculates with more of them than a double has.
    fn of_system(format: &str, value: &str) -> String {
        let printed = std::process::Command::new("printf").env("LC_ALL", "C").args([format, value]).output().unwrap();
        String::from_utf8(printed.stdout).unwrap()
    }

    #[test]
    fn every_type_has_a_format() {
        assert_eq!(text("%x", Value::I8(-1)), "ff");
        assert_eq!(text("%u", Value::U64(u64::MAX)), "18446744073709551615");
        assert_eq!(text("%ld\\n", Value::Char(200)), "-56\n");
        assert_eq!(text("%.1f", Value::Complex([1.0, -2.0])), "(1.0,-2.0)");
        assert_eq!(text("[%-6.2s]", Value::String(b"abc".to_vec())), "[ab    ]");
        assert_eq!(text("%6s", Value::F64(0.1)), "   0.1");
        assert_eq!([f64::NAN, f64::NEG_INFINITY].map(|v| text("%5.1f", Value::F64(v))), ["  nan", " -inf"]);
        assert_eq!(text("%05E", Value::F64(f64::INFINITY)), "  INF");
    }

    #[test]
    fn mistakes_are_named() {
        for (format, what) in [
            ("", "no conversion"),
            ("abc", "no conversion"),
            ("100%%", "no conversion"),
            ("%d %d", "two conversions"),
            ("%", "ends within"),
            ("%5", "ends within"),
            ("%n", "no conversion '%n'"),
            ("%99999999999999999999d", "1000 at most"),
            ("%.1001f", "1000 at most"),
        ] {
            let error = Printf::parse(format).unwrap_err();
            assert!(error.contains(what), "{format}: {error}");
        }
        let check = |format: &str, element| Printf::parse(format).unwrap().check(element);
        assert!(check("%d", ElementType::F64).unwrap_err().contains("whole numbers, not type double"));
        assert!(check("%f", ElementType::String).unwrap_err().contains("numbers"));
        assert!(check("%d", ElementType::Char).is_ok() && check("%f", ElementType::I32).is_ok());
        assert!(check("%s", ElementType::String).is_ok());
    }
}
