//! Every fixture of another writer reads equal to what its writer says it holds.

use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_layout::Direct;
use thalweg_reader::{Kind, Reader};
use thalweg_store::Posix;
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, ElementType, Selection, Value, bounding_box::elements};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign")
}

fn open(name: &str) -> Reader {
    let store = Posix::at(folder()).unwrap();
    Reader::open(Arc::new(Direct::new(Arc::new(store)).unwrap()), name).unwrap()
}

fn manifests() -> Vec<Json> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths.sort();
    assert!(paths.len() > 10, "no fixtures");
    paths.iter().map(|p| serde_json::from_slice(&std::fs::read(p).unwrap()).unwrap()).collect()
}

fn double(json: &Json) -> f64 {
    match json.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        Some(other) => panic!("{other}"),
        None => json.as_f64().unwrap(),
    }
}

/// Whether a value is what JSON says, bit by bit but for the sign of NaN.
fn same(value: &Value, json: &Json) -> bool {
    let close = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    match value {
        Value::F64(v) => close(*v, double(json)),
        Value::F32(v) => close(f64::from(*v), f64::from(double(json) as f32)),
        Value::LongDouble(v) => close(long_double_to_f64(v), double(json)),
        Value::Complex([a, b]) => {
            close(f64::from(*a), f64::from(double(&json[0]) as f32))
                && close(f64::from(*b), f64::from(double(&json[1]) as f32))
        }
        Value::DoubleComplex([a, b]) => close(*a, double(&json[0])) && close(*b, double(&json[1])),
        Value::String(text) => json.as_str().unwrap().as_bytes() == text.as_slice(),
        Value::U64(v) => json.as_u64() == Some(*v),
        Value::Char(v) => json.as_i64() == Some(i64::from(*v)) || json.as_i64() == Some(i64::from(*v as i8)),
        other => json.as_i64() == other.as_i64(),
    }
}

fn check_values(element: ElementType, bytes: &[u8], json: &[&Json], what: &str) {
    assert_eq!(bytes.len() as u64, element.size() * json.len() as u64, "{what}");
    for (i, (b, j)) in bytes.chunks_exact(element.size() as usize).zip(json).enumerate() {
        let value = Value::from_bytes(element, b, ByteOrder::NATIVE).unwrap();
        assert!(same(&value, j), "{what}, element {i}: {value} is not {j}");
    }
}

fn numbers(json: &Json) -> Vec<u64> {
    json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

fn place(at: &[u64], offset: &[u64], shape: &[u64]) -> usize {
    (0..shape.len()).fold(0, |n, d| n * shape[d] as usize + (at[d] + offset[d]) as usize)
}

#[test]
fn every_fixture_reads_equal_to_what_its_writer_says() {
    let mut compared = 0;
    for manifest in manifests() {
        let file = manifest["file"].as_str().unwrap();
        let reader = open(file);
        // Also where a file is not the first of an ADIOS 1.13 process, and starts at a later time index.
        assert_eq!(reader.status().steps, manifest["steps"].as_u64().unwrap(), "{file}");
        assert!(reader.status().finished && reader.status().torn_bytes == 0);
        let big = manifest["byte_order"] == "big";
        assert_eq!(reader.status().order == ByteOrder::Big, big, "{file}");
        for (name, said) in manifest["variables"].as_object().unwrap() {
            let what = format!("{file}: {name}");
            let variable = reader.variable(name).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(variable.element.name(), said["type"].as_str().unwrap(), "{what}");
            let blocks = said["blocks"].as_array().unwrap();
            let mut steps: Vec<u64> = blocks.iter().map(|b| b["step"].as_u64().unwrap()).collect();
            steps.dedup();
            assert_eq!(variable.steps, steps, "{what}");
            for step in steps {
                let what = format!("{what}, step {step}");
                let said: Vec<&Json> = blocks.iter().filter(|b| b["step"].as_u64().unwrap() == step).collect();
                let got = reader.blocks(name, step).unwrap();
                assert_eq!(got.len(), said.len(), "{what}");
                if said[0].get("value").is_some() {
                    assert_eq!(variable.kind, Kind::Scalar, "{what}");
                    assert!(same(&reader.value(name, step).unwrap(), &said[0]["value"]), "{what}");
                    for (i, s) in said.iter().enumerate() {
                        let bytes = reader.read_to_vec(name, step, &Selection::Block(i as u64)).unwrap();
                        let value = Value::from_bytes(variable.element, &bytes, ByteOrder::NATIVE).unwrap();
                        assert!(same(&value, &s["value"]), "{what}, block {i}: {value}");
                        compared += 1;
                    }
                    continue;
                }
                for (i, (b, s)) in got.iter().zip(&said).enumerate() {
                    let what = format!("{what}, block {i}");
                    assert_eq!(b.count, numbers(&s["count"]), "{what}");
                    if let (Some(rank), Some(writer)) = (s["rank"].as_u64(), reader.writer(b).unwrap()) {
                        assert_eq!(u64::from(writer), rank, "{what}");
                    }
                    let bytes = reader.read_to_vec(name, step, &Selection::Block(i as u64)).unwrap();
                    let values: Vec<&Json> = s["values"].as_array().unwrap().iter().collect();
                    check_values(variable.element, &bytes, &values, &what);
                    compared += values.len();
                }
                if said[0].get("shape").is_none() {
                    assert_eq!(variable.kind, Kind::Local, "{what}");
                    continue;
                }
                assert_eq!(variable.kind, Kind::Global, "{what}");
                let shape = numbers(&said[0]["shape"]);
                assert_eq!(reader.shape(name, step).unwrap(), shape, "{what}");
                let n = elements(&shape).unwrap() as usize;
                let size = variable.element.size() as usize;
                // What no block covers must stay as it was.
                let mut out = vec![0xa5; n * size];
                let filled = reader.read(name, step, &Selection::All, &mut out).unwrap();
                let mut whole: Vec<Option<&Json>> = vec![None; n];
                for s in &said {
                    let (count, offset) = (numbers(&s["count"]), numbers(&s["offset"]));
                    for (i, v) in s["values"].as_array().unwrap().iter().enumerate() {
                        let mut at = vec![0; count.len()];
                        let mut rest = i as u64;
                        for d in (0..count.len()).rev() {
                            (at[d], rest) = (rest % count[d], rest / count[d]);
                        }
                        whole[place(&at, &offset, &shape)] = Some(v);
                    }
                }
                assert_eq!(filled as usize, whole.iter().flatten().count(), "{what}");
                for (i, v) in whole.iter().enumerate() {
                    let b = &out[i * size..(i + 1) * size];
                    match v {
                        None => assert!(b.iter().all(|x| *x == 0xa5), "{what}, element {i} was touched"),
                        Some(v) => {
                            let value = Value::from_bytes(variable.element, b, ByteOrder::NATIVE).unwrap();
                            assert!(same(&value, v), "{what}, element {i}: {value} is not {v}");
                        }
                    }
                }
                // The middle of it, and the last element as a point.
                let offset: Vec<u64> = shape.iter().map(|s| s / 3).collect();
                let count: Vec<u64> = shape.iter().zip(&offset).map(|(s, o)| (s - o).min(s / 2 + 1)).collect();
                let middle = BoundingBox::new(offset.clone(), count.clone());
                let part = reader.read_to_vec(name, step, &Selection::Box(middle.clone())).unwrap();
                for i in 0..middle.elements().unwrap() {
                    let mut at = vec![0; count.len()];
                    let mut rest = i;
                    for d in (0..count.len()).rev() {
                        (at[d], rest) = (rest % count[d], rest / count[d]);
                    }
                    if let Some(v) = whole[place(&at, &offset, &shape)] {
                        let b = &part[i as usize * size..][..size];
                        assert!(same(&Value::from_bytes(variable.element, b, ByteOrder::NATIVE).unwrap(), v), "{what}");
                    }
                }
                let last: Vec<u64> = shape.iter().map(|s| s - 1).collect();
                let point = reader.read_to_vec(name, step, &Selection::Points(vec![last])).unwrap();
                if whole[n - 1].is_some() {
                    assert_eq!(point, out[(n - 1) * size..], "{what}");
                }
            }
        }
        for (name, said) in manifest["attributes"].as_object().unwrap() {
            let what = format!("{file}: attribute {name}");
            let attribute = reader.attribute(name).unwrap_or_else(|e| panic!("{what}: {e}"));
            // adios2 stores one text as an array of one.
            let one_text = file.starts_with("adios2") && said["type"] == "string";
            let wanted = if one_text { "string array" } else { said["type"].as_str().unwrap() };
            assert_eq!(attribute.element.name(), wanted, "{what}");
            match (&attribute.value, said.get("values"), said.get("variable_of")) {
                (AttributeValue::Many(_, values), Some(Json::Array(said)), None) => {
                    assert_eq!(values.len(), said.len(), "{what}");
                    assert!(values.iter().zip(said).all(|(v, s)| same(v, s)), "{what}: {values:?}");
                }
                (AttributeValue::Many(_, values), None, None) if one_text => {
                    assert!(values.len() == 1 && same(&values[0], &said["value"]), "{what}: {values:?}");
                }
                (AttributeValue::One(value), None, None) => assert!(same(value, &said["value"]), "{what}: {value}"),
                // ADIOS 1.13 without XML stores 0 in place of the variable: the file says no more.
                (AttributeValue::One(value), None, Some(_)) if file == "adios1-bound.bp" => {
                    assert_eq!(value.as_i64(), Some(0), "{what}")
                }
                (AttributeValue::One(value), None, Some(of)) => {
                    assert_eq!(attribute.variable.as_deref(), of.as_str(), "{what}");
                    let step = *reader.variable(of.as_str().unwrap()).unwrap().steps.last().unwrap();
                    assert_eq!(*value, reader.value(of.as_str().unwrap(), step).unwrap(), "{what}");
                }
                (AttributeValue::One(value), Some(Json::Array(said)), None) if said.len() == 1 => {
                    assert!(same(value, &said[0]), "{what}: {value}");
                }
                other => panic!("{what}: {other:?}"),
            }
            compared += 1;
        }
    }
    assert!(compared > 9_000, "only {compared} values were compared");
}

#[test]
fn characteristics_of_every_fixture_agree_with_the_values() {
    let mut known = 0;
    for manifest in manifests() {
        let file = manifest["file"].as_str().unwrap();
        let reader = open(file);
        for head in reader.variables() {
            let v = reader.variable(&head.name).unwrap();
            if v.element.is_text() {
                continue;
            }
            reader
                .for_each_block(&head.name, 0..u64::MAX, &mut |b| {
                    let Some(s) = &b.statistics else { return Ok(()) };
                    if v.element.is_complex() && s.complex.is_none() {
                        return Ok(());
                    }
                    let bytes = reader.read_to_vec(&head.name, b.step, &Selection::Block(b.number))?;
                    let mut all = thalweg_bp::statistics::Accumulator::new(v.element, s.level);
                    all.update(&bytes);
                    let Some(computed) = all.finish() else { return Ok(()) };
                    let what = format!("{file}: {} step {} block {}", head.name, b.step, b.number);
                    if b.elements() == 0 || computed.finite == 0 {
                        // ADIOS 1.13 leaves memory that was never set in the bounds of nothing.
                    } else if let (Some(a), Some(c)) = (s.complex, computed.complex) {
                        // Magnitudes of ADIOS 1.13 are computed in another precision.
                        assert!(
                            a.iter().zip(&c).all(|(a, c)| (a.min - c.min).abs() <= 1e-6 * c.min.abs().max(1.0)),
                            "{what}"
                        );
                    } else if [&s.min, &s.max].iter().any(|v| v.as_f64().is_some_and(f64::is_infinite)) {
                        // ADIOS 1.13 without the count takes infinities for bounds.
                        assert!(file.starts_with("adios"), "{what}");
                    } else {
                        assert_eq!((&s.min, &s.max), (&computed.min, &computed.max), "{what}");
                        if s.level == thalweg_bp::statistics::Level::Full {
                            assert_eq!(s.finite, computed.finite, "{what}");
                        }
                    }
                    known += 1;
                    Ok(())
                })
                .unwrap();
        }
    }
    assert!(known > 200, "{known}");
}

#[test]
fn every_fixture_verifies() {
    let layout = Direct::new(Arc::new(Posix::at(folder()).unwrap())).unwrap();
    for manifest in manifests() {
        let file = manifest["file"].as_str().unwrap();
        let report = thalweg_reader::verify(&layout, file).unwrap();
        let real: Vec<_> = report.findings.iter().filter(|f| f.kind != thalweg_reader::FindingKind::Gap).collect();
        assert!(real.is_empty(), "{file}: {real:#?}");
        assert!(report.blocks > 0);
        assert_eq!(report.process_groups == 0, file.starts_with("adios2"), "{file}: {:?}", report.not_checked);
    }
}
