//! A block may be written out of a larger array in memory: the file is the same to the byte as that of a copied block.

use crate::common::*;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_io::{Mode, Output, WriteRequest};
use thalweg_reader::Reader;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::Counting;
use thalweg_types::{BoundingBox, ErrorKind, MemorySelection, Selection};

/// A block per rank of an array of doubles, `ny` times `nx`; `order` as the language has it.
fn document(method: &str, parameters: &str, language: &str, buffer: &str) -> String {
    let (all, at, own) = match language {
        "C" => ("ranks,3,ny,nx", "rank,0,0,0", "1,3,ny,nx"),
        _ => ("nx,ny,3,ranks", "0,0,0,rank", "nx,ny,3,1"),
    };
    format!(
        r#"<adios-config host-language="{language}"><adios-group name="g">
             <var name="ranks" type="integer"/><var name="rank" type="integer"/>
             <var name="ny" type="integer"/><var name="nx" type="integer"/>
             <global-bounds dimensions="{all}" offsets="{at}"><var name="v" type="double" dimensions="{own}"/></global-bounds>
             <var name="text" type="string"/>
           </adios-group><method group="g" method="{method}">{parameters}</method>{buffer}</adios-config>"#
    )
}

const GHOSTS: u64 = 2;

#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    Copied,
    From,
    DeferredFrom,
}

/// The block of a rank, and the memory of the program around it, full of values that are nobody's.
fn memory_of(rank: u32, ny: u64, nx: u64) -> (Vec<f64>, Vec<f64>, MemorySelection) {
    let count = [1, 3, ny, nx];
    let memory = MemorySelection::ghosts(&count, GHOSTS);
    let mut around = vec![-1e30; memory.elements().unwrap() as usize];
    let block: Vec<f64> = (0..3 * ny * nx).map(|i| f64::from(rank) * 1e6 + i as f64 * 0.5).collect();
    let runs = memory.runs(&count).unwrap();
    let length = runs.length() as usize;
    for (n, at) in runs.enumerate() {
        around[at as usize..at as usize + length].copy_from_slice(&block[n * length..(n + 1) * length]);
    }
    (block, around, memory)
}

fn write(place: &Place, document: &str, how: How, ny: u64, nx: u64) {
    place.run(2, |comm| {
        let session = place.session(document, &comm);
        for step in 0..2 {
            let (block, around, mut memory) = memory_of(comm.rank() + 10 * step, ny, nx);
            if document.contains("Fortran") {
                memory = memory.reversed();
            }
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output: Output<'_> = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            for (name, value) in [("ranks", 2), ("rank", comm.rank() as i32), ("ny", ny as i32), ("nx", nx as i32)] {
                output.write_values(name, &[value]).unwrap();
            }
            let around: &[u8] = bytemuck::cast_slice(&around);
            match how {
                How::Copied => output.write_values("v", &block).unwrap(),
                How::From => output.put(WriteRequest::new("v", around).out_of(&memory)).unwrap(),
                How::DeferredFrom => output.put(WriteRequest::deferred("v", around).out_of(&memory)).unwrap(),
            }
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
}

/// All objects, without what is different each time: run ids.
fn blocks(place: &Place) -> (Contents, String) {
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let facts: Vec<_> = (0..2).map(|step| reader.blocks("v", step).unwrap()).collect();
    (contents(&place.layout, "x.bp").unwrap(), format!("{facts:?}"))
}

#[test]
fn values_statistics_and_places_are_those_of_a_copied_block() {
    // Rows of 56 bytes and of 8 KiB, in memory, gone through at once, and with no buffer at all.
    for (ny, nx) in [(4, 7), (5, 1024)] {
        for (method, parameters) in [("MPI", ""), ("POSIX", ""), ("POSIX", "direct=100")] {
            for buffer in ["", "<buffer max-size-MB=\"0\"/>"] {
                for language in ["C", "Fortran"] {
                    let document = document(method, parameters, language, buffer);
                    let reference = Place::memory();
                    write(&reference, &document, How::Copied, ny, nx);
                    for how in [How::From, How::DeferredFrom] {
                        let place = Place::memory();
                        write(&place, &document, how, ny, nx);
                        let case = format!("{how:?} {document} {ny} {nx}");
                        assert_eq!(blocks(&place), blocks(&reference), "{case}");
                        assert!(thalweg_reader::verify(&*place.layout, "x.bp").unwrap().findings.is_empty(), "{case}");
                        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
                        let one = Selection::Box(BoundingBox::new([1, 2, 3, 6], [1, 1, 1, 1]));
                        let expected = memory_of(11, ny, nx).0[((2 * ny + 3) * nx + 6) as usize];
                        assert_eq!(reader.read_as::<f64>("v", 1, &one).unwrap(), [expected], "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn long_rows_that_wait_need_no_buffer_and_short_ones_are_gathered_there() {
    for (nx, most, pieces) in [(1024u64, 64 * 1024, 3 * 40), (7, 64 * 1024, 1)] {
        let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
        let place = Place::over(counting.clone());
        let session = place.session(&document("MPI", "", "C", ""), &Alone::new());
        let (_, around, memory) = memory_of(0, 40, nx);
        let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
        for (name, value) in [("ranks", 1), ("rank", 0), ("ny", 40), ("nx", nx as i32)] {
            output.write_values(name, &[value]).unwrap();
        }
        output.put(WriteRequest::deferred("v", bytemuck::cast_slice(&around)).out_of(&memory)).unwrap();
        output.close().unwrap();
        // Beside what is reserved to copy from a spill file.
        let most = most + thalweg_io::registry::find("MPI").unwrap().least;
        assert!(session.buffer().peak() <= most, "{nx}: {}", session.buffer().peak());
        let object = counting.counted().object("x.bp");
        assert!((pieces..pieces + 40).contains(&object.pieces), "{nx}: {object:?}");
    }
}

#[test]
fn a_place_that_is_not_in_memory_is_refused_and_nothing_is_lost() {
    let place = Place::memory();
    let session = place.session(&document("MPI", "", "C", ""), &Alone::new());
    let (block, around, memory) = memory_of(0, 4, 7);
    let around: &[u8] = bytemuck::cast_slice(&around);
    let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    for (name, value) in [("ranks", 1), ("rank", 0), ("ny", 4), ("nx", 7)] {
        output.write_values(name, &[value]).unwrap();
    }
    let mut far = memory.clone();
    far.start[3] = 5;
    let error = output.put(WriteRequest::new("v", around).out_of(&far)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfBounds);
    assert!(error.to_string().contains("dimension 3: 7 elements from 5 leave the memory's extent 11"), "{error}");
    let flat = MemorySelection::new([around.len() as u64 / 8], [0]);
    assert_eq!(
        output.put(WriteRequest::new("v", around).out_of(&flat)).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        output.put(WriteRequest::new("v", &around[8..]).out_of(&memory)).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        output.put(WriteRequest::new("ny", &around[..4]).out_of(&MemorySelection::new([], []))).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        output.put(WriteRequest::new("text", b"x").out_of(&MemorySelection::new([1], [0]))).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    output.put(WriteRequest::new("v", around).out_of(&memory)).unwrap();
    output.close().unwrap();
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!(reader.read_as::<f64>("v", 0, &Selection::All).unwrap(), block);
}
