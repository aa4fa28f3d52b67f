//! A rank that dies, leaves or lets go is noticed by those who need it, and the others go on.

use std::time::{Duration, Instant};
use thalweg_comm::threads::{Machine, ThreadCommunicator};
use thalweg_comm::{Communicator, Reduce};
use thalweg_types::ErrorKind;

/// A test that waits in vain fails in the end.
fn machine_of(ranks: u32) -> Machine {
    Machine::new(ranks).timeout(Duration::from_secs(600))
}

/// Far below the timeout: the loss was noticed, not waited out.
fn promptly(body: impl FnOnce()) {
    let started = Instant::now();
    body();
    assert!(started.elapsed() < Duration::from_secs(300), "the loss was waited out: {:?}", started.elapsed());
}

#[test]
fn a_rank_that_returns_early_is_lost_to_a_collective_call() {
    promptly(|| {
        let kinds = machine_of(5).run(|comm| {
            if comm.rank() == 3 {
                return None;
            }
            comm.barrier().err().map(|e| (e.kind(), e.to_string().contains("rank 3")))
        });
        for (rank, kind) in kinds.into_iter().enumerate() {
            assert_eq!(kind, (rank != 3).then_some((ErrorKind::PeerLost, true)), "rank {rank}");
        }
    });
}

#[test]
fn a_rank_that_panics_is_lost_to_a_receive() {
    promptly(|| {
        let results = machine_of(4).run_each(|comm| match comm.rank() {
            2 => panic!("on purpose"),
            1 => comm.receive(Some(2), 0).unwrap_err().kind(),
            _ => comm.receive(None, 0).unwrap_err().kind(),
        });
        for (rank, result) in results.into_iter().enumerate() {
            assert_eq!(result.ok(), (rank != 2).then_some(ErrorKind::PeerLost), "rank {rank}");
        }
    });
}

#[test]
fn what_a_rank_sent_before_it_died_is_still_received() {
    machine_of(2).run(|comm| {
        if comm.rank() == 0 {
            comm.send(1, 1, b"last words").unwrap();
            comm.leave();
            assert_eq!(comm.send(1, 1, b"from beyond").unwrap_err().kind(), ErrorKind::PeerLost);
        } else {
            assert_eq!(comm.receive(Some(0), 1).unwrap().bytes, b"last words");
            assert_eq!(comm.receive(Some(0), 1).unwrap_err().kind(), ErrorKind::PeerLost);
            assert_eq!(comm.probe(None, 1).unwrap_err().kind(), ErrorKind::PeerLost);
            assert_eq!(comm.send(0, 1, b"too late").unwrap_err().kind(), ErrorKind::PeerLost);
        }
    });
}

#[test]
fn others_may_finish_while_one_still_sends_to_any_receiver() {
    machine_of(4).run(|comm| match comm.rank() {
        0 => {
            let got: Vec<u32> = (0..3).map(|_| comm.receive(None, 0).unwrap().from).collect();
            assert_eq!(got.len(), 3);
            assert_eq!(comm.receive(None, 0).unwrap_err().kind(), ErrorKind::PeerLost, "nobody is left");
        }
        3 => {
            std::thread::sleep(Duration::from_millis(50));
            comm.send(0, 0, b"late").unwrap();
        }
        _ => comm.send(0, 0, b"early").unwrap(),
    });
}

#[test]
fn a_dropped_handle_is_lost_to_that_communicator_only() {
    machine_of(3).run(|comm| {
        let twin = comm.duplicate().unwrap();
        if comm.rank() == 1 {
            drop(twin);
        } else {
            assert_eq!(twin.barrier().unwrap_err().kind(), ErrorKind::PeerLost);
        }
        comm.barrier().unwrap();
    });
}

#[test]
fn leaving_is_leaving_every_communicator() {
    machine_of(3).run(|comm| {
        let twin = comm.duplicate().unwrap();
        if comm.rank() == 2 {
            comm.leave();
            assert_eq!(twin.barrier().unwrap_err().kind(), ErrorKind::PeerLost);
            // Stays until the others have noticed, so that its drop is not what they notice.
            std::thread::sleep(Duration::from_millis(100));
        } else {
            assert_eq!(twin.barrier().unwrap_err().kind(), ErrorKind::PeerLost);
        }
    });
}

fn go_on(comm: &ThreadCommunicator, dead: &[u32]) -> Box<dyn Communicator> {
    let left = comm.survivors().unwrap();
    let alive: Vec<u32> = (0..comm.size()).filter(|r| !dead.contains(r)).collect();
    assert_eq!(left.size() as usize, alive.len());
    assert_eq!(alive[left.rank() as usize], comm.rank(), "the old order");
    let sum = left.all_reduce(&[u64::from(comm.rank())], Reduce::Sum).unwrap()[0];
    assert_eq!(sum, alive.iter().map(|r| u64::from(*r)).sum::<u64>());
    left
}

#[test]
fn survivors_go_on_in_the_old_order() {
    promptly(|| {
        machine_of(64)
            .run_each(|comm| {
                if comm.rank() % 20 == 7 {
                    panic!("on purpose");
                }
                assert_eq!(comm.barrier().unwrap_err().kind(), ErrorKind::PeerLost);
                let left = go_on(&comm, &[7, 27, 47]);
                left.barrier().unwrap();
            })
            .into_iter()
            .enumerate()
            .for_each(|(rank, result)| assert_eq!(result.is_err(), rank % 20 == 7, "rank {rank}"));
    });
}

#[test]
fn who_waits_for_a_survivor_that_rallies_is_called_too() {
    promptly(|| {
        machine_of(3).run(|comm| {
            if comm.rank() == 2 {
                return;
            }
            if comm.rank() == 1 {
                // Rank 0 is alive, but will never send this: it has noticed the loss and gathers the survivors.
                assert_eq!(comm.receive(Some(0), 0).unwrap_err().kind(), ErrorKind::PeerLost);
            } else {
                assert_eq!(comm.receive(Some(2), 0).unwrap_err().kind(), ErrorKind::PeerLost);
            }
            go_on(&comm, &[2]);
        });
    });
}

#[test]
fn a_rank_lost_while_survivors_gather_is_not_waited_for() {
    promptly(|| {
        machine_of(4).run(|comm| match comm.rank() {
            3 => (),
            2 => std::thread::sleep(Duration::from_millis(100)),
            _ => {
                go_on(&comm, &[2, 3]);
            }
        });
    });
}

#[test]
fn ranks_that_make_different_calls_are_told() {
    machine_of(3).run(|comm| {
        let result = if comm.rank() == 1 { comm.broadcast(0, &mut Vec::new()) } else { comm.barrier() };
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(
            comm.all_reduce(&vec![0; comm.rank() as usize], Reduce::Sum).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        comm.barrier().unwrap();
    });
}

#[test]
#[should_panic(expected = "the first one's words")]
fn run_shows_the_panic_that_came_first() {
    machine_of(3).run(|comm| {
        if comm.rank() == 1 {
            panic!("the first one's words");
        }
        comm.barrier().unwrap();
    });
}
