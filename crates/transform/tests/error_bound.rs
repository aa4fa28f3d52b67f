//! Blocks with an error bound keep to it or are stored without loss, and their records say which, and by how much.

use proptest::prelude::*;
use thalweg_params::Parameters;
use thalweg_transform::codec::Done;
use thalweg_transform::error_bound::{
    self, Bounded, BoundedForm, ErrorBound, ErrorRecord, Lossless, largest_error, range_of,
};
use thalweg_transform::{Block, Codec, Encode, Encoded, Spec, Stored, check, decode, encode, error_record};
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result};

fn spec(text: &str) -> Spec {
    Spec::parse(text).unwrap().unwrap()
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn bytes_of(element: ElementType, values: &[f64]) -> Vec<u8> {
    match element {
        ElementType::F32 => values.iter().flat_map(|v| (*v as f32).to_ne_bytes()).collect(),
        _ => doubles(values),
    }
}

fn values_of(element: ElementType, bytes: &[u8]) -> Vec<f64> {
    match element {
        ElementType::F32 => {
            bytes.chunks_exact(4).map(|b| f64::from(f32::from_ne_bytes(b.try_into().unwrap()))).collect()
        }
        _ => bytes.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect(),
    }
}

fn read(block: &Block<'_>, encoded: &Encoded, length: usize) -> Vec<u8> {
    let mut out = vec![0xaa; length];
    decode("zfp", &encoded.metadata, block, ByteOrder::NATIVE, &encoded.payload, &mut out).unwrap();
    out
}

/// Encodes, and checks all that a record promises.
fn keeps_its_promise(text: &str, element: ElementType, extents: &[u64], bytes: &[u8]) -> ErrorRecord {
    let spec = spec(text);
    let block = Block { name: "v", element, extents };
    let encoded = encode(&spec, &block, bytes).unwrap();
    assert!(encoded.payload.len() as u64 <= spec.room(&block).unwrap().max(bytes.len() as u64));
    assert!(encoded.payload.len() <= bytes.len(), "{text}: stored larger than it was");
    let (_, record) = error_record("zfp", &encoded.metadata).unwrap().unwrap();
    record.check().unwrap();
    assert_eq!(Some(record.bound), spec.error_bound());
    let got = read(&block, &encoded, bytes.len());
    let (given_values, got_values) = (values_of(element, bytes), values_of(element, &got));
    let finite = given_values.iter().all(|v| v.is_finite());
    if record.form != BoundedForm::Encoded {
        assert!(got == bytes, "{text}: a block without loss differs");
        assert_eq!(record.largest, 0.0);
        assert_eq!(record.lossless == Some(Lossless::NotFinite), !finite);
        return record;
    }
    assert!(finite && record.lossless.is_none());
    let (min, max) = given_values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
    assert_eq!(record.range, max - min);
    let allowed = match record.bound {
        ErrorBound::Absolute(error) => error,
        ErrorBound::Relative(fraction) => fraction * (max - min),
    };
    assert_eq!(record.allowed, allowed);
    let rounded = given_values.iter().zip(&got_values).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
    assert!(rounded <= allowed, "{text}: {rounded} of {allowed}");
    assert!(record.largest == rounded || record.largest == rounded.next_up(), "{} of {rounded}", record.largest);
    record
}

/// Extents of `n` values at most, with the same number of dimensions.
fn fit(extents: &[u64]) -> usize {
    extents.iter().product::<u64>() as usize
}

fn arrays() -> impl Strategy<Value = (Vec<u64>, Vec<f64>)> {
    let extents = prop_oneof![
        prop::collection::vec(1u64..400, 1..2),
        prop::collection::vec(1u64..25, 2..3),
        prop::collection::vec(1u64..11, 3..4),
        prop::collection::vec(1u64..7, 4..5),
    ];
    let special = prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(-0.0),
        Just(1e20),
        Just(9.969_209_968_386_869e36),
        Just(f64::MIN_POSITIVE / 8.0),
        Just(f64::MAX),
    ];
    (
        extents,
        0usize..7,
        prop::collection::vec((any::<prop::sample::Index>(), special), 0..3),
        any::<u64>(),
        -300i32..300,
    )
        .prop_map(|(extents, kind, specials, seed, exponent)| {
            let n = fit(&extents);
            let mut state = seed | 1;
            let mut random = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
            };
            let mut values: Vec<f64> = (0..n)
                .map(|i| match kind {
                    0 => (0.05 * i as f64).sin(),
                    1 => 273.0 + 10.0 * (0.02 * i as f64).cos() + 0.001 * random(),
                    2 => random(),
                    3 => 42.5,
                    4 => random() * 10f64.powi((600.0 * random()) as i32),
                    5 => random() * f64::MIN_POSITIVE,
                    _ => random() * 10f64.powi(exponent),
                })
                .collect();
            // Half of the arrays have special values.
            if seed.is_multiple_of(2) {
                for (at, value) in specials {
                    values[at.index(n)] = value;
                }
            }
            (extents, values)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_value_leaves_the_bound((extents, values) in arrays(), exponent in -12i32..4, far in -310i32..300) {
        for element in [ElementType::F32, ElementType::F64] {
            let bytes = bytes_of(element, &values);
            for text in [
                format!("zfp:error=1e{exponent}"),
                format!("zfp:error=1e{far}"),
                format!("zfp:relative_error=1e{}", exponent.min(0)),
            ] {
                keeps_its_promise(&text, element, &extents, &bytes);
            }
        }
    }

    #[test]
    fn any_bits_are_read_back(words in prop::collection::vec(any::<u64>(), 1..200)) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        for (element, n) in [(ElementType::F64, words.len() as u64), (ElementType::F32, 2 * words.len() as u64)] {
            keeps_its_promise("zfp:error=1e-3", element, &[n], &bytes);
            keeps_its_promise("zfp:relative_error=1e-3", element, &[n], &bytes);
        }
    }
}

#[test]
fn smooth_values_become_smaller_with_a_measured_loss() {
    let values: Vec<f64> = (0..32 * 32 * 32).map(|i| (0.003 * i as f64).sin()).collect();
    for (element, extents) in [(ElementType::F64, vec![32, 32, 32]), (ElementType::F32, vec![8, 16, 16, 16])] {
        let bytes = bytes_of(element, &values);
        for text in ["zfp:error=1e-4", "zfp:relative_error=1e-4"] {
            let record = keeps_its_promise(text, element, &extents, &bytes);
            assert_eq!(record.form, BoundedForm::Encoded, "{text}");
            assert!(record.largest > 0.0);
            let block = Block { name: "v", element, extents: &extents };
            assert!(encode(&spec(text), &block, &bytes).unwrap().payload.len() * 3 < bytes.len());
        }
    }
}

#[test]
fn the_reason_for_a_block_without_loss_is_recorded() {
    let smooth: Vec<f64> = (0..1000).map(|i| (0.01 * f64::from(i)).sin()).collect();
    let reason = |text: &str, element: ElementType, values: &[f64]| {
        let record = keeps_its_promise(text, element, &[values.len() as u64], &bytes_of(element, values));
        (record.form, record.lossless)
    };
    let mut with_nan = smooth.clone();
    with_nan[77] = f64::NAN;
    let (form, why) = reason("zfp:error=0.001", ElementType::F64, &with_nan);
    assert_eq!(why, Some(Lossless::NotFinite));
    assert_eq!(form, BoundedForm::Pco, "without loss, yet compressed");
    // Beside large values zfp has no digits left for small ones.
    let spiked: Vec<f64> = smooth.iter().enumerate().map(|(i, v)| if i % 7 == 0 { v * 1e9 } else { *v }).collect();
    assert_eq!(reason("zfp:error=1e-6", ElementType::F32, &spiked).1, Some(Lossless::Exceeded));
    assert_eq!(
        reason("zfp:relative_error=0.1", ElementType::F64, &[5.0; 1000]),
        (BoundedForm::Pco, Some(Lossless::NoRange))
    );
    assert_eq!(reason("zfp:relative_error=0.1", ElementType::F64, &[f64::MIN, f64::MAX]).1, Some(Lossless::NoRange));
    assert_eq!(reason("zfp:error=0.1", ElementType::F64, &[0.7]), (BoundedForm::Plain, Some(Lossless::NotSmaller)));
    assert_eq!(reason("zfp:error=0.1", ElementType::F64, &[]), (BoundedForm::Plain, None));
}

#[test]
fn a_large_constant_block_without_loss_is_read_though_few_bytes_are_stored() {
    let bytes = doubles(&vec![1.5; 4 << 20]);
    let block = Block { name: "v", element: ElementType::F64, extents: &[4 << 20] };
    let encoded = encode(&spec("zfp:relative_error=0.01"), &block, &bytes).unwrap();
    assert!(encoded.payload.len() < 7000, "{}", encoded.payload.len());
    assert!(read(&block, &encoded, bytes.len()) == bytes);
    // More than zfp can give.
    assert!(check("zfp", &[], &block, encoded.payload.len() as u64).is_err());
}

#[test]
fn readers_that_do_not_know_records_refuse_blocks_without_loss() {
    let bytes = doubles(&[1.0, f64::NAN, 2.0, 3.0]);
    let block = Block { name: "v", element: ElementType::F64, extents: &[4] };
    let encoded = encode(&spec("zfp:error=0.1"), &block, &bytes).unwrap();
    let (own, _) = error_record("zfp", &encoded.metadata).unwrap().unwrap();
    let e = decode("zfp", own, &block, ByteOrder::NATIVE, &encoded.payload, &mut [0; 32]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(e.to_string().contains("lossless"), "{e}");
}

#[test]
fn differences_are_rounded_up() {
    let largest = |pairs: &[(f64, f64)]| {
        let (given, got): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        largest_error(ElementType::F64, &doubles(&given), &doubles(&got))
    };
    assert_eq!(largest(&[(1.0, 1.0), (-0.0, 0.0)]), 0.0);
    assert_eq!(largest(&[(0.5, 0.25), (0.5, 1.5), (3.0, 2.5)]), 1.0);
    let tiny = 2f64.powi(-60);
    assert_eq!(largest(&[(1.0, -tiny)]), 1f64.next_up());
    assert_eq!(largest(&[(-1.0, tiny)]), 1f64.next_up());
    // Rounded to 1 as well, but smaller.
    assert_eq!(largest(&[(1.0, tiny / 2.0)]), 1.0);
    assert_eq!(largest(&[(1.0, tiny / 2.0), (1.0, -tiny)]), 1f64.next_up());
    for bad in [f64::NAN, f64::INFINITY] {
        assert_eq!(largest(&[(1.0, 1.0), (1.0, bad), (1.0, 1.0)]), f64::INFINITY);
    }
    assert_eq!(largest(&[(f64::MAX, f64::MIN)]), f64::INFINITY);
    let singles: Vec<u8> = [1f32, 2.0, 3.0, 5.0].iter().flat_map(|v| v.to_ne_bytes()).collect();
    let moved: Vec<u8> = [1f32, 2.5, 3.0, 5.25].iter().flat_map(|v| v.to_ne_bytes()).collect();
    assert_eq!(largest_error(ElementType::F32, &singles, &moved), 0.5);
    assert_eq!(largest_error(ElementType::Complex, &singles, &moved), 0.5);
    assert_eq!(range_of(ElementType::Complex, &singles), Some(4.0));
    assert_eq!(range_of(ElementType::I32, &singles), None);
}

/// A transform that drops all bytes but the first value, and adds `error` to the values that readers get.
#[derive(Debug)]
struct Moves {
    error: f64,
    fails: bool,
    length: usize,
}

impl Codec for Moves {
    fn name(&self) -> &'static str {
        "moves"
    }

    fn about(&self) -> &'static str {
        ""
    }

    fn configure(&self, _given: &Parameters) -> Result<Box<dyn Encode>> {
        Err(Error::new(ErrorKind::Unsupported, "made by hand"))
    }

    fn expansion(&self) -> u64 {
        1000
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        if self.fails {
            return Err(Error::new(ErrorKind::Corrupt, "fails"));
        }
        let first = f64::from_ne_bytes(stored.payload[..8].try_into().unwrap());
        out.chunks_exact_mut(8).for_each(|v| v.copy_from_slice(&(first + self.error).to_ne_bytes()));
        Ok(())
    }
}

impl Encode for Moves {
    fn encode(&self, _block: &Block<'_>, _bytes: &[u8], _out: &mut [u8]) -> Result<Option<Done>> {
        Err(Error::new(ErrorKind::Unsupported, "not within a bound"))
    }

    fn raw(&self, _block: &Block<'_>) -> Option<Vec<u8>> {
        None
    }

    fn encode_within(&self, _tolerance: f64, _block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        out[..8].copy_from_slice(&bytes[..8]);
        Ok(Some(Done { length: self.length, metadata: vec![7] }))
    }

    fn lossless_metadata(&self, _block: &Block<'_>, stored: u64) -> Result<Vec<u8>> {
        Ok(vec![stored as u8])
    }
}

fn moved(by: &Moves, bound: ErrorBound, values: &[f64]) -> (Bounded, Vec<u8>) {
    let bytes = doubles(values);
    let block = Block { name: "v", element: ElementType::F64, extents: &[values.len() as u64] };
    let (mut out, mut back) = (vec![0; bytes.len()], vec![0; bytes.len()]);
    (error_bound::encode(bound, by, by, &block, &bytes, &mut out, &mut back).unwrap(), back)
}

#[test]
fn a_transform_is_not_believed() {
    let values = [1.0; 100];
    let moves = |error| Moves { error, fails: false, length: 8 };
    let (exact, back) = moved(&moves(0.25), ErrorBound::Absolute(0.25), &values);
    assert_eq!((exact.record.form, exact.record.largest, exact.length), (BoundedForm::Encoded, 0.25, 8));
    assert_eq!(back, doubles(&[1.25; 100]));
    assert_eq!(exact.metadata[0], 7);
    for (by, why) in [
        (moves(1.25f64.next_up() - 1.0), Lossless::Exceeded),
        (moves(f64::NAN), Lossless::Exceeded),
        (Moves { fails: true, ..moves(0.0) }, Lossless::Exceeded),
        (Moves { length: 800, ..moves(0.0) }, Lossless::NotSmaller),
    ] {
        let (done, _) = moved(&by, ErrorBound::Absolute(0.25), &values);
        assert_eq!((done.record.form, done.record.lossless), (BoundedForm::Pco, Some(why)), "{by:?}");
        assert_eq!(usize::from(done.metadata[0]), done.length);
        assert_eq!(done.record.largest, 0.0);
    }
}

#[test]
fn a_relative_bound_is_a_fraction_of_the_range() {
    // From 1 to 5: a tenth is 0.4.
    let mut values = [1.0; 100];
    values[50] = 5.0;
    let moves = |error| Moves { error, fails: false, length: 8 };
    let form = |error: f64, relative: f64| moved(&moves(error), ErrorBound::Relative(relative), &values).0.record.form;
    // The transform drops the 5, which is an error of 4 at most.
    assert_eq!(form(0.0, 1.0), BoundedForm::Encoded);
    assert_eq!(form(0.0, 0.99), BoundedForm::Pco);
    assert_eq!(form(-0.1, 1.0), BoundedForm::Pco);
}

#[test]
fn records_are_read_in_either_byte_order_and_contradictions_are_found() {
    let bound = ErrorBound::Relative(0.25);
    let good =
        ErrorRecord { bound, allowed: 1.0, largest: 0.5, range: 4.0, form: BoundedForm::Encoded, lossless: None };
    let mut metadata = vec![1, 2, 3];
    good.append_to(&mut metadata);
    assert_eq!(ErrorRecord::split(&metadata).unwrap(), Some((&[1u8, 2, 3][..], good)));
    for at in [3, 11, 19, 27, 43] {
        metadata[at..at + 8].reverse();
    }
    assert_eq!(ErrorRecord::split(&metadata).unwrap(), Some((&[1u8, 2, 3][..], good)));
    assert_eq!(ErrorRecord::split(&metadata[..40]).unwrap(), None);
    assert_eq!(ErrorRecord::split(&[]).unwrap(), None);
    for (at, code) in [(35, 2), (36, 3), (37, 6)] {
        let mut bad = metadata.clone();
        bad[at] = code;
        assert_eq!(ErrorRecord::split(&bad).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    good.check().unwrap();
    for bad in [
        ErrorRecord { largest: 1.5, ..good },
        ErrorRecord { largest: f64::NAN, ..good },
        ErrorRecord { allowed: 2.0, ..good },
        ErrorRecord { range: -4.0, allowed: -1.0, ..good },
        ErrorRecord { bound: ErrorBound::Relative(f64::NAN), ..good },
        ErrorRecord { form: BoundedForm::Plain, ..good },
        ErrorRecord { lossless: Some(Lossless::Exceeded), ..good },
    ] {
        assert_eq!(bad.check().unwrap_err().kind(), ErrorKind::Corrupt, "{bad:?}");
    }
}
