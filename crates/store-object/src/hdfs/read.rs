//! An object being read: complete blocks from the data nodes, the block being written through WebHDFS.

use super::Shared;
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileReader;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use thalweg_store::{Life, ReadObject};
use thalweg_types::mutex::RwLock;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes of one request, which must arrive within its timeout.
const RUN: usize = 16 << 20;

/// Pauses between attempts of a read that no data node answered. Some time after a close, the name node may list one data node
/// of a block only, because the others have not reported the block yet.
const AGAIN: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3)];

pub struct Reading {
    shared: Arc<Shared>,
    path: String,
    /// With the data nodes that the name node listed.
    reader: RwLock<Arc<FileReader>>,
    /// Time of the last change, in milliseconds: a different time means another object, or that this one was closed.
    changed: u64,
}

impl Reading {
    pub fn open(shared: Arc<Shared>, path: String) -> Result<Reading> {
        // Attributes are read before and after the blocks, so that length, time and blocks belong to one object.
        let mut about = stat(&shared, &path)?;
        for _ in 0..10 {
            let reader = shared.ask("open", &path, shared.client.read(&path))?;
            let again = stat(&shared, &path)?;
            if again.modification_time == about.modification_time && again.length >= reader.file_length() {
                let reader = RwLock::new(Arc::new(reader));
                return Ok(Reading { changed: about.modification_time, shared, path, reader });
            }
            about = again;
        }
        Err(shared.wrong(ErrorKind::NotReady, "open: the object is replaced repeatedly", &path))
    }

    /// Bytes of complete blocks, which the client's reader knows. It panics on reads beyond them.
    fn closed(&self) -> u64 {
        self.reader.read().file_length() as u64
    }

    /// Requests the positions of the blocks from the name node again. Nothing changes if the object was replaced.
    fn look_again(&self) -> Result<()> {
        let about = stat(&self.shared, &self.path)?;
        let reader = self.shared.ask("open", &self.path, self.shared.client.read(&self.path))?;
        if about.modification_time == self.changed && reader.file_length() as u64 >= self.closed() {
            *self.reader.write() = Arc::new(reader);
        }
        Ok(())
    }

    /// Bytes that are visible now.
    fn now(&self) -> Result<u64> {
        if self.shared.web.is_none() {
            return Ok(self.closed());
        }
        match stat(&self.shared, &self.path) {
            Ok(about) if about.modification_time == self.changed => Ok(self.closed().max(about.length as u64)),
            Ok(_) => Ok(self.closed()),
            // Removed while open: its blocks may remain for a while.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => Ok(self.closed()),
            Err(e) => Err(e),
        }
    }

    fn read_closed(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut at = offset;
        for run in out.chunks_mut(RUN) {
            let mut pauses = AGAIN.iter();
            let got = loop {
                let reader = self.reader.read().clone();
                let read = || self.shared.ask("read", &self.path, reader.read_range(at as usize, run.len()));
                match (self.shared.pace.of(run.len(), read), pauses.next()) {
                    (Ok(got), _) => break got,
                    (Err(e), Some(pause)) if matches!(e.kind(), ErrorKind::Io | ErrorKind::Timeout) => {
                        std::thread::sleep(*pause);
                        self.look_again().map_err(|_| e.at_byte(at))?;
                    }
                    (Err(e), _) => return Err(e.at_byte(at)),
                }
            };
            // The stream ends early if the data nodes have fewer bytes than the name node reports.
            if got.len() != run.len() {
                let what = format!("cannot read {} bytes: the blocks hold {}", run.len(), got.len());
                let short = Error::new(ErrorKind::Torn, what).in_object(self.shared.shown(&self.path));
                return Err(short.at_byte(at + got.len() as u64));
            }
            run.copy_from_slice(&got);
            at += run.len() as u64;
        }
        Ok(())
    }
}

fn stat(shared: &Shared, path: &str) -> Result<FileStatus> {
    let about = shared.ask("open", path, shared.client.get_file_info(path))?;
    match about.isdir {
        true => Err(shared.wrong(ErrorKind::InvalidArgument, "open: it is a folder", path)),
        false => Ok(about),
    }
}

impl ReadObject for Reading {
    fn length(&self) -> Result<u64> {
        self.now()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let wanted = offset.saturating_add(out.len() as u64);
        let end = if wanted <= self.closed() { wanted } else { wanted.min(self.now()?) };
        let Some(count) = end.checked_sub(offset).filter(|count| *count > 0) else { return Ok(0) };
        let of_closed = self.closed().min(end).saturating_sub(offset) as usize;
        let (closed, tail) = out[..count as usize].split_at_mut(of_closed);
        if !closed.is_empty() {
            self.read_closed(offset, closed)?;
        }
        let mut got = closed.len();
        if let (false, Some(web)) = (tail.is_empty(), &self.shared.web) {
            let at = offset + of_closed as u64;
            got +=
                web.open(&self.path, at, tail).map_err(|e| e.in_object(self.shared.shown(&self.path)).at_byte(at))?;
        }
        Ok(got)
    }

    fn life(&self) -> Result<Life> {
        Ok(Life { leased: None, modified: UNIX_EPOCH.checked_add(Duration::from_millis(self.changed)) })
    }
}
