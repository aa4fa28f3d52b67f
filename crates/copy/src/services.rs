//! Services at work on the steps of a copy: functions, histograms. What only changes the form of variables becomes part of the [`Choice`].
//!
//! | question | answer |
//! |----------|--------|
//! | order | each service gets what the one before has left; a variable that a service makes is there for those behind it |
//! | what is given | blocks as the copy divides them, with its types. Other variables of a function with several are read from the source, in the same box |
//! | a service fails | the output is abandoned, and written again without this service: the step passes as it came, and an attribute says so ([`PATH`]) |
//! | it fails in [`GIVES_UP`] steps in a row | it is not called any more; the next step is marked, for all behind it |
//! | a copy that continues an earlier one | goes on counting from its marks; a service that was given up is called for one step |
//!
//! Source: data services of staging servers: Lofstead et al., SAND2009-7763; CUG 2009.

use crate::events::{Form, InStep, Values};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use thalweg_choice::cast;
use thalweg_choice::choice::{Blocks, Choice};
use thalweg_choice::pattern::Pattern;
use thalweg_choice::plan::Place;
use thalweg_functions::caller::Hosts;
use thalweg_functions::{Argument, Caller, Language};
use thalweg_reader::variable::Kind;
use thalweg_reader::{Block, Reader};
use thalweg_schema::services::{Function, FunctionFile, Services, Work};
use thalweg_types::printable::printable;
use thalweg_types::{BoundingBox, ElementType, Error, ErrorKind, Result, Selection};

/// The path of the attributes that mark steps which passed without a service. Their names are the step of the source and the number of the
/// service, from 1.
pub const PATH: &str = "/thalweg/services";

/// Name of the attribute with the services that made the file.
pub const DOCUMENT: &str = "document";

/// Most marks of a copy: each output carries all of them.
const MOST_MARKS: usize = 256;

/// Longest reason of a mark, in bytes.
const LONGEST_WHY: usize = 1000;

/// After failures in so many steps in a row a service is not called any more.
pub const GIVES_UP: u64 = 3;

/// A step that passed without a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unprocessed {
    /// Step of the source.
    pub step: u64,
    /// Number of the service, from 1.
    pub service: usize,
    /// Why.
    pub why: String,
}

/// Why blocks were not processed.
pub enum Stopped {
    /// The copy cannot go on.
    Error(Error),
    /// A service failed: the step passes without it.
    Service,
}

impl From<Error> for Stopped {
    fn from(e: Error) -> Stopped {
        Stopped::Error(e)
    }
}

/// The services of a copy.
pub struct Pipeline {
    stages: Vec<Stage>,
    /// Transforms and statistics of the variables that services make.
    styles: Choice,
    /// Names of those that were made.
    pub made: BTreeSet<String>,
    /// Steps that passed without a service.
    pub unprocessed: Vec<Unprocessed>,
    /// Marks of the earlier copy that this one continues: step of the source, number of the service.
    pub earlier: BTreeSet<(u64, usize)>,
    /// The element, as it was written.
    pub document: String,
}

struct Stage {
    /// Among all services, from 1.
    number: usize,
    work: Job,
    /// Why it does not work in this step.
    off: Option<String>,
    /// Failures in steps in a row.
    failures: u64,
    /// The same in the earlier copy that is continued.
    before: u64,
    /// It is not called any more, and a step has said so.
    given_up: bool,
    /// Some variable fitted.
    fitted: bool,
}

enum Job {
    Histogram(Histogram),
    Function(Box<Called>),
}

struct Called {
    caller: Caller,
    function: Function,
    first: Pattern,
    /// The variable that gets its results in this step.
    into: Option<Arc<Form>>,
}

struct Histogram {
    variables: Vec<Pattern>,
    bins: u32,
    min: Option<f64>,
    max: Option<f64>,
    /// Of the variables of this step, by full name.
    counted: Vec<Counted>,
}

struct Counted {
    full: String,
    min: f64,
    max: f64,
    bins: Vec<u64>,
    forms: [Arc<Form>; 2],
}

/// The marks in a file: step of the source, number of the service.
pub fn marks_of(file: &Reader) -> BTreeSet<(u64, usize)> {
    let names = file.attributes().iter().filter_map(|head| head.name.strip_prefix(PATH)?.strip_prefix('/'));
    let mark =
        |name: &str| name.split_once('.').and_then(|(step, service)| Some((step.parse().ok()?, service.parse().ok()?)));
    names.filter_map(mark).collect()
}

/// Makes of services what the choice can say, and a pipeline of the others.
///
/// Relative names of functions' files are below the working directory.
///
/// # Errors
/// `Config` for patterns, blocks or transforms that are none, with the service.
pub fn begin(services: &Services, hosts: &Hosts, choice: &mut Choice) -> Result<Pipeline> {
    let mut stages = Vec::new();
    choice.group = Some(services.group.clone());
    let mut asked = Choice::default();
    for (n, service) in services.services.iter().enumerate() {
        let wrong = |e: Error| Error::new(ErrorKind::Config, format!("service {}: {}", n + 1, e.what()));
        let patterns =
            |names: &[String]| names.iter().map(|name| Pattern::parse(name)).collect::<Result<Vec<_>>>().map_err(wrong);
        let work = match &service.work {
            Work::Statistics { variables, level } => {
                asked.statistics.extend(patterns(variables)?.into_iter().map(|pattern| (pattern, *level)));
                continue;
            }
            Work::Reorganize { blocks } => {
                asked.blocks = Blocks::parse(blocks).map_err(wrong)?;
                continue;
            }
            Work::Transform { variables, transform } => {
                let transforms = patterns(variables)?.into_iter().map(|pattern| (pattern, transform.clone()));
                asked.transforms.extend(transforms);
                thalweg_choice::choice::check_transform(transform).map_err(wrong)?;
                continue;
            }
            Work::Histogram { variables, bins, min, max } => Job::Histogram(Histogram {
                variables: patterns(variables)?,
                bins: *bins,
                min: *min,
                max: *max,
                counted: vec![],
            }),
            Work::Function(function) => {
                let first = function.variables.first().map_or("", String::as_str);
                let language = match &function.file {
                    // The system's linker looks for a name without a slash in folders of its own.
                    FunctionFile::Library(file) if Path::new(file).exists() => {
                        Language::Library(std::path::absolute(file).unwrap_or(file.into()))
                    }
                    FunctionFile::Library(file) => Language::Library(file.into()),
                    FunctionFile::Python(file) => Language::Python(file.into()),
                };
                let called =
                    thalweg_functions::Function { language, name: function.name.clone(), limit: function.timeout };
                Job::Function(Box::new(Called {
                    caller: Caller::new(called, hosts.clone()),
                    first: Pattern::parse(first).map_err(wrong)?,
                    function: function.clone(),
                    into: None,
                }))
            }
        };
        stages.push(Stage { number: n + 1, work, off: None, failures: 0, before: 0, given_up: false, fitted: false });
    }
    // What a user of the command asks for, counts more.
    if choice.blocks == Blocks::AsWritten {
        choice.blocks = asked.blocks;
    }
    asked.transforms.append(&mut choice.transforms);
    asked.statistics.append(&mut choice.statistics);
    (choice.transforms, choice.statistics) = (asked.transforms, asked.statistics);
    let (styles, document) = (choice.clone(), services.text.clone());
    Ok(Pipeline { stages, styles, made: BTreeSet::new(), unprocessed: Vec::new(), earlier: BTreeSet::new(), document })
}

impl Stage {
    fn name(&self) -> String {
        match &self.work {
            Job::Histogram(_) => format!("service {}, histogram", self.number),
            Job::Function(called) => format!("service {}, {}", self.number, called.caller.function()),
        }
    }
}

impl Pipeline {
    /// A step begins: adds the variables that services make to those that the copy has.
    ///
    /// # Errors
    /// Those of reads.
    pub fn step(&mut self, reader: &Reader, step: u64, variables: &mut Vec<InStep>) -> Result<()> {
        for stage in &mut self.stages {
            stage.off = (stage.failures >= GIVES_UP)
                .then(|| format!("it failed in {GIVES_UP} steps in a row, and is not called from here on"));
        }
        self.declare(reader, step, variables)
    }

    /// As [`Pipeline::step`], for a step that is written again.
    ///
    /// # Errors
    /// Those of reads.
    pub fn declare(&mut self, reader: &Reader, step: u64, variables: &mut Vec<InStep>) -> Result<()> {
        variables.retain(|variable| !variable.made);
        // A variable whose values a function before has changed.
        let mut changed: Vec<Pattern> = Vec::new();
        for stage in &mut self.stages {
            let patterns: &[Pattern] = match &stage.work {
                Job::Histogram(histogram) => &histogram.variables,
                Job::Function(called) => std::slice::from_ref(&called.first),
            };
            stage.fitted |= variables.iter().any(|variable| patterns.iter().any(|p| p.fits(&variable.form.full)));
            if stage.off.is_some() {
                continue;
            }
            let declared = match &mut stage.work {
                Job::Histogram(histogram) => histogram.declare(reader, step, variables, &changed, &self.styles)?,
                Job::Function(called) => {
                    let declared = called.declare(variables, &self.styles);
                    if called.function.into.is_none() {
                        changed.push(called.first.clone());
                    }
                    declared
                }
            };
            match declared {
                Ok(made) => {
                    self.made.extend(made.iter().map(|variable| variable.form.full.clone()));
                    variables.extend(made);
                }
                Err(why) => stage.off = Some(why),
            }
        }
        Ok(())
    }

    /// What did not work in this step.
    pub fn off(&self, step: u64) -> Vec<Unprocessed> {
        let told = self.stages.iter().filter(|stage| !stage.given_up);
        let off = told.filter_map(|stage| stage.off.as_ref().map(|why| (stage, why)));
        let all = off.map(|(stage, why)| {
            let mut why = format!("{}: {why}", stage.name());
            let whole = (0..=LONGEST_WHY.min(why.len())).rev().find(|n| why.is_char_boundary(*n));
            why.truncate(whole.unwrap_or(0));
            Unprocessed { step, service: stage.number, why }
        });
        all.collect()
    }

    /// What the target is told of them: not more than it can carry with each output.
    pub fn marks(&self, step: u64) -> Vec<Unprocessed> {
        let mut marks = self.off(step);
        let room = MOST_MARKS.saturating_sub(self.earlier.len() + self.unprocessed.len());
        if marks.len() >= room {
            marks.truncate(room);
            if let Some(last) = marks.last_mut() {
                last.why += "; later failures are not marked";
            }
        }
        marks
    }

    /// A step that the earlier copy has already.
    pub fn passed(&mut self, step: u64) {
        for stage in &mut self.stages {
            // The mark behind the last failure stands for all further steps.
            let failed = stage.before > GIVES_UP || self.earlier.contains(&(step, stage.number));
            stage.before = if failed { stage.before + 1 } else { 0 };
            // Given up, it is called once more: its cause may be mended.
            stage.failures = stage.before.min(GIVES_UP - 1);
        }
    }

    /// Patterns that have fitted no variable.
    pub fn unknown(&self) -> Vec<String> {
        let idle = self.stages.iter().filter(|stage| !stage.fitted);
        idle.flat_map(|stage| match &stage.work {
            Job::Histogram(histogram) => histogram.variables.iter().map(|p| p.given().to_string()).collect(),
            Job::Function(called) => vec![called.first.given().to_string()],
        })
        .collect()
    }

    /// Blocks of a step, as services leave them.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn process(
        &mut self,
        reader: &Reader,
        step: u64,
        blocks: Vec<Values>,
    ) -> std::result::Result<Vec<Values>, Stopped> {
        let mut out = Vec::new();
        for block in blocks {
            self.pass(0, reader, step, block, &mut out)?;
        }
        Ok(out)
    }

    /// Gives a block to the services from a position on.
    fn pass(
        &mut self,
        from: usize,
        reader: &Reader,
        step: u64,
        mut block: Values,
        out: &mut Vec<Values>,
    ) -> std::result::Result<(), Stopped> {
        for at in from..self.stages.len() {
            let stage = &mut self.stages[at];
            if stage.off.is_some() {
                continue;
            }
            let made = match &mut stage.work {
                Job::Histogram(histogram) => histogram.count(&block).map(|()| None),
                Job::Function(called) if called.is_for(&block.form) => called.call(reader, step, &mut block),
                Job::Function(_) => Ok(None),
            };
            match made {
                Ok(None) => {}
                Ok(Some(made)) => self.pass(at + 1, reader, step, made, out)?,
                Err(e) => {
                    let place = format!("block {} of {}", block.number, block.form.full);
                    stage.off = Some(format!("{e} ({place})"));
                    return Err(Stopped::Service);
                }
            }
        }
        out.push(block);
        Ok(())
    }

    /// What services have gathered over a step.
    pub fn gathered(&mut self) -> Vec<Values> {
        let working = self.stages.iter_mut().filter(|stage| stage.off.is_none());
        working
            .flat_map(|stage| match &mut stage.work {
                Job::Histogram(histogram) => histogram.gathered(),
                Job::Function(_) => vec![],
            })
            .collect()
    }

    /// The step is whole.
    pub fn end(&mut self, step: u64) {
        for failed in self.off(step) {
            // A function's words are not to control a terminal.
            thalweg_warnings::tell_once(&format!("step {step} passed without {}", printable(&failed.why)));
            self.unprocessed.push(failed);
        }
        for stage in &mut self.stages {
            stage.given_up |= stage.failures >= GIVES_UP;
            stage.failures = if stage.off.is_some() { stage.failures + 1 } else { 0 };
        }
    }
}

impl Called {
    /// Whether it is called for blocks of a variable. Of a pattern, variables with other values are not meant.
    fn is_for(&self, form: &Form) -> bool {
        self.first.fits(&form.full)
            && (self.first.given() == form.full || thalweg_functions::Form::new(form.element, &[]).is_ok())
    }

    /// The variable that it makes, if any; an inner error says why it cannot.
    fn declare(&mut self, variables: &[InStep], styles: &Choice) -> std::result::Result<Vec<InStep>, String> {
        self.into = None;
        let mut given = variables.iter().filter(|variable| self.is_for(&variable.form));
        let Some(first) = given.next() else { return Ok(vec![]) };
        if self.function.variables.len() > 1 && self.function.into.is_none() && given.next().is_some() {
            return Err(format!("several variables fit '{}'", self.first.given()));
        }
        let Some(into) = &self.function.into else { return Ok(vec![]) };
        if given.next().is_some() {
            return Err(format!("several variables fit '{}', and one gets the results", self.first.given()));
        }
        let element = self.function.element.unwrap_or(first.form.element);
        let (kind, dimensions, shape) = match self.function.values {
            Some(_) => (Kind::Local, 1, vec![]),
            None => (first.form.kind, first.form.dimensions, first.shape.clone()),
        };
        let form = made(into, element, kind, dimensions, styles);
        if is_there(variables, &form) {
            return Err(format!("there is a variable {} already", form.full));
        }
        self.into = Some(form.clone());
        Ok(vec![InStep { form, blocks: first.blocks, shape, made: true }])
    }

    /// Calls the function for a block; gives the block that it makes, or changes the one that it got.
    fn call(&mut self, reader: &Reader, step: u64, block: &mut Values) -> Result<Option<Values>> {
        let own = block.place.clone().unwrap_or(Place { shape: vec![], offset: vec![], count: vec![] });
        if own.count.contains(&0) {
            // Nothing of nothing; and for values of each block there is none.
            let same = |into: &Arc<Form>| Values { form: into.clone(), ..block.clone() };
            return Ok(self.into.as_ref().filter(|_| self.function.values.is_none()).map(same));
        }
        let mut others = Vec::new();
        for name in self.function.variables.iter().skip(1) {
            others.push(other(reader, step, name, block, &own).map_err(|e| e.in_variable(name.clone()))?);
        }
        let argument = |variable: &str, element| -> Result<Argument> {
            Ok(Argument {
                variable: variable.to_string(),
                number: block.number,
                shape: own.shape.clone(),
                offset: own.offset.clone(),
                form: thalweg_functions::Form::new(element, &own.count)?,
            })
        };
        let mut arguments = vec![(argument(&block.form.full, block.form.element)?, block.bytes.as_slice())];
        for (name, (element, bytes)) in self.function.variables.iter().skip(1).zip(&others) {
            arguments.push((argument(name, *element)?, bytes));
        }
        let count = self.function.values.map_or_else(|| own.count.clone(), |values| vec![values]);
        let element = self.into.as_ref().map_or(block.form.element, |form| form.element);
        let form = thalweg_functions::Form::new(element, &count)?;
        let mut result = crate::fetch::zeros(form.bytes)?;
        self.caller.call(step, &arguments, &form, &mut result)?;
        let Some(into) = &self.into else {
            block.bytes = result;
            return Ok(None);
        };
        let place = match self.function.values {
            Some(_) => Some(Place { shape: vec![], offset: vec![], count }),
            None => block.place.clone(),
        };
        let from = block.from.clone();
        Ok(Some(Values { form: into.clone(), place, bytes: result, from, number: block.number }))
    }
}

/// The values of another variable in the box of a block.
fn other(reader: &Reader, step: u64, name: &str, block: &Values, own: &Place) -> Result<(ElementType, Vec<u8>)> {
    let variable = reader.variable(name)?;
    let from = match (&block.from, block.form.kind) {
        // The blocks of another array may be numbered otherwise.
        (Selection::Block(_), Kind::Global | Kind::LocalValue) => {
            Selection::Box(BoundingBox { offset: own.offset.clone(), count: own.count.clone() })
        }
        (from, _) => from.clone(),
    };
    let differs = || Error::new(ErrorKind::InvalidArgument, format!("it has no such block as {}", block.form.full));
    let same = match block.form.kind {
        _ if variable.kind != block.form.kind => false,
        Kind::Global | Kind::LocalValue => reader.shape(name, step)? == reader.shape(&block.form.full, step)?,
        Kind::Local => match &block.from {
            Selection::Block(n) => reader.block_of_step(name, step, *n)?.is_some_and(|other| other.count == own.count),
            _ => false,
        },
        Kind::Scalar => true,
    };
    if !same {
        return Err(differs());
    }
    let mut batch = reader.batch();
    let number = batch.add(name, &[step], &from, None)?;
    let elements = thalweg_types::bounding_box::elements(&own.count).unwrap_or(u64::MAX);
    if batch.bytes(number) != elements.saturating_mul(variable.element.size()) {
        return Err(differs());
    }
    let mut memory = crate::fetch::zeros(batch.bytes(number))?;
    let filled: u64 = batch.perform(&mut [&mut memory])?.iter().sum();
    if filled < elements {
        // Elements that no block has would read as zeros.
        let what = format!("only {filled} of {elements} elements of this box were written");
        return Err(Error::new(ErrorKind::NotFound, what));
    }
    Ok((variable.element, memory))
}

/// A variable that a service makes.
fn made(full: &str, element: ElementType, kind: Kind, dimensions: usize, styles: &Choice) -> Arc<Form> {
    // A slash in front alone makes no path.
    let full = full.strip_prefix('/').filter(|rest| !rest.contains('/')).unwrap_or(full);
    let (path, name) = full.rsplit_once('/').unwrap_or(("", full));
    Arc::new(Form {
        full: full.to_string(),
        path: path.to_string(),
        name: name.to_string(),
        element,
        kind,
        dimensions,
        statistics: styles.statistics(full).unwrap_or_default(),
        transform: styles.transform(full).filter(|_| kind != Kind::Scalar).unwrap_or_default().to_string(),
    })
}

/// Whether a variable has this name; a slash in front makes no difference.
fn is_there(variables: &[InStep], form: &Form) -> bool {
    let name = |full: &str| full.trim_start_matches('/').to_string();
    variables.iter().any(|variable| name(&variable.form.full) == name(&form.full))
}

impl Histogram {
    fn fits(&self, form: &Form) -> bool {
        self.variables.iter().any(|pattern| pattern.fits(&form.full))
    }

    /// The variables that it makes; an inner error says why it cannot.
    ///
    /// - `changed`: variables whose values are others than those of the source.
    ///
    /// # Errors
    /// Those of reads.
    fn declare(
        &mut self,
        reader: &Reader,
        step: u64,
        variables: &[InStep],
        changed: &[Pattern],
        styles: &Choice,
    ) -> Result<std::result::Result<Vec<InStep>, String>> {
        self.counted.clear();
        let (mut all, mut counted) = (Vec::new(), Vec::new());
        for InStep { form, made: is_made, .. } in variables.iter().filter(|variable| self.fits(&variable.form)) {
            if !cast::is_possible(form.element, ElementType::F64) {
                // Of a pattern, variables with other values are not meant.
                if self.variables.iter().any(|pattern| pattern.given() == form.full) {
                    return Ok(Err(format!("{} values have no order", form.element)));
                }
                continue;
            }
            let (min, max) = match (self.min, self.max) {
                (Some(min), Some(max)) => (min, max),
                _ if *is_made || changed.iter().any(|pattern| pattern.fits(&form.full)) => {
                    let why = format!("{} is made by a function, so it needs both min and max", form.full);
                    return Ok(Err(why));
                }
                (min, max) => match range(reader, &form.full, step)? {
                    Some(of_step) => ends(min, max, of_step),
                    None => return Ok(Err(format!("{} has no statistics, so it needs both min and max", form.full))),
                },
            };
            let full = |suffix: &str| format!("histogram/{}{suffix}", form.full.trim_start_matches('/'));
            let forms = [
                made(&full(""), ElementType::U64, Kind::Global, 1, styles),
                made(&full("_edges"), ElementType::F64, Kind::Global, 1, styles),
            ];
            for (form, extent) in forms.iter().zip([u64::from(self.bins), u64::from(self.bins) + 1]) {
                if is_there(variables, form) {
                    return Ok(Err(format!("there is a variable {} already", form.full)));
                }
                all.push(InStep { form: form.clone(), blocks: 1, shape: vec![extent], made: true });
            }
            let bins = vec![0; self.bins as usize];
            counted.push(Counted { full: form.full.clone(), min, max, bins, forms });
        }
        self.counted = counted;
        Ok(Ok(all))
    }

    /// Counts the values of a block.
    fn count(&mut self, block: &Values) -> Result<()> {
        let Some(counted) = self.counted.iter_mut().find(|counted| counted.full == block.form.full) else {
            return Ok(());
        };
        // A bounded number of values at a time, as numbers of one type.
        let piece = 8192 * block.form.element.size().max(1) as usize;
        for values in block.bytes.chunks(piece) {
            let values = cast::cast(block.form.element, ElementType::F64, values)?;
            for value in values.chunks_exact(8) {
                counted.add(f64::from_ne_bytes(value.try_into().unwrap_or_default()));
            }
        }
        Ok(())
    }

    fn gathered(&mut self) -> Vec<Values> {
        let mut all = Vec::new();
        for counted in self.counted.drain(..) {
            let parts = counted.bins.len() as f64;
            let edge = |n: usize| counted.min + (counted.max - counted.min) * (n as f64 / parts);
            let bins = counted.bins.iter().flat_map(|bin| bin.to_ne_bytes()).collect::<Vec<u8>>();
            let edges = (0..=counted.bins.len()).flat_map(|n| edge(n).to_ne_bytes()).collect::<Vec<u8>>();
            for (form, bytes) in counted.forms.into_iter().zip([bins, edges]) {
                let extent = bytes.len() as u64 / 8;
                let place = Some(Place { shape: vec![extent], offset: vec![0], count: vec![extent] });
                all.push(Values { form, place, bytes, from: Selection::Block(0), number: 0 });
            }
        }
        all
    }
}

impl Counted {
    /// The upper end belongs to the last part, as the lower ends to theirs.
    fn add(&mut self, value: f64) {
        if value >= self.min && value <= self.max {
            let part = (value - self.min) / (self.max - self.min) * self.bins.len() as f64;
            let last = self.bins.len() - 1;
            self.bins[(part as usize).min(last)] += 1;
        }
    }
}

/// The range of a histogram, of which an end may be given: never empty.
///
/// - `of_step`: smallest and largest value; in the wrong order if there is none.
fn ends(min: Option<f64>, max: Option<f64>, of_step: (f64, f64)) -> (f64, f64) {
    let of_step = if of_step.0 <= of_step.1 { of_step } else { (0.0, 0.0) };
    let wide = |around: f64| (around.abs() * 1e-6).max(0.5);
    match (min, max) {
        (Some(min), None) if min >= of_step.1 => (min, min + 2.0 * wide(min)),
        (None, Some(max)) if max <= of_step.0 => (max - 2.0 * wide(max), max),
        (None, None) if of_step.0 == of_step.1 => (of_step.0 - wide(of_step.0), of_step.0 + wide(of_step.0)),
        (min, max) => (min.unwrap_or(of_step.0), max.unwrap_or(of_step.1)),
    }
}

/// The smallest and largest finite value of a variable in a step, from the index, in the wrong order if there is none; `None` where that
/// does not know.
fn range(reader: &Reader, name: &str, step: u64) -> Result<Option<(f64, f64)>> {
    let mut range = (f64::INFINITY, f64::NEG_INFINITY);
    for block in reader.blocks(name, step)? {
        let Some((min, max)) = range_of(&block) else { return Ok(None) };
        // A block without any finite value has an empty range.
        if min <= max {
            range = (range.0.min(min), range.1.max(max));
        }
    }
    Ok(Some(range))
}

fn range_of(block: &Block) -> Option<(f64, f64)> {
    if let Some(value) = &block.value {
        return value.as_f64().map(|value| (value, value));
    }
    let known = block.statistics.as_ref()?;
    known.min.as_f64().zip(known.max.as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_schema::Statistics;

    fn counted(min: f64, max: f64, bins: usize) -> Counted {
        let form = made("h", ElementType::U64, Kind::Global, 1, &Choice::default());
        Counted { full: "h".into(), min, max, bins: vec![0; bins], forms: [form.clone(), form] }
    }

    #[test]
    fn values_fall_into_equal_parts_and_others_than_finite_ones_in_the_range_do_not_count() {
        let mut counted = counted(-1.0, 1.0, 4);
        for value in [-1.0, -0.51, -0.5, 0.0, 0.49, 0.5, 1.0, 1.0001, -1.1, f64::NAN, f64::INFINITY, -f64::INFINITY] {
            counted.add(value);
        }
        assert_eq!(counted.bins, [2, 1, 2, 2]);
    }

    #[test]
    fn a_range_is_never_empty_and_keeps_the_end_that_is_given() {
        assert_eq!(ends(None, None, (2.0, 5.0)), (2.0, 5.0));
        assert_eq!(ends(Some(3.0), None, (2.0, 5.0)), (3.0, 5.0));
        for (min, max, of_step) in [
            (None, None, (f64::INFINITY, f64::NEG_INFINITY)),
            (None, None, (1e300, 1e300)),
            (None, Some(10.0), (20.0, 30.0)),
            (Some(1e17), None, (20.0, 30.0)),
        ] {
            let (from, to) = ends(min, max, of_step);
            assert!(from < to && min.is_none_or(|min| min == from) && max.is_none_or(|max| max == to), "{from} {to}");
        }
    }

    #[test]
    fn services_become_part_of_the_choice_and_what_the_user_asks_for_counts_more() {
        let work = |work| thalweg_schema::services::Service { work, source: Default::default() };
        let services = Services {
            group: "g".into(),
            output: Services::OUTPUT.into(),
            source: Default::default(),
            text: String::new(),
            services: vec![
                work(Work::Reorganize { blocks: "merged".into() }),
                work(Work::Transform { variables: vec!["u".into(), "v".into()], transform: "zlib".into() }),
                work(Work::Statistics { variables: vec!["*".into()], level: Statistics::Full }),
            ],
        };
        let hosts = Hosts { library: vec![], python: "python3".into() };
        let mut choice =
            Choice { transforms: vec![(Pattern::parse("v").unwrap(), "none".into())], ..Choice::default() };
        let pipeline = begin(&services, &hosts, &mut choice).unwrap();
        assert!(pipeline.stages.is_empty());
        assert_eq!(choice.blocks, Blocks::Merged);
        assert_eq!((choice.transform("u"), choice.transform("v")), (Some("zlib"), Some("none")));
        assert_eq!(choice.statistics("u"), Some(Statistics::Full));
        let wrong = Services { services: vec![work(Work::Reorganize { blocks: "4y".into() })], ..services };
        let refused = begin(&wrong, &hosts, &mut Choice::default()).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains("service 1: "), "{refused}");
    }
}
