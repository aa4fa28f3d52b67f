//! A metadata file and its subfiles: read as one, missed by name, made again from the subfiles.

use crate::writer::{Ending, Subfiles, check_steps, groups, open};
use thalweg_reader::{FindingKind, Reads, RecoverOptions, recover, verify};
use thalweg_store::{Store, StoreExt};
use thalweg_types::{ErrorKind, Selection};

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
        let (_, layout) = made(endings, 4).stored_as("runs/a.bp");
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
    let (memory, layout) = made(&[Ending::Full, Ending::Finished], 3).stored_as("a.bp");
    memory.remove("a.bp.dir/a.bp.1").unwrap();
    let reader = open(&layout, "a.bp").unwrap();
    let e = reader.read_to_vec("field", 0, &Selection::All).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("a.bp.dir/a.bp.1"), "{e}");
    // What lies in the others still reads.
    assert_eq!(reader.read_as::<f64>("field", 0, &Selection::Block(2)).unwrap()[0], crate::writer::field(0, 4, 0));
    let findings = verify(&*layout, "a.bp").unwrap().findings;
    assert_eq!(findings.iter().filter(|f| f.kind == FindingKind::MissingSubfile).count(), 1);
}

#[test]
fn a_metadata_file_that_is_lost_or_cut_off_anywhere_is_made_again() {
    let files = made(&[Ending::Full, Ending::Record, Ending::Finished], 2);
    for cut in (0..=files.metadata.len()).step_by(3).map(Some).chain([None]) {
        let (memory, layout) = files.stored_as("a.bp");
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
    let (memory, layout) = files.stored_as("a.bp");
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
    let (_, layout) = crate::writer::holding(&[]);
    let e = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
}

#[test]
fn a_subfile_of_adios1_with_another_step_is_told_apart() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let mut told = 0;
    for name in ["adios1-bound.bp", "adios1-xml.bp", "adios1-types.bp", "adios1-second-file.bp", "adios1-two-groups.bp"]
    {
        let mut files = vec![(name.to_string(), read(name))];
        for k in 0.. {
            let part = format!("{name}.dir/{name}.{k}");
            if !folder.join(&part).exists() {
                break;
            }
            files.push((part.clone(), read(&part)));
        }
        let stored = |files: &[(String, Vec<u8>)]| {
            crate::writer::holding(&files.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect::<Vec<_>>()).1
        };
        let reader = open(&stored(&files), name).unwrap();
        let array = |head: &&thalweg_reader::Head| {
            reader.variable(&head.name).is_ok_and(|v| v.kind != thalweg_reader::Kind::Scalar && v.steps.contains(&0))
        };
        let Some(array) = reader.variables().iter().find(array).map(|h| h.name.clone()) else { continue };
        let right = reader.read_to_vec(&array, 0, &Selection::Block(0)).unwrap();
        // The time index of the first group: behind length, order, group, variable and name of the time.
        let bytes = &mut files[1].1;
        let text = |at: usize, bytes: &[u8]| at + 2 + usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let at = text(text(9, bytes) + 4, bytes);
        for change in [1u8, 255] {
            let before = files[1].1.clone();
            if change == 1 {
                files[1].1[at] += change;
            } else {
                files[1].1[..at].fill(0);
            }
            let layout = stored(&files);
            let e = open(&layout, name).unwrap().read_to_vec(&array, 0, &Selection::Block(0)).unwrap_err();
            let text = e.to_string();
            assert!(e.kind() == ErrorKind::Corrupt && text.contains(&files[1].0) && text.contains("rank 0"), "{text}");
            let unchecked = open(&layout, name).unwrap().with_reads(Reads::Unchecked);
            assert_eq!(unchecked.read_to_vec(&array, 0, &Selection::Block(0)).unwrap(), right);
            files[1].1 = before;
            told += 1;
        }
    }
    assert!(told >= 4, "{told}");
}
