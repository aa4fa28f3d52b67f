//! From the source to the target: one thread reads, one writes.

use crate::events::{Event, InStep, Opening};
use crate::services::{self, Unprocessed};
use crate::source::Source;
use crate::target::Target;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use thalweg_choice::choice::{Choice, check_transform};
use thalweg_functions::caller::Hosts;
use thalweg_layout::Layout;
use thalweg_reader::{Follower, Next, Reader, Wait};
use thalweg_schema::services::Services;
use thalweg_types::{AttributeValue, Error, ErrorKind, Result, Value};

/// How a copy is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is copied.
    pub choice: Choice,
    /// The method that writes the target.
    pub method: String,
    /// Its parameters, `key=value;key=value`.
    pub parameters: String,
    /// Bytes of memory for values. A block of the source that is copied whole may be larger.
    pub memory: u64,
    /// What becomes of a target that is there.
    pub existing: Existing,
    /// Waits for further steps, as long as the source is written.
    pub follow: Option<Wait>,
    /// What happens to the outputs of a group on their way; outputs of others are not copied.
    pub services: Option<Served>,
}

/// Services, and what they need.
#[derive(Debug, Clone)]
pub struct Served {
    /// The services.
    pub services: Services,
    /// What calls functions.
    pub hosts: Hosts,
}

/// What becomes of a target that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It is an error.
    #[default]
    Refuse,
    /// It is replaced.
    Replace,
    /// It is an earlier copy, made with the same choice, to which the missing steps are added.
    Continue,
}

/// How a copy is asked to end, by another thread.
#[derive(Debug, Default)]
pub struct Asked {
    /// Behind the step that is being copied.
    pub at_once: Arc<AtomicBool>,
    /// When no further step is there.
    pub when_quiet: Arc<AtomicBool>,
}

/// Something that has no place in the copy, or another form there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the variable or attribute.
    pub name: String,
    /// What is missing, and why.
    pub why: String,
}

/// How a source ended that was followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything that there was is copied.
    Whole,
    /// The writer of the source died; the steps that it has closed are copied.
    WriterDied,
    /// No further step came in time.
    TimedOut,
    /// It was stopped.
    Stopped,
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Steps written.
    pub steps: u64,
    /// Steps that the target had already.
    pub had: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Bytes of values written, before transforms.
    pub bytes: u64,
    /// What has no place in the copy, or another form there.
    pub left_out: Vec<LeftOut>,
    /// Patterns of the choice that fit no variable.
    pub unknown: Vec<String>,
    /// Steps that passed without a service.
    pub unprocessed: Vec<Unprocessed>,
    /// How the source ended.
    pub ended: Ended,
}

impl Default for Options {
    /// Everything as it is, by method `MPI` into one new file, with 256 MiB of memory.
    fn default() -> Options {
        Options {
            choice: Choice::default(),
            method: "MPI".to_string(),
            parameters: String::new(),
            memory: 256 << 20,
            existing: Existing::Refuse,
            follow: None,
            services: None,
        }
    }
}

/// Copies a file.
///
/// - `asked`: set by another thread, ends the copy behind a whole step.
/// - `progress`: is told the bytes of values written so far.
///
/// # Errors
/// `AlreadyExists` for a target that is there with [`Existing::Refuse`]; `InvalidArgument` where the target is the source, or its steps have other
/// variables, types or shapes than a copy with these options; `Config` for an unknown method or transform; those of reads and writes. The source is not changed, and the steps of the target so far stay.
/// # Cost
/// Reads every chosen byte once, checks its checksum as readers do, and writes it once; casts and transforms as they cost. Memory: see
/// [`Options::memory`].
pub fn copy(
    (from, source): (&Arc<dyn Layout>, &str),
    (to, target): (&Arc<dyn Layout>, &str),
    options: &Options,
    asked: &Asked,
    progress: &mut dyn FnMut(u64),
) -> Result<Copied> {
    for (pattern, transform) in &options.choice.transforms {
        check_transform(transform).map_err(|e| e.in_variable(pattern.given()))?;
    }
    let mut chosen = options.choice.clone();
    let begin = |served: &Served| services::begin(&served.services, &served.hosts, &mut chosen);
    let mut pipeline = options.services.as_ref().map(begin).transpose()?;
    let choice = &chosen;
    let failed = AtomicBool::new(false);
    let mut steps = Walk::begin(from, source, options, Stop { asked, failed: &failed })?;
    let untouched = |e: Error| if e.still_safe().is_some() { e } else { e.safe("the target, which was not touched") };
    let earlier = earlier(steps.reader(), to, target, options.existing).map_err(untouched)?;
    if let (Some(earlier), Some(served), Some(pipeline)) = (&earlier, &options.services, &mut pipeline) {
        same_services(earlier, &served.services).map_err(|e| untouched(e.in_object(target)))?;
        pipeline.earlier = services::marks_of(earlier);
    }
    // What is being read, waits, is being written, and the pack of the method.
    let chunk = options.memory / 4;
    let method = (options.method.as_str(), options.parameters.as_str());
    let mut writer = Target::new(to.clone(), target, method, chunk.max(1 << 20), earlier.is_some())?;
    let mut reading = Source::new(choice, pipeline, chunk);
    let had = earlier.as_ref().map_or(0, |reader| reader.status().steps);
    let outcome = std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Result<Event>>(1);
        let reader = scope.spawn(move || {
            let mut left = had;
            let mut walk = || -> Result<()> {
                while let Some((reader, step)) = steps.next()? {
                    let mut begins = |opening: &Opening| {
                        let Some(earlier) = earlier.as_ref().filter(|_| left > 0) else { return Ok(true) };
                        compare(earlier, had - left, opening)?;
                        left -= 1;
                        Ok(false)
                    };
                    // Where the other end is gone, it has failed, and says why.
                    let gone = || Error::new(ErrorKind::PeerLost, "the copy has ended");
                    reading.step(&reader, step, &mut begins, &mut |event| send.send(Ok(event)).map_err(|_| gone()))?;
                }
                if left > 0 && steps.ended == Ended::Whole {
                    let what = format!("it has {had} steps, the source only {} that were chosen", had - left);
                    return Err(Error::new(ErrorKind::InvalidArgument, what).in_object(target));
                }
                Ok(())
            };
            if let Err(e) = walk() {
                let _ = send.send(Err(e));
            }
            let mut unknown = steps.unknown(choice, &reading.made());
            unknown.append(&mut reading.unknown());
            (reading.left_out(), unknown, reading.unprocessed(), steps.ended)
        });
        let written = writer.take(&receive, progress);
        // Otherwise the other thread would wait for a step of the source to hear of it.
        failed.store(written.is_err(), Ordering::Relaxed);
        drop(receive);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.map(|()| read)
    });
    let kept = format!("{} steps of {target}", had + writer.outputs);
    let with_kept = |e: Error| if e.still_safe().is_some() { e } else { e.safe(kept.clone()) };
    let (mut left_out, unknown, unprocessed, ended) = outcome.map_err(|e| {
        // The failure that matters is the first one.
        let _ = writer.leave();
        with_kept(e)
    })?;
    let closed = match ended {
        Ended::Whole => writer.finish(),
        Ended::WriterDied | Ended::TimedOut | Ended::Stopped => writer.leave(),
    };
    closed.map_err(with_kept)?;
    left_out.append(&mut writer.left_out);
    let (steps, blocks, bytes) = (writer.outputs, writer.blocks, writer.bytes);
    Ok(Copied { steps, had, blocks, bytes, left_out, unknown, unprocessed, ended })
}

/// The target that is there, if steps are added to it.
fn earlier(source: &Reader, layout: &Arc<dyn Layout>, target: &str, existing: Existing) -> Result<Option<Reader>> {
    let there = match layout.stat(target) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        there => there?,
    };
    // By whatever name it is reached, where files have an identity: elsewhere that is 0.
    let own = source.layout().stat(source.path())?;
    let same_file = own.identity != 0 && (own.identity, own.length) == (there.identity, there.length);
    if same_file || Arc::ptr_eq(source.layout(), layout) && source.path() == target {
        return Err(Error::new(ErrorKind::InvalidArgument, "the copy would replace its source").in_object(target));
    }
    match existing {
        Existing::Refuse => {
            let what = "it is there already: replace it, or continue an earlier copy";
            Err(Error::new(ErrorKind::AlreadyExists, what).in_object(target))
        }
        Existing::Replace => Ok(None),
        Existing::Continue => match Reader::open(layout.clone(), target) {
            // A copy that ended before its first step was whole.
            Err(e) if e.kind() == ErrorKind::Torn => Ok(None),
            reader => Ok(Some(reader?).filter(|reader| reader.status().steps > 0)),
        },
    }
}

/// Whether an earlier copy was made by these services.
fn same_services(earlier: &Reader, services: &Services) -> Result<()> {
    let name = format!("{}/{}", services::PATH, services::DOCUMENT);
    let found = match earlier.attribute(&name) {
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        found => Some(found?.value),
    };
    let wanted = AttributeValue::One(Value::String(services.text.clone().into_bytes()));
    if found.as_ref() == Some(&wanted) {
        return Ok(());
    }
    let what = match found {
        Some(_) => format!("other services have made it: its attribute {name} says which"),
        None => "no services have made it".to_string(),
    };
    Err(Error::new(ErrorKind::InvalidArgument, what))
}

/// Whether a step of an earlier copy may be the one that would be written now: it has these variables, with types, shapes and as many blocks.
fn compare(earlier: &Reader, step: u64, opening: &Opening) -> Result<()> {
    // Those that services make may be missing: the step may have passed without them.
    for InStep { form, blocks, shape, .. } in opening.variables.iter().filter(|variable| !variable.made) {
        let there = match earlier.block_count(&form.full, step) {
            Err(e) if e.kind() == ErrorKind::NotFound => 0,
            there => there?,
        };
        let differs = if there != *blocks {
            Some(format!("{there} blocks in place of {blocks}"))
        } else if earlier.variable(&form.full)?.element != form.element {
            Some(format!("{} in place of {}", earlier.variable(&form.full)?.element, form.element))
        } else if !shape.is_empty() && earlier.shape(&form.full, step)? != *shape {
            Some(format!("shape {:?} in place of {shape:?}", earlier.shape(&form.full, step)?))
        } else {
            None
        };
        if let Some(differs) = differs {
            let what = format!(
                "step {step} is no copy of step {} of the source with these options: \"{}\" has {differs}",
                opening.step, form.full
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what).in_object(earlier.path()));
        }
    }
    Ok(())
}

/// How often a wait looks whether the copy is stopped.
const LOOK: Duration = Duration::from_millis(200);

/// Why no further step is read.
#[derive(Clone, Copy)]
struct Stop<'a> {
    /// Someone has asked for it.
    asked: &'a Asked,
    /// The target has failed.
    failed: &'a AtomicBool,
}

impl Stop<'_> {
    fn is_asked(self) -> bool {
        self.is_set() || self.asked.when_quiet.load(Ordering::Relaxed)
    }

    fn is_set(self) -> bool {
        self.asked.at_once.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }
}

/// The steps of a source, as they come.
struct Walk<'a> {
    options: &'a Options,
    stop: Stop<'a>,
    file: File,
    /// Next step to look at.
    at: u64,
    /// The step behind those that were there when the copy was asked to end when no further step is there.
    last: Option<u64>,
    ended: Ended,
}

enum File {
    Whole(Reader),
    Growing(Box<Follower>, Wait),
}

/// Waits for at most the time of `wait`, in short waits, until `look` finds something or the copy is stopped.
fn waiting<T>(wait: Wait, stop: Stop<'_>, mut look: impl FnMut(&Wait) -> Result<Option<T>>) -> Result<Option<T>> {
    let begun = Instant::now();
    loop {
        let left = wait.timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
        // Before the look: what was written until then is to be found.
        let last = stop.asked.when_quiet.load(Ordering::Relaxed);
        let short = Wait { timeout: Some(left.map_or(LOOK, |left| left.min(LOOK))), ..wait };
        let found = look(&short)?;
        if found.is_some() || left.is_some_and(|left| left.is_zero()) || stop.is_set() || last {
            return Ok(found);
        }
    }
}

impl<'a> Walk<'a> {
    fn begin(layout: &Arc<dyn Layout>, path: &str, options: &'a Options, stop: Stop<'a>) -> Result<Walk<'a>> {
        let file = match options.follow {
            None => File::Whole(Reader::open(layout.clone(), path)?),
            Some(wait) => {
                let mut none = None;
                let follower = waiting(wait, stop, |wait| match Follower::open(layout.clone(), path, wait) {
                    Err(e) if e.kind() == ErrorKind::NotFound => {
                        none = Some(e);
                        Ok(None)
                    }
                    follower => follower.map(Some),
                })?;
                let absent = || none.unwrap_or_else(|| Error::new(ErrorKind::NotFound, "no step came").in_object(path));
                File::Growing(Box::new(follower.ok_or_else(absent)?), wait)
            }
        };
        Ok(Walk { options, stop, file, at: 0, last: None, ended: Ended::Whole })
    }

    fn reader(&self) -> &Reader {
        match &self.file {
            File::Whole(reader) => reader,
            File::Growing(follower, _) => follower.reader(),
        }
    }

    /// The next chosen step; `None` if there is none any more.
    fn next(&mut self) -> Result<Option<(Reader, u64)>> {
        let chosen = self.options.choice.steps;
        loop {
            let known = self.reader().status().steps;
            while self.at < known.min(chosen.end) {
                if self.stop.is_set() {
                    self.ended = Ended::Stopped;
                    return Ok(None);
                }
                let step = self.at;
                self.at += 1;
                if chosen.contain(step) {
                    return Ok(Some((self.reader().clone(), step)));
                }
            }
            let File::Growing(follower, wait) = &mut self.file else { return Ok(None) };
            if self.at >= chosen.end {
                return Ok(None);
            }
            let beyond = self.last.is_some_and(|last| self.at >= last);
            let asked_before = self.stop.asked.when_quiet.load(Ordering::Relaxed);
            // To the newest: the ones between are looked at above.
            let next = waiting(*wait, self.stop, |wait| {
                let next = follower.advance(true, wait)?;
                Ok(Some(next).filter(|next| *next != Next::NotYet))
            })?;
            self.ended = match next {
                // A program that goes on writing does not hold up the end.
                Some(Next::Step(_)) if beyond => Ended::Stopped,
                Some(Next::Step(_)) => {
                    if asked_before && self.last.is_none() {
                        self.last = Some(self.reader().status().steps);
                    }
                    continue;
                }
                Some(Next::End) => Ended::Whole,
                Some(Next::WriterDied) => Ended::WriterDied,
                Some(Next::NotYet) | None if self.stop.is_asked() => Ended::Stopped,
                Some(Next::NotYet) | None => Ended::TimedOut,
            };
            return Ok(None);
        }
    }

    /// - `made`: variables that services have made.
    fn unknown(&self, choice: &Choice, made: &[String]) -> Vec<String> {
        let names = self.reader().variables().iter().map(|head| head.name.as_str());
        let names: Vec<&str> = names.chain(made.iter().map(String::as_str)).collect();
        choice.unknown(&names).into_iter().map(str::to_string).collect()
    }
}
