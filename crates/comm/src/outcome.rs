//! Agreement of all ranks on one outcome: if any rank failed, the lowest failing rank's error with its place and cause.

use crate::Communicator;
use crate::agreement::agree;
use thalweg_types::{Error, ErrorKind, Result};

/// A value, if there is one, and the error or success.
pub fn apart<T>(outcome: Result<T>) -> (Option<T>, Result<()>) {
    match outcome {
        Ok(value) => (Some(value), Ok(())),
        Err(e) => (None, Err(e)),
    }
}

/// Collective: agrees on one outcome: if any rank failed, the lowest failing rank's error with its place and cause; else the
/// maximum of each number over all ranks.
///
/// # Errors
/// The lowest failing rank's, on all ranks: failing ranks keep their own, the others get its kind, place and cause. `PeerLost` or
/// `Timeout` where a rank was lost.
/// # Cost
/// As [`agree`]; after a failure one more exchange.
pub fn agreed(comm: &dyn Communicator, own: Result<()>, doing: &str, numbers: &[u64]) -> Result<Vec<u64>> {
    if comm.size() == 1 {
        return own.map(|()| numbers.to_vec());
    }
    let told = own.as_ref().err().map(ErrorReport::of);
    let e = match agree(comm, own, doing, numbers) {
        Err(e) => e,
        agreed => return agreed,
    };
    if told.is_none() && e.reported_by().is_none() {
        // A rank was lost: no further exchange is possible.
        return Err(e);
    }
    // All ranks come here, because all know that a rank failed.
    let Ok(all) = comm.all_gather(&told.map_or_else(Vec::new, ErrorReport::encode)) else { return Err(e) };
    let Some((by, bytes)) = all.iter().enumerate().find(|(_, bytes)| !bytes.is_empty()) else { return Err(e) };
    if by as u32 == comm.rank() {
        return Err(e);
    }
    Err(ErrorReport::decode(bytes).map_or(e, |told| told.error(by as u32, comm.rank())))
}

/// A failure as it is sent to other ranks.
pub struct ErrorReport {
    kind: ErrorKind,
    byte: Option<u64>,
    what: String,
    variable: String,
    object: String,
    cause: String,
}

impl ErrorReport {
    /// What others need to know of a failure.
    pub fn of(e: &Error) -> ErrorReport {
        let mut causes = Vec::new();
        let mut source = std::error::Error::source(e);
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        ErrorReport {
            kind: e.kind(),
            byte: e.place().byte,
            what: e.what().to_string(),
            variable: e.place().variable.clone().unwrap_or_default(),
            object: e.place().object.clone().unwrap_or_default(),
            cause: causes.join(": "),
        }
    }

    /// Encoding: kind; byte offset, the highest value for none; length and bytes of text, variable, object and cause.
    pub fn encode(self) -> Vec<u8> {
        let mut out = vec![self.kind.code()];
        out.extend_from_slice(&self.byte.unwrap_or(u64::MAX).to_le_bytes());
        for text in [self.what, self.variable, self.object, self.cause] {
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }

    /// The report that [`ErrorReport::encode`] encoded; `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<ErrorReport> {
        let (kind, mut rest) = bytes.split_first()?;
        let mut number = || {
            let (head, tail) = rest.split_first_chunk::<8>()?;
            rest = tail;
            Some(u64::from_le_bytes(*head))
        };
        let byte = number()?;
        let mut texts: [String; 4] = Default::default();
        for text in &mut texts {
            let (head, tail) = rest.split_first_chunk::<8>()?;
            let (words, tail) = tail.split_at_checked(usize::try_from(u64::from_le_bytes(*head)).ok()?)?;
            (*text, rest) = (String::from_utf8_lossy(words).into_owned(), tail);
        }
        let [what, variable, object, cause] = texts;
        Some(ErrorReport {
            kind: ErrorKind::from_code(*kind),
            byte: Some(byte).filter(|b| *b != u64::MAX),
            what,
            variable,
            object,
            cause,
        })
    }

    /// The failure as another rank reports it.
    ///
    /// - `by`: the rank that failed; `rank`: this one.
    pub fn error(self, by: u32, rank: u32) -> Error {
        let error =
            if by == rank { Error::new(self.kind, self.what) } else { Error::reported(self.kind, by, self.what) };
        let mut error = error.at_rank(rank);
        if !self.variable.is_empty() {
            error = error.in_variable(self.variable);
        }
        if !self.object.is_empty() {
            error = error.in_object(self.object);
        }
        if let Some(byte) = self.byte {
            error = error.at_byte(byte);
        }
        match self.cause.is_empty() {
            true => error,
            false => error.caused_by(std::io::Error::other(self.cause)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    #[test]
    fn all_ranks_hear_the_place_and_the_cause() {
        let outcomes = threads::run(3, |comm| {
            let full = || Error::io("cannot write", std::io::Error::other("no space"));
            let own = match comm.rank() {
                1 => Err(full().in_variable("u").in_object("x.bp").at_byte(7)),
                _ => Ok(()),
            };
            agreed(&comm, own, "write", &[])
        });
        for e in outcomes.into_iter().map(Result::unwrap_err) {
            let place = e.place();
            assert_eq!(
                (place.variable.as_deref(), place.object.as_deref(), place.byte),
                (Some("u"), Some("x.bp"), Some(7))
            );
            assert!(e.to_string().contains("no space"), "{e}");
        }
    }
}
