//! The container layout: its promises over many stores, and what happens when something is lost.

mod appends;
mod behind_the_stamp;
mod conformance;
mod costs;
mod each_call;
mod failures;
mod holes;
mod index;
mod kill;
mod model;
mod modes;
mod nameless;
mod races;
mod requests;
mod space;
mod spread;
mod synopsis;
mod tools;

use std::sync::Arc;
use thalweg_layout::container::tools::Accept;
use thalweg_layout::container::{Options, index::Module};
use thalweg_layout::{Container, Layout, OpenWrite, WriteObject, WriterId};
use thalweg_store::Store;
use thalweg_types::Result;

/// A container as one process has it.
fn process(stores: &[Arc<dyn Store>], module: Module, buffer: usize) -> Container {
    let options = Options { module, buffer, host: "host".into(), ..Options::default() };
    Container::new(stores.to_vec(), options).unwrap()
}

/// As [`process`], whose files have folders however small they are.
fn in_folders(stores: &[Arc<dyn Store>]) -> Container {
    let options = Options { inline: Some(0), host: "host".into(), ..Options::default() };
    Container::new(stores.to_vec(), options).unwrap()
}

fn over(store: &Arc<dyn Store>) -> Container {
    process(std::slice::from_ref(store), Module::Pattern, 4 << 20)
}

fn open(layout: &Container, name: &str, how: OpenWrite, writer: u32) -> Box<dyn WriteObject> {
    layout.open_write(name, how, WriterId(writer)).unwrap()
}

fn write(object: &dyn WriteObject, offset: u64, bytes: &[u8]) {
    thalweg_layout::write_all_at(object, offset, bytes).unwrap();
}

/// Makes a file of these bytes and closes it.
fn put(layout: &Container, name: &str, bytes: &[u8]) {
    let file = open(layout, name, OpenWrite::Replace, 0);
    write(&*file, 0, bytes);
    file.close().unwrap();
}

/// All bytes of a file, as a process that opens it now sees them.
fn read(layout: &Container, name: &str) -> Result<Vec<u8>> {
    let file = layout.open_read(name)?;
    let mut bytes = vec![0; file.length()? as usize];
    file.read_exact_at(0, &mut bytes)?;
    let mut more = [0];
    assert_eq!(file.read_at(bytes.len() as u64, &mut more)?, 0);
    Ok(bytes)
}

/// Bytes that differ from their neighbours and from zero.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| ((i.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(97)) % 255) as u8 + 1).collect()
}
