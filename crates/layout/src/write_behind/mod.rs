//! The write-behind layout: a write is held in memory when it returns, and reaches the layout below later, in order.
//!
//! | question | answer |
//! |----------|--------|
//! | order    | writes, publications and closes of all files reach the layout below in the order in which they returned, one at a time. After a kill of this process the files are as they were after one of them: a step whose index is there has all its data |
//! | seen     | every call through this layout sees all writes that have returned; others see what has reached the layout below |
//! | memory   | held bytes are bounded: at the limit, writes wait, in the order in which they came. A single write longer than the limit is taken when nothing else is held. Within the limit, up to 64 MiB of memory that is free are kept for further writes |
//! | promise  | [`Promise::Held`]: `publish` and `close` return at once. [`Promise::Stored`]: they return when the file's bytes lie below |
//! | sync     | returns when the file's bytes lie below and the layout below has synced them |
//! | a file that is made and removed before anything of it was stored | never reaches the layout below but by its name: temporary files cost memory alone |
//! | other removals, renames, truncations, holes, changes of attributes | wait until all earlier calls have reached the layout below, and are then calls of it |
//! | a call that fails below | the file fails: what was held of it is given up, and its calls fail with the same kind until the program has closed it and been told. What is behind it may refer to the lost bytes: calls in the queue are given up, files that are open in the same folder (of a subfile: in that of the BP file) fail, and so does the first call there of a program that does not know. What reached the layout below before stays |
//! | times    | a file that was written has the time of the program's last write, before and after it is stored, if files of the layout below are the system's; elsewhere that of the storing, and attributes wait for it |
//! | names | of one file, through links too, where the layout below knows the identity of files; two names of one file elsewhere are two files |
//! | threads  | one, which makes the calls in the queue; opens, looks and reads are made by the callers' |
//!
//! For servers that take outputs over from programs ("staging"): see `partition`. It is no burst buffer: held bytes end with the process.
//!
//! | room | what it owns |
//! |------|--------------|
//! | `file` | open files |
//! | `queue` | calls of programs: what they add to the queue, and what they wait for |
//! | `worker` | the thread that makes the calls in the queue |
//! | `looks` | what a program sees |
//! | `state` | what is known of files, calls and failures |
//! | `overlay` | the held bytes of a file |
//! | `below` | calls of the layout below |

mod below;
mod file;
mod looks;
mod overlay;
mod queue;
mod state;
mod worker;

use crate::{
    Attributes, Change, Layout, OpenWrite, OtherNodes, ReadObject, SetXattr, Space, Stat, Stripes, WriteObject,
    WriterId,
};
use file::{HeldReader, HeldWriter};
use queue::Queue;
use std::sync::Arc;
use std::thread::JoinHandle;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, Result};

/// What `publish` and `close` promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The bytes are held: they survive the program that wrote them, but not this process.
    Held,
    /// The bytes lie in the layout below.
    Stored,
}

/// What a write-behind layout has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that are held.
    pub held: u64,
    /// Most bytes that are held.
    pub limit: u64,
    /// Calls that have not reached the layout below.
    pub queued: u64,
    /// Bytes that have reached the layout below.
    pub stored: u64,
    /// Calls that failed below.
    pub failures: u64,
    /// The last of these failures.
    pub last_failure: Option<String>,
}

struct Owner {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Owner {
    /// Waits until everything has reached the layout below.
    fn drop(&mut self) {
        self.queue.end();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

/// See the module's page. Clones share files and memory; the last one that is dropped waits until everything lies below.
#[derive(Clone)]
pub struct WriteBehind {
    owner: Arc<Owner>,
    promise: Promise,
}

impl WriteBehind {
    /// Over a layout, whose files nothing else changes meanwhile.
    ///
    /// - `limit`: most bytes that are held.
    ///
    /// # Errors
    /// `Io` if the system gives no thread.
    pub fn new(below: Arc<dyn Layout>, limit: u64) -> Result<WriteBehind> {
        let queue = Arc::new(Queue::new(below, limit));
        let own = queue.clone();
        let thread = std::thread::Builder::new().name("thalweg behind".into()).spawn(move || own.run());
        let thread = thread.map_err(|e| Error::io("cannot begin the thread that writes behind", e))?;
        let owner = Arc::new(Owner { queue, thread: Mutex::new(Some(thread)) });
        Ok(WriteBehind { owner, promise: Promise::Held })
    }

    /// The same files with another promise.
    pub fn promising(&self, promise: Promise) -> WriteBehind {
        WriteBehind { owner: self.owner.clone(), promise }
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        self.owner.queue.counts()
    }

    /// Waits until everything that was written before this call lies below.
    ///
    /// # Errors
    /// The last failure of a call below that no program has been told.
    pub fn drain(&self) -> Result<()> {
        self.queue().settle();
        self.queue().untold()
    }

    fn queue(&self) -> &Arc<Queue> {
        &self.owner.queue
    }

    fn below(&self) -> &dyn Layout {
        &*self.owner.queue.below
    }

    /// A call of the layout below that everything before it must have reached.
    fn settled(&self) -> &dyn Layout {
        self.queue().settle();
        self.below()
    }
}

impl Layout for WriteBehind {
    fn describe(&self) -> String {
        format!("write-behind over {}", self.below().describe())
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let file = self.queue().open_write(path, how, writer)?;
        Ok(Box::new(HeldWriter::new(self.owner.clone(), file, self.promise)))
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        let (file, object) = self.queue().open_read(path)?;
        Ok(Box::new(HeldReader::new(self.owner.clone(), file, path, object)))
    }

    fn request_cost(&self, path: &str) -> u64 {
        self.below().request_cost(path)
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.queue().stat(path)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.below().list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (from.to_string(), to.to_string());
        self.queue().names(&[from, to], move |below| below.rename(&old, &new))
    }

    fn prepare_rename(&self, from: &str, to: &str) -> Result<()> {
        self.settled().prepare_rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.queue().remove(path)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.below().make_folder(path)
    }

    fn make_new_folder(&self, path: &str) -> Result<bool> {
        self.below().make_new_folder(path)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.below().sync_folder(folder)
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        self.below().make_one_folder(path, mode)
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        self.queue().attributes(path)
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        let (name, own) = (path.to_string(), *change);
        let set = self.queue().names(&[path], move |below| below.set_attributes(&name, &own));
        if change.mtime.is_some() {
            self.queue().forget_time(path);
        }
        set
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        self.queue().truncate_named(path, length)
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        self.below().make_link(target, path)
    }

    fn read_link(&self, path: &str) -> Result<String> {
        self.below().read_link(path)
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (from.to_string(), to.to_string());
        self.queue().names(&[from, to], move |below| below.make_hard_link(&old, &new))
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.below().xattr_get(path, key)
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.below().xattr_set(path, key, value, how)
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        self.below().xattr_list(path)
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        self.below().xattr_remove(path, key)
    }

    fn space(&self, path: &str) -> Result<Space> {
        self.below().space(path)
    }

    fn prefers_runs(&self, _path: &str) -> bool {
        true
    }

    fn keeps_whole(&self, path: &str) -> bool {
        self.below().keeps_whole(path)
    }

    fn other_nodes(&self, path: &str) -> OtherNodes {
        self.below().other_nodes(path)
    }

    /// Waits until everything lies below.
    fn finish(&self) -> Result<()> {
        self.drain()?;
        self.below().finish()
    }

    fn write_synopsis(&self, path: &str) -> Result<()> {
        self.settled().write_synopsis(path)
    }

    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        self.below().targets(folder)
    }

    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        let (path, made) = (name.to_string(), Arc::new(Mutex::new(false)));
        let told = made.clone();
        self.queue().names(&[name], move |below| {
            *told.lock() = below.make_on_target(&path, target, stripe)?;
            Ok(())
        })?;
        let made = *made.lock();
        Ok(made)
    }

    fn make_striped(&self, path: &str, asked: Stripes) -> Result<bool> {
        self.below().make_striped(path, asked)
    }

    fn stripes(&self, path: &str) -> Result<Option<Stripes>> {
        self.below().stripes(path)
    }
}
