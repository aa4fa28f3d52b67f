//! A stream: one rank follows the file, the others see the step that it sees.

use super::{Advance, OPENING, options};
use crate::error::{Doing, Failure, Outcome, number};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_comm::Communicator;
use thalweg_layout::Layout;
use thalweg_movement::parts::agreement::agree;
use thalweg_reader::Reader;
use thalweg_types::{Error, ErrorKind, Result};

pub struct Stream {
    layout: Arc<dyn Layout>,
    path: String,
    reader: Reader,
    step: u64,
}

impl Stream {
    pub fn open(
        layout: Arc<dyn Layout>,
        path: &str,
        comm: &dyn Communicator,
        timeout: Option<Duration>,
    ) -> Outcome<Stream> {
        let until = timeout.and_then(|t| Instant::now().checked_add(t));
        let poll = options::now().poll;
        let opened = loop {
            let opened = Reader::open(layout.clone(), path);
            let wait = match &opened {
                Ok(reader) => reader.status().steps == 0 && !reader.status().finished,
                Err(e) => matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Torn),
            };
            if !wait || until.is_some_and(|t| Instant::now() >= t) {
                break opened;
            }
            std::thread::sleep(poll);
        };
        let own = opened.as_ref().map(drop).map_err(|e| Error::new(e.kind(), e.what()));
        let agreed = agree(comm, own, OPENING, &[]);
        let reader = opened.map_err(|e| Doing::OpenToRead.failed(e))?;
        agreed.map_err(|e| Doing::OpenToRead.failed(e))?;
        if reader.status().steps == 0 {
            return Err(Failure::new(number::END_OF_STREAM, format!("{path}: no step")));
        }
        Ok(Stream { layout, path: path.to_string(), reader, step: 0 })
    }

    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    pub fn step(&self) -> u64 {
        self.step
    }

    pub fn last(&self) -> u64 {
        self.reader.status().steps.saturating_sub(1)
    }

    pub fn advance(&mut self, to_last: bool, comm: &dyn Communicator, timeout: Option<Duration>) -> Outcome<Advance> {
        let found = if comm.rank() == 0 { self.look(to_last, timeout) } else { Ok((Advance::Step, 0)) };
        let (own, numbers) = match &found {
            Ok((what, step)) => (Ok(()), [if comm.rank() == 0 { *what as u64 } else { 0 }, *step]),
            Err(e) => (Err(Error::new(e.kind(), e.what())), [0, 0]),
        };
        let agreed = agree(comm, own, "go on to the next step", &numbers);
        found.map_err(|e| Doing::Read.failed(e))?;
        let numbers = agreed.map_err(|e| Doing::Read.failed(e))?;
        let what = [Advance::Step, Advance::NotYet, Advance::End, Advance::WriterDied][numbers[0].min(3) as usize];
        if what == Advance::Step {
            if self.last() < numbers[1] {
                self.reader = Reader::open(self.layout.clone(), &self.path).map_err(|e| Doing::Read.failed(e))?;
            }
            self.step = numbers[1];
        }
        Ok(what)
    }

    fn look(&mut self, to_last: bool, timeout: Option<Duration>) -> Result<(Advance, u64)> {
        let until = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            if self.last() > self.step {
                return Ok((Advance::Step, if to_last { self.last() } else { self.step + 1 }));
            }
            if self.reader.status().finished {
                return Ok((Advance::End, 0));
            }
            let reader = Reader::open(self.layout.clone(), &self.path)?;
            let new = reader.status().steps > self.reader.status().steps || reader.status().finished;
            self.reader = reader;
            if new {
                continue;
            }
            if until.is_some_and(|t| Instant::now() >= t) {
                return Ok((Advance::NotYet, 0));
            }
            std::thread::sleep(options::now().poll);
        }
    }
}
