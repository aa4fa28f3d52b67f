//! Locks and counters of a file at its server.
//!
//! | question | answer |
//! |----------|--------|
//! | lifetime | that of the session at the server: a process that ends, however, has no locks |
//! | a server that ended | each further call fails, also after it was started again: the locks are lost, and another process may have taken them |
//! | a fork | the locks are those of the parent; each call of a child fails |

use super::link::{Link, Session, nothing};
use crate::message::{Reply, Request};
use rustix::io::Errno;
use std::sync::Arc;
use thalweg_layout::locks::{Count, Family, FileLocks, Kind, Met, Range, Refused};
use thalweg_types::{Error, ErrorKind, Result};

/// A description of a file for locks, which its server keeps.
pub struct ServedLocks {
    link: Arc<Link>,
    session: Arc<Session>,
    handle: u64,
    name: String,
}

impl ServedLocks {
    /// Opens a description; `None` if the server's layout keeps no locks.
    ///
    /// - `path`: the file, as the server knows it.
    /// - `name`: the file, for messages.
    ///
    /// # Errors
    /// Those of the server's layout; `PeerLost`.
    /// # Cost
    /// One request.
    pub fn open(link: &Arc<Link>, path: String, name: &str) -> Result<Option<Box<dyn FileLocks>>> {
        let session = link.session()?;
        let handle = match link.call_in(&session, &Request::OpenLocks(path), &[], nothing)?.0 {
            Reply::None => return Ok(None),
            reply => reply.number()?,
        };
        Ok(Some(Box::new(ServedLocks { link: link.clone(), session, handle, name: name.to_string() })))
    }

    fn call(&self, request: &Request) -> Result<Reply> {
        if !self.link.is_ours() {
            let what = "cannot lock: the locks at the file's server are those of the process before its fork";
            let cause = std::io::Error::from(Errno::NOLCK);
            return Err(Error::new(ErrorKind::Unsupported, what).caused_by(cause).in_object(self.name.as_str()));
        }
        let lost = |e: Error| match e.kind() {
            ErrorKind::PeerLost | ErrorKind::Timeout => e.in_object(self.name.as_str()),
            _ => e,
        };
        Ok(self.link.call_in(&self.session, request, &[], nothing).map_err(lost)?.0)
    }
}

impl FileLocks for ServedLocks {
    fn lock(&self, family: Family, kind: Kind, range: Range, again: bool) -> Result<Option<Refused>> {
        let (family, kind, Range { start, length }) = (family.into(), kind.into(), range);
        self.call(&Request::Lock { handle: self.handle, family, kind, start, length, again })?.refused()
    }

    fn test(&self, kind: Kind, range: Range) -> Result<Option<Met>> {
        self.call(&Request::TestLock(self.handle, kind.into(), range.start, range.length))?
            .refused()
            .map(|refused| refused.map(|refused| refused.met))
    }

    fn make_counter(&self, key: u64) -> Result<()> {
        self.call(&Request::MakeCounter(self.handle, key)).map(drop)
    }

    fn count(&self, key: u64, count: Count) -> Result<u64> {
        self.call(&Request::Count(self.handle, key, count.into()))?.number()
    }
}

impl Drop for ServedLocks {
    fn drop(&mut self) {
        if self.link.is_ours() && !self.session.is_lost() {
            // A server that cannot be reached learns of the end of this process.
            let _ = self.link.call_in(&self.session, &Request::Close(self.handle), &[], nothing);
        }
    }
}
