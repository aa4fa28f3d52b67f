//! Transformed variables of ADIOS 1.13 without an index: recovered from the process groups alone, and what only part of
//! the bytes can give.

use crate::writer::holding;
use std::path::Path;
use thalweg_bp::footer::Footer;
use thalweg_reader::{FindingKind, Reader, RecoverOptions, recover, verify};
use thalweg_store::StoreExt;
use thalweg_types::{BoundingBox, ErrorKind, Selection};

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign").join(name)).unwrap()
}

/// Every value and every recorded bound of a file, by variable and step.
fn all(bytes: &[u8]) -> Vec<(String, u64, Vec<u8>, String)> {
    let (_, layout) = holding(&[("a.bp", bytes)]);
    let reader = Reader::open(layout, "a.bp").unwrap();
    let mut all = Vec::new();
    for head in reader.variables() {
        let v = reader.variable(&head.name).unwrap();
        for step in &v.steps {
            for block in reader.blocks(&head.name, *step).unwrap() {
                let values = reader.read_to_vec(&head.name, *step, &Selection::Block(block.number)).unwrap();
                let said = format!("{:?} {:?} {:?} {:?}", block.shape, block.offset, block.statistics, block.transform);
                all.push((head.name.clone(), *step, values, said));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn files_of_adios_with_transforms_get_their_index_again() {
    for name in ["adios1-transforms.bp", "adios1-compressed.bp", "adios1-fortran-zfp.bp"] {
        let whole = fixture(name);
        let footer = Footer::decode(whole.last_chunk().unwrap(), whole.len() as u64).unwrap();
        let at = footer.process_groups as usize;
        let (store, layout) = holding(&[("a.bp", &whole[..at])]);
        assert!(Reader::open(layout.clone(), "a.bp").is_err());
        recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
        assert!(all(&store.read_all("a.bp").unwrap()) == all(&whole), "{name}");
    }
}

#[test]
fn a_damaged_block_is_named_by_verify_and_spoils_only_reads_that_need_it() {
    let whole = fixture("adios1-compressed.bp");
    let (_, layout) = holding(&[("a.bp", &whole)]);
    let reader = Reader::open(layout, "a.bp").unwrap();
    // zlib with its own checksum, blocks of rows 0 to 15 and 16 to 25.
    let name = "double_0_2d";
    let second = reader.blocks(name, 1).unwrap().remove(1);
    let mut bytes = whole.clone();
    bytes[(second.payload.offset + second.payload.length / 2) as usize] ^= 1;
    let (_, layout) = holding(&[("a.bp", &bytes)]);
    let findings = verify(&*layout, "a.bp").unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].kind, findings[0].variable.as_deref()), (FindingKind::Structure, Some(name)));
    assert_eq!((findings[0].byte, findings[0].step), (Some(second.payload.offset), Some(1)));
    let damaged = Reader::open(layout, "a.bp").unwrap();
    let first_rows = Selection::Box(BoundingBox::new([0, 0], [16, 12]));
    assert_eq!(damaged.read_to_vec(name, 1, &first_rows).unwrap(), reader.read_to_vec(name, 1, &first_rows).unwrap());
    let e = damaged.read_to_vec(name, 1, &Selection::All).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert_eq!((e.place().byte, e.place().variable.as_deref()), (Some(second.payload.offset), Some(name)));
}
