//! What is written comes back equal: both methods, several ranks, several steps, through memory.

use crate::common::*;
use thalweg_bp::live::Live;
use thalweg_io::Mode;

#[test]
fn appended_steps_are_all_in_the_live_index() {
    for method in ["MPI", "POSIX"] {
        for ranks in [1u32, 2, 3, 5] {
            let place = Place::memory();
            place.run(ranks, |comm| {
                let session = place.session(&heat(method, ""), &comm);
                for step in 0..5u64 {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    write_heat(&session, "heat.bp", mode, &comm, step);
                }
                session.finalize().unwrap();
            });
            let bytes = crate::common::bytes(&*place.store, "heat.bp");
            let live = Live::find(&bytes).unwrap();
            assert_eq!(live.step_count(), 5, "{method} {ranks}");
            assert!(live.finished());
            assert_eq!(place.store.stat("heat.bp").unwrap().length, bytes.len() as u64);
        }
    }
}
