//! Lock objects: shared by all processes that lock a file, removed by the last of them.

use std::path::Path;
use std::sync::Arc;
use thalweg_layout::{
    Container, Direct, Layout, OpenWrite, SmallFile, WriterId, container::Options, errno, errno::Errno,
};
use thalweg_open_file::lock::{Kind, LockFile, Owner, Range};
use thalweg_store::{Memory, Posix, Store};

const ALL: Range = Range { start: 0, length: 0 };

fn layouts(folder: &Path) -> Vec<Arc<dyn Layout>> {
    let store = |name: &str| -> Arc<dyn Store> {
        std::fs::create_dir(folder.join(name)).unwrap();
        Arc::new(Posix::at(folder.join(name)).unwrap())
    };
    vec![
        Arc::new(Direct::new(store("direct")).unwrap()),
        Arc::new(SmallFile::new(store("small"), Default::default()).unwrap()),
        Arc::new(Container::new(vec![store("container")], Options::default()).unwrap()),
    ]
}

fn made(layout: &dyn Layout) -> impl Fn() -> LockFile {
    layout.open_write("f", OpenWrite::New, WriterId(1)).unwrap().close().unwrap();
    let about = layout.attributes("f").unwrap();
    move || LockFile::open(layout, "f", &about).unwrap()
}

fn is_busy(outcome: std::io::Result<()>) -> bool {
    outcome.is_err_and(|e| [Errno::AGAIN, Errno::ACCESS].map(|n| Some(n.raw_os_error())).contains(&e.raw_os_error()))
}

#[test]
fn who_locks_meets_all_others_who_lock_the_same_file_and_each_kind_its_own() {
    let folder = tempfile::tempdir().unwrap();
    for layout in layouts(folder.path()) {
        let open = made(&*layout);
        let (one, other) = (open(), open());
        one.whole(Kind::Exclusive, false).unwrap();
        assert!(is_busy(other.whole(Kind::Shared, false)), "{}", layout.describe());
        other.range(Owner::Description, Kind::Exclusive, Range { start: 10, length: 5 }, false).unwrap();
        assert!(is_busy(one.range(Owner::Description, Kind::Shared, ALL, false)));
        one.range(Owner::Description, Kind::Exclusive, Range { start: 0, length: 10 }, false).unwrap();
        let met = one.test(Owner::Description, Kind::Shared, ALL).unwrap().unwrap();
        assert_eq!((met.kind, met.range), (Kind::Exclusive, Range { start: 10, length: 5 }));
        drop(other);
        assert_eq!(one.test(Owner::Description, Kind::Exclusive, ALL).unwrap(), None, "{}", layout.describe());
        let third = open();
        drop(one);
        third.whole(Kind::Exclusive, false).unwrap();
        third.range(Owner::Description, Kind::Exclusive, ALL, false).unwrap();
        assert!(layout.list("").unwrap() == ["f"], "nobody sees lock objects");
    }
}

#[test]
fn the_last_who_leaves_removes_the_object_and_nobody_before() {
    let folder = tempfile::tempdir().unwrap();
    for layout in layouts(folder.path()).iter().skip(1) {
        let open = made(&**layout);
        let objects = || std::fs::read_dir(layout.lock_folder("f").unwrap()).map_or(0, |all| all.count());
        let (one, other) = (open(), open());
        drop(one);
        assert_eq!(objects(), 1, "{}", layout.describe());
        // The description lives on in a second descriptor, as in a child.
        let inherited = other.descriptor().try_clone().unwrap();
        drop(other);
        assert_eq!(objects(), 1, "{}", layout.describe());
        drop(inherited);
        drop(open());
        assert_eq!(objects(), 0, "{}", layout.describe());
    }
}

#[test]
fn many_who_come_and_go_never_hold_the_same_lock() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layouts(folder.path()).remove(2);
    let open = made(&*layout);
    let (inside, most) = (std::sync::atomic::AtomicU32::new(0), std::sync::atomic::AtomicU32::new(0));
    use std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let lock = open();
                    lock.whole(Kind::Exclusive, true).unwrap();
                    most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                    inside.fetch_sub(1, SeqCst);
                }
            });
        }
    });
    assert_eq!(most.load(SeqCst), 1);
}

#[test]
fn where_no_lock_object_can_be_a_lock_is_an_error_that_says_why() {
    let layout: Arc<dyn Layout> = Arc::new(Container::new(vec![Arc::new(Memory::new())], Options::default()).unwrap());
    layout.open_write("f", OpenWrite::New, WriterId(1)).unwrap().close().unwrap();
    let refused = LockFile::open(&*layout, "f", &layout.attributes("f").unwrap()).unwrap_err();
    assert_eq!(errno::of(&refused), Errno::NOLCK.raw_os_error());
    assert!(refused.to_string().contains("has no folder"), "{refused}");
}
