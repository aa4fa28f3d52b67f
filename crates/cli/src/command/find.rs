//! `thalweg find`: steps and blocks that may match by their characteristics.
//!
//! One pass over the blocks of each variable in the expression; with `--blocks` a second one. No value is read.

use crate::arguments::Find;
use crate::file;
use crate::format;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{ASIDE, GOOD, HEADING, Terminal, plain};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use thalweg_query::predicate::summary::Summary;
use thalweg_query::predicate::{Facts, Function, Predicate, Term, parse};
use thalweg_query::{Answer, facts};
use thalweg_reader::{Block, Kind, Reader, Variable};
use thalweg_report::text::count;
use thalweg_types::{AttributeValue, Value};

pub fn run(arguments: &Find, out: &mut Terminal) -> Result<Outcome, Failure> {
    let predicate = parse::parse(&arguments.expression).map_err(|mistake| Failure::Usage(mistake.to_string()))?;
    let reader = file::open(&arguments.file, Some("reading characteristics"))?;
    let asked = ResolvedNames::bind(&predicate, &reader)?;

    let mut per_variable: Vec<BTreeMap<u64, Summary>> = Vec::new();
    for variable in &asked.variables {
        let mut steps: BTreeMap<u64, Summary> = BTreeMap::new();
        reader.for_each_block(&variable.name, file::all_steps(&reader), &mut |block| {
            steps.entry(block.step).or_default().add(&facts::of(&block, variable.element));
            Ok(())
        })?;
        per_variable.push(steps);
    }
    let mut found: Vec<(u64, Answer)> = Vec::new();
    let mut seen = 0;
    // Steps with process groups in the file: the recorded number of steps may be any number.
    let groups = reader.process_groups()?;
    let mut there: BTreeSet<u64> = groups.iter().map(|g| reader.step_of_time(g.time_index)).collect();
    there.extend(per_variable.iter().flat_map(|steps| steps.keys()));
    for step in there {
        seen += 1;
        let of_step: Vec<Option<&Summary>> = per_variable.iter().map(|s| s.get(&step)).collect();
        let answer = predicate.answer(&Facts { step, variables: &of_step, attributes: &asked.attributes });
        if answer != Answer::No {
            found.push((step, answer));
            if arguments.first {
                break;
            }
        }
    }
    let mut blocks: BTreeMap<u64, Vec<FoundBlock>> = BTreeMap::new();
    if arguments.blocks && !found.is_empty() {
        let wanted: BTreeMap<u64, Answer> = found.iter().copied().collect();
        let range = found[0].0..found[found.len() - 1].0 + 1;
        let writers = file::Writers::of(&reader)?;
        for (i, variable) in asked.variables.iter().enumerate() {
            reader.for_each_block(&variable.name, range.clone(), &mut |block| {
                if !wanted.contains_key(&block.step) {
                    return Ok(());
                }
                let mut alone = Summary::default();
                alone.add(&facts::of(&block, variable.element));
                let mut of_step: Vec<Option<&Summary>> = per_variable.iter().map(|s| s.get(&block.step)).collect();
                of_step[i] = Some(&alone);
                let known = Facts { step: block.step, variables: &of_step, attributes: &asked.attributes };
                let answer = predicate.answer(&known);
                if answer != Answer::No {
                    let rank = writers.rank(&block);
                    let Block { step, number, offset, count, value, .. } = block;
                    let one = FoundBlock { variable: i, number, rank, offset, count, value, answer };
                    blocks.entry(step).or_default().push(one);
                }
                Ok(())
            })?;
        }
    }
    if arguments.json {
        print_json(arguments, &asked, seen, &found, &blocks, out)?;
    } else {
        print(arguments, &asked, seen, &found, &blocks, out)?;
    }
    Ok(if found.is_empty() { Outcome::No } else { Outcome::Done })
}

/// The predicate's names, resolved in the file.
struct ResolvedNames {
    variables: Vec<Variable>,
    attributes: Vec<Vec<Value>>,
}

/// A block that was found, in compact form: there may be very many.
struct FoundBlock {
    variable: usize,
    number: u64,
    rank: Option<u32>,
    offset: Vec<u64>,
    count: Vec<u64>,
    value: Option<Value>,
    answer: Answer,
}

impl ResolvedNames {
    fn bind(predicate: &Predicate, reader: &Reader) -> Result<ResolvedNames, Failure> {
        let mut variables = Vec::new();
        for name in &predicate.variables {
            let known = file::known(reader.variables(), name)
                .ok_or_else(|| file::absent("variable", reader.variables(), name))?;
            variables.push(reader.variable(known)?);
        }
        let mut attributes = Vec::new();
        for name in &predicate.attributes {
            let known = file::known(reader.attributes(), name)
                .ok_or_else(|| file::absent("attribute", reader.attributes(), name))?;
            attributes.push(match reader.attribute(known)?.value {
                AttributeValue::One(value) => vec![value],
                AttributeValue::Many(_, values) => values,
                AttributeValue::Variable(_) => Vec::new(),
            });
        }
        let asked = ResolvedNames { variables, attributes };
        for (a, _, b) in predicate.comparisons() {
            let (text_a, text_b) = (asked.is_text(a)?, asked.is_text(b)?);
            if text_a != text_b {
                let name = |t: &Term| match t {
                    Term::Of(_, i) => format!("variable '{}'", plain(&predicate.variables[*i])),
                    Term::Attribute(i) => format!("attribute '{}'", plain(&predicate.attributes[*i])),
                    Term::Text(t) => format!("\"{}\"", plain(&String::from_utf8_lossy(t))),
                    Term::Number(n) => n.to_string(),
                    Term::Step => "step".to_string(),
                };
                let (text, number) = if text_a { (name(a), name(b)) } else { (name(b), name(a)) };
                return Err(Failure::Absent(format!("{text} is text, {number} a number: they can't be compared")));
            }
        }
        Ok(asked)
    }

    fn is_text(&self, term: &Term) -> Result<bool, Failure> {
        Ok(match term {
            Term::Text(_) => true,
            Term::Number(_) | Term::Step => false,
            Term::Attribute(i) => matches!(self.attributes[*i].first(), Some(Value::String(_))),
            Term::Of(function, i) => {
                let variable = &self.variables[*i];
                let text = variable.element.is_text();
                if text && *function != Function::Any {
                    let name = plain(&variable.name);
                    return Err(Failure::Absent(format!(
                        "'{name}' is text, it has no minimum, mean or count; compare it as it is: {name} == \"...\""
                    )));
                }
                text
            }
        })
    }
}

fn word(answer: Answer) -> &'static str {
    if answer == Answer::Yes { "certain" } else { "possible" }
}

fn print(
    arguments: &Find,
    asked: &ResolvedNames,
    seen: u64,
    found: &[(u64, Answer)],
    blocks: &BTreeMap<u64, Vec<FoundBlock>>,
    out: &mut Terminal,
) -> Result<(), Failure> {
    for (step, answer) in found {
        out.styled(HEADING, &format!("step {step}"))?;
        write!(out, "  ")?;
        out.styled(if *answer == Answer::Yes { GOOD } else { ASIDE }, word(*answer))?;
        writeln!(out)?;
        for b in blocks.get(step).into_iter().flatten() {
            let variable = &asked.variables[b.variable];
            write!(out, "    {}  block {}", plain(&variable.name), b.number)?;
            if let Some(rank) = b.rank {
                write!(out, "  rank {rank}")?;
            }
            match variable.kind {
                Kind::Global => write!(out, "  {}", format::range(&b.offset, &b.count))?,
                Kind::Local => write!(out, "  {:?}", b.count)?,
                Kind::Scalar | Kind::LocalValue => {
                    if let Some(value) = &b.value {
                        write!(out, "  = {}", format::short(value))?;
                    }
                }
            }
            writeln!(out, "  {}", word(b.answer))?;
        }
    }
    let certain = found.iter().filter(|(_, a)| *a == Answer::Yes).count() as u64;
    let steps = if arguments.first && !found.is_empty() {
        format!("the first of {} looked at", count(seen, "step"))
    } else if found.is_empty() {
        format!("ruled out in all of {}", count(seen, "step"))
    } else {
        let n = found.len() as u64;
        format!("{} of {} can't be ruled out, {certain} certain", n, count(seen, "step"))
    };
    writeln!(out, "{steps}; only characteristics were read, no values")?;
    Ok(())
}

fn print_json(
    arguments: &Find,
    asked: &ResolvedNames,
    seen: u64,
    found: &[(u64, Answer)],
    blocks: &BTreeMap<u64, Vec<FoundBlock>>,
    out: &mut Terminal,
) -> Result<(), Failure> {
    let found: Vec<Json> = found
        .iter()
        .map(|(step, answer)| {
            let mut one = json!({ "step": step, "answer": word(*answer) });
            if arguments.blocks {
                let of_step = blocks.get(step).into_iter().flatten().map(|b| {
                    json!({
                        "variable": asked.variables[b.variable].name, "block": b.number, "rank": b.rank,
                        "offset": b.offset, "count": b.count, "answer": word(b.answer),
                    })
                });
                one["blocks"] = of_step.collect();
            }
            one
        })
        .collect();
    let (file, expression) = (json!(arguments.file.display().to_string()), json!(arguments.expression));
    write!(out, "{{\"file\": {file}, \"expression\": {expression}, \"read\": \"characteristics\", ")?;
    write!(out, "\"steps_looked_at\": {seen}, \"found\": [")?;
    for (i, one) in found.iter().enumerate() {
        write!(out, "{}{one}", if i == 0 { "\n" } else { ",\n" })?;
    }
    writeln!(out, "]}}")?;
    Ok(())
}
