//! In which messages the bytes of a call go to the servers, and sending them.
//!
//! Each server's packets are cut into units of `net_buf_size` bytes. One unit of each server is on its way at a time: when its reply has
//! been taken, the next one is sent, and then the reply of the next server is taken, so that servers work while a reply is received. The
//! first server differs from client to client: clients of one program do not all begin at server 0.

use crate::striping::Packet;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use thalweg_remote::channel::Channel;
use thalweg_remote::client::link::{Link, Session};
use thalweg_remote::message::{LONGEST_PIECE, MOST_PARTS, Reply, Request};
use thalweg_store::viewed;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

/// The error that a server reports of its storage, whose objects mean nothing to a program: without a place, which callers add.
pub(super) fn reported(failure: Error, server: u32) -> Error {
    if failure.place().object.is_none() {
        return failure;
    }
    let safe = failure.still_safe().map(str::to_string);
    let error =
        Error::new(failure.kind(), format!("server {server} of the partition reports an error")).caused_by(failure);
    match safe {
        Some(safe) => error.safe(safe),
        None => error,
    }
}

/// A part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// First byte: of the file, or of the view.
    pub start: u64,
    /// Number of bytes.
    pub length: usize,
    /// Where they are in the caller's buffer.
    pub at: usize,
}

/// The messages of a call: for each server its units, in order.
///
/// - `packets`: in the order of the caller's buffer, without gaps there.
/// - `unit`: most bytes of a message.
pub fn units(packets: impl IntoIterator<Item = Packet>, servers: u32, unit: usize) -> Vec<Vec<Vec<Part>>> {
    let unit = unit.clamp(1, LONGEST_PIECE);
    let mut units: Vec<Vec<Vec<Part>>> = vec![Vec::new(); servers as usize];
    let mut filled = vec![unit; servers as usize];
    let mut at = 0;
    for Packet { server, mut start, length } in packets {
        let (mine, filled) = (&mut units[server as usize], &mut filled[server as usize]);
        let mut rest = length as usize;
        while rest > 0 {
            if *filled >= unit || mine.last().is_none_or(|last| last.len() >= MOST_PARTS) {
                mine.push(Vec::new());
                *filled = 0;
            }
            let now = rest.min(unit - *filled);
            if let Some(last) = mine.last_mut() {
                last.push(Part { start, length: now, at });
            }
            (start, at, rest) = (start + now as u64, at + now, rest - now);
            *filled += now;
        }
    }
    units
}

/// The data servers of a file, in the order of its stripes.
#[derive(Clone)]
pub struct Servers {
    /// The ways to them.
    pub links: Vec<Arc<Link>>,
    /// Their numbers in the partition, for messages.
    pub numbers: Vec<u32>,
}

/// A file that is open at each of its servers.
pub struct Handles {
    /// Session and handle, in the order of the servers.
    pub of: Vec<(Arc<Session>, u64)>,
}

/// What a transfer needs.
pub struct Transfer<'t> {
    /// The file's servers.
    pub servers: &'t Servers,
    /// The open file.
    pub handles: &'t Handles,
    /// The server to begin with.
    pub first: usize,
    /// The view that parts are ranges of.
    pub view: Option<&'t Arc<View>>,
}

impl Transfer<'_> {
    /// Sends all units, and takes the replies.
    ///
    /// - `request`: of a handle, a view's number and parts.
    /// - `bytes`: if requests carry those of their parts.
    /// - `take`: takes the reply and receives its body.
    fn send(
        &self,
        units: &[Vec<Vec<Part>>],
        request: impl Fn(u64, Option<u64>, Vec<(u64, u64)>) -> Request,
        bytes: Option<&[u8]>,
        mut take: impl FnMut(&Reply, &[Part], &Channel, usize) -> Result<()>,
    ) -> Result<()> {
        let Servers { links, numbers } = self.servers;
        let servers = links.len();
        let mut views = vec![None; servers];
        if let Some(view) = self.view {
            for server in (0..servers).filter(|server| !units[*server].is_empty()) {
                views[server] = Some(links[server].view(&self.handles.of[server].0, view)?);
            }
        }
        let begin = |server: usize, number: usize| {
            let parts = &units[server][number];
            let (session, handle) = &self.handles.of[server];
            let pairs = parts.iter().map(|part| (part.start, part.length as u64)).collect();
            let body = bytes.map(|bytes| parts.iter().map(|part| IoSlice::new(&bytes[part.at..part.at + part.length])));
            let body: Vec<IoSlice<'_>> = body.into_iter().flatten().collect();
            let begun = links[server].begin(session, &request(*handle, views[server], pairs), &body);
            begun.map_err(|e| reported(e, numbers[server]))
        };
        let mut outcome = Ok(());
        let mut next: VecDeque<(usize, usize)> = (0..servers).map(|n| ((n + self.first) % servers, 0)).collect();
        let mut sent = VecDeque::new();
        loop {
            // After a failure nothing more is sent.
            while let Some((server, number)) = next.pop_front().filter(|_| outcome.is_ok()) {
                if number < units[server].len() {
                    match begin(server, number) {
                        Ok(on_its_way) => sent.push_back((server, number, on_its_way)),
                        Err(e) => outcome = Err(e),
                    }
                }
            }
            // Every reply is taken, whatever failed: a connection with a reply in it cannot be used again.
            let Some((server, number, on_its_way)) = sent.pop_front() else { return outcome };
            let parts = &units[server][number];
            let taken = |reply: &Reply, channel: &Channel, length: usize| take(reply, parts, channel, length);
            let finished = links[server].finish(&self.handles.of[server].0, on_its_way, taken);
            outcome = outcome.and(finished.map(drop).map_err(|e| reported(e, numbers[server])));
            next.push_back((server, number + 1));
        }
    }

    /// Writes the parts of `bytes`.
    ///
    /// # Errors
    /// Of the first server that failed; parts of other servers may be written.
    pub fn write(&self, units: &[Vec<Vec<Part>>], bytes: &[u8]) -> Result<()> {
        let request = |handle, view, parts| Request::WriteParts { handle, view, parts };
        self.send(units, request, Some(bytes), |_, _, channel, length| channel.body(length).map(drop))
    }

    /// Reads the parts into `out`. Bytes that their server lacks are left as they are: the runs of `out` that are missing.
    ///
    /// # Errors
    /// Of the first server that failed.
    pub fn read(&self, units: &[Vec<Vec<Part>>], out: &mut [u8]) -> Result<Found> {
        let mut found = Found { length: 0, missing: Vec::new() };
        let request = |handle, view, parts| Request::ReadParts { handle, view, parts };
        self.send(units, request, None, |reply, parts, channel, length| {
            let Reply::Number(known) = *reply else { return channel.body(length).map(drop) };
            let wanted: usize = parts.iter().map(|part| part.length).sum();
            if wanted != length {
                return Err(Error::new(ErrorKind::Corrupt, format!("{length} bytes received, {wanted} requested")));
            }
            found.length = found.length.max(known);
            for part in parts {
                let mut at = part.at;
                for (length, is_there) in self.runs_below(part, known) {
                    if is_there {
                        channel.body_into(length, &mut out[at..at + length])?;
                    } else {
                        channel.body(length)?;
                        found.missing.push(at..at + length);
                    }
                    at += length;
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The runs of a part, and whether they lie below an offset of the file.
    fn runs_below(&self, part: &Part, end: u64) -> Vec<(usize, bool)> {
        let (start, length) = (part.start, part.length as u64);
        let mut runs = Vec::new();
        let mut split = |length: u64, there: u64| {
            let there = there.min(length);
            runs.extend(
                [(there as usize, true), ((length - there) as usize, false)].into_iter().filter(|run| run.0 > 0),
            );
        };
        match self.view {
            None => split(length, end.saturating_sub(start)),
            Some(view) if view.is_rising() => split(length, viewed::bytes_before(view, start..start + length, end)),
            Some(view) => view
                .extents(start..start + length)
                .for_each(|extent| split(extent.length, end.saturating_sub(extent.offset))),
        }
        runs
    }
}

/// Result of a read.
#[derive(Debug, Default)]
pub struct Found {
    /// The greatest length of the file that a server knew.
    pub length: u64,
    /// Runs of the caller's buffer whose servers do not have the bytes: holes, or behind the end of the file.
    pub missing: Vec<Range<usize>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::striping::Striping;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn units_hold_each_byte_once_in_order_and_none_is_too_long(
            stripe in 1u64..50, servers in 1u32..6, start in 0u64..100, length in 0u64..500, unit in 1usize..80,
        ) {
            let striping = Striping::new(stripe, servers).unwrap();
            let units = units(striping.packets(start..start + length), servers, unit);
            let mut seen = vec![0; length as usize];
            for (server, units) in units.iter().enumerate() {
                for (n, parts) in units.iter().enumerate() {
                    let bytes: usize = parts.iter().map(|part| part.length).sum();
                    prop_assert!(bytes <= unit && bytes > 0);
                    prop_assert!(n + 1 == units.len() || bytes == unit, "only the last one is short");
                    for part in parts {
                        for n in 0..part.length {
                            prop_assert_eq!(striping.server_of(part.start + n as u64), server as u32);
                            prop_assert_eq!(part.start + n as u64, start + (part.at + n) as u64);
                            seen[part.at + n] += 1;
                        }
                    }
                }
            }
            prop_assert!(seen.iter().all(|count| *count == 1));
        }
    }
}
