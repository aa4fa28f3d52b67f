//! An object being written: one pipeline of data nodes, from front to back.
//!
//! The name node goes on naming a data node that died until it counts it as dead, ten minutes by default, and Hadoop's own client
//! then abandons the block and excludes the node. The library offers neither, so the object is made anew, with
//! another choice of data nodes: the last bytes written are kept for that, and the bytes before them are copied from what the
//! failed object holds. Nobody sees the difference, but for the time it takes.

use super::{Shared, error};
use crate::runtime::run;
use bytes::Bytes;
use hdfs_native::file::FileWriter;
use hdfs_native::{HdfsError, WriteOptions};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thalweg_store::pieces::{self, Rest};
use thalweg_store::{WriteObject, unsupported};
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes copied at a time on their way into packets, and bytes that one request's time must suffice for.
const RUN: usize = 4 << 20;

/// Bytes kept of what was written last: more than packets that no data node has confirmed yet can hold (a queue of the library).
const KEPT: u64 = 16 << 20;

/// How often an object is made anew, in a row. With one dead data node of three and two copies, a choice fails with probability 2/3.
const TRIES: u32 = 24;

/// Bytes copied at most of a failed object.
const MOST_COPIED: u64 = 4 << 30;

pub struct Writing {
    shared: Arc<Shared>,
    path: String,
    options: WriteOptions,
    state: Mutex<State>,
}

struct State {
    writer: FileWriter,
    /// Bytes handed to the pipeline.
    length: u64,
    /// The last of them, in order; together at least [`KEPT`] bytes, or all.
    kept: VecDeque<Bytes>,
    /// Where the first of them begins.
    kept_from: u64,
    /// Why nothing can be written any more.
    lost: Option<String>,
}

/// What is asked of the writer.
enum Act<'a> {
    Write(&'a Bytes),
    Sync,
    Close,
}

impl Act<'_> {
    fn bytes(&self) -> u64 {
        match self {
            Act::Write(bytes) => bytes.len() as u64,
            Act::Sync | Act::Close => 0,
        }
    }
}

/// Why the writer failed.
enum Cause {
    Hdfs(HdfsError),
    NoAnswer,
    Other(Error),
}

impl Cause {
    /// Whether it may be a data node's failure; what the name node says is none.
    fn may_be_a_data_nodes(&self) -> bool {
        matches!(self, Cause::NoAnswer | Cause::Hdfs(HdfsError::IOError(_) | HdfsError::DataTransferError(_)))
    }
}

impl State {
    fn keep(&mut self, bytes: Bytes) {
        self.length += bytes.len() as u64;
        self.kept.push_back(bytes);
        while let Some(first) = self.kept.front().map(|first| first.len() as u64)
            && self.length - self.kept_from - first >= KEPT
        {
            self.kept.pop_front();
            self.kept_from += first;
        }
    }
}

impl Writing {
    pub fn new(shared: Arc<Shared>, path: String, options: WriteOptions, writer: FileWriter) -> Writing {
        let state = State { writer, length: 0, kept: VecDeque::new(), kept_from: 0, lost: None };
        Writing { shared, path, options, state: Mutex::new(state) }
    }

    /// Asks the writer, and where a data node fails, makes the object anew on other ones; a failure loses the object.
    fn carry(&self, what: &str, state: &mut State, act: Act<'_>) -> Result<()> {
        if let Some(why) = &state.lost {
            let what = format!("cannot {what}: an earlier write failed ({why})");
            return Err(Error::new(ErrorKind::Io, what).in_object(self.shared.shown(&self.path)));
        }
        let mut outcome = self.ask(&mut state.writer, &act);
        let (mut pause, until) = (Duration::from_millis(5), Instant::now() + self.shared.timeout * 2);
        for _ in 0..TRIES {
            match &outcome {
                Err(cause) if cause.may_be_a_data_nodes() && Instant::now() < until => {}
                _ => break,
            }
            // Whoever took this writer for dead has settled the object: it stays as it is.
            if !self.is_ours(&mut state.writer) {
                break;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(250));
            outcome = self.anew(state, act.bytes()).and_then(|()| self.ask(&mut state.writer, &act));
        }
        outcome.map_err(|cause| {
            let error = match cause {
                Cause::Hdfs(cause) => error::failed(what, cause),
                Cause::Other(error) => error,
                Cause::NoAnswer => {
                    let waited = self.shared.timeout.as_secs();
                    Error::new(ErrorKind::Timeout, format!("cannot {what}: no answer within {waited} s"))
                }
            };
            state.lost = Some(error.to_string());
            error.in_object(self.shared.shown(&self.path))
        })
    }

    /// Waits for an answer, no longer than a request may take.
    fn answer<T>(&self, question: impl Future<Output = hdfs_native::Result<T>>) -> std::result::Result<T, Cause> {
        let timeout = self.shared.timeout;
        match run(async move { tokio::time::timeout(timeout, question).await }).map_err(Cause::Other)? {
            Ok(answer) => answer.map_err(Cause::Hdfs),
            Err(_) => Err(Cause::NoAnswer),
        }
    }

    fn ask(&self, writer: &mut FileWriter, act: &Act<'_>) -> std::result::Result<(), Cause> {
        match act {
            Act::Write(bytes) => self.answer(writer.write_bytes(Bytes::clone(bytes))).map(|_| ()),
            Act::Sync => self.answer(writer.hsync()),
            Act::Close => self.answer(writer.close()),
        }
    }

    /// Whether the name node still knows this writer. The failed block is given up first, so that it alone is asked.
    fn is_ours(&self, writer: &mut FileWriter) -> bool {
        self.answer(writer.hsync()).is_ok() || {
            let _ = self.answer(writer.close());
            self.answer(writer.hsync()).is_ok()
        }
    }

    /// Makes the object anew, with all that was written to it.
    ///
    /// - `more`: bytes of the write that failed, of which the failed object may hold some.
    fn anew(&self, state: &mut State, more: u64) -> std::result::Result<(), Cause> {
        let client = &self.shared.client;
        let options = self.options.clone().overwrite(true);
        if state.kept_from == 0 {
            // Replaces the object that failed, which is this writer's.
            let mut writer = self.answer(client.create(&self.path, &options))?;
            let sent =
                state.kept.iter().try_for_each(|bytes| self.answer(writer.write_bytes(bytes.clone())).map(|_| ()));
            state.writer = writer;
            return sent;
        }
        self.shared.settle_path(&self.path).map_err(Cause::Other)?;
        let there = self.answer(client.get_file_info(&self.path))?.length as u64;
        if there < state.kept_from || there > state.length + more || there > MOST_COPIED {
            let what = format!(
                "a data node failed; {there} bytes of {} are left, the last {} are kept",
                state.length,
                state.length - state.kept_from
            );
            return Err(Cause::Other(Error::new(ErrorKind::Io, what)));
        }
        let temporary = format!("{}.anew-{:x}-{}", self.path, std::process::id(), state.length);
        let made = (|| {
            let mut writer = self.answer(client.create(&temporary, &options))?;
            let from = self.answer(client.read(&self.path))?;
            // What is kept is not copied.
            let copied = there.min(state.kept_from);
            let mut at = 0;
            while at < copied {
                let length = (RUN as u64).min(copied - at) as usize;
                let bytes = self.answer(from.read_range(at as usize, length))?;
                self.answer(writer.write_bytes(bytes))?;
                at += length as u64;
            }
            for bytes in &state.kept {
                self.answer(writer.write_bytes(bytes.clone()))?;
            }
            // The name node knows the writer by the object's number, whatever its name.
            self.answer(client.rename(&temporary, &self.path, true))?;
            Ok(writer)
        })();
        match made {
            Ok(writer) => {
                state.writer = writer;
                Ok(())
            }
            Err(cause) => {
                let _ = self.answer(client.delete(&temporary, false));
                Err(cause)
            }
        }
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
            let run = Bytes::from(run);
            self.carry("write", state, Act::Write(&run)).map_err(|e| e.at_byte(state.length))?;
            rest = rest.after(run.len() as u64);
            state.keep(run);
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
        self.carry("sync", state, Act::Sync)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let state = &mut *self.lock();
        self.carry("close", state, Act::Close)?;
        // WebHDFS shows the last block whatever its state; the client's own reader only once data nodes reported it.
        match self.shared.web {
            Some(_) => Ok(()),
            None => self.until_reported(state.length),
        }
    }
}
