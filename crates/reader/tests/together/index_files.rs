//! The index alone answers as the file does, and finds the data where it lies beside it.

use crate::writer::{Ending, File, Subfiles, check_steps, groups, holding, open};
use thalweg_reader::index_only;
use thalweg_store::{Store, StoreExt};
use thalweg_types::{ErrorKind, Selection};

#[test]
fn an_index_file_lists_without_the_data_and_reads_with_it() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    file.step(&groups(1, 2), Ending::Record);
    let (memory, layout) = holding(&[("runs/a.bp", &file.bytes)]);
    let index = index_only(&*layout, "runs/a.bp").unwrap();
    memory.write_all("runs/a.idx", &index).unwrap();
    let reader = open(&layout, "runs/a.idx").unwrap();
    assert_eq!(reader.status().data_file.as_deref(), Some("a.bp"));
    assert!(!reader.status().finished && reader.status().steps == 2);
    check_steps(&reader, 2, 2);

    // The data grows: the index still finds its own steps.
    file.step(&groups(2, 2), Ending::Finished);
    memory.write_all("runs/a.bp", &file.bytes).unwrap();
    check_steps(&open(&layout, "runs/a.idx").unwrap(), 2, 2);

    memory.write_all("runs/a.bp", &file.bytes[..100]).unwrap();
    let e = open(&layout, "runs/a.idx").unwrap().read_to_vec("field", 0, &Selection::All).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);

    memory.remove("runs/a.bp").unwrap();
    let reader = open(&layout, "runs/a.idx").unwrap();
    assert_eq!(reader.summary("field", 0..9).unwrap().blocks, 4);
    assert_eq!(reader.value("step", 1).unwrap(), thalweg_types::Value::I32(1));
    let e = reader.read_to_vec("field", 0, &Selection::All).unwrap_err();
    assert!(e.kind() == ErrorKind::NotFound && e.to_string().contains("runs/a.bp"), "{e}");
    assert_eq!(thalweg_reader::verify(&*layout, "runs/a.idx").unwrap().findings, []);
}

#[test]
fn an_index_file_of_subfiles_finds_them_by_the_name_of_the_metadata_file() {
    let mut files = Subfiles::default();
    files.step(&groups(0, 2), Ending::Finished);
    let (memory, layout) = files.stored_as("a.bp");
    memory.write_all("small", &index_only(&*layout, "a.bp").unwrap()).unwrap();
    check_steps(&open(&layout, "small").unwrap(), 1, 2);
    memory.remove("a.bp").unwrap();
    check_steps(&open(&layout, "small").unwrap(), 1, 2);
}
