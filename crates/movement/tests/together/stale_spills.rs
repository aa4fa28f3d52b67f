//! Spill files of processes that were killed, on layouts where spill files have names, are removed by the next process that
//! opens the output; one that a living process writes stays, and so do files of other names.

use std::io::IoSlice;
use std::sync::Arc;
use thalweg_bp::process_group::Header;
use thalweg_comm::{Communicator, threads};
use thalweg_layout::{Container, Direct, Layout, OpenWrite, WriterId};
use thalweg_movement::method::{
    CloseRequest, MethodKind, Parameters, adaptive, aggregated, collective, independent, scheduled,
};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::{BufferPool, Mode, OpenRequest, Pack};
use thalweg_store::Posix;
use thalweg_store::memory::Memory;

/// Every method that spills.
const METHODS: [&MethodKind; 5] =
    [&independent::KIND, &scheduled::KIND, &collective::KIND, &aggregated::KIND, &adaptive::KIND];

fn output(comm: &dyn Communicator, layout: &Arc<dyn Layout>, kind: &MethodKind, mode: Mode) {
    let mut method = (kind.make)(&Parameters::parse("")).unwrap();
    let (cache, buffer) = (&Arc::new(Cache::new()), &Arc::new(BufferPool::new(None)));
    let (path, group) = ("runs/x.bp", "g");
    let request = OpenRequest { comm, layout, path, group, mode, run: 7, cache, buffer, arrays: &[] };
    let time_index = method.open(&request).unwrap().time_index;
    let header = Header { group: "g".into(), fortran: false, time_name: "t".into(), time_index, methods: Vec::new() };
    let mut pack = Pack::new(buffer.clone(), &header);
    method.close(CloseRequest { comm, header: &header, pack: &mut pack, failed: None }).unwrap();
}

#[test]
fn spill_files_of_dead_processes_are_removed_when_the_output_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let posix = || Arc::new(Posix::at(folder.path()).unwrap());
    let layouts: [(&str, Arc<dyn Layout>); 3] = [
        ("direct over memory", Arc::new(Direct::new(Arc::new(Memory::new())).unwrap())),
        ("container over memory", Arc::new(Container::new(vec![Arc::new(Memory::new())], Default::default()).unwrap())),
        ("container over files", Arc::new(Container::new(vec![posix()], Default::default()).unwrap())),
    ];
    for (name, layout) in layouts {
        layout.make_folder("runs").unwrap();
        for kind in METHODS {
            for mode in [Mode::Write, Mode::Append] {
                let what = format!("{name}, {}, {mode:?}", kind.names[0]);
                let write = |name: &str| {
                    let object = layout.open_write(name, OpenWrite::Replace, WriterId(0)).unwrap();
                    object.write_at(0, &[IoSlice::new(b"spilled")]).unwrap();
                    object.publish().unwrap();
                    object
                };
                let others = ["runs/x.bp.spill.", "runs/x.bp.spill.x", "runs/y.bp.spill.3", "runs/x.bp.spill.4.bp"];
                for name in others.iter().chain(&["runs/x.bp.spill.3", "runs/x.bp.spill.12"]) {
                    let object = write(name);
                    let lease = object.lease();
                    object.close().unwrap();
                    drop(lease);
                }
                let living = write("runs/x.bp.spill.7");
                let lease = living.lease();
                threads::run(2, |comm| output(&comm, &layout, kind, mode));
                let left = layout.list("runs").unwrap();
                let spills: Vec<_> = left.iter().filter(|name| name.contains(".spill.")).collect();
                let mut stay: Vec<_> = others.iter().map(|name| name.strip_prefix("runs/").unwrap()).collect();
                stay.push("x.bp.spill.7");
                stay.sort_unstable();
                assert_eq!(spills, stay, "{what}");
                drop(lease);
                living.close().unwrap();
            }
        }
    }
}
