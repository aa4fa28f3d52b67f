//! A file that a program has open: from `open` to `release`.
//!
//! `flush`, which the kernel sends at every `close(2)`, lets others see what was written: so the program is told of failures, and
//! others see the file when `close` returns.

use std::fs::File;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_layout::errno::{self, Errno};
use thalweg_open_file::{Access, OpenFile};
use thalweg_types::Result;
use thalweg_types::mutex::{Mutex, RwLock};

/// A handle.
pub struct Open {
    /// The file's number.
    pub ino: u64,
    file: RwLock<Option<OpenFile>>,
    dirty: AtomicBool,
    /// Held by who publishes: a publish that finds nothing to do has waited for the one that does it.
    publishing: Mutex<()>,
}

impl Open {
    /// Of this open file.
    pub fn new(ino: u64, file: OpenFile) -> Open {
        Open { ino, file: RwLock::new(Some(file)), dirty: AtomicBool::new(false), publishing: Mutex::new(()) }
    }

    fn with<T>(&self, call: impl FnOnce(&OpenFile) -> Result<T>) -> Result<T> {
        match &*self.file.read() {
            Some(file) => call(file),
            None => Err(errno::failure(Errno::BADF, "use a file that was closed", "")),
        }
    }

    /// Of one that is closed meanwhile there is nothing to do: its close has done it.
    fn while_open(&self, call: impl FnOnce(&OpenFile) -> Result<()>) -> Result<()> {
        match &*self.file.read() {
            Some(file) => call(file),
            None => Ok(()),
        }
    }

    /// Bytes now.
    pub fn length(&self) -> Result<u64> {
        self.with(OpenFile::length)
    }

    /// Another descriptor of the file of this machine below, where this is open for writing and there is one.
    pub fn file(&self) -> Option<File> {
        self.with(|file| Ok(file.file().and_then(|file| file.try_clone().ok()))).ok().flatten()
    }

    /// Whether it can write.
    pub fn writes(&self) -> bool {
        self.with(|file| Ok(file.access().write)).unwrap_or(false)
    }

    /// Reads at an offset as much as there is.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.with(|file| file.read_at(offset, out))
    }

    /// Writes at an offset.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.dirty.store(true, Ordering::Release);
        self.with(|file| file.write_at(offset, &[IoSlice::new(bytes)]))
    }

    /// Cuts or extends.
    pub fn truncate(&self, length: u64) -> Result<()> {
        self.dirty.store(true, Ordering::Release);
        self.with(|file| file.truncate(length))
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<()> {
        self.with(OpenFile::sync)
    }

    /// Lets others see what was written. They do when it returns, whoever published it.
    pub fn publish(&self) -> Result<()> {
        let _one = self.publishing.lock();
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // What another was told of is told to the next one, too.
        self.while_open(OpenFile::publish).inspect_err(|_| self.dirty.store(true, Ordering::Release))
    }

    /// Looks at what others closed or synced.
    pub fn refresh(&self) -> Result<()> {
        self.while_open(|file| match file.access().write {
            // So that what is written from now on comes behind what others wrote.
            true => file.publish(),
            false => file.refresh(),
        })
    }

    /// Closes all these handles and opens them again: of a file that shows what others wrote in no other way.
    pub fn renew(handles: &[Arc<Open>], open: impl Fn(Access) -> Result<OpenFile>) -> Result<()> {
        // Whoever uses one waits.
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

    /// Ends it.
    pub fn close(&self) -> Result<()> {
        // Who publishes meanwhile waits: others see it all when that returns.
        let mut file = self.file.write();
        file.take().map_or(Ok(()), OpenFile::close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::Duration;
    use thalweg_layout::{Container, Layout, container::Options};
    use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
    use thalweg_store::{Memory, Store};

    /// Lets each write to an object say that it comes, and wait until it may.
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
        let open = Open::new(2, OpenFile::open(&ours, "f", access, None, thalweg_open_file::writer()).unwrap());
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
        let open = Open::new(2, file);
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
}
