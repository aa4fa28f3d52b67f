//! Every communicator of this crate keeps what the trait promises.

use thalweg_comm::alone::Alone;
use thalweg_comm::counting::Counting;
use thalweg_comm::{Communicator, threads};
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
