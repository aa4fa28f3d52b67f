//! An open file of a partition.

use super::Shared;
use super::transfer::{Found, Handles, Servers, Transfer, reported, units};
use crate::record::Record;
use crate::server::data::DataName;
use crate::striping;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;
use thalweg_layout::{Change, Layout, OpenWrite, ReadObject, WriteObject, WriterId};
use thalweg_remote::client::link::nothing;
use thalweg_remote::message::{Reply, Request};
use thalweg_store::viewed;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

/// An open file.
pub(super) struct File {
    shared: Arc<Shared>,
    servers: Servers,
    path: String,
    record: Record,
    /// Writer number; `None` for a handle that reads.
    writer: Option<WriterId>,
    handles: Handles,
    closed: AtomicBool,
    /// Whether the name is known to be durable.
    named: AtomicBool,
    /// 0 before the first write; else one more than [`Shared::times`] at the last write.
    wrote: AtomicU64,
}

/// The name of a file's data at a server, by its place in the order of the stripes.
pub(super) fn data_name(record: &Record, server: usize) -> String {
    DataName { id: record.id, striping: record.striping, server: server as u32 }.to_string()
}

impl Servers {
    /// Sends a request to every server, and takes every reply.
    fn each(&self, handles: &Handles, request: impl Fn(usize, u64) -> Request) -> Vec<Result<Reply>> {
        let sent: Vec<_> = handles
            .of
            .iter()
            .enumerate()
            .map(|(server, (session, handle))| self.links[server].begin(session, &request(server, *handle), &[]))
            .collect();
        let replies = sent.into_iter().enumerate().map(|(server, on_its_way)| {
            let finished =
                on_its_way.and_then(|on_its_way| self.links[server].finish(&handles.of[server].0, on_its_way, nothing));
            finished.map(|(reply, ())| reply).map_err(|e| reported(e, self.numbers[server]))
        });
        replies.collect()
    }

    /// As [`Servers::each`].
    ///
    /// # Errors
    /// Of the first server that failed, after all have replied.
    pub(super) fn all(&self, handles: &Handles, request: impl Fn(usize, u64) -> Request) -> Result<Vec<Reply>> {
        self.each(handles, request).into_iter().collect()
    }

    /// Sessions at every server, without a handle.
    pub(super) fn sessions(&self) -> Result<Handles> {
        let of = self.links.iter().map(|link| Ok((link.session()?, 0))).collect::<Result<_>>()?;
        Ok(Handles { of })
    }

    /// Opens a file at every server.
    fn open(&self, record: &Record, writer: Option<WriterId>, how: OpenWrite) -> Result<Handles> {
        let mut handles = self.sessions()?;
        let opened = self.each(&handles, |server, _| {
            let path = data_name(record, server);
            match writer {
                Some(writer) => Request::OpenWrite { path, how: how.into(), writer: writer.0 },
                None => Request::OpenRead(path),
            }
        });
        let opened: Vec<Result<u64>> = opened.into_iter().map(|reply| reply.and_then(Reply::number)).collect();
        if opened.iter().any(|handle| handle.is_err()) {
            for (server, handle) in opened.iter().enumerate() {
                if let Ok(handle) = handle {
                    let session = &handles.of[server].0;
                    let _ = self.links[server].call_in(session, &Request::Drop(*handle), &[], nothing);
                }
            }
        }
        for (known, handle) in handles.of.iter_mut().zip(opened) {
            known.1 = handle?;
        }
        Ok(handles)
    }

    fn greatest(replies: Vec<Reply>) -> Result<u64> {
        replies.into_iter().try_fold(0, |most, reply| Ok(most.max(reply.number()?)))
    }
}

impl Shared {
    /// The servers of a file.
    ///
    /// # Errors
    /// `Corrupt` for the record of a file that lies on more servers than there are.
    pub(super) fn servers_of(&self, record: &Record) -> Result<Servers> {
        let (of_file, all) = (record.striping.servers(), self.servers.links.len() as u32);
        if of_file > all {
            let what = format!("the file lies on {of_file} servers, the partition has {all}");
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        let numbers: Vec<u32> = (0..of_file).map(|number| striping::place(record.id, of_file, all, number)).collect();
        let links = numbers.iter().map(|number| self.servers.links[*number as usize].clone()).collect();
        Ok(Servers { links, numbers })
    }
}

impl File {
    pub(super) fn open(
        shared: &Arc<Shared>,
        path: &str,
        record: Record,
        writer: Option<WriterId>,
        how: OpenWrite,
    ) -> Result<File> {
        let servers = shared.servers_of(&record).map_err(|e| e.in_object(path))?;
        // A file that is replaced is emptied; every other one is what its record says.
        let how = if how == OpenWrite::Replace { OpenWrite::Replace } else { OpenWrite::Any };
        let handles = servers.open(&record, writer, how).map_err(|e| e.in_object(path))?;
        Ok(File {
            shared: shared.clone(),
            servers,
            path: path.into(),
            record,
            writer,
            handles,
            closed: AtomicBool::new(false),
            named: AtomicBool::new(false),
            wrote: AtomicU64::new(0),
        })
    }

    fn is_ours(&self) -> bool {
        self.servers.links.iter().all(|link| link.is_ours())
    }

    /// Runs calls on the handles; in a child that has not opened the file itself (see [`thalweg_remote::client`]) on handles that are
    /// opened for them and closed.
    fn with<T>(&self, calls: impl FnOnce(&Handles) -> Result<T>) -> Result<T> {
        let run = || {
            if self.is_ours() {
                return calls(&self.handles);
            }
            let handles = self.servers.open(&self.record, self.writer, OpenWrite::Any)?;
            let outcome = calls(&handles);
            let closed = self.servers.all(&handles, |_, handle| Request::Close(handle));
            outcome.and_then(|value| closed.map(|_| value))
        };
        run().map_err(|e| e.in_object(self.path.as_str()))
    }

    fn all(&self, request: impl Fn(u64) -> Request) -> Result<Vec<Reply>> {
        self.with(|handles| self.servers.all(handles, |_, handle| request(handle)))
    }

    fn transfer<'t>(&'t self, handles: &'t Handles, view: Option<&'t Arc<View>>) -> Transfer<'t> {
        Transfer { servers: &self.servers, handles, first: self.shared.first, view }
    }

    fn writes(&self) {
        self.wrote.store(self.shared.times.load(Ordering::Acquire) + 1, Ordering::Release);
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= i64::MAX as u64);
        let beyond = || Error::new(ErrorKind::OutOfBounds, "beyond the largest file");
        let end = end.ok_or_else(|| beyond().in_object(self.path.as_str()).at_byte(offset))?;
        self.writes();
        let striping = self.record.striping;
        let units = units(striping.packets(offset..end), striping.servers(), self.shared.unit);
        self.with(|handles| self.transfer(handles, None).write(&units, bytes))
    }

    /// Number of bytes read, after a transfer. Holes among them become zeros.
    ///
    /// - `there`: how many of the bytes a file of a length has.
    fn ends(&self, handles: &Handles, found: &Found, out: &mut [u8], there: impl Fn(u64) -> u64) -> Result<u64> {
        let mut got = there(found.length);
        if got < out.len() as u64 {
            // Another server may have later bytes: what is missing here is a hole then.
            let length = Servers::greatest(self.servers.all(handles, |_, handle| Request::Length(handle))?)?;
            got = there(length.max(found.length));
        }
        let end = got as usize;
        for hole in &found.missing {
            out[hole.start.min(end)..hole.end.min(end)].fill(0);
        }
        Ok(got)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let end = offset.saturating_add(out.len() as u64).min(i64::MAX as u64);
        let wanted = end.saturating_sub(offset);
        let striping = self.record.striping;
        let units = units(striping.packets(offset..end), striping.servers(), self.shared.unit);
        self.with(|handles| {
            let found = self.transfer(handles, None).read(&units, out)?;
            let there = |length: u64| length.saturating_sub(offset).min(wanted);
            Ok(self.ends(handles, &found, &mut out[..wanted as usize], there)? as usize)
        })
    }

    fn write_view(&self, view: &Arc<View>, start: u64, bytes: &[u8]) -> Result<()> {
        if self.shared.views_in_client {
            return viewed::write(view, start, bytes, &mut |offset, part| self.write(offset, part));
        }
        viewed::reachable(view, start, bytes.len())?;
        self.writes();
        let striping = self.record.striping;
        let packets = striping.view_packets(view, start..start + bytes.len() as u64);
        let units = units(packets, striping.servers(), self.shared.unit);
        self.with(|handles| self.transfer(handles, Some(view)).write(&units, bytes))
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        if self.shared.views_in_client {
            return viewed::read(view, start, out, &mut |offset, out| self.read(offset, out));
        }
        viewed::reachable(view, start, out.len())?;
        let (striping, wanted) = (self.record.striping, out.len() as u64);
        let packets = striping.view_packets(view, start..start + wanted);
        let units = units(packets, striping.servers(), self.shared.unit);
        self.with(|handles| {
            let found = self.transfer(handles, Some(view)).read(&units, out)?;
            self.ends(handles, &found, out, |length| viewed::bytes_before(view, start..start + wanted, length))
        })
    }

    fn length(&self) -> Result<u64> {
        Servers::greatest(self.all(Request::Length)?)
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) || !self.is_ours() {
            return Ok(());
        }
        let closed = self.all(Request::Close).map(drop);
        let wrote = self.wrote.load(Ordering::Acquire);
        if wrote > 0 && wrote == self.shared.times.load(Ordering::Acquire) + 1 {
            let change = Change { mtime: Some(SystemTime::now()), ..Change::default() };
            match self.shared.names.set_attributes(&self.path, &change) {
                // Renamed or removed meanwhile, or names without times.
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::NotFound | ErrorKind::Unsupported | ErrorKind::PermissionDenied
                    ) => {}
                outcome => return closed.and(outcome),
            }
        }
        closed
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.closed.load(Ordering::Acquire) || !self.is_ours() {
            return;
        }
        let lives = self.handles.of.iter().all(|(session, _)| !session.is_lost());
        if lives {
            let _ = self.all(Request::Drop);
        }
    }
}

impl ReadObject for File {
    fn length(&self) -> Result<u64> {
        File::length(self)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.read(offset, out)
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        File::read_view(self, view, start, out)
    }

    fn picks(&self) -> bool {
        !self.shared.views_in_client
    }
}

impl WriteObject for File {
    /// # Cost
    /// Several pieces are copied together.
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let mut filled = pieces.iter().filter(|piece| !piece.is_empty());
        match (filled.next(), filled.next()) {
            (None, _) => Ok(()),
            (Some(only), None) => self.write(offset, only),
            _ => self.write(offset, &pieces.iter().flat_map(|piece| piece.iter().copied()).collect::<Vec<u8>>()),
        }
    }

    fn write_view(&self, view: &Arc<View>, start: u64, bytes: &[u8]) -> Result<()> {
        File::write_view(self, view, start, bytes)
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        File::read_view(self, view, start, out)
    }

    /// The file's first server gives out the places of appends, so that clients that append at the same time do not meet. A client
    /// that dies between its claim and its write, or whose write fails, leaves a hole.
    ///
    /// # Cost
    /// The length from all servers, a request to one, and a write.
    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        let bytes = thalweg_store::pieces::total(pieces);
        let from = File::length(self)?;
        if bytes == 0 {
            return Ok(from);
        }
        let begin = self.with(|handles| {
            let (session, handle) = &handles.of[0];
            let request = Request::Claim(*handle, from, bytes);
            self.servers.links[0].call_in(session, &request, &[], nothing)?.0.number()
        })?;
        self.write_at(begin, pieces)?;
        Ok(begin + bytes)
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        self.all(|handle| Request::Reserve(handle, offset, length)).map(drop)
    }

    fn length(&self) -> Result<u64> {
        File::length(self)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.read(offset, out)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.writes();
        self.all(|handle| Request::Cut(handle, length)).map(drop)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.writes();
        self.all(|handle| Request::Punch(handle, offset, length)).map(drop)
    }

    fn sync(&self) -> Result<()> {
        self.all(Request::Sync)?;
        if !self.named.load(Ordering::Acquire) {
            match self.shared.names.open_write(&self.path, OpenWrite::Existing, WriterId(0)) {
                Ok(name) => name.sync()?,
                // Renamed or removed meanwhile.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
            self.named.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Bytes are at the servers, seen by all, when a write returns.
    fn publish(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        File::close(&self)
    }
}

/// Reads a record that a server sent.
pub(super) fn record(bytes: &[u8], path: &str) -> Result<Record> {
    Record::decode(bytes).map_err(|e| e.in_object(path))
}
