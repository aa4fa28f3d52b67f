//! Outputs that end after the program's close has returned: asynchronous methods, data servers.
//!
//! | question | answer |
//! |---|---|
//! | who is asked | a method whose [`Method::ends_later`] says so; all others close inside the program's close, from borrowed values |
//! | what it gets | [`OwnedOutput`]: the communicator that the output was opened with, the header, and a pack of which nothing lies in the program's memory |
//! | what it returns | a [`Pending`], from inside the program's close: the method may still communicate there, as on every rank |
//! | when it ends | [`Pending::end`] is called once, on a thread of the file's, when all earlier outputs of the file have ended on this rank |
//! | what the program hears | an outcome, on all ranks the same kind: at the next open of the file, else when the session ends |
//!
//! Which outputs wait for which, and who hears of failures, is `thalweg-io`'s part (`in_flight`).

use super::{CloseRequest, Closed, Method};
use crate::pack::Pack;
use thalweg_bp::process_group::Header;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_types::{Error, ErrorKind, Result};

/// An output that its method has taken over.
pub struct OwnedOutput {
    /// The ranks that opened together. Nobody else uses this handle.
    pub comm: Box<dyn Communicator>,
    /// Header of the process group.
    pub header: Header,
    /// The process group, or the blocks.
    pub pack: Pack<'static>,
    /// This rank's own failure so far: its part is then left out.
    pub failed: Option<Error>,
}

impl OwnedOutput {
    /// What [`Method::close`] takes.
    pub fn request(&mut self) -> CloseRequest<'_, 'static> {
        let failed = self.failed.take();
        CloseRequest { comm: &*self.comm, header: &self.header, pack: &mut self.pack, failed }
    }
}

/// An output that has ended; methods behind this one in the group close it next.
pub struct Ended {
    /// As [`Method::close`] returns it.
    pub outcome: Result<Closed>,
    /// The output.
    pub output: OwnedOutput,
}

/// An output that its method ends later.
pub trait Pending: Send {
    /// Ends it. Collective, on a thread that may wait; every rank returns, within the communicator's timeout.
    fn end(self: Box<Self>) -> Ended;
}

/// The output ends with [`Method::close`] of this method: for methods that close as a synchronous one does, only later.
pub fn close_later(method: Box<dyn Method>, output: OwnedOutput) -> Box<dyn Pending> {
    Box::new(ClosesLater { method, output })
}

/// An output that its method does not take over, though it says so.
pub(super) fn not_taken(output: OwnedOutput) -> Box<dyn Pending> {
    Box::new(NotTaken(output))
}

struct NotTaken(OwnedOutput);

impl Pending for NotTaken {
    fn end(self: Box<Self>) -> Ended {
        let what = "the method declares that it ends outputs later, but does not accept one";
        Ended { outcome: Err(Error::new(ErrorKind::Unsupported, what)), output: self.0 }
    }
}

struct ClosesLater {
    method: Box<dyn Method>,
    output: OwnedOutput,
}

impl Pending for ClosesLater {
    fn end(mut self: Box<Self>) -> Ended {
        let outcome = caught("close the output", || self.method.close(self.output.request()));
        Ended { outcome, output: self.output }
    }
}
