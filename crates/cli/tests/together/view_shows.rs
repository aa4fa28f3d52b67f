//! `view`: a view file lists where the values are, or says why it cannot.

use crate::support::{command, river};
use serde_json::Value as Json;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::{Layout, Mounts, OpenWrite, WriterId};

fn references(file: &Path) -> serde_json::Map<String, Json> {
    let text = std::fs::read_to_string(file).unwrap();
    let document: Json = serde_json::from_str(&text).unwrap();
    document["refs"].as_object().unwrap().clone()
}

/// URLs of all chunks that are in files.
fn urls(references: &serde_json::Map<String, Json>) -> Vec<String> {
    let mut all: Vec<String> =
        references.values().filter_map(|entry| Some(entry.as_array()?[0].as_str()?.to_string())).collect();
    all.sort();
    all.dedup();
    all
}

/// A mount of this layout, as its table says.
fn mounts(folder: &Scratch, layout: &str) -> Arc<Mounts> {
    let store = folder.join("store");
    std::fs::create_dir_all(&store).unwrap();
    let text = format!(
        "[[mount]]\npath = \"{}\"\nlayout = \"{layout}\"\nstores = [\"posix:{}\"]\n",
        folder.join("mount").display(),
        store.display()
    );
    std::fs::write(folder.join("mounts.toml"), text).unwrap();
    thalweg_io::mounts::of_files(&[folder.join("mounts.toml")]).unwrap()
}

#[test]
fn a_plain_file_is_named_by_its_real_path_and_the_view_lies_beside_it() {
    let folder = Scratch::new();
    std::fs::create_dir(folder.join("real")).unwrap();
    river().save(&folder.join("real/x.bp"));
    std::os::unix::fs::symlink("real", folder.join("link")).unwrap();
    let ran = crate::support::run_in(folder.path(), &["view", "zarr", "link/x.bp"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let real = folder.path().canonicalize().unwrap().join("real/x.bp");
    let references = references(&folder.join("real/x.zarr.json"));
    assert_eq!(urls(&references), [format!("file://{}", real.display())]);
    assert!(ran.out.starts_with("link/x.zarr.json: "), "{}", ran.out);
}

#[test]
fn on_a_mount_the_layout_must_be_direct() {
    for layout in ["direct", "container", "flat"] {
        let folder = Scratch::new();
        river().save(&folder.join("x.bp"));
        let mount = folder.join("mount");
        let inside = mount.join("x.bp");
        let inside = inside.to_str().unwrap();
        let mounts = mounts(&folder, layout);
        let file = mounts.open_write(inside, OpenWrite::New, WriterId(0)).unwrap();
        file.write_at(0, &[IoSlice::new(&std::fs::read(folder.join("x.bp")).unwrap())]).unwrap();
        file.close().unwrap();
        let table = folder.join("mounts.toml");
        let arguments = ["view", "zarr", inside, "-o", "x.json"];
        let ran = command().current_dir(folder.path()).env("THALWEG_MOUNTS", table).args(arguments).output();
        let ran = crate::support::Ran::from(ran.unwrap());
        if layout == "direct" {
            assert_eq!(ran.code, 0, "{}", ran.err);
            let store = folder.path().canonicalize().unwrap().join("store/x.bp");
            assert_eq!(urls(&references(&folder.join("x.json"))), [format!("file://{}", store.display())]);
        } else {
            assert_eq!(ran.code, 3, "{layout}: {}", ran.out);
            assert!(ran.err.contains("layout \"direct\"") && ran.err.contains("x.bp"), "{}", ran.err);
            assert!(!folder.join("x.json").exists(), "{layout}: a view of nothing");
        }
    }
}

#[test]
fn an_earlier_view_stays_where_a_new_one_cannot_be_made() {
    let folder = Scratch::new();
    let whole = Scratch::new();
    river().save(&whole.join("x.bp"));
    std::fs::write(folder.join("x.bp"), &std::fs::read(whole.join("x.bp")).unwrap()[..100]).unwrap();
    std::fs::write(folder.join("x.zarr.json"), "{}").unwrap();
    let ran = crate::support::run_in(folder.path(), &["view", "zarr", "x.bp"]);
    assert_eq!(ran.code, 3, "{}", ran.out);
    assert_eq!(std::fs::read_to_string(folder.join("x.zarr.json")).unwrap(), "{}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
}
