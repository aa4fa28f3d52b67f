//! `thalweg help`: explains commands, and the parameters of methods, transforms, layouts, stores and XML elements.

use crate::arguments::{Arguments, Help};
use crate::outcome::{Failure, Outcome};
use crate::terminal::{ASIDE, HEADING, Terminal};
use clap::CommandFactory;
use std::io::Write;
use thalweg_io::parameters::{self, Entry, Subject};
use thalweg_params::{Kind, Parameter};

/// Width of the text if standard output is no terminal.
const WIDTH: usize = 100;

pub fn run(arguments: &Help, out: &mut Terminal) -> Result<Outcome, Failure> {
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    match (words.first().and_then(|word| Subject::of(word)), &words[..]) {
        (Some(subject), [_]) => {
            let all = parameters::entries(subject);
            match &all[..] {
                [one] => entry(one, out)?,
                all => list(subject, all, out)?,
            }
        }
        (Some(subject), [_, name]) => {
            let found = parameters::find(subject, name).map_err(|problem| Failure::Usage(problem.to_string()))?;
            entry(&found, out)?;
        }
        (Some(subject), _) => {
            return Err(Failure::Usage(format!("one name is expected: thalweg help {} NAME", subject.word())));
        }
        (None, words) => of_command(words, out)?,
    }
    Ok(Outcome::Done)
}

/// The help of a command, or of all.
fn of_command(words: &[&str], out: &mut Terminal) -> Result<(), Failure> {
    let mut at = Arguments::command();
    at.build();
    for word in words {
        let Some(next) = at.find_subcommand(word).cloned() else {
            let known: Vec<&str> = at.get_subcommands().map(clap::Command::get_name).collect();
            let subjects = Subject::ALL.iter().map(|subject| subject.word());
            let near = thalweg_params::nearest(word, known.into_iter().chain(subjects));
            let near = near.map_or(String::new(), |near| format!("; nearest known word: {near}"));
            return Err(Failure::Usage(format!("there is no help on '{word}'{near}")));
        };
        at = next;
    }
    // As the command itself prints it.
    let asked = ["thalweg"].iter().chain(words).chain(&["--help"]);
    let Err(help) = Arguments::command().try_get_matches_from(asked) else { return Ok(()) };
    let text = help.render();
    if out.color() {
        write!(out, "{}", text.ansi())?
    } else {
        write!(out, "{text}")?
    }
    Ok(())
}

/// The entries of a subject, one line each.
fn list(subject: Subject, all: &[Entry], out: &mut Terminal) -> Result<(), Failure> {
    let longest = all.iter().map(|entry| entry.names[0].len()).max().unwrap_or(0);
    for entry in all {
        out.styled(HEADING, &format!("{:<longest$}", entry.names[0]))?;
        writeln!(out, "  {}", entry.about)?;
    }
    writeln!(out, "\nParameters of one: thalweg help {} {}", subject.word(), all[0].names[0])?;
    Ok(())
}

/// An entry with its parameters.
fn entry(entry: &Entry, out: &mut Terminal) -> Result<(), Failure> {
    let (first, others) = entry.names.split_first().map_or(("", &[][..]), |(first, others)| (*first, others));
    out.styled(HEADING, first)?;
    if !others.is_empty() {
        write!(out, " ({})", others.join(", "))?;
    }
    writeln!(out, ": {}", entry.about)?;
    if let Some(feature) = entry.lacks {
        writeln!(out, "not in this build: it needs the feature \"{feature}\"")?;
    }
    if entry.parameters.is_empty() {
        writeln!(out, "no parameters")?;
    }
    let columns = out.width().unwrap_or(WIDTH).min(WIDTH);
    for parameter in entry.parameters.iter().filter(|p| p.kind != Kind::NoEffect) {
        writeln!(out)?;
        one(parameter, columns, out)?;
    }
    let ignored = entry.parameters.iter().filter(|p| p.kind == Kind::NoEffect);
    let ignored: Vec<&str> = ignored.flat_map(Parameter::names).collect();
    if !ignored.is_empty() {
        writeln!(out)?;
        wrapped(&format!("Accepted as in ADIOS 1.x, without effect: {}", ignored.join(", ")), 0, columns, out)?;
    }
    Ok(())
}

fn one(parameter: &Parameter, columns: usize, out: &mut Terminal) -> Result<(), Failure> {
    out.styled(ASIDE, &parameter.names().collect::<Vec<_>>().join(", "))?;
    let default = match parameter.default_text() {
        text if text.is_empty() => String::new(),
        text => format!("; default: {text}"),
    };
    writeln!(out, "  {}{default}", parameter.takes())?;
    wrapped(parameter.about, 4, columns, out)
}

/// Text in lines of at most so many columns, as far as its words allow.
fn wrapped(text: &str, indent: usize, columns: usize, out: &mut Terminal) -> Result<(), Failure> {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > columns {
            writeln!(out, "{:indent$}{line}", "")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    writeln!(out, "{:indent$}{line}", "")?;
    Ok(())
}
