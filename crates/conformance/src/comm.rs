//! The promises of `Communicator`, `Request` and `SharedWindow`.
//!
//! Each case runs on a duplicate of its own, so that one that fails disturbs no other; afterwards the ranks agree on
//! whether it passed everywhere. Every rank calls [`check`] (or [`outcomes`]) with its handle:
//!
//! ```
//! thalweg_comm::threads::run(3, |comm| thalweg_conformance::comm::check(&comm));
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_comm::{Communicator, Reduce, SharedWindow};
use thalweg_types::{ErrorKind, Result};

/// Longer than any call of a case should take, shorter than patience.
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(150);

type Case = (&'static str, fn(&mut dyn Communicator));

macro_rules! cases {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name)),*] };
}

/// Every case, by the behaviour it demands.
pub const CASES: &[Case] = cases![
    ranks_count_from_zero_to_size,
    messages_of_one_sender_and_tag_keep_their_order,
    a_rank_can_send_to_itself,
    anyone_may_be_received_from,
    receives_get_messages_in_the_order_they_were_started,
    a_started_receive_is_done_once_its_message_has_come,
    a_dropped_receive_leaves_its_message_to_the_next,
    requests_end_after_their_handle_is_gone,
    a_probe_tells_sender_and_length_and_takes_nothing,
    empty_messages_are_messages,
    nobody_leaves_a_barrier_before_all_have_come,
    a_broadcast_gives_the_roots_bytes_to_all,
    a_gather_keeps_ranks_and_lengths_apart,
    all_gather_gives_everyone_everything,
    a_scatter_gives_each_rank_its_part,
    a_scatter_with_too_few_parts_fails_on_every_rank,
    all_to_all_moves_every_part_to_its_rank,
    a_scan_adds_the_lower_ranks,
    a_reduction_combines_element_by_element,
    collective_calls_can_follow_each_other_closely,
    a_duplicate_shares_no_message_with_the_original,
    a_split_orders_by_key_and_leaves_out_who_wants,
    duplicates_and_splits_can_be_made_again_and_again,
    a_shared_window_is_seen_by_all_ranks_of_a_node,
    shared_windows_can_be_dropped_in_any_order,
    what_was_put_and_told_of_is_shown_without_a_fence,
    nobody_can_leave_a_part_of_a_shared_window,
    a_receive_of_what_nobody_sends_ends_in_timeout,
    a_collective_call_that_one_rank_does_not_join_ends_in_timeout,
    large_messages_arrive_whole,
    large_collective_calls_arrive_whole,
    ranks_and_tags_out_of_range_are_refused,
    survivors_of_no_loss_are_all_or_it_is_not_supported,
];

/// Runs every case.
///
/// # Panics
/// On every rank, naming the cases that failed on any.
pub fn check(comm: &dyn Communicator) {
    let failed: Vec<_> =
        outcomes(comm, |_| ()).into_iter().filter(|(_, passed)| !passed).map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "rank {} of {}: failed: {}", comm.rank(), comm.size(), failed.join(", "));
}

/// Runs every case, calling `starting` before each; name, and whether it passed on all ranks.
///
/// # Panics
/// Where not even the agreement on the outcome works.
pub fn outcomes(comm: &dyn Communicator, starting: impl Fn(&str)) -> Vec<(&'static str, bool)> {
    CASES
        .iter()
        .map(|(name, body)| {
            starting(name);
            // A rank that passed keeps its handle until all are done; one that failed lets go of it at once.
            let passed = catch_unwind(AssertUnwindSafe(|| {
                let mut own = comm.duplicate().expect("a duplicate for the case");
                own.set_timeout(PATIENCE);
                body(&mut *own);
                own
            }));
            let failed = passed.is_err();
            let anywhere = comm.all_reduce(&[u64::from(failed)], Reduce::Max).expect("agreement on the outcome");
            (*name, anywhere[0] == 0)
        })
        .collect()
}

/// Bytes that tell sender, receiver and place apart.
fn pattern(seed: u32, count: usize) -> Vec<u8> {
    let mut state = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// A few roots: all of them where ranks are few.
fn roots(comm: &dyn Communicator) -> Vec<u32> {
    let size = comm.size();
    if size <= 5 { (0..size).collect() } else { vec![0, size / 2, size - 1] }
}

/// Lengths that differ by rank, empty ones and ones beyond any eager limit among them.
fn length(rank: u32, round: u32) -> usize {
    match (rank + round) % 5 {
        0 => 0,
        1 => 1,
        2 => 100 + rank as usize,
        3 => 4096,
        _ => 70_000 + rank as usize,
    }
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|e| e.kind())
}

fn ranks_count_from_zero_to_size(comm: &mut dyn Communicator) {
    let all = comm.all_gather(&comm.rank().to_le_bytes()).unwrap();
    assert_eq!(all.len(), comm.size() as usize);
    for (rank, bytes) in (0u32..).zip(all) {
        assert_eq!(bytes, rank.to_le_bytes());
    }
}

fn messages_of_one_sender_and_tag_keep_their_order(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let mut sends = Vec::new();
    for i in 0..50u32 {
        sends.push(comm.start_send(next, 1, i.to_le_bytes().to_vec()).unwrap());
        sends.push(comm.start_send(next, 32_767, (1000 + i).to_le_bytes().to_vec()).unwrap());
    }
    for (tag, base) in [(32_767, 1000), (1, 0)] {
        for i in 0..50u32 {
            let message = comm.receive(Some(previous), tag).unwrap();
            assert_eq!((message.from, message.tag), (previous, tag));
            assert_eq!(message.bytes, (base + i).to_le_bytes());
        }
    }
    for send in sends {
        assert_eq!(send.wait().unwrap(), None);
    }
}

fn a_rank_can_send_to_itself(comm: &mut dyn Communicator) {
    let me = comm.rank();
    for count in [0, 10, 300_000] {
        let send = comm.start_send(me, 3, pattern(me, count)).unwrap();
        let message = comm.receive(Some(me), 3).unwrap();
        assert_eq!((message.from, message.bytes), (me, pattern(me, count)));
        send.wait().unwrap();
    }
}

fn anyone_may_be_received_from(comm: &mut dyn Communicator) {
    if comm.rank() != 0 {
        comm.send(0, 5, &pattern(comm.rank(), length(comm.rank(), 0))).unwrap();
        return;
    }
    let mut senders = Vec::new();
    for _ in 1..comm.size() {
        let message = comm.receive(None, 5).unwrap();
        assert!(message.bytes == pattern(message.from, length(message.from, 0)), "from rank {}", message.from);
        senders.push(message.from);
    }
    senders.sort_unstable();
    assert!(senders.into_iter().eq(1..comm.size()));
}

fn receives_get_messages_in_the_order_they_were_started(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let receives: Vec<_> =
        (0..10u32).map(|i| comm.start_receive(if i % 2 == 0 { None } else { Some(previous) }, 7).unwrap()).collect();
    let sends: Vec<_> = (0..10u32).map(|i| comm.start_send(next, 7, vec![i as u8; 20_000]).unwrap()).collect();
    // Waited for in another order than started: the match was made by the start.
    for (i, receive) in receives.into_iter().enumerate().rev() {
        assert_eq!(receive.wait().unwrap().unwrap().bytes, vec![i as u8; 20_000]);
    }
    for send in sends {
        send.wait().unwrap();
    }
}

fn a_started_receive_is_done_once_its_message_has_come(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let mut receive = comm.start_receive(Some(previous), 8).unwrap();
    assert!(!receive.test().unwrap(), "nothing has been sent yet");
    comm.barrier().unwrap();
    let mut send = comm.start_send(next, 8, pattern(me, 500_000)).unwrap();
    let started = Instant::now();
    while !(receive.test().unwrap() & send.test().unwrap()) {
        assert!(started.elapsed() < PATIENCE, "never done");
        std::thread::yield_now();
    }
    assert!(send.wait().unwrap().is_none());
    assert!(receive.wait().unwrap().unwrap().bytes == pattern(previous, 500_000));
}

fn a_dropped_receive_leaves_its_message_to_the_next(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    drop(comm.start_receive(Some(previous), 2).unwrap());
    let mut receive = comm.start_receive(None, 2).unwrap();
    let send = comm.start_send(next, 2, b"still here".to_vec()).unwrap();
    let started = Instant::now();
    while !receive.test().unwrap() {
        assert!(started.elapsed() < PATIENCE, "never done");
        std::thread::yield_now();
    }
    drop(receive);
    assert_eq!(comm.probe(Some(previous), 2).unwrap(), Some((previous, 10)));
    assert_eq!(comm.receive(Some(previous), 2).unwrap().bytes, b"still here");
    send.wait().unwrap();
}

fn requests_end_after_their_handle_is_gone(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    for count in [1, 300_000] {
        let twin = comm.duplicate().unwrap();
        let mut receive = twin.start_receive(Some(previous), 1).unwrap();
        let send = twin.start_send(next, 1, pattern(me, count)).unwrap();
        comm.barrier().unwrap();
        drop(twin);
        // Both ways of a request, one after the other: no rank waits for a send that nobody receives.
        let started = Instant::now();
        while !receive.test().unwrap() {
            assert!(started.elapsed() < PATIENCE, "the message of rank {previous}");
            std::thread::yield_now();
        }
        assert!(receive.wait().unwrap().unwrap().bytes == pattern(previous, count));
        assert_eq!(send.wait().unwrap(), None);
    }
}

fn a_probe_tells_sender_and_length_and_takes_nothing(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    assert_eq!(comm.probe(None, 4).unwrap(), None);
    comm.barrier().unwrap();
    let send = comm.start_send(next, 4, pattern(me, 1234)).unwrap();
    let started = Instant::now();
    let found = loop {
        if let Some(found) = comm.probe(None, 4).unwrap() {
            break found;
        }
        assert!(started.elapsed() < PATIENCE, "never came");
        std::thread::yield_now();
    };
    assert_eq!(found, (previous, 1234));
    assert_eq!(comm.probe(Some(previous), 4).unwrap(), Some((previous, 1234)));
    assert_eq!(comm.probe(None, 40).unwrap(), None, "another tag");
    assert_eq!(comm.receive(None, 4).unwrap().bytes, pattern(previous, 1234));
    assert_eq!(comm.probe(None, 4).unwrap(), None, "taken");
    send.wait().unwrap();
}

fn empty_messages_are_messages(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    let send = comm.start_send((me + 1) % size, 0, Vec::new()).unwrap();
    assert_eq!(comm.receive(None, 0).unwrap().bytes, b"");
    send.wait().unwrap();
    let mut nothing = Vec::new();
    comm.broadcast(0, &mut nothing).unwrap();
    assert!(nothing.is_empty());
    assert!(comm.all_gather(b"").unwrap().iter().all(Vec::is_empty));
}

fn now_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn nobody_leaves_a_barrier_before_all_have_come(comm: &mut dyn Communicator) {
    for late in roots(comm) {
        if comm.rank() == late {
            std::thread::sleep(Duration::from_millis(30));
        }
        let came = now_nanos();
        comm.barrier().unwrap();
        let left = now_nanos();
        let last = comm.all_reduce(&[came], Reduce::Max).unwrap()[0];
        assert!(left >= last, "left {} ns before the last one came", last - left);
    }
}

fn a_broadcast_gives_the_roots_bytes_to_all(comm: &mut dyn Communicator) {
    for root in roots(comm) {
        for count in [0, 1, 1000, 1016, 1017, 1024, 100_000] {
            let mut bytes = if comm.rank() == root { pattern(root, count) } else { b"what was there".to_vec() };
            comm.broadcast(root, &mut bytes).unwrap();
            assert!(bytes == pattern(root, count), "{count} bytes from rank {root}");
        }
    }
}

fn a_gather_keeps_ranks_and_lengths_apart(comm: &mut dyn Communicator) {
    for (round, root) in (0..).zip(roots(comm)) {
        let got = comm.gather(root, &pattern(comm.rank(), length(comm.rank(), round))).unwrap();
        assert_eq!(got.is_some(), comm.rank() == root);
        for (rank, bytes) in (0..).zip(got.unwrap_or_default()) {
            assert!(bytes == pattern(rank, length(rank, round)), "rank {rank}'s bytes at root {root}");
        }
    }
}

fn all_gather_gives_everyone_everything(comm: &mut dyn Communicator) {
    for round in 0..5 {
        // Everyone holds everything: smaller where ranks are many.
        let length = |rank| if comm.size() > 16 { length(rank, round) % 600 } else { length(rank, round) };
        let got = comm.all_gather(&pattern(comm.rank(), length(comm.rank()))).unwrap();
        assert_eq!(got.len(), comm.size() as usize);
        for (rank, bytes) in (0..).zip(got) {
            assert!(bytes == pattern(rank, length(rank)), "rank {rank}'s bytes");
        }
    }
}

fn a_scatter_gives_each_rank_its_part(comm: &mut dyn Communicator) {
    for (round, root) in (0..).zip(roots(comm)) {
        let part = |rank| pattern(rank, length(rank, round));
        let parts: Option<Vec<_>> = (comm.rank() == root).then(|| (0..comm.size()).map(part).collect());
        let got = comm.scatter(root, parts.as_deref()).unwrap();
        assert!(got == part(comm.rank()), "from root {root}");
    }
}

fn a_scatter_with_too_few_parts_fails_on_every_rank(comm: &mut dyn Communicator) {
    let short = vec![Vec::new(); comm.size() as usize - 1];
    let got = comm.scatter(0, (comm.rank() == 0).then_some(&short[..]));
    assert_eq!(kind(got), Some(ErrorKind::InvalidArgument));
    let me = comm.rank() as usize;
    let parts = vec![vec![7]; comm.size() as usize - usize::from(me == 0)];
    assert_eq!(kind(comm.all_to_all(&parts)), Some(ErrorKind::InvalidArgument));
    comm.barrier().expect("an argument refused by all leaves the communicator whole");
}

fn all_to_all_moves_every_part_to_its_rank(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    for round in 0..5 {
        let seed = |from: u32, to: u32| from * 1000 + to;
        let length = |from, to: u32| {
            let count = length(from + 2 * to, round);
            if size > 16 { count % 300 } else { count }
        };
        let parts: Vec<_> = (0..size).map(|to| pattern(seed(me, to), length(me, to))).collect();
        let got = comm.all_to_all(&parts).unwrap();
        assert_eq!(got.len(), size as usize);
        for (from, bytes) in (0..).zip(got) {
            assert!(bytes == pattern(seed(from, me), length(from, me)), "from rank {from}");
        }
    }
}

fn a_scan_adds_the_lower_ranks(comm: &mut dyn Communicator) {
    let me = u64::from(comm.rank());
    assert_eq!(comm.exclusive_scan(me + 1).unwrap(), me * (me + 1) / 2);
    let big = 1u64 << 40;
    assert_eq!(comm.exclusive_scan(big).unwrap(), me * big);
}

fn a_reduction_combines_element_by_element(comm: &mut dyn Communicator) {
    let (me, size) = (u64::from(comm.rank()), u64::from(comm.size()));
    let values = [me, 100 - me.min(100), u64::MAX - me];
    assert_eq!(comm.all_reduce(&values, Reduce::Max).unwrap(), [size - 1, 100, u64::MAX]);
    assert_eq!(comm.all_reduce(&values, Reduce::Min).unwrap(), [0, 101 - size.min(101), u64::MAX - (size - 1)]);
    assert_eq!(comm.all_reduce(&[me, 1], Reduce::Sum).unwrap(), [size * (size - 1) / 2, size]);
    assert_eq!(comm.all_reduce(&[u64::MAX, 0], Reduce::Sum).unwrap(), [0u64.wrapping_sub(size), 0], "wraps");
    assert_eq!(comm.all_reduce(&[], Reduce::Sum).unwrap(), Vec::<u64>::new());
    let many: Vec<u64> = (0..5000).map(|i| i * (me + 1)).collect();
    let sums = comm.all_reduce(&many, Reduce::Max).unwrap();
    assert!(sums.into_iter().eq((0..5000).map(|i| i * size)));
}

fn collective_calls_can_follow_each_other_closely(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    for round in 0..100u32 {
        let root = round % size;
        let mut bytes = if me == root { round.to_le_bytes().to_vec() } else { Vec::new() };
        comm.broadcast(root, &mut bytes).unwrap();
        assert_eq!(bytes, round.to_le_bytes());
        let mine = vec![me as u8; ((me + round) % 7) as usize];
        if let Some(all) = comm.gather(root, &mine).unwrap() {
            for (rank, bytes) in (0..size).zip(all) {
                assert_eq!(bytes, vec![rank as u8; ((rank + round) % 7) as usize], "round {round}");
            }
        }
        assert_eq!(comm.exclusive_scan(u64::from(round)).unwrap(), u64::from(round * me));
        let all = comm.all_gather(&[(round % 251) as u8]).unwrap();
        assert!(all.iter().all(|bytes| *bytes == [(round % 251) as u8]) && all.len() == size as usize);
    }
}

fn a_duplicate_shares_no_message_with_the_original(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let twin = comm.duplicate().unwrap();
    assert_eq!((twin.rank(), twin.size(), twin.timeout()), (me, size, comm.timeout()));
    let on_twin = twin.start_send(next, 1, b"twin".to_vec()).unwrap();
    let on_original = comm.start_send(next, 1, b"original".to_vec()).unwrap();
    assert_eq!(comm.receive(None, 1).unwrap().bytes, b"original");
    assert_eq!(twin.receive(Some(previous), 1).unwrap().bytes, b"twin");
    on_twin.wait().unwrap();
    on_original.wait().unwrap();
    // A message under way on one disturbs no collective call on the other.
    let send = comm.start_send(next, 0, vec![1]).unwrap();
    assert_eq!(twin.all_gather(&me.to_le_bytes()).unwrap().len(), size as usize);
    comm.barrier().unwrap();
    twin.barrier().unwrap();
    assert_eq!(comm.receive(None, 0).unwrap().bytes, [1]);
    send.wait().unwrap();
}

fn a_split_orders_by_key_and_leaves_out_who_wants(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    // Three ways out: odd, even, nobody's; keys turn the order round.
    let color = if me % 5 == 4 { None } else { Some(me % 2) };
    let part = comm.split(color, u32::MAX - me).unwrap();
    assert_eq!(part.is_some(), color.is_some());
    if let Some(part) = part {
        let members: Vec<u32> = (0..size).rev().filter(|r| r % 5 != 4 && r % 2 == me % 2).collect();
        assert_eq!(part.size() as usize, members.len());
        assert_eq!(members[part.rank() as usize], me);
        let all = part.all_gather(&me.to_le_bytes()).unwrap();
        assert!(all.iter().zip(&members).all(|(bytes, rank)| *bytes == rank.to_le_bytes()));
    }
    let same_key = comm.split(Some(7), 3).unwrap().expect("everyone has a color");
    assert_eq!((same_key.rank(), same_key.size()), (me, size));
    assert!(comm.split(None, 0).unwrap().is_none());
}

fn duplicates_and_splits_can_be_made_again_and_again(comm: &mut dyn Communicator) {
    for round in 0..30 {
        let twin = comm.duplicate().unwrap();
        let part = twin.split(Some(comm.rank() % 2), 0).unwrap().expect("a color was given");
        drop(twin);
        assert_eq!(part.all_reduce(&[round], Reduce::Min).unwrap(), [round]);
    }
}

/// A window; `None` if ranks share no memory through this communicator, which it then says.
fn window(node: &dyn Communicator, bytes: u64) -> Option<Box<dyn SharedWindow>> {
    let window = node.shared_window(bytes);
    if node.shares_memory() {
        return Some(window.unwrap());
    }
    assert_eq!(kind(window), Some(ErrorKind::Unsupported));
    None
}

fn a_shared_window_is_seen_by_all_ranks_of_a_node(comm: &mut dyn Communicator) {
    let node = comm.split_by_node().unwrap();
    assert!(node.size() >= 1 && node.size() <= comm.size());
    let (me, size) = (node.rank(), node.size());
    let own = |rank: u32| if rank % 3 == 2 { 0 } else { 1000 + u64::from(rank) };
    let Some(window) = window(&*node, own(me)) else { return };
    for rank in 0..size {
        assert_eq!(window.length(rank), own(rank));
    }
    window.fence().unwrap();
    let next = (me + 1) % size;
    if own(next) > 0 {
        window.put(next, 0, &pattern(me, own(next) as usize)).unwrap();
    }
    window.fence().unwrap();
    for rank in 0..size {
        let mut bytes = vec![0; own(rank) as usize];
        window.get(rank, 0, &mut bytes).unwrap();
        assert!(bytes == pattern((rank + size - 1) % size, bytes.len()), "the part of rank {rank}");
    }
    window.fence().unwrap();
    if own(me) > 0 {
        window.put(me, 990, b"0123456789").unwrap();
    }
    window.fence().unwrap();
    let mut three = [0; 3];
    if own(next) > 0 {
        window.get(next, 994, &mut three).unwrap();
        assert_eq!(&three, b"456");
    }
}

fn shared_windows_can_be_dropped_in_any_order(comm: &mut dyn Communicator) {
    let node = comm.split_by_node().unwrap();
    let mut kept = Vec::new();
    for round in 0..12u64 {
        let Some(window) = window(&*node, 4096) else { return };
        window.put(node.rank(), 0, &round.to_le_bytes()).unwrap();
        window.fence().unwrap();
        let mut bytes = [0; 8];
        window.get((node.rank() + 1) % node.size(), 0, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), round);
        // Every rank lets go of other windows first.
        if (u64::from(node.rank()) + round) % 2 == 0 {
            kept.push(window);
        }
    }
    node.barrier().unwrap();
    drop(node);
    for window in &kept {
        window.put(0, 100, b"").unwrap();
        assert!(window.length(0) == 4096);
    }
}

fn what_was_put_and_told_of_is_shown_without_a_fence(comm: &mut dyn Communicator) {
    const BYTES: u64 = 100_000;
    let node = comm.split_by_node().unwrap();
    let (me, size) = (node.rank(), node.size());
    let Some(window) = window(&*node, 2 * BYTES) else { return };
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    for round in 0..10 {
        let place = u64::from(round % 2) * BYTES;
        window.put(next, place, &pattern(me + round, BYTES as usize)).unwrap();
        node.send(next, 3, &[]).unwrap();
        node.receive(Some(before), 3).unwrap();
        let mut seen = 0;
        let mut with = |bytes: &[u8]| {
            assert!(bytes == pattern(before + round, BYTES as usize), "round {round}");
            seen += 1;
        };
        window.show(place, BYTES, &mut with).unwrap();
        assert_eq!(seen, 1);
        // The half is free for the round after the next.
        node.send(before, 4, &[]).unwrap();
        node.receive(Some(next), 4).unwrap();
    }
}

fn nobody_can_leave_a_part_of_a_shared_window(comm: &mut dyn Communicator) {
    let node = comm.split_by_node().unwrap();
    let Some(window) = window(&*node, 16) else { return };
    let out_of_bounds = Some(ErrorKind::OutOfBounds);
    assert_eq!(kind(window.put(0, 10, &[0; 7])), out_of_bounds);
    assert_eq!(kind(window.put(0, u64::MAX, &[0; 7])), out_of_bounds);
    assert_eq!(kind(window.get(0, 17, &mut [])), out_of_bounds);
    assert_eq!(kind(window.get(node.size(), 0, &mut [0])), Some(ErrorKind::InvalidArgument));
    for (offset, length) in [(0, 17), (16, 1), (u64::MAX, 1), (1, u64::MAX)] {
        assert_eq!(kind(window.show(offset, length, &mut |_| unreachable!("nothing is there"))), out_of_bounds);
    }
    window.show(16, 0, &mut |bytes| assert!(bytes.is_empty())).unwrap();
    window.put(0, 16, &[]).unwrap();
    window.fence().unwrap();
}

fn a_receive_of_what_nobody_sends_ends_in_timeout(comm: &mut dyn Communicator) {
    comm.set_timeout(SHORT);
    assert_eq!(comm.timeout(), SHORT);
    let started = Instant::now();
    assert_eq!(kind(comm.receive(None, 9)), Some(ErrorKind::Timeout));
    assert_eq!(kind(comm.receive(Some(comm.size() - 1), 9)), Some(ErrorKind::Timeout));
    let waiting = comm.start_receive(None, 9).unwrap();
    assert_eq!(kind(waiting.wait()), Some(ErrorKind::Timeout));
    // One rank alone need not wait for a message that nobody can send.
    assert!(comm.size() == 1 || started.elapsed() >= 3 * SHORT);
    assert!(started.elapsed() < PATIENCE / 2);
    comm.set_timeout(PATIENCE);
    comm.barrier().unwrap();
    let send = comm.start_send((comm.rank() + 1) % comm.size(), 9, vec![1, 2, 3]).unwrap();
    assert_eq!(comm.receive(None, 9).unwrap().bytes, [1, 2, 3], "receives that gave up take nothing");
    send.wait().unwrap();
}

fn a_collective_call_that_one_rank_does_not_join_ends_in_timeout(comm: &mut dyn Communicator) {
    if comm.size() == 1 {
        return;
    }
    let last = comm.size() - 1;
    let mut broken = comm.duplicate().unwrap();
    broken.set_timeout(SHORT);
    if comm.rank() != last {
        let started = Instant::now();
        assert_eq!(kind(broken.barrier()), Some(ErrorKind::Timeout));
        assert!(started.elapsed() >= SHORT / 2 && started.elapsed() < PATIENCE / 2);
    }
    comm.barrier().expect("other communicators go on");
    if comm.rank() == last {
        // Late: it may find the others' call failed, or join what they gave up.
        let _ = broken.barrier();
    }
    drop(broken);
    comm.barrier().unwrap();
}

const LARGE: usize = 20 << 20;

fn large_messages_arrive_whole(comm: &mut dyn Communicator) {
    let (me, last) = (comm.rank(), comm.size() - 1);
    for count in [LARGE, LARGE + 13] {
        let send = (me == 0).then(|| comm.start_send(last, 6, pattern(1, count)).unwrap());
        if me == last {
            let message = comm.receive(Some(0), 6).unwrap();
            assert!(message.bytes == pattern(1, count));
        }
        send.map(|send| send.wait().unwrap());
    }
    // The blocking one, against a rank that receives.
    if last > 0 && me == 0 {
        comm.send(last, 6, &pattern(2, LARGE)).unwrap();
    } else if last > 0 && me == last {
        assert!(comm.receive(None, 6).unwrap().bytes == pattern(2, LARGE));
    }
}

fn large_collective_calls_arrive_whole(comm: &mut dyn Communicator) {
    let (me, size) = (comm.rank(), comm.size());
    if size > 8 {
        return;
    }
    let mut bytes = if me == 0 { pattern(9, LARGE) } else { Vec::new() };
    comm.broadcast(0, &mut bytes).unwrap();
    assert!(bytes == pattern(9, LARGE));
    let count = |rank: u32| (3 << 20) + rank as usize;
    let parts: Vec<_> = (0..size).map(|to| pattern(to, count(to))).collect();
    let last = size - 1;
    for (rank, bytes) in (0..).zip(comm.gather(last, &parts[me as usize]).unwrap().unwrap_or_default()) {
        assert!(bytes == parts[rank as usize], "gathered from {rank}");
    }
    assert!(comm.all_gather(&parts[me as usize]).unwrap() == parts);
    assert!(comm.scatter(last, (me == last).then_some(&parts[..])).unwrap() == parts[me as usize]);
    for (from, bytes) in (0..).zip(comm.all_to_all(&parts).unwrap()) {
        assert!(bytes == parts[me as usize], "exchanged with {from}");
    }
}

fn ranks_and_tags_out_of_range_are_refused(comm: &mut dyn Communicator) {
    let refused = Some(ErrorKind::InvalidArgument);
    let (me, size) = (comm.rank(), comm.size());
    assert_eq!(kind(comm.send(size, 0, b"")), refused);
    assert_eq!(kind(comm.send(me, 1 << 15, b"")), refused);
    assert_eq!(kind(comm.receive(Some(size), 0)), refused);
    assert_eq!(kind(comm.receive(None, u32::MAX)), refused);
    assert_eq!(kind(comm.start_receive(Some(u32::MAX), 0)), refused);
    assert_eq!(kind(comm.start_send(u32::MAX, 0, Vec::new())), refused);
    assert_eq!(kind(comm.probe(Some(size), 0)), refused);
    assert_eq!(kind(comm.broadcast(size, &mut Vec::new())), refused);
    assert_eq!(kind(comm.gather(size, b"")), refused);
    assert_eq!(kind(comm.scatter(size, None)), refused);
}

fn survivors_of_no_loss_are_all_or_it_is_not_supported(comm: &mut dyn Communicator) {
    match comm.survivors() {
        Ok(all) => {
            assert_eq!((all.rank(), all.size()), (comm.rank(), comm.size()));
            all.barrier().unwrap();
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(comm.size() > 1, "one rank alone always survives");
        }
    }
}
