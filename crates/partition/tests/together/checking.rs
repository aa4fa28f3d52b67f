//! What a check of a partition finds.

use crate::servers::{Running, Settings};
use std::io::IoSlice;
use thalweg_layout::{Layout, OpenWrite, WriterId};
use thalweg_partition::checking::{Checked, Finding, check};
use thalweg_partition::striping::Striping;
use thalweg_types::ErrorKind;

fn written(running: &Running, path: &str, bytes: usize) {
    let file = running.client().open_write(path, OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(&vec![7; bytes])]).unwrap();
    file.close().unwrap();
}

#[test]
fn a_partition_in_use_is_whole_and_damage_is_found_by_name() {
    let mut running = Running::new(Settings { servers: 2, stripe: 1000, ..Settings::default() });
    let partition = running.client();
    partition.make_folder("a/b").unwrap();
    written(&running, "a/b/long", 50_000);
    written(&running, "short", 10);
    written(&running, "empty", 0);
    written(&running, "gone", 5000);
    partition.make_hard_link("short", "a/same").unwrap();
    partition.make_link("short", "link").unwrap();
    partition.remove("gone").unwrap();
    // The long file at both servers, the short one at the first.
    assert_eq!(check(&partition).unwrap(), Checked { files: 3, objects: 3, findings: vec![] });

    // Objects that nobody made.
    let data = running.folder.path().join("data1");
    let id = u128::from_str_radix("abcdef00000000000000000000000000", 16).unwrap();
    let orphan = thalweg_partition::server::data::DataName { id, striping: Striping::new(1000, 2).unwrap(), server: 1 };
    std::fs::create_dir_all(data.join("ab")).unwrap();
    std::fs::write(data.join(orphan.object()), b"bytes").unwrap();
    std::fs::write(data.join("ab/other"), b"bytes").unwrap();
    let orphan = Finding::Orphan { server: 1, object: orphan.object() };
    let foreign = Finding::Foreign { server: 1, object: "ab/other".into() };
    assert_eq!(check(&partition).unwrap().findings, [orphan, foreign.clone()]);

    // A damaged record: what belongs to it is no orphan.
    let record = running.folder.path().join("names/a/b/long");
    let mut bytes = std::fs::read(&record).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&record, &bytes).unwrap();
    let found = check(&partition).unwrap().findings;
    assert!(matches!(&found[0], Finding::Broken { path, .. } if path == "a/b/long"), "{found:?}");
    assert_eq!(found[1..], [foreign]);

    running.kill(1);
    assert_eq!(check(&partition).unwrap_err().kind(), ErrorKind::PeerLost);
}
