//! Map, compact, check and repair of containers.

use super::{Module, in_folders, open, over, pattern, process, put, read, write};
use std::sync::Arc;
use std::time::Duration;
use thalweg_layout::container::tools::{Accept, Mapped, Trouble};
use thalweg_layout::{Container, Layout, OpenWrite};
use thalweg_store::wrap::Forgetful;
use thalweg_store::{Memory, Store, StoreExt};
use thalweg_types::ErrorKind;

fn map(layout: &Container, name: &str) -> Vec<Mapped> {
    let mut all = Vec::new();
    layout.map(name, 0, u64::MAX, |mapped| all.push(mapped)).unwrap();
    all
}

fn logs(store: &dyn Store, suffix: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![".thalweg/d".to_string()];
    while let Some(folder) = folders.pop() {
        for name in store.list(&folder).unwrap() {
            let name = format!("{folder}/{name}");
            match store.stat(&name).unwrap().is_folder {
                true => folders.push(name),
                false if name.ends_with(suffix) => found.push(name),
                false => {}
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_map_tells_which_bytes_lie_where() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let layout = over(&store);
    put(&layout, "file", &pattern(1, 1000));
    let file = open(&layout, "file", OpenWrite::Existing, 5);
    write(&*file, 100, &pattern(2, 50));
    write(&*file, 2000, &pattern(3, 10));
    file.punch(500, 100).unwrap();
    file.close().unwrap();
    let map = map(&layout, "file");
    let extents: Vec<_> =
        map.iter().map(|m| (m.extent.offset, m.extent.length, m.at.as_ref().map(|a| a.writer))).collect();
    let expected = [
        (0, 100, Some(0)),
        (100, 50, Some(5)),
        (150, 350, Some(0)),
        (500, 100, Some(5)),
        (600, 400, Some(0)),
        (1000, 1000, None),
        (2000, 10, Some(5)),
    ];
    assert_eq!(extents, expected);
    // The bytes are where it says.
    let bytes = read(&layout, "file").unwrap();
    let mut compared = 0;
    for mapped in &map {
        let Some((at, byte)) = mapped.at.as_ref().and_then(|at| Some((at, at.byte?))) else { continue };
        let object = store.read_all(at.object.strip_prefix("memory:/").unwrap()).unwrap();
        let (from, length) = (mapped.extent.offset as usize, mapped.extent.length as usize);
        assert_eq!(object[byte as usize..byte as usize + length], bytes[from..from + length]);
        compared += length;
    }
    // All but the hole and what was punched.
    assert_eq!(compared, 910);
}

#[test]
fn compacting_keeps_the_bytes_whenever_it_is_killed() {
    let store = Arc::new(Forgetful::new());
    let shared: Arc<dyn Store> = store.clone();
    let layout = process(std::slice::from_ref(&shared), Module::Pattern, 3000);
    for writer in 0..5u32 {
        let file = open(&layout, "file", OpenWrite::Any, writer);
        write(&*file, u64::from(writer) * 500, &pattern(writer.into(), 2000));
        if writer == 3 {
            file.truncate(1700).unwrap();
            file.truncate(9000).unwrap();
        }
        file.close().unwrap();
    }
    let file = open(&layout, "file", OpenWrite::Existing, 0);
    file.truncate(6000).unwrap();
    file.close().unwrap();
    let expected = read(&layout, "file").unwrap();
    let before = store.operations();
    let done = layout.compact("file").unwrap();
    assert_eq!(done.sessions, 6);
    assert!(done.dead > 0 && done.bytes < 5000, "{done:?}");
    assert!(read(&layout, "file").unwrap() == expected);
    assert!(read(&over(&shared), "file").unwrap() == expected);
    assert_eq!((logs(&*shared, ".data").len(), over(&shared).stat("file").unwrap().length), (1, 6000));
    assert!(over(&shared).check("file").unwrap().findings.is_empty());
    for n in before..store.operations() {
        for part in [0, store.bytes_written_by(n).unwrap_or(0) / 2] {
            let left: Arc<dyn Store> = Arc::new(store.crash_after_bytes(n, part));
            let words = format!("killed after {n} ({})", store.operation(n));
            over(&left).repair("file", Accept::OPEN).unwrap();
            assert!(read(&over(&left), "file").unwrap() == expected, "{words}");
            assert!(over(&left).check("file").unwrap().is_clean(), "{words}");
            over(&left).compact("file").unwrap();
            assert!(read(&over(&left), "file").unwrap() == expected, "{words}, compacted again");
            assert_eq!(logs(&*left, ".data").len(), 1, "{words}");
        }
    }
    // Written to while a reader is open, and compacted again under it.
    let reader = over(&shared).open_read("file").unwrap();
    let file = open(&layout, "file", OpenWrite::Existing, 1);
    write(&*file, 0, b"newer");
    assert_eq!(layout.compact("file").unwrap_err().kind(), ErrorKind::NotReady);
    file.close().unwrap();
    layout.compact("file").unwrap();
    let mut bytes = [0; 5];
    reader.read_exact_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"newer", "the old log is gone, so the reader looks again");
}

#[test]
fn lost_and_damaged_index_logs_are_made_again_of_data_logs() {
    for module in [Module::Flat, Module::Pattern] {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let layout = process(std::slice::from_ref(&store), module, 1000);
        for writer in 0..4u32 {
            let file = open(&layout, "file", OpenWrite::Any, writer);
            for i in 0..50u64 {
                write(&*file, (i * 4 + u64::from(writer)) * 90, &pattern(i, 100));
            }
            file.close().unwrap();
        }
        let expected = read(&layout, "file").unwrap();
        let index = logs(&*store, ".index");
        assert_eq!(index.len(), 4);
        // Gone, cut, a bit turned, of another writer.
        let bytes = index.iter().map(|name| store.read_all(name).unwrap()).collect::<Vec<_>>();
        store.remove(&index[0]).unwrap();
        store.write_all(&index[1], b"").unwrap();
        let cut = store.open_write(&index[1], OpenWrite::Replace).unwrap();
        cut.write_at(0, &[std::io::IoSlice::new(&bytes[1][..bytes[1].len() - 7])]).unwrap();
        let mut turned = bytes[2].clone();
        turned[120] ^= 4;
        store.write_all(&index[2], &turned).unwrap();
        store.remove(&index[3]).unwrap();
        store.write_all(&index[3], &bytes[2]).unwrap();
        assert!(read(&over(&store), "file").unwrap() == expected, "{module:?}: readers go by the data logs");
        let report = over(&store).check("file").unwrap();
        let found = report.findings.iter().filter(|f| f.trouble == Trouble::Index).count();
        assert_eq!((found, report.findings.len()), (4, 4), "{report:?}");
        assert_eq!(over(&store).repair("file", Accept::SURE).unwrap().len(), 4);
        let report = over(&store).check("file").unwrap();
        assert!(report.findings.is_empty() && report.records == 200, "{report:?}");
        assert!(read(&over(&store), "file").unwrap() == expected);
    }
}

#[test]
fn an_index_log_that_says_other_things_than_the_data_log_is_found() {
    use thalweg_layout::container::index::{block, block::Entry, run::Run};
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    put(&over(&store), "file", &pattern(1, 100));
    let name = logs(&*store, ".index").remove(0);
    let bytes = store.read_all(&name).unwrap();
    let head = block::decode_head(&bytes[64..]).unwrap();
    let lie = block::encode(head.session, head.from, head.to, &[Entry::Run(Run::one(1, 50, 100, 112))]);
    let mut changed = bytes[..64].to_vec();
    changed.extend_from_slice(&lie);
    assert_eq!(changed.len(), bytes.len());
    store.write_all(&name, &changed).unwrap();
    let report = over(&store).check("file").unwrap();
    assert_eq!(report.findings[0].trouble, Trouble::Index, "{report:?}");
    over(&store).repair("file", Accept::SURE).unwrap();
    assert_eq!(read(&over(&store), "file").unwrap(), pattern(1, 100));
}

#[test]
fn damaged_bytes_are_told_and_stay_told() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let layout = over(&store);
    let file = open(&layout, "file", OpenWrite::New, 0);
    write(&*file, 0, &pattern(1, 100));
    write(&*file, 300, &pattern(2, 100));
    file.close().unwrap();
    let name = logs(&*store, ".data").remove(0);
    let mut bytes = store.read_all(&name).unwrap();
    bytes[64 + 48 + 10] ^= 1;
    store.write_all(&name, &bytes).unwrap();
    for _ in 0..2 {
        let report = over(&store).check("file").unwrap();
        assert_eq!(report.findings.len(), 1, "{report:?}");
        assert_eq!(report.findings[0].trouble, Trouble::Data);
        assert!(report.findings[0].words.contains("bytes 0..100 of the file"), "{report:?}");
        assert!(!report.is_clean());
        assert!(over(&store).repair("file", Accept::OPEN).unwrap().is_empty());
    }
    // A data log that is shorter than was published is no torn tail to be accepted.
    store.write_all(&name, &bytes[..200]).unwrap();
    assert!(over(&store).check("file").unwrap().findings.iter().any(|f| f.trouble == Trouble::Lost));
    assert!(over(&store).repair("file", Accept::OPEN).unwrap().iter().all(|f| f.left));
    let mut out = [0; 100];
    let error = over(&store).open_read("file").unwrap().read_exact_at(300, &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

#[test]
fn what_a_kill_leaves_without_a_name_is_found() {
    let store = Arc::new(Forgetful::new());
    let layout = over(&(store.clone() as Arc<dyn Store>));
    layout.stat("").unwrap();
    put(&layout, "other", b"kept");
    let before = store.operations();
    put(&layout, "file", b"bytes");
    layout.remove("file").unwrap();
    for n in before..=store.operations() {
        let left: Arc<dyn Store> = Arc::new(store.crash_after(n));
        let layout = over(&left);
        let words = format!("killed after {n} ({})", store.operation(n));
        // Whatever is there of the file, it can be made.
        layout.nameless(Duration::ZERO, true).unwrap();
        assert_eq!(layout.nameless(Duration::ZERO, false).unwrap(), [], "{words}");
        put(&layout, "file", b"again");
        assert_eq!(read(&layout, "file").unwrap(), b"again", "{words}");
        assert_eq!(read(&layout, "other").unwrap(), b"kept", "{words}");
    }
}

#[test]
fn a_kill_late_in_a_removal_leaves_the_containers_folder_and_logs_alone_are_of_earlier_releases() {
    let (store, second) = (Arc::new(Forgetful::new()), Arc::new(Memory::new()) as Arc<dyn Store>);
    let layout = in_folders(&[store.clone() as Arc<dyn Store>]);
    put(&layout, "other", b"kept");
    put(&layout, "file", &[1; 100_000]);
    let before = store.operations();
    layout.remove("file").unwrap();
    let mut late = None;
    for n in before..=store.operations() {
        let left: Arc<dyn Store> = Arc::new(store.crash_after(n));
        let layout = in_folders(std::slice::from_ref(&left));
        let words = format!("killed after {n} ({})", store.operation(n));
        let is_named = layout.list("").unwrap().contains(&"file".to_string());
        let containers = |folder: &str| -> Vec<String> {
            let groups = left.list(folder).unwrap_or_default();
            groups.iter().flat_map(|group| left.list(&format!("{folder}/{group}")).unwrap()).collect()
        };
        let (c, d) = (containers(".thalweg/c"), containers(".thalweg/d"));
        assert!(c.len() == 2 || d.len() == 1, "{words}: logs alone");
        late = if c.len() == 2 { Some(n) } else { late };
        let stray = !is_named && (c.len() > 1 || d.len() > 1);
        assert_eq!(layout.nameless(Duration::ZERO, false).unwrap().len(), usize::from(stray), "{words}: {c:?} {d:?}");
        layout.nameless(Duration::ZERO, true).unwrap();
        if !is_named {
            assert_eq!((containers(".thalweg/c").len(), containers(".thalweg/d").len()), (1, 1), "{words}");
        }
        assert_eq!(read(&layout, "other").unwrap(), b"kept", "{words}");
    }
    // Earlier releases removed the folder before the logs. Which mount such logs are of nobody can tell.
    let left: Arc<dyn Store> = Arc::new(store.crash_after(before));
    let layout = in_folders(std::slice::from_ref(&left));
    left.remove("file").unwrap();
    let found = layout.nameless(Duration::ZERO, false).unwrap();
    let number = format!("{:032x}", found[0].container);
    let folder = format!(".thalweg/c/{}/{number}", &number[..2]);
    for name in left.list(&format!("{folder}/m")).unwrap() {
        left.remove(&format!("{folder}/m/{name}")).unwrap();
    }
    ["/stamp", "/m", ""].iter().for_each(|part| left.remove(&format!("{folder}{part}")).unwrap());
    let found = layout.nameless(Duration::ZERO, true).unwrap();
    assert!(found.len() == 1 && found[0].left.is_some(), "{found:?}");
    assert_eq!(logs(&*left, ".data").len(), 2);
    assert!(late.is_some(), "no kill left the folder");
    // What a living process writes is its own, though its name is gone.
    let layout = in_folders(std::slice::from_ref(&second));
    let file = open(&layout, "open", OpenWrite::New, 0);
    write(&*file, 0, b"open");
    file.sync().unwrap();
    second.remove("open").unwrap();
    assert_eq!(layout.nameless(Duration::ZERO, true).unwrap(), []);
    drop(file);
    assert_eq!(layout.nameless(Duration::ZERO, true).unwrap().len(), 1);
}
