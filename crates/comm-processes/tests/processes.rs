//! Real processes that meet in a folder.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_comm::{Communicator, Reduce};
use thalweg_comm_processes::Rendezvous;
use thalweg_types::ErrorKind;

/// Role, folder, rank and number of ranks of a process that a test starts.
const PART: &str = "THALWEG_TEST_PART";

fn start(role: &str, folder: &Path, rank: u32, size: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "one_of_the_processes", "--nocapture", "--test-threads=1"])
        .env(PART, format!("{role} {rank} {size} {}", folder.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Starts all processes of a test; what each printed, and whether it ended well.
fn run(role: &str, size: u32, folder: &Path) -> Vec<(String, bool)> {
    let children: Vec<Child> = (0..size).map(|rank| start(role, folder, rank, size)).collect();
    children
        .into_iter()
        .map(|child| {
            let done = child.wait_with_output().unwrap();
            let printed = [done.stdout, done.stderr].concat();
            (String::from_utf8_lossy(&printed).into_owned(), done.status.success())
        })
        .collect()
}

/// The part of a process that another test starts.
#[test]
fn one_of_the_processes() {
    let Ok(part) = std::env::var(PART) else { return };
    let words: Vec<&str> = part.splitn(4, ' ').collect();
    let (role, rank, size) = (words[0], words[1].parse().unwrap(), words[2].parse().unwrap());
    let comm = Rendezvous::new(words[3], rank, size).within(Duration::from_secs(30)).join().unwrap();
    match role {
        "conformance" => thalweg_conformance::comm::check(&comm),
        "lost" => {
            comm.barrier().unwrap();
            if rank == 1 {
                comm.send(0, 5, b"last words").unwrap();
                std::process::abort();
            }
            let started = Instant::now();
            if rank == 0 {
                assert_eq!(comm.receive(Some(1), 5).unwrap().bytes, b"last words");
            }
            let e = comm.receive(Some(1), 6).err().unwrap();
            assert!(e.kind() == ErrorKind::PeerLost && e.what().contains("rank 1 (process "), "{e}");
            assert!(e.what().contains("died"), "{e}");
            let sent = comm.start_send(1, 6, vec![0; 10 << 20]).and_then(|send| send.wait());
            assert_eq!(sent.unwrap_err().kind(), ErrorKind::PeerLost);
            assert_eq!(comm.barrier().unwrap_err().kind(), ErrorKind::PeerLost);
            assert_eq!(comm.receive(None, 7).unwrap_err().kind(), ErrorKind::PeerLost);
            assert!(started.elapsed() < Duration::from_secs(60), "noticed, not waited out");
        }
        "leaves" => {
            if rank == 1 {
                return;
            }
            let e = comm.receive(Some(1), 6).err().unwrap();
            assert!(e.kind() == ErrorKind::PeerLost && e.what().contains("has closed its communicators"), "{e}");
            let other = 2 - rank;
            let send = comm.start_send(other, 1, vec![rank as u8]).unwrap();
            assert_eq!(comm.receive(None, 1).unwrap().bytes, [other as u8], "the others go on");
            send.wait().unwrap();
        }
        "signals" => {
            comm.barrier().unwrap();
            if rank == 1 {
                // Not before the other one has left the barrier, in which it reads.
                std::thread::sleep(Duration::from_millis(200));
                std::process::abort();
            }
            // As in programs of other languages: Rust's own ignore the signal.
            // SAFETY: sets the default of a signal for which no handler was installed.
            #[allow(unsafe_code)]
            unsafe {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            }
            std::thread::sleep(Duration::from_millis(1000));
            // The first call after the death writes before it reads.
            let sent = comm.start_send(1, 6, vec![0; 100]).and_then(|send| send.wait());
            assert_eq!(sent.unwrap_err().kind(), ErrorKind::PeerLost);
        }
        role => panic!("no role {role}"),
    }
    println!("all of it passed");
}

fn all_pass(role: &str, size: u32) {
    let folder = tempfile::tempdir().unwrap();
    for (rank, (printed, fine)) in run(role, size, folder.path()).into_iter().enumerate() {
        assert!(fine && printed.contains("all of it passed"), "rank {rank} of {size}: {printed}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn processes_keep_every_promise_of_a_communicator() {
    for size in [1, 2, 3, 5] {
        all_pass("conformance", size);
    }
}

#[test]
fn the_death_of_a_process_is_noticed_and_named() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, (printed, fine)) in run("lost", 4, folder.path()).into_iter().enumerate() {
        assert_eq!(fine && printed.contains("all of it passed"), rank != 1, "rank {rank}: {printed}");
    }
}

#[test]
fn a_message_to_a_dead_process_is_an_error_and_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (printed, fine) = run("signals", 2, folder.path()).remove(0);
    assert!(fine && printed.contains("all of it passed"), "{printed}");
}

#[test]
fn a_process_that_ends_well_has_left_and_not_died() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, (printed, fine)) in run("leaves", 3, folder.path()).into_iter().enumerate() {
        assert!(fine && (rank == 1 || printed.contains("all of it passed")), "rank {rank}: {printed}");
    }
}

/// Threads with connections of their own, in place of processes.
fn joined<T: Send>(folder: &Path, size: u32, body: impl Fn(&dyn Communicator) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let body = &body;
        let ranks: Vec<_> = (0..size)
            .map(|rank| scope.spawn(move || body(&Rendezvous::new(folder, rank, size).join().unwrap())))
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn a_folder_can_be_used_again_also_after_a_run_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = start("conformance", folder.path(), 0, 2);
    while std::fs::read_dir(folder.path()).unwrap().count() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "its socket is still there");
    for _ in 0..3 {
        let sums =
            joined(folder.path(), 2, |comm| comm.all_reduce(&[u64::from(comm.rank()) + 1], Reduce::Sum).unwrap());
        assert_eq!(sums, [[3], [3]]);
    }
}

#[test]
fn a_long_path_of_the_folder_is_no_matter() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(200));
    std::fs::create_dir(&long).unwrap();
    assert_eq!(joined(&long, 3, |comm| comm.exclusive_scan(5).unwrap()), [0, 5, 10]);
}

/// Ranks 1 and 2 have made more communicators than rank 0.
#[test]
fn messages_of_communicators_that_not_all_ranks_made_stay_apart() {
    let folder = tempfile::tempdir().unwrap();
    joined(folder.path(), 3, |comm| {
        let part = comm.split((comm.rank() > 0).then_some(0), 0).unwrap();
        let kept: Vec<_> = part.iter().flat_map(|part| (0..3).map(|_| part.duplicate().unwrap())).collect();
        let twin = comm.duplicate().unwrap();
        match comm.rank() {
            1 => twin.send(2, 1, b"twin").unwrap(),
            2 => {
                while twin.probe(None, 1).unwrap().is_none() {
                    std::thread::yield_now();
                }
                let mut others = part.iter().chain(&kept);
                assert!(others.all(|other| other.probe(None, 1).unwrap().is_none()));
                assert_eq!(twin.receive(Some(1), 1).unwrap().bytes, b"twin");
            }
            _ => {}
        }
        comm.barrier().unwrap();
    });
}

#[test]
fn sixteen_ranks_keep_every_promise() {
    let folder = tempfile::tempdir().unwrap();
    joined(folder.path(), 16, thalweg_conformance::comm::check);
}

#[test]
fn ranks_that_do_not_come_are_named_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let brief = Duration::from_millis(200);
    let join = |rank, size| Rendezvous::new(folder.path(), rank, size).within(brief).join().err().unwrap();
    let e = join(0, 3);
    assert!(e.kind() == ErrorKind::Timeout && e.what().contains("ranks 1, 2 did not come"), "{e}");
    let e = join(2, 3);
    assert!(e.kind() == ErrorKind::Timeout && e.what().contains("rank 0 did not come"), "{e}");
    assert_eq!(join(3, 3).kind(), ErrorKind::InvalidArgument);
    let nowhere = Rendezvous::new(folder.path().join("none"), 0, 2).join().err().unwrap();
    assert_eq!(nowhere.kind(), ErrorKind::NotFound);
}

#[test]
fn two_processes_of_one_rank_or_of_different_sizes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let join = |rank, size| Rendezvous::new(folder.path(), rank, size).within(Duration::from_secs(2)).join();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| join(0, 2));
        while !folder.path().join("rank.0").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(join(0, 2).err().unwrap().kind(), ErrorKind::AlreadyExists);
        let other = join(1, 3).err().unwrap();
        assert_eq!(other.kind(), ErrorKind::InvalidArgument, "{other}");
        assert_eq!(first.join().unwrap().err().unwrap().kind(), ErrorKind::InvalidArgument);
    });
}
