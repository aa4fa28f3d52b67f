//! Fetching: reads a plan's extents in order and puts the bytes where they belong, in this machine's order.

use crate::object::Object;
use crate::plan::{Limits, Piece, Plan};
use std::collections::BTreeMap;
use thalweg_bp::source::Source;
use thalweg_types::element::swap_bytes;
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// Numbers in memory whose bytes are those of an element type.
pub trait Element: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy {
    /// Whether values of this type in a file are of this Rust type.
    fn is(element: ElementType) -> bool;
}

macro_rules! element {
    ($($rust:ty: $($t:ident)|+),* $(,)?) => {$(
        impl Element for $rust {
            fn is(element: ElementType) -> bool {
                matches!(element, $(ElementType::$t)|+)
            }
        }
    )*};
}
element! {
    i8: I8, i16: I16, i32: I32, i64: I64, u8: U8 | Char | String, u16: U16, u32: U32, u64: U64, f32: F32, f64: F64,
    [f32; 2]: Complex, [f64; 2]: DoubleComplex, [u8; 16]: LongDouble,
}

/// Carries out a plan.
///
/// Every piece is compared with the length of its file first, so that what a damaged index claims costs nothing.
///
/// - `word`: bytes that byte order applies to, where the file's order is the other one; 1 where it is this machine's.
/// - `open`: the object of a subfile, or of the file itself.
pub fn execute(
    plan: &Plan,
    limits: &Limits,
    word: u64,
    out: &mut [u8],
    mut open: impl FnMut(Option<u32>) -> Result<Object>,
) -> Result<()> {
    let mut ends: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
    for piece in &plan.pieces {
        let last = ends.entry(piece.file).or_default();
        *last = (*last).max((piece.source.saturating_add(piece.span()), piece.source));
    }
    for (file, (end, from)) in ends {
        let object = open(file)?.reaching(end)?;
        if end > object.length() {
            return Err(Error::new(
                ErrorKind::Torn,
                format!("a block ends at byte {end}, the file at byte {}", object.length()),
            )
            .in_object(&*object.path)
            .at_byte(from));
        }
    }
    let mut window = Vec::new();
    let mut current: Option<(Option<u32>, Object)> = None;
    plan.for_each_read(limits, |read| {
        let object = match &current {
            Some((file, object)) if *file == read.file => object,
            _ => &current.insert((read.file, open(read.file)?)).1,
        };
        let extent = read.extent;
        if let [one] = read.pieces.as_slice()
            && one.strides.is_empty()
        {
            let place = place(out, one.target, one.run)?;
            object.read(extent.offset, place)?;
            swap_bytes(place, word);
            return Ok(());
        }
        window.resize(extent.length as usize, 0);
        object.read(extent.offset, &mut window)?;
        for piece in &read.pieces {
            copy(piece, &window[(piece.source - extent.offset) as usize..], out, word)?;
        }
        Ok(())
    })
}

fn place(out: &mut [u8], at: u64, length: u64) -> Result<&mut [u8]> {
    let range = usize::try_from(at).ok().zip(usize::try_from(length).ok());
    range
        .and_then(|(at, length)| out.get_mut(at..at.checked_add(length)?))
        .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "memory to read into is too short"))
}

/// Copies the runs of a piece from bytes that start at its source, in one pass.
fn copy(piece: &Piece, from: &[u8], out: &mut [u8], word: u64) -> Result<()> {
    let all: u64 = piece.run + piece.strides.iter().map(|s| (s.count - 1) * s.target).sum::<u64>();
    let to = place(out, piece.target, all)?;
    // Single elements have a length the compiler knows.
    match piece.run {
        1 => runs::<1>(piece, from, to),
        2 => runs::<2>(piece, from, to),
        4 => runs::<4>(piece, from, to),
        8 => runs::<8>(piece, from, to),
        16 => runs::<16>(piece, from, to),
        n => piece.for_each_run(&mut |s, t| {
            let (s, t, n) = (s as usize, t as usize, n as usize);
            to[t..t + n].copy_from_slice(&from[s..s + n]);
        }),
    }
    if word > 1 {
        piece.for_each_run(&mut |_, t| swap_bytes(&mut to[t as usize..(t + piece.run) as usize], word));
    }
    Ok(())
}

fn runs<const N: usize>(piece: &Piece, from: &[u8], to: &mut [u8]) {
    piece.for_each_run(&mut |s, t| {
        let (s, t) = (s as usize, t as usize);
        to[t..t + N].copy_from_slice(&from[s..s + N]);
    });
}
