//! Every decoder, as a function of bytes and byte order whose results are dropped.

use thalweg_bp::characteristic::{decode_set, skim_set};
use thalweg_bp::extension::{self, Directory, Records};
use thalweg_bp::footer::{Footer, MINIFOOTER};
use thalweg_bp::index::{self, Index, ProcessGroupEntry};
use thalweg_bp::live::Live;
use thalweg_bp::process_group::{AttributeRecord, Header, VariableRecord};
use thalweg_bp::scan::{self, scan};
use thalweg_bp::step_record;
use thalweg_bp::trailer::Trailer;
use thalweg_bp::wire::Cursor;
use thalweg_types::{ByteOrder, ElementType};

/// A decoder.
pub type Decoder = fn(&[u8], ByteOrder);

fn c(bytes: &[u8], order: ByteOrder) -> Cursor<'_> {
    Cursor::new(bytes, order, 0)
}

/// All of them, by name.
pub const DECODERS: &[(&str, Decoder)] = &[
    ("footer", |b, _| {
        if let Some(tail) = b.last_chunk::<{ MINIFOOTER as usize }>() {
            drop(Footer::decode(tail, b.len() as u64));
        }
    }),
    ("sets", |b, o| {
        for t in ElementType::ALL {
            drop(decode_set(&mut c(b, o), Some(t), b.first().is_some_and(|b| b % 2 == 0)));
            drop(skim_set(&mut c(b, o), Some(t)));
        }
    }),
    ("header", |b, o| drop(Header::decode(&mut c(b, o)))),
    ("variable record", |b, o| drop(VariableRecord::decode(&mut c(b, o)))),
    ("attribute record", |b, o| drop(AttributeRecord::decode(&mut c(b, o)))),
    ("trailer", |b, o| drop(Trailer::decode(b, o, 0))),
    ("extension records", |b, o| drop(Records::decode(&mut c(b, o)))),
    ("directory", |b, o| drop(Directory::decode(&mut c(b, o)))),
    ("extension section", |b, o| drop(extension::before(b, b.len() as u64, o))),
    ("process group entry", |b, o| drop(ProcessGroupEntry::decode(&mut c(b, o)))),
    ("process group index", |b, o| drop(index::process_groups(&mut c(b, o)))),
    ("fragment", |b, _| drop(Index::default().append_fragment(b))),
    ("step record", |b, o| {
        if let Ok(Some(record)) = step_record::before(b, b.len() as u64, o) {
            drop(step_record::append(b, &record, o, &mut Index::default()));
        }
    }),
    ("live", |b, _| drop(Live::find(b).and_then(|l| l.load(b)))),
    ("scan", |b, o| {
        for found in scan(b, o).iter().flat_map(|s| &s.groups) {
            drop(scan::damaged_payloads(b, found));
            drop(found.fragment(b, 0, 0, o));
        }
    }),
    ("group", |b, o| drop(scan::group_at(b, 0, o))),
];
