//! Tests which calls proceed while a rename copies bytes.

use super::*;
use crate::nodes::ROOT;
use std::sync::mpsc::{Receiver, Sender, channel};
use thalweg_layout::{Flat, flat::pick};
use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Posix, Store};

const CALLER: Caller = Caller { uid: 0, gid: 0 };
const LENGTH: usize = 6 << 20;
/// Timeout, reached only by a hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// Signals that it was reached, and waits for permission to continue.
type Ends = (Sender<()>, Receiver<()>);

/// If set, the next write signals its arrival and waits for permission to continue.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<Option<Ends>>>);

impl Watch for Gate {
    fn describe(&self) -> &'static str {
        "gate"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let set = if operation.asked == StoreCall::Write { self.0.lock().take() } else { None };
        if let Some((come, go)) = set {
            come.send(()).unwrap();
            let _ = go.recv();
        }
        Verdict::Pass
    }
}

fn make(door: &Door, name: &str, bytes: &[u8]) {
    let (_, fh) = door.create(ROOT, name.as_ref(), 0o644, 0, CALLER).unwrap();
    door.write(fh, 0, bytes, 0, fuser::WriteFlags::empty()).unwrap();
    door.flush(fh, 0).unwrap();
    door.release(fh).unwrap();
}

#[test]
fn while_bytes_are_copied_for_a_rename_across_stores_other_names_are_found_and_removed() {
    let below = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    let store = |k: usize| -> Arc<dyn Store> {
        let folder = below.path().join(k.to_string());
        std::fs::create_dir(&folder).unwrap();
        Arc::new(Wrapped::with(Arc::new(Posix::at(&folder).unwrap()), gate.clone()))
    };
    let layout: Arc<dyn Layout> = Arc::new(Flat::new((0..2).map(store).collect()).unwrap());
    let door = Door::new(layout.clone(), Settings::of(&*layout, true));
    let to = (0..).map(|k| format!("moved.{k}")).find(|new| pick(new, 2) != pick("large", 2)).unwrap();
    make(&door, "large", &vec![7; LENGTH]);
    make(&door, "other", b"other");
    let (come, comes) = channel();
    let (go, goes) = channel();
    *gate.0.lock() = Some((come, goes));
    let (told, tells) = channel();
    std::thread::scope(|scope| {
        let renaming = scope.spawn(|| door.rename(ROOT, "large".as_ref(), ROOT, to.as_ref(), true));
        let copies = comes.recv_timeout(PATIENCE);
        scope.spawn(|| {
            let found = door.lookup(ROOT, "other".as_ref()).map(|_| ());
            told.send(found.and_then(|()| door.remove(ROOT, "other".as_ref()))).unwrap();
        });
        let meanwhile = tells.recv_timeout(PATIENCE);
        // Releases the write in any case.
        let still_copies = go.send(()).is_ok();
        renaming.join().unwrap().unwrap();
        assert!(copies.is_ok() && still_copies, "no data was copied for the rename");
        meanwhile.expect("another name waits until the bytes are copied").unwrap();
    });
    assert_eq!(layout.list("").unwrap(), [to.as_str()]);
    assert_eq!(layout.stat(&to).unwrap().length, LENGTH as u64);
}
