//! A layout whose panics become errors, so that a rank whose store or client library panics does not leave the others
//! waiting in a collective call. Steps that a rank takes alone run inside [`caught`]. Every call is passed on (`scripts/wrappers.py`).

use std::any::Any;
use std::io::{IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_comm::guarded::caught;
use thalweg_layout::locks::FileLocks;
use thalweg_layout::{
    Attributes, Change, Layout, Lease, Life, OpenWrite, OtherNodes, ReadObject, SetXattr, Space, Stat, Stripes,
    WriteObject, WriterId,
};
use thalweg_types::Result;
use thalweg_view::View;

/// A layout whose panics are errors of kind `Io`.
pub struct Guarded(Arc<dyn Layout>);

impl Guarded {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Layout>) -> Guarded {
        Guarded(inner)
    }
}

macro_rules! passed_on {
    ($($name:ident($($argument:ident: $type:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> Result<$out> {
            caught(stringify!($name), || self.0.$name($($argument),*))
        })*
    };
}

impl Layout for Guarded {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn url(&self, path: &str) -> Option<String> {
        self.0.url(path)
    }

    fn request_cost(&self, path: &str) -> u64 {
        self.0.request_cost(path)
    }

    fn other_nodes(&self, path: &str) -> OtherNodes {
        self.0.other_nodes(path)
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let inner = caught("open for writing", || self.0.open_write(path, how, writer))?;
        Ok(Box::new(GuardedWrite(inner)))
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        let inner = caught("open", || self.0.open_read(path))?;
        Ok(Box::new(GuardedRead(inner)))
    }

    passed_on! {
        stat(path: &str) -> Stat;
        list(folder: &str) -> Vec<String>;
        rename(from: &str, to: &str) -> ();
        prepare_rename(from: &str, to: &str) -> ();
        remove(path: &str) -> ();
        make_folder(path: &str) -> ();
        make_new_folder(path: &str) -> bool;
        sync_folder(folder: &str) -> ();
        make_one_folder(path: &str, mode: u32) -> ();
        attributes(path: &str) -> Attributes;
        set_attributes(path: &str, change: &Change) -> ();
        truncate(path: &str, length: u64) -> ();
        make_link(target: &str, path: &str) -> ();
        read_link(path: &str) -> String;
        make_hard_link(from: &str, to: &str) -> ();
        xattr_get(path: &str, key: &str) -> Option<Vec<u8>>;
        xattr_set(path: &str, key: &str, value: &[u8], how: SetXattr) -> ();
        xattr_list(path: &str) -> Vec<String>;
        xattr_remove(path: &str, key: &str) -> ();
        space(path: &str) -> Space;
        targets(folder: &str) -> Option<u32>;
        make_on_target(name: &str, target: u32, stripe: u64) -> bool;
        make_striped(path: &str, asked: Stripes) -> bool;
        stripes(path: &str) -> Option<Stripes>;
        write_synopsis(path: &str) -> ();
        locks(path: &str) -> Option<Box<dyn FileLocks>>;
        finish() -> ();
    }

    fn prefers_runs(&self, path: &str) -> bool {
        self.0.prefers_runs(path)
    }

    fn keeps_whole(&self, path: &str) -> bool {
        self.0.keeps_whole(path)
    }

    fn lock_folder(&self, path: &str) -> Option<PathBuf> {
        self.0.lock_folder(path)
    }

    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        self.0.plain_file(path)
    }

    fn concrete(&self) -> Option<&dyn Any> {
        self.0.concrete()
    }
}

struct GuardedWrite(Box<dyn WriteObject>);

impl WriteObject for GuardedWrite {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        caught("write", || self.0.write_at(offset, pieces))
    }

    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        caught("append", || self.0.append(pieces))
    }

    passed_on! {
        reserve(offset: u64, length: u64) -> ();
        length() -> u64;
        read_at(offset: u64, out: &mut [u8]) -> usize;
        stored_before(offset: u64) -> u64;
        truncate(length: u64) -> ();
        punch(offset: u64, length: u64) -> ();
        sync() -> ();
        publish() -> ();
        will_write() -> ();
        write_view(view: &Arc<View>, start: u64, bytes: &[u8]) -> ();
        read_view(view: &Arc<View>, start: u64, out: &mut [u8]) -> u64;
        claim(from: u64, bytes: u64) -> u64;
        attributes() -> Attributes;
        set_attributes(change: &Change) -> ();
        lease() -> Option<Lease>;
        life() -> Life;
        lock(wait: bool) -> Option<Lease>;
    }

    fn order(&self) -> u64 {
        self.0.order()
    }

    fn order_from(&self, number: u64) {
        self.0.order_from(number);
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        Ok(Box::new(GuardedWrite(caught("open again", || self.0.reopen())?)))
    }

    fn close(self: Box<Self>) -> Result<()> {
        caught("close", || self.0.close())
    }

    fn file(&self) -> Option<&std::fs::File> {
        self.0.file()
    }

    fn is_file(&self) -> bool {
        self.0.is_file()
    }
}

struct GuardedRead(Box<dyn ReadObject>);

impl ReadObject for GuardedRead {
    passed_on! {
        length() -> u64;
        read_at(offset: u64, out: &mut [u8]) -> usize;
        stored_before(offset: u64) -> u64;
        read_exact_at(offset: u64, out: &mut [u8]) -> ();
        life() -> Life;
        read_view(view: &Arc<View>, start: u64, out: &mut [u8]) -> u64;
        attributes() -> Attributes;
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        Ok(Box::new(GuardedWrite(caught("open again", || self.0.reopen())?)))
    }

    fn at_hand(&self) -> u64 {
        self.0.at_hand()
    }

    fn picks(&self) -> bool {
        self.0.picks()
    }

    fn read_vectored_at(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Result<usize> {
        caught("read", || self.0.read_vectored_at(offset, pieces))
    }
}
