//! The load: the group with its real sizes, written in place of the program.
//!
//! Every rank writes blocks of the same size, computed from the dimensions of the group and the user's values. Blocks of a global
//! array are concatenated along the slowest dimension. Values are a wave with a little noise, so that transforms have typical
//! input; texts are short.

use std::collections::BTreeMap;
use thalweg_bp::shape::{JOINED, Shape};
use thalweg_io::resolve;
use thalweg_params::nearest;
use thalweg_schema::dimension::{Dimension, NameRef};
use thalweg_schema::{AttributeSource, Group, HostLanguage, Variable};
use thalweg_types::{ElementType, Error, ErrorKind, Value};

/// One variable as every rank writes it.
pub struct Block {
    /// Its position in the group.
    pub at: usize,
    /// Its extents, in the order of the document; `None` for scalars and texts.
    local: Option<Vec<u64>>,
    global: bool,
    /// The joined dimension.
    joined: Option<usize>,
    /// Its values, on every rank.
    pub bytes: Vec<u8>,
    /// The program promises not to change the memory before close.
    pub deferred: bool,
}

impl Block {
    /// The box of a rank's block. `fortran`: the last dimension is the slowest.
    pub fn shape(&self, rank: u32, ranks: u32, fortran: bool) -> Option<Shape> {
        let local = self.local.clone()?;
        let mut shape = Shape { global: vec![0; local.len()], offset: vec![0; local.len()], local };
        if !self.global {
            return Some(shape);
        }
        shape.global = shape.local.clone();
        match self.joined {
            Some(dimension) => shape.global[dimension] = JOINED,
            None => {
                let slowest = if fortran { shape.local.len() - 1 } else { 0 };
                shape.global[slowest] = shape.local[slowest] * u64::from(ranks);
                shape.offset[slowest] = shape.local[slowest] * u64::from(rank);
            }
        }
        Some(shape)
    }
}

/// The writes of a rank in one output.
pub struct Load {
    pub blocks: Vec<Block>,
    pub fortran: bool,
}

impl Load {
    /// Bytes of values of one rank.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|b| b.bytes.len() as u64).sum()
    }

    /// - `defined`: values of dimension variables, by full or bare name.
    ///
    /// # Errors
    /// The missing or invalid value, as text for the command line.
    pub fn of(group: &Group, language: HostLanguage, defined: &[(String, i64)]) -> Result<Load, String> {
        let values = settle(group, defined)?;
        let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut blocks = Vec::new();
        for (at, variable) in group.variables.iter().enumerate() {
            let mut lacking = Vec::new();
            let local = local(group, variable, &values, &mut lacking);
            if !lacking.is_empty() {
                for name in lacking {
                    missing.entry(name).or_default().push(variable.full_name());
                }
                continue;
            }
            let local = local.map_err(|e| format!("variable \"{}\": {}", variable.full_name(), e.what()))?;
            blocks.push(block(at, variable, local, &values)?);
        }
        if missing.is_empty() {
            return Ok(Load { blocks, fortran: language == HostLanguage::Fortran });
        }
        let each = missing.iter().map(|(name, arrays)| {
            let more = if arrays.len() > 3 { format!(" and {} more", arrays.len() - 3) } else { String::new() };
            let arrays = arrays.iter().take(3).map(|a| format!("\"{a}\"")).collect::<Vec<_>>().join(", ");
            format!("dimension variable \"{name}\" has no value; {arrays}{more} need it: --define {name}=NUMBER")
        });
        Err(format!("group \"{}\": {}", group.name, each.collect::<Vec<_>>().join("\n  ")))
    }
}

/// Values of scalars, by full name.
type Values = BTreeMap<String, i64>;

fn settle(group: &Group, defined: &[(String, i64)]) -> Result<Values, String> {
    let mut values = Values::new();
    for (name, value) in defined {
        let slashed = format!("/{name}");
        let full: Vec<String> = group.variables.iter().map(Variable::full_name).collect();
        let exactly = full.iter().position(|f| f == name || *f == slashed);
        let bare: Vec<usize> = (0..full.len()).filter(|i| group.variables[*i].name == *name).collect();
        let at = match (exactly, bare.as_slice()) {
            (Some(at), _) => at,
            (None, [at]) => *at,
            (None, []) => {
                let hint = nearest(name, full.iter().map(String::as_str))
                    .map_or(String::new(), |n| format!("; did you mean \"{n}\"?"));
                return Err(format!("group \"{}\" has no variable \"{name}\"{hint}", group.name));
            }
            (None, _) => return Err(format!("several variables of group \"{}\" are called \"{name}\"", group.name)),
        };
        let variable = &group.variables[at];
        if !variable.local.is_empty() || !variable.element.is_integer() {
            return Err(format!("\"{name}\" is no single whole number in group \"{}\"", group.name));
        }
        values.insert(variable.full_name(), *value);
    }
    Ok(values)
}

/// The extents of a rank's block; names without a value are added to `lacking`.
fn local(
    group: &Group,
    variable: &Variable,
    values: &Values,
    lacking: &mut Vec<String>,
) -> thalweg_types::Result<Option<Vec<u64>>> {
    // The position of the block in a global array is not determined by the program here.
    let alone = Variable { global: Vec::new(), offset: Vec::new(), ..variable.clone() };
    let mut of = |name: &str| match values.get(name) {
        Some(value) => Ok(i128::from(*value)),
        None => {
            if !lacking.iter().any(|l| l == name) {
                lacking.push(name.to_string());
            }
            // The other names of the expression are looked at too.
            Ok(1)
        }
    };
    let mut lookup = |name: NameRef<'_>| match name {
        NameRef::Variable(name) => of(name),
        NameRef::Attribute(name) => match group.attributes.iter().find(|a| a.full_name() == name).map(|a| &a.value) {
            Some(AttributeSource::One(value)) => match value {
                Value::U64(v) => Ok(i128::from(*v)),
                other => other.as_i64().map(i128::from).ok_or_else(|| no_number(name)),
            },
            Some(AttributeSource::Variable(variable)) => of(variable),
            _ => Err(no_number(name)),
        },
    };
    Ok(resolve::shape(&alone, &mut lookup)?.map(|shape| shape.local))
}

fn no_number(name: &str) -> Error {
    Error::new(ErrorKind::Config, format!("attribute \"{name}\" is no whole number"))
}

fn block(at: usize, variable: &Variable, local: Option<Vec<u64>>, values: &Values) -> Result<Block, String> {
    let elements = local.iter().flatten().try_fold(1u64, |n, extent| n.checked_mul(*extent));
    let bytes = elements.and_then(|n| n.checked_mul(variable.element.size())).filter(|bytes| *bytes < 1 << 40);
    let too_much = || format!("variable \"{}\" has more than a TiB on every rank", variable.full_name());
    let elements = bytes.and(elements).ok_or_else(too_much)?;
    let bytes = match (&local, variable.element.is_text(), values.get(&variable.full_name())) {
        (_, true, _) => b"tune".to_vec(),
        (None, false, Some(value)) => number(variable.element, *value as f64),
        _ => wave(variable.element, elements),
    };
    let without_time = variable.global.iter().filter(|d| !matches!(d, Dimension::Time));
    Ok(Block {
        at,
        global: !variable.global.is_empty(),
        joined: without_time.clone().position(|d| matches!(d, Dimension::Joined)),
        local,
        bytes,
        deferred: !variable.copy_on_write,
    })
}

/// One number in a type's bytes.
fn number(element: ElementType, value: f64) -> Vec<u8> {
    let whole = value as i64;
    let value = match element {
        ElementType::I8 => Value::I8(whole as i8),
        ElementType::I16 => Value::I16(whole as i16),
        ElementType::I32 => Value::I32(whole as i32),
        ElementType::I64 => Value::I64(whole),
        ElementType::U8 => Value::U8(whole as u8),
        ElementType::U16 => Value::U16(whole as u16),
        ElementType::U32 => Value::U32(whole as u32),
        ElementType::U64 => Value::U64(whole as u64),
        ElementType::F32 => Value::F32(value as f32),
        ElementType::F64 => Value::F64(value),
        ElementType::Complex => Value::Complex([value as f32, 0.0]),
        ElementType::DoubleComplex => Value::DoubleComplex([value, 0.0]),
        _ => return vec![0; element.size() as usize],
    };
    let mut bytes = Vec::new();
    value.append_to(&mut bytes);
    bytes
}

/// So many values: a slow wave with noise in its last digits.
fn wave(element: ElementType, elements: u64) -> Vec<u8> {
    // A period is made once and repeated.
    const PERIOD: u64 = 1 << 16;
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    let mut period = Vec::new();
    for i in 0..elements.min(PERIOD) {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        let angle = i as f64 / PERIOD as f64 * std::f64::consts::TAU;
        let value = 100.0 * angle.sin() + (noise >> 40) as f64 / f64::from(1u32 << 24) * 1e-3;
        period.extend_from_slice(&number(element, value));
    }
    let length = (elements * element.size()) as usize;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let more = period.len().min(length - bytes.len());
        bytes.extend_from_slice(&period[..more]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(text: &str) -> Group {
        let document = format!("<adios-config><adios-group name=\"g\">{text}</adios-group></adios-config>");
        thalweg_schema::xml::parse(&document, "g.xml").unwrap().groups.remove(0)
    }

    const FIELDS: &str = r#"<var name="nx" type="integer"/><var name="ny" path="/aux" type="integer"/>
        <var name="rank" type="integer"/><var name="note" type="string"/>
        <global-bounds dimensions="huge,ny" offsets="rank,0"><var name="t" type="double" dimensions="nx,ny"/></global-bounds>
        <var name="huge" type="long"/><var name="mine" type="byte" dimensions="2*nx+1"/>
        <var name="fixed" type="real" dimensions="7"/>"#;

    fn define(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
        pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect()
    }

    #[test]
    fn sizes_are_those_of_the_group_for_the_values_given() {
        let load = Load::of(&group(FIELDS), HostLanguage::C, &define(&[("nx", 3), ("ny", 5)])).unwrap();
        let bytes: Vec<usize> = load.blocks.iter().map(|b| b.bytes.len()).collect();
        assert_eq!(bytes, [4, 4, 4, 4, 3 * 5 * 8, 8, 7, 7 * 4]);
        assert_eq!(load.blocks[0].bytes, 3i32.to_ne_bytes());
        let t = load.blocks[4].shape(2, 4, false).unwrap();
        assert_eq!((t.local, t.global, t.offset), (vec![3, 5], vec![12, 5], vec![6, 0]));
        let t = load.blocks[4].shape(2, 4, true).unwrap();
        assert_eq!((t.global, t.offset), (vec![3, 20], vec![0, 10]));
        assert!(!load.blocks[6].shape(2, 4, false).unwrap().is_global());
    }

    #[test]
    fn what_is_missing_is_named_with_who_needs_it_and_nothing_more() {
        let e = Load::of(&group(FIELDS), HostLanguage::C, &define(&[("/aux/ny", 5)])).err().unwrap();
        assert!(e.contains("\"nx\" has no value; \"t\", \"mine\" need it: --define nx=NUMBER"), "{e}");
        assert!(!e.contains("huge") && !e.contains("ny\""), "where the array ends is not asked: {e}");
        let e = Load::of(&group(FIELDS), HostLanguage::C, &define(&[("nz", 5)])).err().unwrap();
        assert!(e.contains("no variable \"nz\"; did you mean"), "{e}");
        let e = Load::of(&group(FIELDS), HostLanguage::C, &define(&[("t", 5)])).err().unwrap();
        assert!(e.contains("no single whole number"), "{e}");
        let e = Load::of(&group(FIELDS), HostLanguage::C, &define(&[("nx", -5), ("ny", 1)])).err().unwrap();
        assert!(e.contains("negative"), "{e}");
        let e = Load::of(&group(FIELDS), HostLanguage::C, &define(&[("nx", 1 << 40), ("ny", 1 << 40)])).err().unwrap();
        assert!(e.contains("more than a TiB"), "{e}");
    }

    #[test]
    fn values_are_finite_numbers_that_change() {
        for element in [ElementType::F64, ElementType::F32, ElementType::I32, ElementType::U8] {
            let bytes = wave(element, 100_000);
            assert_eq!(bytes.len() as u64, 100_000 * element.size());
            let size = element.size() as usize;
            assert_ne!(bytes[..size], bytes[16384 * size..16385 * size], "{element:?}");
        }
    }
}
