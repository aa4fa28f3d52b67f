//! One JSON document: per variable its boxes, values flat and row-major.

use super::part::ResolvedSlice;
use super::read;
use crate::outcome::Failure;
use crate::terminal::Terminal;
use serde_json::json;
use std::io::Write;
use thalweg_reader::{Attribute, Reader};
use thalweg_report::json as report;

pub fn print(
    reader: &Reader,
    parts: &[ResolvedSlice],
    attributes: Option<&[Attribute]>,
    out: &mut Terminal,
) -> Result<(), Failure> {
    write!(out, "{{\"file\": {}, \"variables\": [", json!(reader.path()))?;
    for (i, part) in parts.iter().enumerate() {
        let (name, element) = (json!(part.variable.name), part.variable.element);
        let kind = json!(super::super::ls::kind_name(part.variable.kind));
        let comma = if i > 0 { "," } else { "" };
        write!(
            out,
            "{comma}\n{{\"name\": {name}, \"type\": {}, \"kind\": {kind}, \"parts\": [",
            json!(element.name())
        )?;
        let mut separator = "\n  ";
        if part.is_scalar() {
            for (step, value) in read::scalars(reader, part)? {
                write!(out, "{separator}{{\"step\": {step}, \"value\": {}}}", report::value(&value))?;
                separator = ",\n  ";
            }
        } else {
            for step in &part.steps {
                for piece in part.pieces(reader, *step)? {
                    write!(out, "{separator}{{\"step\": {step}, ")?;
                    separator = ",\n  ";
                    if let Some(block) = piece.block {
                        write!(out, "\"block\": {block}, ")?;
                    }
                    let (shape, offset, count) = (json!(piece.shape), json!(piece.area.start), json!(piece.area.count));
                    write!(out, "\"shape\": {shape}, \"offset\": {offset}, \"count\": {count}, ")?;
                    if piece.area.stride.iter().any(|stride| *stride != 1) {
                        write!(out, "\"stride\": {}, ", json!(piece.area.stride))?;
                    }
                    write!(out, "\"values\": [")?;
                    let mut first = true;
                    read::for_each_stretch(reader, part, &piece, &mut |_, bytes| {
                        for value in read::values(element, bytes) {
                            write!(out, "{}{}", if first { "" } else { ", " }, report::value(&value))?;
                            first = false;
                        }
                        Ok(())
                    })?;
                    write!(out, "]}}")?;
                }
            }
        }
        write!(out, "]}}")?;
    }
    write!(out, "]")?;
    if let Some(attributes) = attributes {
        let all: Vec<_> = attributes.iter().map(super::super::ls::attribute_document).collect();
        write!(out, ",\n\"attributes\": {}", json!(all))?;
    }
    writeln!(out, "}}")?;
    Ok(())
}
