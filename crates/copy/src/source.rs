//! Reads the chosen steps of a file, and hands them on a bounded number of bytes at a time.

use crate::copy::LeftOut;
use crate::events::{Event, Form, GroupForm, InStep, Opening, Values};
use crate::fetch;
use crate::services::{self, Pipeline, Stopped, Unprocessed};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use thalweg_choice::cast;
use thalweg_choice::choice::Choice;
use thalweg_choice::plan::{How, Part, parts};
use thalweg_reader::variable::Kind;
use thalweg_reader::{Attribute, Block, Reader};
use thalweg_schema::Statistics;
use thalweg_types::{ElementType, Error, ErrorKind, Result, Selection};

/// What is known of a variable of the source.
struct Known {
    form: Arc<Form>,
    group: String,
    kind: Kind,
    /// Its type in the source.
    element: ElementType,
}

/// A variable in a step, planned.
struct Planned {
    known: Arc<Known>,
    parts: Vec<Part>,
    /// Values of scalars and texts, which the index has, by number of their block.
    values: HashMap<u64, Vec<u8>>,
}

impl Planned {
    fn in_step(&self) -> InStep {
        let place = self.parts.first().and_then(|part| part.place.as_ref());
        let shape = place.map_or_else(Vec::new, |place| place.shape.clone());
        InStep { form: self.known.form.clone(), blocks: self.parts.len() as u64, shape, made: false }
    }
}

/// The source of a copy.
pub struct Source<'a> {
    choice: &'a Choice,
    services: Option<Pipeline>,
    /// Most bytes of values of one event.
    chunk: u64,
    known: HashMap<String, Option<Arc<Known>>>,
    groups: HashMap<String, Arc<GroupForm>>,
    /// Attributes of a group that were handed on: how many there were.
    attributes: HashMap<String, u64>,
    /// What has no place in the copy, each once.
    pub left_out: BTreeMap<String, String>,
}

impl<'a> Source<'a> {
    pub fn new(choice: &'a Choice, services: Option<Pipeline>, chunk: u64) -> Source<'a> {
        let (known, groups, attributes) = (HashMap::new(), HashMap::new(), HashMap::new());
        Source { choice, services, chunk: chunk.max(1), known, groups, attributes, left_out: BTreeMap::new() }
    }

    /// Patterns of services that fitted no variable.
    pub fn unknown(&self) -> Vec<String> {
        self.services.as_ref().map_or_else(Vec::new, Pipeline::unknown)
    }

    /// Names of the variables that services have made.
    pub fn made(&mut self) -> Vec<String> {
        self.services
            .as_mut()
            .map_or_else(Vec::new, |services| std::mem::take(&mut services.made).into_iter().collect())
    }

    /// The steps that passed without a service so far.
    pub fn unprocessed(&mut self) -> Vec<Unprocessed> {
        self.services.as_mut().map_or_else(Vec::new, |services| std::mem::take(&mut services.unprocessed))
    }

    /// What was left out so far.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.left_out.iter().map(|(name, why)| LeftOut { name: name.clone(), why: why.clone() }).collect()
    }

    fn leave_out(&mut self, name: &str, why: impl Into<String>) {
        self.left_out.entry(name.to_string()).or_insert_with(|| why.into());
    }

    /// Hands on an output, if the step has any of the variables.
    ///
    /// - `begins`: is told of the output first, and says whether its values are wanted.
    ///
    /// # Errors
    /// Those of reads, of plans and of casts, with variable and step; the first of `hand`.
    pub fn step(
        &mut self,
        reader: &Reader,
        step: u64,
        begins: &mut dyn FnMut(&Opening) -> Result<bool>,
        hand: &mut dyn FnMut(Event) -> Result<()>,
    ) -> Result<()> {
        let mut planned = Vec::new();
        let mut group: Option<String> = None;
        let names: Vec<String> =
            reader.variables().iter().map(|head| &head.name).filter(|name| self.choice.has(name)).cloned().collect();
        for name in names {
            if reader.block_count(&name, step)? == 0 {
                continue;
            }
            let Some(known) = self.known(reader, &name, step)? else { continue };
            if self.choice.group.as_ref().is_some_and(|group| *group != known.group) {
                continue;
            }
            match &group {
                Some(first) if *first != known.group => {
                    let what = format!(
                        "outputs of groups \"{first}\" and \"{}\" share a step, which a copy cannot: copy the variables of one \
                         group at a time",
                        known.group
                    );
                    return Err(Error::new(ErrorKind::Unsupported, what).at_step(step));
                }
                Some(_) => {}
                None => group = Some(known.group.clone()),
            }
            planned.push(self.plan(reader, known, step).map_err(|e| e.in_variable(name).at_step(step))?);
        }
        let Some(group) = group else { return Ok(()) };
        let attributes = self.attributes(reader, &group)?;
        let group = self.group(reader, &group)?;
        let mut variables: Vec<InStep> = planned.iter().map(Planned::in_step).collect();
        if let Some(services) = &mut self.services {
            services.step(reader, step, &mut variables)?;
        }
        let unprocessed = |services: &Option<Pipeline>| services.as_ref().map_or_else(Vec::new, |all| all.marks(step));
        let document = self.services.as_ref().map(|services| services.document.clone());
        let unprocessed_before = unprocessed(&self.services);
        let mut opening = Opening { step, group, variables, attributes, unprocessed: unprocessed_before, document };
        if !begins(&opening)? {
            // Attributes are in the target already.
            if let Some(services) = &mut self.services {
                services.passed(step);
            }
            return Ok(());
        }
        loop {
            hand(Event::Open(opening.clone()))?;
            match self.values(reader, step, &planned, hand) {
                Ok(()) => break,
                Err(Stopped::Error(e)) => return Err(e),
                // Of an output that is written, no block can be taken back.
                Err(Stopped::Service) => hand(Event::Drop)?,
            }
            if let Some(services) = &mut self.services {
                services.declare(reader, step, &mut opening.variables)?;
            }
            opening.unprocessed = unprocessed(&self.services);
        }
        if let Some(services) = &mut self.services {
            services.end(step);
        }
        hand(Event::Close)
    }

    /// Hands on the values of an output.
    fn values(
        &mut self,
        reader: &Reader,
        step: u64,
        planned: &[Planned],
        hand: &mut dyn FnMut(Event) -> Result<()>,
    ) -> std::result::Result<(), Stopped> {
        let mut waiting = Vec::new();
        let mut bytes = 0u64;
        for Planned { known, parts, values } in planned {
            for (number, part) in parts.iter().enumerate() {
                let value = match part.from {
                    Selection::Block(number) => values.get(&number),
                    _ => None,
                };
                let length = match (value, &part.place) {
                    (Some(value), _) => value.len() as u64,
                    (None, Some(place)) => elements(&place.count)?.saturating_mul(known.element.size()),
                    (None, None) => known.element.size(),
                };
                if bytes > 0 && bytes.saturating_add(length) > self.chunk {
                    self.fetch(reader, step, std::mem::take(&mut waiting), hand)?;
                    bytes = 0;
                }
                bytes = bytes.saturating_add(length);
                waiting.push(Wanted { known, part, value, length, number: number as u64 });
            }
        }
        if !waiting.is_empty() {
            self.fetch(reader, step, waiting, hand)?;
        }
        let gathered = self.services.as_mut().map_or_else(Vec::new, Pipeline::gathered);
        if !gathered.is_empty() {
            hand(Event::Blocks(gathered))?;
        }
        Ok(())
    }

    /// Hands on blocks as services leave them.
    fn fetch(
        &mut self,
        reader: &Reader,
        step: u64,
        wanted: Vec<Wanted<'_>>,
        hand: &mut dyn FnMut(Event) -> Result<()>,
    ) -> std::result::Result<(), Stopped> {
        let mut blocks = read(reader, step, wanted)?;
        if let Some(services) = &mut self.services {
            blocks = services.process(reader, step, blocks)?;
        }
        Ok(hand(Event::Blocks(blocks))?)
    }

    fn plan(&mut self, reader: &Reader, known: Arc<Known>, step: u64) -> Result<Planned> {
        let name = known.form.full.clone();
        let blocks = reader.blocks(&name, step)?;
        let shape = if known.kind == Kind::Scalar { vec![] } else { reader.shape(&name, step)? };
        let is_array = matches!(known.kind, Kind::Global | Kind::LocalValue);
        let how = How {
            // A region of a pattern is meant for the arrays among its variables.
            region: self.choice.region(&name).filter(|_| is_array || known.kind == Kind::Local),
            blocks: &self.choice.blocks,
            size: known.element.size(),
            most: self.chunk,
        };
        let planned = parts(known.kind, &shape, &blocks, how)?;
        if planned.not_merged {
            let why = "its blocks do not cover the array exactly once: they stay as they are";
            self.leave_out(&name, why);
        }
        let mut values = HashMap::new();
        for block in blocks.iter().filter(|_| known.kind == Kind::Scalar) {
            if let Some(value) = &block.value {
                let mut bytes = Vec::new();
                value.append_to(&mut bytes);
                values.insert(block.number, bytes);
            }
        }
        Ok(Planned { known, parts: planned.parts, values })
    }

    /// A variable; `None` for one that cannot be copied.
    fn known(&mut self, reader: &Reader, name: &str, step: u64) -> Result<Option<Arc<Known>>> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let known = match self.look(reader, name, step) {
            Ok(known) => Some(Arc::new(known)),
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                self.leave_out(name, e.what());
                None
            }
            Err(e) => return Err(e.in_variable(name).at_step(step)),
        };
        self.known.insert(name.to_string(), known.clone());
        Ok(known)
    }

    fn look(&mut self, reader: &Reader, name: &str, step: u64) -> Result<Known> {
        let variable = reader.variable(name)?;
        let element = self.choice.becomes(name, variable.element)?;
        let first = reader.block_of_step(name, step, 0)?;
        let is_array = variable.kind != Kind::Scalar;
        let transform = match (is_array, self.choice.transform(name)) {
            (false, _) => String::new(),
            (true, Some(asked)) => asked.to_string(),
            (true, None) => self.own_transform(name, first.as_ref()),
        };
        let level = first.as_ref().and_then(|block| block.statistics.as_ref());
        let statistics = match (self.choice.statistics(name), level) {
            (Some(asked), _) => asked,
            _ if !is_array => Statistics::Default,
            (None, None) => Statistics::Off,
            (None, Some(known)) if known.level.has_sums() => Statistics::Default,
            (None, Some(_)) => Statistics::MinMax,
        };
        let dimensions = match variable.kind {
            Kind::Scalar => 0,
            Kind::LocalValue => 1,
            Kind::Global | Kind::Local => first.as_ref().map_or(0, |block| block.count.len()),
        };
        let form = Form {
            full: variable.name.clone(),
            path: variable.path.clone(),
            name: variable.short_name.clone(),
            element,
            kind: variable.kind,
            dimensions,
            statistics,
            transform,
        };
        Ok(Known { form: Arc::new(form), group: variable.group, kind: variable.kind, element: variable.element })
    }

    /// The transform of the source, if values come out of it as they went in.
    fn own_transform(&mut self, name: &str, block: Option<&Block>) -> String {
        let Some(transform) = block.and_then(|block| block.transform.as_ref()) else { return String::new() };
        match thalweg_transform::find(&transform.name) {
            Some(codec) if codec.keeps_every_bit() => codec.name().to_string(),
            _ => {
                let record = block.and_then(|block| block.error_record().ok().flatten());
                let bound = record.map_or_else(String::new, |record| format!(" with the error bound {}", record.bound));
                let what = format!("its transform {}{bound}, which would change values again", transform.name);
                self.leave_out(name, what);
                String::new()
            }
        }
    }

    fn group(&mut self, reader: &Reader, name: &str) -> Result<Arc<GroupForm>> {
        if let Some(known) = self.groups.get(name) {
            return Ok(known.clone());
        }
        let groups = reader.process_groups()?;
        let time_name = groups.iter().find(|entry| entry.group == name).map(|entry| entry.time_name.clone());
        let form = Arc::new(GroupForm {
            name: name.to_string(),
            fortran: reader.is_fortran(name)?,
            time_name: time_name.unwrap_or_default(),
        });
        self.groups.insert(name.to_string(), form.clone());
        Ok(form)
    }

    /// The attributes of a group, if more were written than when they were handed on.
    fn attributes(&mut self, reader: &Reader, group: &str) -> Result<Option<Vec<Attribute>>> {
        let heads: Vec<_> = reader.attributes().iter().filter(|head| head.group == group).collect();
        let written = heads.iter().map(|head| head.blocks).sum();
        if self.attributes.insert(group.to_string(), written) == Some(written) {
            return Ok(None);
        }
        let mut all = Vec::new();
        for head in heads {
            match reader.attribute(&head.name) {
                Ok(attribute) if attribute.internal => {}
                // Those of the services that made the source.
                Ok(attribute) if self.services.is_some() && attribute.name.starts_with(services::PATH) => {}
                Ok(attribute) => all.push(attribute),
                Err(e) if e.kind() == ErrorKind::Unsupported => self.leave_out(&head.name, e.what()),
                Err(e) => return Err(e),
            }
        }
        Ok(Some(all))
    }
}

fn elements(count: &[u64]) -> Result<u64> {
    let too_many = || Error::new(ErrorKind::OutOfBounds, "a block has more elements than 64 bits count");
    thalweg_types::bounding_box::elements(count).ok_or_else(too_many)
}

/// A block of the copy that is to be read.
struct Wanted<'a> {
    known: &'a Known,
    part: &'a Part,
    /// Its value, if the index has it.
    value: Option<&'a Vec<u8>>,
    length: u64,
    /// Its number among those of its variable.
    number: u64,
}

/// Reads blocks together.
fn read(reader: &Reader, step: u64, wanted: Vec<Wanted<'_>>) -> Result<Vec<Values>> {
    let is_read = |wanted: &&Wanted<'_>| wanted.value.is_none() && wanted.length > 0;
    let mut asked = Vec::new();
    for Wanted { known, part, .. } in wanted.iter().filter(is_read) {
        let (element, becomes) = (known.element, known.form.element);
        asked.push(fetch::Wanted { name: &known.form.full, element, becomes, step, from: &part.from });
    }
    let mut read = fetch::fetch(reader, &asked)?.into_iter();
    let mut values = Vec::new();
    for Wanted { known, part, value, length, number } in &wanted {
        let bytes = match value {
            Some(value) if known.form.element == known.element => (*value).clone(),
            Some(value) => cast::cast(known.element, known.form.element, value)
                .map_err(|e| e.in_variable(known.form.full.clone()).at_step(step))?,
            None if *length == 0 => Vec::new(),
            None => read.next().unwrap_or_default(),
        };
        let (form, place, from) = (known.form.clone(), part.place.clone(), part.from.clone());
        values.push(Values { form, place, bytes, from, number: *number });
    }
    Ok(values)
}
