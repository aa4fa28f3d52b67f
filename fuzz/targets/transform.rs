//! A block to be decoded. Byte 0 chooses the transform, byte 1 the type; byte 2 byte order (1) and whether metadata are made
//! to fit (2), and an error record follows them (4), of a block in the form of bits 4 and up; bytes 3 to 5 are extents. Then a
//! byte of how many bytes of metadata follow, these, and the block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_transform::{Block, CODECS, check, decode};
use thalweg_types::{ByteOrder, ElementType};

fuzz_target!(|data: &[u8]| {
    let [which, kind, how, x, y, z, length, rest @ ..] = data else { return };
    let name = CODECS[usize::from(*which) % CODECS.len()].name();
    let types = [ElementType::F64, ElementType::F32, ElementType::U8, ElementType::I32, ElementType::DoubleComplex];
    let element = types[usize::from(*kind) % types.len()];
    let order = if how & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    // An extent of 0 is none; the first one counts more, for long blocks.
    let extents: Vec<u64> = [u64::from(*x) * 37, u64::from(*y), u64::from(*z)].into_iter().filter(|n| *n > 0).collect();
    let block = Block { name: "v", element, extents: &extents };
    let Ok(bytes) = block.bytes() else { return };
    if bytes > 4 << 20 {
        return;
    }
    let Some((metadata, payload)) = rest.split_at_checked(usize::from(*length)) else { return };
    let mut metadata =
        if how & 2 == 0 { metadata.to_vec() } else { fitting(name, metadata, bytes, payload.len(), order) };
    if how & 4 != 0 {
        error_record((how >> 4) % 3, order, &mut metadata);
    }
    let mut out = vec![0; bytes as usize];
    let allowed = check(name, &metadata, &block, payload.len() as u64).is_ok();
    let done = decode(name, &metadata, &block, order, payload, &mut out);
    assert!(allowed || done.is_err());
});

/// An error record of a block in this form.
fn error_record(form: u8, order: ByteOrder, metadata: &mut Vec<u8>) {
    let mut numbers = [1.0f64.to_bits(), 0.5f64.to_bits(), 1.0f64.to_bits(), 1.0f64.to_bits()].to_vec();
    let codes = u64::from(form) << 8;
    numbers.extend([codes, 0x5457_4552_524f_5231]);
    for (i, number) in numbers.into_iter().enumerate() {
        let little = order == ByteOrder::Little || i == 4;
        metadata.extend_from_slice(&if little { number.to_le_bytes() } else { number.to_be_bytes() });
    }
}

/// Metadata that come past the first check, the given ones where they may be anything.
fn fitting(name: &str, given: &[u8], bytes: u64, payload: usize, order: ByteOrder) -> Vec<u8> {
    let word = |n: u64| if order == ByteOrder::Little { n.to_le_bytes() } else { n.to_be_bytes() };
    let half = |n: u32| if order == ByteOrder::Little { n.to_le_bytes() } else { n.to_be_bytes() };
    match name {
        "lz4" | "blosc" => [half(0), half(payload as u32)].concat(),
        "zfp" => {
            let (mode, text) = given.split_first().unwrap_or((&0, b"8"));
            let mut metadata = [&word(bytes)[..], &word(payload as u64), &half(u32::from(mode % 3)), text].concat();
            metadata.resize(532, 0);
            metadata
        }
        _ => [&word(bytes)[..], &[1]].concat(),
    }
}
