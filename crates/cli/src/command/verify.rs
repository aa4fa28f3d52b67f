//! `thalweg verify`: checks a file offline, as delayed consistency leaves it unchecked.

use crate::arguments::Verify;
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::several;
use crate::terminal::{BAD, GOOD, Terminal, plain};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use thalweg_reader::{FindingKind, Report};
use thalweg_report::text::count;

fn words(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Torn => "torn",
        FindingKind::Checksum => "checksum",
        FindingKind::Structure => "structure",
        FindingKind::OutOfBounds => "out of bounds",
        FindingKind::IndexDiffers => "index differs",
        FindingKind::Shape => "shape",
        FindingKind::Type => "type",
        FindingKind::Overlap => "overlap",
        FindingKind::Gap => "gap",
        FindingKind::Partial => "partial",
        FindingKind::MissingSubfile => "missing subfile",
    }
}

pub fn run(arguments: &Verify, out: &mut Terminal) -> Result<Outcome, Failure> {
    several::each(&arguments.file, arguments.json, out, &mut |file, out| check(file, arguments.json, out))
}

fn check(path: &Path, json: bool, out: &mut Terminal) -> Result<Outcome, Failure> {
    let (layout, name) = file::place(path, Some("checking"))?;
    let report = thalweg_reader::verify(layout.as_ref(), &name)?;
    let sound = report.findings.is_empty();
    if json {
        print_json(&report, &path.display().to_string(), out)?;
    } else {
        print(&report, &path.display().to_string(), out)?;
    }
    if report.findings.iter().any(|f| f.kind == FindingKind::Torn) && !json {
        writeln!(out, "  next: thalweg recover {}", plain(&file::shell(path)))?;
    }
    Ok(if sound { Outcome::Done } else { Outcome::No })
}

fn print(report: &Report, file: &str, out: &mut Terminal) -> Result<(), Failure> {
    for finding in &report.findings {
        out.styled(BAD, words(finding.kind))?;
        write!(out, ": {}", plain(&finding.words))?;
        let mut about = Vec::new();
        about.extend(finding.step.map(|s| format!("step {s}")));
        about.extend(finding.variable.as_ref().map(|v| format!("\"{}\"", plain(v))));
        if !about.is_empty() {
            write!(out, " ({})", about.join(", "))?;
        }
        write!(out, " in {}", plain(&finding.object))?;
        if let Some(byte) = finding.byte {
            write!(out, " at byte {byte}")?;
        }
        writeln!(out)?;
    }
    for what in &report.not_checked {
        writeln!(out, "not checked: {}", plain(what))?;
    }
    match report.findings.len() as u64 {
        0 => out.styled(GOOD, "sound")?,
        n => out.styled(BAD, &count(n, "finding"))?,
    }
    let (steps, groups) = (count(report.steps, "step"), count(report.process_groups, "process group"));
    let (blocks, bytes) = (count(report.blocks, "block"), count(report.checked_bytes, "byte"));
    writeln!(out, ": {}: {steps}, {groups}, {blocks}, {bytes} checked against checksums", plain(file))?;
    Ok(())
}

fn print_json(report: &Report, file: &str, out: &mut Terminal) -> Result<(), Failure> {
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|f| {
            json!({
                "kind": words(f.kind), "object": f.object, "byte": f.byte, "step": f.step,
                "variable": f.variable, "words": f.words,
            })
        })
        .collect();
    let all = json!({
        "file": file, "sound": report.findings.is_empty(), "findings": findings, "not_checked": report.not_checked,
        "steps": report.steps, "process_groups": report.process_groups, "blocks": report.blocks,
        "checked_bytes": report.checked_bytes,
    });
    writeln!(out, "{all:#}")?;
    Ok(())
}
