//! A program that makes a new file for each output: each is closed for good with it, and not held, so that the space of one
//! that is removed is free at once. More can be added to it all the same.

use crate::common::*;
use thalweg_io::Mode;
use thalweg_reader::{Reader, verify};

const RANKS: u32 = 2;

fn is_leased(place: &Place, path: &str) -> bool {
    place.layout.open_read(path).unwrap().life().unwrap().leased == Some(true)
}

fn is_finished(place: &Place, path: &str) -> bool {
    Reader::open(place.layout.clone(), path).unwrap().status().finished
}

#[test]
fn files_of_one_output_are_closed_for_good_and_not_held() {
    for method in ["MPI", "MPI_COLLECTIVE", "POSIX", "MPI_SCHEDULED", "MPI_AGGREGATE", "ADAPTIVE"] {
        are_closed_for_good(method);
    }
}

fn are_closed_for_good(method: &str) {
    let place = Place::memory();
    place.run(RANKS, |comm| {
        let session = place.session(&heat(method, ""), &comm);
        write_heat(&session, "0.bp", Mode::Write, &comm, 0);
        if thalweg_comm::Communicator::rank(&comm) == 0 {
            // A second one may follow in the same file: nobody knows yet.
            assert!(is_leased(&place, "0.bp") && !is_finished(&place, "0.bp"));
        }
        for name in ["1.bp", "2.bp", "2.bp"] {
            write_heat(&session, name, Mode::Write, &comm, 0);
            if thalweg_comm::Communicator::rank(&comm) == 0 {
                for path in ["0.bp", name] {
                    assert!(!is_leased(&place, path) && is_finished(&place, path), "{method}: {path}");
                }
            }
        }
        write_heat(&session, "2.bp", Mode::Append, &comm, 1);
        if thalweg_comm::Communicator::rank(&comm) == 0 {
            assert!(is_leased(&place, "2.bp"), "{method}: it goes on");
        }
        session.finalize().unwrap();
    });
    assert!(!is_leased(&place, "2.bp") && is_finished(&place, "2.bp"));
    for (path, steps) in [("0.bp", 1), ("1.bp", 1), ("2.bp", 2)] {
        for step in 0..steps {
            assert_eq!(read_heat(&place.layout, path, step), all_of_t(RANKS, step), "{method}: {path}");
        }
        assert!(verify(&*place.layout, path).unwrap().is_clean());
    }
}

#[test]
fn a_smaller_run_leaves_no_subfiles_of_a_larger_one() {
    let folder = std::env::temp_dir().join(format!("thalweg-smaller-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (method, parameters) in [("POSIX", ""), ("MPI_AGGREGATE", "aggregators=5"), ("MPI_SCHEDULED", "num_files=5")] {
        for place in [Place::memory(), Place::over(std::sync::Arc::new(thalweg_store::Posix::at(&folder).unwrap()))] {
            for ranks in [5, 2] {
                place.run(ranks, |comm| {
                    let session = place.session(&heat(method, parameters), &comm);
                    write_heat(&session, "x.bp", Mode::Write, &comm, 0);
                    session.finalize().unwrap();
                });
                let there = place.layout.list("x.bp.dir").unwrap().len();
                assert_eq!(there, ranks as usize, "{method}");
            }
            assert_eq!(read_heat(&place.layout, "x.bp", 0), all_of_t(2, 0), "{method}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
