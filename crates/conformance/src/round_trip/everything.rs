//! A scenario with everything that a group may hold, described in XML.
//!
//! | names | special feature |
//! |---|---|
//! | `/scalar/TYPE`, `/scalar/label`, `/scalar/text` | one value of each type from every rank; texts of one length and of several |
//! | `/global/TYPE_nd` | n = 1 to 7, cut unevenly along one dimension; with many ranks some blocks are empty |
//! | `/local/TYPE_nd` | n = 1 to 7, extents differ by rank and step |
//! | `/local/rows_or_none`, `/local/some_or_none` | extents {0 or more, 3} and {0 or more} |
//! | `/optional/...` | written in some steps, by some ranks, or never |
//! | `/several/...` | several blocks per rank and step |
//! | `/joined/...` | no offsets in the document; one block or two per rank |
//! | `/holes`, `/growing`, `/empty/...` | no block covers all of it; the shape changes; a shape with an extent of 0 |
//! | `/special/...` | NaN, infinities, the smallest and largest numbers |
//! | `/statistics/...` | none, minimum and maximum alone, or what is recorded by default |
//! | `/large` | thousands of values that stay in place until close |
//! | `/time/series` | a dimension for the time index |
//! | `root`, `/names/...` | unusual names |
//! | `/attribute/...` | each type, one and several; text; the value of a variable |
//! | `/mesh/...` | four kinds of mesh, as attributes |

use super::numbers::{long_double, plain};
use super::{Scenario, Write};
use std::collections::{BTreeMap, HashMap};
use thalweg_bp::shape::Shape;
use thalweg_schema::{AttributeSource, HostLanguage, Statistics, full_name, mesh_attributes, xml};
use thalweg_types::{AttributeValue, ElementType, Value};

/// Types that variables have, text apart.
pub const NUMBERS: [ElementType; 13] = {
    use ElementType::*;
    [I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, LongDouble, Complex, DoubleComplex]
};

/// Global extents by number of dimensions, slowest first. Two of them are said in other ways in the document.
const EXTENTS: [&[u64]; 8] =
    [&[], &[37], &[7, 6], &[5, 4, 6], &[3, 4, 5, 2], &[3, 2, 4, 2, 2], &[2, 3, 2, 4, 2, 2], &[2, 2, 3, 2, 5, 2, 2]];
/// Which of them is cut.
const CUT: [usize; 8] = [0, 0, 1, 1, 2, 2, 3, 4];

/// A type's name as part of a variable's.
pub fn word(element: ElementType) -> String {
    element.name().replace(' ', "_")
}

/// Where rank `rank` begins in an extent that is cut among `ranks`: parts of weights 1, 2, 3, 1, 2, 3...
fn cut(extent: u64, rank: u32, ranks: u32) -> u64 {
    let weight = |r: u32| (0..r).map(|r| u64::from(r % 3) + 1).sum::<u64>();
    extent * weight(rank) / weight(ranks)
}

/// Dimensions as a document of this language lists them.
fn list(dimensions: impl IntoIterator<Item = String>, language: HostLanguage) -> String {
    let mut all: Vec<String> = dimensions.into_iter().collect();
    if language == HostLanguage::Fortran {
        all.reverse();
    }
    all.join(",")
}

/// The XML document of the group `everything`, without a method.
pub fn document(language: HostLanguage) -> String {
    let mut lines = Vec::new();
    let list_of = |dimensions: &[&str]| list(dimensions.iter().map(|d| d.to_string()), language);
    let scalars = [("NX", "integer"), ("rank", "integer"), ("ranks", "integer"), ("row", "long"), ("rows", "integer")];
    for (name, kind) in scalars {
        lines.push(format!(r#"<var name="{name}" type="{kind}"/>"#));
    }
    for name in ["some", "total", "before", "mine", "height", "part"] {
        lines.push(format!(r#"<var name="{name}" type="unsigned integer"/>"#));
    }
    let kinds = ["", "byte", "short", "integer", "long", "unsigned byte", "unsigned short", "unsigned long"];
    for (n, kind) in kinds.iter().enumerate().skip(1) {
        for letter in ["n", "o", "l"] {
            lines.push(format!(r#"<var name="{letter}{n}" path="/size" type="{kind}"/>"#));
        }
    }
    for element in NUMBERS {
        lines.push(format!(r#"<var name="{}" path="/scalar" type="{element}"/>"#, word(element)));
    }
    for text in ["label", "text"] {
        lines.push(format!(r#"<var name="{text}" path="/scalar" type="string"/>"#));
    }
    for n in 1..EXTENTS.len() {
        let extents = EXTENTS[n].iter().map(u64::to_string);
        let global: Vec<String> = match n {
            1 => vec!["2*NX+1".into()],
            2 => vec!["/attribute/height".into(), "/attribute/height-1".into()],
            _ => extents.clone().collect(),
        };
        let cut_by = |letter: &str, other: &dyn Fn(usize) -> String| -> Vec<String> {
            (0..n).map(|d| if d == CUT[n] { format!("/size/{letter}{n}") } else { other(d) }).collect()
        };
        let (local, offsets) = (cut_by("n", &|d| EXTENTS[n][d].to_string()), cut_by("o", &|_| "0".into()));
        let (global, local, offsets) = (list(global, language), list(local, language), list(offsets, language));
        lines.push(format!(r#"<global-bounds dimensions="{global}" offsets="{offsets}">"#));
        for element in NUMBERS {
            let extra = if n == 2 && element == ElementType::F64 { r#" mesh="grid" center="point""# } else { "" };
            let name = word(element);
            lines.push(format!(
                r#"<var name="{name}_{n}d" path="/global" type="{element}" dimensions="{local}"{extra}/>"#
            ));
        }
        lines.push("</global-bounds>".into());
        let local = (0..n).map(|d| if d == 0 { format!("/size/l{n}") } else { local_extent(d).to_string() });
        let local = list(local, language);
        for element in NUMBERS {
            lines.push(format!(
                r#"<var name="{}_{n}d" path="/local" type="{element}" dimensions="{local}"/>"#,
                word(element)
            ));
        }
    }
    lines.push(format!(
        r#"<var name="rows_or_none" path="/local" type="short" dimensions="{}"/>"#,
        list_of(&["some", "3"])
    ));
    lines.push(r#"<var name="some_or_none" path="/local" type="real" dimensions="some"/>"#.into());
    for (name, kind) in [("steps", "double"), ("value", "integer"), ("text", "string"), ("never", "double")] {
        lines.push(format!(r#"<var name="{name}" path="/optional" type="{kind}"/>"#));
    }
    let mut global = |global: &[&str], offsets: &[&str], local: &[&str], variables: &str| {
        let (global, offsets, local) = (list_of(global), list_of(offsets), list_of(local));
        let variables = variables.replace("LOCAL", &format!(r#"dimensions="{local}""#));
        lines.push(format!(r#"<global-bounds dimensions="{global}" offsets="{offsets}">{variables}</global-bounds>"#));
    };
    global(&["2*NX+1"], &["/size/o1"], &["/size/n1"], r#"<var name="ranks" path="/optional" type="double" LOCAL/>"#);
    global(&["3*ranks", "4"], &["row", "0"], &["1", "4"], r#"<var name="rows" path="/several" type="integer" LOCAL/>"#);
    global(&["3*ranks"], &["3*rank"], &["2"], r#"<var name="holes" path="/" type="real" LOCAL/>"#);
    global(&["4+2*height", "3"], &["0", "0"], &["mine", "3"], r#"<var name="growing" type="double" LOCAL/>"#);
    let [rows, columns] = empty_shape(language).map(|n| n.to_string());
    let shape = [rows.as_str(), columns.as_str()];
    global(&shape, &["0", "0"], &shape, r#"<var name="rows" path="/empty" type="double" LOCAL/>"#);
    global(
        &["6*ranks"],
        &["6*rank"],
        &["6"],
        r#"<var name="real" path="/special" type="real" LOCAL/><var name="double" path="/special" type="double" LOCAL/>
           <var name="none" path="/special" type="double" LOCAL/>
           <var name="off" path="/statistics" type="integer" stats="Off" LOCAL/>
           <var name="minmax" path="/statistics" type="real" LOCAL/>
           <var name="default" path="/statistics" type="real" stats="default" LOCAL/>"#,
    );
    let integers: String = NUMBERS[..8]
        .iter()
        .map(|t| format!(r#"<var name="{}" path="/special" type="{t}" LOCAL/>"#, word(*t)))
        .collect();
    global(&["2*ranks"], &["2*rank"], &["2"], &integers);
    global(&["total"], &["before"], &["part"], r#"<var name="large" path="" type="double" copy-on-write="no" LOCAL/>"#);
    global(
        &["2*NX+1"],
        &["/size/o1"],
        &["iteration", "/size/n1"],
        r#"<var name="series" path="/time" type="double" LOCAL/>"#,
    );
    for (name, global, local) in [
        ("rows", ["JoinedDim", "3"].as_slice(), ["/size/l1", "3"].as_slice()),
        ("columns", &["2", "JoinedDim"], &["2", "/size/l1"]),
        ("twice", &["JoinedDim"], &["/size/l1"]),
    ] {
        let (global, local) = (list_of(global), list_of(local));
        lines.push(format!(
            r#"<global-bounds dimensions="{global}"><var name="{name}" path="/joined" type="real" dimensions="{local}"/></global-bounds>"#
        ));
    }
    lines.push(r#"<var name="locals" path="/several" type="integer" dimensions="/size/l1"/>"#.into());
    lines.push(r#"<var name="root" path="/" type="integer"/>"#.into());
    lines.push(r#"<var name="Größe in m" path="/names/with blanks" type="integer"/>"#.into());
    lines.push(r#"<var name="/names/in/name" type="integer"/>"#.into());

    lines.push(r#"<attribute name="height" path="/attribute" type="integer" value="7"/>"#.into());
    for (element, one, several) in attributes() {
        let text = |v: &[Value]| v.iter().map(in_document).collect::<Vec<_>>().join(",");
        let (one, several) = (text(&[one]), text(&several));
        let name = word(element);
        lines.push(format!(r#"<attribute name="{name}" path="/attribute" type="{element}" value="{one}"/>"#));
        lines.push(format!(r#"<attribute name="{name}_list" path="/attribute" type="{element}" value="{several}"/>"#));
    }
    for (name, kind, value) in [
        ("text", "string", "µ = 3,5 °C"),
        ("texts", "string array", "one,two words,three"),
        ("one_text", "string array", "alone"),
    ] {
        lines.push(format!(r#"<attribute name="{name}" path="/attribute" type="{kind}" value="{value}"/>"#));
    }
    lines.push(r#"<attribute name="constant" path="/attribute" var="NX"/>"#.into());
    lines.push(r#"<attribute name="last" path="/attribute" var="/scalar/double"/>"#.into());
    for (name, kind, dimensions) in [
        ("x", "double", "7".into()),
        ("y", "double", "6".into()),
        ("cells", "integer", list_of(&["2", "3"])),
        ("points", "double", list_of(&["4", "2"])),
        ("bent", "double", list_of(&["7", "6"])),
    ] {
        lines.push(format!(r#"<var name="{name}" path="/mesh" type="{kind}" dimensions="{dimensions}"/>"#));
    }
    lines.push(
        r#"<mesh name="grid" type="uniform"><dimensions value="7,6"/><origin value="0,0.5"/><spacing value="1,2"/></mesh>
<mesh name="lines" type="rectilinear" time-varying="no"><dimensions value="7,6"/><coordinates-multi-var value="/mesh/x,/mesh/y"/></mesh>
<mesh name="bent" type="structured" time-varying="yes"><nspace value="2"/><dimensions value="7,6"/><points-multi-var value="/mesh/bent,/mesh/bent"/></mesh>
<mesh name="cells" type="unstructured"><number-of-points value="4"/><points-single-var value="/mesh/points"/>
  <uniform-cells count="2" data="/mesh/cells" type="triangle"/></mesh>"#
            .into(),
    );
    let words = if language == HostLanguage::Fortran { "Fortran" } else { "C" };
    format!(
        "<adios-config host-language=\"{words}\" schema-version=\"1.1\">\n\
         <adios-group name=\"everything\" time-index=\"iteration\" stats=\"On\">\n{}\n</adios-group>\n</adios-config>\n",
        lines.join("\n")
    )
}

/// Extents of local arrays behind the first dimension.
fn local_extent(dimension: usize) -> u64 {
    if dimension == 1 { 3 } else { 2 }
}

/// A shape with nothing in it; files keep the extent of 0 first (see the module `edge_cases` for the other way round).
fn empty_shape(language: HostLanguage) -> [u64; 2] {
    if language == HostLanguage::Fortran { [5, 0] } else { [0, 5] }
}

/// Values of attributes: each type with one value, and with several.
fn attributes() -> Vec<(ElementType, Value, Vec<Value>)> {
    use ElementType::*;
    let values = |t: ElementType| -> [Value; 3] {
        match t {
            I8 => [-128, 0, 127].map(Value::I8),
            I16 => [i16::MIN, 1, i16::MAX].map(Value::I16),
            I32 => [i32::MIN, 2, i32::MAX].map(Value::I32),
            I64 => [i64::MIN, 3, i64::MAX].map(Value::I64),
            U8 => [255, 0, 4].map(Value::U8),
            U16 => [u16::MAX, 0, 5].map(Value::U16),
            U32 => [u32::MAX, 0, 6].map(Value::U32),
            U64 => [u64::MAX, 0, 7].map(Value::U64),
            F32 => [0.1, -2.5e30, 3.0].map(Value::F32),
            F64 => [0.1, -2.5e300, 3.0].map(Value::F64),
            LongDouble => [1.5, -0.25, 3e100].map(|v| Value::LongDouble(long_double(v))),
            Complex => [[0.5, -1.0], [0.25, 2.0], [0.0, 0.0]].map(Value::Complex),
            _ => [[0.1, -1e100], [0.25, 2.0], [0.0, 0.0]].map(Value::DoubleComplex),
        }
    };
    NUMBERS.iter().map(|t| (*t, values(*t)[0].clone(), values(*t).to_vec())).collect()
}

/// A value as a document gives it.
fn in_document(value: &Value) -> String {
    match value {
        Value::Complex([re, im]) => format!("({re},{im})"),
        Value::DoubleComplex([re, im]) => format!("({re},{im})"),
        Value::LongDouble(bytes) => thalweg_types::value::long_double_to_f64(bytes).to_string(),
        other => other.to_string(),
    }
}

/// The writes of the ranks, in order.
struct Writer<'s> {
    positions: HashMap<String, usize>,
    /// Writes of the current rank and step.
    writes: &'s mut Vec<Write>,
    /// Varies the values.
    seed: String,
}

impl Writer<'_> {
    fn put(&mut self, name: &str, shape: Option<Shape>, bytes: Vec<u8>) {
        let variable = *self.positions.get(name).unwrap_or_else(|| panic!("no variable {name}"));
        let deferred = shape.is_some() && (name == "large" || self.writes.len().is_multiple_of(5));
        self.writes.push(Write { variable, shape, bytes, deferred });
    }

    /// Whole numbers of the size the variable has.
    fn number<const N: usize>(&mut self, name: &str, bytes: [u8; N]) {
        self.put(name, None, bytes.to_vec());
    }

    fn text(&mut self, name: &str, text: &str) {
        self.put(name, None, text.as_bytes().to_vec());
    }

    fn doubles(&mut self, name: &str, shape: Shape, values: impl IntoIterator<Item = f64>) {
        self.put(name, Some(shape), values.into_iter().flat_map(f64::to_ne_bytes).collect());
    }

    fn array(&mut self, name: &str, element: ElementType, shape: Shape) {
        let seed = format!("{name} {} {}", self.seed, self.writes.len());
        let bytes = plain(element, &seed, shape.elements().unwrap_or(0));
        self.put(name, Some(shape), bytes);
    }
}

/// The scenario, for so many ranks and steps.
///
/// # Panics
/// Where the document is wrong.
pub fn scenario(ranks: u32, steps: u64, language: HostLanguage) -> Scenario {
    let mut schema = xml::parse(&document(language), "everything.xml").unwrap_or_else(|e| panic!("{e}"));
    let group = &mut schema.groups[0];
    for v in group.variables.iter_mut().filter(|v| v.full_name() == "/statistics/minmax") {
        v.statistics = Some(Statistics::MinMax);
    }
    let positions: HashMap<String, usize> =
        group.variables.iter().enumerate().map(|(i, v)| (v.full_name(), i)).collect();
    let mut all = vec![vec![Vec::new(); ranks as usize]; steps as usize];
    for (step, of_step) in all.iter_mut().enumerate() {
        for (rank, writes) in of_step.iter_mut().enumerate() {
            let seed = format!("{step} {rank}");
            let mut w = Writer { positions: positions.clone(), writes, seed };
            one_rank(&mut w, rank as u32, ranks, step as u64, empty_shape(language));
        }
    }
    let mut said: BTreeMap<String, AttributeValue> = BTreeMap::new();
    let mut say = |name: &str, value: AttributeValue| said.insert(format!("/attribute/{name}"), value);
    let text = |t: &str| Value::String(t.as_bytes().to_vec());
    say("height", AttributeValue::One(Value::I32(7)));
    for (element, one, several) in attributes() {
        say(&word(element), AttributeValue::One(one));
        say(&format!("{}_list", word(element)), AttributeValue::Many(element, several));
    }
    say("text", AttributeValue::One(text("µ = 3,5 °C")));
    let texts = ["one", "two words", "three"].map(text).to_vec();
    say("texts", AttributeValue::Many(ElementType::String, texts));
    say("one_text", AttributeValue::Many(ElementType::String, vec![text("alone")]));
    say("constant", AttributeValue::One(Value::I32(18)));
    let last = plain(ElementType::F64, &format!("/scalar/double {} 0", steps - 1), 1);
    let last = Value::from_bytes(ElementType::F64, &last, thalweg_types::ByteOrder::NATIVE).unwrap_or(Value::I8(0));
    say("last", AttributeValue::One(last));
    for a in mesh_attributes(group) {
        let AttributeSource::One(value) = a.value else { panic!("a mesh attribute of several values") };
        said.insert(full_name(&a.path, &a.name), AttributeValue::One(value));
    }
    Scenario { schema, steps: all, attributes: said }
}

fn one_rank(w: &mut Writer<'_>, rank: u32, ranks: u32, step: u64, empty: [u64; 2]) {
    let (r, size) = (u64::from(rank), u64::from(ranks));
    w.number("NX", 18i32.to_ne_bytes());
    w.number("rank", (rank as i32).to_ne_bytes());
    w.number("ranks", (ranks as i32).to_ne_bytes());
    for n in 1..EXTENTS.len() {
        let extent = EXTENTS[n][CUT[n]];
        let start = cut(extent, rank, ranks);
        let sizes = [cut(extent, rank + 1, ranks) - start, start, 2 + (r + step) % 3];
        for (letter, value) in ["n", "o", "l"].iter().zip(sizes) {
            let bytes = [0, 1, 2, 4, 8, 1, 2, 8][n];
            w.put(&format!("/size/{letter}{n}"), None, value.to_ne_bytes()[..bytes].to_vec());
        }
    }
    for element in NUMBERS {
        let name = format!("/scalar/{}", word(element));
        let value = plain(element, &format!("{name} {step} {rank}"), 1);
        w.put(&name, None, value);
    }
    w.text("/scalar/label", &format!("rank {rank:02} step {step:02}"));
    w.text("/scalar/text", &"é".repeat((r + 2 * step) as usize));
    for n in 1..EXTENTS.len() {
        let global = EXTENTS[n].to_vec();
        let (mut local, mut offset) = (global.clone(), vec![0; n]);
        offset[CUT[n]] = cut(global[CUT[n]], rank, ranks);
        local[CUT[n]] = cut(global[CUT[n]], rank + 1, ranks) - offset[CUT[n]];
        let mut own: Vec<u64> = (0..n).map(local_extent).collect();
        own[0] = 2 + (r + step) % 3;
        for element in NUMBERS {
            let shape = Shape::global(local.clone(), global.clone(), offset.clone());
            w.array(&format!("/global/{}_{n}d", word(element)), element, shape);
            w.array(&format!("/local/{}_{n}d", word(element)), element, Shape::local(own.clone()));
        }
    }
    let some = 2 * ((r + step) % 3);
    w.number("some", (some as u32).to_ne_bytes());
    w.array("/local/rows_or_none", ElementType::I16, Shape::local([some, 3]));
    w.array("/local/some_or_none", ElementType::F32, Shape::local([some]));

    if step % 2 == 1 {
        w.number("/optional/steps", (0.5 * step as f64).to_ne_bytes());
    }
    if rank + 1 == ranks {
        w.number("/optional/value", (7 * step as i32).to_ne_bytes());
    }
    if (r + step) % 2 == 1 {
        w.text("/optional/text", &format!("only {rank} of {step}"));
    }
    let start = cut(37, rank, ranks);
    let line = Shape::global([cut(37, rank + 1, ranks) - start], [37], [start]);
    if rank.is_multiple_of(2) {
        w.array("/optional/ranks", ElementType::F64, line.clone());
    }
    w.array("/time/series", ElementType::F64, line);
    for row in [2 * size + r, r, size + r] {
        w.number("row", (row as i64).to_ne_bytes());
        w.array("/several/rows", ElementType::I32, Shape::global([1, 4], [3 * size, 4], [row, 0]));
        w.array("/several/locals", ElementType::I32, Shape::local([2 + (r + step) % 3]));
    }
    if rank.is_multiple_of(2) {
        w.array("/holes", ElementType::F32, Shape::global([2], [3 * size], [3 * r]));
    }
    let own = |r: u64| 2 + (r + step) % 3;
    let (before, total) = ((0..r).map(own).sum::<u64>(), (0..size).map(own).sum::<u64>());
    w.array("/joined/rows", ElementType::F32, Shape::global([own(r), 3], [total, 3], [before, 0]));
    w.array("/joined/columns", ElementType::F32, Shape::global([2, own(r)], [2, total], [0, before]));
    for offset in [2 * before, 2 * before + own(r)] {
        w.array("/joined/twice", ElementType::F32, Shape::global([own(r)], [2 * total], [offset]));
    }
    w.number("height", (step as u32).to_ne_bytes());
    let mine = if rank == 0 { 4 + 2 * step } else { 0 };
    w.number("mine", (mine as u32).to_ne_bytes());
    w.array("growing", ElementType::F64, Shape::global([mine, 3], [4 + 2 * step, 3], [0, 0]));
    w.array("/empty/rows", ElementType::F64, Shape::global(empty, empty, [0, 0]));

    let shape = Shape::global([6], [6 * size], [6 * r]);
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1.5 + r as f64, -3.0 * step as f64];
    let singles = special.iter().flat_map(|v| (*v as f32).to_ne_bytes()).collect();
    w.put("/special/real", Some(shape.clone()), singles);
    w.doubles("/special/double", shape.clone(), special);
    // Some blocks hold no number at all.
    let none = (0..6).map(|i| if rank % 2 == 1 { f64::NAN } else { 5.0 + f64::from(i) });
    w.doubles("/special/none", shape.clone(), none);
    w.array("/statistics/off", ElementType::I32, shape.clone());
    w.array("/statistics/minmax", ElementType::F32, shape.clone());
    w.array("/statistics/default", ElementType::F32, shape);
    for element in &NUMBERS[..8] {
        let bytes = element.size() as usize;
        let mut ends = [[0u8; 8], [0xff; 8]];
        if matches!(element, ElementType::I8 | ElementType::I16 | ElementType::I32 | ElementType::I64) {
            // Little end first or last: the byte with the sign.
            let sign = if cfg!(target_endian = "little") { bytes - 1 } else { 0 };
            (ends[0][sign], ends[1][sign]) = (0x80, 0x7f);
        }
        let ends = ends.iter().flat_map(|e| e[..bytes].to_vec()).collect();
        let shape = Shape::global([2], [2 * size], [2 * r]);
        w.put(&format!("/special/{}", word(*element)), Some(shape), ends);
    }
    let part = |r: u64| if r.is_multiple_of(2) { 1500 } else { 700 };
    let (before, total) = ((0..r).map(part).sum::<u64>(), (0..size).map(part).sum::<u64>());
    for (name, value) in [("part", part(r)), ("before", before), ("total", total)] {
        w.number(name, (value as u32).to_ne_bytes());
    }
    w.array("large", ElementType::F64, Shape::global([part(r)], [total], [before]));
    for name in ["/root", "/names/with blanks/Größe in m", "/names/in/name"] {
        w.number(name, (rank as i32 - 3 * step as i32).to_ne_bytes());
    }
    if rank == 0 {
        w.array("/mesh/x", ElementType::F64, Shape::local([7]));
        w.array("/mesh/y", ElementType::F64, Shape::local([6]));
        w.array("/mesh/cells", ElementType::I32, Shape::local([2, 3]));
        w.array("/mesh/points", ElementType::F64, Shape::local([4, 2]));
        w.array("/mesh/bent", ElementType::F64, Shape::local([7, 6]));
    }
}
