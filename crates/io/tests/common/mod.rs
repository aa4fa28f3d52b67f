//! A place to write in, and a small simulation to write.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::threads::{self, ThreadCommunicator};
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_schema::xml;
use thalweg_store::memory::Memory;
use thalweg_store::{Store, StoreExt};
use thalweg_types::{Error, Result, Selection};

/// A store with the direct layout over it.
pub struct Place {
    pub store: Arc<dyn Store>,
    pub layout: Arc<dyn Layout>,
}

impl Place {
    pub fn memory() -> Place {
        Place::over(Arc::new(Memory::new()))
    }

    pub fn over(store: Arc<dyn Store>) -> Place {
        Place { layout: Arc::new(Direct::new(store.clone()).unwrap()), store }
    }

    /// Over a container: each file a folder of logs, also a small one.
    pub fn container(store: Arc<dyn Store>) -> Place {
        let options = thalweg_layout::container::Options { inline: Some(0), ..Default::default() };
        let layout = thalweg_layout::Container::new(vec![store.clone()], options).unwrap();
        Place { layout: Arc::new(layout), store }
    }

    pub fn run<T: Send>(&self, ranks: u32, body: impl Fn(ThreadCommunicator) -> T + Sync) -> Vec<T> {
        threads::run(ranks, body)
    }

    pub fn session(&self, document: &str, comm: &dyn Communicator) -> Session {
        let schema = xml::parse(document, "test.xml").unwrap();
        Session::with_layout(schema, self.layout.clone(), comm.duplicate().unwrap()).unwrap()
    }
}

pub fn bytes(store: &dyn Store, name: &str) -> Vec<u8> {
    let object = store.open_read(name).unwrap();
    let mut bytes = vec![0; object.length().unwrap() as usize];
    object.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// A group with a scalar, text, a global and a local array, and attributes.
pub fn heat(method: &str, parameters: &str) -> String {
    format!(
        r#"<adios-config host-language="C">
  <adios-group name="heat">
    <var name="NX" type="integer"/>
    <var name="ranks" type="integer"/>
    <var name="rank" type="integer"/>
    <var name="note" type="string"/>
    <global-bounds dimensions="ranks,2*NX" offsets="rank,0">
      <var name="t" type="double" dimensions="1,2*NX"/>
    </global-bounds>
    <var name="mine" path="/local" type="float" dimensions="NX"/>
    <attribute name="units" path="/t" type="string" value="K"/>
  </adios-group>
  <method group="heat" method="{method}">{parameters}</method>
</adios-config>"#
    )
}

pub fn t(rank: u32, step: u64, nx: i32) -> Vec<f64> {
    (0..2 * nx).map(|i| f64::from(i) + 100.0 * f64::from(rank) + 10_000.0 * step as f64).collect()
}

pub fn write_heat(session: &Session, path: &str, mode: Mode, comm: &dyn Communicator, step: u64) {
    let (rank, ranks) = (comm.rank(), comm.size());
    let nx = 4;
    let mut output = session.open("heat", path, mode, comm.duplicate().unwrap()).unwrap();
    assert_eq!(output.step(), step);
    output.write_values("NX", &[nx]).unwrap();
    output.write_values("ranks", &[ranks as i32]).unwrap();
    output.write_values("rank", &[rank as i32]).unwrap();
    output.write("note", format!("step {step}").as_bytes()).unwrap();
    output.write_values("t", &t(rank, step, nx)).unwrap();
    output.write_values("mine", &vec![rank as f32; nx as usize]).unwrap();
    output.close().unwrap();
}

/// The values of every block, by variable and step, as bytes.
pub type Contents = BTreeMap<(String, u64), Vec<Vec<u8>>>;

/// Everything a file holds.
pub fn contents(layout: &Arc<dyn Layout>, path: &str) -> Result<Contents> {
    let reader = Reader::open(layout.clone(), path)?;
    let mut all = Contents::new();
    for head in reader.variables() {
        for step in reader.variable(&head.name)?.steps {
            let mut values = Vec::new();
            for block in reader.blocks(&head.name, step)? {
                let mut bytes = Vec::new();
                match &block.value {
                    Some(value) => value.append_to(&mut bytes),
                    None => bytes = reader.read_to_vec(&head.name, step, &Selection::Block(block.number))?,
                }
                values.push(bytes);
            }
            all.insert((head.name.clone(), step), values);
        }
    }
    Ok(all)
}

/// The steps before `steps` of what a file holds.
pub fn before(contents: &Contents, steps: u64) -> Contents {
    contents.iter().filter(|((_, step), _)| *step < steps).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// What `write_heat` wrote on these ranks in one step, by the global array.
pub fn read_heat(layout: &Arc<dyn Layout>, path: &str, step: u64) -> Vec<f64> {
    let reader = Reader::open(layout.clone(), path).unwrap();
    reader.read_as("t", step, &Selection::All).unwrap()
}

/// What these ranks write in one step, as one global array.
pub fn all_of_t(ranks: u32, step: u64) -> Vec<f64> {
    (0..ranks).flat_map(|rank| t(rank, step, 4)).collect()
}

/// As `write_heat`, with the outcome of open, writes and close.
pub fn try_heat(session: &Session, path: &str, mode: Mode, comm: &dyn Communicator, step: u64) -> Result<()> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let nx = 4;
    let mut output = session.open("heat", path, mode, comm.duplicate()?)?;
    let mut write = |name: &str, bytes: &[u8]| {
        // A failure of the store is told again by close.
        let _ = output.write(name, bytes);
    };
    write("NX", &i32::to_ne_bytes(nx));
    write("ranks", &(ranks as i32).to_ne_bytes());
    write("rank", &(rank as i32).to_ne_bytes());
    write("note", format!("step {step}").as_bytes());
    write("t", bytemuck::cast_slice(&t(rank, step, nx)));
    write("mine", bytemuck::cast_slice(&vec![rank as f32; nx as usize]));
    output.close().map(|_| ())
}

/// All ranks got an error of the kind of `cause`'s; `failing` ranks keep their cause, the others name the lowest one.
pub fn all_failed_alike(outcomes: &[Result<()>], failing: &[u32], kind: thalweg_types::ErrorKind) {
    for (rank, outcome) in (0..).zip(outcomes) {
        let Err(e) = outcome else { panic!("rank {rank} returned as if nothing had happened") };
        assert_eq!(e.kind(), kind, "rank {rank}: {e}");
        let by = (!failing.contains(&rank)).then_some(failing[0]);
        assert_eq!(e.reported_by(), by, "rank {rank}: {e}");
        assert_eq!(e.place().rank, Some(rank), "{e}");
    }
}

/// The first error, in words.
pub fn words(outcomes: &[Result<()>]) -> String {
    outcomes.iter().find_map(|o| o.as_ref().err()).map_or(String::new(), Error::to_string)
}

/// What a store holds, by name.
pub type Objects = BTreeMap<String, Vec<u8>>;

/// All objects with their bytes.
pub fn objects(store: &dyn Store) -> Objects {
    let mut all = Objects::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for name in store.list(&folder).unwrap() {
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if store.stat(&name).unwrap().is_folder {
                folders.push(name);
            } else {
                all.insert(name.clone(), store.read_all(&name).unwrap());
            }
        }
    }
    all
}
