//! A BP file beside a file of another format: whether the one has what the other's conversion would have.

use crate::source::found::{Content, Form, Found, Value as Held, trimmed};
use crate::source::{Source, open};
use crate::values::{Part, element_of, hand_on};
use std::collections::{BTreeMap, HashMap};
use thalweg_choice::Choice;
use thalweg_convert::{Compared, Difference, Format, Message, Request, Side};
use thalweg_diff::values::{self, Differing, Tolerance};
use thalweg_reader::Reader;
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result, Value};
use thalweg_views::Chosen;
use thalweg_views::hdf5::{self, Attribute, Conversion, Dataset, Elements, Kind, Values};

/// How files are compared.
pub struct How {
    /// How far values may be apart.
    pub tolerance: Tolerance,
    /// Attributes too.
    pub attributes: bool,
}

/// Compares a BP file, the request's source, with another file, its target; tells each difference in the order of the BP file's variables.
///
/// # Errors
/// Those of reads.
pub fn compare(request: &Request, format: Format, how: &How, tell: &dyn Fn(Message)) -> Result<Compared> {
    let choice = request.chosen.parse()?;
    let reader = Reader::open(thalweg_io::mounts::layout()?, &request.source)?;
    let most = (request.memory / 8).max(1 << 20);
    let view = hdf5::converted(&reader, Conversion { chosen: Chosen { choice: &choice, most }, chunks: &[] })?;
    let named = |e: Error| e.in_object(&*request.target);
    let file = open(&request.target, format)?;
    let content = file.content();
    // A scale without values is the axis of another dataset.
    let is_axis = |dataset: &&Dataset| dataset.scale.is_some() && dataset.content == Elements::Missing;
    let datasets: Vec<Dataset> = view.plan.datasets.iter().filter(|dataset| !is_axis(dataset)).cloned().collect();
    let mut both = Both { how, tell, file: &*file, compared: Compared::default(), differing: Vec::new() };
    let there: HashMap<&str, &Found> = content
        .datasets
        .iter()
        .filter(|found| !found.is_only_an_axis)
        .map(|found| (found.name.as_str(), found))
        .collect();
    let mut others: Vec<Option<&Found>> = Vec::new();
    both.differing = vec![false; datasets.len()];
    for (number, dataset) in datasets.iter().enumerate() {
        let found = both.begin(number, dataset, &there).map_err(|e| named(e.in_variable(dataset.name.clone())))?;
        others.push(found);
    }
    let mut steps: HashMap<(usize, u64), Step> = HashMap::new();
    hand_on(&reader, &datasets, most, &mut |part| {
        let dataset = &datasets[part.dataset];
        let Some(found) = others[part.dataset] else { return Ok(()) };
        let step = if dataset.is_unlimited { part.bounds.offset[0] } else { 0 };
        let of = both.part(dataset, found, &part).map_err(|e| named(e.in_variable(dataset.name.clone())))?;
        steps.entry((part.dataset, step)).or_default().add(of);
        Ok(())
    })?;
    let sorted: BTreeMap<(usize, u64), Step> = steps.into_iter().collect();
    for ((number, step), found) in sorted {
        both.values(number, &datasets[number], step, found);
    }
    let only_there = content.datasets.iter().filter(|found| !found.is_only_an_axis && choice.has(&found.name));
    let known: HashMap<&str, &Dataset> = datasets.iter().map(|dataset| (dataset.name.as_str(), dataset)).collect();
    for found in only_there.filter(|found| !known.contains_key(found.name.as_str())) {
        both.compared.variables += 1;
        both.compared.differing += 1;
        (both.tell)(Message::Differs(Difference::Variable { name: found.name.clone(), only_in: Side::Target }));
    }
    both.compared.variables += datasets.len() as u64;
    both.compared.differing += both.differing.iter().filter(|differs| **differs).count() as u64;
    if how.attributes {
        both.attributes(&view.plan.attributes, &datasets, content, &choice);
    }
    Ok(both.compared)
}

/// What differs in a step of a dataset.
#[derive(Default)]
struct Step {
    elements: u64,
    differing: u64,
    worst: Option<(f64, Vec<u64>, (Value, Value))>,
}

/// What differs in a part: how many elements of how many, and the largest difference with its place and values.
type InPart = (u64, u64, Option<(f64, Vec<u64>, (Value, Value))>);

impl Step {
    fn add(&mut self, (elements, differing, worst): InPart) {
        self.elements += elements;
        self.differing += differing;
        let larger = |(largest, ..): &(f64, Vec<u64>, (Value, Value))| {
            self.worst.as_ref().is_none_or(|(known, ..)| largest > known)
        };
        if let Some(worst) = worst.filter(larger) {
            self.worst = Some(worst);
        }
    }
}

/// Two files.
struct Both<'f> {
    how: &'f How,
    tell: &'f dyn Fn(Message),
    file: &'f dyn Source,
    compared: Compared,
    /// By position of the dataset.
    differing: Vec<bool>,
}

impl Both<'_> {
    fn differs(&mut self, number: usize, difference: Difference) {
        self.differing[number] = true;
        (self.tell)(Message::Differs(difference));
    }

    /// Compares what is known without reading arrays; returns the dataset of the other file if its values are to be compared.
    fn begin<'c>(
        &mut self,
        number: usize,
        dataset: &Dataset,
        there: &HashMap<&str, &'c Found>,
    ) -> Result<Option<&'c Found>> {
        let name = dataset.name.clone();
        let Some(found) = there.get(name.as_str()) else {
            self.differs(number, Difference::Variable { name, only_in: Side::Source });
            return Ok(None);
        };
        let other = element_there(found);
        let own = if dataset.kind == Kind::Text {
            ElementType::String
        } else {
            element_of(dataset.kind).unwrap_or(ElementType::String)
        };
        let comparable = other.is_some_and(|other| {
            values::are_comparable(own, other)
                && own.is_text() == other.is_text()
                && (own == ElementType::Char) == (other == ElementType::Char)
                || own == ElementType::Char && found.form.kind().is_none()
        });
        if !comparable {
            let forms = (own.name().to_string(), other.map_or("another type", ElementType::name).to_string());
            self.differs(number, Difference::Form { name, forms });
            return Ok(None);
        }
        if shape_there(dataset, found) != dataset.shape {
            let shapes = (format!("{:?}", dataset.shape), format!("{:?}", found.shape));
            self.differs(number, Difference::Shape { name, shapes });
            return Ok(None);
        }
        if let Elements::Values(values) = &dataset.content {
            self.inline(number, dataset, values, found)?;
            return Ok(None);
        }
        Ok(Some(found))
    }

    /// Values that the plan has itself: scalars and texts.
    fn inline(&mut self, number: usize, dataset: &Dataset, values: &Values, found: &Found) -> Result<()> {
        let elements: u64 = dataset.shape.iter().product();
        let (zero, one) = (vec![0; found.shape.len()], vec![1; found.shape.len()]);
        let there = match found.form {
            Form::Texts => Vec::new(),
            _ => self.file.read(found, &zero, &one, &found.shape)?,
        };
        let own = values.bytes().unwrap_or_default();
        for at in 0..elements {
            let pair = match values {
                Values::Texts(texts) => {
                    let text = match &found.form {
                        Form::Texts => found.texts.get(at as usize).cloned().unwrap_or_default(),
                        form => trimmed(slice(&there, at, form.size())),
                    };
                    (Value::String(texts[at as usize].clone().into_bytes()), Value::String(text))
                }
                Values::Bytes(_) => {
                    let of = |bytes: &[u8], kind: Kind| {
                        Value::from_bytes(element_of(kind)?, slice(bytes, at, kind.size()), ByteOrder::NATIVE)
                    };
                    match (of(&own, dataset.kind), found.form.kind().and_then(|kind| of(&there, kind))) {
                        (Some(own), Some(other)) => (own, other),
                        _ => continue,
                    }
                }
            };
            if values::differ(&pair.0, &pair.1, self.how.tolerance) {
                let largest = values::difference(&pair.0, &pair.1).map(|largest| format!("{largest:e}"));
                let step = if dataset.is_unlimited { at } else { 0 };
                self.differs(
                    number,
                    Difference::Values {
                        name: dataset.name.clone(),
                        step,
                        differing: 1,
                        elements: 1,
                        largest,
                        index: vec![],
                        values: (shown(&pair.0), shown(&pair.1)),
                    },
                );
            }
        }
        Ok(())
    }

    /// Compares the values of a part.
    fn part(&self, dataset: &Dataset, found: &Found, part: &Part) -> Result<InPart> {
        let axes = found.shape.len();
        let (offset, count) = (&part.bounds.offset[..axes], &part.bounds.count[..axes]);
        let own =
            element_of(dataset.kind).ok_or_else(|| Error::new(ErrorKind::Unsupported, "values without a type"))?;
        let (other, bytes) = match &found.form {
            Form::Texts | Form::Words(_) => {
                (ElementType::Char, letters(self.file, found, offset, count, part.bounds.count.get(axes).copied())?)
            }
            form => {
                let kind = form.kind().and_then(element_of);
                let kind = kind.ok_or_else(|| Error::new(ErrorKind::Unsupported, "values without a type"))?;
                (kind, self.file.read(found, offset, &vec![1; axes], count)?)
            }
        };
        let elements: u64 = part.bounds.count.iter().product();
        let Some(Differing { count: differing, largest, at }) =
            values::compare((own, &part.bytes), (other, &bytes), self.how.tolerance)
        else {
            return Ok((elements, 0, None));
        };
        let value = |element: ElementType, bytes: &[u8]| {
            let there = Value::from_bytes(element, slice(bytes, at, element.size()), ByteOrder::NATIVE);
            there.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a value behind the end of a part"))
        };
        let mut index = vec![0; part.bounds.count.len()];
        let mut rest = at;
        for axis in (0..index.len()).rev() {
            index[axis] = part.bounds.offset[axis] + rest % part.bounds.count[axis];
            rest /= part.bounds.count[axis];
        }
        let index = index.split_off(usize::from(dataset.is_unlimited));
        Ok((elements, differing, Some((largest, index, (value(own, &part.bytes)?, value(other, &bytes)?)))))
    }

    fn values(&mut self, number: usize, dataset: &Dataset, step: u64, found: Step) {
        let Some((largest, index, values)) = found.worst else { return };
        self.differs(
            number,
            Difference::Values {
                name: dataset.name.clone(),
                step,
                differing: found.differing,
                elements: found.elements,
                largest: Some(format!("{largest:e}")),
                index,
                values: (shown(&values.0), shown(&values.1)),
            },
        );
    }

    fn attributes(&mut self, of_file: &[Attribute], datasets: &[Dataset], content: &Content, choice: &Choice) {
        let mut own: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for attribute in of_file {
            own.insert(attribute.key.clone(), planned(attribute));
        }
        for dataset in datasets {
            let found = content.datasets.iter().find(|found| found.name == dataset.name);
            // What a conversion to BP has made of the type.
            let is_made = |one: &&Attribute| {
                found.is_some_and(|found| {
                    made_for(found).contains(&one.key.as_str())
                        && found.attributes.iter().all(|there| there.name != one.key)
                })
            };
            for attribute in dataset.attributes.iter().filter(|one| !is_made(one)) {
                own.insert(format!("{}/{}", dataset.name, attribute.key), planned(attribute));
            }
        }
        let mut other: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let of_groups = content.groups.iter().map(|(name, of)| (name, of));
        let of_datasets = content
            .datasets
            .iter()
            .filter(|found| choice.has(&found.name))
            .map(|found| (&found.name, &found.attributes));
        for (name, of) in of_groups.chain(of_datasets) {
            for there in of {
                let full = if name.is_empty() { there.name.clone() } else { format!("{name}/{}", there.name) };
                other.insert(full, held(&there.value));
            }
        }
        let names: std::collections::BTreeSet<String> = own.keys().chain(other.keys()).cloned().collect();
        for name in names {
            self.compared.attributes += 1;
            let (a, b) = (own.get(&name), other.get(&name));
            let equal = match (a, b) {
                (Some(a), Some(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| !values::differ(a, b, self.how.tolerance))
                }
                _ => false,
            };
            if !equal {
                self.compared.differing_attributes += 1;
                let list = |values: &Vec<Value>| values.iter().map(shown).collect::<Vec<_>>().join(", ");
                let values = (a.map(list), b.map(list));
                (self.tell)(Message::Differs(Difference::Attribute { name, values }));
            }
        }
    }
}

/// The attributes that a conversion to BP makes of the type of a dataset.
fn made_for(found: &Found) -> &'static [&'static str] {
    match found.form {
        Form::Texts | Form::Words(_) => &["_Encoding"],
        Form::Enumeration(..) => &["dtype", "flag_values", "flag_meanings"],
        Form::Numbers(_) | Form::Nearest(..) | Form::Other(_) => &[],
    }
}

fn slice(bytes: &[u8], at: u64, size: u64) -> &[u8] {
    bytes.get((at * size) as usize..((at + 1) * size) as usize).unwrap_or_default()
}

/// The type of a dataset's values; texts of arrays are characters.
fn element_there(found: &Found) -> Option<ElementType> {
    match &found.form {
        Form::Texts => Some(ElementType::String),
        Form::Words(_) => Some(if found.shape.is_empty() { ElementType::String } else { ElementType::Char }),
        form => form.kind().and_then(element_of),
    }
}

/// The shape of a dataset as the plan has it: texts have their bytes as a further axis.
fn shape_there(dataset: &Dataset, found: &Found) -> Vec<u64> {
    let mut shape = found.shape.clone();
    if dataset.kind == Kind::Letter
        && shape.len() + 1 == dataset.shape.len()
        && matches!(found.form, Form::Texts | Form::Words(_))
        && let Some(width) = dataset.shape.last()
        && longest(found) <= *width
    {
        shape.push(*width);
    }
    shape
}

/// Bytes of the longest text that a dataset may have.
fn longest(found: &Found) -> u64 {
    match found.form {
        Form::Words(width) => width,
        _ => found.texts.iter().map(Vec::len).max().unwrap_or(0) as u64,
    }
}

/// Texts of a box as characters, each filled up with zeros.
///
/// - `width`: bytes of each; `None`: they have one byte.
fn letters(file: &dyn Source, found: &Found, offset: &[u64], count: &[u64], width: Option<u64>) -> Result<Vec<u8>> {
    let width = width.unwrap_or(1) as usize;
    let all = count.iter().product::<u64>();
    let mut bytes = Vec::new();
    let there = match &found.form {
        Form::Texts => Vec::new(),
        _ => file.read(found, offset, &vec![1; count.len()], count)?,
    };
    let mut at = vec![0u64; count.len()];
    for number in 0..all {
        let place = (0..count.len()).fold(0, |place, d| place * found.shape[d] + offset[d] + at[d]);
        let text = match &found.form {
            Form::Texts => found.texts.get(place as usize).map(Vec::as_slice).unwrap_or_default(),
            form => slice(&there, number, form.size()),
        };
        let end = bytes.len() + width;
        bytes.extend_from_slice(&text[..text.len().min(width)]);
        bytes.resize(end, 0);
        for d in (0..count.len()).rev() {
            at[d] += 1;
            if at[d] < count[d] {
                break;
            }
            at[d] = 0;
        }
    }
    Ok(bytes)
}

/// The values of an attribute of the plan.
fn planned(attribute: &Attribute) -> Vec<Value> {
    match &attribute.values {
        Values::Texts(texts) => texts.iter().map(|text| Value::String(text.clone().into_bytes())).collect(),
        Values::Bytes(_) => numbers(attribute.kind, &attribute.values.bytes().unwrap_or_default()),
    }
}

/// The values of an attribute of a file.
fn held(value: &Held) -> Vec<Value> {
    match value {
        Held::Numbers(kind, bytes) => numbers(*kind, bytes),
        Held::Texts(texts) => texts.iter().map(|text| Value::String(text.clone())).collect(),
        Held::Other(_) => Vec::new(),
    }
}

fn numbers(kind: Kind, bytes: &[u8]) -> Vec<Value> {
    let Some(element) = element_of(kind) else { return Vec::new() };
    let value = |bytes: &[u8]| Value::from_bytes(element, bytes, ByteOrder::NATIVE);
    bytes.chunks_exact(element.size().max(1) as usize).filter_map(value).collect()
}

/// A value as users read it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", String::from_utf8_lossy(text)),
        Value::Char(byte) => format!("{:?}", char::from(*byte)),
        Value::Complex([re, im]) => format!("({re:?}, {im:?})"),
        Value::DoubleComplex([re, im]) => format!("({re:?}, {im:?})"),
        Value::I64(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::F32(number) => number.to_string(),
        other => other.as_f64().map_or("?".into(), |number| number.to_string()),
    }
}
