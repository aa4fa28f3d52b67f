//! Files of other formats as steps of a BP file.
//!
//! One thread reads the file and hands values on, a bounded number of bytes at a time; the caller's writes them.

use crate::source::found::{Attribute as There, Content, Form as Sort, Found, Value as Held, trimmed};
use crate::source::steps::Steps;
use crate::source::{Source, open};
use crate::values::element_of;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use thalweg_choice::cast;
use thalweg_choice::plan::{Place, divide, pieces};
use thalweg_choice::region::StridedBox;
use thalweg_choice::{Blocks, Choice, Steps as ChosenSteps};
use thalweg_convert::{Converted, Format, LeftOut, Message, Request};
use thalweg_copy::events::{Event, Form, GroupForm, InStep, Opening, Values};
use thalweg_copy::target::Target;
use thalweg_reader::Attribute;
use thalweg_reader::variable::{Kind, full_name};
use thalweg_schema::Statistics;
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, ElementType, Error, ErrorKind, Result, Selection, Value};
use thalweg_views::arrays::{AXES, STEP_IN_FILE};
use thalweg_views::chosen::STEPS;
use thalweg_views::hdf5::Kind as Number;

/// The group of the BP file.
const GROUP: &str = "data";

/// Converts a file.
///
/// - `steps_along`: name of the axis whose positions become steps. Without it the axes of steps of a file that was made of a BP file do.
///
/// # Errors
/// `NotFound` for an axis that is not there; `InvalidArgument` for steps, regions and types that the file does not have; `Io` with the library's
/// reason; those of writes. The steps before stay in the target.
pub fn convert(
    request: &Request,
    format: Format,
    steps_along: Option<&str>,
    (method, parameters): (&str, &str),
    tell: &(dyn Fn(Message) + Sync),
) -> Result<Converted> {
    let choice = request.chosen.parse()?;
    // What is being read, what waits, what is being written, and the pack of the method.
    let most = (request.memory / 4).max(1 << 20);
    let mut target = Target::new(thalweg_io::mounts::layout()?, &request.target, (method, parameters), most, false)?;
    let outcome = std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Result<Event>>(1);
        let choice = &choice;
        let reading = scope.spawn(move || {
            let read = read(&request.source, format, choice, steps_along, most, tell, &send);
            match read {
                Ok(converted) => converted,
                Err(e) => {
                    // Where the other end is gone, it has failed, and says why.
                    let _ = send.send(Err(e));
                    Converted::default()
                }
            }
        });
        let written = target.take(&receive, &mut |done| tell(Message::Done(done)));
        drop(receive);
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.map(|()| read)
    });
    let kept = match target.outputs {
        0 => "the source".to_string(),
        steps => format!("the source, and {steps} steps of {}", request.target),
    };
    let with_kept = |e: Error| if e.still_safe().is_some() { e } else { e.safe(kept.clone()) };
    let mut converted = outcome.map_err(|e| {
        // The failure that matters is the first one.
        let _ = target.leave();
        with_kept(e)
    })?;
    target.finish().map_err(with_kept)?;
    converted.left_out.extend(target.left_out.iter().map(|left| LeftOut::new(&left.name, &left.why)));
    (converted.steps, converted.bytes) = (target.outputs, target.bytes);
    Ok(converted)
}

#[allow(clippy::too_many_arguments)] // Each of another sort.
fn read(
    source: &str,
    format: Format,
    choice: &Choice,
    steps_along: Option<&str>,
    most: u64,
    tell: &dyn Fn(Message),
    send: &SyncSender<Result<Event>>,
) -> Result<Converted> {
    let named = |e: Error| e.in_object(source);
    let file = open(source, format)?;
    let content = file.content();
    let steps = steps(&*file, steps_along).map_err(named)?;
    if steps.is_empty() && choice.steps != ChosenSteps::default() {
        let what = "the file has no axis of steps, of which some could be chosen: --steps-along names one";
        return Err(named(Error::new(ErrorKind::InvalidArgument, what)));
    }
    let mut left_out: Vec<LeftOut> = content.left_out.iter().filter(|left| choice.has(&left.name)).cloned().collect();
    let mut variables = Vec::new();
    for found in content.datasets.iter().filter(|found| !found.is_only_an_axis && choice.has(&found.name)) {
        let is_counted = found.axes.len() == 1 && steps.are_counted_by(found.name.rsplit('/').next().unwrap_or(""));
        if !(is_counted && found.axes[0].as_deref() == Some(&found.name)) {
            let planned =
                Variable::plan(found, choice, &steps).map_err(|e| named(e.in_variable(found.name.clone())))?;
            variables.push(planned);
        }
    }
    let numbers: Vec<u64> = steps.numbers().into_iter().filter(|step| choice.steps.contain(*step)).collect();
    let attributes = attributes(content, &variables, &steps, &mut left_out);
    tell(Message::Total(
        variables.iter().map(|variable| variable.bytes(&numbers, &steps)).fold(0, u64::saturating_add),
    ));
    let gone = || Error::new(ErrorKind::PeerLost, "the conversion has ended");
    let hand = |event: Event| send.send(Ok(event)).map_err(|_| gone());
    let group = Arc::new(GroupForm { name: GROUP.into(), fortran: false, time_name: String::new() });
    let mut attributes = Some(attributes);
    for (number, step) in numbers.iter().enumerate() {
        let here: Vec<(&Variable<'_>, Option<u64>)> =
            variables.iter().filter_map(|variable| variable.at(*step, number == 0, &steps)).collect();
        let in_step = |(variable, _): &(&Variable<'_>, Option<u64>)| InStep {
            form: variable.form.clone(),
            blocks: variable.parts(&choice.blocks, most).len() as u64,
            shape: variable.shape(),
            made: false,
        };
        if here.is_empty() {
            continue;
        }
        hand(Event::Open(Opening {
            step: *step,
            group: group.clone(),
            variables: here.iter().map(in_step).collect(),
            attributes: attributes.take(),
            unprocessed: Vec::new(),
            document: None,
        }))?;
        let (mut waiting, mut bytes) = (Vec::new(), 0u64);
        for (variable, position) in &here {
            let failed = |e: Error| named(e.in_variable(variable.found.name.clone()).at_step(*step));
            for (number, part) in variable.parts(&choice.blocks, most).into_iter().enumerate() {
                let values = variable.read(&*file, &part, *position).map_err(failed)?;
                let place = (variable.form.kind != Kind::Scalar).then(|| variable.place(&part));
                bytes += values.len() as u64;
                waiting.push(Values {
                    form: variable.form.clone(),
                    place,
                    bytes: values,
                    from: Selection::All,
                    number: number as u64,
                });
                if bytes >= most {
                    hand(Event::Blocks(std::mem::take(&mut waiting)))?;
                    bytes = 0;
                }
            }
        }
        hand(Event::Blocks(waiting))?;
        hand(Event::Close)?;
    }
    let names: Vec<&str> = content.datasets.iter().map(|found| found.name.as_str()).collect();
    let unknown = choice.unknown(&names).into_iter().map(str::to_string).collect();
    Ok(Converted { variables: variables.len() as u64, left_out, unknown, ..Converted::default() })
}

/// Which axes of a file are steps.
fn steps(file: &dyn Source, along: Option<&str>) -> Result<Steps> {
    let content = file.content();
    if let Some(along) = along {
        let named = content.datasets.iter().flat_map(|found| found.axes.iter().zip(&found.shape));
        let extents: BTreeMap<String, u64> =
            named.filter_map(|(axis, extent)| Some((axis.clone()?, *extent))).collect();
        return Steps::along(along, &extents);
    }
    let is_marked = |found: &&Found| {
        let says = |there: &There| {
            there.name == "long_name" && there.value == Held::Texts(vec![STEP_IN_FILE.as_bytes().to_vec()])
        };
        found.axes.len() == 1
            && found.axes[0].as_deref() == Some(&found.name)
            && matches!(found.form, Sort::Numbers(Number::Integer(8, true, _)))
            && found.attributes.iter().any(says)
    };
    let mut marked = Vec::new();
    for found in content.datasets.iter().filter(is_marked) {
        let bytes = file.read(found, &[0], &[1], &found.shape)?;
        let number = |word: &[u8]| word.try_into().map(i64::from_ne_bytes).unwrap_or_default();
        marked.push((found.name.clone(), bytes.chunks_exact(8).map(number).collect()));
    }
    Ok(Steps::marked(marked))
}

/// A dataset as a variable.
struct Variable<'f> {
    found: &'f Found,
    form: Arc<Form>,
    /// Type of the values as they are read.
    element: ElementType,
    /// The axis of steps: its position and name.
    along: Option<(usize, &'f str)>,
    /// What of a step is taken, without axes that are made here.
    lattice: StridedBox,
    /// Bytes of a text, whose characters become a further axis.
    width: Option<u64>,
}

impl<'f> Variable<'f> {
    fn plan(found: &'f Found, choice: &Choice, steps: &Steps) -> Result<Variable<'f>> {
        let along = steps.axis(&found.axes);
        let mut shape = found.shape.clone();
        if let Some((axis, _)) = along {
            shape.remove(axis);
        }
        let longest = || found.texts.iter().map(Vec::len).max().unwrap_or(0).max(1) as u64;
        let (element, width) = match &found.form {
            Sort::Words(_) | Sort::Texts if shape.is_empty() => (ElementType::String, None),
            Sort::Words(1) => (ElementType::Char, None),
            Sort::Words(width) => (ElementType::Char, Some(*width)),
            Sort::Texts => (ElementType::Char, Some(longest())),
            numbers => {
                let element = numbers.kind().and_then(element_of);
                (element.ok_or_else(|| Error::new(ErrorKind::Unsupported, "no BP file has its type"))?, None)
            }
        };
        let becomes = choice.becomes(&found.name, element)?;
        let lattice = match choice.region(&found.name).filter(|_| !shape.is_empty()) {
            Some(region) => region.of(&shape)?,
            None => StridedBox::whole(&shape),
        };
        let (path, name) = found.name.rsplit_once('/').unwrap_or(("", &found.name));
        let is_scalar = shape.is_empty();
        let transform = choice.transform(&found.name).filter(|text| *text != "none" && !is_scalar).unwrap_or("");
        let has_statistics = !matches!(becomes, ElementType::Char | ElementType::String);
        let form = Form {
            full: full_name(path, name),
            path: path.to_string(),
            name: name.to_string(),
            element: becomes,
            kind: if is_scalar { Kind::Scalar } else { Kind::Global },
            dimensions: lattice.count.len() + usize::from(width.is_some()),
            statistics: if has_statistics { Statistics::Default } else { Statistics::Off },
            transform: if has_statistics { transform.to_string() } else { String::new() },
        };
        Ok(Variable { found, form: Arc::new(form), element, along, lattice, width })
    }

    /// The variable at a step, with its position along the axis of steps; `None` if it has none there.
    fn at(&self, step: u64, is_first: bool, steps: &Steps) -> Option<(&Self, Option<u64>)> {
        match self.along {
            Some((_, axis)) => steps.position(axis, step).map(|position| (self, Some(position))),
            None => is_first.then_some((self, None)),
        }
    }

    /// Shape of the array, with the axis of characters.
    fn shape(&self) -> Vec<u64> {
        self.lattice.count.iter().copied().chain(self.width).collect()
    }

    fn size(&self) -> u64 {
        self.width.unwrap_or(1).saturating_mul(self.element.size().max(1))
    }

    fn bytes(&self, numbers: &[u64], steps: &Steps) -> u64 {
        let times = match self.along {
            Some((_, axis)) => numbers.iter().filter(|step| steps.position(axis, **step).is_some()).count() as u64,
            None => 1,
        };
        let elements = self.lattice.count.iter().fold(1u64, |all, extent| all.saturating_mul(*extent));
        elements.saturating_mul(self.size()).saturating_mul(times)
    }

    /// The blocks, without the axis of characters.
    fn parts(&self, blocks: &Blocks, most: u64) -> Vec<BoundingBox> {
        match blocks {
            Blocks::Grid(grid) if grid.len() == self.lattice.count.len() => divide(&self.lattice.count, grid),
            Blocks::Grid(_) | Blocks::AsWritten | Blocks::Merged => pieces(&self.lattice.count, self.size(), most),
        }
    }

    fn place(&self, part: &BoundingBox) -> Place {
        Place {
            shape: self.shape(),
            offset: part.offset.iter().copied().chain(self.width.map(|_| 0)).collect(),
            count: part.count.iter().copied().chain(self.width).collect(),
        }
    }

    /// The values of a block.
    fn read(&self, file: &dyn Source, part: &BoundingBox, position: Option<u64>) -> Result<Vec<u8>> {
        let span = self.lattice.span_of(part);
        let (mut offset, mut stride, mut count) = (span.offset, self.lattice.stride.clone(), part.count.clone());
        if let (Some((axis, _)), Some(position)) = (self.along, position) {
            offset.insert(axis, position);
            stride.insert(axis, 1);
            count.insert(axis, 1);
        }
        if self.found.form == Sort::Texts {
            return Ok(self.texts(&offset, &stride, &count));
        }
        let bytes = file.read(self.found, &offset, &stride, &count)?;
        match (self.element, self.form.element) {
            (ElementType::String, _) => Ok(trimmed(&bytes)),
            (own, becomes) if own != becomes => cast::cast(own, becomes, &bytes),
            _ => Ok(bytes),
        }
    }

    /// Texts of any length, filled up with zeros; of a single one its bytes.
    fn texts(&self, offset: &[u64], stride: &[u64], count: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut at = vec![0u64; count.len()];
        for _ in 0..count.iter().product::<u64>() {
            let number = (0..count.len())
                .fold(0, |number, d| number * self.found.shape[d] + offset[d] + at[d] * stride[d].max(1));
            let text = self.found.texts.get(number as usize).map(Vec::as_slice).unwrap_or_default();
            bytes.extend_from_slice(text);
            if let Some(width) = self.width {
                bytes.resize(bytes.len() + width as usize - text.len().min(width as usize), 0);
            }
            for d in (0..count.len()).rev() {
                at[d] += 1;
                if at[d] < count[d] {
                    break;
                }
                at[d] = 0;
            }
        }
        bytes
    }

    /// Names of its axes, those of characters too; `None` if no axis has one.
    fn axes(&self) -> Option<Vec<String>> {
        let skipped = self.along.map(|(axis, _)| axis);
        let named: Vec<&Option<String>> =
            self.found.axes.iter().enumerate().filter(|(at, _)| Some(*at) != skipped).map(|(_, axis)| axis).collect();
        if named.iter().all(|axis| axis.is_none()) {
            return None;
        }
        let name = |(at, axis): (usize, &Option<String>)| axis.clone().unwrap_or_else(|| format!("dim_{at}"));
        let own = named.into_iter().enumerate().map(name);
        Some(own.chain(self.width.map(|width| format!("string{width}"))).collect())
    }
}

/// All attributes of the target.
fn attributes(
    content: &Content,
    variables: &[Variable<'_>],
    steps: &Steps,
    left_out: &mut Vec<LeftOut>,
) -> Vec<Attribute> {
    let mut all = Vec::new();
    let mut add = |path: &str, there: &There, left_out: &mut Vec<LeftOut>| match value(there, path, left_out) {
        Ok((element, value)) => all.push(attribute(path, &there.name, element, value)),
        Err(why) => left_out.push(LeftOut::new(full_name(path, &there.name), format!("the attribute: {why}"))),
    };
    for (group, of) in &content.groups {
        of.iter().for_each(|there| add(group, there, left_out));
    }
    let (mut made, is_alone) = (Vec::new(), steps.numbers().len() == 1);
    for variable in variables {
        let Found { name, form, attributes: of, .. } = variable.found;
        of.iter().for_each(|there| add(name, there, left_out));
        let has = |key: &str| of.iter().any(|there| there.name == key);
        let mut own = |key: &str, element: ElementType, value: AttributeValue| {
            if !has(key) {
                made.push(attribute(name, key, element, value));
            }
        };
        if let Some(axes) = variable.axes().filter(|axes| !axes.is_empty()) {
            let axes = axes.into_iter().map(|axis| Value::String(axis.into_bytes())).collect();
            own(AXES, ElementType::String, AttributeValue::Many(ElementType::String, axes));
        }
        match variable.along {
            Some((_, axis)) if axis != "step" => own(STEPS, ElementType::String, text(axis)),
            None if is_alone => own(STEPS, ElementType::String, text("")),
            Some(_) | None => {}
        }
        if variable.width.is_some() {
            own("_Encoding", ElementType::String, text("utf-8"));
        }
        if let Sort::Enumeration(kind, members) = form {
            let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
            match (&names[..], element_of(*kind)) {
                (["FALSE", "TRUE"], _) => own("dtype", ElementType::String, text("bool")),
                (names, Some(element)) if !names.is_empty() => {
                    let values =
                        members.iter().filter_map(|(_, bytes)| Value::from_bytes(element, bytes, ByteOrder::NATIVE));
                    own("flag_values", element, AttributeValue::Many(element, values.collect()));
                    let meanings: Vec<String> =
                        names.iter().map(|name| name.replace(char::is_whitespace, "_")).collect();
                    own("flag_meanings", ElementType::String, text(&meanings.join(" ")));
                }
                _ => {}
            }
        }
    }
    all.append(&mut made);
    all
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::One(Value::String(text.as_bytes().to_vec()))
}

fn attribute(path: &str, key: &str, element: ElementType, value: AttributeValue) -> Attribute {
    Attribute {
        name: full_name(path, key),
        path: path.to_string(),
        short_name: key.to_string(),
        group: GROUP.to_string(),
        element,
        value,
        variable: None,
        internal: false,
    }
}

/// The value of an attribute, or why it has none.
fn value(
    there: &There,
    path: &str,
    left_out: &mut Vec<LeftOut>,
) -> std::result::Result<(ElementType, AttributeValue), String> {
    let (element, mut values) = match &there.value {
        Held::Numbers(kind, bytes) => {
            let element = element_of(*kind).ok_or("its type")?;
            let values = bytes.chunks_exact(element.size() as usize);
            (element, values.filter_map(|bytes| Value::from_bytes(element, bytes, ByteOrder::NATIVE)).collect())
        }
        Held::Texts(texts) => {
            (ElementType::String, texts.iter().map(|text| Value::String(text.clone())).collect::<Vec<Value>>())
        }
        Held::Other(why) => return Err(why.clone()),
    };
    if there.shape.len() > 1 {
        let why = format!("the attribute: of its shape {:?} one row of all values is left", there.shape);
        left_out.push(LeftOut::new(full_name(path, &there.name), why));
    }
    match values.len() {
        0 => Err("it has no values".to_string()),
        1 => Ok((element, AttributeValue::One(values.remove(0)))),
        _ => Ok((element, AttributeValue::Many(element, values))),
    }
}
