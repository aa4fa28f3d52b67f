//! Summary of an output's variables over all blocks of all ranks: its size grows with the number of variables, not of ranks.
//! Summaries are merged on the way up a tree.

use crate::pack::Pack;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::tree_gather::ChildMessage;
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result, Value};

/// Most bytes of a text value in the summary.
const LONGEST: usize = 1024;

/// Kind of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scalar,
    Local,
    Global,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Scalar => "scalar",
            Kind::Local => "local array",
            Kind::Global => "global array",
        }
    }
}

/// Summary of one variable.
#[derive(Debug, Clone, PartialEq)]
struct Variable {
    name: String,
    element: ElementType,
    kind: Kind,
    /// Shape of the global array, or of every block; `None` if they differ.
    shape: Option<Vec<u64>>,
    blocks: u64,
    /// Smallest and largest finite value; for complex types, of the magnitude.
    bounds: Option<(Value, Value)>,
    /// Text value of the first block.
    text: Option<Vec<u8>>,
}

/// Summary of an output.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    variables: Vec<Variable>,
    places: HashMap<String, usize>,
    /// Code of the error kind for which a rank's part is missing.
    failed: Option<u8>,
    /// A part could not be decoded.
    damaged: bool,
}

impl Summary {
    /// Summary of one rank. `fortran`: dimensions are listed fastest first; `failed`: why the rank has no process group.
    pub fn of(pack: &mut Pack<'_>, fortran: bool, failed: Option<ErrorKind>) -> Summary {
        let mut summary = Summary { failed: failed.map(ErrorKind::code), ..Summary::default() };
        if failed.is_some() {
            return summary;
        }
        for (spec, statistics) in pack.facts() {
            let kind = match &spec.shape {
                None => Kind::Scalar,
                Some(shape) if shape.is_global() => Kind::Global,
                Some(_) => Kind::Local,
            };
            let mut shape = match (&spec.shape, kind) {
                (Some(shape), Kind::Global) => shape.global.clone(),
                (Some(shape), _) => shape.local.clone(),
                (None, _) => Vec::new(),
            };
            if fortran {
                shape.reverse();
            }
            let bounds = match (statistics, &spec.value) {
                (Some(s), _) => match &s.complex {
                    Some([magnitude, ..]) => Some((Value::F64(magnitude.min), Value::F64(magnitude.max))),
                    None => Some((s.min.clone(), s.max.clone())),
                },
                (None, Some(value)) => Some((value.clone(), value.clone())),
                (None, None) => None,
            };
            let text = match &spec.value {
                Some(Value::String(text)) => Some(text[..text.len().min(LONGEST)].to_vec()),
                _ => None,
            };
            let name = match spec.path.as_ref() {
                "" => spec.name.to_string(),
                path => format!("{path}/{}", spec.name),
            };
            summary.put(Variable {
                name,
                element: spec.element,
                kind,
                shape: Some(shape),
                blocks: 1,
                // Without finite values the minimum exceeds the maximum.
                bounds: bounds.filter(|(min, max)| at_most(min, max)),
                text,
            });
        }
        summary
    }

    fn put(&mut self, variable: Variable) {
        let Some(at) = self.places.get(&variable.name) else {
            self.places.insert(variable.name.clone(), self.variables.len());
            return self.variables.push(variable);
        };
        let known = &mut self.variables[*at];
        known.blocks = known.blocks.saturating_add(variable.blocks);
        if known.shape != variable.shape {
            known.shape = None;
        }
        known.bounds = match (known.bounds.take(), variable.bounds) {
            (Some((min, max)), Some((other_min, other_max))) => Some((
                if at_most(&other_min, &min) { other_min } else { min },
                if at_most(&max, &other_max) { other_max } else { max },
            )),
            (one, other) => one.or(other),
        };
        known.text = known.text.take().or(variable.text);
    }

    /// Kind of error for which a rank's part is missing; `Corrupt` if a part could not be decoded.
    pub fn failed(&self) -> Option<ErrorKind> {
        if self.damaged { Some(ErrorKind::Corrupt) } else { self.failed.map(ErrorKind::from_code) }
    }

    /// Encodes the summary for a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(self.failed.unwrap_or(0));
        out.put_u8(u8::from(self.damaged));
        for v in &self.variables {
            put_bytes(&mut out, v.name.as_bytes());
            out.put_u8(v.element.code());
            out.put_u8(v.kind as u8);
            out.put_u64(v.blocks);
            out.put_u8(v.shape.as_ref().map_or(u8::MAX, |s| s.len() as u8));
            v.shape.iter().flatten().for_each(|n| out.put_u64(*n));
            out.put_u8(u8::from(v.bounds.is_some()));
            for value in v.bounds.iter().flat_map(|(min, max)| [min, max]) {
                out.put_u8(value.element_type().code());
                let mut bytes = Vec::new();
                value.append_to(&mut bytes);
                put_bytes(&mut out, &bytes);
            }
            out.put_u8(u8::from(v.text.is_some()));
            v.text.iter().for_each(|text| put_bytes(&mut out, text));
        }
        out
    }

    /// Merges the summary of other ranks.
    pub fn join(&mut self, message: ChildMessage<'_>) {
        if let Some(e) = message.short {
            self.failed = self.failed.or(Some(e.kind().code()));
        } else if self.add(message.bytes).is_err() {
            self.damaged = true;
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let mut c = Cursor::new(bytes, ByteOrder::NATIVE, 0);
        let failed = c.u8("outcome")?;
        self.failed = self.failed.or((failed != 0).then_some(failed));
        self.damaged |= c.u8("outcome")? != 0;
        while c.left() > 0 {
            let name = String::from_utf8_lossy(take_bytes(&mut c)?).into_owned();
            let element = take_element(&mut c)?;
            let kind = match c.u8("kind")? {
                0 => Kind::Scalar,
                1 => Kind::Local,
                _ => Kind::Global,
            };
            let blocks = c.u64("blocks")?;
            let shape = match c.u8("shape")? {
                u8::MAX => None,
                dimensions => Some((0..dimensions).map(|_| c.u64("shape")).collect::<Result<_>>()?),
            };
            let value = |c: &mut Cursor<'_>| {
                let element = take_element(c)?;
                let bytes = take_bytes(c)?;
                Value::from_bytes(element, bytes, ByteOrder::NATIVE).ok_or_else(|| damaged("value"))
            };
            let bounds = match c.u8("bounds")? {
                0 => None,
                _ => Some((value(&mut c)?, value(&mut c)?)),
            };
            let text = match c.u8("text")? {
                0 => None,
                _ => Some(take_bytes(&mut c)?.to_vec()),
            };
            self.put(Variable { name, element, kind, shape, blocks, bounds, text });
        }
        Ok(())
    }

    /// A JSON list with an object per variable, in the order in which they were written.
    pub fn to_json(&self) -> Json {
        let of = |v: &Variable| {
            let mut object = json!({
                "name": v.name,
                "type": v.element.name(),
                "kind": v.kind.name(),
                "shape": v.shape,
                "blocks": v.blocks,
            });
            let (min, max) = match &v.bounds {
                Some((min, max)) => (number(min), number(max)),
                None => (Json::Null, Json::Null),
            };
            if v.element.is_text() {
                object["value"] = json!(v.text.as_ref().map(|text| String::from_utf8_lossy(text)));
            } else if v.element.is_complex() {
                object["magnitude"] = json!({ "min": min, "max": max });
            } else {
                (object["min"], object["max"]) = (min, max);
            }
            object
        };
        self.variables.iter().map(of).collect()
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{what}: not understood"))
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32(bytes.len() as u32);
    out.put(bytes);
}

fn take_bytes<'b>(c: &mut Cursor<'b>) -> Result<&'b [u8]> {
    let length = c.u32("length")?;
    c.take_u64(u64::from(length), "bytes")
}

fn take_element(c: &mut Cursor<'_>) -> Result<ElementType> {
    ElementType::from_code(c.u8("type")?).ok_or_else(|| damaged("type"))
}

/// An integer value, for comparison; `None` for other types.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::U64(v) => Some(i128::from(*v)),
        other => other.as_i64().map(i128::from),
    }
}

/// Whether `a <= b`; `false` unless both are finite real numbers.
fn at_most(a: &Value, b: &Value) -> bool {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a <= b,
        _ => match (real(a), real(b)) {
            (Some(a), Some(b)) => a.is_finite() && b.is_finite() && a <= b,
            _ => false,
        },
    }
}

fn real(value: &Value) -> Option<f64> {
    match value {
        Value::LongDouble(v) => Some(long_double_to_f64(v)),
        Value::F32(v) => Some(f64::from(*v)),
        Value::F64(v) => Some(*v),
        _ => None,
    }
}

fn number(value: &Value) -> Json {
    match value {
        // The shortest decimal that reads back as the same f32.
        Value::F32(v) => json!(v.to_string().parse::<f64>().unwrap_or(f64::from(*v))),
        Value::U64(v) => json!(v),
        Value::Char(v) => json!(*v as i8),
        other => other.as_i64().map_or_else(|| json!(real(other)), |v| json!(v)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BufferPool;
    use crate::pack::BlockSpec;
    use std::sync::Arc;
    use thalweg_bp::process_group::Header;
    use thalweg_bp::shape::Shape;
    use thalweg_bp::statistics::Level;

    fn header() -> Header {
        Header { group: "g".into(), fortran: false, time_name: String::new(), time_index: 1, methods: Vec::new() }
    }

    fn spec(name: &str, element: ElementType, shape: Option<Shape>, value: Option<Value>) -> BlockSpec {
        BlockSpec {
            id: 1,
            name: name.into(),
            path: "".into(),
            element,
            is_dimension: false,
            shape,
            level: Level::MinMax,
            value,
            transform: None,
        }
    }

    fn of_rank(rank: u64, values: &[f64]) -> Summary {
        let mut pack = Pack::new(Arc::new(BufferPool::new(None)), &header());
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let n = values.len() as u64;
        let shape = Shape { local: vec![1, n], global: vec![3, n], offset: vec![rank, 0] };
        pack.copy(&spec("t", ElementType::F64, Some(shape), None), &bytes[..]).unwrap();
        let local = Shape { local: vec![n], global: vec![0], offset: vec![0] };
        let counts: Vec<u8> = values.iter().flat_map(|_| u64::MAX.to_ne_bytes()).collect();
        pack.copy(&spec("n", ElementType::U64, Some(local), None), &counts[..]).unwrap();
        let rank = Value::I32(rank as i32);
        let mut bytes = Vec::new();
        rank.append_to(&mut bytes);
        pack.copy(&spec("rank", ElementType::I32, None, Some(rank)), &bytes[..]).unwrap();
        let note = Value::String(b"hello".to_vec());
        pack.copy(&spec("note", ElementType::String, None, Some(note)), &b"hello"[..]).unwrap();
        Summary::of(&mut pack, false, None)
    }

    fn message(bytes: &[u8]) -> ChildMessage<'_> {
        ChildMessage { bytes, short: None }
    }

    #[test]
    fn ranks_join_to_the_facts_of_the_whole_output() {
        let mut all = of_rank(0, &[1.0, f64::NAN, 2.5]);
        all.join(message(&of_rank(1, &[f64::NAN; 3]).encode()));
        all.join(message(&of_rank(2, &[-7.25, f64::INFINITY, 0.0]).encode()));
        assert_eq!(all.failed(), None);
        let json = all.to_json();
        assert_eq!(
            json,
            json!([
                {"name": "t", "type": "double", "kind": "global array", "shape": [3, 3], "blocks": 3, "min": -7.25, "max": 2.5},
                {"name": "n", "type": "unsigned long long", "kind": "local array", "shape": [3], "blocks": 3,
                 "min": u64::MAX, "max": u64::MAX},
                {"name": "rank", "type": "integer", "kind": "scalar", "shape": [], "blocks": 3, "min": 0, "max": 2},
                {"name": "note", "type": "string", "kind": "scalar", "shape": [], "blocks": 3, "value": "hello"},
            ])
        );
    }

    #[test]
    fn blocks_of_other_extents_have_no_shape_and_a_failed_rank_is_known() {
        let mut all = of_rank(0, &[1.0, 2.0]);
        all.join(message(&of_rank(1, &[1.0, 2.0, 3.0]).encode()));
        assert_eq!(all.to_json()[1]["shape"], Json::Null);
        let mut pack = Pack::new(Arc::new(BufferPool::new(None)), &header());
        all.join(message(&Summary::of(&mut pack, false, Some(ErrorKind::NoSpace)).encode()));
        assert_eq!(all.failed(), Some(ErrorKind::NoSpace));
    }

    #[test]
    fn what_arrives_damaged_is_noticed() {
        let whole = of_rank(0, &[1.0]).encode();
        for end in 3..whole.len() {
            let mut all = Summary::default();
            all.join(message(&whole[..end]));
            // A cut between two variables cannot be seen; it does not happen, as messages arrive whole or not at all.
            assert!(all.failed().is_some() || all.variables.len() < 4, "{end}");
        }
    }
}
