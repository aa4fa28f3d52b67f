//! Files whose time does not begin with 1, as later files of a process of ADIOS 1.x: steps count from the first one there is.

use crate::writer::{Ending, File, groups, holding, open};
use std::path::Path;
use thalweg_reader::{RecoverOptions, index_only, recover, verify};
use thalweg_store::StoreExt;
use thalweg_types::Selection;

/// The second file of an ADIOS 1.13 process, of steps with the time indexes 3, 4 and 5.
fn second_file() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    ["adios1-second-file.bp", "adios1-second-file.bp.dir/adios1-second-file.bp.0"]
        .iter()
        .map(|name| (name.to_string(), std::fs::read(folder.join(name)).unwrap()))
        .collect()
}

#[test]
fn the_steps_of_a_later_file_begin_with_0_however_its_index_is_read() {
    let objects = second_file();
    let all: Vec<(&str, &[u8])> = objects.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect();
    let (memory, layout) = holding(&all);
    let name = "adios1-second-file.bp";
    let check = |path: &str, what: &str| {
        let reader = open(&layout, path).unwrap();
        assert_eq!(reader.status().steps, 3, "{what}");
        assert_eq!(reader.variable("x").unwrap().steps, [0, 1, 2], "{what}");
        let last: Vec<f64> = reader.read_as("x", 2, &Selection::All).unwrap();
        assert_eq!(last, [0.0, 0.125, 0.25, 0.375], "{what}");
        let block = &reader.blocks("x", 1).unwrap()[0];
        assert_eq!((block.step, reader.writer(block).unwrap()), (1, Some(0)), "{what}");
        assert!(reader.read_to_vec("x", 3, &Selection::All).is_err(), "{what}");
    };
    check(name, "as ADIOS wrote it");
    let report = verify(&*layout, name).unwrap();
    assert_eq!((report.steps, report.findings), (3, vec![]));
    // An index of ours remembers.
    memory.write_all("x.idx", &index_only(&*layout, name).unwrap()).unwrap();
    let reader = open(&layout, "x.idx").unwrap();
    assert_eq!((reader.status().steps, reader.variable("x").unwrap().steps), (3, vec![0, 1, 2]));
    // So does one that is made of the data alone.
    let whole = memory.read_all(name).unwrap();
    memory.write_all(name, &whole[..whole.len() - 5]).unwrap();
    for keep_partial in [false, true] {
        let done =
            recover(&*layout, name, RecoverOptions { keep_partial, dry_run: false, ..RecoverOptions::default() })
                .unwrap();
        assert_eq!((done.steps, &done.dropped[..]), (3, &[][..]), "{:?}", done.actions);
        check(name, "recovered");
    }
}

#[test]
fn a_file_of_ours_keeps_its_numbers_though_its_first_steps_are_lost() {
    let mut file = File::default();
    for step in 0..3 {
        file.step(&groups(step, 1), Ending::Open);
    }
    let first = groups(0, 1)[0].encode(0, u32::MAX).0.len();
    file.bytes[..first].fill(0);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let done = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
    assert_eq!(done.steps, 3, "{:?}", done.actions);
    assert_eq!(open(&layout, "a.bp").unwrap().variable("field").unwrap().steps, [1, 2]);
}
