//! Declares the groups of the copy as they come, and writes its steps.

use crate::copy::LeftOut;
use crate::events::{Event, Form, InStep, Opening, Values};
use crate::services;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use thalweg_comm::alone::Alone;
use thalweg_io::session::SharedGroup;
use thalweg_io::{BlockBox, Mode, Output, Session, WriteRequest};
use thalweg_layout::Layout;
use thalweg_reader::Attribute;
use thalweg_reader::variable::Kind;
use thalweg_schema::{Group, GroupBuilder, HostLanguage, Schema};
use thalweg_types::{AttributeValue, ElementType, Error, ErrorKind, Result, Value};

/// The target of a copy.
pub struct Target {
    session: Session,
    path: String,
    method: String,
    parameters: String,
    groups: HashMap<String, Declared>,
    /// Something is written already: later outputs are appended.
    exists: bool,
    /// Groups whose services are on record.
    documented: HashSet<String>,
    /// Step and service of each mark of a step without a service.
    marked: HashSet<(u64, usize)>,
    /// What was refused by name, each once.
    pub left_out: Vec<LeftOut>,
    /// Outputs written.
    pub outputs: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Bytes of values written.
    pub bytes: u64,
}

/// A group of the copy.
struct Declared {
    group: SharedGroup,
    /// Positions of each variable: scalars and texts have as many as they have had blocks in a step.
    variables: HashMap<String, Vec<usize>>,
}

/// An output being written.
pub struct Writing {
    output: Output<'static>,
    group: String,
    /// Blocks of each scalar so far.
    written: HashMap<String, usize>,
    fortran: bool,
    /// Blocks and bytes of the target before.
    before: (u64, u64),
}

impl Target {
    /// - `exists`: there are steps already, behind which others are appended.
    ///
    /// # Errors
    /// `Config` for an unknown method or parameter.
    pub fn new(
        layout: Arc<dyn Layout>,
        path: &str,
        (method, parameters): (&str, &str),
        memory: u64,
        exists: bool,
    ) -> Result<Target> {
        let session = Session::with_layout(Schema::default(), layout, Box::new(Alone::new()))?;
        session.set_buffer_limit(Some(memory));
        Ok(Target {
            session,
            path: path.to_string(),
            method: method.to_string(),
            parameters: parameters.to_string(),
            groups: HashMap::new(),
            exists,
            documented: HashSet::new(),
            marked: HashSet::new(),
            left_out: Vec::new(),
            outputs: 0,
            blocks: 0,
            bytes: 0,
        })
    }

    /// Writes what comes, until nothing more can come or one of the two ends fails.
    ///
    /// - `progress`: is told the bytes of values written so far.
    ///
    /// # Errors
    /// The one that comes, or that of a write, with its step.
    pub fn take(&mut self, events: &Receiver<Result<Event>>, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut writing: Option<Writing> = None;
        while let Ok(event) = events.recv() {
            match (event?, &mut writing) {
                (Event::Open(opening), None) => {
                    writing = Some(self.open(&opening).map_err(|e| e.at_step(opening.step))?);
                }
                (Event::Blocks(blocks), Some(open)) => {
                    self.write(open, blocks)?;
                    progress(self.bytes);
                }
                (Event::Drop, Some(_)) => {
                    if let Some(open) = writing.take() {
                        self.drop_output(open)?;
                    }
                }
                (Event::Close, Some(_)) => {
                    if let Some(open) = writing.take() {
                        self.close(open)?;
                    }
                }
                _ => return Err(Error::new(ErrorKind::InvalidArgument, "blocks outside of an output")),
            }
        }
        Ok(())
    }

    /// Begins an output.
    ///
    /// # Errors
    /// As [`Session::open`]; `Config` for variables that cannot be declared as they are.
    pub fn open(&mut self, opening: &Opening) -> Result<Writing> {
        let form = &opening.group;
        if !self.groups.contains_key(&form.name) {
            let mut builder = GroupBuilder::from_group(Group { name: form.name.clone(), ..Group::default() });
            builder.set_time_index(&form.time_name)?;
            builder.select_method(&self.method, &self.parameters, "")?;
            let group = self.session.declare(builder)?;
            self.groups.insert(form.name.clone(), Declared { group, variables: HashMap::new() });
        }
        let declared = self.groups.get_mut(&form.name).ok_or_else(|| Error::new(ErrorKind::Config, "no group"))?;
        {
            let builder = &mut declared.group.lock().builder;
            for InStep { form, blocks, .. } in &opening.variables {
                let positions = declared.variables.entry(form.full.clone()).or_default();
                let wanted = if form.kind == Kind::Scalar { (*blocks).max(1) as usize } else { 1 };
                while positions.len() < wanted {
                    positions.push(declare(builder, form).map_err(|e| e.in_variable(form.full.clone()))?);
                }
            }
            if let Some(document) = &opening.document
                && self.documented.insert(form.name.clone())
            {
                let value = vec![Value::String(document.clone().into_bytes())];
                builder.define_attribute_values(services::DOCUMENT, services::PATH, ElementType::String, value)?;
            }
            // A step that is written again has some of them already.
            for mark in &opening.unprocessed {
                let (name, value) =
                    (format!("{}.{}", mark.step, mark.service), Value::String(mark.why.clone().into_bytes()));
                if self.marked.insert((mark.step, mark.service)) {
                    builder.define_attribute_values(&name, services::PATH, ElementType::String, vec![value])?;
                }
            }
            for attribute in opening.attributes.iter().flatten() {
                if let Err(e) = define(builder, attribute) {
                    self.left_out.push(LeftOut { name: attribute.name.clone(), why: e.what().to_string() });
                }
            }
        }
        self.session.set_host_language(if form.fortran { HostLanguage::Fortran } else { HostLanguage::C });
        let mode = if self.exists { Mode::Append } else { Mode::Write };
        let output = self.session.open(&form.name, &self.path, mode, Box::new(Alone::new()))?;
        let before = (self.blocks, self.bytes);
        Ok(Writing { output, group: form.name.clone(), written: HashMap::new(), fortran: form.fortran, before })
    }

    /// Writes blocks of an output.
    ///
    /// # Errors
    /// As [`Output::put`].
    pub fn write(&mut self, writing: &mut Writing, blocks: Vec<Values>) -> Result<()> {
        for Values { form, place, bytes, .. } in blocks {
            let declared = self.groups.get(&writing.group).and_then(|group| group.variables.get(&form.full));
            let positions = declared.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such variable was declared"))?;
            self.blocks += 1;
            self.bytes += bytes.len() as u64;
            let Some(place) = place else {
                let number = writing.written.entry(form.full.clone()).or_insert(0);
                let position = positions[(*number).min(positions.len() - 1)];
                *number += 1;
                writing.output.put(WriteRequest::new(position, &bytes))?;
                continue;
            };
            let ordered = |mut dimensions: Vec<u64>| {
                if writing.fortran {
                    dimensions.reverse();
                }
                dimensions
            };
            let is_local = form.kind == Kind::Local;
            let block = BlockBox {
                count: ordered(place.count),
                shape: (!is_local).then(|| ordered(place.shape)),
                offset: (!is_local).then(|| ordered(place.offset)),
            };
            writing.output.commit(positions[0], Some(block), bytes)?;
        }
        Ok(())
    }

    /// Commits an output.
    ///
    /// # Errors
    /// As [`Output::close`]; the steps before stay.
    pub fn close(&mut self, writing: Writing) -> Result<()> {
        writing.output.close()?;
        self.exists = true;
        self.outputs += 1;
        Ok(())
    }

    /// Gives an output up: the step is not written.
    ///
    /// # Errors
    /// Those of [`Output::close`], but for the one that it is given.
    pub fn drop_output(&mut self, mut writing: Writing) -> Result<()> {
        let cause = "a service failed, and the step is written again without it";
        writing.output.fail(Error::new(ErrorKind::NotReady, cause));
        (self.blocks, self.bytes) = writing.before;
        // Of a method that ends outputs later, it is waited for: the next open would tell of it.
        match writing.output.start_close().wait() {
            Err(e) if e.kind() != ErrorKind::NotReady => Err(e),
            _ => Ok(()),
        }
    }

    /// Ends the file for good: readers that follow it know that no step will come.
    ///
    /// # Errors
    /// As [`Session::finalize`].
    pub fn finish(&self) -> Result<()> {
        self.session.finalize()
    }

    /// Ends the file after a failure: its steps are indexed, and others may follow.
    ///
    /// # Errors
    /// As [`Session::leave`].
    pub fn leave(&self) -> Result<()> {
        self.session.leave()
    }
}

/// Declares a variable whose blocks all come with a box.
fn declare(builder: &mut GroupBuilder, form: &Form) -> Result<usize> {
    let zeros = vec!["0"; form.dimensions].join(",");
    let (local, global) = match form.kind {
        Kind::Scalar => ("", ""),
        Kind::Local => (zeros.as_str(), ""),
        Kind::Global | Kind::LocalValue => (zeros.as_str(), zeros.as_str()),
    };
    let position = builder.define_variable(&form.name, &form.path, form.element, local, global, global)?;
    if let Some(variable) = builder.variable_mut(position) {
        variable.statistics = Some(form.statistics);
        variable.needs_box = form.kind != Kind::Scalar;
    }
    builder.set_transform(position, &form.transform)?;
    Ok(position)
}

/// Defines an attribute: with a reference to its variable, if that is copied as it is.
fn define(builder: &mut GroupBuilder, attribute: &Attribute) -> Result<()> {
    if let Some(variable) = &attribute.variable
        && builder.group().variables.iter().any(|v| v.full_name() == *variable && v.element == attribute.element)
        && builder.define_attribute_from(&attribute.short_name, &attribute.path, variable).is_ok()
    {
        return Ok(());
    }
    let (element, values) = match &attribute.value {
        AttributeValue::One(value) => (attribute.element, vec![value.clone()]),
        AttributeValue::Many(ElementType::String, values) => (ElementType::StringArray, values.clone()),
        AttributeValue::Many(element, values) => (*element, values.clone()),
        AttributeValue::Variable(_) => {
            return Err(Error::new(ErrorKind::Unsupported, "it refers to a variable that is not there"));
        }
    };
    builder.define_attribute_values(&attribute.short_name, &attribute.path, element, values)
}
