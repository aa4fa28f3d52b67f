//! The damage test: of 10,000 files in which one byte was changed, `verify` finds something in each, or the byte is one that
//! no reader uses and everything reads as before. No call panics, and no command.
//!
//! `DAMAGE_SEED=N` chooses the bytes: without it always the same ones, for `LONG=1` others in each run, which says which.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_bp::extension;
use thalweg_bp::footer::FOOTER;
use thalweg_bp::live::{Base, Live};
use thalweg_bp::scan;
use thalweg_bp::step_record;
use thalweg_bp::trailer;
use thalweg_comm::Communicator;
use thalweg_comm::threads;
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Reader, RecoverOptions, Summary, index_only, live_extents, recover, verify};
use thalweg_schema::xml;
use thalweg_store::{Memory, OpenWrite, Store, StoreExt};
use thalweg_types::checksum::Crc32c;
use thalweg_types::{BoundingBox, ByteOrder, Extent, Selection};

const CHANGES: u64 = 10_000;
const BY_COMMAND: u64 = 200;

const DOCUMENT: &str = r#"<adios-config host-language="C">
  <adios-group name="heat" time-index="iter" stats="on">
    <var name="NX" type="integer"/>
    <var name="rank" type="integer"/>
    <var name="ranks" type="integer"/>
    <var name="note" type="string"/>
    <global-bounds dimensions="ranks,2*NX" offsets="rank,0">
      <var name="t" type="double" dimensions="1,2*NX"/>
      <var name="z" path="/c" type="complex" dimensions="1,2*NX"/>
    </global-bounds>
    <var name="big" type="unsigned long" dimensions="NX"/>
    <attribute name="units" path="/t" type="string" value="K"/>
    <attribute name="limits" type="double" value="1.5,2"/>
  </adios-group>
  <method group="heat" method="METHOD">PARAMETERS</method>
</adios-config>"#;

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A file of two ranks in memory, and what is known about its bytes.
struct Subject {
    name: String,
    store: Arc<Memory>,
    layout: Arc<dyn Layout>,
    objects: Vec<(String, Vec<u8>)>,
    live: Vec<(String, Vec<Extent>)>,
    /// Where each kind of bytes lies: object, offset, length.
    regions: BTreeMap<&'static str, Vec<(usize, Extent)>>,
    /// What everything in it reads as.
    content: u32,
}

impl Subject {
    fn new(method: &str, parameters: &str, steps: u64, finished: bool) -> Subject {
        let store = Arc::new(Memory::new());
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
        threads::run(2, |comm| {
            let document = DOCUMENT.replace("METHOD", method).replace("PARAMETERS", parameters);
            let schema = xml::parse(&document, "damage.xml").unwrap();
            let session = Session::with_layout(schema, layout.clone(), comm.duplicate().unwrap()).unwrap();
            for step in 0..steps {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let mut out = session.open("heat", "f.bp", mode, comm.duplicate().unwrap()).unwrap();
                let nx = 5i32;
                out.write_values("NX", &[nx]).unwrap();
                out.write_values("rank", &[comm.rank() as i32]).unwrap();
                out.write_values("ranks", &[comm.size() as i32]).unwrap();
                out.write("note", format!("step {step}").as_bytes()).unwrap();
                let t: Vec<f64> = (0..2 * nx).map(|i| f64::from(i) / 7.0 + step as f64).collect();
                out.write_values("t", &t).unwrap();
                out.write_values("z", &(0..4 * nx).map(|i| i as f32 - 0.3).collect::<Vec<_>>()).unwrap();
                out.write_values("big", &[u64::MAX - step, 1, 2, 3, 4]).unwrap();
                out.close().unwrap();
            }
            if finished {
                session.finalize().unwrap();
            }
        });
        let mut objects = vec![("f.bp".to_string(), store.read_all("f.bp").unwrap())];
        for name in store.list("f.bp.dir").unwrap_or_default() {
            let path = format!("f.bp.dir/{name}");
            objects.push((path.clone(), store.read_all(&path).unwrap()));
        }
        let report = verify(&*layout, "f.bp").unwrap();
        assert!(report.findings.is_empty() && report.not_checked.is_empty(), "{report:?}");
        let reader = Reader::open(layout.clone(), "f.bp").unwrap();
        assert_eq!((reader.status().steps, reader.status().finished), (steps, finished));
        let live = live_extents(&*layout, "f.bp").unwrap();
        let mut subject = Subject {
            name: format!("{method} {parameters} finished={finished}"),
            content: content(&reader).unwrap(),
            store,
            layout,
            objects,
            live,
            regions: BTreeMap::new(),
        };
        subject.find_regions();
        subject
    }

    fn add(&mut self, region: &'static str, object: usize, from: u64, to: u64) {
        self.regions.entry(region).or_default().push((object, Extent::new(from, to - from)));
    }

    fn find_regions(&mut self) {
        for (i, (_, bytes)) in self.objects.clone().iter().enumerate() {
            let seen = scan::scan(bytes, ByteOrder::NATIVE).unwrap();
            for group in &seen.groups {
                let end = group.extent.end().unwrap();
                let trailer = group.trailer.as_ref().unwrap();
                let records_end = end - trailer::length(trailer.blocks.len());
                self.add("trailer", i, records_end, end);
                let mut at = group.extent.offset;
                for block in &trailer.blocks {
                    let from = group.extent.offset + block.payload.offset;
                    self.add("framing", i, at, from);
                    at = from + block.payload.length;
                    self.add("payload", i, from, at);
                }
                self.add("framing", i, at, records_end);
            }
            let live = Live::find(bytes).ok();
            let last = live.as_ref().and_then(|l| l.base.as_ref()).map_or(0, |b| b.end);
            for dead in &seen.dead {
                let end = dead.end().unwrap();
                if let Ok(Some(record)) = step_record::before(bytes, end, ByteOrder::NATIVE) {
                    // Behind the last full index they are in use.
                    let used = record.extent.offset >= last;
                    let tail = end - step_record::TAIL;
                    self.add(if used { "step record" } else { "dead step record" }, i, dead.offset, tail);
                    self.add(if used { "step record's tail" } else { "dead step record" }, i, tail, end);
                    continue;
                }
                let base = Base::ending_at(bytes, end).unwrap().unwrap();
                if end != last {
                    self.add("dead index", i, dead.offset, end);
                    continue;
                }
                let section = base.extension.unwrap().extent;
                let state = extension::state_offset(section);
                let index = base.footer.process_groups;
                self.add("extension section", i, section.offset, state);
                self.add("state of the extension section", i, state, state + 8);
                self.add("tail of the extension section", i, state + 8, index);
                self.add("index", i, index, end - FOOTER);
                self.add("tag", i, end - FOOTER, end - 28);
                self.add("minifooter", i, end - 28, end);
            }
        }
    }

    fn region_of(&self, object: usize, at: u64) -> &'static str {
        let inside = |(o, e): &(usize, Extent)| *o == object && e.offset <= at && at < e.end().unwrap();
        self.regions.iter().find(|(_, places)| places.iter().any(inside)).map_or("nothing known", |(name, _)| name)
    }

    fn is_live(&self, object: usize, at: u64) -> bool {
        let extents = self.live.iter().find(|(name, _)| *name == self.objects[object].0);
        extents.is_some_and(|(_, e)| e.iter().any(|e| e.offset <= at && at < e.end().unwrap()))
    }

    /// Whether the byte is live and means something: an index that steps follow says nothing by its state.
    fn is_used(&self, object: usize, at: u64) -> bool {
        let is_state = self.region_of(object, at) == "state of the extension section";
        self.is_live(object, at) && !(is_state && self.name.contains("finished=false"))
    }

    fn put(&self, object: usize, at: u64, byte: u8) {
        let open = self.store.open_write(&self.objects[object].0, OpenWrite::Existing).unwrap();
        open.write_at(at, &[IoSlice::new(&[byte])]).unwrap();
    }

    /// A byte: any of the file, or first a kind of bytes and then one of these, so that small ones have their share.
    fn choose(&self, dice: &mut Dice) -> (usize, u64) {
        let places: Vec<(usize, Extent)> = if dice.below(3) > 0 {
            self.objects.iter().enumerate().map(|(i, (_, b))| (i, Extent::new(0, b.len() as u64))).collect()
        } else {
            let kind = dice.below(self.regions.len() as u64) as usize;
            self.regions.values().nth(kind).unwrap().clone()
        };
        let mut n = dice.below(places.iter().map(|(_, e)| e.length).sum());
        for (object, e) in places {
            if n < e.length {
                return (object, e.offset + n);
            }
            n -= e.length;
        }
        unreachable!()
    }
}

/// A checksum over everything a reader gives.
fn content(reader: &Reader) -> thalweg_types::Result<u32> {
    let mut crc = Crc32c::new();
    let status = reader.status();
    crc.update(format!("{} {:?} {:?}", status.steps, status.groups, status.partial).as_bytes());
    for head in reader.attributes() {
        crc.update(format!("{:?}", reader.attribute(&head.name)?).as_bytes());
    }
    for head in reader.variables() {
        let v = reader.variable(&head.name)?;
        crc.update(format!("{v:?} {:?}", reader.summary(&head.name, 0..u64::MAX)?).as_bytes());
        for step in v.steps {
            for block in reader.blocks(&head.name, step)? {
                crc.update(format!("{block:?}").as_bytes());
                crc.update(&reader.read_to_vec(&head.name, step, &Selection::Block(block.number))?);
            }
        }
    }
    Ok(crc.finish())
}

/// What commands ask of a reader; outcomes don't matter, panics do.
fn ask(layout: &Arc<dyn Layout>) {
    let _ = index_only(&**layout, "f.bp");
    let Ok(reader) = Reader::open(layout.clone(), "f.bp") else { return };
    let _ = (content(&reader), reader.process_groups());
    for head in reader.variables() {
        let Ok(v) = reader.variable(&head.name) else { continue };
        for step in v.steps.into_iter().take(2) {
            let _: Option<Summary> = reader.summary(&head.name, step..step + 1).ok();
            let Ok(shape) = reader.shape(&head.name, step) else { continue };
            let corner = BoundingBox::new(vec![0; shape.len()], vec![1; shape.len()]);
            let _ = reader.read_to_vec(&head.name, step, &Selection::Box(corner));
            let _ = reader.read_to_vec(&head.name, step, &Selection::All);
            for block in reader.blocks(&head.name, step).unwrap_or_default() {
                let _ = reader.writer(&block);
            }
        }
    }
}

fn subjects() -> Vec<Subject> {
    vec![
        Subject::new("MPI", "", 6, true),
        Subject::new("MPI", "", 9, false),
        Subject::new("MPI", "index=each", 3, false),
        Subject::new("POSIX", "", 6, true),
        Subject::new("POSIX", "", 9, false),
    ]
}

fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
    let otherwise = || if thalweg_conformance::sweep::is_long() { now() } else { 1 };
    std::env::var("DAMAGE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(otherwise)
}

#[test]
fn ten_thousand_changed_bytes_are_found_or_used_by_nobody() {
    let seed = seed();
    println!("DAMAGE_SEED={seed}");
    let mut dice = Dice(seed);
    let subjects = subjects();
    let mut hits: BTreeMap<&str, u64> = BTreeMap::new();
    let mut unused = 0;
    for n in 0..CHANGES {
        let subject = &subjects[(n % subjects.len() as u64) as usize];
        let (object, at) = subject.choose(&mut dice);
        let was = subject.objects[object].1[at as usize];
        let byte = was ^ (1 + dice.below(255) as u8);
        let place = format!("DAMAGE_SEED={seed}: {}: {} byte {at}", subject.name, subject.objects[object].0);
        let region = subject.region_of(object, at);
        *hits.entry(region).or_default() += 1;
        subject.put(object, at, byte);
        let found = catch_unwind(AssertUnwindSafe(|| verify(&*subject.layout, "f.bp")));
        let found = found.unwrap_or_else(|_| panic!("{place} ({region}): verify panics"));
        if found.is_ok_and(|report| report.findings.is_empty()) {
            assert!(!subject.is_used(object, at), "{place} ({region}): {was} became {byte}, and nothing was found");
            let reader = Reader::open(subject.layout.clone(), "f.bp").unwrap();
            assert_eq!(content(&reader).unwrap(), subject.content, "{place} ({region}): reads otherwise");
            unused += 1;
        }
        if n % 5 == 0 {
            let asked = catch_unwind(AssertUnwindSafe(|| {
                ask(&subject.layout);
                let _ = live_extents(&*subject.layout, "f.bp");
                let copy: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(subject.store.snapshot())).unwrap());
                let how = RecoverOptions { dry_run: false, keep_partial: n % 2 == 0, ..RecoverOptions::default() };
                if recover(&*copy, "f.bp", how).is_ok() {
                    assert!(Reader::open(copy.clone(), "f.bp").is_ok(), "what was recovered opens");
                }
                ask(&copy);
            }));
            asked.unwrap_or_else(|_| panic!("{place} ({region}): reading or recovering panics"));
        }
        subject.put(object, at, was);
    }
    println!("{hits:?}, {unused} in bytes that nobody uses");
    assert_eq!(hits.values().sum::<u64>(), CHANGES);
    for region in [
        "payload",
        "framing",
        "trailer",
        "extension section",
        "state of the extension section",
        "tail of the extension section",
        "index",
        "tag",
        "minifooter",
        "step record",
        "step record's tail",
        "dead index",
        "dead step record",
    ] {
        assert!(hits.get(region).is_some_and(|n| *n >= 40), "{region} was hardly met: {hits:?}");
    }
    assert_eq!(hits.get("nothing known"), None);
    assert!(unused > 0 && unused < CHANGES / 2, "{unused}");
}

#[test]
fn no_command_panics_on_a_changed_byte() {
    let seed = seed();
    println!("DAMAGE_SEED={seed}");
    let mut dice = Dice(seed);
    let subjects = subjects();
    let commands: [&[&str]; 7] = [
        &["ls", "-l", "-a", "-v", "f.bp"],
        &["ls", "--json", "f.bp"],
        &["dump", "f.bp", "t[-1, :]"],
        &["dump", "f.bp", "note"],
        &["find", "f.bp", "max(t) > 0.3 or sum(big) > 7"],
        &["index", "f.bp", "-o", "index.bp"],
        &["recover", "f.bp"],
    ];
    let mut codes: BTreeMap<i32, u64> = BTreeMap::new();
    for n in 0..BY_COMMAND {
        let subject = &subjects[(n % subjects.len() as u64) as usize];
        let folder = Scratch::new();
        std::fs::create_dir(folder.join("f.bp.dir")).unwrap();
        let (object, at) = subject.choose(&mut dice);
        for (i, (name, bytes)) in subject.objects.iter().enumerate() {
            let mut bytes = bytes.clone();
            if i == object {
                bytes[at as usize] ^= 1 + dice.below(255) as u8;
            }
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let place = format!("DAMAGE_SEED={seed}: {}: {} byte {at}", subject.name, subject.objects[object].0);
        for arguments in [&["verify", "f.bp"][..], commands[(n % commands.len() as u64) as usize]] {
            let ran = crate::support::run_in(folder.path(), arguments);
            assert!(matches!(ran.code, 0 | 1 | 3), "{place}: {arguments:?} ends with {}: {}", ran.code, ran.err);
            assert!(!ran.err.contains("panicked"), "{place}: {arguments:?}: {}", ran.err);
            if arguments[0] == "verify" {
                let silent = ran.code == 0;
                assert!(!(silent && subject.is_used(object, at)), "{place}: verify finds nothing: {}", ran.out);
            }
            *codes.entry(ran.code).or_default() += 1;
        }
    }
    println!("exit codes: {codes:?}");
}
