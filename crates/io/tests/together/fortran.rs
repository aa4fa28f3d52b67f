//! A Fortran program's dimensions stay as it declares them, fastest first; readers turn them round.

use crate::common::*;
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_reader::Reader;
use thalweg_types::{BoundingBox, Selection};

/// As a C program declares it; `LANGUAGE`, and the lists as the language has them.
fn document(method: &str, language: &str) -> String {
    let lists = match language {
        "C" => ("1,3,4", "ranks,3,4", "rank,0,0"),
        _ => ("4,3,1", "4,3,ranks", "0,0,rank"),
    };
    format!(
        r#"<adios-config host-language="{language}"><adios-group name="g">
             <var name="ranks" type="integer"/><var name="rank" type="integer"/>
             <global-bounds dimensions="{}" offsets="{}"><var name="v" type="integer" dimensions="{}"/></global-bounds>
             <var name="local" type="integer" dimensions="{}"/>
           </adios-group><method group="g" method="{method}"/></adios-config>"#,
        lists.1, lists.2, lists.0, lists.0
    )
}

fn write(place: &Place, method: &str, language: &str) {
    place.run(3, |comm| {
        let session = place.session(&document(method, language), &comm);
        for step in 0..3 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            output.write_values("ranks", &[3i32]).unwrap();
            output.write_values("rank", &[comm.rank() as i32]).unwrap();
            let memory: Vec<i32> = (0..12).map(|i| 1000 * step + 100 * comm.rank() as i32 + i).collect();
            output.write_values("v", &memory).unwrap();
            output.write_values("local", &memory).unwrap();
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
}

#[test]
fn the_same_memory_reads_equal_whichever_language_described_it() {
    for method in ["MPI", "POSIX"] {
        let (c, fortran) = (Place::memory(), Place::memory());
        write(&c, method, "C");
        write(&fortran, method, "Fortran");
        assert_eq!(contents(&c.layout, "x.bp").unwrap(), contents(&fortran.layout, "x.bp").unwrap());
        for place in [&c, &fortran] {
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            assert_eq!(reader.shape("v", 1).unwrap(), [3, 3, 4]);
            let part = Selection::Box(BoundingBox::new([1, 0, 2], [2, 2, 1]));
            assert_eq!(reader.read_as::<i32>("v", 2, &part).unwrap(), [2102, 2106, 2202, 2206], "{method}");
            assert_eq!(reader.blocks("local", 0).unwrap()[1].count, [1, 3, 4]);
        }
        // In the file itself they differ: other readers are told which order it is.
        let groups = |place: &Place| Reader::open(place.layout.clone(), "x.bp").unwrap().process_groups().unwrap();
        assert!(groups(&c).iter().all(|g| !g.fortran));
        assert!(groups(&fortran).iter().all(|g| g.fortran));
    }
}

#[test]
fn a_fortran_program_reads_back_what_it_wrote() {
    for language in ["C", "Fortran"] {
        let place = Place::memory();
        write(&place, "MPI", language);
        place.run(3, |comm| {
            let session = place.session(&document("MPI", language), &comm);
            let mut input = session.open_to_read("g", "x.bp", comm.duplicate().unwrap()).unwrap();
            let mut memory = [0i32; 12];
            assert_eq!(input.expected_bytes("v").unwrap(), 48);
            input.read("v", bytemuck::cast_slice_mut(&mut memory)).unwrap();
            assert_eq!(memory[5], 2000 + 100 * comm.rank() as i32 + 5, "{language}");
            input.read("local", bytemuck::cast_slice_mut(&mut memory)).unwrap();
            assert_eq!(memory[11], 2000 + 100 * comm.rank() as i32 + 11, "{language}");
        });
    }
}
