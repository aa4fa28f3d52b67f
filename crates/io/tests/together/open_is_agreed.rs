//! A mistake that one rank makes when it opens reaches all ranks: nobody waits for a rank that isn't coming.

use crate::common::*;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, output};
use thalweg_types::{Error, ErrorKind};

#[test]
fn a_group_that_one_rank_does_not_know_fails_the_open_on_all_ranks() {
    for method in ["NULL", "MPI", "POSIX"] {
        let place = Place::memory();
        let errors = place.run(3, |comm| {
            let session = place.session(&heat(method, ""), &comm);
            let group = if comm.rank() == 1 { "haet" } else { "heat" };
            session.open(group, "x.bp", Mode::Write, comm.duplicate().unwrap()).err().unwrap()
        });
        for (rank, error) in errors.iter().enumerate() {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{method} {error}");
            assert_eq!(error.reported_by(), (rank != 1).then_some(1), "{method} {error}");
        }
        assert!(errors[1].to_string().contains("did you mean \"heat\"?"), "{}", errors[1]);
    }
}

#[test]
fn a_rank_whose_program_cannot_even_ask_declines_and_the_others_know() {
    for read in [false, true] {
        let place = Place::memory();
        let errors = place.run(3, |comm| {
            let session = place.session(&heat("MPI", ""), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            let own = comm.duplicate().unwrap();
            if comm.rank() == 2 {
                output::decline(&*own, Error::new(ErrorKind::InvalidArgument, "no name"))
            } else if read {
                session.open_to_read("heat", "x.bp", own).err().unwrap()
            } else {
                session.open("heat", "x.bp", Mode::Append, own).err().unwrap()
            }
        });
        for (rank, error) in errors.iter().enumerate() {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert_eq!(error.reported_by(), (rank != 2).then_some(2), "{error}");
        }
    }
}
