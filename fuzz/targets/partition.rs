//! What servers and clients of partitions and daemons read: records of files, names of data, entries of the registry, configurations,
//! messages. Refused, or read, written and read again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use thalweg_partition::configuration::Configuration;
use thalweg_partition::record::Record;
use thalweg_partition::registry::Entry;
use thalweg_partition::server::data::DataName;
use thalweg_remote::message::{self, Reply, Request};

fuzz_target!(|data: &[u8]| {
    if let Ok(record) = Record::decode(data) {
        assert_eq!(record.encode(), data);
    }
    if let Ok(request) = message::decode::<Request>(data) {
        let again = message::encode(&request).expect("what was decoded is encoded");
        assert_eq!(message::decode::<Request>(&again).expect("and decoded"), request);
    }
    if let Ok(reply) = message::decode::<Reply>(data) {
        let _ = reply.clone().or_failure();
        let _ = (reply.clone().stat(), reply.clone().attributes(), reply.clone().space(), reply.number());
    }
    let _ = message::names_in(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(name) = text.parse::<DataName>() {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(entry) = Entry::read(text) {
        assert!(entry.processes().is_ok_and(|count| count > 0));
        assert!(entry.fixed().is_ok_and(|fixed| fixed.must_equal(&fixed).is_ok()));
    }
    if let Ok(configuration) = Configuration::parse(text, "f", "f", Path::new("/")) {
        assert!(!configuration.fixed.servers.is_empty());
    }
});
