//! Common code for stream compression libraries: repeated calls with the remaining input and output.

use super::Done;
use crate::{corrupt, fields};
use thalweg_types::Result;

/// Progress after a call of the library.
pub struct StreamProgress {
    /// Bytes read in all calls so far.
    pub read: u64,
    /// Bytes written in all calls so far.
    pub written: u64,
    /// Whether the stream has ended.
    pub ended: bool,
}

/// Calls until the stream ends or makes no progress; with `room`, also until `to` is full.
fn run(
    from: &[u8],
    to: &mut [u8],
    room: bool,
    mut call: impl FnMut(&[u8], &mut [u8]) -> Result<StreamProgress>,
) -> Result<(usize, bool)> {
    let (mut read, mut written) = (0, 0);
    loop {
        // bzip2 must not be called without space for output.
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

/// Decodes `payload` into `out`.
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

/// Encodes `bytes`; `None` if `out` is too short.
pub fn encode(
    bytes: &[u8],
    out: &mut [u8],
    call: impl FnMut(&[u8], &mut [u8]) -> Result<StreamProgress>,
) -> Result<Option<Done>> {
    let (length, ended) = run(bytes, out, true, call)?;
    let metadata = fields::size_and_flag(bytes.len() as u64, true);
    Ok(ended.then_some(Done { length, metadata }))
}
