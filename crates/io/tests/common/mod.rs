//! A place to write in, and a small simulation to write.
#![allow(dead_code)]

use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::threads::{self, ThreadCommunicator};
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_schema::xml;
use thalweg_store::Store;
use thalweg_store::memory::Memory;

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
