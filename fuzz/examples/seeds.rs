//! Makes fuzz/seeds: from the fixtures of other libraries, and from small files written by our own.
//!
//!   cargo run --manifest-path fuzz/Cargo.toml --example seeds
//!
//! A seed of a target that takes files starts with a byte of 2 (checksums are set right) or 3 (and the order is big).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_bp::characteristic::next_set;
use thalweg_bp::live::Live;
use thalweg_bp::scan::scan;
use thalweg_bp::wire::Cursor;
use thalweg_comm::Communicator;
use thalweg_comm::threads;
use thalweg_fuzz::SUBFILE;
use thalweg_io::{Mode, Session};
use thalweg_layout::Direct;
use thalweg_mpiio::tree;
use thalweg_partition::record::Record;
use thalweg_partition::server::data::DataName;
use thalweg_partition::striping::Striping;
use thalweg_remote::message::{self, Reply, Request};
use thalweg_schema::xml;
use thalweg_store::{Memory, Store, StoreExt};
use thalweg_transform::{Block, CODECS, Spec, encode};
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Extent};
use thalweg_view::{Datatype, View};

/// Files larger than this teach a fuzzer little.
const LARGEST: usize = 48 << 10;

#[derive(Default)]
struct Seeds(BTreeMap<(String, String), Vec<u8>>);

impl Seeds {
    fn add(&mut self, target: &str, name: &str, bytes: &[u8]) {
        if bytes.len() <= LARGEST {
            self.0.insert((target.into(), name.into()), bytes.to_vec());
        }
    }

    /// A file, and its parts for the targets that take parts.
    fn add_file(&mut self, name: &str, bytes: &[u8], big: bool) {
        let how = if big { 3 } else { 2 };
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let with = |bytes: &[u8]| [&[how], bytes].concat();
        self.add("files", name, &with(bytes));
        let at = bytes.windows(SUBFILE.len()).position(|w| w == SUBFILE).unwrap_or(bytes.len());
        let main = &bytes[..at];
        self.add("footer", name, &main[main.len().saturating_sub(28)..]);
        let cut = |e: Extent| &main[e.offset as usize..e.end().unwrap() as usize];
        if let Ok(live) = Live::find(main) {
            if let Some(base) = &live.base {
                if let Some(extension) = &base.extension {
                    self.add("extension", name, &with(cut(extension.extent)));
                }
                for (i, e) in base.entries.iter().enumerate().take(12) {
                    let entry = cut(e.extent);
                    let mut c = Cursor::new(entry, order, 0);
                    if c.u32("").is_err() || thalweg_bp::index::Head::decode(&mut c).is_err() {
                        continue;
                    }
                    let start = c.position();
                    if next_set(&mut c).is_ok() {
                        let set = [&[e.head.code, u8::from(big)], &entry[start..c.position()]].concat();
                        self.add("characteristics", &format!("{name}-{i}"), &set);
                    }
                }
            }
            for record in &live.step_records {
                self.add("step_record", name, &with(cut(record.extent)));
            }
            if let (Ok(index), false) = (live.load(main), big) {
                self.add("index", name, &index.to_fragment());
            }
        }
        if let Ok(seen) = scan(main, order) {
            for (i, found) in seen.groups.iter().enumerate().take(3) {
                self.add("process_group", &format!("{name}-{i}"), &with(cut(found.extent)));
                if let Some(t) = &found.trailer {
                    let length = thalweg_bp::trailer::length(t.blocks.len());
                    let end = found.extent.end().unwrap();
                    self.add("trailer", &format!("{name}-{i}"), &with(cut(Extent::new(end - length, length))));
                }
            }
        }
    }
}

const OURS: &str = r#"<adios-config host-language="C">
  <adios-group name="heat" time-index="iter">
    <var name="NX" type="integer"/>
    <var name="rank" type="integer"/>
    <var name="note" type="string"/>
    <global-bounds dimensions="2*NX" offsets="rank*NX">
      <var name="z" path="/c" type="double complex" dimensions="NX"/>
    </global-bounds>
    <var name="big" type="unsigned long" dimensions="NX"/>
    <attribute name="units" path="/t" type="string" value="K"/>
    <attribute name="limits" type="double" value="1.5,2"/>
    <attribute name="nx" var="NX"/>
  </adios-group>
  <method group="heat" method="METHOD"/>
</adios-config>"#;

/// A file of so many ranks and steps; not finalized where `finished` is false.
fn ours(method: &str, ranks: u32, steps: u64, finished: bool) -> Vec<u8> {
    let store = Arc::new(Memory::new());
    let layout = Arc::new(Direct::new(store.clone()).unwrap());
    threads::run(ranks, |comm| {
        let schema = xml::parse(&OURS.replace("METHOD", method), "seeds.xml").unwrap();
        let session = Session::with_layout(schema, layout.clone(), comm.duplicate().unwrap()).unwrap();
        for step in 0..steps {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut out = session.open("heat", "f.bp", mode, comm.duplicate().unwrap()).unwrap();
            let (rank, nx) = (comm.rank(), 2);
            out.write_values("NX", &[nx]).unwrap();
            out.write_values("rank", &[rank as i32]).unwrap();
            out.write("note", format!("step {step}").as_bytes()).unwrap();
            let z: Vec<f64> = (0..2 * nx).map(|i| f64::from(i) + step as f64).collect();
            out.write_values("z", &z).unwrap();
            if rank == 0 {
                out.write_values("big", &[u64::MAX - step, 1]).unwrap();
            }
            out.close().unwrap();
        }
        if finished {
            session.finalize().unwrap();
        }
    });
    let mut all = store.read_all("f.bp").unwrap();
    for name in store.list("f.bp.dir").unwrap_or_default() {
        all.extend_from_slice(SUBFILE);
        all.extend(store.read_all(&format!("f.bp.dir/{name}")).unwrap());
    }
    all
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|p| p.is_file() && p.extension().is_some_and(|e| e == ending)).collect();
    files.sort();
    files
}

/// A block of 2 x 37, 5 and 3 doubles through a transform, as its target takes it.
fn transformed(text: &str) -> Vec<u8> {
    let spec = Spec::parse(text).unwrap().unwrap();
    let values: Vec<u8> = (0..74 * 15).flat_map(|i| (0.01 * f64::from(i)).sin().to_ne_bytes()).collect();
    let block = Block { name: "v", element: ElementType::F64, extents: &[74, 5, 3] };
    let encoded = encode(&spec, &block, &values).unwrap();
    let which = CODECS.iter().position(|c| c.name() == spec.name()).unwrap() as u8;
    // Metadata of zfp are made by the target, from the mode and its value.
    let (how, metadata) = match text.strip_prefix("zfp:") {
        Some(given) => {
            let (mode, value) = given.split_once('=').unwrap();
            let mode = ["accuracy", "precision", "rate"].iter().position(|m| *m == mode).unwrap_or(0) as u8;
            let record = thalweg_transform::error_record("zfp", &encoded.metadata).unwrap();
            let how = record.map_or(2, |(_, record)| 6 | (record.form as u8) << 4);
            (how, [&[mode], value.as_bytes()].concat())
        }
        None => (0, encoded.metadata),
    };
    [&[which, 0, how, 2, 5, 3, metadata.len() as u8], metadata.as_slice(), &encoded.payload].concat()
}

/// A journal of a burst buffer, behind the byte that says that a header comes first.
fn journal() -> Vec<u8> {
    use thalweg_store::wrap::tiered::journal::Record;
    let records = [
        Record::Totals { objects: 3, bytes: 300, next: 7 },
        Record::Begin { id: 7, length: 11, name: "run/a".into(), temporary: ".thalweg-drain/7-1".into() },
        Record::Done { id: 7, checksum: 0x0102_0304 },
        Record::GivenUp { id: 8 },
    ];
    records.iter().fold(vec![1], |mut bytes, record| {
        bytes.extend(record.encode().unwrap());
        bytes
    })
}

/// Objects of containers, as their target takes them: a byte that says what, the object without the checksum that the target
/// puts there.
fn container(seeds: &mut Seeds) {
    use thalweg_layout::container::attributes::StoredAttributes;
    use thalweg_layout::container::index::{Module, Source, block, block::Entry, run::Level, run::Run};
    use thalweg_layout::container::parallel::Fragment;
    use thalweg_layout::container::record::{Kind, Record};
    use thalweg_layout::container::{snapshot::Snapshot, stamp::Stamp};
    let mut add = |kind: u8, name: &str, bytes: &[u8]| seeds.add("container", name, &[&[kind], bytes].concat());
    let stores = vec![(7, "posix:/a".to_string()), (8, "posix:/b".to_string())];
    let (mode, uid, gid, made) = (0o644, 1, 2, 3);
    let (home, link, tail) = (0, None, false);
    let module = Module::Pattern;
    let stamp =
        Stamp { container: 9, module, folders: 16, mode, uid, gid, made, stores, home, link, tail, packed: false };
    let without_crc = |bytes: Vec<u8>| bytes[..bytes.len() - 4].to_vec();
    add(0, "stamp", &without_crc(stamp.encode()));
    add(0, "stamp-of-second-store", &without_crc(Stamp { home: 1, ..stamp.clone() }.encode()));
    add(0, "behind", &without_crc(Stamp { tail: true, ..stamp.clone() }.encode()));
    add(0, "packed", &without_crc(Stamp { packed: true, ..stamp.clone() }.encode()));
    add(0, "link", &without_crc(Stamp { link: Some("to".into()), ..stamp }.encode()));
    // Records behind a stamp: a mark, a log, the mark of its end, attributes, the folder; and what is left of one.
    let mut records = vec![0, 0, 4, b'h', b'o', b's', b't', 1, 3, 5, 1, 2, 3, 4, 5, 3, 0, 2, 0, 4, 1, 9, 4, 0, 0];
    add(6, "records", &records);
    records.extend_from_slice(b"TWTL\x01\0");
    add(6, "records-torn", &records);
    let mut stored = StoredAttributes::new(mode, uid, gid, made);
    stored.xattrs.insert("user.k".into(), b"v".to_vec());
    // Of a bundle behind magic, version and number: one session, no index.
    let packed_mark = b"c-0000000000000007-1-0-ff-2-1-84-0-1-1-30-0-0-30-5-00000000";
    add(7, "bundle", &[&[1, packed_mark.len() as u8][..], packed_mark, &[0]].concat());
    add(1, "attributes", &without_crc(stored.encode()));
    add(2, "mark-open", b"o-0000000000000007-3-1-f");
    add(2, "mark-closed", b"c-0000000000000007-3-1-f-2-1-200-90-1-1-400-0-0-400-5");
    let record = Record { kind: Kind::Write, clock: 1, offset: 2, length: 3, at: 64, crc: 5 };
    add(3, "record", &record.encode()[..44]);
    let level = |stride, log_stride, count| Level { stride, log_stride, count };
    let run = Run { inner: level(100, 90, 5), outer: level(1000, 450, 3), ..Run::one(1, 7, 42, 112) };
    let entries = [
        Entry::Run(run),
        Entry::Run(Run::one(1, 7, 42, 112)),
        Entry::Run(Run { hole: true, ..Run::one(2, 50, 9, 300) }),
        Entry::Cut { clock: 3, length: 60, log: 350 },
    ];
    let block = block::encode(1, 64, 4000, &entries);
    for (kind, name) in [(4, "block"), (9, "opened"), (14, "opened-behind-nothing"), (25, "opened-damaged")] {
        add(kind, name, &[&block[..44], &block[48..]].concat());
    }
    let source = Source { writer: 3, session: 7, segment: 0, store: 1, folder: 2 };
    let mut index = Fragment::default();
    index.add(&source, |tell| entries.iter().try_for_each(|entry| tell(*entry)).map(|()| 4000)).expect("nothing fails");
    add(5, "fragment", &without_crc(index.encode()));
    add(5, "snapshot", &without_crc(Snapshot { container: 9, covers: vec!["c-1".into()], index }.encode()));
}

/// Views of the usual datatypes, and their words.
fn views(seeds: &mut Seeds) {
    let byte = Datatype::Elementary(1).pattern().unwrap();
    let words: [(&str, &[i64]); 7] = [
        ("vector", &[3, 5, 2, 9, 0, 8]),
        ("hvector-of-dup", &[4, 3, 1, 100, 1, 0, 4]),
        ("indexed", &[5, 3, 1, 0, 2, 4, 1, 11, 0, 8]),
        ("hindexed-block", &[8, 2, 3, 0, 40, 0, 4]),
        ("struct", &[12, 0, 48, 9, 2, 1, 0, 0, 4, 2, 16, 2, 2, 0, 8]),
        ("subarray", &[10, 3, 0, 8, 9, 10, 4, 5, 6, 1, 2, 3, 0, 8]),
        ("darray", &[11, 3, 2, 1, 9, 2, 2, 2, 8, 1, 0, 2, 0, 8]),
    ];
    for (name, words) in words {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        seeds.add("view", &format!("words-{name}"), &bytes);
        let pattern = tree::datatype(words).unwrap().pattern().unwrap();
        seeds.add("view", name, &View::new(17, &byte, pattern).unwrap().encode());
    }
}

/// Control files and run files of steered runs.
fn control(seeds: &mut Seeds) {
    let request = "thalweg control 1\nid host-1-2\nevery 10\nonly /a/T\nonly v\nbox 1:2,3:4\nstop yes\n";
    seeds.add("control", "request", request.as_bytes());
    let run = "thalweg run 1\nversion 3\nhost n1\npid 7\nsince 21\nanswer a\naccepted 21 3\nanswer b\nrefused no \\n array\n\
        every 1\nonly-all yes\nbox-all yes\nstop no\nend 3\n";
    seeds.add("control", "run", run.as_bytes());
}

/// What partitions and daemons read.
fn partitions(seeds: &mut Seeds) {
    let record = Record { id: 0x0123_4567_89ab_cdef, striping: Striping::new(65536, 4).unwrap() };
    seeds.add("partition", "record", &record.encode());
    let name = DataName { id: record.id, striping: record.striping, server: 3 };
    seeds.add("partition", "data-name", name.to_string().as_bytes());
    let configuration = "# two servers\nname = scratch\nstripe_size = 64k\nnr_ios = 2\nahpios_server = n1:/a\nserver = n2:s3://b/c\n\
        metadata = n1:/n\ncache_size = 1G\noptimizations = 0\nidle = 30s\nstart = on-demand\nlisten = 10.0.0.1\n";
    seeds.add("partition", "configuration", configuration.as_bytes());
    let entry = "version = 1\nname = \"p\"\nid = \"00112233445566778899aabbccddeeff\"\nstripe_size = 65536\nservers = [\"a:/x\"]\n\
        metadata = \"b:/n\"\nstarts = 2\n[instance]\nnumber = 2\nsince = 1\nnet_buf_size = 4096\nviews_in_client = false\n\
        [[instance.servers]]\nnumber = 0\nhost = \"a\"\npid = 7\nstarted = 9\nsocket = \"/s\"\naddress = \"a:1\"\n";
    seeds.add("partition", "entry", entry.as_bytes());
    let requests = [
        ("hello", Request::Hello { version: 3, prefix: "/data".into(), session: Some(1 << 100) }),
        ("write-parts", Request::WriteParts { handle: 1, view: Some(2), parts: vec![(0, 7), (1 << 40, 9)] }),
        ("read-parts", Request::ReadParts { handle: 1, view: None, parts: vec![(5, 6)] }),
        ("xattr", Request::XattrSet("path".into(), "user.key".into(), 1)),
    ];
    for (name, request) in requests {
        seeds.add("partition", name, &message::encode(&request).unwrap());
    }
    seeds.add("partition", "reply", &message::encode(&Reply::Number(1 << 50)).unwrap());
    let failure = Error::new(ErrorKind::NoSpace, "full").in_object("f").at_byte(9).safe("the rest");
    seeds.add("partition", "failure", &message::encode(&Reply::from(&failure)).unwrap());
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seeds = Seeds::default();
    for path in files(&root.join("tests/fixtures/foreign"), "bp") {
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        let mut bytes = std::fs::read(&path).unwrap();
        let folder = path.with_extension("bp.dir");
        for k in 0.. {
            let Ok(more) = std::fs::read(folder.join(format!("{name}.bp.{k}"))) else { break };
            bytes.extend_from_slice(SUBFILE);
            bytes.extend(more);
        }
        if bytes.len() <= 8 << 10 || ["encoded-big-01", "adios1-transforms", "adios1-fortran-zfp"].contains(&&*name) {
            seeds.add_file(&name, &bytes, name.contains("big"));
        }
    }
    for (name, bytes) in [
        ("mpi-finished", ours("MPI", 2, 2, true)),
        ("mpi-followed", ours("MPI", 1, 2, false)),
        ("posix-finished", ours("POSIX", 2, 2, true)),
        ("posix-followed", ours("POSIX", 1, 2, false)),
    ] {
        seeds.add_file(name, &bytes, false);
        seeds.add_file(&format!("{name}-torn"), &bytes[..bytes.len() - 70], false);
    }
    for folder in ["tests/fixtures/foreign", "examples/gray-scott"] {
        for path in files(&root.join(folder), "xml") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            seeds.add("schema", name, &std::fs::read(&path).unwrap());
        }
    }
    seeds.add("schema", "ours", OURS.replace("METHOD", "MPI").as_bytes());
    container(&mut seeds);
    views(&mut seeds);
    partitions(&mut seeds);
    control(&mut seeds);
    seeds.add("drain_journal", "four-records", &journal());
    for (i, text) in [
        "data/v[-1, 2:5, :]",
        "v[3]",
        "odd[name][0, :-1]",
        "max(v) > 0.3 and not (min(u) <= -1e-3 or step == 4)",
        "0 < mean(/data/v) < 1 || any(x) != \"text\" && attribute(units) = \"K\"",
        "sum(n) >= 340282366920938463463374607431768211455",
        "-inf",
    ]
    .iter()
    .enumerate()
    {
        seeds.add("command_line", &format!("{i}"), text.as_bytes());
    }
    for text in [
        "identity",
        "zlib:9",
        "bzip2",
        "lz4",
        "blosc:compressor=blosclz,lvl=9",
        "blosc:compressor=lz4,shuffle=byte",
        "blosc:compressor=lz4hc",
        "blosc:compressor=zlib,shuffle=bit",
        "blosc:compressor=zstd",
        "zfp:accuracy=0.01",
        "zfp:precision=30",
        "zfp:rate=8",
        "zfp:error=0.01",
        "zfp:error=1e-20",
        "zstd",
    ] {
        seeds.add("transform", &text.replace([':', '=', ','], "-"), &transformed(text));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let _ = std::fs::remove_dir_all(&folder);
    for ((target, name), bytes) in &seeds.0 {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    for target in ["live", "scan", "open", "verify", "recover"] {
        std::os::unix::fs::symlink("files", folder.join(target)).unwrap();
    }
    println!("{} seeds, {} bytes", seeds.0.len(), seeds.0.values().map(Vec::len).sum::<usize>());
}
