//! The objects of a container, made up: each decoder refuses them or gives what encodes to the same again, and a container that has
//! them as logs, marks and snapshot is opened, read, checked and repaired without harm.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use thalweg_layout::container::attributes::StoredAttributes;
use thalweg_layout::container::index::{Module, block};
use thalweg_layout::container::parallel::{Fragment, Opening};
use thalweg_layout::container::record::{Log, Record, Segment};
use thalweg_layout::container::tail::{Record as TailRecord, Tail};
use thalweg_layout::container::tools::Accept;
use thalweg_layout::container::{
    Container, Options, clock::Summary, marks, snapshot::Snapshot, stamp, synopsis::Synopsis,
};
use thalweg_layout::{Layout, OpenWrite, WriterId};
use thalweg_store::wrap::Sequential;
use thalweg_store::{Memory, Store, StoreExt};
use thalweg_types::checksum::crc32c;

/// Puts the right checksum behind bytes that should end with one.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.extend_from_slice(&crc32c(bytes).to_le_bytes());
    out
}

/// Mends a block: magic, length and checksums.
fn mended(bytes: &[u8], session: u64) -> Vec<u8> {
    let mut block = vec![0; 48];
    let taken = bytes.len().min(44);
    block[..taken].copy_from_slice(&bytes[..taken]);
    let entries = bytes.get(44..).unwrap_or_default();
    block[..4].copy_from_slice(b"TWIB");
    block[8..16].copy_from_slice(&(entries.len() as u64).to_le_bytes());
    block[32..40].copy_from_slice(&session.to_le_bytes());
    block[40..44].copy_from_slice(&crc32c(entries).to_le_bytes());
    let crc = crc32c(&block[..44]);
    block[44..].copy_from_slice(&crc.to_le_bytes());
    block.extend_from_slice(entries);
    block
}

fn decoders(kind: u8, bytes: &[u8]) {
    match kind {
        0 => {
            if let Ok(stamp) = stamp::Stamp::decode(&sealed(bytes)) {
                assert_eq!(stamp::Stamp::decode(&stamp.encode()).unwrap(), stamp);
            }
            let _ = stamp::decode_identity(&sealed(bytes));
        }
        1 => {
            if let Ok(stored) = StoredAttributes::decode(&sealed(bytes)) {
                assert_eq!(StoredAttributes::decode(&stored.encode()).unwrap(), stored);
            }
        }
        2 => {
            let name = String::from_utf8_lossy(bytes);
            let name = format!("{name}-{:08x}", crc32c(format!("{name}-").as_bytes()));
            match marks::parse(&name) {
                Ok(marks::MarkName::Published(home, p)) => {
                    let again = marks::parse(&marks::published_name(home, &p)).unwrap();
                    assert_eq!(again, marks::MarkName::Published(home, p));
                }
                Ok(marks::MarkName::Open(home)) => {
                    assert_eq!(marks::parse(&marks::open_name(home)).unwrap(), marks::MarkName::Open(home));
                }
                _ => {}
            }
        }
        3 => {
            if let Ok(record) = Record::decode(&sealed(&bytes[..bytes.len().min(44)]), 64) {
                assert_eq!(Record::decode(&record.encode(), 64).unwrap(), record);
            }
            for log in [Log::Data, Log::Index] {
                let _ = Segment::decode(log, &sealed(&bytes[..bytes.len().min(60)]));
            }
        }
        4 => {
            let block = mended(bytes, 1);
            let Ok(head) = block::decode_head(&block) else { return };
            let mut entries = Vec::new();
            let told = block::decode(&head, &block[48..], |entry| {
                entries.push(entry);
                Ok(())
            });
            if told.is_ok() {
                let again = block::encode(1, head.from, head.to, &entries);
                let mut back = Vec::new();
                block::decode(&block::decode_head(&again).unwrap(), &again[48..], |entry| {
                    back.push(entry);
                    Ok(())
                })
                .unwrap();
                assert_eq!(back, entries);
            }
        }
        5 => {
            let _ = Fragment::decode(&sealed(bytes)).and_then(|fragment| fragment.each(|_, _| Ok(())));
            let _ = Opening::decode(&sealed(bytes));
            let _ = Snapshot::decode(&sealed(bytes));
            if let Ok(synopsis) = Synopsis::decode(&sealed(bytes)) {
                assert_eq!(Synopsis::decode(&synopsis.encode()).unwrap(), synopsis);
            }
        }
        _ => {}
    }
}

/// A file of one writer whose index log, data log, or both end with made-up bytes.
fn opened(kind: u8, bytes: &[u8]) {
    let store = Arc::new(Memory::new());
    let module = [Module::Flat, Module::Pattern, Module::Distributed][usize::from(kind) % 3];
    let options = || Options { module, buffer: 256, ..Options::default() };
    let layout = |store: &Arc<Memory>| Container::new(vec![store.clone()], options()).unwrap();
    let first = layout(&store);
    let file = first.open_write("f", OpenWrite::New, WriterId(1)).unwrap();
    for i in 0..9u64 {
        thalweg_layout::write_all_at(&*file, i * 40, &[i as u8 + 1; 30]).unwrap();
    }
    file.close().unwrap();
    let name = |suffix: &str| {
        let mut folder = ".thalweg/d".to_string();
        loop {
            let names = store.list(&folder).unwrap();
            let found = names.iter().find(|n| n.ends_with(suffix)).unwrap_or(&names[0]);
            folder = format!("{folder}/{found}");
            if found.ends_with(suffix) {
                return folder;
            }
        }
    };
    let (index, data) = (name(".index"), name(".data"));
    let session = u64::from_str_radix(thalweg_store::name::last_part(&data).split('-').next().unwrap(), 16).unwrap();
    // The mark's name says how many bytes count: made to say what there is.
    let mut log = store.read_all(&index).unwrap();
    if kind & 8 != 0 {
        log.truncate(64);
    }
    log.extend_from_slice(&mended(bytes, session));
    store.write_all(&index, &log).unwrap();
    if kind & 16 != 0 {
        let mut data_log = store.read_all(&data).unwrap();
        let at = bytes.first().map_or(0, |b| usize::from(*b)).min(data_log.len() - 1);
        data_log[at] ^= 1;
        store.write_all(&data, &data_log).unwrap();
    }
    let folder = first_marks(&*store);
    for mark in store.list(&folder).unwrap() {
        if let Ok(marks::MarkName::Published(home, mut p)) = marks::parse(&mark) {
            p.index = log.len() as u64;
            store.remove(&format!("{folder}/{mark}")).unwrap();
            store.write_all(&format!("{folder}/{}", marks::published_name(home, &p)), b"").unwrap();
        }
    }
    drop(first);
    let layout = layout(&store);
    if let Ok(file) = layout.open_read("f") {
        let mut out = [0; 500];
        let _ = file.length().and_then(|_| file.read_at(3, &mut out));
        let _ = file.read_at(1 << 40, &mut out);
    }
    let _ = layout.repair("f", Accept::ALL);
}

/// A small file of made-up records behind its stamp, then made-up bytes. Each record is taken from three bytes: what it is, its name, how
/// many of the following bytes it has.
fn behind(bytes: &[u8]) {
    let stores = vec![(7, "memory:".to_string())];
    let (mode, uid, gid, made) = (0o644, 1, 2, 3);
    let module = Module::Pattern;
    let (home, link) = (0, None);
    let stamp = stamp::Stamp {
        container: 9,
        module,
        folders: 16,
        mode,
        uid,
        gid,
        made,
        stores,
        home,
        link,
        tail: true,
        packed: false,
    };
    let session = marks::Home { session: 7, writer: 3, store: 0, folder: 1 };
    let published = |version: u64, closed: bool, data: u64| {
        let summary = Summary { first: 1, last: 1, end: data, bytes: data, ..Summary::default() };
        let p = marks::Published { version, closed, segments: 1, data, index: 0, summary, time: 5 };
        marks::published_name(session, &p)
    };
    let data_name = || format!("{:016x}-0.data", session.session);
    let name = |code: u8| match code % 6 {
        0 => marks::open_name(session),
        1 => published(1, false, u64::from(code)),
        2 => published(2, true, 64 + u64::from(code)),
        3 => data_name(),
        4 => thalweg_layout::container::attributes::name(u64::from(code), 5),
        _ => format!("other{code}"),
    };
    let mut object = stamp.encode();
    let start = object.len() as u64;
    let mut rest = bytes;
    let mut records = Vec::new();
    while let Some(([kind, of, length], more)) = rest.split_first_chunk::<3>().filter(|([kind, ..], _)| *kind < 5) {
        let (payload, more) = more.split_at(usize::from(*length).min(more.len()));
        let record = match kind {
            0 => TailRecord::Put(name(*of), payload.to_vec()),
            1 => TailRecord::More(name(*of), payload.to_vec()),
            2 => TailRecord::Gone(name(*of)),
            3 => TailRecord::Became(name(*of), name(*length)),
            _ => TailRecord::Home,
        };
        rest = if *kind < 2 { more } else { &rest[3..] };
        let at = object.len() as u64;
        record.encode(9, at, &mut object);
        records.push(record);
    }
    let mut read = Tail::new(9, start);
    read.extend(&object[start as usize..]).unwrap();
    assert_eq!(read.end(), object.len() as u64);
    object.extend_from_slice(rest);
    let mut torn = Tail::new(9, start);
    if torn.extend(&object[start as usize..]).is_ok() {
        assert!(torn.end() >= read.end());
    }
    let store = Arc::new(Memory::new());
    let identity = [&b"TWSTORE1"[..], &7u64.to_le_bytes()].concat();
    store.make_folder(".thalweg").unwrap();
    store.write_all(".thalweg/store", &sealed(&identity)).unwrap();
    store.write_all("f", &object).unwrap();
    let layout = Container::new(vec![store], Options::default()).unwrap();
    if let Ok(file) = layout.open_read("f") {
        let mut out = [0; 500];
        let _ = file.length().and_then(|_| file.read_at(3, &mut out));
    }
    let _ = layout.attributes("f");
    let _ = layout.check("f");
    let _ = layout.repair("f", Accept::ALL);
}

/// A container far away whose small sessions were merged, and the head of the bundle is made up.
fn bundled(bytes: &[u8]) {
    let store = Arc::new(Sequential::like_s3());
    let layout = || Container::new(vec![store.clone()], Options::default()).unwrap();
    let first = layout();
    for session in 0..4 {
        let file = first.open_write("f", OpenWrite::Any, WriterId(1)).unwrap();
        thalweg_layout::write_all_at(&*file, session * 40, &[session as u8 + 1; 30]).unwrap();
        file.close().unwrap();
    }
    drop(first);
    let memory = store.memory();
    let folder = first_marks(memory);
    let names = memory.list(&folder).unwrap();
    let bundle = names.iter().find(|name| name.starts_with("b-")).unwrap();
    let whole = memory.read_all(&format!("{folder}/{bundle}")).unwrap();
    let fields: Vec<&str> = bundle.split('-').collect();
    let (number, writer) = (fields[1], fields[2]);
    let head = usize::from_str_radix(fields[3], 16).unwrap();
    // The container's own number, so that the rest is looked at.
    let mut made = sealed(&[&whole[..28], bytes].concat());
    let length = made.len() + whole.len() - head;
    let name = format!("b-{number}-{writer}-{:x}-{length:x}-", made.len());
    made.extend_from_slice(&whole[head..]);
    memory.remove(&format!("{folder}/{bundle}")).unwrap();
    memory.write_all(&format!("{folder}/{name}{:08x}", crc32c(name.as_bytes())), &made).unwrap();
    let layout = layout();
    if let Ok(file) = layout.open_read("f") {
        let mut out = [0; 500];
        let _ = file.length().and_then(|_| file.read_at(3, &mut out));
    }
    if let Ok(file) = layout.open_write("f", OpenWrite::Any, WriterId(1)) {
        let _ = thalweg_layout::write_all_at(&*file, 7, b"more").and_then(|()| file.close());
    }
    let _ = layout.check("f");
    let _ = layout.repair("f", Accept::ALL);
    let _ = layout.compact("f");
}

fn first_marks(store: &dyn Store) -> String {
    let mut folder = ".thalweg/c".to_string();
    for _ in 0..2 {
        folder = format!("{folder}/{}", store.list(&folder).unwrap()[0]);
    }
    format!("{folder}/m")
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind {
        0..=5 => decoders(*kind, bytes),
        6 => behind(bytes),
        7 => bundled(bytes),
        kind => opened(*kind, bytes),
    }
});
