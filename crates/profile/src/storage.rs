//! A layout whose opens, writes and syncs are recorded.

use crate::Phase;
use crate::recorder::Recorder;
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_layout::locks::FileLocks;
use thalweg_layout::{
    Attributes, Change, Layout, Lease, Life, OpenWrite, OtherNodes, ReadObject, SetXattr, Space, Stat, WriteObject,
    WriterId,
};
use thalweg_types::Result;
use thalweg_view::View;

/// See the module's page. Objects that methods keep after the output pass all calls on and record nothing.
pub struct Recorded {
    inner: Arc<dyn Layout>,
    recorder: Arc<Recorder>,
}

impl Recorded {
    /// Records the requests to `inner`.
    pub fn new(inner: Arc<dyn Layout>, recorder: Arc<Recorder>) -> Recorded {
        Recorded { inner, recorder }
    }
}

impl Layout for Recorded {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn url(&self, path: &str) -> Option<String> {
        self.inner.url(path)
    }

    fn request_cost(&self, path: &str) -> u64 {
        self.inner.request_cost(path)
    }

    fn other_nodes(&self, path: &str) -> OtherNodes {
        self.inner.other_nodes(path)
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        let _running = self.recorder.span(Phase::Open);
        let inner = self.inner.open_write(path, how, writer)?;
        Ok(Box::new(RecordedObject { inner, recorder: self.recorder.clone() }))
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        let _running = self.recorder.span(Phase::Open);
        self.inner.open_read(path)
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.inner.stat(path)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn prepare_rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.prepare_rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        let _running = self.recorder.span(Phase::Open);
        self.inner.make_folder(path)
    }

    fn make_new_folder(&self, path: &str) -> Result<bool> {
        let _running = self.recorder.span(Phase::Open);
        self.inner.make_new_folder(path)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        let _running = self.recorder.span(Phase::Sync);
        self.inner.sync_folder(folder)
    }

    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        self.inner.targets(folder)
    }

    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        let _running = self.recorder.span(Phase::Open);
        self.inner.make_on_target(name, target, stripe)
    }

    fn make_striped(&self, path: &str, asked: thalweg_layout::Stripes) -> Result<bool> {
        let _running = self.recorder.span(Phase::Open);
        self.inner.make_striped(path, asked)
    }

    fn stripes(&self, path: &str) -> Result<Option<thalweg_layout::Stripes>> {
        self.inner.stripes(path)
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        let _running = self.recorder.span(Phase::Open);
        self.inner.make_one_folder(path, mode)
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        self.inner.attributes(path)
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        self.inner.set_attributes(path, change)
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        self.inner.truncate(path, length)
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        self.inner.make_link(target, path)
    }

    fn read_link(&self, path: &str) -> Result<String> {
        self.inner.read_link(path)
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        self.inner.make_hard_link(from, to)
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.inner.xattr_get(path, key)
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.inner.xattr_set(path, key, value, how)
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        self.inner.xattr_list(path)
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        self.inner.xattr_remove(path, key)
    }

    fn space(&self, path: &str) -> Result<Space> {
        self.inner.space(path)
    }

    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        self.inner.plain_file(path)
    }

    fn prefers_runs(&self, path: &str) -> bool {
        self.inner.prefers_runs(path)
    }

    fn keeps_whole(&self, path: &str) -> bool {
        self.inner.keeps_whole(path)
    }

    fn lock_folder(&self, path: &str) -> Option<PathBuf> {
        self.inner.lock_folder(path)
    }

    fn locks(&self, path: &str) -> Result<Option<Box<dyn FileLocks>>> {
        self.inner.locks(path)
    }

    fn finish(&self) -> Result<()> {
        let _running = self.recorder.span(Phase::Close);
        self.inner.finish()
    }

    fn write_synopsis(&self, path: &str) -> Result<()> {
        let _running = self.recorder.span(Phase::Close);
        self.inner.write_synopsis(path)
    }

    fn concrete(&self) -> Option<&dyn std::any::Any> {
        self.inner.concrete()
    }
}

struct RecordedObject {
    inner: Box<dyn WriteObject>,
    recorder: Arc<Recorder>,
}

impl RecordedObject {
    /// Records a write of so many bytes.
    fn written<T>(&self, bytes: u64, write: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut running = self.recorder.span(Phase::Write);
        let outcome = write();
        if outcome.is_ok() {
            running.bytes(bytes);
        }
        outcome
    }
}

/// Number of bytes in the pieces.
fn total(pieces: &[IoSlice<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

impl WriteObject for RecordedObject {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.written(total(pieces), || self.inner.write_at(offset, pieces))
    }

    fn write_view(&self, view: &Arc<View>, start: u64, bytes: &[u8]) -> Result<()> {
        self.written(bytes.len() as u64, || self.inner.write_view(view, start, bytes))
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        self.inner.read_view(view, start, out)
    }

    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        self.written(total(pieces), || self.inner.append(pieces))
    }

    fn claim(&self, from: u64, bytes: u64) -> Result<u64> {
        self.inner.claim(from, bytes)
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        let _running = self.recorder.span(Phase::Write);
        self.inner.reserve(offset, length)
    }

    fn length(&self) -> Result<u64> {
        self.inner.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, out)
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.inner.stored_before(offset)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.inner.truncate(length)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.punch(offset, length)
    }

    fn sync(&self) -> Result<()> {
        let _running = self.recorder.span(Phase::Sync);
        self.inner.sync()
    }

    fn publish(&self) -> Result<()> {
        let _running = self.recorder.span(Phase::Sync);
        self.inner.publish()
    }

    fn attributes(&self) -> Result<Attributes> {
        self.inner.attributes()
    }

    fn set_attributes(&self, change: &Change) -> Result<()> {
        self.inner.set_attributes(change)
    }

    fn will_write(&self) -> Result<()> {
        let _running = self.recorder.span(Phase::Open);
        self.inner.will_write()
    }

    fn order(&self) -> u64 {
        self.inner.order()
    }

    fn order_from(&self, number: u64) {
        self.inner.order_from(number);
    }

    fn lease(&self) -> Result<Option<Lease>> {
        self.inner.lease()
    }

    fn life(&self) -> Result<Life> {
        self.inner.life()
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        let _running = self.recorder.span(Phase::Open);
        Ok(Box::new(RecordedObject { inner: self.inner.reopen()?, recorder: self.recorder.clone() }))
    }

    fn lock(&self, wait: bool) -> Result<Option<Lease>> {
        self.inner.lock(wait)
    }

    fn file(&self) -> Option<&std::fs::File> {
        self.inner.file()
    }

    fn is_file(&self) -> bool {
        self.inner.is_file()
    }

    fn close(self: Box<Self>) -> Result<()> {
        let _running = self.recorder.span(Phase::Write);
        self.inner.close()
    }
}
