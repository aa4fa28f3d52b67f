//! Outputs that end after the program's close has returned: asynchronous methods, data servers.
//!
//! | question | answer |
//! |---|---|
//! | which methods | those whose [`Method::ends_later`] returns true; with `async=yes` all others, by [`close_later`]; without it these close inside the program's close, from borrowed values |
//! | input | [`OwnedOutput`]: the communicator that the output was opened with, the header, and a pack that does not refer to the program's memory |
//! | result | a [`Pending`], from inside the program's close, or in the background if the output was opened there; the method may still communicate, as on every rank |
//! | when it ends | [`Pending::end`] is called once, on a thread of the file, after all earlier outputs of the file have ended on this rank |
//! | errors | of the same kind on all ranks; returned by the next open of the file, or at the end of the session |
//!
//! `thalweg-io` (`in_flight`) orders the outputs and reports failures.

use super::{CloseRequest, Closed, Method};
use crate::pack::Pack;
use thalweg_bp::process_group::Header;
use thalweg_comm::Communicator;
use thalweg_comm::guarded::caught;
use thalweg_types::{Error, ErrorKind, Result};

/// An output that its method owns.
pub struct OwnedOutput {
    /// The ranks that opened together. This handle has no other user.
    pub comm: Box<dyn Communicator>,
    /// Header of the process group.
    pub header: Header,
    /// The process group, or the blocks.
    pub pack: Pack<'static>,
    /// This rank's failure so far; its part is then left out.
    pub failed: Option<Error>,
}

impl OwnedOutput {
    /// As the argument of [`Method::close`].
    pub fn request(&mut self) -> CloseRequest<'_, 'static> {
        let failed = self.failed.take();
        CloseRequest { comm: &*self.comm, header: &self.header, pack: &mut self.pack, failed }
    }
}

/// An output that has ended; later methods of the group close it next.
pub struct Ended {
    /// The result, as [`Method::close`] returns it.
    pub outcome: Result<Closed>,
    /// The output.
    pub output: OwnedOutput,
}

/// An output that its method ends later.
pub trait Pending: Send {
    /// Ends the output. Collective, on a thread that may wait; returns on every rank within the communicator's timeout.
    fn end(self: Box<Self>) -> Ended;
}

/// Ends the output later by the method's own [`Method::close`], for methods that differ from synchronous ones only in time.
pub fn close_later(method: Box<dyn Method>, output: OwnedOutput) -> Box<dyn Pending> {
    Box::new(ClosesLater { method, output })
}

/// An output that its method did not accept, although it declares to end outputs later.
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
