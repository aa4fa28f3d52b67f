//! Files as `adios_read.h` presents them, without pointers: `calls` converts the results to structures of C.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`ReadFile`] | an open file or stream: where it is, which names it shows |
//! | [`options`] | settings of `adios_read_init_method`, for files opened later |
//! | [`info`] | a variable, its steps, blocks and statistics |
//! | [`scheduled_read`] | a program's scheduled read, and how it is carried out |
//! | [`mesh`] | meshes and links, gathered from attributes |
//!
//! A variable's steps are its own: number 0 is the first step in which it was written. A stream shows its current step
//! alone, and the variables written in it.

pub mod info;
pub mod mesh;
pub mod options;
pub mod scheduled_read;
mod stream;

use crate::adios1::error::{Doing, Failure, Outcome, number};
use crate::collective::on_all_ranks;
use options::Options;
use scheduled_read::{ReadChunk, ScheduledRead};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stream::Stream;
use thalweg_comm::Communicator;
use thalweg_layout::Layout;
use thalweg_reader::Reader;
use thalweg_types::{Error, ErrorKind};

const OPENING: &str = "open the file";
const ADVANCING: &str = "continue with the next step";

/// An open file or stream.
pub struct ReadFile {
    source: Source,
    path: String,
    comm: Box<dyn Communicator>,
    options: Options,
    /// The order of dimensions that the program set.
    fortran: Option<bool>,
    /// Only the variables and attributes of this group are shown.
    group: Option<String>,
    /// Number in the file (heads of the reader) of each variable that is shown.
    variables: Vec<usize>,
    /// Place in `variables` by name.
    places: HashMap<String, usize>,
    attributes: Vec<usize>,
    /// Noted down by `adios_schedule_read`.
    scheduled: Vec<ScheduledRead>,
    /// For `adios_check_reads`.
    pieces: VecDeque<ReadChunk>,
}

enum Source {
    File(Reader),
    Stream(Stream),
}

/// The variables and attributes that are shown, as the fields of [`ReadFile`].
struct Shown {
    variables: Vec<usize>,
    places: HashMap<String, usize>,
    attributes: Vec<usize>,
}

/// Result of advancing a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// It is at a new step.
    Step,
    /// Nothing new within the time given.
    NotYet,
    /// No step will come.
    End,
    /// No further step, because the writer ended without closing the file.
    WriterDied,
}

/// Gives the layout that a file is opened in.
pub(crate) type Layouts<'a> = &'a dyn Fn() -> thalweg_types::Result<Arc<dyn Layout>>;

fn layout() -> thalweg_types::Result<Arc<dyn Layout>> {
    thalweg_io::mounts::layout()
}

/// How long a program waits: a negative number waits for ever.
fn seconds(timeout: f32) -> Option<Duration> {
    if timeout.is_nan() {
        return Some(Duration::ZERO);
    }
    // More than a duration holds is for ever, too.
    if timeout < 0.0 { None } else { Duration::try_from_secs_f32(timeout).ok() }
}

impl ReadFile {
    /// Collective over `comm`: opens a file with all its steps.
    ///
    /// - `path`: or the error of this rank's arguments, which is then reported on the other ranks.
    ///
    /// # Errors
    /// The same number on all ranks.
    pub fn open(path: Outcome<&str>, comm: Box<dyn Communicator>) -> Outcome<ReadFile> {
        ReadFile::open_in(&layout, path, comm)
    }

    /// [`ReadFile::open`] in a layout.
    pub(crate) fn open_in(layout: Layouts<'_>, path: Outcome<&str>, comm: Box<dyn Communicator>) -> Outcome<ReadFile> {
        let path = agreed(&*comm, path)?;
        let open = || Ok(options::now().of(Reader::open(layout()?, path)?));
        let reader = on_all_ranks(&*comm, OPENING, open).map_err(|e| Doing::OpenToRead.failed(e))?;
        ReadFile::new(Source::File(reader), path, comm)
    }

    /// Collective over `comm`: opens a stream at its first step, waiting up to `timeout` seconds for it.
    ///
    /// # Errors
    /// As [`ReadFile::open`]; `err_end_of_stream` where it ended without a step.
    pub fn stream(path: Outcome<&str>, comm: Box<dyn Communicator>, timeout: f32) -> Outcome<ReadFile> {
        ReadFile::stream_in(&layout, path, comm, timeout)
    }

    /// [`ReadFile::stream`] in a layout.
    pub(crate) fn stream_in(
        layout: Layouts<'_>,
        path: Outcome<&str>,
        comm: Box<dyn Communicator>,
        timeout: f32,
    ) -> Outcome<ReadFile> {
        let path = agreed(&*comm, path)?;
        let stream = Stream::open(layout, path, &*comm, seconds(timeout))?;
        ReadFile::new(Source::Stream(stream), path, comm)
    }

    fn new(source: Source, path: &str, comm: Box<dyn Communicator>) -> Outcome<ReadFile> {
        let mut file = ReadFile {
            source,
            path: path.to_string(),
            comm,
            options: options::now(),
            fortran: None,
            group: None,
            variables: Vec::new(),
            places: HashMap::new(),
            attributes: Vec::new(),
            scheduled: Vec::new(),
            pieces: VecDeque::new(),
        };
        file.show_everywhere(OPENING, Doing::OpenToRead)?;
        Ok(file)
    }

    /// The present reader; a stream has a new one after each step.
    pub fn reader(&self) -> &Reader {
        match &self.source {
            Source::File(reader) => reader,
            Source::Stream(stream) => stream.reader(),
        }
    }

    /// As it was given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The ranks that opened it.
    pub fn comm(&self) -> &dyn Communicator {
        &*self.comm
    }

    /// Whether it is a stream.
    pub fn is_stream(&self) -> bool {
        matches!(self.source, Source::Stream(_))
    }

    /// The step of the file that a stream is at; `None` for a file, which shows all.
    pub fn current_step(&self) -> Option<u64> {
        match &self.source {
            Source::File(_) => None,
            Source::Stream(stream) => Some(stream.step()),
        }
    }

    /// The newest step that is known.
    pub fn last_step(&self) -> u64 {
        match &self.source {
            Source::File(reader) => reader.status().steps.saturating_sub(1),
            Source::Stream(stream) => stream.last(),
        }
    }

    /// Collective: advances a stream to the next step, or to the newest. Scheduled reads are dropped.
    ///
    /// # Errors
    /// A file that became unreadable. A file that is no stream has no other step: [`Advance::End`].
    pub fn advance(&mut self, to_last: bool, timeout: f32) -> Outcome<Advance> {
        let Source::Stream(stream) = &mut self.source else { return Ok(Advance::End) };
        let outcome = stream.advance(to_last, &*self.comm, seconds(timeout))?;
        if outcome == Advance::Step {
            self.scheduled.clear();
            self.pieces.clear();
            if let Some(fortran) = self.fortran {
                self.reader().assume_fortran(fortran);
            }
            self.show_everywhere(ADVANCING, Doing::Read)?;
        }
        Ok(outcome)
    }

    /// Collective: sets the names that are shown.
    fn show_everywhere(&mut self, doing: &str, call: Doing) -> Outcome<()> {
        let shown = on_all_ranks(&*self.comm, doing, || Ok(self.names_shown())).map_err(|e| call.failed(e))?;
        self.show(shown);
        Ok(())
    }

    fn show(&mut self, shown: Shown) {
        (self.variables, self.places, self.attributes) = (shown.variables, shown.places, shown.attributes);
    }

    /// The names of the group in view, and for a stream of its step.
    fn names_shown(&self) -> Shown {
        let reader = self.reader().clone();
        let step = self.current_step();
        let of_group = |group: &str| self.group.as_deref().is_none_or(|g| g == group);
        let mut variables = Vec::new();
        for (i, head) in reader.variables().iter().enumerate() {
            let there = match step {
                // Variables that this library cannot read (a type of another version) are shown in files, and fail when used.
                Some(step) => reader.is_written(&head.name, step).unwrap_or(false),
                None => true,
            };
            if there && of_group(&head.group) {
                variables.push(i);
            }
        }
        let hidden = |name: &str| !self.options.show_hidden && name.starts_with("/__adios__");
        let attributes = reader.attributes().iter().enumerate();
        let attributes = attributes.filter(|(_, head)| of_group(&head.group) && !hidden(&head.name));
        let attributes = attributes.map(|(i, _)| i).collect();
        let places = variables.iter().enumerate().map(|(p, i)| (reader.variables()[*i].name.clone(), p)).collect();
        Shown { variables, places, attributes }
    }

    /// The names of variables that are shown, in the order of the file.
    pub fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|i| self.reader().variables()[*i].name.as_str())
    }

    /// The names of attributes that are shown.
    pub fn attribute_names(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().map(|i| self.reader().attributes()[*i].name.as_str())
    }

    /// The names of groups.
    pub fn groups(&self) -> &[String] {
        &self.reader().status().groups
    }

    /// Shows the variables and attributes of one group, or of all.
    ///
    /// # Errors
    /// `err_invalid_group`.
    pub fn view_group(&mut self, group: Option<usize>) -> Outcome<()> {
        let name = match group {
            None => None,
            Some(g) => {
                let groups = self.groups();
                let none = || Failure::new(number::INVALID_GROUP, format!("group {g} of {}", groups.len()));
                Some(groups.get(g).ok_or_else(none)?.clone())
            }
        };
        self.group = name;
        self.show(self.names_shown());
        Ok(())
    }

    /// The place of a variable among those shown. The slash in front may be left out or added.
    ///
    /// # Errors
    /// `err_invalid_varname`.
    pub fn find_variable(&self, name: &str) -> Outcome<usize> {
        let other = || match name.strip_prefix('/') {
            Some(short) => self.places.get(short),
            None => self.places.get(&format!("/{name}")),
        };
        self.places.get(name).or_else(other).copied().ok_or_else(|| {
            let what = match self.current_step() {
                Some(_) if self.reader().variables().iter().any(|h| h.name == name) => "not written in this step",
                _ => "no variable of that name",
            };
            Doing::Read.failed(self.place(Error::new(ErrorKind::NotFound, what).in_variable(name)))
        })
    }

    /// The full name of the variable at a place.
    ///
    /// # Errors
    /// `err_invalid_varid`.
    pub fn variable_name(&self, place: i32) -> Outcome<&str> {
        let number = usize::try_from(place).ok().and_then(|p| self.variables.get(p));
        let none = || {
            let text = format!("variable {place} of {}: {} are shown", self.path, self.variables.len());
            Failure::new(number::INVALID_VARID, text)
        };
        number.map(|i| self.reader().variables()[*i].name.as_str()).ok_or_else(none)
    }

    /// The place of an attribute among those shown.
    ///
    /// # Errors
    /// `err_invalid_attrname`.
    pub fn find_attribute(&self, name: &str) -> Outcome<usize> {
        let short = |n: &str| n.strip_prefix('/').unwrap_or(n).to_string();
        let wanted = short(name);
        let exact = self.attribute_names().position(|n| n == name);
        exact.or_else(|| self.attribute_names().position(|n| short(n) == wanted)).ok_or_else(|| {
            let text = format!("{}: no attribute \"{name}\"", self.path);
            Failure::new(number::INVALID_ATTRNAME, text)
        })
    }

    /// The attribute at a place.
    ///
    /// # Errors
    /// `err_invalid_attrid`.
    pub fn attribute(&self, place: i32) -> Outcome<thalweg_reader::Attribute> {
        let number = usize::try_from(place).ok().and_then(|p| self.attributes.get(p));
        let number = number.ok_or_else(|| {
            let text = format!("attribute {place} of {}: {} are shown", self.path, self.attributes.len());
            Failure::new(number::INVALID_ATTRID, text)
        })?;
        let name = &self.reader().attributes()[*number].name;
        self.reader().attribute(name).map_err(|e| Doing::Attribute.failed(self.place(e)))
    }

    /// Whether dimensions of the file (of its first group) are fastest first.
    ///
    /// # Errors
    /// A damaged index.
    pub fn is_fortran(&self) -> Outcome<bool> {
        let group = self.groups().first().map_or("", String::as_str);
        self.reader().is_fortran(group).map_err(|e| Doing::Read.failed(self.place(e)))
    }

    /// Takes the program's word for the order of dimensions.
    ///
    /// # Errors
    /// A file that can no longer be opened.
    pub fn assume_fortran(&mut self, fortran: bool) -> Outcome<()> {
        if !self.reader().assume_fortran(fortran) {
            // Another answer was given before: a new reader has given none.
            match &mut self.source {
                Source::File(reader) => {
                    let opened = layout().and_then(|layout| Reader::open(layout, &self.path));
                    *reader = self.options.of(opened.map_err(|e| Doing::OpenToRead.failed(e))?);
                }
                Source::Stream(_) => {
                    let text = "the order of dimensions of a stream can be set only once";
                    return Err(Failure::new(number::OPERATION_NOT_SUPPORTED, text));
                }
            }
            self.reader().assume_fortran(fortran);
        }
        self.fortran = Some(fortran);
        Ok(())
    }

    fn place(&self, error: Error) -> Error {
        if error.place().object.is_some() { error } else { error.in_object(self.path.clone()) }
    }
}

/// Collective: continues if the arguments of every rank are valid.
fn agreed<T>(comm: &dyn Communicator, argument: Outcome<T>) -> Outcome<T> {
    let own = match &argument {
        Ok(_) => Ok(()),
        Err(failure) => Err(Error::new(ErrorKind::InvalidArgument, failure.text.clone())),
    };
    let others = on_all_ranks(comm, OPENING, || own).map_err(|e| Doing::OpenToRead.failed(e));
    let argument = argument?;
    others.map(|_| argument)
}
