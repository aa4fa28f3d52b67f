//! `thalweg watch`: the steps of a file that a program writes, with the characteristics of its variables.

use super::plot::{content, shown};
use crate::arguments::Watch;
use crate::command::ls::{self, Patterns};
use crate::file;
use crate::following::{Came, Follow};
use crate::format;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{ASIDE, Terminal, complain, left, plain};
use serde_json::json;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_reader::{Kind, Reader, Variable};
use thalweg_report::json as report;
use thalweg_report::plot::{Content, Line, Plot};
use thalweg_report::text::clock;

pub fn run(arguments: &Watch, out: &mut Terminal) -> Result<Outcome, Failure> {
    let patterns = Patterns::new(&arguments.name, false)?;
    let mut follow = Follow::open(&arguments.file, arguments.through.as_deref(), arguments.timeout)?;
    if arguments.new {
        follow.skip_to_last()?;
    }
    check_names(follow.reader(), &arguments.name)?;
    let mut chart = Chart::default();
    let mut seen = 0;
    loop {
        let step = follow.step();
        let variables = chosen(follow.reader(), &patterns, step)?;
        if arguments.plot {
            chart.add(follow.reader(), &variables, step)?;
            chart.print(arguments, step, out)?;
        } else if arguments.json {
            print_json(follow.reader(), &variables, step, out)?;
        } else {
            print(follow.reader(), &variables, step, out)?;
        }
        out.flush()?;
        seen += 1;
        if arguments.steps.is_some_and(|steps| seen >= steps) || follow.is_told_to_end() {
            return Ok(Outcome::Done);
        }
        match follow.next(false)? {
            Came::Step => {}
            Came::End | Came::Stopped => return Ok(Outcome::Done),
            Came::WriterDied => {
                complain("thalweg", &format!("the writer died: step {step} is the last that it has closed"));
                return Ok(Outcome::No);
            }
            Came::Late => {
                complain("thalweg", &format!("no step came in time after step {step}"));
                return Ok(Outcome::No);
            }
        }
    }
}

/// Names that are no patterns are in the first step.
fn check_names(reader: &Reader, names: &[String]) -> Result<(), Failure> {
    let heads = reader.variables();
    for name in names.iter().filter(|name| !name.contains(['*', '?', '['])) {
        file::known(heads, name).ok_or_else(|| file::absent("variable", heads, name))?;
    }
    Ok(())
}

/// The variables that are shown of a step; texts and those of the library itself only where a pattern fits them.
fn chosen(reader: &Reader, patterns: &Patterns, step: u64) -> Result<Vec<Variable>, Failure> {
    let mut all = Vec::new();
    for head in reader.variables() {
        let is_own = head.name.trim_start_matches('/').starts_with("__adios__/");
        if !patterns.fit(&head.name) || (is_own && !patterns.any()) || !reader.is_written(&head.name, step)? {
            continue;
        }
        let variable = reader.variable(&head.name)?;
        if patterns.any() || !variable.element.is_text() {
            all.push(variable);
        }
    }
    Ok(all)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn print(reader: &Reader, variables: &[Variable], step: u64, out: &mut Terminal) -> Result<(), Failure> {
    let front = format!("{}  step {step}", clock(now()));
    let width = variables.iter().map(|v| plain(&v.name).chars().count()).max().unwrap_or(0);
    if variables.is_empty() {
        out.styled(ASIDE, &front)?;
        writeln!(out)?;
    }
    for variable in variables {
        out.styled(ASIDE, &front)?;
        write!(out, "  {}", left(&plain(&variable.name), width))?;
        match variable.kind {
            Kind::Scalar => writeln!(out, "  {}", format::short(&reader.value(&variable.name, step)?))?,
            _ => {
                let ([min, max, mean, _], _) = ls::facts(reader, variable, step..step + 1)?;
                writeln!(out, "  min {min}  max {max}  mean {mean}")?;
            }
        }
    }
    Ok(())
}

fn print_json(reader: &Reader, variables: &[Variable], step: u64, out: &mut Terminal) -> Result<(), Failure> {
    let mut all = Vec::new();
    for variable in variables {
        let name = &variable.name;
        all.push(match variable.kind {
            Kind::Scalar => json!({ "name": name, "value": report::value(&reader.value(name, step)?) }),
            _ => {
                let mut facts = json!({ "name": name });
                let more = ls::json_facts(variable.element, &reader.summary(name, step..step + 1)?);
                if let (Some(facts), serde_json::Value::Object(more)) = (facts.as_object_mut(), more) {
                    facts.extend(more);
                }
                facts
            }
        });
    }
    writeln!(out, "{}", json!({ "step": step, "seen_unix": now(), "variables": all }))?;
    Ok(())
}

/// The steps so far, as lines.
#[derive(Default)]
struct Chart {
    lines: Vec<Line>,
}

impl Chart {
    fn add(&mut self, reader: &Reader, variables: &[Variable], step: u64) -> Result<(), Failure> {
        for variable in variables.iter().filter(|variable| !variable.element.is_text()) {
            let name = plain(&variable.name);
            match variable.kind {
                Kind::Scalar => self.put(name, step, content::number(&reader.value(&variable.name, step)?)),
                _ => {
                    let [min, max, mean, ..] = ls::numbers(&reader.summary(&variable.name, step..step + 1)?);
                    for (of, value) in [("min", min), ("mean", mean), ("max", max)] {
                        self.put(format!("{of}({name})"), step, value.unwrap_or(f64::NAN));
                    }
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, name: String, step: u64, value: f64) {
        let point = [step as f64, value];
        match self.lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => self.lines.push(Line { name, points: vec![point] }),
        }
    }

    fn print(&self, arguments: &Watch, step: u64, out: &mut Terminal) -> Result<(), Failure> {
        // On a terminal in place of the picture before.
        if out.width().is_some() {
            write!(out, "\u{1b}[H\u{1b}[2J")?;
        }
        let plot = Plot {
            title: format!("{}: step {step}, {}", plain(&arguments.file.display().to_string()), clock(now())),
            x_name: "step".into(),
            y_name: String::new(),
            content: Content::Lines(self.lines.clone()),
            log: arguments.log,
            range: [None, None],
        };
        if !shown::print(&plot, None, out)? {
            writeln!(out, "{}", plot.title)?;
        }
        if out.width().is_none() {
            writeln!(out)?;
        }
        Ok(())
    }
}
