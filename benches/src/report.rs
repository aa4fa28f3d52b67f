//! What a bench found: a table to read, JSON to keep, and whether each target is met.

use crate::contender::Measurements;
use crate::options::Options;
use crate::{Failure, machine};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

/// A number that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// What the number is.
    pub what: String,
    /// At least this, or at most.
    pub wanted: f64,
    /// Whether it is the least (or else the most) that is wanted.
    pub at_least: bool,
    /// What was got; NaN where it could not be measured, which counts as missed.
    pub got: f64,
}

impl Target {
    /// Whether it is met.
    pub fn met(&self) -> bool {
        if self.at_least { self.got >= self.wanted } else { self.got <= self.wanted }
    }

    fn wanted_text(&self) -> String {
        format!("{} {}", if self.at_least { "at least" } else { "at most" }, number(self.wanted))
    }
}

/// A table; its first column is text, the others are numbers.
#[derive(Debug, Clone, Default)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new<const N: usize>(heads: [&str; N]) -> Table {
        Table::with_heads(heads)
    }

    /// A table with as many columns as there are names.
    pub fn with_heads<'h>(heads: impl IntoIterator<Item = &'h str>) -> Table {
        Table { heads: heads.into_iter().map(String::from).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As Markdown, columns of one width.
    fn render(&self) -> String {
        let width = |c: usize| {
            let cells = self.rows.iter().filter_map(|r| r.get(c)).chain(self.heads.get(c));
            cells.map(|s| s.chars().count()).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let line = |cells: &[String]| {
            let mut out = String::from("|");
            for (c, w) in widths.iter().enumerate() {
                let cell = cells.get(c).map_or("", String::as_str);
                let _ = if c == 0 { write!(out, " {cell:<w$} |") } else { write!(out, " {cell:>w$} |") };
            }
            out + "\n"
        };
        let mut out = line(&self.heads);
        let rule = |(c, w): (usize, &usize)| if c == 0 { "-".repeat(w + 2) } else { "-".repeat(w + 1) + ":" };
        let _ = writeln!(out, "|{}|", widths.iter().enumerate().map(rule).collect::<Vec<_>>().join("|"));
        self.rows.iter().for_each(|row| out += &line(row));
        out
    }
}

/// A number with as many digits as tell anything.
pub fn number(x: f64) -> String {
    match x.abs() {
        _ if x.is_nan() => "-".into(),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a >= 1.0 || a == 0.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

/// What a bench found.
#[derive(Debug)]
pub struct Report {
    name: String,
    about: String,
    folder: String,
    tables: Vec<Table>,
    targets: Vec<Target>,
}

impl Report {
    /// Nothing found yet.
    ///
    /// - `name`: of the bench; `about`: what was done, with its sizes; `folder`: where files were written.
    pub fn new(name: &str, about: impl Into<String>, folder: &str) -> Report {
        Report {
            name: name.into(),
            about: about.into(),
            folder: folder.into(),
            tables: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// Wants a number to be at least this.
    pub fn at_least(&mut self, what: impl Into<String>, wanted: f64, got: f64) {
        self.targets.push(Target { what: what.into(), wanted, at_least: true, got });
    }

    /// Wants a number to be at most this.
    pub fn at_most(&mut self, what: impl Into<String>, wanted: f64, got: f64) {
        self.targets.push(Target { what: what.into(), wanted, at_least: false, got });
    }

    fn text(&self, options: Options) -> String {
        let machine = machine::describe(&self.folder);
        let mut out = format!("{}\n\nMachine: {machine}; load before: {}\n", self.about, number(options.load));
        for table in &self.tables {
            let _ = write!(out, "\n{}", table.render());
        }
        if !self.targets.is_empty() {
            let mut table = Table::new(["target", "wanted", "got", "met"]);
            for t in &self.targets {
                let met = if t.met() { "yes" } else { "NO" };
                table.row([t.what.clone(), t.wanted_text(), number(t.got), met.into()]);
            }
            let _ = write!(out, "\n{}", table.render());
        }
        out
    }

    fn json(&self, measured: &Measurements, options: Options) -> Value {
        // JSON has no NaN: null says that nothing was measured.
        let measurements: Vec<Value> = measured
            .names()
            .iter()
            .filter_map(|name| {
                let s = measured.find(name)?;
                Some(json!({ "name": name, "median": s.median(), "min": s.min(), "max": s.max(), "samples": s.0 }))
            })
            .collect();
        let targets: Vec<Value> = self
            .targets
            .iter()
            .map(|t| {
                json!({
                    "what": t.what, "wanted": t.wanted, "sense": if t.at_least { "at least" } else { "at most" },
                    "got": t.got, "met": t.met(),
                })
            })
            .collect();
        json!({
            "bench": self.name, "about": self.about, "small": options.small,
            "machine": machine::describe(&self.folder), "load_before": options.load, "measurements": measurements, "targets": targets,
        })
    }

    /// Prints the tables, writes the JSON where `BENCH_JSON` says, keeps the result where that is asked for.
    ///
    /// Returns 1 where a target is missed and `--check` was given.
    ///
    /// # Errors
    /// Errors of the system when a folder or file is made.
    pub fn finish(self, measured: &Measurements, options: Options) -> Result<ExitCode, Failure> {
        let text = self.text(options);
        println!("{text}");
        if options.small {
            println!("Small sizes: the numbers show only that the bench works.");
        }
        if let Ok(path) = std::env::var("BENCH_JSON") {
            std::fs::write(&path, format!("{:#}\n", self.json(measured, options)))
                .map_err(|e| format!("cannot write {path}: {e}"))?;
        }
        if options.keep {
            let path = "benches/RESULTS.md";
            let kept = std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
            let kept = with_section(&kept, &self.name, &machine::processor(), &text)?;
            std::fs::write(path, kept)?;
        }
        let missed = self.targets.iter().filter(|t| !t.met()).count();
        if missed > 0 {
            println!("{missed} of {} targets missed", self.targets.len());
        }
        Ok(if options.check && missed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}

/// The text with this bench's section of this processor replaced, or added behind those of other processors.
fn with_section(text: &str, name: &str, processor: &str, with: &str) -> Result<String, Failure> {
    let mark = |what: &str| format!("<!-- {name}, {processor}: {what} -->");
    let (begin, end) = (mark("measured"), mark("end"));
    let section = format!("{begin}\n### {processor}\n\n{with}{end}");
    if let Some(start) = text.find(&begin) {
        let length = text[start..].find(&end).ok_or_else(|| format!("no mark '{end}' in the results"))? + end.len();
        return Ok(format!("{}{section}{}", &text[..start], &text[start + length..]));
    }
    let any = format!("<!-- {name}, ");
    let others = text.match_indices(&any).filter_map(|(at, _)| {
        let line = text[at..].lines().next()?;
        line.ends_with(": end -->").then_some(at + line.len())
    });
    let first = format!("<!-- {name}: here -->");
    let at = others
        .last()
        .or_else(|| Some(text.find(&first)? + first.len()))
        .ok_or_else(|| format!("the results have no section '{name}'"))?;
    Ok(format!("{}\n\n{section}{}", &text[..at], &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_a_missed_target() {
        let target = |got, at_least| Target { what: "x".into(), wanted: 1.0, at_least, got };
        assert!(target(1.0, true).met() && target(1.0, false).met());
        assert!(!target(0.9, true).met() && !target(1.1, false).met());
        assert!(!target(f64::NAN, true).met() && !target(f64::NAN, false).met());
    }

    #[test]
    fn a_section_of_each_processor_is_replaced_alone_or_added() {
        let section = |name: &str, on: &str, text: &str| {
            format!("<!-- {name}, {on}: measured -->\n### {on}\n\n{text}\n<!-- {name}, {on}: end -->")
        };
        let old = format!("a\n{}\nb\n{}\n", section("x", "A", "old"), section("y", "A", "kept"));
        assert_eq!(with_section(&old, "x", "A", "new\n").unwrap(), old.replace("old", "new"));
        let both = with_section(&old, "x", "B", "new\n").unwrap();
        let first = section("x", "A", "old");
        assert_eq!(both, old.replace(&first, &format!("{first}\n\n{}", section("x", "B", "new"))));
        assert_eq!(with_section(&both, "x", "B", "newer\n").unwrap(), both.replace("new\n", "newer\n"));
        assert!(with_section(&old, "z", "A", "").is_err());
        let here = "a\n<!-- z: here -->\nb\n";
        let first = section("z", "A", "new");
        assert_eq!(with_section(here, "z", "A", "new\n").unwrap(), format!("a\n<!-- z: here -->\n\n{first}\nb\n"));
    }
}
