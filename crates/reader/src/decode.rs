//! Transformed blocks: decoding their values from the bytes of a file. [`crate::fetch`] chooses the blocks of a read and how many are
//! decoded at a time.

use thalweg_bp::characteristic::Transform;
use thalweg_bp::pass;
use thalweg_bp::statistics::{Level, Statistics};
use thalweg_transform::Block;
use thalweg_transform::error_bound::range_of;
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// A block before its transform, dimensions slowest first; in the file they are fastest first if `fortran` is set.
pub(crate) fn before(mut transform: Transform, fortran: bool) -> Transform {
    if fortran {
        transform.shape = transform.shape.reversed();
    }
    transform
}

fn block_of(transform: &Transform) -> Block<'_> {
    // Decoding a block does not need the name.
    Block { name: "", element: transform.element, extents: &transform.shape.local }
}

/// Bytes of the block's values, refused where so many stored bytes cannot give them.
fn size(transform: &Transform, payload: u64) -> Result<u64> {
    let block = block_of(transform);
    thalweg_transform::check(&transform.uid, &transform.metadata, &block, payload)?;
    block.bytes()
}

/// Whether decoding the block needs memory in proportion to its stored bytes, for callers that only inspect it.
pub(crate) fn worthwhile(transform: &Transform, payload: u64) -> Result<bool> {
    const MUCH: u64 = 64 << 20;
    let bytes = size(transform, payload)?;
    Ok(bytes <= MUCH || bytes / 1024 <= payload)
}

/// The values of a block, in the file's byte order. `transform`: see [`before`].
///
/// # Errors
/// `Corrupt` where the bytes don't give the block, `Unsupported` for a transform that isn't known, `NoMemory`.
pub(crate) fn values(transform: &Transform, order: ByteOrder, payload: &[u8]) -> Result<Vec<u8>> {
    let mut out = zeros(size(transform, payload.len() as u64)?)?;
    thalweg_transform::decode(&transform.uid, &transform.metadata, &block_of(transform), order, payload, &mut out)?;
    Ok(out)
}

/// Checks the error record of a block, if it has one: fields that contradict each other or the bound, and range and statistics that the
/// values do not have.
///
/// - `values`: the block's values, in byte order `order`; `statistics`: the recorded ones.
///
/// # Errors
/// `Corrupt`, with what contradicts.
pub(crate) fn check_errors(
    transform: &Transform,
    statistics: Option<&Statistics>,
    order: ByteOrder,
    values: &[u8],
) -> Result<()> {
    let Some((_, record)) = thalweg_transform::error_record(&transform.uid, &transform.metadata)? else {
        return Ok(());
    };
    record.check()?;
    if order != ByteOrder::NATIVE || values.is_empty() {
        return Ok(());
    }
    if let Some(range) = range_of(transform.element, values).filter(|_| !record.range.is_nan()) {
        // Both extremes may have moved by the largest error, and the differences are rounded.
        let possible = 2.0 * record.largest + 4.0 * f64::EPSILON * range;
        if (range - record.range).abs() > possible {
            let what = format!("the error record has the range {:?}, the values have {range:?}", record.range);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
    }
    let read = pass::look(values, transform.element, Level::MinMax).statistics;
    if let (Some(known), Some(read)) = (statistics.filter(|s| s.level != Level::Off), read)
        && read.finite > 0
        && (&known.min, &known.max) != (&read.min, &read.max)
    {
        let what = "the recorded minimum and maximum are not those of the values that are read";
        return Err(Error::new(ErrorKind::Corrupt, what));
    }
    Ok(())
}

fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let refuse = || Error::new(ErrorKind::NoMemory, format!("no memory for a block of {bytes} bytes"));
    let n = usize::try_from(bytes).map_err(|_| refuse())?;
    // Reserved first, so that too large a request is an error; then allocated as zeros, which cost nothing until they are
    // touched.
    Vec::<u8>::new().try_reserve_exact(n).map_err(|_| refuse())?;
    Ok(vec![0; n])
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_bp::shape::Shape;
    use thalweg_transform::error_bound::{BoundedForm, ErrorBound, ErrorRecord};
    use thalweg_types::{ElementType, Value};

    const VALUES: [f64; 4] = [1.0, 2.5, 4.0, 5.0];

    /// What is found of a block of [`VALUES`] with this record and minimum.
    fn found(record: ErrorRecord, min: f64) -> String {
        let mut metadata = Vec::new();
        record.append_to(&mut metadata);
        let shape = Shape::global([4], [4], [0]);
        let transform = Transform { uid: "zfp".to_string(), element: ElementType::F64, shape, metadata };
        let bytes: Vec<u8> = VALUES.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let mut statistics = pass::look(&bytes, ElementType::F64, Level::Full).statistics.unwrap();
        statistics.min = Value::F64(min);
        let checked = check_errors(&transform, Some(&statistics), ByteOrder::NATIVE, &bytes);
        checked.map_or_else(|e| e.what().to_string(), |()| String::new())
    }

    #[test]
    fn records_and_statistics_that_the_values_contradict_are_found() {
        let (bound, form) = (ErrorBound::Absolute(0.25), BoundedForm::Encoded);
        let good = ErrorRecord { bound, allowed: 0.25, largest: 0.125, range: 4.25, form, lossless: None };
        assert_eq!(found(good, 1.0), "");
        assert!(found(good, 1.5).contains("minimum and maximum"));
        assert!(found(ErrorRecord { range: 4.5, ..good }, 1.0).contains("has the range 4.5, the values have 4.0"));
        assert!(found(ErrorRecord { largest: 0.5, ..good }, 1.0).contains("exceeds the bound of 0.25"));
        assert!(found(ErrorRecord { allowed: 0.5, ..good }, 1.0).contains("allows 0.5"));
        let exact = ErrorRecord { largest: 0.0, range: 4.0, form: BoundedForm::Pco, ..good };
        assert_eq!(found(exact, 1.0), "");
        assert!(found(ErrorRecord { range: 4.25, ..exact }, 1.0).contains("has the range"));
        assert!(found(ErrorRecord { largest: 0.1, ..exact }, 1.0).contains("without loss"));
    }
}
