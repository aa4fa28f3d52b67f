//! Difficult cases for methods, by name.
//!
//! Values are a function of variable, step and rank. In each case most ranks have other amounts than their neighbours, so
//! that an offset taken from the wrong rank reads back wrong.

use super::{Act, Case};
use crate::round_trip::Write;
use crate::round_trip::everything::{NUMBERS, word};
use crate::round_trip::numbers::plain;
use std::collections::BTreeMap;
use thalweg_bp::shape::Shape;
use thalweg_io::Mode;
use thalweg_schema::{Schema, xml};
use thalweg_types::{AttributeValue, ElementType, Value};

/// Makes a case for so many ranks.
pub type Maker = fn(u32) -> Case;

/// Every case, by name.
pub const CASES: &[(&str, Maker)] = &[
    ("plain", plain_steps),
    ("empty ranks", empty_ranks),
    ("one rank much larger", one_larger),
    ("optional variables", optional),
    ("appends by other numbers of ranks", appends),
    ("updates of a step", updates),
    ("a restart after a step", restart),
    ("a buffer smaller than the group", small_buffer),
    ("no buffer", no_buffer),
    ("strings, scalars and attributes", scalars),
    ("many steps", many_steps),
    ("transformed variables", transformed),
    ("two groups in one file", two_groups),
    ("a step in which nobody writes", nothing_at_all),
];

/// The cases that depend on the number of ranks.
pub const AT_SCALE: &[&str] = &["plain", "empty ranks", "one rank much larger"];

/// The case of this name.
///
/// # Panics
/// Where there is none.
pub fn named(name: &str) -> Maker {
    CASES.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no case \"{name}\"")).1
}

const DOCUMENT: &str = r#"<adios-config host-language="C">
  <adios-group name="first">
    <var name="n" type="unsigned long"/><var name="before" type="unsigned long"/><var name="total" type="unsigned long"/>
    <var name="rank" type="integer"/><var name="ranks" type="integer"/>
    <global-bounds dimensions="total" offsets="before"><var name="field" type="double" dimensions="n"/></global-bounds>
    <global-bounds dimensions="3,ranks" offsets="0,rank"><var name="plane" path="/deep" type="integer" dimensions="3,1"/></global-bounds>
    <var name="mine" type="real" dimensions="n"/>
    <var name="maybe" type="double"/>
    <global-bounds dimensions="ranks" offsets="rank"><var name="some" type="short" dimensions="1"/></global-bounds>
    <attribute name="units" path="/field" type="string" value="K"/>
  </adios-group>
  <adios-group name="second">
    <var name="m" type="integer"/>
    <var name="word" type="string"/>
    <var name="other" path="/second" type="unsigned short" dimensions="m"/>
    <attribute name="about" path="/second" type="integer" value="2"/>
  </adios-group>
  <adios-group name="scalars">
    SCALARS
    <var name="text" type="string"/><var name="same" type="string"/>
    <attribute name="list" type="double" value="1.5,-2.5,3"/>
    <attribute name="words" type="string" value="two words"/>
    <attribute name="last" var="/scalar/integer"/>
  </adios-group>
  <adios-group name="transformed">
    <var name="k" type="integer"/><var name="from" type="integer"/><var name="all" type="integer"/>
    <global-bounds dimensions="all" offsets="from">
      TRANSFORMED
    </global-bounds>
  </adios-group>
</adios-config>"#;

const TRANSFORMS: [&str; 6] = ["zlib:5", "bzip2", "lz4", "blosc", "zstd:3", "identity"];

fn schema() -> Schema {
    let scalars =
        NUMBERS.iter().map(|t| format!(r#"<var name="{}" path="/scalar" type="{t}"/>"#, word(*t))).collect::<String>();
    let transformed = TRANSFORMS.iter().enumerate().map(|(i, t)| {
        let kind = ["double", "real", "long", "integer"][i % 4];
        format!(r#"<var name="t{i}" path="/transformed" type="{kind}" dimensions="k" transform="{t}"/>"#)
    });
    let text = DOCUMENT.replace("SCALARS", &scalars).replace("TRANSFORMED", &transformed.collect::<String>());
    xml::parse(&text, "cases.xml").unwrap_or_else(|e| panic!("{e}"))
}

/// Builder of one rank's writes.
struct Rank<'s> {
    schema: &'s Schema,
    group: usize,
    seed: String,
    writes: Vec<Write>,
}

impl<'s> Rank<'s> {
    fn new(schema: &'s Schema, group: usize, seed: impl Into<String>) -> Rank<'s> {
        Rank { schema, group, seed: seed.into(), writes: Vec::new() }
    }

    fn put(&mut self, name: &str, shape: Option<Shape>, bytes: Vec<u8>) {
        let variables = &self.schema.groups[self.group].variables;
        let variable = variables.iter().position(|v| v.full_name() == name);
        let variable = variable.unwrap_or_else(|| panic!("no variable {name}"));
        let deferred = shape.is_some() && (bytes.len() + self.writes.len()).is_multiple_of(2);
        self.writes.push(Write { variable, shape, bytes, deferred });
    }

    fn array(&mut self, name: &str, shape: Shape) {
        let variables = &self.schema.groups[self.group].variables;
        let element = variables.iter().find(|v| v.full_name() == name).map_or(ElementType::U8, |v| v.element);
        let bytes = plain(element, &format!("{name} {}", self.seed), shape.elements().unwrap_or(0));
        self.put(name, Some(shape), bytes);
    }
}

/// One output of the group `first`: rank r writes arrays of `sizes[r]` elements, or nothing if that is `None`.
fn output(schema: &Schema, mode: Mode, seed: &str, sizes: &[Option<u64>], optional: bool) -> Act {
    let total: u64 = sizes.iter().flatten().sum();
    let (mut before, ranks) = (0, sizes.len() as u64);
    let mut all = Vec::new();
    for (rank, size) in (0u64..).zip(sizes) {
        let mut r = Rank::new(schema, 0, format!("{seed} {rank}"));
        if let Some(n) = *size {
            for (name, value) in [("n", n), ("before", before), ("total", total)] {
                r.put(name, None, value.to_ne_bytes().to_vec());
            }
            r.put("rank", None, (rank as i32).to_ne_bytes().to_vec());
            r.put("ranks", None, (ranks as i32).to_ne_bytes().to_vec());
            let offset = if n == 0 { 0 } else { before };
            if total > 0 {
                r.array("field", Shape::global([n], [total], [offset]));
            }
            r.array("/deep/plane", Shape::global([3, 1], [3, ranks], [0, rank]));
            if n > 0 {
                r.array("mine", Shape::local([n]));
            }
            if optional {
                if (rank + seed.len() as u64).is_multiple_of(2) {
                    r.put("maybe", None, (rank as f64 + 0.5).to_ne_bytes().to_vec());
                }
                if rank % 3 == 2 || rank + 1 == ranks {
                    r.array("some", Shape::global([1], [ranks], [rank]));
                }
            }
            before += n;
        }
        all.push(r.writes);
    }
    Act { group: 0, mode, ranks: all }
}

/// One output of the group `second`.
fn second(schema: &Schema, mode: Mode, seed: &str, ranks: u32) -> Act {
    let of = |rank: u32| {
        let mut r = Rank::new(schema, 1, format!("{seed} {rank}"));
        let m = 1 + (rank * 3) % 7;
        r.put("m", None, (m as i32).to_ne_bytes().to_vec());
        r.put("word", None, format!("{seed} of {rank}").into_bytes());
        r.array("/second/other", Shape::local([u64::from(m)]));
        r.writes
    };
    Act { group: 1, mode, ranks: (0..ranks).map(of).collect() }
}

/// Different from rank to rank and step to step, never 0.
fn uneven(ranks: u32, step: u64) -> Vec<Option<u64>> {
    (0..u64::from(ranks)).map(|r| Some(1 + (r * 7 + step * 3) % 11)).collect()
}

fn case(schema: Schema, sessions: Vec<Vec<Act>>) -> Case {
    let text = |t: &str| AttributeValue::One(Value::String(t.as_bytes().to_vec()));
    let groups: Vec<usize> = sessions.iter().flatten().map(|act| act.group).collect();
    let mut attributes = BTreeMap::new();
    if groups.contains(&0) {
        attributes.insert("/field/units".into(), text("K"));
    }
    if groups.contains(&1) {
        attributes.insert("/second/about".into(), AttributeValue::One(Value::I32(2)));
    }
    Case { schema, sessions, buffer: None, attributes }
}

/// Outputs one after the other in one session, the first into a new file.
fn in_a_row(schema: Schema, sizes: Vec<Vec<Option<u64>>>, optional: bool) -> Case {
    let acts = sizes.iter().enumerate().map(|(step, sizes)| {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        output(&schema, mode, &"s".repeat(step), sizes, optional)
    });
    let acts = acts.collect();
    case(schema, vec![acts])
}

fn plain_steps(ranks: u32) -> Case {
    in_a_row(schema(), (0..3).map(|step| uneven(ranks, step)).collect(), false)
}

fn empty_ranks(ranks: u32) -> Case {
    let sizes = |step: u64| {
        let of = |r: u64| match (r + step) % 4 {
            0 => Some(4 + r % 5),
            1 => None,
            2 => Some(0),
            _ => r.is_multiple_of(3).then_some(2),
        };
        (0..u64::from(ranks)).map(of).collect()
    };
    in_a_row(schema(), (0..4).map(sizes).collect(), false)
}

fn one_larger(ranks: u32) -> Case {
    let sizes = |step: u64| {
        let larger = [ranks / 2, ranks - 1, 0][step as usize];
        (0..ranks).map(|r| Some(if r == larger { 20_000 } else { u64::from(r) % 5 + 1 })).collect()
    };
    in_a_row(schema(), (0..3).map(sizes).collect(), false)
}

fn optional(ranks: u32) -> Case {
    let mut case = in_a_row(schema(), (0..4).map(|step| uneven(ranks, step)).collect(), true);
    // In one step nobody writes them.
    let plain = in_a_row(schema(), (0..4).map(|step| uneven(ranks, step)).collect(), false);
    case.sessions[0][2] = plain.sessions[0][2].clone();
    case
}

fn appends(ranks: u32) -> Case {
    let schema = schema();
    let numbers = [ranks, (ranks / 2).max(1), ranks + 1];
    let sessions = numbers.iter().enumerate().map(|(session, ranks)| {
        let of = |step: u64| {
            // The first append finds no file.
            output(&schema, Mode::Append, &format!("{session} {step}"), &uneven(*ranks, step), false)
        };
        (0..2).map(of).collect()
    });
    let sessions = sessions.collect();
    case(schema, sessions)
}

fn updates(ranks: u32) -> Case {
    let schema = schema();
    let act = |mode, seed: &str| output(&schema, mode, seed, &uneven(ranks, seed.len() as u64), false);
    let only_local = |mode, seed: &str| {
        let mut act = act(mode, seed);
        // Global arrays would lie over those of the step.
        for writes in &mut act.ranks {
            writes.retain(|w| w.shape.as_ref().is_none_or(|s| !s.is_global()));
        }
        act
    };
    let first = vec![act(Mode::Write, "1"), only_local(Mode::Update, "1u"), act(Mode::Append, "2xx")];
    let then = vec![only_local(Mode::Update, "2uuu"), only_local(Mode::Update, "2uuuu"), act(Mode::Append, "3xxxxx")];
    let sessions = vec![first, then];
    case(schema, sessions)
}

fn restart(ranks: u32) -> Case {
    let schema = schema();
    let act = |mode, seed: &str, ranks: u32| output(&schema, mode, seed, &uneven(ranks, seed.len() as u64), false);
    let first = vec![
        act(Mode::Write, "0", ranks),
        act(Mode::Append, "1x", ranks),
        act(Mode::Append, "2xx", ranks),
        act(Mode::Append, "3xxx", ranks),
        // The running program goes back.
        act(Mode::AppendAfter(2), "3again", ranks),
    ];
    let fewer = (ranks / 2).max(1);
    let then = vec![act(Mode::AppendAfter(1), "2again", fewer), act(Mode::Append, "3once more", fewer)];
    let sessions = vec![first, then];
    case(schema, sessions)
}

fn small_buffer(ranks: u32) -> Case {
    let sizes = |step: u64| (0..u64::from(ranks)).map(|r| Some(300 + (r * 77 + step * 31) % 900)).collect();
    Case { buffer: Some(3000), ..in_a_row(schema(), (0..3).map(sizes).collect(), true) }
}

fn no_buffer(ranks: u32) -> Case {
    let sizes = |step: u64| (0..u64::from(ranks)).map(|r| Some(1 + (r * 77 + step * 31) % 200)).collect();
    Case { buffer: Some(0), ..in_a_row(schema(), (0..3).map(sizes).collect(), true) }
}

fn scalars(ranks: u32) -> Case {
    let schema = schema();
    let steps = 3;
    let of = |step: u64, rank: u32| {
        let mut r = Rank::new(&schema, 2, "");
        for element in NUMBERS {
            let name = format!("/scalar/{}", word(element));
            let value = match element {
                ElementType::I32 => (100 * step as i32 + rank as i32).to_ne_bytes().to_vec(),
                _ => plain(element, &format!("{name} {step} {rank}"), 1),
            };
            r.put(&name, None, value);
        }
        r.put("text", None, "é".repeat((u64::from(rank) + 2 * step) as usize % 9).into_bytes());
        r.put("same", None, format!("{:04}", rank).into_bytes());
        r.writes
    };
    let acts = (0..steps).map(|step| {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        Act { group: 2, mode, ranks: (0..ranks).map(|rank| of(step, rank)).collect() }
    });
    let acts = acts.collect();
    let mut case = case(schema, vec![acts]);
    let doubles = [1.5, -2.5, 3.0].map(Value::F64).to_vec();
    let mut say = |name: &str, value| case.attributes.insert(name.to_string(), value);
    say("list", AttributeValue::Many(ElementType::F64, doubles));
    say("words", AttributeValue::One(Value::String(b"two words".to_vec())));
    say("last", AttributeValue::One(Value::I32(100 * (steps as i32 - 1))));
    case
}

fn many_steps(ranks: u32) -> Case {
    let schema = schema();
    let sessions = (0..3u64).map(|session| {
        let of = |step: u64| {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            output(&schema, mode, &format!("{step}"), &uneven(ranks, step), step % 2 == 1)
        };
        (12 * session..12 * (session + 1)).map(of).collect()
    });
    let sessions = sessions.collect();
    case(schema, sessions)
}

fn transformed(ranks: u32) -> Case {
    let schema = schema();
    let acts = (0..2u64).map(|step| {
        let size = |r: u32| 20 + u64::from(r) * 13 % 31 + step;
        let all: u64 = (0..ranks).map(size).sum();
        let mut from = 0;
        let of = |rank: u32| {
            let k = size(rank);
            let mut r = Rank::new(&schema, 3, format!("{step} {rank}"));
            for (name, value) in [("k", k), ("from", from), ("all", all)] {
                r.put(name, None, (value as i32).to_ne_bytes().to_vec());
            }
            for i in 0..TRANSFORMS.len() {
                r.array(&format!("/transformed/t{i}"), Shape::global([k], [all], [from]));
            }
            from += k;
            r.writes
        };
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        Act { group: 3, mode, ranks: (0..ranks).map(of).collect() }
    });
    let acts = acts.collect();
    case(schema, vec![acts])
}

fn two_groups(ranks: u32) -> Case {
    let schema = schema();
    let act = |mode, seed: &str| output(&schema, mode, seed, &uneven(ranks, seed.len() as u64), false);
    let one = vec![
        act(Mode::Write, "0"),
        // Into the same step, and into one of its own.
        second(&schema, Mode::Update, "0", ranks),
        second(&schema, Mode::Append, "1", ranks),
        act(Mode::Append, "2xx"),
        second(&schema, Mode::Update, "2", ranks),
    ];
    let sessions = vec![one, vec![second(&schema, Mode::Append, "3", ranks), act(Mode::Update, "3xxx")]];
    case(schema, sessions)
}

fn nothing_at_all(ranks: u32) -> Case {
    let nobody = vec![None; ranks as usize];
    in_a_row(schema(), vec![uneven(ranks, 0), nobody, uneven(ranks, 2)], false)
}
