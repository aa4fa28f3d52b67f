//! `thalweg profile`: the phases of the ranks of an output and the ranks that delayed others, as a table, a picture, a trace. Of a file
//! that the door for MPI-IO served also its calls.

use crate::arguments::Profile;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{HEADING, Terminal, left, plain};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use thalweg_layout::Layout;
use thalweg_profile::calls::{self, CallRow, CollectiveCall, LastRow};
use thalweg_profile::document::{folder_of, step_of};
use thalweg_profile::waits::{Summary, WaitCause, summary};
use thalweg_profile::{Document, Phase};
use thalweg_report::text::{count, size, time};
use thalweg_report::timeline::{self, title};
use thalweg_report::trace;
use thalweg_types::{Error, ErrorKind};

/// Outputs that have a line of their own.
const LISTED: usize = 12;

pub fn run(arguments: &Profile, out: &mut Terminal) -> Result<Outcome, Failure> {
    let mut documents = Vec::new();
    for path in &arguments.profile {
        match below_mount(path)? {
            Some(name) => documents.extend(of_mount(&name)?),
            None => {
                for file in files_of(path)? {
                    documents.push(read(&file)?);
                }
            }
        }
    }
    documents.sort_by(|a, b| (a.began_unix_us, &a.output, a.step).cmp(&(b.began_unix_us, &b.output, b.step)));
    let summary = summary(&documents);
    if let Some(path) = &arguments.svg {
        save(path, timeline::picture(&documents, &summary).as_bytes())?;
    }
    if let Some(path) = &arguments.chrome {
        let events = trace::events(&documents);
        save(path, &serde_json::to_vec(&events)?)?;
    }
    if arguments.json {
        serde_json::to_writer_pretty(&mut *out, &of_all(&documents, &summary, arguments.delaying))?;
        writeln!(out)?;
    } else {
        print(&documents, &summary, arguments.delaying, out)?;
    }
    Ok(Outcome::Done)
}

/// The profiles of a path: a file, a folder of them, or an output with such a folder beside it.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |path: &Path| {
        let what = format!("cannot open '{}'", path.display());
        move |e| Failure::File(Error::io(what, e))
    };
    let beside = PathBuf::from(folder_of(&path.display().to_string()));
    let is_profile = path.extension().is_some_and(|e| e == "json");
    let folder = match fs::metadata(path) {
        Ok(found) if found.is_dir() => path,
        Ok(_) if is_profile => return Ok(vec![path.to_path_buf()]),
        // The output may be of another method, or may have been removed.
        _ if beside.is_dir() => &beside,
        Ok(_) => {
            let what = format!("'{}' has no profile: there is no folder '{}'", path.display(), beside.display());
            return Err(Failure::File(Error::new(ErrorKind::NotFound, what)));
        }
        Err(e) => return Err(cannot(path)(e)),
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot(folder))? {
        let file = entry.map_err(cannot(folder))?.path();
        let step = file.file_name().and_then(|name| step_of(name.to_str()?));
        found.extend(step.map(|step| (step, file)));
    }
    if found.is_empty() {
        let what = format!("no profile in the folder '{}': no file is called step-N.json", folder.display());
        return Err(Failure::File(Error::new(ErrorKind::NotFound, what)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, file)| file).collect())
}

/// The name of a path in the layout of all mounts, if it is below one.
fn below_mount(path: &Path) -> Result<Option<String>, Failure> {
    let Some(name) = path.to_str() else { return Ok(None) };
    Ok(thalweg_io::mounts::of_process()?.place(name)?.mount.map(|_| name.to_string()))
}

/// The profiles of a path below a mount: as [`files_of`].
fn of_mount(name: &str) -> Result<Vec<Document>, Failure> {
    let layout = thalweg_io::mounts::layout()?;
    let found = layout.stat(name);
    let folder = match found {
        Ok(found) if found.is_folder => name.to_string(),
        Ok(_) if name.ends_with(".json") => return Ok(vec![read_in(&*layout, name)?]),
        _ => folder_of(name),
    };
    let names = layout.list(&folder).map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            let what = format!("'{name}' has no profile: there is no folder '{folder}'");
            Failure::File(Error::new(ErrorKind::NotFound, what))
        }
        _ => Failure::File(e),
    })?;
    let mut found: Vec<(u64, String)> =
        names.iter().filter_map(|file| Some((step_of(file)?, format!("{folder}/{file}")))).collect();
    if found.is_empty() {
        let what = format!("no profile in the folder '{folder}': no file is called step-N.json");
        return Err(Failure::File(Error::new(ErrorKind::NotFound, what)));
    }
    found.sort();
    found.iter().map(|(_, file)| read_in(&*layout, file)).collect()
}

fn read_in(layout: &dyn Layout, name: &str) -> Result<Document, Failure> {
    let object = layout.open_read(name).map_err(Failure::File)?;
    let length = object.length().map_err(Failure::File)?;
    let mut text = vec![0; usize::try_from(length).unwrap_or(0)];
    let got = object.read_at(0, &mut text).map_err(Failure::File)?;
    text.truncate(got);
    Document::from_json(&text).map_err(|e| Failure::File(e.in_object(name)))
}

fn read(path: &Path) -> Result<Document, Failure> {
    crate::file::regular(path)?;
    let text = fs::read(path).map_err(|e| Error::io(format!("cannot open '{}'", path.display()), e))?;
    Document::from_json(&text).map_err(|e| Failure::File(e.in_object(path.display().to_string())))
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let what = || format!("cannot write '{}'", path.display());
    fs::write(path, bytes).map_err(|e| Failure::File(Error::io(what(), e)))
}

/// A rank that delayed others, and its phase.
fn doing(cause: &WaitCause) -> &'static str {
    match cause.doing {
        None => "its program",
        // It waited for no rank in particular: the time of a call of all ranks after all have entered.
        Some(Phase::Wait) => "messages",
        Some(phase) => phase.name(),
    }
}

fn bandwidth(document: &Document) -> String {
    let seconds = document.elapsed() as f64 / 1e9;
    if seconds > 0.0 { format!("{:.1} MB/s", document.bytes as f64 / 1e6 / seconds) } else { "-".into() }
}

fn print(documents: &[Document], summary: &Summary, most: usize, out: &mut Terminal) -> Result<(), Failure> {
    writeln!(out, "{}", title(documents, true))?;
    let listed = if documents.len() > LISTED { LISTED } else { documents.len() };
    let mut slowest: Vec<&Document> = documents.iter().collect();
    if documents.len() > LISTED {
        slowest.sort_by_key(|d| std::cmp::Reverse(d.elapsed()));
        let all: u64 = documents.iter().map(Document::elapsed).sum();
        let bytes: u64 = documents.iter().map(|d| d.bytes).sum();
        writeln!(out, "{}, {} in {}; the slowest:", count(documents.len() as u64, "output"), size(bytes), time(all))?;
    }
    for document in &slowest[..listed] {
        let word = if document.group.is_empty() { "open" } else { "step" };
        let name = if documents.len() == 1 { String::new() } else { format!("{word} {}: ", document.step) };
        writeln!(
            out,
            "{name}{} in {}, {}; clocks agree within {}",
            size(document.bytes),
            time(document.elapsed()),
            bandwidth(document),
            time(document.clock_error_ns)
        )?;
        if let Some(error) = &document.error {
            writeln!(out, "  failed: {}", plain(error))?;
        }
        let failed: Vec<_> = document.by_rank.iter().filter(|part| part.error.is_some()).collect();
        for part in failed.iter().filter(|_| document.error.is_some() || document.ranks > 1).take(3) {
            let error = part.error.as_deref().unwrap_or_default();
            if document.error.as_deref() != Some(error) {
                writeln!(out, "  rank {}: {}", part.rank, plain(error))?;
            }
        }
        if document.missing() > 0 {
            writeln!(out, "  {} of the {} ranks are missing: they were lost", document.missing(), document.ranks)?;
        }
    }
    writeln!(out)?;
    let heading = format!(
        "{:<15}  {:>9}  {:>9}  {:>9}  {:>12}  {:>9}  {:>10}",
        "phase", "shortest", "median", "longest", "slowest rank", "calls", "bytes"
    );
    out.styled(HEADING, &heading)?;
    writeln!(out)?;
    for row in &summary.phases {
        writeln!(
            out,
            "{:<15}  {:>9}  {:>9}  {:>9}  {:>12}  {:>9}  {:>10}",
            row.phase.name(),
            time(row.min),
            time(row.median),
            time(row.max),
            row.slowest,
            row.calls,
            if row.bytes > 0 { size(row.bytes) } else { "-".into() }
        )?;
    }
    print_calls(documents, most, out)?;
    writeln!(out)?;
    if summary.causes.is_empty() {
        writeln!(out, "No rank kept another one waiting.")?;
        return Ok(());
    }
    writeln!(out, "Ranks waited {} in total. The ranks that they waited for, and their phases:", time(summary.waited))?;
    let heading = format!("{:>10}  {:<15}  {:>13}  {:>15}", "rank", "doing", "others waited", "ranks at a time");
    out.styled(HEADING, &heading)?;
    writeln!(out)?;
    for cause in summary.causes.iter().take(most) {
        writeln!(
            out,
            "{:>10}  {}  {:>13}  {:>15}",
            cause.rank,
            left(doing(cause), 15),
            time(cause.waited),
            cause.at_a_time
        )?;
    }
    Ok(())
}

/// The calls of files that a door served, and the ranks that came last to collective ones.
fn print_calls(documents: &[Document], most: usize, out: &mut Terminal) -> Result<(), Failure> {
    let rows = calls::rows(documents);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let heading = format!(
        "{:<19}  {:>9}  {:>9}  {:>9}  {:>8}  {:>9}  {:>10}",
        "call", "shortest", "median", "longest", "slowest", "calls", "bytes"
    );
    out.styled(HEADING, &heading)?;
    writeln!(out)?;
    for row in &rows {
        let CallRow { min, median, max, slowest, calls, bytes, .. } = row;
        writeln!(
            out,
            "{}  {:>9}  {:>9}  {:>9}  {slowest:>8}  {calls:>9}  {:>10}",
            left(&plain(&row.name), 19),
            time(*min),
            time(*median),
            time(*max),
            if *bytes > 0 { size(*bytes) } else { "-".into() }
        )?;
    }
    let last = calls::last_ranks(documents);
    if last.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "Collective calls, and the ranks that came last:")?;
    let heading =
        format!("{:<19}  {:>9}  {:>9}  {:>15}  {:>13}", "call", "last rank", "calls", "ranks apart", "others waited");
    out.styled(HEADING, &heading)?;
    writeln!(out)?;
    for LastRow { name, rank, calls, apart, waited } in last.iter().take(most) {
        let name = left(&plain(name), 19);
        writeln!(out, "{name}  {rank:>9}  {calls:>9}  {:>15}  {:>13}", time(*apart), time(*waited))?;
    }
    Ok(())
}

fn of_all(documents: &[Document], summary: &Summary, most: usize) -> Value {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let outputs: Vec<Value> = documents
        .iter()
        .map(|d| {
            json!({
                "output": d.output, "group": d.group, "step": d.step, "methods": d.methods, "ranks": d.ranks,
                "missing": d.missing(), "seconds": seconds(d.elapsed()), "bytes": d.bytes, "error": d.error,
                "clock_error_seconds": seconds(d.clock_error_ns),
            })
        })
        .collect();
    let phases: Vec<Value> = summary
        .phases
        .iter()
        .map(|row| {
            json!({
                "phase": row.phase.name(), "shortest_seconds": seconds(row.min), "median_seconds": seconds(row.median),
                "longest_seconds": seconds(row.max), "slowest_rank": row.slowest, "calls": row.calls, "bytes": row.bytes,
            })
        })
        .collect();
    let causes: Vec<Value> = summary
        .causes
        .iter()
        .take(most)
        .map(|cause| {
            json!({
                "rank": cause.rank, "doing": cause.doing.map(Phase::name), "others_waited_seconds": seconds(cause.waited),
                "ranks_at_a_time": cause.at_a_time,
            })
        })
        .collect();
    let mut all = json!({ "outputs": outputs, "phases": phases, "waited_seconds": seconds(summary.waited), "kept_waiting": causes });
    let rows = calls::rows(documents);
    if !rows.is_empty() {
        let rows = rows.iter().map(|row| {
            json!({
                "call": row.name, "shortest_seconds": seconds(row.min), "median_seconds": seconds(row.median),
                "longest_seconds": seconds(row.max), "slowest_rank": row.slowest, "calls": row.calls, "bytes": row.bytes,
            })
        });
        all["calls"] = rows.collect();
        let last = calls::last_ranks(documents);
        let last = last.iter().map(|row| {
            json!({
                "call": row.name, "last_rank": row.rank, "calls": row.calls, "ranks_apart_seconds": seconds(row.apart),
                "others_waited_seconds": seconds(row.waited),
            })
        });
        all["last_ranks"] = last.collect();
        let one = |document: &Document, call: CollectiveCall| {
            json!({
                "output": document.output, "step": document.step, "number": call.number, "call": call.name,
                "begin_seconds": call.begin as f64 / 1e9, "last_rank": call.last, "ranks_apart_seconds": seconds(call.apart),
                "others_waited_seconds": seconds(call.waited),
            })
        };
        let every = documents.iter().flat_map(|d| calls::collective(d).into_iter().map(move |call| one(d, call)));
        all["collective_calls"] = every.collect();
    }
    all
}
