//! The time of a file's last write, on every layout.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::Options;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{
    Change, Container, Direct, Flat, Layout, OpenWrite, SmallFile, WriteObject, WriterId, write_all_at,
};
use thalweg_store::{Posix, Store};

/// A layout over a store.
type Make = fn(Arc<dyn Store>) -> Box<dyn Layout>;

const LAYOUTS: [(&str, Make); 6] = [
    ("direct", |store| Box::new(Direct::new(store).unwrap())),
    ("flat", |store| Box::new(Flat::new(vec![store]).unwrap())),
    ("container", |store| Box::new(Container::new(vec![store], Options::default()).unwrap())),
    ("container folders", |store| {
        Box::new(Container::new(vec![store], Options { inline: Some(0), ..Options::default() }).unwrap())
    }),
    ("small_file", |store| Box::new(SmallFile::new(store, Settings::default()).unwrap())),
    ("small_file that grows", |store| {
        let tight = Settings { small: 500, log: 1 << 16, ..Settings::default() };
        Box::new(SmallFile::new(store, tight).unwrap())
    }),
];

/// What a handle does to a file of 2000 bytes.
type Act = fn(&dyn WriteObject);

#[test]
fn whatever_a_handle_changes_the_time_of_the_last_write_says_so_at_once() {
    let acts: [(&str, Act); 5] = [
        ("write", |file| write_all_at(file, 10, b"bytes").unwrap()),
        ("append", |file| assert!(file.append(&[IoSlice::new(b"bytes")]).unwrap() > 2000)),
        ("cut", |file| file.truncate(100).unwrap()),
        ("extend", |file| file.truncate(3000).unwrap()),
        ("punch", |file| file.punch(100, 1000).unwrap()),
    ];
    let wrong = std::cell::RefCell::new(Vec::new());
    for (name, make) in LAYOUTS {
        for mode in [0o644, 0o600] {
            for (what, act) in acts {
                for before in ["nothing", "written", "synced"] {
                    let folder = Scratch::new();
                    let store: Arc<dyn Store> = Arc::new(Posix::at(folder.path()).unwrap());
                    let layout = make(store);
                    let file = layout.open_write("f", OpenWrite::New, WriterId(1)).unwrap();
                    write_all_at(&*file, 0, &[1; 2000]).unwrap();
                    file.close().unwrap();
                    layout.set_attributes("f", &Change { mode: Some(mode), ..Change::default() }).unwrap();
                    let file = layout.open_write("f", OpenWrite::Existing, WriterId(2)).unwrap();
                    if before != "nothing" {
                        write_all_at(&*file, 0, b"before").unwrap();
                    }
                    if before == "synced" {
                        file.sync().unwrap();
                    }
                    std::thread::sleep(Duration::from_millis(100));
                    let began = SystemTime::now();
                    act(&*file);
                    let words = format!("{what} of a file of mode {mode:o}, with {before} before, {name}");
                    let told = |when: &str| {
                        let mtime = layout.attributes("f").unwrap().mtime;
                        if mtime + Duration::from_millis(50) <= began {
                            wrong.borrow_mut().push(format!("{words}: {when} {mtime:?}, {began:?}"));
                        }
                    };
                    told("at once");
                    file.close().unwrap();
                    told("after the close");
                }
            }
        }
    }
    let wrong = wrong.into_inner();
    assert!(wrong.is_empty(), "{} of them: {}", wrong.len(), wrong.join("\n"));
}
