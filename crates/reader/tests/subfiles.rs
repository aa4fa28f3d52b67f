//! A metadata file and its subfiles: read as one, missed by name, made again from the subfiles.

mod writer;

use thalweg_reader::{FindingKind, RecoverOptions, recover, verify};
use thalweg_store::{Store, StoreExt};
use thalweg_types::{ErrorKind, Selection};
use writer::{Ending, Subfiles, check_steps, groups, open};

fn made(endings: &[Ending], ranks: u32) -> Subfiles {
    let mut files = Subfiles::default();
    for (step, ending) in endings.iter().enumerate() {
        files.step(&groups(step as u32, ranks), *ending);
    }
    files
}

#[test]
fn values_come_from_the_subfiles_of_all_ranks() {
    use Ending::*;
    for endings in [&[Finished][..], &[Full, Record, Record], &[Full, Record, Finished]] {
        let (_, layout) = made(endings, 4).hold("runs/a.bp");
        let reader = open(&layout, "runs/a.bp").unwrap();
        assert!(reader.status().subfiles);
        check_steps(&reader, endings.len() as u32, 4);
        let block = &reader.blocks("field", 0).unwrap()[2];
        assert_eq!((block.subfile, reader.writer(block).unwrap()), (Some(2), Some(2)));
        assert_eq!(verify(&*layout, "runs/a.bp").unwrap().findings, []);
    }
}

#[test]
fn a_subfile_that_is_missing_is_named() {
    let (memory, layout) = made(&[Ending::Full, Ending::Finished], 3).hold("a.bp");
    memory.remove("a.bp.dir/a.bp.1").unwrap();
    let reader = open(&layout, "a.bp").unwrap();
    let e = reader.read_to_vec("field", 0, &Selection::All).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("a.bp.dir/a.bp.1"), "{e}");
    // What lies in the others still reads.
    assert_eq!(reader.read_as::<f64>("field", 0, &Selection::Block(2)).unwrap()[0], writer::field(0, 4, 0));
    let findings = verify(&*layout, "a.bp").unwrap().findings;
    assert_eq!(findings.iter().filter(|f| f.kind == FindingKind::MissingSubfile).count(), 1);
}

#[test]
fn a_metadata_file_that_is_lost_or_cut_off_anywhere_is_made_again() {
    let files = made(&[Ending::Full, Ending::Record, Ending::Finished], 2);
    for cut in (0..=files.metadata.len()).step_by(3).map(Some).chain([None]) {
        let (memory, layout) = files.hold("a.bp");
        match cut {
            Some(length) => memory.write_all("a.bp", &files.metadata[..length]).unwrap(),
            None => memory.remove("a.bp").unwrap(),
        }
        let before = open(&layout, "a.bp").map(|r| r.status().steps).unwrap_or(3);
        let done = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
        assert_eq!(done.steps, before, "{cut:?}: {:?}", done.actions);
        let reader = open(&layout, "a.bp").unwrap();
        assert!(reader.status().finished);
        check_steps(&reader, done.steps as u32, 2);
        assert_eq!(verify(&*layout, "a.bp").unwrap().findings, [], "{cut:?}");
    }
}

#[test]
fn what_ranks_wrote_whole_of_a_step_that_was_never_closed_stays_and_torn_bytes_are_cut_off() {
    let mut files = made(&[Ending::Full, Ending::Record], 2);
    files.step(&groups(2, 2), Ending::Open);
    let torn = files.parts[1].len() - 50;
    files.parts[1].truncate(torn);
    let (memory, layout) = files.hold("a.bp");
    let kinds: Vec<_> = verify(&*layout, "a.bp").unwrap().findings.iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FindingKind::Torn, FindingKind::Structure]);
    let done = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
    assert_eq!((done.steps, done.actions.len()), (2, 3), "{:?}", done.actions);
    assert!(memory.read_all("a.bp.dir/a.bp.1").unwrap().len() < torn);
    assert_eq!(memory.read_all("a.bp.dir/a.bp.0").unwrap(), files.parts[0], "rank 0's process group is whole");
    check_steps(&open(&layout, "a.bp").unwrap(), 2, 2);
    assert_eq!(verify(&*layout, "a.bp").unwrap().findings, []);
}

#[test]
fn neither_file_nor_subfiles_is_not_found() {
    let (_, layout) = writer::holding(&[]);
    let e = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
}
