//! An open file: an output, or a group being read back.

use crate::error::{Doing, Failure, Outcome, number};
use crate::process::{SharedGroup, lock};
use std::sync::Arc;
use thalweg_io::{Input, Output, Session};
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
    bytes: Vec<u8>,
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

    /// The name of the variable at a position in the group.
    ///
    /// # Errors
    /// `err_invalid_varid`.
    pub fn name_at(&self, position: usize) -> Outcome<String> {
        let group = lock(self.group());
        let variable = group.builder.group().variables.get(position);
        variable.map(Variable::full_name).ok_or_else(|| Failure::new(number::INVALID_VARID, "no such variable"))
    }

    /// Collective: commits an output. A file being read is just closed.
    ///
    /// # Errors
    /// On all ranks the same number, unless only some lent memory that no longer fits its variable.
    pub fn close(self) -> Outcome<()> {
        match self {
            File::Input(_) => Ok(()),
            File::Output(writing) => writing.close(),
        }
    }
}

impl Reading {
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
        let group = lock(&self.group);
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

    /// The position of a variable that a program names.
    ///
    /// # Errors
    /// `err_invalid_varname`.
    pub fn position(&mut self, name: &str) -> Outcome<usize> {
        self.output.position(name).map_err(|e| Doing::Write.failed(e))
    }

    /// How many bytes a write of this variable takes now.
    ///
    /// # Errors
    /// A dimension that was not written yet.
    pub fn length(&self, position: usize) -> Outcome<Length> {
        let bytes = self.output.expected_bytes_of(position).map_err(|e| Doing::Write.failed(e))?;
        Ok(bytes.map_or(Length::Text, Length::Bytes))
    }

    /// Writes a variable. `data` is kept until close only where the group promises that it stays unchanged.
    ///
    /// # Errors
    /// See [`Output::write`].
    pub fn write(&mut self, position: usize, data: &'static [u8]) -> Outcome<()> {
        match self.output.may_defer_at(position) {
            Ok(true) => self.output.write_deferred_at(position, data),
            Ok(false) => self.output.write_at(position, data),
            Err(e) => Err(e),
        }
        .map_err(|e| Doing::Write.failed(e))
    }

    /// Writes a variable from memory that goes away after the call.
    ///
    /// # Errors
    /// See [`Output::write`].
    pub fn write_now(&mut self, position: usize, data: &[u8]) -> Outcome<()> {
        self.output.write_at(position, data).map_err(|e| Doing::Write.failed(e))
    }

    /// Memory for a variable, all zero, that the program fills and close writes. It counts against the buffer limit.
    ///
    /// # Errors
    /// `err_no_memory` where the limit does not allow it; `err_operation_not_supported` for text.
    pub fn lend(&mut self, position: usize) -> Outcome<&mut [u8]> {
        let Length::Bytes(bytes) = self.length(position)? else {
            return Err(Failure::new(number::OPERATION_NOT_SUPPORTED, "a text has no size before it is written"));
        };
        let pool = self.session.buffer();
        let too_much = || {
            let limit = pool.limit().map_or("memory".into(), |l| format!("the buffer of {l} bytes"));
            Failure::new(number::NO_MEMORY, format!("{bytes} bytes more do not fit {limit}; adios_write works"))
        };
        let mut chunk = pool.take(bytes, bytes).ok_or_else(too_much)?;
        // Within the capacity, so nothing is allocated.
        chunk.resize(usize::try_from(bytes).map_err(|_| too_much())?, 0);
        self.lent.push(Lent { position, bytes: chunk });
        Ok(self.lent.last_mut().map_or(&mut [], |lent| &mut lent.bytes))
    }

    fn close(self) -> Outcome<()> {
        let Writing { output, lent, group: _, session } = self;
        let mut outcome = Ok(());
        // From here on it borrows what was lent.
        let mut output: Output<'_> = output;
        for Lent { position, bytes } in &lent {
            outcome = outcome.and(output.write_deferred_at(*position, bytes).map_err(|e| Doing::Write.failed(e)));
        }
        let closed = output.close().map_err(|e| Doing::Close.failed(e));
        for Lent { bytes, .. } in lent {
            session.buffer().give(bytes);
        }
        closed.and(outcome)
    }
}
