//! What the libraries that work on streams have in common: called until they are done, with what is left of both sides.

use super::Done;
use crate::{corrupt, fields};
use thalweg_types::Result;

/// What a call of the library did.
pub struct StreamProgress {
    /// Bytes it took in all calls so far.
    pub read: u64,
    /// Bytes it gave in all calls so far.
    pub written: u64,
    /// Whether the stream has ended.
    pub ended: bool,
}

/// Calls until the stream ends, or nothing moves any more; where `room` is to be left, until `to` is full.
fn run(
    from: &[u8],
    to: &mut [u8],
    room: bool,
    mut call: impl FnMut(&[u8], &mut [u8]) -> Result<StreamProgress>,
) -> Result<(usize, bool)> {
    let (mut read, mut written) = (0, 0);
    loop {
        // bzip2 takes no call without room for what it gives.
        if room && written == to.len() {
            return Ok((written, false));
        }
        let done = call(&from[read..], &mut to[written..])?;
        let same = (done.read as usize, done.written as usize) == (read, written);
        (read, written) = (done.read as usize, done.written as usize);
        if done.ended || same {
            return Ok((written, done.ended));
        }
    }
}

/// Fills `out` from `payload`.
///
/// # Errors
/// `Corrupt` where the stream has another length, or does not end.
pub fn decode(
    name: &str,
    payload: &[u8],
    out: &mut [u8],
    call: impl FnMut(&[u8], &mut [u8]) -> Result<StreamProgress>,
) -> Result<()> {
    let (written, ended) = run(payload, out, false, call)?;
    if ended && written == out.len() {
        return Ok(());
    }
    Err(corrupt(format!("{name} gives {written} bytes of a block of {}", out.len())))
}

/// Encodes all of `bytes`; `None` where `out` is too short for it.
pub fn encode(
    bytes: &[u8],
    out: &mut [u8],
    call: impl FnMut(&[u8], &mut [u8]) -> Result<StreamProgress>,
) -> Result<Option<Done>> {
    let (length, ended) = run(bytes, out, true, call)?;
    let metadata = fields::size_and_flag(bytes.len() as u64, true);
    Ok(ended.then_some(Done { length, metadata }))
}
