//! An object being written through a pipeline of data nodes. Failures of data nodes: see [`super::anew`].

use super::anew::ReplayBuffer;
use super::{Shared, error};
use crate::runtime::run;
use bytes::Bytes;
use hdfs_native::file::FileWriter;
use hdfs_native::{HdfsError, WriteOptions};
use std::io::IoSlice;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_store::pieces::{self, Rest};
use thalweg_store::{WriteObject, unsupported};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes copied at a time into packets, which must be sent within the timeout of a request.
pub(super) const RUN: usize = 4 << 20;

pub struct Writing {
    pub(super) shared: Arc<Shared>,
    pub(super) path: String,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) writer: FileWriter,
    /// The options that the object was made with; for making it anew.
    pub(super) options: WriteOptions,
    /// Bytes passed to the pipeline.
    pub(super) length: u64,
    /// The last of these bytes.
    pub(super) kept: ReplayBuffer,
    /// Whether a sync has reported bytes of this object as durable.
    pub(super) synced: bool,
    /// The number of replicas to reach at close, if fewer are being written.
    pub(super) replication: Option<u32>,
    /// The error that ended writing.
    lost: Option<String>,
}

/// An operation of the client's writer.
pub(super) enum Act {
    Write(Bytes),
    Sync,
    Close,
}

/// Cause of a writer's failure.
pub(super) enum Cause {
    Hdfs(HdfsError),
    /// No answer within this time.
    Silence(Duration),
    Other(Error),
}

impl Cause {
    fn into_error(self, what: &str) -> Error {
        match self {
            Cause::Hdfs(cause) => error::failed(what, cause),
            Cause::Other(error) => error,
            Cause::Silence(waited) => {
                Error::new(ErrorKind::Timeout, format!("cannot {what}: no answer within {} s", waited.as_secs()))
            }
        }
    }
}

impl Shared {
    /// Waits for an answer, up to the timeout of a request.
    pub(super) fn answer<T>(
        &self,
        question: impl Future<Output = hdfs_native::Result<T>>,
    ) -> std::result::Result<T, Cause> {
        self.answer_within(self.timeout, question)
    }

    pub(super) fn answer_within<T>(
        &self,
        time: Duration,
        question: impl Future<Output = hdfs_native::Result<T>>,
    ) -> std::result::Result<T, Cause> {
        match run(async move { tokio::time::timeout(time, question).await }).map_err(Cause::Other)? {
            Ok(answer) => answer.map_err(Cause::Hdfs),
            Err(_) => Err(Cause::Silence(time)),
        }
    }
}

impl Writing {
    pub fn new(shared: Arc<Shared>, path: String, options: WriteOptions, writer: FileWriter) -> Writing {
        let state = State {
            writer,
            options,
            length: 0,
            kept: ReplayBuffer::default(),
            synced: false,
            replication: None,
            lost: None,
        };
        Writing { shared, path, state: Mutex::new(state) }
    }

    /// Does an operation, working around failed data nodes. An error loses the object.
    fn carry(&self, what: &str, state: &mut State, mut act: Act) -> Result<()> {
        if let Some(why) = &state.lost {
            let what = format!("cannot {what}: an earlier write failed ({why})");
            return Err(Error::new(ErrorKind::Io, what).in_object(self.shared.shown(&self.path)));
        }
        let mut outcome = self.ask(&mut state.writer, &act);
        if let Err(cause) = outcome {
            outcome = self.over_failed_nodes(state, &mut act, cause);
        }
        match outcome {
            Ok(()) => {
                match act {
                    Act::Write(bytes) => state.take(bytes),
                    Act::Sync => state.synced |= state.length > 0,
                    Act::Close => {}
                }
                Ok(())
            }
            Err(cause) => {
                let error = cause.into_error(what);
                state.lost = Some(error.to_string());
                Err(error.in_object(self.shared.shown(&self.path)))
            }
        }
    }

    pub(super) fn ask(&self, writer: &mut FileWriter, act: &Act) -> std::result::Result<(), Cause> {
        match act {
            Act::Write(bytes) => self.shared.answer(writer.write_bytes(bytes.clone())).map(|_| ()),
            Act::Sync => self.shared.sync(writer),
            Act::Close => self.shared.answer(writer.close()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until the last block is complete. A cluster that closes files earlier
    /// (`dfs.namenode.file.close.num-committed-allowed`) hides the block from readers for a moment.
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
                // Replaced or removed by another process meanwhile: the close succeeded.
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

impl State {
    /// Counts bytes that the pipeline has accepted.
    pub(super) fn take(&mut self, bytes: Bytes) {
        self.length += bytes.len() as u64;
        self.kept.keep(bytes);
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
            self.carry("write", state, Act::Write(run.into())).map_err(|e| e.at_byte(state.length))?;
            rest = rest.after(bytes);
        }
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(self.lock().length)
    }

    fn read_at(&self, offset: u64, _out: &mut [u8]) -> Result<usize> {
        Err(self.cannot("read an object that is being written").at_byte(offset))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        Err(self.cannot("truncate an object").at_byte(length))
    }

    fn punch(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let state = &mut *self.lock();
        self.carry("sync", state, Act::Sync)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let state = &mut *self.lock();
        self.carry("close", state, Act::Close)?;
        if let Some(replication) = state.replication {
            self.replicate(replication)?;
        }
        // WebHDFS reads the last block in any state; the client's reader only once data nodes have reported it.
        match self.shared.web {
            Some(_) => Ok(()),
            None => self.until_reported(state.length),
        }
    }
}
