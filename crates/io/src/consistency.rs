//! Full consistency, for development: ranks compare an output at open and at close.
//!
//! Delayed consistency is the default: ranks write without comparing, and if they disagree, so do the blocks of the file. With
//! [`PARAMETER`]`=full` on a method of the group, or `THALWEG_CONSISTENCY=full` for all outputs:
//!
//! | when | compared | a difference |
//! |---|---|---|
//! | open | name of the group, path, mode, methods with their parameters | fails the open on all ranks, before a file is touched |
//! | close | type, number of dimensions and global extents of each variable that several ranks wrote | fails the close on all ranks: the step is not written |
//! | close | boxes of global arrays: overlaps, and elements that no rank wrote | is a warning from rank 0: programs write halos and parts of arrays on purpose |
//!
//! If one rank requires it, all ranks compare: they learn it in the reduction of every open. A panic on one rank fails the call on all.
//!
//! Cost: at open one gather and one reduction more; at close the same, and rank 0 compares all boxes of each array.

use std::collections::BTreeMap;
use std::fmt::Write;
use thalweg_bp::shape::{JOINED, Shape};
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::Communicator;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_movement::method::{Parameter, Parameters};
use thalweg_movement::{BlockSpec, Mode};
use thalweg_schema::MethodChoice;
use thalweg_types::{BoundingBox, ByteOrder, ElementType, Error, ErrorKind, Result, bounding_box};

/// `consistency`, known to every method.
pub const PARAMETER: Parameter = Parameter::choice(
    "consistency",
    &["delayed", "full"],
    "full, for development: ranks compare group, path, mode and methods at open, types and shapes at close, and a mismatch fails the call on all of them",
);

/// The environment variable that enables it for all outputs of a process.
pub const VARIABLE: &str = "THALWEG_CONSISTENCY";

/// The operation, for messages.
const COMPARING: &str = "compare the output between ranks";

/// Whether the parameter of a method requires full consistency.
pub fn is_requested_by(choice: &MethodChoice) -> bool {
    Parameters::from(choice.parameters.clone()).get::<String>(&PARAMETER).is_ok_and(|word| word == "full")
}

/// Whether the environment enables it.
///
/// # Errors
/// `Config` for another word than `delayed` and `full`.
pub fn by_environment() -> Result<bool> {
    let Some(value) = std::env::var_os(VARIABLE) else { return Ok(false) };
    let value = value.to_string_lossy().trim().to_ascii_lowercase();
    match value.as_str() {
        "" | "delayed" => Ok(false),
        "full" => Ok(true),
        _ => Err(Error::new(
            ErrorKind::Config,
            format!("environment variable {VARIABLE}={value}: expected delayed or full"),
        )),
    }
}

/// An output as one rank opens it.
pub(crate) struct Opening<'o> {
    pub group: &'o str,
    pub path: &'o str,
    pub mode: Mode,
    pub methods: &'o [MethodChoice],
}

impl Opening<'_> {
    /// The texts that are compared and shown, each with its subject.
    fn said(&self) -> [(&'static str, String); 4] {
        let mode = match self.mode {
            Mode::Write => "\"w\"".to_string(),
            Mode::Append => "\"a\"".to_string(),
            Mode::Update => "\"u\"".to_string(),
            Mode::AppendAfter(step) => format!("append after step {step}"),
        };
        let method = |m: &MethodChoice| {
            let mut text = m.method.clone();
            m.parameters.iter().for_each(|(key, value)| _ = write!(text, " {key}={value}"));
            if !m.base_path.is_empty() {
                let _ = write!(text, " below {}", m.base_path);
            }
            text
        };
        let methods = self.methods.iter().map(method).collect::<Vec<_>>().join(", ");
        [
            ("group", format!("\"{}\"", self.group)),
            ("path", format!("\"{}\"", self.path)),
            ("mode", mode),
            ("methods", methods),
        ]
    }
}

/// Collective, before an output is opened: checks that all ranks open the same output.
///
/// # Errors
/// `InvalidArgument` on all ranks, naming the first rank that differs from rank 0, and the difference; a lost rank.
pub(crate) fn check_opening(comm: &dyn Communicator, own: &Opening<'_>) -> Result<()> {
    let said = caught(COMPARING, || {
        let mut bytes = Vec::new();
        own.said().iter().for_each(|(_, text)| put_text(&mut bytes, text));
        Ok(bytes)
    });
    compare(comm, said, "open the output", "no file was touched", |all| {
        let all: Result<Vec<Vec<String>>> = all.iter().map(|bytes| texts(bytes)).collect();
        Ok(first_difference(&all?, &own.said().map(|(what, _)| what)))
    })
}

/// The first rank whose texts differ from those of rank 0.
fn first_difference(all: &[Vec<String>], about: &[&str]) -> Option<String> {
    let first = all.first()?;
    for (rank, other) in all.iter().enumerate().skip(1) {
        for ((what, a), b) in about.iter().zip(first).zip(other) {
            if a != b {
                return Some(format!("ranks open different outputs: {what} {a} on rank 0, {b} on rank {rank}"));
            }
        }
    }
    None
}

/// The form of a variable: its shape without the extents of blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// A single value or a text.
    Scalar,
    /// Blocks of their own, of so many dimensions.
    Local(usize),
    /// A global array of these extents; [`JOINED`] if the ranks' blocks are concatenated.
    Global(Vec<u64>),
}

impl Form {
    fn of(shape: Option<&Shape>) -> Form {
        match shape {
            None => Form::Scalar,
            Some(shape) if shape.global.contains(&JOINED) || shape.is_global() => Form::Global(shape.global.clone()),
            Some(shape) => Form::Local(shape.rank()),
        }
    }

    fn words(&self) -> String {
        let extent = |n: &u64| if *n == JOINED { "joined".to_string() } else { n.to_string() };
        match self {
            Form::Scalar => "one value".to_string(),
            Form::Local(rank) => format!("local array of {rank} dimensions"),
            Form::Global(extents) => {
                format!("global array [{}]", extents.iter().map(extent).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// The blocks of one variable that a rank has written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    element: ElementType,
    form: Form,
    /// Of a global array that is not joined: the boxes that hold elements.
    boxes: Vec<BoundingBox>,
}

/// The variables that a rank has written, by full name, while the output is open.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record(BTreeMap<String, Written>);

impl Record {
    /// Records a block; a shape that differs from an earlier block of this rank is also a mismatch, which is found at close.
    pub(crate) fn note(&mut self, spec: &BlockSpec) {
        let form = Form::of(spec.shape.as_ref());
        let name = thalweg_schema::full_name(&spec.path, &spec.name);
        let mut box_of = spec.shape.as_ref().filter(|_| matches!(form, Form::Global(_))).map(Shape::as_box);
        box_of = box_of.filter(|b| !b.is_empty());
        let new = || Written { element: spec.element, form: form.clone(), boxes: Vec::new() };
        let mut key = name.clone();
        // A second form under the name is kept beside the first.
        while self.0.get(&key).is_some_and(|known| known.form != form) {
            key.push('\0');
        }
        let known = self.0.entry(key).or_insert_with(new);
        known.boxes.extend(box_of.filter(|b| !known.boxes.contains(b)));
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, w) in &self.0 {
            put_text(&mut bytes, name);
            bytes.put_u8(w.element.code());
            let (kind, numbers) = match &w.form {
                Form::Scalar => (0, Vec::new()),
                Form::Local(rank) => (1, vec![*rank as u64]),
                Form::Global(extents) => (2, extents.clone()),
            };
            bytes.put_u8(kind);
            put_numbers(&mut bytes, &numbers);
            bytes.put_u64(w.boxes.len() as u64);
            w.boxes.iter().for_each(|b| {
                put_numbers(&mut bytes, &b.offset);
                put_numbers(&mut bytes, &b.count);
            });
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Record> {
        let mut c = Cursor::new(bytes, ByteOrder::NATIVE, 0);
        let mut record = Record::default();
        while c.left() > 0 {
            let name = text(&mut c)?;
            let code = c.u8("type")?;
            let element =
                ElementType::from_code(code).ok_or_else(|| c.fail(ErrorKind::Corrupt, "a type that is none"))?;
            let (kind, extents) = (c.u8("form")?, numbers(&mut c)?);
            let form = match (kind, extents.first()) {
                (0, _) => Form::Scalar,
                (1, Some(rank)) => Form::Local(*rank as usize),
                _ => Form::Global(extents),
            };
            let count = c.u64("boxes")?;
            let boxes = (0..count)
                .map(|_| Ok(BoundingBox { offset: numbers(&mut c)?, count: numbers(&mut c)? }))
                .collect::<Result<_>>()?;
            record.0.insert(name, Written { element, form, boxes });
        }
        Ok(record)
    }
}

/// Collective, before an output is committed: checks that types and shapes agree. Rank 0 warns of overlaps and gaps.
///
/// - `failed`: this rank has failed; its blocks are not compared.
///
/// # Errors
/// `InvalidArgument` on all ranks, naming a variable and two ranks that differ in it; a lost rank.
pub(crate) fn check_written(comm: &dyn Communicator, own: &Record, failed: bool) -> Result<()> {
    let bytes = caught(COMPARING, || Ok(if failed { Vec::new() } else { own.to_bytes() }));
    // A rank that failed leaves gaps that are not a mistake.
    let any_failed = agree(comm, Ok(()), COMPARING, &[u64::from(failed)])?.first() == Some(&1);
    let safe = "the step is not in the file; earlier steps are as they were";
    compare(comm, bytes, "close the output", safe, |all| {
        let all = all.iter().map(|bytes| Record::from_bytes(bytes)).collect::<Result<Vec<_>>>()?;
        let found = mismatch(&all);
        if found.is_none() && !any_failed {
            remarks(&all).iter().for_each(|text| thalweg_warnings::tell_once(text));
        }
        Ok(found)
    })
}

/// The first variable in which two ranks differ.
fn mismatch(all: &[Record]) -> Option<String> {
    let mut known: BTreeMap<&str, (usize, &Written)> = BTreeMap::new();
    for (rank, record) in all.iter().enumerate() {
        for (name, w) in &record.0 {
            let name = name.trim_end_matches('\0');
            let (other, first) = *known.entry(name).or_insert((rank, w));
            let what = match (first.element == w.element, first.form == w.form) {
                (true, true) => continue,
                (false, _) => (first.element.to_string(), w.element.to_string()),
                (true, false) => (first.form.words(), w.form.words()),
            };
            return Some(format!(
                "ranks disagree on variable \"{name}\": {} on rank {other}, {} on rank {rank}",
                what.0, what.1
            ));
        }
    }
    None
}

/// A box, and the rank that wrote it.
type Placed<'b> = (usize, &'b BoundingBox);

/// Warnings of probable mistakes: overlaps, and elements that no rank wrote. At most one of each per array.
fn remarks(all: &[Record]) -> Vec<String> {
    let mut arrays: BTreeMap<&str, (&[u64], Vec<Placed<'_>>)> = BTreeMap::new();
    for (rank, record) in all.iter().enumerate() {
        for (name, w) in &record.0 {
            let Form::Global(extents) = &w.form else { continue };
            if !extents.contains(&JOINED) {
                let of = &mut arrays.entry(name).or_insert((extents, Vec::new())).1;
                of.extend(w.boxes.iter().map(|b| (rank, b)));
            }
        }
    }
    let mut said = Vec::new();
    for (name, (extents, mut boxes)) in arrays {
        boxes.sort_by_key(|(_, b)| b.offset.first().copied());
        if let Some((a, b)) = first_overlap(&boxes) {
            let of = |(rank, b): &Placed<'_>| format!("rank {rank} at {:?} of {:?}", b.offset, b.count);
            said.push(format!(
                "consistency=full: boxes of variable \"{name}\" overlap: {} and {}; which value a reader gets is not defined",
                of(a),
                of(b)
            ));
            continue;
        }
        let written: u128 = boxes.iter().filter_map(|(_, b)| b.elements()).map(u128::from).sum();
        if let Some(whole) = bounding_box::elements(extents).filter(|whole| written < u128::from(*whole)) {
            said.push(format!(
                "consistency=full: no rank wrote {} of the {whole} elements of variable \"{name}\", global array {extents:?}",
                u128::from(whole) - written
            ));
        }
    }
    said
}

/// Two boxes that share an element; `boxes` in the order of their first offset.
fn first_overlap<'p, 'b>(boxes: &'p [Placed<'b>]) -> Option<(&'p Placed<'b>, &'p Placed<'b>)> {
    for (i, a) in boxes.iter().enumerate() {
        let end = a.1.offset.first().zip(a.1.count.first()).map_or(u64::MAX, |(o, c)| o.saturating_add(*c));
        let mut near = boxes[i + 1..].iter().take_while(|b| b.1.offset.first().is_none_or(|o| *o < end));
        if let Some(b) = near.find(|b| a.1.intersect(b.1).is_some()) {
            return Some((a, b));
        }
    }
    None
}

/// Collective: rank 0 compares the bytes of all ranks. A panic on one rank fails the call on all.
///
/// - `own`: this rank's bytes; `difference`: finds a difference among those of all ranks, on rank 0.
fn compare(
    comm: &dyn Communicator,
    own: Result<Vec<u8>>,
    doing: &str,
    safe: &str,
    difference: impl FnOnce(Vec<Vec<u8>>) -> Result<Option<String>>,
) -> Result<()> {
    let (bytes, own) = match own {
        Ok(bytes) => (bytes, Ok(())),
        Err(e) => (Vec::new(), Err(e)),
    };
    let found = match comm.gather(0, &bytes)? {
        Some(all) => caught(COMPARING, || difference(all)),
        None => Ok(None),
    };
    tell(comm, own.and(found), doing, safe)
}

/// Collective: a difference found by rank 0 fails the call on all ranks.
fn tell(comm: &dyn Communicator, found: Result<Option<String>>, doing: &str, safe: &str) -> Result<()> {
    let (found, outcome) = match found {
        Ok(found) => (found, Ok(())),
        Err(e) => (None, Err(e)),
    };
    agree(comm, outcome, doing, &[])?;
    let mut text = found.unwrap_or_default().into_bytes();
    comm.broadcast(0, &mut text)?;
    if text.is_empty() {
        return Ok(());
    }
    let what = format!("{} (consistency=full)", String::from_utf8_lossy(&text));
    Err(Error::new(ErrorKind::InvalidArgument, what).safe(safe).at_rank(comm.rank()))
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.put_u64(text.len() as u64);
    bytes.put(text.as_bytes());
}

fn text(c: &mut Cursor<'_>) -> Result<String> {
    let length = c.u64("length")?;
    Ok(String::from_utf8_lossy(c.take_u64(length, "text")?).into_owned())
}

fn texts(bytes: &[u8]) -> Result<Vec<String>> {
    let mut c = Cursor::new(bytes, ByteOrder::NATIVE, 0);
    let mut all = Vec::new();
    while c.left() > 0 {
        all.push(text(&mut c)?);
    }
    Ok(all)
}

fn put_numbers(bytes: &mut Vec<u8>, numbers: &[u64]) {
    bytes.put_u8(numbers.len() as u8);
    numbers.iter().for_each(|n| bytes.put_u64(*n));
}

fn numbers(c: &mut Cursor<'_>) -> Result<Vec<u64>> {
    let count = c.u8("count")?;
    (0..count).map(|_| c.u64("number")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(extents: &[u64], boxes: &[(&[u64], &[u64])]) -> Written {
        Written {
            element: ElementType::F64,
            form: Form::Global(extents.to_vec()),
            boxes: boxes.iter().map(|(o, c)| BoundingBox::new(o.to_vec(), c.to_vec())).collect(),
        }
    }

    fn record(of: &[(&str, Written)]) -> Record {
        Record(of.iter().map(|(n, w)| (n.to_string(), w.clone())).collect())
    }

    #[test]
    fn what_was_written_comes_through_as_bytes() {
        let scalar = Written { element: ElementType::I32, form: Form::Scalar, boxes: Vec::new() };
        let local = Written { element: ElementType::F32, form: Form::Local(3), boxes: Vec::new() };
        let own =
            record(&[("a", global(&[4, 4], &[(&[0, 0], &[2, 4]), (&[2, 0], &[1, 4])])), ("b/c", scalar), ("d", local)]);
        assert_eq!(Record::from_bytes(&own.to_bytes()).unwrap(), own);
    }

    #[test]
    fn thousands_of_ranks_that_tile_an_array_agree_and_one_that_lies_elsewhere_is_named() {
        let rows = |ranks: u64, off: u64| -> Vec<Record> {
            let at = |r: u64| if r == 1234 { r - off } else { r };
            (0..ranks).map(|r| record(&[("t", global(&[ranks, 8], &[(&[at(r), 0], &[1, 8])]))])).collect()
        };
        assert_eq!((mismatch(&rows(4000, 0)), remarks(&rows(4000, 0))), (None, Vec::new()));
        let [said] = &remarks(&rows(4000, 1))[..] else { panic!("one remark") };
        assert!(said.contains("rank 1233") && said.contains("rank 1234") && said.contains("overlap"), "{said}");
        let mut torn = rows(4000, 0);
        torn[3000] = Record::default();
        let [said] = &remarks(&torn)[..] else { panic!("one remark") };
        assert!(said.contains("no rank wrote 8 of the 32000 elements"), "{said}");
        torn[3000] = record(&[("t", global(&[4001, 8], &[(&[3000, 0], &[1, 8])]))]);
        let said = mismatch(&torn).unwrap();
        assert!(said.contains("[4000, 8] on rank 0, global array [4001, 8] on rank 3000"), "{said}");
    }

    #[test]
    fn boxes_overlap_only_where_they_share_an_element() {
        let touching = [(0, BoundingBox::new([0, 0], [4, 2])), (1, BoundingBox::new([0, 2], [4, 2]))];
        let of = |all: &[(usize, BoundingBox)]| {
            first_overlap(&all.iter().map(|(r, b)| (*r, b)).collect::<Vec<_>>()).is_some()
        };
        assert!(!of(&touching));
        assert!(of(&[touching[0].clone(), touching[1].clone(), (2, BoundingBox::new([3, 1], [1, 1]))]));
    }
}
