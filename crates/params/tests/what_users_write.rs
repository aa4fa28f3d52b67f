//! What users write means the same whoever reads it: one declaration of each kind, and all spellings that files in the field have.

use std::time::Duration;
use thalweg_params::{Parameter, Parameters, Unit};
use thalweg_types::ErrorKind;

const CHUNK: Parameter = Parameter::size("chunk", 8 << 20, "memory").at_least(2).also(&["chunk_size"]);
const RATE: Parameter = Parameter::rate("rate", "largest rate");
const SYNC: Parameter = Parameter::switch("sync", false, "durable at close");
const PATIENCE: Parameter =
    Parameter::time("patience", Duration::from_millis(100), Unit::Milliseconds, "shortest time");
const WRITERS: Parameter = Parameter::count("writers", 2, "ranks that write").within(1, 64);
const PATTERN: Parameter = Parameter::choice("pattern", &["simple", "brigade"], "way of the data");
const ALL: [Parameter; 6] = [CHUNK, RATE, SYNC, PATIENCE, WRITERS, PATTERN];

#[test]
fn every_spelling_of_a_value_is_the_same_value() {
    let given = |text: &str| Parameters::parse(text);
    for size in ["8388608", "8192k", "8M", "8m", "8MB", "8 MiB", "0.0078125G"] {
        assert_eq!(given(&format!("chunk={size}")).get::<u64>(&CHUNK).unwrap(), 8 << 20, "{size}");
    }
    for rate in ["200000000", "200M", "200MB", "200MB/s", "0.2GB"] {
        assert_eq!(given(&format!("rate={rate}")).get::<Option<u64>>(&RATE).unwrap(), Some(200_000_000), "{rate}");
    }
    assert_eq!(given("rate=200MiB").get::<u64>(&RATE).unwrap(), 200 << 20);
    for yes in ["sync", "sync=yes", "SYNC=True", "sync=on", "sync=1", "sync=no;sync=Y"] {
        assert!(given(yes).get::<bool>(&SYNC).unwrap(), "{yes}");
    }
    for no in ["", "sync=no", "sync=FALSE", "sync=off", "sync=0", "sync;sync=n"] {
        assert!(!given(no).get::<bool>(&SYNC).unwrap(), "{no}");
    }
    for time in ["patience=250", "patience=250ms", "patience=250000us"] {
        assert_eq!(given(time).get::<Duration>(&PATIENCE).unwrap(), Duration::from_millis(250), "{time}");
    }
    assert_eq!(given("pattern=Brigade").get::<String>(&PATTERN).unwrap(), "brigade");
}

#[test]
fn what_is_not_given_has_the_declared_default() {
    let none = Parameters::default();
    assert_eq!(none.get::<usize>(&CHUNK).unwrap(), 8 << 20);
    assert_eq!(none.get::<Option<u64>>(&RATE).unwrap(), None);
    assert_eq!(none.get::<Duration>(&PATIENCE).unwrap(), Duration::from_millis(100));
    assert_eq!((none.get::<u32>(&WRITERS).unwrap(), none.get::<Option<u32>>(&WRITERS).unwrap()), (2, Some(2)));
    assert_eq!(none.get::<String>(&PATTERN).unwrap(), "simple");
}

#[test]
fn nonsense_is_an_error_that_says_key_text_and_what_is_expected() {
    for (text, says) in [
        ("chunk=1", "chunk=1: expected bytes, at least 2, as 65536, 64k or 8MiB"),
        ("chunk_size=lots", "chunk_size=lots: expected bytes"),
        ("chunk=1M;chunk_size=2M", "chunk=1M and chunk_size=2M: they are the same thing"),
        ("rate=0", "rate=0: expected bytes per second"),
        ("sync=perhaps", "sync=perhaps: expected yes or no"),
        ("patience=long", "patience=long: expected a time"),
        ("writers=0", "writers=0: expected a whole number from 1 to 64"),
        ("writers=65", "from 1 to 64"),
        ("pattern=chain", "pattern=chain: expected simple or brigade"),
        ("patern=simple", "unknown parameter patern; nearest known name: pattern"),
    ] {
        let given = Parameters::parse(text).of("method M");
        let checked = given.check_known(&ALL).and_then(|()| ALL.iter().try_for_each(|p| given.check(p)));
        let error = checked.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.what().starts_with("method M: ") && error.what().contains(says), "{text}: {error}");
    }
}
