//! The status of a file, from its index, its step records and its extension section.

use super::names::Names;
use crate::object::Object;
use crate::{Partial, Status};
use std::collections::HashSet;
use thalweg_bp::extension::{Records, Tag};
use thalweg_bp::live::Live;
use thalweg_bp::scan;
use thalweg_bp::source::Source;
use thalweg_bp::wire::Cursor;
use thalweg_types::{ByteOrder, ErrorKind};

pub(super) fn status_of(
    file: &Object,
    live: &Live,
    order: ByteOrder,
    variables: &Names,
    attributes: &Names,
    data_file: Option<String>,
) -> Status {
    let base = live.base.as_ref();
    let mut groups: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for head in variables.heads.iter().chain(&attributes.heads) {
        if known.insert(head.group.as_str()) {
            groups.push(head.group.clone());
        }
    }
    let mut status = Status {
        steps: u64::from(live.step_count()),
        finished: live.finished(),
        torn_bytes: live.torn,
        partial: Vec::new(),
        groups,
        process_groups: base.map_or(0, |b| b.process_groups) + live.steps.process_group_count(),
        writers: None,
        order,
        subfiles: live.subfiles().unwrap_or(false),
        extended: base.is_none_or(|b| b.extension.is_some()) || !live.step_records.is_empty(),
        step_records: live.step_records.len() as u64,
        data_file,
        length: file.length(),
    };
    for (records, order) in
        base.and_then(|b| b.records()).map(|r| (r, order)).into_iter().chain([(&live.steps.records, ByteOrder::NATIVE)])
    {
        status.add_records(records, order, live);
    }
    status
}

impl Status {
    /// Adds the facts about steps of the extension section or a step record.
    pub(super) fn add_records(&mut self, records: &Records, order: ByteOrder, live: &Live) {
        let partial = scan::partial_steps(records.get(Tag::Partial), order);
        if !partial.is_empty() {
            let mut known: HashSet<_> = self.partial.iter().copied().collect();
            let entries = partial.into_iter().map(|(time, rank, kind)| Partial {
                step: live.step_of(time),
                rank,
                kind: ErrorKind::from_code(u8::try_from(kind).unwrap_or(0)),
            });
            self.partial.extend(entries.filter(|e| known.insert(*e)));
        }
        if let Some(entry) = records.get(Tag::Run).chunks_exact(16).last() {
            self.writers = Cursor::new(&entry[12..], order, 0).u32("run").ok();
        }
    }
}
