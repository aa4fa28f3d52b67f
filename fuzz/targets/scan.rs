//! A scan: every byte is part of a process group, dead, or torn; what is found whole can be indexed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::index::Index;
use thalweg_bp::scan::{damaged_payloads, last_whole_step, scan};
use thalweg_fuzz::input;

fuzz_target!(|data: &[u8]| {
    let Some((order, bytes)) = input(data) else { return };
    let seen = scan(&bytes, order).unwrap();
    let mut extents: Vec<_> = seen.groups.iter().map(|g| g.extent).chain(seen.dead.iter().copied()).collect();
    extents.sort();
    let mut at = 0;
    for extent in extents {
        assert!(extent.offset == at && extent.length > 0, "extents one behind the other");
        at = extent.end().unwrap();
    }
    assert_eq!(at, seen.torn.as_ref().map_or(bytes.len() as u64, |(at, _)| *at));
    let mut index = Index::default();
    for found in &seen.groups {
        let _ = damaged_payloads(&bytes, found);
        if let Ok(fragment) = found.fragment(&bytes, 0, 0, order) {
            let _ = index.append_fragment(&fragment.to_fragment());
        }
    }
    let groups: Vec<_> = seen
        .groups
        .iter()
        .map(|g| (g.header.time_index, g.trailer.as_ref().map_or(0, |t| t.rank), g.trailer.as_ref().map(|t| t.ranks)))
        .collect();
    let partial: Vec<u32> = seen.partial.iter().map(|p| p.0).collect();
    last_whole_step(&groups, &partial);
    let _ = index.encode(0, false, true);
});
