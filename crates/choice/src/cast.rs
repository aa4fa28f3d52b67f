//! Values of one number type as values of another, in this machine's byte order.
//!
//! | from | to | rule |
//! |---|---|---|
//! | whole numbers | whole numbers | a value that does not fit is an error |
//! | whole numbers | real numbers | the nearest |
//! | real numbers, `long double` too | real numbers | the nearest; a finite value that would become infinite is an error |
//! | complex | complex | as real numbers |

use thalweg_types::value::long_double_to_f64;
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// The sorts of numbers.
#[derive(PartialEq)]
enum Sort {
    Whole,
    Real,
    Complex,
    None,
}

fn sort(element: ElementType) -> Sort {
    use ElementType::*;
    match element {
        I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | Char => Sort::Whole,
        F32 | F64 | LongDouble => Sort::Real,
        Complex | DoubleComplex => Sort::Complex,
        String | StringArray => Sort::None,
    }
}

/// Whether there is a cast.
pub fn is_possible(from: ElementType, to: ElementType) -> bool {
    let writable = !matches!(to, ElementType::Char | ElementType::LongDouble | ElementType::StringArray);
    from == to
        || writable
            && match (sort(from), sort(to)) {
                (Sort::Whole, Sort::Whole | Sort::Real) | (Sort::Real, Sort::Real) | (Sort::Complex, Sort::Complex) => {
                    true
                }
                (Sort::Whole | Sort::Real | Sort::Complex | Sort::None, _) => false,
            }
}

/// Casts values.
///
/// # Errors
/// `Unsupported` if there is no such cast; `OutOfBounds` for a value that does not fit.
/// # Cost
/// One pass, and memory for the result.
pub fn cast(from: ElementType, to: ElementType, bytes: &[u8]) -> Result<Vec<u8>> {
    if !is_possible(from, to) {
        return Err(Error::new(ErrorKind::Unsupported, format!("{from} values cannot become {to}")));
    }
    let mut out = Vec::with_capacity(bytes.len() / from.size().max(1) as usize * to.size() as usize);
    match (from, to) {
        _ if from == to => out.extend_from_slice(bytes),
        (ElementType::F64, ElementType::F32) => singles(bytes, &mut out)?,
        (ElementType::DoubleComplex, ElementType::Complex) => singles(bytes, &mut out)?,
        (ElementType::Complex, ElementType::DoubleComplex) => {
            for value in bytes.as_chunks::<4>().0 {
                out.extend_from_slice(&f64::from(f32::from_ne_bytes(*value)).to_ne_bytes());
            }
        }
        _ => {
            for value in bytes.chunks_exact(from.size() as usize) {
                one(from, to, value, &mut out)?;
            }
        }
    }
    Ok(out)
}

fn unfit(value: impl std::fmt::Display, to: ElementType) -> Error {
    Error::new(ErrorKind::OutOfBounds, format!("{value} is no {to}"))
}

/// Doubles as singles.
fn singles(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    for value in bytes.as_chunks::<8>().0 {
        let value = f64::from_ne_bytes(*value);
        let single = value as f32;
        if single.is_infinite() && value.is_finite() {
            return Err(unfit(value, ElementType::F32));
        }
        out.extend_from_slice(&single.to_ne_bytes());
    }
    Ok(())
}

/// A number before it gets its type.
enum Number {
    Whole(i128),
    Real(f64),
}

fn one(from: ElementType, to: ElementType, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    macro_rules! whole {
        ($t:ty) => {
            Number::Whole(i128::from(<$t>::from_ne_bytes(bytes.try_into().unwrap_or_default())))
        };
    }
    use ElementType::*;
    let number = match from {
        I8 => whole!(i8),
        I16 => whole!(i16),
        I32 => whole!(i32),
        I64 => whole!(i64),
        U8 | Char => whole!(u8),
        U16 => whole!(u16),
        U32 => whole!(u32),
        U64 => whole!(u64),
        F32 => Number::Real(f64::from(f32::from_ne_bytes(bytes.try_into().unwrap_or_default()))),
        F64 => Number::Real(f64::from_ne_bytes(bytes.try_into().unwrap_or_default())),
        LongDouble => Number::Real(long_double_to_f64(&bytes.try_into().unwrap_or_default())),
        Complex | DoubleComplex | String | StringArray => {
            return Err(Error::new(ErrorKind::Unsupported, format!("{from} values cannot become {to}")));
        }
    };
    macro_rules! put {
        ($t:ty, $value:expr) => {
            out.extend_from_slice(&<$t>::try_from($value).map_err(|_| unfit($value, to))?.to_ne_bytes())
        };
    }
    match (to, number) {
        (I8, Number::Whole(n)) => put!(i8, n),
        (I16, Number::Whole(n)) => put!(i16, n),
        (I32, Number::Whole(n)) => put!(i32, n),
        (I64, Number::Whole(n)) => put!(i64, n),
        (U8, Number::Whole(n)) => put!(u8, n),
        (U16, Number::Whole(n)) => put!(u16, n),
        (U32, Number::Whole(n)) => put!(u32, n),
        (U64, Number::Whole(n)) => put!(u64, n),
        (F64, Number::Whole(n)) => out.extend_from_slice(&(n as f64).to_ne_bytes()),
        (F32, Number::Whole(n)) => out.extend_from_slice(&(n as f32).to_ne_bytes()),
        (F64, Number::Real(x)) => out.extend_from_slice(&x.to_ne_bytes()),
        (F32, Number::Real(x)) => singles(&x.to_ne_bytes(), out)?,
        _ => return Err(Error::new(ErrorKind::Unsupported, format!("{from} values cannot become {to}"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubles(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    #[test]
    fn values_that_do_not_fit_are_errors_and_the_others_come_over() {
        let singles = cast(ElementType::F64, ElementType::F32, &doubles(&[1.5, f64::INFINITY, f64::NAN])).unwrap();
        let singles: Vec<f32> = singles.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
        assert!(singles[0] == 1.5 && singles[1].is_infinite() && singles[2].is_nan());
        let large = cast(ElementType::F64, ElementType::F32, &doubles(&[1e300])).unwrap_err();
        assert_eq!(large.kind(), ErrorKind::OutOfBounds);
        let narrow = |value: i64, to| cast(ElementType::I64, to, &value.to_ne_bytes());
        assert_eq!(narrow(-7, ElementType::I8).unwrap(), (-7i8).to_ne_bytes());
        assert_eq!(narrow(-7, ElementType::U16).unwrap_err().kind(), ErrorKind::OutOfBounds);
        assert_eq!(narrow(70_000, ElementType::U16).unwrap_err().kind(), ErrorKind::OutOfBounds);
        assert_eq!(narrow(3, ElementType::F64).unwrap(), 3f64.to_ne_bytes());
        let text = cast(ElementType::String, ElementType::F64, b"1").unwrap_err();
        assert_eq!(text.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn every_cast_that_is_possible_keeps_small_whole_numbers() {
        for from in ElementType::ALL {
            for to in ElementType::ALL.into_iter().filter(|to| is_possible(from, *to)) {
                let Ok(bytes) = cast(ElementType::I8, from, &5i8.to_ne_bytes()) else { continue };
                let there = cast(from, to, &bytes).unwrap();
                assert_eq!(there.len() as u64, to.size(), "{from} to {to}");
                if is_possible(to, from) {
                    assert_eq!(cast(to, from, &there).unwrap(), bytes, "{from} to {to}");
                }
            }
        }
    }

    #[test]
    fn parts_of_complex_numbers_are_cast_one_by_one() {
        let bytes = cast(ElementType::DoubleComplex, ElementType::Complex, &doubles(&[1.0, -2.5])).unwrap();
        assert_eq!(bytes, [1f32.to_ne_bytes(), (-2.5f32).to_ne_bytes()].concat());
        assert_eq!(cast(ElementType::Complex, ElementType::DoubleComplex, &bytes).unwrap(), doubles(&[1.0, -2.5]));
    }
}
