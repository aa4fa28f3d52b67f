//! A reader's facts about variables, blocks and attributes in structures of C, and the memory they point to.

use super::failure::c_text;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null;
use thalweg_bp::statistics::{Level, Statistics};
use thalweg_reader::{Attribute, Block, Kind, Summary, Variable};
use thalweg_types::{AttributeValue, ElementType, Value};

fn count(n: usize) -> u64 {
    n as u64
}

/// `thalweg_variable`.
#[repr(C)]
pub(super) struct CVariable {
    name: *const c_char,
    group: *const c_char,
    element: c_int,
    kind: c_int,
    ndim: usize,
    shape: *const u64,
    shape_changes: c_int,
    nsteps: u64,
    steps: *const u64,
    blocks: u64,
    transform: *const c_char,
}

/// A variable in C's structure, with the memory it points to.
pub(super) struct CachedVariable {
    pub(super) c: CVariable,
    pub(super) variable: Variable,
    _texts: [CString; 3],
}

impl CachedVariable {
    pub(super) fn new(variable: Variable) -> Box<CachedVariable> {
        let transform = c_text(variable.transform.as_deref().unwrap_or(""));
        let texts = [c_text(&variable.name), c_text(&variable.group), transform];
        let c = CVariable {
            name: texts[0].as_ptr(),
            group: texts[1].as_ptr(),
            element: c_int::from(variable.element.code()),
            kind: match variable.kind {
                Kind::Scalar => 0,
                Kind::LocalValue => 1,
                Kind::Global => 2,
                Kind::Local => 3,
            },
            ndim: variable.shape.len(),
            shape: variable.shape.as_ptr(),
            shape_changes: c_int::from(variable.shape_changes),
            nsteps: count(variable.steps.len()),
            steps: variable.steps.as_ptr(),
            blocks: variable.blocks,
            transform: if variable.transform.is_some() { texts[2].as_ptr() } else { null() },
        };
        Box::new(CachedVariable { c, variable, _texts: texts })
    }
}

/// `thalweg_summary`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CSummary {
    blocks: u64,
    elements: u64,
    has_bounds: c_int,
    min: f64,
    max: f64,
    min_bytes: [u8; 16],
    max_bytes: [u8; 16],
    has_mean: c_int,
    mean: f64,
    deviation: f64,
}

/// A value as a double, and as the bytes of its type.
fn bound(value: &Value) -> (f64, [u8; 16]) {
    let (mut all, mut bytes) = (Vec::new(), [0; 16]);
    if !matches!(value, Value::String(_)) {
        value.append_to(&mut all);
        bytes[..all.len()].copy_from_slice(&all);
    }
    let number = match value {
        Value::LongDouble(bytes) => thalweg_types::value::long_double_to_f64(bytes),
        other => other.as_f64().unwrap_or(f64::NAN),
    };
    (number, bytes)
}

impl CSummary {
    fn nothing(blocks: u64, elements: u64) -> CSummary {
        CSummary {
            blocks,
            elements,
            has_bounds: 0,
            min: f64::NAN,
            max: f64::NAN,
            min_bytes: [0; 16],
            max_bytes: [0; 16],
            has_mean: 0,
            mean: f64::NAN,
            deviation: f64::NAN,
        }
    }

    fn set_bounds(&mut self, min: &Value, max: &Value) {
        self.has_bounds = 1;
        ((self.min, self.min_bytes), (self.max, self.max_bytes)) = (bound(min), bound(max));
    }

    pub(super) fn new(summary: &Summary) -> CSummary {
        let mut c = CSummary::nothing(summary.blocks, summary.elements);
        if let (Some(min), Some(max)) = (&summary.min, &summary.max) {
            c.set_bounds(min, max);
        }
        if let Some([magnitude, ..]) = &summary.complex {
            (c.has_bounds, c.min, c.max) = (1, magnitude.min, magnitude.max);
        }
        if let Some(mean) = summary.mean {
            (c.has_mean, c.mean, c.deviation) = (1, mean, summary.std.unwrap_or(f64::NAN));
        }
        c
    }

    fn of_block(block: &Block) -> CSummary {
        let mut c = CSummary::nothing(1, block.elements());
        match (&block.statistics, &block.value) {
            (Some(statistics), _) if statistics.finite > 0 => c.set_statistics(statistics),
            (None, Some(value)) if value.as_f64().is_some_and(f64::is_finite) => {
                c.set_bounds(value, value);
                (c.has_mean, c.mean, c.deviation) = (1, c.min, 0.0);
            }
            _ => {}
        }
        c
    }

    fn set_statistics(&mut self, s: &Statistics) {
        if s.level == Level::Off {
            return;
        }
        match &s.complex {
            Some([magnitude, ..]) => (self.has_bounds, self.min, self.max) = (1, magnitude.min, magnitude.max),
            None if s.min.element_type().is_complex() => {}
            None => self.set_bounds(&s.min, &s.max),
        }
        if s.level.has_sums() && s.complex.is_none() && !s.min.element_type().is_complex() {
            let n = s.finite as f64;
            let mean = s.sum / n;
            (self.has_mean, self.mean) = (1, mean);
            self.deviation = (s.sum_of_squares / n - mean * mean).max(0.0).sqrt();
        }
    }
}

/// `thalweg_block`.
#[repr(C)]
pub(super) struct CBlock {
    ndim: usize,
    offset: *const u64,
    count: *const u64,
    subfile: i64,
    summary: CSummary,
}

/// `thalweg_blocks`, followed by the memory it points to.
#[repr(C)]
pub(super) struct CBlocks {
    count: usize,
    block: *const CBlock,
    list: Vec<CBlock>,
    blocks: Vec<Block>,
}

impl CBlocks {
    pub(super) fn new(blocks: Vec<Block>) -> Box<CBlocks> {
        let mut made = Box::new(CBlocks { count: blocks.len(), block: null(), list: Vec::new(), blocks });
        let list = made.blocks.iter().map(|b| CBlock {
            ndim: b.count.len(),
            offset: b.offset.as_ptr(),
            count: b.count.as_ptr(),
            subfile: b.subfile.map_or(-1, i64::from),
            summary: CSummary::of_block(b),
        });
        made.list = list.collect();
        made.block = made.list.as_ptr();
        made
    }
}

/// `thalweg_attribute`.
#[repr(C)]
pub(super) struct CAttribute {
    name: *const c_char,
    element: c_int,
    count: usize,
    values: *const c_void,
    texts: *const *const c_char,
    variable: *const c_char,
}

/// An attribute in C's structure, with the memory it points to.
pub(super) struct CachedAttribute {
    pub(super) c: CAttribute,
    _names: [CString; 2],
    /// Numbers, aligned for all of them.
    _values: Vec<u128>,
    _texts: Vec<CString>,
    _pointers: Vec<*const c_char>,
}

impl CachedAttribute {
    pub(super) fn new(attribute: &Attribute) -> Box<CachedAttribute> {
        let values: Vec<&Value> = match &attribute.value {
            AttributeValue::One(value) => vec![value],
            AttributeValue::Many(_, values) => values.iter().collect(),
            AttributeValue::Variable(_) => Vec::new(),
        };
        let (mut bytes, mut texts) = (Vec::new(), Vec::new());
        for value in &values {
            match value {
                Value::String(text) => texts.push(c_text(text)),
                number => number.append_to(&mut bytes),
            }
        }
        let mut aligned = Vec::with_capacity(bytes.len().div_ceil(16));
        for piece in bytes.chunks(16) {
            let mut word = [0; 16];
            word[..piece.len()].copy_from_slice(piece);
            aligned.push(u128::from_ne_bytes(word));
        }
        let pointers: Vec<*const c_char> = texts.iter().map(|t| t.as_ptr()).collect();
        let element = match attribute.element {
            ElementType::StringArray => ElementType::String,
            other => other,
        };
        let names = [c_text(&attribute.name), c_text(attribute.variable.as_deref().unwrap_or(""))];
        let c = CAttribute {
            name: names[0].as_ptr(),
            element: c_int::from(element.code()),
            count: values.len(),
            values: if element.is_text() { null() } else { aligned.as_ptr().cast() },
            texts: if element.is_text() { pointers.as_ptr() } else { null() },
            variable: if attribute.variable.is_some() { names[1].as_ptr() } else { null() },
        };
        Box::new(CachedAttribute { c, _names: names, _values: aligned, _texts: texts, _pointers: pointers })
    }
}
