//! The mount table: what it takes, what it refuses and how it says so; BP files through a mount.

use crate::common::heat;
use std::path::Path;
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_conformance::scratch::Scratch;
use thalweg_io::mounts::{self, layouts, stores};
use thalweg_io::{Mode, Session};
use thalweg_layout::{Layout, OpenWrite, WriterId, write_all_at};
use thalweg_reader::Reader;
use thalweg_schema::xml;
use thalweg_store::StoreExt;
use thalweg_types::ErrorKind;

/// The report on a table, without what is shown of the text.
fn findings(text: &str) -> Vec<String> {
    let checked = mounts::check(text, "mounts.toml");
    let rendered = checked.report.render(false);
    rendered.lines().filter(|l| l.starts_with("mounts.toml:")).map(str::to_string).collect()
}

#[track_caller]
fn refused(text: &str, with: &[&str]) {
    let found = findings(text).join("\n");
    assert!(!found.is_empty(), "nothing is wrong with\n{text}");
    for part in with {
        assert!(found.contains(part), "\"{part}\" is not in: {found}");
    }
}

#[test]
fn a_mount_that_never_can_work_is_refused_with_line_and_reason() {
    let direct = "[[mount]]\npath = \"/a\"\nlayout = \"direct\"\n";
    refused(
        &format!("{direct}store = \"sequential:hdfs\"\n"),
        &["mounts.toml:3:", "needs write_at", "sequential:hdfs"],
    );
    refused(
        &format!("{direct}stores = [\"memory:a\", \"memory:b\"]\n"),
        &["mounts.toml:4:23:", "1 store, 2 are given"],
    );
    refused(&format!("{direct}store = \"memry:a\"\n"), &["mounts.toml:4:9:", "unknown store \"memry\""]);
    refused(&format!("{direct}store = \"posix:scratch\"\n"), &["mounts.toml:4:", "relative"]);
    refused(&format!("{direct}store = \"memory:a\"\nindx = 3\n"), &["mounts.toml:5:1:", "unknown parameter"]);
}

#[test]
fn what_a_mount_lacks_or_has_twice_is_told() {
    refused("[[mount]]\n", &["no layout", "no path", "no store"]);
    refused("[[mont]]\n", &["mounts.toml:1:", "unknown key \"mont\""]);
    refused("[mount]\npath = \"/a\"\n", &["mounts are a list"]);
    refused("[[mount]\n", &["mounts.toml:1:"]);
    refused("[[mount]]\npath = \"a\"\nlayout = \"direct\"\nstore = \"memory:\"\n", &["mounts.toml:2:8:"]);
    let twice = "[[mount]]\npath = \"/a/\"\nlayout = \"direct\"\nstore = \"memory:\"\n";
    refused(&format!("{twice}{twice}"), &["mounts.toml:6:8:", "\"/a\" is mounted already, at mounts.toml:1"]);
    refused("[[mount]]\npath = \"/a\"\nlayout = \"direkt\"\nstore = \"memory:\"\n", &["unknown layout \"direkt\""]);
    for again in ["memory:a", "Memory:a"] {
        refused(
            &format!("[[mount]]\npath = \"/a\"\nlayout = \"direct\"\nstores = [\"memory:a\", \"{again}\"]\n"),
            &["the same store twice"],
        );
    }
}

#[test]
fn a_store_that_is_away_now_does_not_stop_the_others() {
    let scratch = Scratch::new();
    let table = scratch.join("mounts.toml");
    let folder = scratch.path().display();
    let text = format!(
        "[[mount]]\npath = \"/good\"\nlayout = \"direct\"\nstore = \"posix:{folder}\"\n\n\
         [[mount]]\npath = \"/away\"\nlayout = \"direct\"\nstore = \"posix:{folder}/gone\"\n"
    );
    std::fs::write(&table, text).unwrap();
    let mounts = mounts::of_files(&[table]).unwrap();
    write_all_at(&*mounts.open_write("/good/f", OpenWrite::New, WriterId(0)).unwrap(), 0, b"bytes").unwrap();
    assert_eq!(std::fs::read(scratch.join("f")).unwrap(), b"bytes");
    let error = mounts.open_read("/away/f").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    assert!(text.contains("mounts.toml:6: store posix:") && text.contains("gone"), "{text}");
}

#[test]
fn the_later_file_wins_where_both_mount_a_prefix() {
    let scratch = Scratch::new();
    let write = |name: &str, text: String| {
        let path = scratch.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mount =
        |path: &str, store: &str| format!("[[mount]]\npath = \"{path}\"\nlayout = \"direct\"\nstore = \"{store}\"\n");
    let site = write("site.toml", mount("/w/a", "memory:w-site") + &mount("/w/b", "memory:w-site"));
    let user = write("user.toml", mount("/w/a", "memory:w-user"));
    let mounts = mounts::of_files(&[site, user]).unwrap();
    for (path, bytes) in [("/w/a/f", b"a"), ("/w/b/f", b"b")] {
        write_all_at(&*mounts.open_write(path, OpenWrite::New, WriterId(0)).unwrap(), 0, bytes).unwrap();
    }
    assert_eq!(stores::open("memory:w-user").unwrap().read_all("f").unwrap(), b"a");
    assert_eq!(stores::open("memory:w-site").unwrap().read_all("f").unwrap(), b"b");
}

#[test]
fn a_table_that_is_wrong_anywhere_is_refused_whole() {
    let scratch = Scratch::new();
    let table = scratch.join("mounts.toml");
    std::fs::write(&table, "[[mount]]\npath = \"/a\"\nlayout = \"direct\"\nstore = \"sequential:s3\"\n").unwrap();
    let error = mounts::of_files(&[table]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("needs write_at"), "{error}");
}

/// A step written by a session whose paths go through `text`'s mounts, and read back.
fn writes_and_reads_a_step(text: &str, path: &str, method: &str) {
    let scratch = Scratch::new();
    let table = scratch.join("mounts.toml");
    std::fs::write(&table, text).unwrap();
    let mounts = mounts::of_files(&[table]).unwrap();
    let comm = Alone::new();
    let schema = xml::parse(&heat(method, ""), "heat.xml").unwrap();
    let session = Session::with_layout(schema, mounts.clone(), comm.duplicate().unwrap()).unwrap();
    for step in 0..3 {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("heat", path, mode, comm.duplicate().unwrap()).unwrap();
        output.write_values("NX", &[2i32]).unwrap();
        output.write_values("ranks", &[1i32]).unwrap();
        output.write_values("rank", &[0i32]).unwrap();
        output.write_values("t", &[step as f64, 1.0, 2.0, 3.0]).unwrap();
        output.close().unwrap();
    }
    session.finalize().unwrap();
    let reader = Reader::open(mounts.clone(), path).unwrap();
    assert_eq!(reader.status().steps, 3);
    assert!(!Path::new(path).exists(), "nothing lies at the path itself");
}

#[test]
fn bp_files_are_written_and_read_through_every_layout_and_over_stores_that_only_append() {
    let over = [
        ("direct", "\"memory:bp\""),
        ("flat", "\"memory:f1\", \"memory:f2\", \"memory:f3\""),
        ("container", "\"memory:c1\", \"memory:c2\""),
        ("container", "\"sequential:hdfs\""),
        ("container", "\"sequential:s3\""),
        ("small_file", "\"memory:s\""),
    ];
    for (layout, stores) in over {
        let text = format!("[[mount]]\npath = \"/nowhere/run\"\nlayout = \"{layout}\"\nstores = [{stores}]\n");
        for method in ["POSIX", "MPI"] {
            writes_and_reads_a_step(&text, &format!("/nowhere/run/{method}.bp"), method);
        }
    }
}

#[test]
fn every_store_and_layout_has_a_name_of_its_own_and_says_what_it_is() {
    let names: Vec<&str> =
        stores::STORES.iter().map(|s| s.scheme).chain(layouts::LAYOUTS.iter().map(|l| l.name)).collect();
    for (i, name) in names.iter().enumerate() {
        assert!(!names[..i].contains(name), "{name} twice");
    }
    for kind in stores::STORES {
        assert!(kind.form.starts_with(kind.scheme), "{}", kind.form);
    }
}

#[test]
fn every_far_store_has_code_that_takes_the_listed_parameters_or_names_the_missing_feature() {
    for kind in stores::STORES.iter().filter(|kind| kind.is_far()) {
        // Refused before another machine is contacted.
        let error = stores::open(&format!("{}://place/runs?no_such_key=1", kind.scheme)).err().unwrap();
        let text = error.to_string();
        if let Some(feature) = kind.lacks() {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
            assert!(text.contains(&format!("the feature \"{feature}\"")), "{text}");
        } else {
            let keys: Vec<&str> = kind.parameters().iter().map(|parameter| parameter.key).collect();
            assert_eq!(error.kind(), ErrorKind::Config, "{text}");
            assert!(text.contains("unknown parameter no_such_key"), "{text}");
            assert!(text.contains(&format!("known are {}", keys.join(", "))), "{}: {text}", kind.scheme);
        }
    }
}
