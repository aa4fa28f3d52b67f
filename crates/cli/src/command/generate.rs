//! `thalweg gen`: calls for a program to include, from the description of its output.

use crate::arguments::{Gen, GenLanguage};
use crate::document;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, plain};
use std::io::Write;
use thalweg_schema::calls::{self, Language};
use thalweg_schema::{HostLanguage, Schema};
use thalweg_types::Error;

pub fn run(arguments: &Gen, out: &mut Terminal) -> Result<Outcome, Failure> {
    let (schema, report) = document::read(&arguments.config)?;
    let Some(schema) = schema.filter(|_| report.errors() == 0) else {
        eprint!("{}", report.render(false));
        return Ok(Outcome::No);
    };
    let language = match (arguments.language, schema.host_language) {
        (Some(GenLanguage::C), _) | (None, HostLanguage::C) => Language::C,
        (Some(GenLanguage::Fortran), _) | (None, HostLanguage::Fortran) => Language::Fortran,
    };
    if !arguments.output.as_os_str().is_empty() {
        let failed = |e| Error::io(format!("cannot make the folder '{}'", arguments.output.display()), e);
        std::fs::create_dir_all(&arguments.output).map_err(failed)?;
    }
    let name = arguments.config.file_name().unwrap_or_default().to_string_lossy();
    for group in chosen(&schema, &arguments.group)? {
        for include in calls::includes(group, &name, language)? {
            let path = arguments.output.join(&include.name);
            let place = plain(&path.display().to_string());
            // An unchanged file keeps its time, so that `make` does nothing.
            if std::fs::read(&path).is_ok_and(|there| there == include.text.as_bytes()) {
                writeln!(out, "{place} is as it was")?;
                continue;
            }
            std::fs::write(&path, &include.text).map_err(|e| Error::io(format!("cannot write '{place}'"), e))?;
            writeln!(out, "{place}")?;
        }
    }
    Ok(Outcome::Done)
}

fn chosen<'s>(schema: &'s Schema, names: &[String]) -> Result<Vec<&'s thalweg_schema::Group>, Failure> {
    if names.is_empty() {
        return Ok(schema.groups.iter().collect());
    }
    let known = || schema.groups.iter().map(|g| g.name.as_str());
    let find = |name: &String| {
        schema.group(name).ok_or_else(|| {
            let hint = thalweg_params::nearest(name, known())
                .map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
            Failure::Absent(format!("no group \"{name}\" is described{hint}"))
        })
    };
    names.iter().map(find).collect()
}
