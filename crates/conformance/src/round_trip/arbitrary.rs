//! Scenarios made of nothing but chance: any variables, shapes, blocks and attributes, declared from code.

use super::numbers::{Chance, any};
use super::{Scenario, Write, WriteSetup};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use thalweg_bp::shape::Shape;
use thalweg_schema::{GroupBuilder, HostLanguage, Schema, Statistics, full_name};
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Value};

/// Random choices; small, so that a failure is readable. [`Recipe::scenario`] makes a scenario of it.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Ranks.
    pub ranks: u32,
    /// Whether dimensions are declared fastest first.
    pub fortran: bool,
    /// The variables.
    pub variables: Vec<Ingredient>,
    /// The writes of each rank in each step: `steps[step][rank]`, variable (modulo their number) and seed.
    pub steps: Vec<Vec<Vec<(usize, u64)>>>,
    /// Type (modulo), number of values (0: a single one) and text of each attribute.
    pub attributes: Vec<(usize, usize, String)>,
    /// How it is written: method (modulo), buffer limit, sessions, whether the file is looked at in between.
    pub setup: (usize, Option<u64>, usize, bool),
}

/// One variable of a [`Recipe`].
#[derive(Debug, Clone)]
pub struct Ingredient {
    /// Type: [`TYPES`] (modulo).
    pub element: usize,
    /// Blocks of one array, rather than arrays of their own.
    pub global: bool,
    /// Number of dimensions; 0 for a scalar.
    pub dimensions: usize,
    /// Name, made unique by its number.
    pub name: String,
    /// Path.
    pub path: &'static str,
    /// One of the choices of statistics.
    pub statistics: u8,
}

/// Types of variables.
pub const TYPES: [ElementType; 14] = {
    use ElementType::*;
    [I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, LongDouble, Complex, DoubleComplex, String]
};

/// Names: anything but commas.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-zA-Z][a-z0-9_]{0,6}", 1 => "[^,\\p{C}/]{1,8}"]
}

/// Any recipe.
pub fn recipes() -> impl Strategy<Value = Recipe> {
    let path = prop::sample::select(vec!["", "", "/a", "/a/b", "a", "/a/", "/"]);
    let dimensions = prop_oneof![1 => Just(0), 4 => 1..4usize, 2 => 4..8usize];
    let variable = (0..TYPES.len(), any_bool(), dimensions, name(), path, 0..4u8)
        .prop_map(|(element, global, dimensions, name, path, statistics)| Ingredient {
            element,
            global,
            dimensions,
            name,
            path,
            statistics,
        })
        .boxed();
    let buffer = prop_oneof![Just(None), Just(Some(0)), (1..5000u64).prop_map(Some)];
    (1..=5u32).prop_flat_map(move |ranks| {
        let writes = vec((0..100usize, any_seed()), 0..8);
        let steps = vec(vec(writes, ranks as usize), 1..5);
        let attributes = vec((0..TYPES.len(), 0..4usize, "[^\\p{C}]{0,12}"), 0..4);
        let setup = (0..100usize, buffer.clone(), 1..3usize, any_bool());
        (any_bool(), vec(variable.clone(), 1..6), steps, attributes, setup).prop_map(
            move |(fortran, variables, steps, attributes, setup)| Recipe {
                ranks,
                fortran,
                variables,
                steps,
                attributes,
                setup,
            },
        )
    })
}

fn any_bool() -> impl Strategy<Value = bool> + Clone {
    proptest::bool::ANY
}

fn any_seed() -> impl Strategy<Value = u64> + Clone {
    proptest::num::u64::ANY
}

/// Names of the scalars that dimensions are made of.
fn dimension(letter: &str, d: usize) -> String {
    format!("#{letter}{d}")
}

impl Recipe {
    /// The way it is written, by one of these methods.
    pub fn write_setup(&self, methods: &[&str]) -> WriteSetup {
        let (method, buffer, sessions, follow) = self.setup;
        WriteSetup { buffer, sessions, follow, ..WriteSetup::of(methods[method % methods.len()]) }
    }

    /// The scenario.
    ///
    /// # Panics
    /// Where a declaration is refused.
    pub fn scenario(&self) -> Scenario {
        let language = if self.fortran { HostLanguage::Fortran } else { HostLanguage::C };
        let mut builder = GroupBuilder::new("arbitrary").unwrap();
        let mut scalars = BTreeMap::new();
        for (kind, letter) in [(ElementType::I32, "l"), (ElementType::U64, "g"), (ElementType::I64, "o")] {
            for d in 0..7 {
                let name = dimension(letter, d);
                let at = builder.define_variable(&name, "", kind, "", "", "").unwrap();
                scalars.insert(name, (at, kind));
            }
        }
        let mut positions = Vec::new();
        for (i, v) in self.variables.iter().enumerate() {
            let element = TYPES[v.element % TYPES.len()];
            let n = if element == ElementType::String { 0 } else { v.dimensions };
            let list = |letter: &str| {
                let mut names: Vec<String> = (0..n).map(|d| dimension(letter, d)).collect();
                if self.fortran {
                    names.reverse();
                }
                names.join(",")
            };
            let (global, offset) = if v.global { (list("g"), list("o")) } else { (String::new(), String::new()) };
            let name = format!("{i}.{}", v.name);
            let at = builder.define_variable(&name, v.path, element, &list("l"), &global, &offset).unwrap();
            let choices = [Statistics::Off, Statistics::MinMax, Statistics::Default, Statistics::Full];
            builder.variable_mut(at).unwrap().statistics = Some(choices[usize::from(v.statistics % 4)]);
            positions.push((at, element, n, v.global));
        }
        let mut attributes = BTreeMap::new();
        for (i, (element, count, text)) in self.attributes.iter().enumerate() {
            let element = TYPES[element % TYPES.len()];
            let value = |seed: usize| match element {
                ElementType::String => Value::String(text.repeat(seed + 1).into_bytes()),
                _ => {
                    let bytes = any(element, &format!("{text} {seed}"), 1);
                    Value::from_bytes(element, &bytes, ByteOrder::NATIVE).unwrap()
                }
            };
            let name = format!("{i}.{text}").replace(',', ";");
            let values: Vec<Value> = (0..(*count).max(1)).map(value).collect();
            let kind = match element {
                ElementType::String if *count > 0 => ElementType::StringArray,
                other => other,
            };
            builder.define_attribute_values(&name, "/about", kind, values.clone()).unwrap();
            let said = match &values[..] {
                [one] if kind != ElementType::StringArray => AttributeValue::One(one.clone()),
                _ => AttributeValue::Many(element, values),
            };
            attributes.insert(full_name("/about", &name), said);
        }
        let steps = self.steps.iter().enumerate().map(|(step, ranks)| {
            let ranks = ranks.iter().map(|writes| {
                let mut out = Vec::new();
                for (variable, seed) in writes {
                    let number = variable % positions.len();
                    self.one_write(&mut out, &scalars, positions[number], (step, number, *seed));
                }
                out
            });
            ranks.collect::<Vec<_>>()
        });
        let steps: Vec<Vec<Vec<Write>>> = steps.collect();
        let (group, _) = builder.finish().unwrap();
        // Attributes go with process groups, and there is one of each rank in any case.
        let schema = Schema { host_language: language, groups: vec![group], ..Schema::default() };
        Scenario { schema, steps, attributes }
    }

    /// The scalars a block's dimensions are made of, and the block.
    fn one_write(
        &self,
        out: &mut Vec<Write>,
        scalars: &BTreeMap<String, (usize, ElementType)>,
        (at, element, n, global): (usize, ElementType, usize, bool),
        (step, number, seed): (usize, usize, u64),
    ) {
        let mut chance = Chance::new(&format!("{seed}"));
        if n == 0 {
            let bytes = match element {
                // Written again in a step it has the same length: what is in storage already takes no other.
                ElementType::String => {
                    any(ElementType::U8, &format!("{seed}"), Chance::new(&format!("{step} {number}")).below(20))
                }
                _ => any(element, &format!("{seed}"), 1),
            };
            out.push(Write { variable: at, shape: None, bytes, deferred: chance.below(2) == 1 });
            return;
        }
        let most = [0, 2000, 40, 8, 5, 4, 3, 3][n];
        let shape = if global {
            // All blocks of a step agree on the global shape.
            let mut agreed = Chance::new(&format!("{step} {number}"));
            let shape: Vec<u64> = (0..n).map(|_| agreed.below(most + 1)).collect();
            let offset: Vec<u64> = shape.iter().map(|s| chance.below(s + 1)).collect();
            let local: Vec<u64> = shape.iter().zip(&offset).map(|(s, o)| chance.below(s - o + 1)).collect();
            // Nobody can tell an array without any extent from a local one.
            if shape.iter().all(|s| *s == 0) { Shape::local(local) } else { Shape::global(local, shape, offset) }
        } else {
            Shape::local((0..n).map(|_| chance.below(most + 1)).collect::<Vec<u64>>())
        };
        for (letter, values) in [("l", &shape.local), ("g", &shape.global), ("o", &shape.offset)] {
            for (d, value) in values.iter().enumerate() {
                let (at, element) = scalars[&dimension(letter, d)];
                let bytes = match element {
                    ElementType::I32 => (*value as i32).to_ne_bytes().to_vec(),
                    _ => value.to_ne_bytes().to_vec(),
                };
                out.push(Write { variable: at, shape: None, bytes, deferred: false });
            }
        }
        let bytes = any(element, &format!("{seed}"), shape.elements().unwrap_or(0));
        out.push(Write { variable: at, shape: Some(shape), bytes, deferred: chance.below(2) == 1 });
    }
}
