//! Counting shows every call by kind, of a communicator and of those made from it.

use thalweg_comm::counting::{Counting, Snapshot};
use thalweg_comm::{Communicator, Reduce, threads};

#[test]
fn every_kind_of_call_is_counted_once() {
    threads::run(2, |comm| {
        let comm = Counting::new(Box::new(comm));
        let counts = comm.counts();
        let other = 1 - comm.rank();
        comm.send(other, 0, b"four").unwrap();
        comm.start_send(other, 0, b"fiver".to_vec()).unwrap().wait().unwrap();
        comm.receive(Some(other), 0).unwrap();
        comm.start_receive(None, 0).unwrap().wait().unwrap();
        drop(comm.start_receive(None, 0).unwrap());
        comm.probe(None, 0).unwrap();
        comm.barrier().unwrap();
        comm.broadcast(0, &mut vec![1]).unwrap();
        comm.gather(0, b"").unwrap();
        comm.all_gather(b"").unwrap();
        comm.scatter(0, (comm.rank() == 0).then_some(&[vec![], vec![]][..])).unwrap();
        comm.all_to_all(&[vec![], vec![]]).unwrap();
        comm.exclusive_scan(1).unwrap();
        comm.all_reduce(&[1], Reduce::Sum).unwrap();
        let window = comm.shared_window(8).unwrap();
        window.put(0, 0, &[1; 7]).unwrap();
        window.fence().unwrap();
        comm.split(None, 0).unwrap();
        let node = comm.split_by_node().unwrap();
        let twin = node.duplicate().unwrap();
        twin.survivors().unwrap();
        let expected = Snapshot {
            sends: 2,
            receives: 3,
            received: 2,
            probes: 1,
            barriers: 1,
            broadcasts: 1,
            gathers: 1,
            all_gathers: 1,
            scatters: 1,
            all_to_alls: 1,
            scans: 1,
            reductions: 1,
            duplicates: 1,
            splits: 2,
            windows: 1,
            fences: 1,
            survivors: 1,
            bytes_sent: 9,
            bytes_received: 9,
            bytes_put: 7,
        };
        let before = counts.snapshot();
        assert_eq!(before, expected);
        assert_eq!(before.collective(), 14);
        twin.barrier().unwrap();
        assert_eq!(counts.snapshot().since(&before), Snapshot { barriers: 1, ..Snapshot::default() });
    });
}
