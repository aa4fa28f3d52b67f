//! A gate around a store, at which operations wait: for tests of what happens meanwhile.

use std::time::{Duration, Instant};
use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch};
use thalweg_types::Error;
use thalweg_types::mutex::{Condvar, Mutex};

/// Where operations wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before they are made.
    Begin,
    /// When they have been made.
    End,
}

/// A watch for [`thalweg_store::wrap::Wrapped`]. Open at first.
#[derive(Default)]
pub struct Gate {
    shut: Mutex<Option<(StoreCall, String, At)>>,
    waits: Mutex<bool>,
    changed: Condvar,
    made: Mutex<Vec<(StoreCall, String)>>,
}

impl Gate {
    /// Operations of this kind wait from now on.
    ///
    /// - `name`: of the object; empty for all.
    pub fn shut(&self, call: StoreCall, name: &str, at: At) {
        *self.waits.lock() = false;
        *self.shut.lock() = Some((call, name.to_string(), at));
        // Those of another kind go on.
        self.changed.notify_all();
    }

    /// All operations go on.
    pub fn open(&self) {
        *self.shut.lock() = None;
        self.changed.notify_all();
    }

    /// Waits until an operation waits at the gate as it was shut last.
    ///
    /// # Panics
    /// If none has come in 60 s.
    pub fn wait_for_one(&self) {
        let begun = Instant::now();
        while !*self.waits.lock() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing comes to the gate");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How many operations of this kind were made of an object, or failed.
    pub fn made(&self, call: StoreCall, name: &str) -> usize {
        self.made.lock().iter().filter(|(of, object)| *of == call && object == name).count()
    }

    fn pass(&self, operation: &Operation<'_>, at: At) {
        let mut shut = self.shut.lock();
        let waits = |shut: &Option<(StoreCall, String, At)>| {
            let shut = shut.as_ref();
            shut.is_some_and(|(call, name, when)| {
                *call == operation.asked && *when == at && (name.is_empty() || name == operation.name)
            })
        };
        while waits(&shut) {
            *self.waits.lock() = true;
            shut = self.changed.wait(shut);
        }
    }
}

impl Watch for Gate {
    fn describe(&self) -> &'static str {
        "gate"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        self.pass(operation, At::Begin);
        Verdict::Pass
    }

    fn after(&self, operation: &Operation<'_>, _: Result<u64, &Error>) {
        self.made.lock().push((operation.asked, operation.name.to_string()));
        self.pass(operation, At::End);
    }
}
