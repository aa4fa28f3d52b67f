//! Small steps into a container on a store where each request takes long: few requests for each, and for an open of all of them.

use crate::common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use thalweg_comm::threads;
use thalweg_io::Mode;
use thalweg_layout::container::Options;
use thalweg_layout::{Container, Layout};
use thalweg_reader::{Reader, verify};
use thalweg_store::Store;
use thalweg_store::wrap::{Operation, Sequential, StoreCall, Verdict, Watch, Wrapped};

/// Counts what a service would be asked for: an object that is written is one request, at its close.
#[derive(Default)]
struct Requests {
    asked: AtomicU64,
}

impl Watch for Requests {
    fn describe(&self) -> &'static str {
        "requests"
    }

    fn request_cost(&self, _inner: u64) -> u64 {
        1 << 20
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        use StoreCall::{Lease, Length, OpenWrite, Sync, Write};
        if !matches!(operation.asked, OpenWrite | Write | Length | Sync | Lease) {
            self.asked.fetch_add(1, SeqCst);
            if std::env::var_os("TELL").is_some() {
                eprintln!("{:?} {} {}", operation.asked, operation.name, operation.bytes);
            }
        }
        Verdict::Pass
    }
}

fn place(inner: &Sequential) -> (Arc<Wrapped<Requests>>, Place) {
    let counted = Arc::new(Wrapped::with(Arc::new(inner.clone()), Requests::default()));
    let store: Arc<dyn Store> = counted.clone();
    let layout: Arc<dyn Layout> = Arc::new(Container::new(vec![store.clone()], Options::default()).unwrap());
    (counted, Place { store, layout })
}

const STEPS: u64 = 300;

#[test]
fn a_step_is_few_requests_and_an_open_does_not_grow_with_steps() {
    // Of each kind of store: requests of most steps, of all together, of an open.
    for (kind, inner, usual, open) in [("S3", Sequential::like_s3(), 4, 10), ("HDFS", Sequential::like_hdfs(), 5, 10)] {
        let (counted, here) = place(&inner);
        let each = threads::run(1, |comm| {
            let session = here.session(&heat("MPI", ""), &comm);
            let each: Vec<u64> = (0..STEPS)
                .map(|step| {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    write_heat(&session, "heat.bp", mode, &comm, step);
                    counted.watch().asked.swap(0, SeqCst)
                })
                .collect();
            session.finalize().unwrap();
            each
        })
        .remove(0);
        let (counted, there) = place(&inner);
        let reader = Reader::open(there.layout.clone(), "heat.bp").unwrap();
        let opened = counted.watch().asked.swap(0, SeqCst);
        assert_eq!(reader.status().steps, STEPS);
        let mut sorted = each[1..].to_vec();
        sorted.sort_unstable();
        println!("like {kind}: steps {each:?}, an open {opened}");
        assert_eq!(sorted[sorted.len() / 2], usual, "like {kind}");
        assert!(opened <= open, "like {kind}: {opened}");
        assert!(verify(&*there.layout, "heat.bp").unwrap().findings.is_empty());
    }
}
