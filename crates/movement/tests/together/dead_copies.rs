//! ADAPTIVE leaves copies of process groups that count for nothing. One that was the last thing in a subfile, and is marked as dead only
//! after the output closed, makes the closed steps of the subfile end earlier than the process knew: nobody has cut the file.

use std::io::IoSlice;
use std::sync::Arc;
use thalweg_bp::hole;
use thalweg_bp::process_group::Header;
use thalweg_bp::scan::scan;
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_comm::alone::Alone;
use thalweg_layout::{Direct, Layout, OpenWrite, WriterId};
use thalweg_movement::method::{CloseRequest, Parameters, adaptive};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::{BlockSpec, BufferPool, Mode, OpenRequest, Pack};
use thalweg_store::StoreExt;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{ByteOrder, ElementType, Extent, Result};

const RUN: u64 = 7;
const SUBFILE: &str = "x.bp.dir/x.bp.0";

/// One output of one variable.
fn output(layout: &Arc<dyn Layout>, cache: &Arc<Cache>, mode: Mode) -> Result<()> {
    let mut method = (adaptive::KIND.make)(&Parameters::parse(""))?;
    let buffer = &Arc::new(BufferPool::new(None));
    let comm = &Alone::new();
    let request = OpenRequest { comm, layout, path: "x.bp", group: "g", mode, run: RUN, cache, buffer, arrays: &[] };
    let time_index = method.open(&request)?.time_index;
    let header = Header { group: "g".into(), fortran: false, time_name: "t".into(), time_index, methods: Vec::new() };
    let mut pack = Pack::new(Arc::clone(buffer), &header);
    let spec = BlockSpec {
        id: 0,
        name: "v".into(),
        path: "".into(),
        element: ElementType::U8,
        is_dimension: false,
        shape: Some(Shape::local([3000])),
        level: Level::Full,
        value: None,
        transform: None,
    };
    pack.copy(&spec, &[time_index as u8; 3000][..])?;
    method.close(CloseRequest { comm, header: &header, pack: &mut pack, failed: None }).map(drop)
}

#[test]
fn an_append_behind_a_last_copy_that_was_marked_as_dead_since_goes_on() {
    let store = Arc::new(Failing::new(Arc::new(Memory::new())));
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
    let cache = Arc::new(Cache::new());
    output(&layout, &cache, Mode::Write).unwrap();
    let group = store.read_all(SUBFILE).unwrap();
    let end = group.len() as u64;
    // After an output that failed the ends are looked for.
    store.fail(Fault::of(StoreCall::Write).named("x.bp.dir"));
    output(&layout, &cache, Mode::Append).unwrap_err();
    store.heal();
    // Another rank's copy came to rest behind it: the process knows that the subfile reached to there.
    let key = format!("{RUN}:{SUBFILE}");
    cache.set_least(&key, 2 * end);
    cache.set_end(&key, None);
    // Then it was marked.
    let mut copy = group.clone();
    copy[..hole::LENGTH as usize].copy_from_slice(&hole::encode_dead(Extent::new(end, end)));
    let object = layout.open_write(SUBFILE, OpenWrite::Existing, WriterId(0)).unwrap();
    object.truncate(end).unwrap();
    object.write_at(end, &[IoSlice::new(&copy)]).unwrap();
    object.close().unwrap();
    for step in 2..4 {
        output(&layout, &cache, Mode::Append).unwrap();
        let found = scan(&store.read_all(SUBFILE).unwrap(), ByteOrder::NATIVE).unwrap();
        let steps: Vec<u32> = found.groups.iter().map(|group| group.header.time_index).collect();
        assert_eq!(steps, (1..=step).collect::<Vec<_>>());
    }
    // A subfile that was cut is still missed.
    let object = layout.open_write(SUBFILE, OpenWrite::Existing, WriterId(0)).unwrap();
    object.truncate(end).unwrap();
    object.close().unwrap();
    let error = output(&layout, &cache, Mode::Append).unwrap_err();
    assert!(error.to_string().contains("was cut under this process"), "{error}");
}
