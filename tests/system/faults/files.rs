//! Sweeps over operations on files of the layouts, by themselves and through the doors; commands that look after files.

use crate::Outcome;
use crate::calls::{RARE, all_calls};
use crate::judge::{Sweep, anew, copy};
use crate::launch::{End, Launch, printed, tool};
use crate::outputs::stores;
use crate::worker::{Before, ENDS, KEY, NAMES, NEW, OLD, OPERATIONS, TARGET, VALUE, WRITTEN, linked, operate};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};
use thalweg_io::mounts;
use thalweg_layout::{Kind, Layout, OpenWrite, SetXattr, WriterId, write_all_at};
use thalweg_types::ErrorKind;

/// Layouts, and the lines of their mount tables.
pub const LAYOUTS: &[(&str, &str)] = &[
    ("direct", "layout = \"direct\"\nstore = \"posix:@/a\"\n"),
    ("flat", "layout = \"flat\"\nstores = [\"posix:@/a\", \"posix:@/b\"]\n"),
    // Small files in the objects of their names, which over several stores only happens where it is asked for.
    ("container", "layout = \"container\"\nstores = [\"posix:@/a\", \"posix:@/b\"]\ninline = \"32KiB\"\n"),
    // Each file a folder of logs and marks, also a small one.
    ("container folders", "layout = \"container\"\nstores = [\"posix:@/a\", \"posix:@/b\"]\ninline = 0\n"),
    ("small_file", "layout = \"small_file\"\nstore = \"posix:@/a\"\n"),
    ("tiered", "layout = \"container\"\nstore = \"tiered:posix:@/a=>posix:@/b\"\ndrain = \"manual\"\n"),
];

/// What a layout does not have.
const LACKS: &[(&str, &str)] = &[("small_file", "link"), ("tiered", "link"), ("tiered", "rename_folder")];

/// A table of a mount, and the folders it is over; `/faults/d` with what the operations find.
fn prepare_files(work: &Path, mounts: &Path, table: &str, there: Before) -> Outcome<()> {
    anew(work)?;
    stores(work, mounts, table)?;
    let layout = mounts::of_files(&[mounts.to_path_buf()])?;
    layout.make_folder("/faults/d")?;
    for name in ["kept", "other"] {
        operate(&*layout, &format!("/faults/d/{name}"), "prepare")?;
    }
    let x = "/faults/d/x";
    match there {
        Before::Nothing => {}
        Before::File => operate(&*layout, x, "prepare")?,
        Before::Marked => {
            operate(&*layout, x, "prepare")?;
            operate(&*layout, x, "xattr")?;
        }
        Before::Folder => operate(&*layout, x, "mkdir")?,
        Before::Filled => {
            operate(&*layout, x, "mkdir")?;
            operate(&*layout, &format!("{x}/in"), "prepare")?;
        }
        Before::Link => operate(&*layout, x, "symlink")?,
    }
    Ok(())
}

pub fn sweeps_file(folder: &Path, only: Option<&str>, launch: &dyn Fn(&Path) -> Launch) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("new"), NEW))
        .unwrap_or_else(|e| panic!("{e}"));
    for (layout, table) in LAYOUTS.iter().filter(|(name, _)| only.is_none_or(|o| o == *name)) {
        let programs = if launch(folder).is_itself() { &[] } else { ENDS };
        let lacks = |operation: &str| LACKS.contains(&(*layout, operation));
        for (operation, there) in OPERATIONS.iter().chain(programs).filter(|(operation, _)| !lacks(operation)) {
            let slug = format!("{}-{operation}", layout.replace(' ', "-"));
            let work = folder.join(&slug);
            let launch = launch(&work);
            // The system's programs set no extended attribute here, and an interpreter's start has a thousand calls of its own, which
            // would fail under preload.
            if matches!(launch, Launch::Preload { .. }) && operation.starts_with("xattr") {
                continue;
            }
            let before = folder.join(format!("{slug}-before"));
            let mounts = folder.join(format!("{slug}.toml"));
            let prepare = {
                let (work, before, mounts) = (work.clone(), before.clone(), mounts.clone());
                move || -> Outcome<()> {
                    if !before.exists() {
                        prepare_files(&work, &mounts, table, *there)?;
                        copy(&work, &before)?;
                    }
                    copy(&before, &work)
                }
            };
            let check = {
                let mounts = mounts.clone();
                let out = (!launch.is_itself()).then(|| printed(&work.with_extension("strace")));
                move |end: End| {
                    if let (End::Success, Some(out)) = (end, &out) {
                        check_printed(out, operation)?;
                    }
                    check_file(&mounts, operation, *there, end)
                }
            };
            let worker = match &launch {
                Launch::Itself => ["file", "/faults/d/x", operation].map(str::to_string).to_vec(),
                _ => tool(operation, "/faults/d/x", &folder.join("new")),
            };
            sweeps.push(Sweep {
                name: format!("{layout}, {operation}"),
                kind: layout.to_string(),
                folder: work,
                launch,
                worker,
                calls: all_calls(),
                rare: RARE.contains(operation),
                mounts: Some(mounts),
                prepare: Box::new(prepare),
                check: Box::new(check),
            });
        }
    }
    sweeps
}

/// What a program printed that says it has succeeded.
fn check_printed(out: &Path, operation: &str) -> Outcome<()> {
    let wanted = match operation {
        "read" => OLD.to_string(),
        "list" => format!("{}\n", NAMES.join("\n")),
        "read_link" => format!("{TARGET}\n"),
        _ => return Ok(()),
    };
    let said = std::fs::read_to_string(out)?;
    if said == wanted { Ok(()) } else { Err(format!("it prints {said:?}").into()) }
}

/// `thalweg layout` and `thalweg drain` on a mount with a closed file, one that was written in two sessions, and one whose writer
/// died. Success is what the command does without a failure; after a failure nothing that was closed has changed, and the next
/// command without one does it all.
pub fn sweeps_upkeep(folder: &Path, thalweg: &str) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    const OF_CONTAINERS: &[&str] = &["check", "repair", "compact", "flatten"];
    const KINDS: [(&str, &[&str]); 4] = [
        ("container", OF_CONTAINERS),
        ("container folders", OF_CONTAINERS),
        ("small_file", &["check", "repair", "compact"]),
        ("tiered", &["drain"]),
    ];
    for (layout, commands) in KINDS {
        let table = LAYOUTS.iter().find(|(name, _)| *name == layout).map_or("", |(_, table)| *table);
        for command in commands {
            let slug = format!("{layout}-{command}").replace(' ', "-");
            let (work, before) = (folder.join(&slug), folder.join(format!("{slug}-before")));
            let (mounts, out) = (folder.join(format!("{slug}.toml")), folder.join(format!("{slug}.out")));
            let flat = work.join("flat");
            let thalweg = thalweg.to_string();
            let tiered = format!("tiered:posix:{0}/a=>posix:{0}/b", work.display());
            let words: Vec<String> = match *command {
                "drain" => [thalweg.as_str(), "drain", &tiered, "--once"].map(str::to_string).to_vec(),
                "flatten" => [thalweg.as_str(), "layout", command, "/faults/d/x", &flat.display().to_string()]
                    .map(str::to_string)
                    .to_vec(),
                // A container's alone: a folder has none.
                "compact" if layout != "small_file" => {
                    [thalweg.as_str(), "layout", command, "/faults/d/x"].map(str::to_string).to_vec()
                }
                // The whole mount, so that what no name leads to is looked for, too.
                "check" | "repair" if layout != "small_file" => {
                    [thalweg.as_str(), "layout", command, "/faults"].map(str::to_string).to_vec()
                }
                _ => [thalweg.as_str(), "layout", command, "/faults/d"].map(str::to_string).to_vec(),
            };
            let repairs = *command == "repair";
            let prepare = {
                let (work, before, mounts) = (work.clone(), before.clone(), mounts.clone());
                move || -> Outcome<()> {
                    if !before.exists() {
                        prepare_files(&work, &mounts, table, Before::File)?;
                        let layout = mounts::of_files(std::slice::from_ref(&mounts))?;
                        operate(&*layout, "/faults/d/x", "append")?;
                        if repairs {
                            operate(&*layout, "/faults/d/dead", "prepare")?;
                        }
                        drop(layout);
                        if repairs {
                            dies(&mounts, "/faults/d/dead")?;
                        }
                        copy(&work, &before)?;
                    }
                    copy(&before, &work)
                }
            };
            let check = {
                let (work, mounts, out, words) = (work.clone(), mounts.clone(), out.clone(), words.clone());
                move |end: End| -> Outcome<()> {
                    let wanted = out.with_extension("wanted");
                    let said = std::fs::read_to_string(&out)?;
                    if !wanted.exists() {
                        std::fs::write(&wanted, &said)?;
                    }
                    // The others tell how much they did: nothing of a writer whose end a store cannot tell, or in two rounds.
                    let tells = matches!(*command, "check" | "flatten");
                    if tells && end == End::Success && said != std::fs::read_to_string(&wanted)? {
                        return Err(format!("it says {said:?}").into());
                    }
                    check_upkeep(&work, &mounts, command, end == End::Success)?;
                    // A target that is there is never replaced.
                    let _ = std::fs::remove_file(work.join("flat"));
                    let again = Command::new(&words[0]).args(&words[1..]).env("THALWEG_MOUNTS", &mounts).output()?;
                    if !again.status.success() {
                        return Err(format!("the next one fails: {}", String::from_utf8_lossy(&again.stderr)).into());
                    }
                    check_upkeep(&work, &mounts, command, true).map_err(|e| format!("after the next one: {e}").into())
                }
            };
            sweeps.push(Sweep {
                name: format!("{command}, {layout}"),
                kind: format!("{command} {layout}"),
                folder: work,
                launch: Launch::Command { out },
                worker: words,
                calls: all_calls(),
                rare: true,
                mounts: Some(mounts),
                prepare: Box::new(prepare),
                check: Box::new(check),
            });
        }
    }
    sweeps
}

/// A process of its own that writes more to a file and dies.
fn dies(mounts: &Path, path: &str) -> Outcome<()> {
    let mut command = Command::new(std::env::current_exe()?);
    let ended = command.args(["file", path, "abandon"]).env("THALWEG_MOUNTS", mounts).output()?;
    match ended.status.code() {
        None => Ok(()),
        Some(code) => Err(format!("ends with {code}: {}", String::from_utf8_lossy(&ended.stderr)).into()),
    }
}

fn check_upkeep(work: &Path, mounts: &Path, command: &str, done: bool) -> Outcome<()> {
    let long = format!("{OLD}{NEW}");
    let is = |layout: &dyn Layout, at: &str| -> Outcome<()> {
        for (name, wanted) in [("kept", OLD), ("other", OLD), ("x", &long)] {
            let found = found(layout, &format!("/faults/d/{name}"))?;
            if found != Found::Text(wanted.to_string()) {
                return Err(format!("{name}{at} has {found:?}").into());
            }
        }
        Ok(())
    };
    let layout = mounts::of_files(&[mounts.to_path_buf()])?;
    is(&*layout, "")?;
    if command == "repair" {
        match found(&*layout, "/faults/d/dead")? {
            Found::Text(text) if text == OLD || text == long => {}
            other => return Err(format!("dead has {other:?}").into()),
        }
    }
    if command == "flatten" && done && std::fs::read_to_string(work.join("flat"))? != long {
        return Err("the flat file is not the file".into());
    }
    if command == "drain" && done {
        let slow = work.with_extension("slow.toml");
        let table = "[[mount]]\npath = \"/faults\"\nlayout = \"container\"\nstore = \"posix:@/b\"\n";
        std::fs::write(&slow, table.replace('@', &work.display().to_string()))?;
        is(&*mounts::of_files(&[slow])?, " in the slow store")?;
    }
    Ok(())
}

/// What lies at a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Nothing,
    Text(String),
    /// Its names, sorted.
    Folder(Vec<String>),
    Link(String),
}

fn found(layout: &dyn Layout, path: &str) -> Outcome<Found> {
    let about = match layout.attributes(path) {
        Ok(about) => about,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) => return Err(format!("{path} cannot be looked at: {e}").into()),
    };
    Ok(match about.kind {
        Kind::Folder => {
            let mut names = layout.list(path).map_err(|e| format!("{path} cannot be listed: {e}"))?;
            names.sort();
            Found::Folder(names)
        }
        Kind::Link => Found::Link(layout.read_link(path)?),
        Kind::File => {
            let object = layout.open_read(path).map_err(|e| format!("{path} cannot be opened: {e}"))?;
            let mut bytes = vec![0; object.length()? as usize];
            object.read_exact_at(0, &mut bytes).map_err(|e| format!("{path} cannot be read: {e}"))?;
            Found::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
    })
}

fn check_file(mounts: &Path, operation: &str, there: Before, end: End) -> Outcome<()> {
    // A new table: another process, as far as layouts know.
    let layout = mounts::of_files(&[mounts.to_path_buf()])?;
    let layout = &*layout;
    for name in ["kept", "other"] {
        if found(layout, &format!("/faults/d/{name}"))? != Found::Text(OLD.into()) {
            return Err(format!("{name}, which nobody touched, is not as it was").into());
        }
    }
    let x = "/faults/d/x";
    let is = found(layout, x)?;
    let before = match there {
        Before::Nothing => Found::Nothing,
        Before::File | Before::Marked => Found::Text(OLD.into()),
        Before::Folder => Found::Folder(Vec::new()),
        Before::Filled => Found::Folder(vec!["in".into()]),
        Before::Link => Found::Link(TARGET.into()),
    };
    let after = match operation {
        "create" | "replace" => Found::Text(NEW.into()),
        "append" | "exec" | "leave" => Found::Text(format!("{OLD}{NEW}")),
        "rename" | "remove" | "rmdir" | "rename_folder" => Found::Nothing,
        "truncate" => Found::Text(OLD[..11].into()),
        "mkdir" => Found::Folder(Vec::new()),
        "symlink" => Found::Link(TARGET.into()),
        _ => before.clone(),
    };
    // A file is emptied, or made, before bytes are written to it.
    let between =
        is == before || is == after || (matches!(operation, "create" | "replace") && is == Found::Text(String::new()));
    if (end == End::Success && is != after) || !between {
        return Err(format!("it has {is:?}, before {before:?}, wanted {after:?}").into());
    }
    let others = check_others(layout, x, operation, (&before, &is), end == End::Success)?;
    // The names are usable: what is there can be written, read, and removed.
    match &before {
        Found::Folder(_) => {}
        _ if operation == "mkdir" || operation == "symlink" => {}
        Found::Link(_) => {}
        _ => {
            let object =
                layout.open_write(x, OpenWrite::Any, WriterId(2)).map_err(|e| format!("cannot be opened: {e}"))?;
            write_all_at(&*object, 0, b"AGAIN")?;
            object.close()?;
            if !matches!(found(layout, x)?, Found::Text(text) if text.starts_with("AGAIN")) {
                return Err("what was written afterwards is not there".into());
            }
        }
    }
    let made = match operation {
        "mkdir" | "rmdir" if is == Found::Nothing => layout.make_one_folder(x, 0o755),
        "symlink" if is == Found::Nothing => layout.make_link(TARGET, x),
        _ => Ok(()),
    };
    made.map_err(|e| format!("it cannot be made afterwards: {e}"))?;
    for name in [x].into_iter().map(str::to_string).chain(others) {
        if let Found::Folder(names) = found(layout, &name)? {
            for inside in names {
                layout.remove(&format!("{name}/{inside}"))?;
            }
        } else if found(layout, &name)? == Found::Nothing {
            continue;
        }
        layout.remove(&name).map_err(|e| format!("{name} cannot be removed afterwards: {e}"))?;
    }
    match found(layout, "/faults/d")? {
        Found::Folder(names) if names == NAMES[..2] => Ok(()),
        other => Err(format!("afterwards the folder has {other:?}").into()),
    }
}

/// What an operation changes beside the file itself; the names that it gives. `states`: what lay at the name, and what lies there now.
fn check_others(
    layout: &dyn Layout,
    x: &str,
    operation: &str,
    states: (&Found, &Found),
    success: bool,
) -> Outcome<Vec<String>> {
    let (before, is) = states;
    match operation {
        "rename" | "rename_folder" => {
            let name = format!("{x}.renamed");
            let renamed = found(layout, &name)?;
            // One of both names.
            if (renamed == *before) == (is == before) || (renamed != *before && renamed != Found::Nothing) {
                return Err(format!("old name {is:?}, new name {renamed:?}").into());
            }
            if operation == "rename_folder" {
                let folder = if renamed == *before { &name } else { x };
                let inside = found(layout, &format!("{folder}/in"))?;
                if inside != Found::Text(OLD.into()) {
                    return Err(format!("the file in the folder has {inside:?}").into());
                }
            }
            Ok(vec![name])
        }
        "link" => {
            let name = linked(x);
            let second = found(layout, &name)?;
            if second != *before && (success || second != Found::Nothing) {
                return Err(format!("the hard link has {second:?}").into());
            }
            Ok(vec![name])
        }
        "chmod" if success && layout.attributes(x)?.mode & 0o777 != 0o600 => Err("the mode is another".into()),
        "utimes" if success && layout.attributes(x)?.mtime != SystemTime::UNIX_EPOCH + Duration::from_secs(WRITTEN) => {
            Err("the time is another".into())
        }
        "xattr" | "xattr_remove" => {
            let value = layout.xattr_get(x, KEY)?;
            let (old, new) = if operation == "xattr" { (None, Some(VALUE)) } else { (Some(VALUE), None) };
            let value = value.as_deref();
            if value != new && (success || value != old) {
                return Err(format!("the extended attribute is {value:?}").into());
            }
            layout.xattr_set(x, KEY, VALUE, SetXattr::Any)?;
            if layout.xattr_list(x)? != [KEY] {
                return Err("the extended attribute is not listed".into());
            }
            Ok(Vec::new())
        }
        _ => Ok(Vec::new()),
    }
}
