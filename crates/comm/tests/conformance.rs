//! Every communicator of this crate keeps what the trait promises.

use std::sync::Barrier;
use std::time::Duration;
use thalweg_comm::alone::Alone;
use thalweg_comm::counting::Counting;
use thalweg_comm::{Communicator, ThreadLevel, in_calls, threads};
use thalweg_conformance::comm::check;

#[test]
fn one_rank_alone_keeps_every_promise() {
    check(&Alone::new());
}

#[test]
fn a_few_threads_keep_every_promise() {
    for ranks in [1, 2, 3, 5] {
        threads::run(ranks, |comm| check(&comm));
    }
}

#[test]
fn sixty_four_threads_keep_every_promise() {
    threads::run(64, |comm| check(&comm));
}

#[test]
fn two_hundred_and_fifty_seven_threads_keep_every_promise() {
    threads::run(257, |comm| check(&comm));
}

#[test]
fn threads_on_several_nodes_keep_every_promise() {
    threads::Machine::new(7).ranks_per_node(3).run(|comm| check(&comm));
}

#[test]
fn counting_changes_nothing() {
    threads::run(3, |comm| check(&Counting::new(Box::new(comm) as Box<dyn Communicator>)));
}

/// Runs the suite on another thread than the rank's, whose calls move the messages.
fn check_in_calls(level: ThreadLevel, ranks: u32) {
    threads::Machine::new(ranks).ranks_per_node(2).thread_level(level).run(|comm| {
        let other = in_calls::for_threads(comm.duplicate().unwrap());
        std::thread::scope(|scope| {
            let checks = scope.spawn(move || {
                in_calls::in_background();
                check(&*other);
            });
            while !checks.is_finished() {
                if !in_calls::move_messages() {
                    std::thread::sleep(Duration::from_micros(20));
                }
            }
            checks.join().unwrap();
        });
        comm.barrier().unwrap();
    });
}

#[test]
fn another_thread_keeps_every_promise_through_the_calls_of_the_rank() {
    for ranks in [1, 2, 3, 5] {
        check_in_calls(ThreadLevel::Single, ranks);
    }
    check_in_calls(ThreadLevel::Serialized, 3);
}

#[test]
fn a_rank_whose_calls_move_messages_may_use_them_itself() {
    threads::Machine::new(3).thread_level(ThreadLevel::Funneled).run(|comm| {
        let own = in_calls::for_threads(comm.duplicate().unwrap());
        check(&*own);
        drop(own);
        comm.barrier().unwrap();
        assert!(!in_calls::is_needed(), "what nobody uses is gone");
    });
}

#[test]
fn other_threads_may_not_call_the_communicator_of_a_rank_with_one_thread() {
    threads::Machine::new(2).thread_level(ThreadLevel::Single).run(|comm| {
        let other = comm.duplicate().unwrap();
        let kind = std::thread::scope(|scope| scope.spawn(move || other.barrier().unwrap_err().kind()).join());
        assert_eq!(kind.unwrap(), thalweg_types::ErrorKind::InvalidArgument);
        comm.barrier().unwrap();
    });
}

#[test]
fn the_clock_of_waits_stands_still_while_a_rank_makes_no_calls() {
    threads::Machine::new(1).thread_level(ThreadLevel::Single).run(|comm| {
        let own = in_calls::for_threads(comm.duplicate().unwrap());
        in_calls::move_messages();
        let before = own.clock();
        std::thread::sleep(Duration::from_millis(400));
        in_calls::move_messages();
        assert_eq!(own.clock(), before, "nobody waited");
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            in_calls::move_messages();
        }
        assert!(own.clock() > before, "calls that follow each other do");
        let others = comm.clock();
        std::thread::sleep(Duration::from_millis(1));
        assert!(comm.clock() > others, "that of other communicators goes on");
    });
}

#[test]
fn a_rank_that_makes_no_calls_for_longer_than_the_timeout_has_not_waited() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    let turns = Barrier::new(2);
    threads::Machine::new(2).thread_level(ThreadLevel::Single).run(|comm| {
        let mut other = in_calls::for_threads(comm.duplicate().unwrap());
        other.set_timeout(TIMEOUT);
        if comm.rank() == 1 {
            // After rank 0 has made its first call.
            turns.wait();
            other.send(0, 1, b"late").unwrap();
            comm.barrier().unwrap();
            return;
        }
        std::thread::scope(|scope| {
            let receives = scope.spawn(move || {
                in_calls::in_background();
                other.receive(Some(1), 1).map(|message| message.bytes)
            });
            std::thread::sleep(3 * TIMEOUT);
            in_calls::move_messages();
            std::thread::sleep(TIMEOUT / 2);
            turns.wait();
            while !receives.is_finished() {
                in_calls::move_messages();
                std::thread::sleep(Duration::from_micros(20));
            }
            assert_eq!(receives.join().unwrap().unwrap(), b"late");
        });
        comm.barrier().unwrap();
    });
}

/// Receives twice on another thread, while the rank's calls move the messages; returns the kinds of the failures.
fn failures_of(comm: &dyn Communicator) -> [thalweg_types::ErrorKind; 2] {
    let other = in_calls::for_threads(comm.duplicate().unwrap());
    // The others may send, or leave.
    comm.barrier().unwrap();
    std::thread::scope(|scope| {
        let receives = scope.spawn(move || {
            in_calls::in_background();
            [0, 1].map(|_| other.receive(None, 1).unwrap_err().kind())
        });
        while !receives.is_finished() {
            in_calls::move_messages();
            std::thread::sleep(Duration::from_micros(20));
        }
        receives.join().unwrap()
    })
}

#[test]
fn the_loss_of_a_rank_and_a_damaged_message_reach_the_other_thread_and_stay() {
    use thalweg_types::ErrorKind::{Corrupt, PeerLost};
    let machine = threads::Machine::new(2).thread_level(ThreadLevel::Single);
    machine
        .run_each(|comm| match comm.rank() {
            0 => assert_eq!(failures_of(&comm), [PeerLost; 2]),
            _ => {
                let _duplicate = comm.duplicate().unwrap();
                comm.barrier().unwrap();
                comm.leave();
            }
        })
        .into_iter()
        .for_each(|rank| rank.unwrap());
    machine.run(|comm| match comm.rank() {
        0 => {
            assert_eq!(failures_of(&comm), [Corrupt; 2]);
            comm.barrier().unwrap();
        }
        _ => {
            let duplicate = comm.duplicate().unwrap();
            comm.barrier().unwrap();
            duplicate.send(0, thalweg_comm::tags::IN_CALLS, b"short").unwrap();
            // It is not lost before the message is read.
            comm.barrier().unwrap();
        }
    });
}
