//! `thalweg stat`: prints the bytes of a file by kind.

use crate::arguments::Stat;
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::several;
use crate::terminal::{HEADING, Terminal, plain};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::path::Path;
use thalweg_reader::Space;
use thalweg_reader::space::{Bytes, FileSpace};
use thalweg_report::text::count;

/// Space of the files on the device; holes of sparse files take none.
fn on_device(parts: &[FileSpace]) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        parts.iter().map(|part| Some(std::fs::metadata(&part.object).ok()?.blocks() * 512)).sum()
    }
    #[cfg(not(unix))]
    {
        let _ = parts;
        None
    }
}

pub fn run(arguments: &Stat, out: &mut Terminal) -> Result<Outcome, Failure> {
    several::each(&arguments.file, arguments.json, out, &mut |file, out| count_bytes(arguments, file, out))
}

fn count_bytes(arguments: &Stat, path: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let (layout, name) = file::place(path, None)?;
    let space = thalweg_reader::space(layout.as_ref(), &name)?;
    let shown = path.display().to_string();
    let device = if file::is_url(path) { None } else { on_device(&space.parts) };
    if arguments.json {
        print_json(&space, &shown, arguments.files, device, out)?;
    } else {
        print(&space, &shown, arguments.files, device, out)?;
    }
    Ok(Outcome::Done)
}

fn rows(bytes: &Bytes) -> [(&'static str, u64, &'static str); 5] {
    [
        ("values", bytes.values, "payloads of blocks, as stored"),
        ("framing", bytes.framing, "the rest of process groups"),
        ("holes", bytes.holes, "between process groups at stripe boundaries"),
        ("index", bytes.index, "the index that readers use"),
        ("dead", bytes.dead, "replaced indexes, outputs that were cut off, copies that were stuck"),
    ]
}

fn print(space: &Space, file: &str, files: bool, device: Option<u64>, out: &mut Terminal) -> Result<(), Failure> {
    let groups: u64 = space.parts.iter().map(|p| p.process_groups).sum();
    let holes: u64 = space.parts.iter().map(|p| p.holes).sum();
    let mut facts = vec![count(space.steps, "step")];
    if space.groups_known {
        facts.push(count(groups, "process group"));
    }
    let subfiles = space.parts.len() as u64 - 1;
    facts.extend((subfiles > 0).then(|| count(subfiles, "subfile")));
    facts.extend((holes > 0).then(|| count(holes, "hole")));
    writeln!(out, "{}: {}", plain(file), facts.join(", "))?;
    let bytes = space.bytes();
    let all = bytes.all();
    let wide = all.to_string().len().max(5);
    for (what, n, about) in rows(&bytes) {
        let share = 100.0 * n as f64 / all.max(1) as f64;
        writeln!(out, "  {what:<9} {n:>wide$}  {share:>5.1} %  {about}")?;
    }
    writeln!(out, "  {:<9} {all:>wide$}", "all")?;
    if let Some(n) = device {
        writeln!(out, "  {:<9} {n:>wide$}  {:>7}  allocated by the filesystem", "on device", "")?;
    }
    if !space.groups_known {
        writeln!(out, "not distinguished: process groups, as adios2 has another layout of them")?;
    }
    if files {
        let wide = space.parts.iter().map(|p| p.bytes.all()).max().unwrap_or(0).to_string().len().max(7);
        let head = ["all", "values", "framing", "holes", "index", "dead"].map(|h| format!("{h:>wide$}")).join("  ");
        out.styled(HEADING, &format!("{head}  file"))?;
        writeln!(out)?;
        for part in &space.parts {
            let b = &part.bytes;
            let row = [b.all(), b.values, b.framing, b.holes, b.index, b.dead].map(|n| format!("{n:>wide$}"));
            writeln!(out, "{}  {}", row.join("  "), plain(&part.object))?;
        }
    }
    Ok(())
}

fn as_json(bytes: &Bytes) -> Json {
    json!({
        "all": bytes.all(), "values": bytes.values, "framing": bytes.framing, "holes": bytes.holes,
        "index": bytes.index, "dead": bytes.dead,
    })
}

fn print_json(space: &Space, file: &str, files: bool, device: Option<u64>, out: &mut Terminal) -> Result<(), Failure> {
    let mut all = json!({
        "file": file, "steps": space.steps, "subfiles": space.parts.len() - 1,
        "process_groups": space.groups_known.then(|| space.parts.iter().map(|p| p.process_groups).sum::<u64>()),
        "holes": space.parts.iter().map(|p| p.holes).sum::<u64>(),
        "bytes": as_json(&space.bytes()), "on_device": device,
    });
    if files {
        let parts = space.parts.iter().map(|p| {
            json!({
                "file": p.object, "process_groups": p.process_groups, "holes": p.holes, "bytes": as_json(&p.bytes),
            })
        });
        all["files"] = parts.collect();
    }
    writeln!(out, "{all:#}")?;
    Ok(())
}
