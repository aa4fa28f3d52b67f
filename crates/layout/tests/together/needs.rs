//! A layout is refused over a store that lacks what it needs, when it is configured.

use std::sync::Arc;
use thalweg_layout::{Direct, Layout};
use thalweg_store::wrap::{Watch, Wrapped};
use thalweg_store::{Capability, Memory};
use thalweg_types::ErrorKind;

/// Takes the ability to write at any offset away.
struct AppendOnly;

impl Watch for AppendOnly {
    fn describe(&self) -> &'static str {
        "append-only"
    }

    fn capability(&self, inner: Capability) -> Capability {
        Capability { write_at: false, ..inner }
    }
}

#[test]
fn direct_needs_write_at_and_names_the_store_that_lacks_it() {
    let refused = Direct::new(Arc::new(Wrapped::with(Arc::new(Memory::new()), AppendOnly)));
    let error = refused.err().expect("direct over a store without write_at");
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    assert!(text.contains("append-only around memory:") && text.contains("write_at"), "{text}");
}

#[test]
fn direct_says_what_it_lies_on() {
    assert_eq!(Direct::new(Arc::new(Memory::new())).unwrap().describe(), "direct over memory:");
}
