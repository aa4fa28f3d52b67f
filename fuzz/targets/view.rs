//! A view: what decodes is encoded again as it was; its extents name the bytes that its offsets name, in order; the words of datatypes that
//! the door for MPI-IO takes make a datatype or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_mpiio::tree;
use thalweg_view::View;

/// Bytes of a view that are looked at.
const MOST: u64 = 1 << 12;

fuzz_target!(|data: &[u8]| {
    if let Ok(view) = View::decode(data) {
        let again = view.encode();
        let same = View::decode(&again).expect("what was encoded is decoded");
        assert_eq!((&same, same.encode()), (&view, again));
        for start in [0, view.pattern().size() / 2, view.pattern().size().saturating_mul(3)] {
            let mut at = start;
            let end = start.saturating_add(MOST);
            for extent in view.extents(start..end).take(MOST as usize) {
                assert_eq!(view.file_offset(at), Some(extent.offset), "byte {at} of {view:?}");
                assert!(extent.length > 0 && at + extent.length <= end);
                at += extent.length;
            }
        }
        if view.is_rising() {
            for place in [0, view.displacement(), view.displacement().saturating_add(1000)] {
                let Some(below) = view.count_below(place) else { continue };
                assert!(
                    view.file_offset(below).is_none_or(|at| at >= place),
                    "{below} bytes below {place} of {view:?}"
                );
                assert!(below == 0 || view.file_offset(below - 1).is_some_and(|at| at < place));
            }
        }
    }
    let words: Vec<i64> = data.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().unwrap())).collect();
    if let Ok(pattern) = tree::datatype(&words).and_then(|datatype| datatype.pattern()) {
        let counted: u64 = pattern.runs(0).take(MOST as usize + 1).map(|run| run.length).fold(0, u64::saturating_add);
        assert!(counted <= pattern.size());
    }
});
