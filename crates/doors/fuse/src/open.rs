//! A file that a program has open: from `open` to `release`.
//!
//! `flush`, which the kernel sends at every `close(2)`, publishes written bytes: `close` reports failures, and the bytes are visible to
//! other processes when `close` returns.

use std::fs::File;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_layout::errno::{self, Errno};
use thalweg_open_file::{Access, OpenFile};
use thalweg_types::Result;
use thalweg_types::mutex::{Mutex, RwLock};

/// A handle.
pub struct OpenHandle {
    /// The file's inode number.
    pub ino: u64,
    file: RwLock<Option<OpenFile>>,
    dirty: AtomicBool,
    /// Held during a publish, so that a concurrent publish returns only after this one.
    publishing: Mutex<()>,
    /// Held during an append. Bytes before a part of an append that came early.
    ahead: Mutex<Range<u64>>,
}

impl OpenHandle {
    /// Of this open file.
    pub fn new(ino: u64, file: OpenFile) -> OpenHandle {
        OpenHandle {
            ino,
            file: RwLock::new(Some(file)),
            dirty: AtomicBool::new(false),
            publishing: Mutex::new(()),
            ahead: Mutex::new(0..0),
        }
    }

    fn with<T>(&self, call: impl FnOnce(&OpenFile) -> Result<T>) -> Result<T> {
        match &*self.file.read() {
            Some(file) => call(file),
            None => Err(errno::failure(Errno::BADF, "use a file that was closed", "")),
        }
    }

    /// Runs `call` on the open file; on a closed handle nothing is left to do.
    fn while_open(&self, call: impl FnOnce(&OpenFile) -> Result<()>) -> Result<()> {
        match &*self.file.read() {
            Some(file) => call(file),
            None => Ok(()),
        }
    }

    /// The file's current length.
    pub fn length(&self) -> Result<u64> {
        self.with(OpenFile::length)
    }

    /// Duplicates the descriptor of the underlying file, if the handle is open for writing and the file is one of this machine.
    pub fn file(&self) -> Option<File> {
        self.with(|file| Ok(file.file().and_then(|file| file.try_clone().ok()))).ok().flatten()
    }

    /// Whether the handle allows writes.
    pub fn writes(&self) -> bool {
        self.with(|file| Ok(file.access().write)).unwrap_or(false)
    }

    /// Reads at an offset, up to the end of the file.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.with(|file| file.read_at(offset, out))
    }

    /// Writes at an offset.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.dirty.store(true, Ordering::Release);
        self.with(|file| file.write_at(offset, &[IoSlice::new(bytes)]))
    }

    /// Appends, for a handle with `O_APPEND`. The kernel sends the offset where it knows the end to be. Another process may have appended
    /// since the kernel asked: the bytes then go to the end that the layout knows.
    ///
    /// The kernel may send the parts of one asynchronous write in any order: a part behind the end, and those before it that follow,
    /// go to their offsets. The kernel may also have asked for the end later than this handle, by a `stat` of another program.
    pub fn append_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut ahead = self.ahead.lock();
        let mut end = self.length()?;
        if offset > end {
            self.refresh()?;
            // Not every layout looks for bytes of others when a handle without own ones is published; an open of the name does.
            self.with(OpenFile::refresh)?;
            end = self.length()?;
        }
        if offset > end {
            *ahead = end..offset;
        } else if !ahead.contains(&offset) {
            self.dirty.store(true, Ordering::Release);
            return self.with(|file| file.append(&[IoSlice::new(bytes)])).map(drop);
        }
        self.write_at(offset, bytes)
    }

    /// Truncates or extends the file.
    pub fn truncate(&self, length: u64) -> Result<()> {
        self.dirty.store(true, Ordering::Release);
        self.with(|file| file.truncate(length))
    }

    /// Flushes written bytes to the device.
    pub fn sync(&self) -> Result<()> {
        self.with(OpenFile::sync)
    }

    /// Publishes written bytes. When this returns, they are visible to other processes, also if a concurrent call published them.
    pub fn publish(&self) -> Result<()> {
        let _one = self.publishing.lock();
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // A failure is reported to every caller until a publish succeeds.
        self.while_open(OpenFile::publish).inspect_err(|_| self.dirty.store(true, Ordering::Release))
    }

    /// Refreshes the view: bytes that others closed or synced become visible.
    pub fn refresh(&self) -> Result<()> {
        self.while_open(|file| match file.access().write {
            // Later writes are then ordered after the writes of others.
            true => file.publish(),
            false => file.refresh(),
        })
    }

    /// Closes and reopens handles, for layouts that show writes of others only to a new handle.
    pub fn renew(handles: &[Arc<OpenHandle>], open: impl Fn(Access) -> Result<OpenFile>) -> Result<()> {
        // Concurrent calls on these handles wait.
        let mut all: Vec<_> = handles.iter().map(|handle| handle.file.write()).collect();
        let accesses: Vec<_> = all.iter().map(|file| file.as_ref().map(|file| file.access().again())).collect();
        for file in all.iter_mut() {
            file.take().map_or(Ok(()), OpenFile::close)?;
        }
        for (file, access) in all.iter_mut().zip(accesses) {
            **file = access.map(&open).transpose()?;
        }
        Ok(())
    }

    /// Closes the handle.
    pub fn close(&self) -> Result<()> {
        // A concurrent publish waits for this close, which publishes everything.
        let mut file = self.file.write();
        file.take().map_or(Ok(()), OpenFile::close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::Duration;
    use thalweg_layout::small_file::Settings;
    use thalweg_layout::{Container, Direct, Layout, SmallFile, container::Options};
    use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
    use thalweg_store::{Memory, Store};

    /// Wraps a layout so that each write signals its arrival and waits for permission.
    struct Gate {
        shut: AtomicBool,
        comes: SyncSender<()>,
        may: Mutex<Receiver<bool>>,
    }

    impl Watch for Gate {
        fn describe(&self) -> &'static str {
            "gated"
        }

        fn before(&self, operation: &Operation<'_>) -> Verdict {
            if operation.asked != StoreCall::Write || !self.shut.load(Ordering::Relaxed) {
                return Verdict::Pass;
            }
            self.comes.send(()).unwrap();
            match self.may.lock().recv().unwrap() {
                true => Verdict::Pass,
                false => Verdict::Fail(thalweg_types::Error::new(thalweg_types::ErrorKind::Io, "refused")),
            }
        }
    }

    #[test]
    fn who_publishes_what_another_is_publishing_waits_for_it_and_a_failure_is_told_to_both() {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let layout = |store: Arc<dyn Store>| -> Arc<dyn Layout> {
            Arc::new(Container::new(vec![store], Options::default()).unwrap())
        };
        let (comes, came) = sync_channel(100);
        let (let_go, may) = sync_channel(100);
        let gated =
            Arc::new(Wrapped::with(memory.clone(), Gate { shut: AtomicBool::new(false), comes, may: Mutex::new(may) }));
        let (ours, others) = (layout(gated.clone()), layout(memory));
        let access = Access { write: true, create: true, ..Access::READ };
        let open = OpenHandle::new(2, OpenFile::open(&ours, "f", access, None, thalweg_open_file::writer()).unwrap());
        open.write_at(0, b"one").unwrap();
        gated.watch().shut.store(true, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| open.publish());
            came.recv().unwrap();
            let second = scope.spawn(|| open.publish());
            std::thread::sleep(Duration::from_millis(50));
            let waits = !second.is_finished();
            (0..2).for_each(|_| let_go.send(false).unwrap());
            assert!(waits, "others do not see it yet");
            assert!(first.join().unwrap().is_err());
            assert!(second.join().unwrap().is_err(), "it is not published");
        });
        assert_eq!(others.stat("f").unwrap().length, 0);
        gated.watch().shut.store(false, Ordering::Relaxed);
        open.publish().unwrap();
        assert_eq!(others.stat("f").unwrap().length, 3);
    }

    #[test]
    fn what_was_written_is_seen_by_others_after_a_close_of_one_descriptor_and_the_other_goes_on() {
        let store = Arc::new(Memory::new());
        let layout = |store: &Arc<Memory>| -> Arc<dyn Layout> {
            Arc::new(Container::new(vec![store.clone()], Options::default()).unwrap())
        };
        let (ours, others) = (layout(&store), layout(&store));
        let access = Access { write: true, create: true, ..Access::READ };
        let file = OpenFile::open(&ours, "f", access, None, thalweg_open_file::writer()).unwrap();
        let open = OpenHandle::new(2, file);
        open.write_at(0, b"one").unwrap();
        let seen = |others: &Arc<dyn Layout>| others.stat("f").unwrap().length;
        assert_eq!(seen(&others), 0);
        open.publish().unwrap();
        assert_eq!(seen(&others), 3);
        open.write_at(3, b"two").unwrap();
        open.close().unwrap();
        assert_eq!(seen(&others), 6);
        assert_eq!(errno::of(&open.write_at(0, b"x").unwrap_err()), Errno::BADF.raw_os_error());
    }

    /// As in two processes; the second through this door.
    fn two(layout: impl Fn() -> Arc<dyn Layout>) -> (Arc<dyn Layout>, OpenHandle) {
        let (others, ours) = (layout(), layout());
        let access = Access { write: true, create: true, ..Access::READ };
        let open = |layout| OpenFile::open(layout, "f", access, None, thalweg_open_file::writer()).unwrap();
        let file = open(&others);
        file.append(&[IoSlice::new(b"first ")]).unwrap();
        file.close().unwrap();
        let ours = OpenHandle::new(2, open(&ours));
        (others, ours)
    }

    fn content(layout: &dyn Layout) -> String {
        let file = layout.open_read("f").unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    type Make = fn(Arc<Memory>) -> Arc<dyn Layout>;
    const LAYOUTS: [Make; 3] = [
        |store| Arc::new(Container::new(vec![store], Options::default()).unwrap()),
        |store| Arc::new(SmallFile::new(store, Settings::default()).unwrap()),
        |store| Arc::new(Direct::new(store).unwrap()),
    ];

    #[test]
    fn an_append_goes_behind_what_another_process_appended_since_the_kernel_asked_for_the_end() {
        for layout in LAYOUTS {
            let store = Arc::new(Memory::new());
            let (others, open) = two(|| layout(store.clone()));
            assert_eq!(open.length().unwrap(), 6);
            let file =
                OpenFile::open(&others, "f", Access { write: true, ..Access::READ }, None, thalweg_open_file::writer());
            let file = file.unwrap();
            file.append(&[IoSlice::new(b"second ")]).unwrap();
            file.close().unwrap();
            let about = others.describe();
            open.append_at(6, b"third ").unwrap();
            open.append_at(12, b"fourth ").unwrap();
            open.publish().unwrap();
            open.close().unwrap();
            assert_eq!(content(&*layout(store)), "first second third fourth ", "{about}");
        }
    }

    #[test]
    fn an_append_overwrites_nothing_where_the_kernel_knows_a_later_end_than_the_handle() {
        for layout in LAYOUTS {
            let store = Arc::new(Memory::new());
            let (others, open) = two(|| layout(store.clone()));
            let access = Access { write: true, ..Access::READ };
            for bytes in [b"second ", b"third. "] {
                let file = OpenFile::open(&others, "f", access, None, thalweg_open_file::writer()).unwrap();
                file.append(&[IoSlice::new(bytes)]).unwrap();
                file.close().unwrap();
            }
            // A `stat` of another program came between the two.
            open.append_at(13, b"fourth ").unwrap();
            open.close().unwrap();
            assert_eq!(content(&*layout(store)), "first second third. fourth ", "{}", others.describe());
        }
    }

    #[test]
    fn parts_of_one_append_lie_in_order_in_whatever_order_they_come() {
        for layout in LAYOUTS {
            for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let store = Arc::new(Memory::new());
                let (others, open) = two(|| layout(store.clone()));
                for round in 0..2 {
                    let end = 6 + 9 * round;
                    for part in order {
                        open.append_at(end + 3 * part, &[b"abc", b"def", b"ghi"][part as usize][..]).unwrap();
                    }
                }
                open.close().unwrap();
                let about = format!("{}, {order:?}", others.describe());
                assert_eq!(content(&*layout(store)), "first abcdefghiabcdefghi", "{about}");
            }
        }
    }
}
