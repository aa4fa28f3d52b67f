//! Folder times: a name that comes or goes is the folder's last change, on every layout; what a program sets stays until then.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_conformance::layout::check_short_file;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::Options;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Container, Direct, Flat, Layout, OpenWrite, SmallFile, WriterId};
use thalweg_store::{Posix, Store};

#[test]
fn folder_times() {
    let scratch = Scratch::new();
    let mut number = 0;
    let mut store = || {
        number += 1;
        let folder = scratch.join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        Arc::new(Posix::at(folder).unwrap()) as Arc<dyn Store>
    };
    let container = |stores: Vec<Arc<dyn Store>>, inline: Option<usize>, in_log: bool| -> Box<dyn Layout> {
        let layout = Container::new(stores, Options { inline, ..Options::default() }).unwrap();
        check_short_file(&layout, scratch.path(), in_log);
        Box::new(layout)
    };
    let layouts: Vec<Box<dyn Layout>> = vec![
        Box::new(Direct::new(store()).unwrap()),
        Box::new(Flat::new(vec![store(), store(), store()]).unwrap()),
        container(vec![store(), store()], None, true),
        container(vec![store()], None, false),
        container(vec![store()], Some(0), true),
        Box::new(SmallFile::new(store(), Settings::default()).unwrap()),
    ];
    let early = UNIX_EPOCH + Duration::from_secs(1_000_000);
    // Longer than the clocks of filesystems tick.
    let tick = || std::thread::sleep(Duration::from_millis(30));
    for layout in &layouts {
        let words = layout.describe();
        let time = || layout.attributes("folder").unwrap().mtime;
        let make = |name: &str| {
            let file = layout.open_write(name, OpenWrite::Replace, WriterId(0)).unwrap();
            thalweg_layout::write_all_at(&*file, 0, b"bytes").unwrap();
            file.close().unwrap();
        };
        let set = || {
            tick();
            layout.set_attributes("folder", &Change { mtime: Some(early), ..Change::default() }).unwrap();
            assert_eq!(time(), early, "{words}: as it was set");
            tick();
        };
        layout.make_one_folder("folder", 0o755).unwrap();
        make("folder/first");
        let changes: [(&str, &dyn Fn()); 4] = [
            ("a file is made", &|| make("folder/second")),
            ("a file is renamed", &|| layout.rename("folder/second", "folder/third").unwrap()),
            ("a file is removed", &|| layout.remove("folder/third").unwrap()),
            ("a folder is made", &|| layout.make_one_folder("folder/inner", 0o755).unwrap()),
        ];
        for (what, change) in changes {
            set();
            let before = SystemTime::now() - Duration::from_millis(20);
            change();
            assert!(time() >= before, "{words}: {what}, and the folder's time is {:?}", time());
        }
        set();
        if let Some(small) = layout.concrete().and_then(|l| l.downcast_ref::<SmallFile>()) {
            // The end of a process that recorded something before ends its log, and compaction changes no name.
            small.finish().unwrap();
            assert_eq!(time(), early, "{words}: the log of the folder has ended");
            tick();
            small.compact("folder").unwrap();
            assert_eq!(time(), early, "{words}: the logs of the folder were put together");
        }
        assert_eq!(layout.list("folder").unwrap(), ["first", "inner"]);
        layout.open_read("folder/first").unwrap();
        assert_eq!(time(), early, "{words}: reading changes nothing");
    }
}
