//! `thalweg drain` moves what a burst buffer holds, tells what is where, and is ended in any way.

use crate::support::{command, run};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_conformance::scratch::Scratch;
use thalweg_store::wrap::Tiered;
use thalweg_store::{OpenWrite, Posix, Store, StoreExt};

struct Room {
    scratch: Scratch,
    store: Tiered,
    url: String,
}

fn room() -> Room {
    let scratch = Scratch::new();
    let (fast, slow) = (scratch.join("fast"), scratch.join("slow"));
    std::fs::create_dir(&fast).unwrap();
    std::fs::create_dir(&slow).unwrap();
    let url = format!("tiered:posix:{}=>posix:{}", fast.display(), slow.display());
    let store = Tiered::new(Arc::new(Posix::at(fast).unwrap()), Arc::new(Posix::at(slow).unwrap())).unwrap();
    Room { scratch, store, url }
}

#[test]
fn once_moves_what_is_closed_and_tells_what_is_left() {
    let room = room();
    room.store.make_folder("run").unwrap();
    room.store.write_all("run/a", b"bytes").unwrap();
    room.store.write_all("b", b"more bytes").unwrap();
    let busy = room.store.open_write("busy", OpenWrite::New).unwrap();
    let told = run(&["drain", &room.url, "--status"]);
    assert_eq!(told.code, 0, "{}", told.err);
    let expected = [
        "in the fast store   3 objects, 15 bytes",
        "moved so far        0 objects, 0 bytes",
        "drain               none at work",
        "              10  waits          b",
        "               0  being written  busy",
        "               5  waits          run/a",
    ];
    assert_eq!(told.out.lines().collect::<Vec<_>>(), expected);
    let moved = run(&["drain", &room.url, "--once", "--rate", "1GiB"]);
    assert_eq!(moved.code, 0, "{}", moved.err);
    assert_eq!(moved.out, "moved 2 objects, 15 bytes\nleft: 1 object being written\n");
    assert_eq!(std::fs::read(room.scratch.join("slow/run/a")).unwrap(), b"bytes");
    assert!(!room.scratch.join("fast/run/a").exists());
    assert_eq!(room.store.read_all("run/a").unwrap(), b"bytes");
    drop(busy);
    let told = run(&["drain", &room.url, "--status", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told["moved"], serde_json::json!({"objects": 2, "bytes": 15}));
    assert_eq!(told["waiting"]["list"][0]["name"], "busy");
}

#[test]
fn a_drain_that_is_killed_is_followed_by_the_next() {
    let room = room();
    for life in 0..3 {
        let mut drain = command().args(["drain", &room.url]).stdout(Stdio::null()).spawn().unwrap();
        let name = format!("object {life}");
        room.store.write_all(&name, &[life; 100_000]).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while room.scratch.join("fast").join(&name).exists() {
            assert!(Instant::now() < until, "{name} was not moved");
            std::thread::sleep(Duration::from_millis(10));
        }
        if life == 0 {
            let second = run(&["drain", &room.url]);
            assert_eq!(second.code, 3, "one drain at a time: {}", second.out);
            assert!(second.err.contains("another drain is running"), "{}", second.err);
            let waited = run(&["drain", &room.url, "--once"]);
            assert_eq!((waited.code, &*waited.out), (0, "another drain has moved all that is closed\n"));
            assert!(!run(&["drain", &room.url, "--status"]).out.contains("none at work"));
        }
        drain.kill().unwrap();
        drain.wait().unwrap();
        assert_eq!(room.store.read_all(&name).unwrap(), [life; 100_000]);
    }
}

#[test]
fn what_cannot_be_moved_is_told_and_stays() {
    let room = room();
    room.store.write_all("a", b"bytes").unwrap();
    // A folder where the object should be, put there behind the burst buffer's back.
    std::fs::create_dir_all(room.scratch.join("slow/a/in the way")).unwrap();
    let told = run(&["drain", &room.url, "--once"]);
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(told.err.contains("a stays in the fast store"), "{}", told.err);
    assert_eq!(room.store.read_all("a").unwrap(), b"bytes");
}

#[test]
fn a_store_that_is_no_burst_buffer_is_refused() {
    let refused = run(&["drain", "posix:/tmp"]);
    assert_eq!(refused.code, 3);
    assert!(refused.err.contains("tiered:FAST=>CANONICAL"), "{}", refused.err);
}
