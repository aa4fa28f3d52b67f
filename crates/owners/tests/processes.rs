//! Output windows of real processes without MPI, which meet in a folder.

mod common;

use common::{content, direct, small};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm_processes::Rendezvous;
use thalweg_layout::OpenWrite;
use thalweg_owners::{File, OpenFile, Options};
use thalweg_store::Posix;
use thalweg_types::ErrorKind;

/// Folder, rank, number of ranks and the rank that dies, of a process that a test starts.
const PART: &str = "THALWEG_TEST_PART";
const EACH: u64 = 1 << 20;
const MEMORY: u64 = 256 << 10;

fn start(folder: &Path, rank: u32, size: u32, dies: i64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "one_of_the_processes", "--nocapture", "--test-threads=1"])
        .env(PART, format!("{rank} {size} {dies} {}", folder.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn run(folder: &Path, size: u32, dies: i64) -> Vec<String> {
    std::fs::create_dir(folder.join("meet")).unwrap();
    let children: Vec<Child> = (0..size).map(|rank| start(folder, rank, size, dies)).collect();
    let printed = |child: Child| {
        let done = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    };
    children.into_iter().map(printed).collect()
}

/// The part of a process that another test starts.
#[test]
fn one_of_the_processes() {
    let Ok(part) = std::env::var(PART) else { return };
    let words: Vec<&str> = part.splitn(4, ' ').collect();
    let (rank, size, dies): (u32, u32, i64) =
        (words[0].parse().unwrap(), words[1].parse().unwrap(), words[2].parse().unwrap());
    let folder = Path::new(words[3]);
    let comm = Rendezvous::new(folder.join("meet"), rank, size).within(Duration::from_secs(30)).join().unwrap();
    let layout = direct(Arc::new(Posix::at(folder).unwrap()));
    let request = OpenFile { memory: MEMORY, ..OpenFile::new(&comm, &layout, "out", OpenWrite::Replace) };
    let mut file = File::open(&request).unwrap();
    let options = Options { owner_stripe: None, write_stripe: 64 << 10, fraction: 32 << 10, ..small(2) };
    for round in 0..3 {
        let start = round * EACH * u64::from(size);
        let window = file.start(start, EACH * u64::from(size), &options).unwrap();
        // Four times the memory of each rank, all to both owners.
        for number in 0..EACH / 4096 {
            let at = start + (number * u64::from(size) + u64::from(rank)) * 4096;
            if dies == i64::from(rank) && round == 1 && number == 100 {
                std::process::abort();
            }
            if let Err(e) = file.write(window, at, &content(at, 4096)) {
                assert_eq!(e.kind(), ErrorKind::PeerLost, "{e}");
                println!("{e}");
                assert_eq!(file.close().unwrap_err().kind(), ErrorKind::PeerLost);
                return;
            }
        }
        _ = file.end(window);
        if let Err(e) = file.wait(window) {
            println!("{e}");
            assert_eq!(file.close().unwrap_err().kind(), ErrorKind::PeerLost);
            return;
        }
    }
    file.close().unwrap();
    println!("all of it passed");
}

/// A message that does not fit into the connection, to an owner that reads nothing any more.
#[test]
fn a_file_that_is_dropped_waits_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let layout = direct(Arc::new(Posix::at(folder.path()).unwrap()));
    let join = |rank| Rendezvous::new(folder.path(), rank, 2).join().unwrap();
    std::thread::scope(|scope| {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let layout = &layout;
        scope.spawn(move || {
            let comm = join(0);
            let mut file = File::open(&OpenFile::new(&comm, layout, "out", OpenWrite::Replace)).unwrap();
            file.start(0, 32 << 20, &small(1)).unwrap();
            // Grants memory, and then reads no more until the other one is done.
            while file.memory() == 0 {
                file.progress();
            }
            wait.recv().unwrap();
        });
        let comm = join(1);
        let mut file = File::open(&OpenFile::new(&comm, layout, "out", OpenWrite::Replace)).unwrap();
        let window = file.start(0, 32 << 20, &small(1)).unwrap();
        file.write(window, 0, &vec![1; 16 << 20]).unwrap();
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_millis(300) {
            file.progress();
        }
        assert!(file.memory() > 1 << 20, "{} bytes are under way", file.memory());
        let started = std::time::Instant::now();
        drop(file);
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        done.send(()).unwrap();
    });
}

#[test]
fn processes_without_mpi_write_one_file() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, printed) in run(folder.path(), 4, -1).into_iter().enumerate() {
        assert!(printed.contains("all of it passed"), "rank {rank}: {printed}");
    }
    assert!(std::fs::read(folder.path().join("out")).unwrap() == content(0, 12 * EACH));
}

#[test]
fn a_process_that_dies_fails_the_window_of_all_others_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, printed) in run(folder.path(), 4, 2).into_iter().enumerate().filter(|(rank, _)| *rank != 2) {
        assert!(printed.contains("rank 2 (process ") && printed.contains("test result: ok"), "rank {rank}: {printed}");
    }
    let bytes = std::fs::read(folder.path().join("out")).unwrap();
    assert!(bytes[..4 * EACH as usize] == content(0, 4 * EACH), "the window before is complete");
}
