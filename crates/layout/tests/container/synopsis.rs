//! Opens of files far away that were closed for good: how many requests follow each other, and that no state of the service makes an
//! open see other bytes than the last close wrote.

use super::{over, read};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_layout::{Container, Layout, OpenWrite, WriterId};
use thalweg_store::wrap::{Operation, Sequential, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Store, StoreExt};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

/// A service that is far away: notes what it is asked for, and refuses one of the questions.
#[derive(Default)]
struct Far {
    asked: Mutex<Vec<(StoreCall, String)>>,
    /// Number of the request that fails, from 1; 0: none.
    failing: AtomicU64,
}

impl Far {
    fn take(&self) -> Vec<(StoreCall, String)> {
        std::mem::take(&mut *self.asked.lock())
    }
}

impl Watch for Far {
    fn describe(&self) -> &'static str {
        "far"
    }

    fn request_cost(&self, _: u64) -> u64 {
        1 << 20
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        if matches!(operation.asked, StoreCall::OpenWrite | StoreCall::Write | StoreCall::Length | StoreCall::Sync) {
            return Verdict::Pass;
        }
        let mut asked = self.asked.lock();
        asked.push((operation.asked, operation.name.to_string()));
        match asked.len() as u64 == self.failing.load(Ordering::SeqCst) {
            true => Verdict::Fail(Error::new(ErrorKind::Io, "not today").in_object(operation.name)),
            false => Verdict::Pass,
        }
    }
}

type Service = Arc<Wrapped<Far>>;

fn far(inner: &Sequential) -> (Service, Arc<dyn Store>) {
    let service = Arc::new(Wrapped::with(Arc::new(inner.clone()), Far::default()));
    (service.clone(), service)
}

/// More than what is packed.
fn values(seed: u64) -> Vec<u8> {
    (0..3_000_000u64).map(|i| (i * 31 + seed * 7 + i / 977) as u8).collect()
}

fn write(layout: &Container, path: &str, offset: u64, bytes: &[u8]) {
    let file = layout.open_write(path, OpenWrite::Any, WriterId(0)).unwrap();
    file.write_at(offset, &[IoSlice::new(bytes)]).unwrap();
    file.close().unwrap();
}

/// Opens a file and reads its end; how many bytes of it came with the open.
fn open_and_read_end(layout: &Container, path: &str, expected: &[u8]) -> u64 {
    let file = layout.open_read(path).unwrap();
    assert_eq!(file.length().unwrap(), expected.len() as u64);
    let at_hand = file.at_hand();
    let mut end = [0; 1000];
    file.read_exact_at(expected.len() as u64 - 1000, &mut end).unwrap();
    assert!(expected.ends_with(&end));
    at_hand
}

#[test]
fn an_open_asks_for_everything_at_once_and_its_end_is_there() {
    let inner = Sequential::like_s3();
    let (service, store) = far(&inner);
    let layout = over(&store);
    let bytes = values(1);
    write(&layout, "a", 0, &bytes);
    layout.write_synopsis("a").unwrap();
    // Once more changes nothing.
    service.watch().take();
    layout.write_synopsis("a").unwrap();
    assert!(service.watch().take().iter().all(|(asked, _)| *asked != StoreCall::Close));

    let at_hand = open_and_read_end(&over(&store), "a", &bytes);
    assert_eq!(at_hand, 128 << 10);
    let asked = service.watch().take();
    let mut kinds: Vec<_> = asked.iter().map(|(asked, _)| format!("{asked:?}")).collect();
    kinds.sort();
    // The name, the identity of the store, the synopsis; the marks.
    assert_eq!(kinds, ["List", "OpenRead", "OpenRead", "OpenRead"], "{asked:?}");
    assert!(read(&over(&store), "a").unwrap() == bytes);
}

#[test]
fn without_a_synopsis_the_marks_are_listed_while_the_name_is_read() {
    let inner = Sequential::like_s3();
    let (service, store) = far(&inner);
    let bytes = values(1);
    write(&over(&store), "a", 0, &bytes);
    service.watch().take();
    assert_eq!(open_and_read_end(&over(&store), "a", &bytes), 0);
    let asked = service.watch().take();
    assert_eq!(asked.iter().filter(|(asked, _)| *asked == StoreCall::List).count(), 1, "{asked:?}");
}

#[test]
fn a_synopsis_of_before_is_passed_over() {
    let inner = Sequential::like_s3();
    let (_, store) = far(&inner);
    let mut bytes = values(1);
    write(&over(&store), "a", 0, &bytes);
    over(&store).write_synopsis("a").unwrap();
    // Another process changes the end, and does not close for good.
    let length = bytes.len();
    bytes[length - 500..].fill(7);
    write(&over(&store), "a", length as u64 - 500, &[7; 500]);
    assert_eq!(open_and_read_end(&over(&store), "a", &bytes), 0);
    over(&store).truncate("a", 2_000_000).unwrap();
    bytes.truncate(2_000_000);
    assert_eq!(open_and_read_end(&over(&store), "a", &bytes), 0);
    over(&store).write_synopsis("a").unwrap();
    assert!(open_and_read_end(&over(&store), "a", &bytes) > 0);
    over(&store).compact("a").unwrap();
    assert_eq!(open_and_read_end(&over(&store), "a", &bytes), 0);
}

#[test]
fn a_session_that_is_open_is_not_passed_over() {
    let inner = Sequential::like_s3();
    let (_, store) = far(&inner);
    let bytes = values(1);
    write(&over(&store), "a", 0, &bytes);
    over(&store).write_synopsis("a").unwrap();
    let layout = over(&store);
    let writer = layout.open_write("a", OpenWrite::Existing, WriterId(3)).unwrap();
    writer.write_at(10, &[IoSlice::new(b"later")]).unwrap();
    let reader = over(&store).open_read("a").unwrap();
    assert_eq!(reader.at_hand(), 0);
    over(&store).write_synopsis("a").unwrap();
    writer.close().unwrap();
    let mut changed = bytes.clone();
    changed[10..15].copy_from_slice(b"later");
    assert!(read(&over(&store), "a").unwrap() == changed);
}

#[test]
fn a_handle_sees_what_its_process_writes_behind_a_synopsis() {
    let inner = Sequential::like_s3();
    let (_, store) = far(&inner);
    let mut bytes = values(1);
    write(&over(&store), "a", 0, &bytes);
    over(&store).write_synopsis("a").unwrap();
    let layout = over(&store);
    let reader = layout.open_read("a").unwrap();
    assert!(reader.at_hand() > 0);
    let at = bytes.len() - 100;
    let writer = layout.open_write("a", OpenWrite::Existing, WriterId(0)).unwrap();
    writer.write_at(at as u64, &[IoSlice::new(&[9; 50])]).unwrap();
    bytes[at..at + 50].fill(9);
    let mut end = [0; 100];
    reader.read_exact_at(at as u64, &mut end).unwrap();
    assert!(bytes.ends_with(&end));
    writer.close().unwrap();
    reader.read_exact_at(at as u64, &mut end).unwrap();
    assert!(bytes.ends_with(&end));
    assert!(read(&over(&store), "a").unwrap() == bytes);
}

#[test]
fn files_that_are_removed_renamed_and_made_again_are_not_mixed_up() {
    let inner = Sequential::like_s3();
    let (_, store) = far(&inner);
    let (first, second) = (values(1), values(2));
    let layout = over(&store);
    write(&layout, "a", 0, &first);
    layout.write_synopsis("a").unwrap();
    over(&store).rename("a", "b").unwrap();
    assert!(read(&over(&store), "b").unwrap() == first);
    // Nothing is written for a name that does not lead to it.
    over(&store).write_synopsis("b").unwrap();
    write(&over(&store), "a", 0, &second);
    assert!(read(&over(&store), "a").unwrap() == second);
    over(&store).write_synopsis("a").unwrap();
    assert!(open_and_read_end(&over(&store), "a", &second) > 0);
    assert!(read(&over(&store), "b").unwrap() == first);
    // Removes a synopsis that is not its own.
    over(&store).remove("b").unwrap();
    assert!(open_and_read_end(&over(&store), "a", &second) == 0);
    over(&store).write_synopsis("a").unwrap();
    over(&store).remove("a").unwrap();
    assert_eq!(read(&over(&store), "a").unwrap_err().kind(), ErrorKind::NotFound);
    let left: Vec<String> = store.list(".thalweg/e").unwrap();
    for group in left {
        assert_eq!(store.list(&format!(".thalweg/e/{group}")).unwrap(), Vec::<String>::new());
    }
    write(&over(&store), "a", 0, &first[..100]);
    assert!(read(&over(&store), "a").unwrap() == first[..100]);
    assert!(over(&store).check("a").unwrap().is_clean());
}

#[test]
fn a_damaged_synopsis_is_passed_over() {
    let inner = Sequential::like_s3();
    let (_, store) = far(&inner);
    let bytes = values(1);
    write(&over(&store), "a", 0, &bytes);
    over(&store).write_synopsis("a").unwrap();
    let group = store.list(".thalweg/e").unwrap().remove(0);
    let name = store.list(&format!(".thalweg/e/{group}")).unwrap().remove(0);
    let path = format!(".thalweg/e/{group}/{name}");
    let synopsis = store.read_all(&path).unwrap();
    for damaged in [&synopsis[..synopsis.len() - 1], &synopsis[..100], b"", &[0; 200]] {
        store.write_all(&path, damaged).unwrap();
        assert_eq!(open_and_read_end(&over(&store), "a", &bytes), 0);
    }
    let mut changed = synopsis.clone();
    changed[2000] ^= 1;
    store.write_all(&path, &changed).unwrap();
    assert_eq!(open_and_read_end(&over(&store), "a", &bytes), 0);
    store.write_all(&path, &synopsis).unwrap();
    assert!(open_and_read_end(&over(&store), "a", &bytes) > 0);
}

#[test]
fn whichever_request_fails_an_open_has_the_right_bytes_or_an_error() {
    let inner = Sequential::like_s3();
    let bytes = values(1);
    {
        let (_, store) = far(&inner);
        write(&over(&store), "a", 0, &bytes);
        over(&store).write_synopsis("a").unwrap();
    }
    let mut failed = 0;
    for failing in 1..=8 {
        let (service, store) = far(&inner);
        service.watch().failing.store(failing, Ordering::SeqCst);
        match read(&over(&store), "a") {
            Ok(found) => assert!(found == bytes, "request {failing}"),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Io, "request {failing}: {e:?}");
                failed += 1;
            }
        }
    }
    assert!(failed >= 1);
    // Of a write as well: the file stays as it is.
    for failing in 1..=40 {
        let (service, store) = far(&inner);
        write(&over(&store), "a", 5, b"again");
        service.watch().take();
        service.watch().failing.store(failing, Ordering::SeqCst);
        let outcome = over(&store).write_synopsis("a");
        if service.watch().take().len() < failing as usize {
            assert!(outcome.is_ok());
            break;
        }
        let found = read(&over(&(Arc::new(inner.clone()) as Arc<dyn Store>)), "a").unwrap();
        assert!(found[..5] == bytes[..5] && found[5..10] == *b"again" && found[10..] == bytes[10..]);
    }
}

#[test]
fn files_of_many_small_steps_are_opened_with_few_requests() {
    let inner = Sequential::like_s3();
    let (service, store) = far(&inner);
    let layout = over(&store);
    let mut all = Vec::new();
    let append = |layout: &Container, all: &mut Vec<u8>, number: u64| {
        let step = vec![number as u8; 5000];
        write(layout, "a", all.len() as u64, &step);
        all.extend(step);
    };
    (0..300).for_each(|number| append(&layout, &mut all, number));
    layout.write_synopsis("a").unwrap();
    service.watch().take();
    assert_eq!(open_and_read_end(&over(&store), "a", &all), 128 << 10);
    let asked = service.watch().take();
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert!(read(&over(&store), "a").unwrap() == all);
    // Further steps, in this process and in others: of the bundles that are still there the heads are known.
    for number in 300..320 {
        append(&over(&store), &mut all, number);
        assert_eq!(open_and_read_end(&over(&store), "a", &all), 0);
        assert!(read(&over(&store), "a").unwrap() == all);
    }
    service.watch().take();
    over(&store).open_read("a").unwrap().length().unwrap();
    let asked = service.watch().take();
    assert!(asked.len() <= 8, "{asked:?}");
    assert!(over(&store).check("a").unwrap().is_clean());
}
