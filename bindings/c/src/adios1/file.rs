//! An open file: an output, or a group being read back.

use crate::adios1::error::{Doing, Failure, Outcome, number};
use std::sync::Arc;
use thalweg_io::session::SharedGroup;
use thalweg_io::{BlockMemory, Input, Output, PendingOutput, Resolved, Session, Values, VariableKey};
use thalweg_schema::Variable;
use thalweg_types::{ElementType, Error, ErrorKind};

/// See the module's page.
pub enum File {
    /// A step being written.
    Output(Box<Writing>),
    /// The last step of a file, read variable by variable.
    Input(Box<Reading>),
}

/// A file opened with `r`.
pub struct Reading {
    /// The open file.
    pub input: Input,
    group: SharedGroup,
}

/// A file opened with `w`, `a` or `u`.
pub struct Writing {
    output: Output<'static>,
    lent: Vec<Lent>,
    group: SharedGroup,
    session: Arc<Session>,
}

/// Memory of the process's buffer that the program fills until close.
struct Lent {
    position: usize,
    memory: BlockMemory,
}

/// How many bytes the memory of a variable has.
pub enum Length {
    /// So many.
    Bytes(u64),
    /// Those before the zero that ends a text.
    Text,
}

impl File {
    /// A file opened to read.
    pub fn reading(input: Input, group: SharedGroup) -> File {
        File::Input(Box::new(Reading { input, group }))
    }

    /// A file opened to write.
    pub fn writing(output: Output<'static>, group: SharedGroup, session: Arc<Session>) -> File {
        File::Output(Box::new(Writing { output, lent: Vec::new(), group, session }))
    }

    /// Its group.
    pub fn group(&self) -> &SharedGroup {
        match self {
            File::Output(w) => &w.group,
            File::Input(r) => &r.group,
        }
    }

    /// The output.
    ///
    /// # Errors
    /// `err_invalid_file_mode` where the file is being read.
    pub fn output(&mut self) -> Outcome<&mut Writing> {
        match self {
            File::Output(w) => Ok(w),
            File::Input(_) => Err(Failure::new(number::INVALID_FILE_MODE, "the file was opened to read")),
        }
    }

    /// The file being read.
    ///
    /// # Errors
    /// `err_invalid_file_mode` where it is being written.
    pub fn input(&mut self) -> Outcome<&mut Reading> {
        match self {
            File::Input(r) => Ok(r),
            File::Output(_) => Err(Failure::new(number::INVALID_FILE_MODE, "the file was opened to write")),
        }
    }

    /// Writes a variable; sets its value while a group is read back.
    ///
    /// - `may_stay`: the memory is the program's own, so that it is kept until close where the group promises that it stays
    ///   unchanged.
    /// - `memory`: the bytes, given how many the variable takes and its name.
    ///
    /// # Errors
    /// `err_invalid_varname`, `err_invalid_varid`; errors of `memory`; see [`Output::put`].
    pub fn put<'k>(
        &mut self,
        variable: impl Into<VariableKey<'k>>,
        may_stay: bool,
        memory: impl FnOnce(Length, &str) -> Outcome<&'static [u8]>,
    ) -> Outcome<()> {
        match self {
            File::Output(writing) => {
                let block = writing.resolve(variable.into())?;
                let data = memory(Length::of(&block)?, block.name())?;
                let stays = may_stay && block.may_defer();
                let values = if stays { Values::Deferred(data) } else { Values::Copied(data) };
                block.write(values).map_err(|e| Doing::Write.failed(e))
            }
            File::Input(reading) => {
                let name = match variable.into() {
                    VariableKey::Name(name) => name.to_string(),
                    VariableKey::Position(position) => reading.name_at(position)?,
                };
                let data = memory(reading.length_to_set(&name)?, &name)?;
                reading.input.set(&name, data).map_err(|e| Doing::Read.failed(e))
            }
        }
    }

    /// Collective: commits an output. A file being read is just closed.
    ///
    /// # Errors
    /// On all ranks the same number, unless only some lent memory that no longer fits its variable.
    pub fn close(self) -> Outcome<()> {
        match self {
            File::Input(_) => Ok(()),
            File::Output(writing) => {
                let (closed, lent) = writing.end(|output| output.close().map_err(|e| Doing::Close.failed(e)));
                closed.map(drop).and(lent)
            }
        }
    }

    /// Collective: closes an output that may end later.
    ///
    /// # Errors
    /// `err_invalid_argument` for a file that is read; lent memory that no longer fits its variable: the output then ends all the same.
    pub fn start_close(self) -> Outcome<PendingOutput> {
        match self {
            File::Input(_) => Err(Failure::argument("the file is open for reading")),
            File::Output(writing) => {
                let (pending, lent) = writing.end(|output| output.start_close());
                lent.map(|()| pending)
            }
        }
    }
}

impl Length {
    /// Of a resolved write.
    fn of(block: &Resolved<'_, '_, '_>) -> Outcome<Length> {
        let bytes = block.bytes().map_err(|e| Doing::Write.failed(e))?;
        Ok(bytes.map_or(Length::Text, Length::Bytes))
    }
}

impl Reading {
    /// The name of the variable at a position in the group.
    fn name_at(&self, position: usize) -> Outcome<String> {
        let group = self.group.lock();
        let variable = group.builder.group().variables.get(position);
        variable.map(Variable::full_name).ok_or_else(|| Failure::new(number::INVALID_VARID, "no such variable"))
    }

    /// How many bytes of memory set a variable's value, by its type.
    ///
    /// # Errors
    /// `err_invalid_varname`.
    pub fn length_to_set(&self, name: &str) -> Outcome<Length> {
        let element = self.element(name)?;
        Ok(if element.is_text() { Length::Text } else { Length::Bytes(element.size()) })
    }

    /// The type of a variable.
    ///
    /// # Errors
    /// `err_invalid_varname`.
    pub fn element(&self, name: &str) -> Outcome<ElementType> {
        let group = self.group.lock();
        let variables = &group.builder.group().variables;
        let full = variables.iter().find(|v| v.full_name() == name || v.full_name() == format!("/{name}"));
        let found = full.or_else(|| variables.iter().find(|v| v.name == name));
        found.map(|v| v.element).ok_or_else(|| {
            let error = Error::new(ErrorKind::NotFound, "the group has no such variable");
            Doing::Read.failed(error.in_variable(name).in_group(group.builder.group().name.clone()))
        })
    }
}

impl Writing {
    /// The output itself.
    pub fn output(&mut self) -> &mut Output<'static> {
        &mut self.output
    }

    /// Resolves a write of a variable.
    fn resolve(&mut self, variable: VariableKey<'_>) -> Outcome<Resolved<'_, 'static, 'static>> {
        self.output.resolve(variable, None, None).map_err(|e| Doing::Write.failed(e))
    }

    /// Memory for a variable, all zero, that the program fills and close writes. It counts against the buffer limit.
    ///
    /// # Errors
    /// `err_invalid_varname`; `err_no_memory` where the limit does not allow it; `err_operation_not_supported` for text.
    pub fn lend(&mut self, name: &str) -> Outcome<&mut [u8]> {
        let block = self.resolve(name.into())?;
        let Length::Bytes(bytes) = Length::of(&block)? else {
            return Err(Failure::new(number::OPERATION_NOT_SUPPORTED, "a text has no size before it is written"));
        };
        let position = block.position();
        let mut memory = self.session.buffer().block(bytes).ok_or_else(|| {
            let limit = self.session.buffer().limit();
            let limit = limit.map_or("memory".into(), |l| format!("the buffer of {l} bytes"));
            Failure::new(number::NO_MEMORY, format!("{bytes} bytes more do not fit {limit}; adios_write works"))
        })?;
        memory.fill(0);
        self.lent.push(Lent { position, memory });
        Ok(self.lent.last_mut().map_or(&mut [], |lent| &mut lent.memory))
    }

    /// Writes the lent memory, which is not copied, then ends the output by `end`. Also returns the outcome of the writes.
    fn end<T>(self, end: impl FnOnce(Output<'static>) -> T) -> (T, Outcome<()>) {
        let Writing { mut output, lent, .. } = self;
        let mut outcome = Ok(());
        for Lent { position, memory } in lent {
            let committed = output.resolve(position, None, None).and_then(|block| match block.bytes()? {
                Some(bytes) if bytes == memory.len() as u64 => block.commit(memory).map_err(|(e, _)| e),
                _ => {
                    let what = format!("{} bytes of memory were given, which no longer fit it", memory.len());
                    Err(Error::new(ErrorKind::InvalidArgument, what).in_variable(block.name()))
                }
            });
            outcome = outcome.and(committed.map_err(|e| Doing::Write.failed(e)));
        }
        (end(output), outcome)
    }
}
