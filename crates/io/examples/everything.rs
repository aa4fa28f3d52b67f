//! Writes a file with everything a group may hold, with ranks as threads, and says beside it what it holds:
//! `everything PATH [method=MPI] [ranks=4] [steps=3] [sessions=1] [language=C] [index=each] [transform=SPEC] [silent] [edge_cases] [index] [follow]`.
//!
//! With `transform` all arrays go through it that it takes, but `/statistics/minmax`; with `silent` their statistics are
//! not recorded.
//!
//! With `edge_cases` it holds instead the edge cases that break other readers. With `index` the index alone follows, as `PATH.index`.
//!
//! `PATH` without its ending, with `.json`, is a manifest as `tests/fixtures/foreign/manifest.py` describes it: of what
//! was handed to the library, never of what is in the file. With `follow` it prints `step N` after each step and goes
//! on when a line comes in, so that others may look at the file in between.

use serde_json::{Map, Value as Json, json};
use std::io::BufRead;
use thalweg_conformance::round_trip::{self, Scenario, WriteSetup, edge_cases, everything};
use thalweg_schema::HostLanguage;
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Value};

fn main() {
    let mut path = None;
    let (mut method, mut ranks, mut steps, mut follow, mut apart, mut index) =
        ("MPI".to_string(), 4, 3, false, false, false);
    let (mut transform, mut silent) = (None, false);
    let (mut language, mut sessions, mut parameters) = (HostLanguage::C, 1, Vec::new());
    for argument in std::env::args().skip(1) {
        let number = |value: &str| value.parse::<u64>().unwrap_or_else(|e| panic!("{argument}: {e}"));
        match argument.split_once('=') {
            Some(("method", value)) => method = value.to_string(),
            Some(("ranks", value)) => ranks = number(value) as u32,
            Some(("steps", value)) => steps = number(value),
            Some(("sessions", value)) => sessions = number(value) as usize,
            Some(("language", "Fortran")) => language = HostLanguage::Fortran,
            Some(("language", "C")) => {}
            Some(("transform", value)) => transform = Some(value.to_string()),
            Some((key, value)) => parameters.push((key.to_string(), value.to_string())),
            None if argument == "silent" => silent = true,
            None if argument == "follow" => follow = true,
            None if argument == "edge_cases" => apart = true,
            None if argument == "index" => index = true,
            None => path = Some(argument),
        }
    }
    let path = path.unwrap_or_else(|| panic!("everything PATH [KEY=VALUE]..."));
    let path = std::path::absolute(path).unwrap_or_else(|e| panic!("{e}"));
    let (folder, name) = (path.parent().unwrap_or(&path), path.file_name().unwrap_or_default().to_string_lossy());
    let mut scenario =
        if apart { edge_cases::scenario(ranks, steps) } else { everything::scenario(ranks, steps, language) };
    if let Some(transform) = &transform {
        for variable in &mut scenario.schema.groups[0].variables {
            variable.transform = Some(transform.clone()).filter(|_| variable.name != "minmax");
            if !matches!(thalweg_io::transform::of(variable), Ok(Some(_))) {
                variable.transform = None;
            } else if silent {
                variable.statistics = Some(thalweg_schema::Statistics::Off);
            }
        }
    }
    let manifest = serde_json::to_string(&manifest(&name, &scenario)).unwrap_or_else(|e| panic!("{e}"));
    std::fs::write(path.with_extension("json"), manifest).unwrap_or_else(|e| panic!("{e}"));
    let setup = WriteSetup { method, parameters, sessions, ..WriteSetup::default() };
    let layout = round_trip::in_folder(folder);
    round_trip::write(&layout, &name, &scenario, &setup, &|step| {
        if follow {
            println!("step {step}");
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).unwrap_or_else(|e| panic!("{e}"));
        }
    });
    if index {
        let bytes = thalweg_reader::index_only(&*layout, &name).unwrap_or_else(|e| panic!("{e}"));
        std::fs::write(folder.join(format!("{name}.index")), bytes).unwrap_or_else(|e| panic!("{e}"));
    }
}

fn manifest(name: &str, scenario: &Scenario) -> Json {
    let group = &scenario.schema.groups[0].name;
    let mut variables = Map::new();
    for (name, blocks) in scenario.blocks(scenario.steps.len()) {
        let element = blocks[0].element;
        let mut said = Vec::new();
        for b in blocks {
            let mut block = json!({"step": b.step, "rank": b.rank});
            let values = values(element, &b.write.bytes);
            match &b.write.shape {
                None => block["value"] = values.into_iter().next().unwrap_or_default(),
                Some(shape) => {
                    if shape.is_global() {
                        block["shape"] = json!(shape.global);
                        block["offset"] = json!(b.write.stored_offset());
                    }
                    block["count"] = json!(shape.local);
                    block["values"] = Json::Array(values);
                }
            }
            said.push(block);
        }
        variables.insert(name, json!({"group": group, "type": element.name(), "blocks": said}));
    }
    let mut attributes = Map::new();
    for (name, value) in &scenario.attributes {
        let said = match value {
            AttributeValue::One(v) => json!({"group": group, "type": v.element_type().name(), "value": plain(v)}),
            AttributeValue::Many(t, values) => {
                let kind = if *t == ElementType::String { ElementType::StringArray } else { *t };
                json!({"group": group, "type": kind.name(), "values": values.iter().map(plain).collect::<Vec<_>>()})
            }
            AttributeValue::Variable(_) => continue,
        };
        attributes.insert(name.clone(), said);
    }
    json!({"file": name, "writer": "Thalweg", "byte_order": "little", "steps": scenario.steps.len(),
           "variables": variables, "attributes": attributes})
}

fn values(element: ElementType, bytes: &[u8]) -> Vec<Json> {
    if element.is_text() {
        return vec![json!(String::from_utf8_lossy(bytes))];
    }
    let one = |bytes: &[u8]| Value::from_bytes(element, bytes, ByteOrder::NATIVE).map_or(Json::Null, |v| plain(&v));
    bytes.chunks_exact(element.size() as usize).map(one).collect()
}

/// A value as the manifest has it.
fn plain(value: &Value) -> Json {
    let double = |v: f64| match v {
        v if v.is_nan() => json!("NaN"),
        v if v.is_infinite() => json!(if v > 0.0 { "Infinity" } else { "-Infinity" }),
        v => json!(v),
    };
    match value {
        Value::F32(v) => double(f64::from(*v)),
        Value::F64(v) => double(*v),
        Value::LongDouble(v) => double(long_double_to_f64(v)),
        Value::Complex(v) => Json::Array(v.iter().map(|v| double(f64::from(*v))).collect()),
        Value::DoubleComplex(v) => Json::Array(v.iter().map(|v| double(*v)).collect()),
        Value::String(text) => json!(String::from_utf8_lossy(text)),
        Value::U64(v) => json!(v),
        other => json!(other.as_i64()),
    }
}
