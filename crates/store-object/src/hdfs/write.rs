//! An object being written: one pipeline of data nodes, from front to back.

use super::{Shared, error};
use crate::runtime::run;
use bytes::Bytes;
use hdfs_native::file::FileWriter;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thalweg_store::pieces::{self, Rest};
use thalweg_store::{WriteObject, unsupported};
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes copied at a time on their way into packets, and bytes that one request's time must suffice for.
const RUN: usize = 4 << 20;

pub struct Writing {
    shared: Arc<Shared>,
    path: String,
    state: Mutex<State>,
}

struct State {
    writer: FileWriter,
    /// Bytes handed to the pipeline.
    length: u64,
    /// Why nothing can be written any more.
    lost: Option<String>,
}

impl Writing {
    pub fn new(shared: Arc<Shared>, path: String, writer: FileWriter) -> Writing {
        Writing { shared, path, state: Mutex::new(State { writer, length: 0, lost: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the last block counts as complete. Where the cluster lets files be closed before that
    /// (`dfs.namenode.file.close.num-committed-allowed`), readers would miss it for a moment.
    fn until_reported(&self, length: u64) -> Result<()> {
        let Shared { client, timeout, .. } = &*self.shared;
        let until = Instant::now() + *timeout;
        let mut pause = Duration::from_millis(2);
        loop {
            let seen = self.shared.ask("close", &self.path, async {
                let about = client.get_file_info(&self.path).await?;
                let reader = client.read(&self.path).await?;
                Ok((about.length as u64, reader.file_length() as u64))
            });
            match seen {
                Ok((told, seen)) if told != length || seen >= length => return Ok(()),
                Ok(_) if Instant::now() < until => {}
                Ok((_, seen)) => {
                    let what = format!("close: data nodes have reported {seen} of {length} bytes");
                    return Err(self.shared.wrong(ErrorKind::Timeout, &what, &self.path));
                }
                // Replaced or removed by others meanwhile: it was closed.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => return Ok(()),
                Err(e) => return Err(e),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    fn cannot(&self, what: &str) -> Error {
        unsupported(&self.shared.address, what, &self.shared.shown(&self.path))
    }
}

impl Shared {
    /// As [`Shared::ask`], for what moves an object's bytes; a failure loses the object.
    fn carry<T>(
        &self,
        what: &str,
        path: &str,
        lost: &mut Option<String>,
        question: impl Future<Output = hdfs_native::Result<T>>,
    ) -> Result<T> {
        if let Some(why) = lost {
            let what = format!("cannot {what}: an earlier write failed ({why})");
            return Err(Error::new(ErrorKind::Io, what).in_object(self.shown(path)));
        }
        let timeout = self.timeout;
        let outcome = match run(async move { tokio::time::timeout(timeout, question).await })? {
            Ok(outcome) => outcome.map_err(|cause| error::failed(what, cause)),
            Err(_) => {
                let what = format!("cannot {what}: no answer within {} s", timeout.as_secs());
                Err(Error::new(ErrorKind::Timeout, what))
            }
        };
        outcome.map_err(|error| {
            *lost = Some(error.to_string());
            error.in_object(self.shown(path))
        })
    }
}

impl WriteObject for Writing {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        if pieces::total(pieces) == 0 {
            return Ok(());
        }
        let state = &mut *self.lock();
        if offset != state.length {
            let end = state.length;
            return Err(self.cannot(&format!("write anywhere but at the end, byte {end}")).at_byte(offset));
        }
        let mut rest = Rest::new(pieces);
        while !rest.is_empty() {
            let mut run = Vec::with_capacity(RUN.min(pieces::total(pieces) as usize));
            rest.next(usize::MAX, RUN as u64).iter().for_each(|piece| run.extend_from_slice(piece));
            let bytes = run.len() as u64;
            let sent = state.writer.write_bytes(Bytes::from(run));
            self.shared.carry("write", &self.path, &mut state.lost, sent).map_err(|e| e.at_byte(state.length))?;
            state.length += bytes;
            rest = rest.after(bytes);
        }
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(self.lock().length)
    }

    fn read_at(&self, offset: u64, _out: &mut [u8]) -> Result<usize> {
        Err(self.cannot("read what it writes").at_byte(offset))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        Err(self.cannot("cut an object").at_byte(length))
    }

    fn punch(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let state = &mut *self.lock();
        self.shared.carry("sync", &self.path, &mut state.lost, state.writer.hsync())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let state = &mut *self.lock();
        self.shared.carry("close", &self.path, &mut state.lost, state.writer.close())?;
        // WebHDFS shows the last block whatever its state; the client's own reader only once data nodes reported it.
        match self.shared.web {
            Some(_) => Ok(()),
            None => self.until_reported(state.length),
        }
    }
}
