//! The door's calls in the order the kernel makes them, with the store calls they cost.

use super::attributes::without_privilege;
use super::*;
use crate::nodes::ROOT;
use std::ffi::OsString;
use std::time::UNIX_EPOCH;
use thalweg_layout::{Direct, SmallFile};
use thalweg_store::wrap::Counting;
use thalweg_store::wrap::counting::Counts;
use thalweg_store::{Memory, Posix, Store};

const CALLER: Caller = Caller { uid: 0, gid: 0 };

/// What the kernel asks for one `open(O_CREAT)`, write and `close`; after each, it asks for the folder again.
fn make(door: &Door, folder: u64, name: &str) -> Entry {
    let name = OsString::from(name);
    door.attributes(folder).unwrap();
    assert_eq!(door.lookup(folder, &name).err(), Some(Errno::ENOENT));
    let (entry, fh) = door.create(folder, &name, 0o644, 0, CALLER).unwrap();
    door.write(fh, 0, &[7; 1000], 0, fuser::WriteFlags::empty()).unwrap();
    door.flush(fh, 0).unwrap();
    door.release(fh).unwrap();
    entry
}

fn door(store: Arc<dyn Store>, timeout: Duration) -> (Door, u64) {
    let layout: Arc<dyn Layout> = Arc::new(SmallFile::new(store, Default::default()).unwrap());
    let door = Door::new(layout.clone(), Settings { timeout, ..Settings::of(&*layout, true) });
    let folder = door.make_folder(ROOT, "d".as_ref(), 0o755, CALLER).unwrap().attributes.ino.0;
    (door, folder)
}

#[test]
fn files_made_and_removed_one_after_the_other_are_no_operations_on_names() {
    let below = tempfile::tempdir().unwrap();
    let counting = Arc::new(Counting::new(Arc::new(Posix::at(below.path()).unwrap())));
    let (door, folder) = door(counting.clone(), Duration::from_secs(3600));
    make(&door, folder, "first");
    counting.take();
    for number in 0..300 {
        make(&door, folder, &format!("file.{number}"));
    }
    few_names(&counting.take().total());
    assert_eq!(door.layout.list("d").unwrap().len(), 301);
    counting.take();
    for number in 0..300 {
        let name = OsString::from(format!("file.{number}"));
        door.attributes(folder).unwrap();
        let ino = door.lookup(folder, &name).unwrap().attributes.ino.0;
        door.remove(folder, &name).unwrap();
        door.forget(ino, 2);
    }
    few_names(&counting.take().total());
    assert_eq!(door.layout.list("d").unwrap().len(), 1);
}

fn few_names(total: &Counts) {
    let on_names = total.opens_for_writing
        + total.opens_for_reading
        + total.stats
        + total.lists
        + total.renames
        + total.removes
        + total.folders_made
        + total.folder_syncs
        + total.attributes
        + total.failed;
    assert!(on_names <= 10, "{on_names} for 300 files: {total:?}");
}

#[test]
fn a_folder_that_is_opened_is_listed_once_and_again_when_a_program_begins_again() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(counting.clone()).unwrap());
    let door = Door::new(layout.clone(), Settings::of(&*layout, true));
    make(&door, ROOT, "one");
    counting.take();
    let fh = door.open_folder(ROOT).unwrap();
    assert_eq!(door.names(ROOT, fh, true).unwrap().len(), 1);
    assert_eq!(door.names(ROOT, fh, false).unwrap().len(), 1);
    assert_eq!(counting.take().total().lists, 1);
    make(&door, ROOT, "two");
    assert_eq!(door.names(ROOT, fh, false).unwrap().len(), 1, "it goes on with what it has");
    assert_eq!(door.names(ROOT, fh, true).unwrap().len(), 2, "rewound");
    door.release_folder(fh);
    assert_eq!(door.names(ROOT, fh, true).err(), Some(Errno::EBADF));
}

#[test]
fn who_only_reads_is_not_waited_for_at_a_close_and_who_only_writes_goes_past_the_kernels_pages() {
    use fuser::FopenFlags as F;
    let below = tempfile::tempdir().unwrap();
    let (read, write, both) = (0, 1, 2);
    let (packed, _) = door(Arc::new(Posix::at(below.path()).unwrap()), Duration::from_secs(1));
    assert_eq!(packed.flags(7, false), F::FOPEN_NOFLUSH);
    assert_eq!(packed.flags(7, true), F::empty(), "what was written is published");
    assert_eq!(packed.open_flags(write), F::empty(), "this kernel would keep old bytes");
    packed.drops_what_is_written.store(true, Ordering::Relaxed);
    assert_eq!([read, write, both].map(|how| packed.open_flags(how)), [F::empty(), F::FOPEN_DIRECT_IO, F::empty()]);
    let appends = [read, write, both].map(|how| packed.open_flags(how | super::O_APPEND));
    assert_eq!(appends, [F::empty(), F::FOPEN_DIRECT_IO, F::FOPEN_DIRECT_IO], "the kernel does not know the place");
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Posix::at(below.path()).unwrap())).unwrap());
    let plain = Door::new(layout.clone(), Settings::of(&*layout, true));
    plain.drops_what_is_written.store(true, Ordering::Relaxed);
    assert_eq!((plain.flags(7, false), plain.flags(7, true)), (F::FOPEN_NOFLUSH, F::empty()), "locks end at closes");
    assert_eq!(plain.open_flags(write), F::empty(), "all handles of a file are alike");
}

#[test]
fn attributes_of_a_folder_follow_what_is_done_to_it_here_at_once_and_what_others_do_in_time() {
    let below = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Counting::new(Arc::new(Posix::at(below.path()).unwrap())));
    let (door, folder) = door(store.clone(), Duration::from_millis(300));
    let now = |door: &Door| door.attributes(folder).unwrap().0;
    let before = now(&door);
    std::thread::sleep(Duration::from_millis(30));
    make(&door, folder, "f");
    let after = now(&door);
    assert!(after.mtime > before.mtime && after.ctime > before.ctime, "a file was made");
    let mode = |mode| Change { mode: Some(mode), ..Change::default() };
    assert_eq!(door.change(folder, mode(0o700), None, None, CALLER).unwrap().perm, 0o700);
    assert_eq!(now(&door).perm, 0o700);
    door.make_folder(folder, "deep".as_ref(), 0o755, CALLER).unwrap();
    assert_eq!(now(&door).nlink, store.attributes("d").unwrap().links as u32);
    let group = door.change(folder, Change { gid: Some(7), ..mode(0o2770) }, None, None, CALLER).unwrap();
    assert_eq!((group.gid, group.perm), (7, 0o2770));
    assert_eq!(make(&door, folder, "inherits").attributes.gid, 7);
    // Another process.
    store.set_attributes("d", &mode(0o711)).unwrap();
    let began = Instant::now();
    while now(&door).perm != 0o711 {
        assert!(began.elapsed() < Duration::from_secs(20), "it is not seen");
        std::thread::sleep(Duration::from_millis(10));
    }
    door.rename(ROOT, "d".as_ref(), ROOT, "e".as_ref(), true).unwrap();
    assert_eq!(now(&door).perm, 0o711);
    door.remove(folder, "f".as_ref()).unwrap();
    assert_eq!(door.lookup(folder, "f".as_ref()).err(), Some(Errno::ENOENT));
}

#[test]
fn a_list_tells_of_a_folder_what_a_look_at_it_tells() {
    let below = tempfile::tempdir().unwrap();
    let (door, folder) = door(Arc::new(Posix::at(below.path()).unwrap()), Duration::from_secs(3600));
    make(&door, folder, "one");
    std::thread::sleep(Duration::from_secs(2));
    // Of which the folder below tells nothing.
    make(&door, folder, "two");
    let times = |about: FileAttr| (about.mtime, about.ctime);
    let held = times(door.attributes(folder).unwrap().0);
    let told = times(door.lookup(ROOT, "d".as_ref()).unwrap().attributes);
    // The file's times were held for the folder, which a filesystem stamps a moment later.
    let later = told.0.duration_since(held.0).unwrap();
    assert!(later < Duration::from_secs(1), "{later:?}");
    let (fh, mut listed) = (door.open_folder(ROOT).unwrap(), Vec::new());
    Arc::new(door).list_plus(ROOT, fh, &Arc::new(vec!["d".to_string()]), 0, &mut |at, entry| {
        listed.push((at, times(entry.attributes)));
        false
    });
    assert_eq!(listed, [(0, told)]);
}

#[test]
fn a_new_owner_takes_the_special_bits_of_programs_alone() {
    let about = |kind, mode| Attributes {
        kind,
        length: 0,
        mode,
        uid: 0,
        gid: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        links: 1,
        identity: 0,
    };
    let chown = Change { uid: Some(7), ..Change::default() };
    let mode = |kind, mode| without_privilege(chown, &about(kind, mode)).mode;
    assert_eq!(mode(Kind::File, 0o6755), Some(0o755));
    assert_eq!(mode(Kind::File, 0o2644), None, "no program: a lock is meant");
    assert_eq!(mode(Kind::File, 0o755), None);
    assert_eq!(mode(Kind::Folder, 0o2755), None);
    let both = Change { mode: Some(0o4755), ..chown };
    assert_eq!(without_privilege(both, &about(Kind::File, 0o6755)).mode, Some(0o4755));
}
