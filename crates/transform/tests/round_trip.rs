//! What goes in comes out, and what was damaged on the way is an error, not a crash.

use proptest::prelude::*;
use thalweg_transform::error_bound::{BoundedForm, ErrorBound, ErrorRecord};
use thalweg_transform::{Block, CODECS, Spec, decode, encode};
use thalweg_types::{ByteOrder, ElementType, ErrorKind};

const SPECS: &[&str] = &[
    "identity",
    "zlib",
    "zlib:1",
    "zlib:9",
    "bzip2",
    "bzip2:1",
    "lz4",
    "lz4:lvl=9,threshold=200",
    "blosc",
    "blosc:compressor=blosclz,lvl=9",
    "blosc:compressor=lz4,shuffle=byte,lvl=5",
    "blosc:compressor=lz4hc,shuffle=bit",
    "blosc:compressor=zlib,lvl=3,threads=2",
    "blosc:shuffle=bit,compressor=zstd,threshold=1000",
    "zstd",
    "zstd:19",
    "pco",
    "pco:4",
    "pco:12",
    "zlib:5,always=yes",
    "bzip2:always=yes",
    "blosc:compressor=lz4,shuffle=byte,always=yes",
    "zstd:always=yes",
];

fn spec(text: &str) -> Spec {
    Spec::parse(text).unwrap().unwrap()
}

fn smooth(n: u64, element: ElementType) -> Vec<u8> {
    let value = |i: u64| 10.0 * (0.01 * i as f64).sin();
    match element {
        ElementType::F64 => (0..n).flat_map(|i| value(i).to_ne_bytes()).collect(),
        ElementType::F32 => (0..n).flat_map(|i| (value(i) as f32).to_ne_bytes()).collect(),
        _ => (0..n * element.size()).map(|i| (i / 13) as u8).collect(),
    }
}

fn back(spec: &Spec, block: &Block<'_>, bytes: &[u8]) -> Vec<u8> {
    let encoded = encode(spec, block, bytes).unwrap();
    let mut out = vec![0xaa; bytes.len()];
    decode(spec.name(), &encoded.metadata, block, ByteOrder::NATIVE, &encoded.payload, &mut out).unwrap();
    out
}

#[test]
fn transforms_without_loss_give_every_block_back() {
    for text in SPECS {
        let spec = spec(text);
        for element in
            [ElementType::U8, ElementType::I32, ElementType::F64, ElementType::LongDouble, ElementType::DoubleComplex]
        {
            for n in [0, 1, 7, 128, 5000, 300_000] {
                let bytes = smooth(n, element);
                let block = Block { name: "v", element, extents: &[n] };
                if text.starts_with("pco") && element == ElementType::LongDouble {
                    assert_eq!(encode(&spec, &block, &bytes).unwrap_err().kind(), ErrorKind::Unsupported);
                    continue;
                }
                assert!(back(&spec, &block, &bytes) == bytes, "{text}, {n} of {element}");
            }
        }
    }
}

#[test]
fn what_is_always_encoded_is_encoded_however_large_it_becomes() {
    let mut seed = 1u64;
    let mut noise = |bytes: u64| -> Vec<u8> {
        let byte = |_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 56) as u8
        };
        (0..bytes).map(byte).collect()
    };
    for text in SPECS.iter().filter(|t| t.contains("always")) {
        let spec = spec(text);
        for n in [1, 2, 31, 128, 1000, 70_000, 300_000] {
            let bytes = noise(4 * n);
            let block = Block { name: "v", element: ElementType::I32, extents: &[n] };
            let encoded = encode(&spec, &block, &bytes).unwrap();
            assert!(encoded.payload != bytes, "{text}, {n}");
            assert!(encoded.payload.len() as u64 <= spec.room(&block).unwrap());
            assert_eq!(spec.raw(&block), None);
            let form = spec.codec().form(&encoded.metadata, ByteOrder::NATIVE, 4 * n).unwrap();
            assert_eq!(form, thalweg_transform::Form::Stream, "{text}, {n}");
            assert!(back(&spec, &block, &bytes) == bytes, "{text}, {n}");
        }
    }
    assert_eq!(Spec::parse("blosc:always=yes").unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(Spec::parse("lz4:always=yes").unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn what_gets_smaller_is_stored_smaller_and_what_does_not_as_it_is() {
    let even = smooth(100_000, ElementType::I32);
    let mut seed = 1u64;
    let noise: Vec<u8> = (0..400_000)
        .map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 56) as u8
        })
        .collect();
    let block = Block { name: "v", element: ElementType::I32, extents: &[100_000] };
    for text in SPECS.iter().filter(|t| !matches!(**t, "identity" | "blosc") && !t.contains("always")) {
        let spec = spec(text);
        let small = encode(&spec, &block, &even).unwrap();
        assert!(small.payload.len() < even.len() / 2, "{text}: {}", small.payload.len());
        let same = encode(&spec, &block, &noise).unwrap();
        assert!(same.payload == noise, "{text}");
        assert_eq!(Some(same.metadata), spec.raw(&block), "{text}");
        assert!(back(&spec, &block, &noise) == noise, "{text}");
    }
}

#[test]
fn zfp_keeps_to_its_accuracy_and_its_rate() {
    for element in [ElementType::F32, ElementType::F64] {
        for extents in [&[1000][..], &[7, 31], &[1, 50], &[9, 10, 11], &[64, 64, 64], &[5, 6, 7, 8]] {
            let n: u64 = extents.iter().product();
            let bytes = smooth(n, element);
            let block = Block { name: "v", element, extents };
            let number = |b: &[u8]| match element {
                ElementType::F64 => f64::from_ne_bytes(b.try_into().unwrap()),
                _ => f64::from(f32::from_ne_bytes(b.try_into().unwrap())),
            };
            let size = element.size() as usize;
            let most = |text: &str| {
                let out = back(&spec(text), &block, &bytes);
                let pairs = out.chunks(size).zip(bytes.chunks(size));
                pairs.map(|(a, b)| (number(a) - number(b)).abs()).fold(0.0, f64::max)
            };
            assert!(most("zfp:accuracy=0.01") <= 0.01, "{extents:?}");
            assert!(most("zfp:accuracy=1e-5") <= 1e-5, "{extents:?}");
            assert!(most("zfp:precision=20") < 1e-3, "{extents:?}");
            assert!(most("zfp:rate=16") < 0.1, "{extents:?}");
            let rate = encode(&spec("zfp:rate=8"), &block, &bytes).unwrap();
            let blocks: u64 = extents.iter().map(|n| n.div_ceil(4)).product();
            assert_eq!(rate.payload.len() as u64, (blocks * 4u64.pow(extents.len() as u32)).div_ceil(8) * 8);
        }
    }
}

#[test]
fn memory_that_is_not_aligned_gives_the_same() {
    let bytes = smooth(1000, ElementType::F64);
    let mut shifted = vec![0; bytes.len() + 1];
    shifted[1..].copy_from_slice(&bytes);
    let block = Block { name: "v", element: ElementType::F64, extents: &[10, 100] };
    for text in SPECS.iter().chain(&["zfp:accuracy=0.1", "zfp:rate=7.5"]) {
        let spec = spec(text);
        let encoded = encode(&spec, &block, &bytes).unwrap();
        assert!(encode(&spec, &block, &shifted[1..]).unwrap() == encoded, "{text}");
        let mut out = vec![0; bytes.len() + 1];
        let mut even = vec![0; bytes.len()];
        let order = ByteOrder::NATIVE;
        decode(spec.name(), &encoded.metadata, &block, order, &encoded.payload, &mut out[1..]).unwrap();
        decode(spec.name(), &encoded.metadata, &block, order, &encoded.payload, &mut even).unwrap();
        assert!(out[1..] == even, "{text}");
    }
}

#[test]
fn numbers_of_pco_are_given_in_the_order_of_the_file() {
    let spec = spec("pco");
    for element in ElementType::ALL.into_iter().filter(|element| spec.suits(*element, 1).is_ok()) {
        let bytes = smooth(1000, element);
        let block = Block { name: "v", element, extents: &[1000] };
        let encoded = encode(&spec, &block, &bytes).unwrap();
        assert!(encoded.payload.len() < bytes.len(), "{element}");
        let other = if ByteOrder::NATIVE == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little };
        let mut metadata = encoded.metadata.clone();
        metadata[..8].reverse();
        let mut out = vec![0; bytes.len()];
        decode("pco", &metadata, &block, other, &encoded.payload, &mut out).unwrap();
        thalweg_types::element::swap_bytes(&mut out, element.word());
        assert!(out == bytes, "{element}");
    }
}

#[test]
fn bad_parameters_are_refused_by_name() {
    let refused = |text: &str, kind: ErrorKind, says: &str| {
        let e = Spec::parse(text).unwrap_err();
        assert_eq!(e.kind(), kind, "{text}");
        assert!(e.to_string().contains(says), "{text}: {e}");
    };
    refused("zlib:0", ErrorKind::Config, "1 to 9");
    refused("zlib:level=five", ErrorKind::Config, "LEVEL=five");
    refused("zlib:5,5", ErrorKind::Config, "LEVEL");
    refused("lz4:9", ErrorKind::Config, "lvl, threshold");
    refused("blosc:compressor=snappy", ErrorKind::Config, "blosclz");
    refused("blosc:shuffle=yes", ErrorKind::Config, "no, byte or bit");
    refused("zfp:precison=16", ErrorKind::Config, "accuracy");
    refused("zfp:accuracy=0.1,rate=3", ErrorKind::Config, "one of");
    refused("zfp:accuracy=-1", ErrorKind::Config, "above 0");
    refused("zfp:error=0.1,accuracy=0.1", ErrorKind::Config, "one of");
    refused("zfp:error=0.1,relative_error=0.1", ErrorKind::Config, "relative_error");
    refused("zfp:error=0", ErrorKind::Config, "above 0");
    refused("zfp:relative_error=1.5", ErrorKind::Config, "up to 1");
    refused("zfp:precision=2.5", ErrorKind::Config, "1 to 64");
    refused("szip", ErrorKind::Unsupported, "zstd");
    refused("zlob", ErrorKind::Config, "zlib");
    assert!(Spec::parse("zlib:level=5").unwrap().is_some(), "as zlib:5");
    assert!(Spec::parse("zfp").unwrap().is_some(), "64 bits of precision");
    assert!(Spec::parse("").unwrap().is_none());
    assert!(Spec::parse("none").unwrap().is_none());
    let zfp = spec("zfp:rate=8");
    assert_eq!(zfp.suits(ElementType::I32, 1).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(zfp.suits(ElementType::F32, 5).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(spec("zlib").suits(ElementType::F32, 0).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_length_that_so_few_bytes_cannot_give_is_refused() {
    for codec in CODECS {
        let block = Block { name: "v", element: ElementType::F64, extents: &[1 << 50] };
        let e = thalweg_transform::check(codec.name(), &[], &block, 100).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{}", codec.name());
    }
}

#[test]
fn blosc_with_snappy_inside_is_named() {
    let mut payload = vec![2, 1, 2 << 5, 8];
    for n in [800u32, 800, 16] {
        payload.extend_from_slice(&n.to_le_bytes());
    }
    let metadata = [0i32.to_ne_bytes(), 16i32.to_ne_bytes()].concat();
    let block = Block { name: "v", element: ElementType::F64, extents: &[100] };
    let e = decode("blosc", &metadata, &block, ByteOrder::NATIVE, &payload, &mut vec![0; 800]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("snappy"), "{e}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_bytes_decode_to_an_error_or_a_block(
        which in 0..CODECS.len(),
        extents in prop::collection::vec(0u64..20, 1..5),
        payload in prop::collection::vec(any::<u8>(), 0..400),
        metadata in prop::collection::vec(any::<u8>(), 0..20),
        tame in 0u64..3,
    ) {
        let name = CODECS[which].name();
        for element in [ElementType::F32, ElementType::F64, ElementType::U8] {
            let block = Block { name: "v", element, extents: &extents };
            let mut out = vec![0; block.bytes().unwrap() as usize];
            let _ = decode(name, &metadata, &block, ByteOrder::NATIVE, &payload, &mut out);
            // Metadata that comes past the first check.
            let mut metadata = match name {
                "lz4" | "blosc" => [0i32.to_ne_bytes(), (payload.len() as i32).to_ne_bytes()].concat(),
                _ => out.len().to_ne_bytes().to_vec(),
            };
            if name == "zfp" {
                metadata.extend_from_slice(&(payload.len() as u64).to_ne_bytes());
                metadata.extend_from_slice(&(tame as u32).to_ne_bytes());
                metadata.extend_from_slice(["1e-9\0", "64\0", "32.5\0"][tame as usize].as_bytes());
                metadata.resize(532, 0);
            } else {
                metadata.push(1);
            }
            let _ = decode(name, &metadata, &block, ByteOrder::NATIVE, &payload, &mut out);
            // With an error record.
            for form in [BoundedForm::Encoded, BoundedForm::Plain, BoundedForm::Pco] {
                let bound = ErrorBound::Absolute(1.0);
                let record = ErrorRecord { bound, allowed: 1.0, largest: 0.0, range: 1.0, form, lossless: None };
                let mut metadata = metadata.clone();
                record.append_to(&mut metadata);
                let _ = decode(name, &metadata, &block, ByteOrder::NATIVE, &payload, &mut out);
            }
        }
    }

    #[test]
    fn damaged_blocks_decode_to_an_error_or_a_block(
        which in 0..SPECS.len() + 5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let lossy = ["zfp:accuracy=0.001", "zfp:precision=40", "zfp:rate=9", "zfp:error=1e-20", "zfp:error=0.01"];
        let text = SPECS.iter().chain(&lossy).nth(which).unwrap();
        let spec = spec(text);
        let extents = [20, 30];
        let bytes = smooth(600, ElementType::F64);
        let block = Block { name: "v", element: ElementType::F64, extents: &extents };
        let mut encoded = encode(&spec, &block, &bytes).unwrap();
        let mut out = vec![0; bytes.len()];
        for (at, change) in changes {
            let at = at.index(encoded.payload.len());
            encoded.payload[at] ^= change;
        }
        let _ = decode(spec.name(), &encoded.metadata, &block, ByteOrder::NATIVE, &encoded.payload, &mut out);
        encoded.payload.truncate(cut.index(encoded.payload.len()));
        let _ = decode(spec.name(), &encoded.metadata, &block, ByteOrder::NATIVE, &encoded.payload, &mut out);
        if spec.name() == "zfp" {
            encoded.metadata[8..16].copy_from_slice(&(encoded.payload.len() as u64).to_ne_bytes());
            let _ = decode(spec.name(), &encoded.metadata, &block, ByteOrder::NATIVE, &encoded.payload, &mut out);
        }
    }
}
