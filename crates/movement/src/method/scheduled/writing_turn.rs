//! A rank's turn to write: it begins when the preceding rank at the same storage target has written, and ends with a
//! message to the next rank.
//!
//! One receive and one send per rank and output, 12 bytes each. A rank that failed also passes its turn on. If the
//! preceding rank is lost or sends nothing within the communicator's timeout, the turn begins anyway: more writers than
//! intended are slow, but waiting for a lost rank would lose data.

use crate::plan::stripes::Striped;
use crate::plan::turns;
use thalweg_comm::Communicator;
use thalweg_comm::tags;

/// One rank's turn; dropping it passes it on.
pub struct Turn<'c> {
    comm: &'c dyn Communicator,
    token: [u8; 12],
    next: Option<u32>,
}

impl<'c> Turn<'c> {
    /// Waits for this rank's turn.
    ///
    /// - `writers_per_target`: most concurrent writers at a target, 0: no limit; `run`, `time_index`: of the output.
    pub fn wait(
        comm: &'c dyn Communicator,
        striped: &Striped,
        writers_per_target: u32,
        run: u64,
        time_index: u32,
    ) -> Turn<'c> {
        let mut token = [0; 12];
        token[..8].copy_from_slice(&run.to_le_bytes());
        token[8..].copy_from_slice(&time_index.to_le_bytes());
        let next = turns::before(striped, comm.rank(), writers_per_target);
        if let Some(before) = turns::after(striped, comm.rank(), writers_per_target) {
            loop {
                match comm.receive(Some(before), tags::WRITING_TURN) {
                    // A late message of an earlier output.
                    Ok(message) if message.bytes != token => continue,
                    Ok(_) => break,
                    Err(e) => {
                        tracing::warn!(
                            before,
                            "writing without waiting further for the message of this rank's turn: {e}"
                        );
                        break;
                    }
                }
            }
        }
        Turn { comm, token, next }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(next) = self.next {
            // A failed send is ignored: a lost rank does not wait.
            let _ = self.comm.send(next, tags::WRITING_TURN, &self.token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use thalweg_comm::threads::{self, Machine};
    use thalweg_types::mutex::Mutex;

    #[test]
    fn no_more_than_so_many_write_to_a_target_at_a_time() {
        let striped = Striped::new(40, 6, 3, 1).unwrap();
        // Per target: how many write now, and the most that did.
        let writing = Mutex::new([(0, 0); 3]);
        threads::run(40, |comm| {
            for step in 1..4 {
                let turn = Turn::wait(&comm, &striped, 2, 7, step);
                let target = striped.target(striped.file(comm.rank())) as usize;
                {
                    let mut w = writing.lock();
                    w[target].0 += 1;
                    w[target].1 = w[target].1.max(w[target].0);
                }
                std::thread::sleep(Duration::from_millis(1));
                writing.lock()[target].0 -= 1;
                drop(turn);
                // As close has it, where outcomes reach all.
                comm.barrier().unwrap();
            }
        });
        assert_eq!(writing.into_inner(), [(0, 2); 3]);
    }

    #[test]
    fn a_lost_rank_and_a_silent_one_keep_nobody_waiting() {
        let striped = Striped::new(6, 1, 1, 1).unwrap();
        let machine = Machine::new(6).timeout(Duration::from_millis(300));
        let began = std::time::Instant::now();
        machine.run(|comm| match comm.rank() {
            1 => {}
            2 => std::thread::sleep(Duration::from_millis(600)),
            _ => drop(Turn::wait(&comm, &striped, 1, 7, 1)),
        });
        assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    }

    #[test]
    fn what_came_too_late_for_an_earlier_output_begins_no_turn() {
        let striped = Striped::new(2, 1, 1, 1).unwrap();
        let order = Mutex::new(Vec::new());
        threads::run(2, |comm| {
            if comm.rank() == 0 {
                drop(Turn::wait(&comm, &striped, 1, 7, 1));
                std::thread::sleep(Duration::from_millis(50));
                let turn = Turn::wait(&comm, &striped, 1, 7, 2);
                order.lock().push(0);
                drop(turn);
            } else {
                let _turn = Turn::wait(&comm, &striped, 1, 7, 2);
                order.lock().push(1);
            }
        });
        assert_eq!(order.into_inner(), [0, 1]);
    }
}
