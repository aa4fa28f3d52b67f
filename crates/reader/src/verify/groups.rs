//! Process groups: found by a scan of every object, and compared with those that the index lists.

use super::record::{RecordSeen, digest, essence, sums_beside};
use super::*;

/// A process group as index and scan both know it: group, time index, offset, dimensions fastest first.
pub(super) type GroupKey = (String, u32, u64, bool);

/// Facts about a process group that was found.
pub(super) struct GroupSeen {
    pub(super) group: String,
    pub(super) time: u32,
    pub(super) extent: Extent,
    pub(super) fortran: bool,
    pub(super) rank: Option<u32>,
}

impl GroupSeen {
    pub(super) fn key(&self) -> GroupKey {
        (self.group.clone(), self.time, self.extent.offset, self.fortran)
    }

    /// Removes the group from the index's list; groups without trailer do not contain their rank.
    pub(super) fn take_from(&self, indexed: &mut HashMap<GroupKey, Vec<u32>>) -> bool {
        let Some(ranks) = indexed.get_mut(&self.key()) else { return false };
        let place = match self.rank {
            Some(rank) => ranks.iter().position(|r| *r == rank),
            None => ranks.len().checked_sub(1),
        };
        place.map(|i| ranks.remove(i)).is_some()
    }
}

impl Check<'_> {
    /// Scans every object with process groups; returns the groups found in each.
    pub(super) fn objects(&mut self, report: &mut Report) -> Result<Vec<(String, Vec<GroupSeen>)>> {
        if !self.groups_known {
            return Ok(Vec::new());
        }
        if !self.subfiles {
            // Behind the live end lies an output that was cut off; a foreign index ends the groups.
            let end = match &self.live.base {
                Some(base) if !self.ours => base.footer.process_groups,
                _ => self.live.end,
            };
            let seen = self.object(self.file.clone(), SINGLE_FILE, end, report)?;
            return Ok(vec![(self.path.to_string(), seen)]);
        }
        let mut all = Vec::new();
        for k in object::subfiles(self.layout, self.path)? {
            let object = Object::open(self.layout, &object::subfile(self.path, k))?;
            self.lengths.insert(k, Some(object.length()));
            let own = source::unless_damaged(Base::ending_at(&object, object.length()))?.flatten();
            let end = own
                .map_or(object.length(), |b| b.extension.as_ref().map_or(b.footer.process_groups, |e| e.extent.offset));
            let name = object.path.to_string();
            all.push((name, self.object(object, k, end, report)?));
        }
        Ok(all)
    }

    pub(super) fn object(
        &mut self,
        object: Object,
        file_index: u32,
        end: u64,
        report: &mut Report,
    ) -> Result<Vec<GroupSeen>> {
        let path = object.path.clone();
        let view = Before { source: &object, end };
        let mut scan = scan::scan(&view, self.order).map_err(|e| e.in_object(&*path))?;
        let last_time = self.live.last_time();
        let mut seen = Vec::new();
        if let Some((at, e)) = &scan.torn {
            // Later groups of a foreign file can't be found by a scan, but by the index.
            if !self.subfiles {
                let known = self.process_groups()?;
                let mut offsets: Vec<u64> = known.iter().map(|g| g.offset).filter(|o| o > at).collect();
                offsets.sort_unstable();
                offsets.dedup();
                let metered = Metered::new(&view);
                for offset in offsets {
                    // Groups inside each other are no file's, but an attempt to waste time.
                    if metered.read_so_far() > metered.patience() {
                        break;
                    }
                    let group = source::unless_damaged(scan::group_at(&metered, offset, self.order));
                    scan.groups.extend(group.map_err(|e| e.in_object(&*path))?);
                }
            }
            let words = match self.subfiles {
                true => "no process group from here on: an output that was cut off, or damage",
                false => "no process group here, although the index follows later",
            };
            report.add_error(
                FindingKind::Structure,
                &path,
                &Error::new(e.kind(), format!("{words} ({})", e.what())).at_byte(e.place().byte.unwrap_or(*at)),
            );
        }
        let dropped = self.live.dropped_from();
        if let Some(start) = dropped {
            let words = "steps that a restart was about to drop; the next output or `thalweg recover` cuts them";
            report.add(Finding { byte: Some(start), ..finding(FindingKind::Torn, &path, words) });
        }
        for found in scan.groups.iter().filter(|g| dropped.is_none_or(|start| g.extent.offset < start)) {
            let time = found.header.time_index;
            if self.left.contains(&(file_index, found.extent.offset)) {
                *self.left_met.entry(time).or_default() += 1;
                continue;
            }
            if time > last_time {
                let step = self.live.step_of(time);
                let words = format!("a process group of step {step}, which was not closed");
                report.add(Finding { byte: Some(found.extent.offset), ..finding(FindingKind::Torn, &path, words) });
                continue;
            }
            report.process_groups += 1;
            if found.trailer.is_some() {
                report.checked_bytes += found.extent.length;
            }
            for (variable, extent) in scan::damaged_payloads(&view, found).map_err(|e| e.in_object(&*path))? {
                report.add(Finding {
                    kind: FindingKind::Checksum,
                    object: path.to_string(),
                    byte: Some(extent.offset),
                    step: Some(self.live.step_of(time)),
                    variable: Some(variable),
                    words: format!("the checksum of a payload of {} bytes is wrong", extent.length),
                });
            }
            if let Some(t) = &found.trailer
                && (t.time_index != time || t.file_index != file_index)
            {
                let words = format!(
                    "the trailer is of time index {} and subfile {}, the group of {time} and subfile {file_index}",
                    t.time_index, t.file_index
                );
                report
                    .add(Finding { byte: Some(found.extent.offset), ..finding(FindingKind::Structure, &path, words) });
            }
            let runs = self.openings.of(time);
            if let Some(t) = found.trailer.as_ref().filter(|t| t.run != 0 && !self.partial.contains(&time))
                && !runs.is_empty()
                && runs.iter().all(|o| o.run != 0 && o.run != t.run)
            {
                let words = format!(
                    "the process group of rank {} is of run {:x}, which the index does not list",
                    t.rank, t.run
                );
                let step = Some(self.live.step_of(time));
                let byte = Some(found.extent.offset);
                report.add(Finding { byte, step, ..finding(FindingKind::IndexDiffers, &path, words) });
            }
            self.decode_blocks(&object, found, report)?;
            self.note_records(&object, found, file_index, report)?;
            seen.push(GroupSeen {
                group: found.header.group.clone(),
                time,
                extent: found.extent,
                fortran: found.header.fortran,
                rank: found.trailer.as_ref().map(|t| t.rank),
            });
        }
        Ok(seen)
    }

    /// Undoes the transforms of a group's blocks, but of those whose checksum is found wrong already.
    pub(super) fn decode_blocks(&self, object: &Object, found: &Found, report: &mut Report) -> Result<()> {
        for (at, record) in &found.variables {
            let Some(transform) = &record.set.transform else { continue };
            let transform = &decode::before(transform.clone(), found.header.fortran);
            let payload = Extent::new(at + record.payload.offset, record.payload.length);
            if report.findings.iter().any(|f| f.byte == Some(payload.offset)) {
                continue;
            }
            let name = full_name(&record.path, &record.name);
            let decoded = match decode::worthwhile(transform, payload.length) {
                Ok(true) => source::bytes(object, payload.offset, payload.length, "a block")
                    .and_then(|bytes| decode::values(transform, self.order, &bytes))
                    .and_then(|values| {
                        decode::check_errors(transform, record.set.statistics.as_ref(), self.order, &values)
                    }),
                Ok(false) if found.trailer.is_some() => Ok(()),
                Ok(false) => {
                    let what = format!("\"{name}\": a block of a thousand times the bytes that are stored of it");
                    report.not_checked.push(what);
                    Ok(())
                }
                Err(e) => Err(e),
            };
            match decoded {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    let what = format!("\"{name}\": {}", e.what());
                    if !report.not_checked.contains(&what) {
                        report.not_checked.push(what);
                    }
                }
                Err(e) if is_damage(&e) || matches!(e.kind(), ErrorKind::OutOfBounds | ErrorKind::NoMemory) => {
                    report.add(Finding {
                        kind: FindingKind::Structure,
                        object: object.path.to_string(),
                        byte: Some(payload.offset),
                        step: Some(self.live.step_of(found.header.time_index)),
                        variable: Some(name),
                        words: e.what().to_string(),
                    });
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Records the facts about each record of a group that the index must contain.
    pub(super) fn note_records(
        &mut self,
        object: &Object,
        found: &Found,
        file_index: u32,
        report: &mut Report,
    ) -> Result<()> {
        let fragment = match found.fragment(object, file_index, 0, self.order) {
            Ok(fragment) => fragment,
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                self.incomparable = true;
                return Ok(());
            }
            // A name twice, with two types: no writer's.
            Err(e) if e.kind() == ErrorKind::InvalidArgument || is_damage(&e) => {
                report.add_error(FindingKind::Structure, &object.path, &e);
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        for (attributes, table) in [(false, &fragment.variables), (true, &fragment.attributes)] {
            for entry in table.entries() {
                let name = digest(&(&entry.path, &entry.name));
                let mut c = Cursor::new(&entry.sets, ByteOrder::NATIVE, 0);
                for_each_set(&mut c, entry.code, entry.count, |set| {
                    let ours = found.trailer.is_some();
                    let essence = essence(&set, attributes, ours);
                    let key = (attributes, file_index, set.record_offset);
                    let sums = sums_beside(&set).filter(|_| ours);
                    self.records.insert(key, RecordSeen { name, code: entry.code, essence, sums, ours });
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn process_groups(&self) -> Result<Vec<ProcessGroupEntry>> {
        let mut all = Vec::new();
        if let Some(base) = &self.live.base {
            let f = &base.footer;
            let bytes = source::bytes(&self.file, f.process_groups, f.variables - f.process_groups, "process groups")?;
            all = index::process_groups(&mut Cursor::new(&bytes, f.order, f.process_groups))?;
        }
        all.extend(self.live.steps.process_groups()?);
        Ok(all)
    }

    /// The process groups the index names, and the ranks it gives them.
    pub(super) fn indexed_groups(&self) -> Result<HashMap<GroupKey, Vec<u32>>> {
        let mut groups: HashMap<GroupKey, Vec<u32>> = HashMap::new();
        for g in self.process_groups()? {
            groups.entry((g.group, g.time_index, g.offset, g.fortran)).or_default().push(g.rank);
        }
        Ok(groups)
    }

    pub(super) fn compare_groups(&self, seen: &[(String, Vec<GroupSeen>)], report: &mut Report) -> Result<()> {
        let mut indexed = match self.indexed_groups() {
            Ok(indexed) => indexed,
            Err(e) if is_damage(&e) => {
                report.add_error(FindingKind::Structure, self.path, &e);
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        for (object, groups) in seen {
            for g in groups {
                // The groups of a failed rank are not indexed; the step is marked partial.
                if !g.take_from(&mut indexed) && !self.partial.contains(&g.time) {
                    report.add(Finding {
                        byte: Some(g.extent.offset),
                        step: Some(self.live.step_of(g.time)),
                        ..finding(
                            FindingKind::IndexDiffers,
                            object,
                            "a whole process group that the index does not have",
                        )
                    });
                }
            }
        }
        let mut lost: Vec<(GroupKey, u32)> =
            indexed.into_iter().flat_map(|(key, ranks)| ranks.into_iter().map(move |r| (key.clone(), r))).collect();
        lost.sort();
        let view = Before { source: &self.file, end: self.live.end };
        let metered = Metered::new(&view);
        for ((group, time, offset, _), rank) in lost {
            let reason = match self.subfiles || metered.read_so_far() > metered.patience() {
                true => None,
                false => match scan::group_at(&metered, offset, self.order) {
                    Err(e) if !is_damage(&e) => return Err(e.in_object(self.path)),
                    other => other.err(),
                },
            };
            let why = reason.as_ref().map_or(String::new(), |e| format!(": {}", e.what()));
            let kind = if reason.is_some() { FindingKind::Structure } else { FindingKind::IndexDiffers };
            let words = format!("the process group of rank {rank}, group \"{group}\", is incomplete{why}");
            report.add(Finding {
                byte: reason.and_then(|e| e.place().byte).or(Some(offset)),
                step: Some(self.live.step_of(time)),
                ..finding(kind, self.path, words)
            });
        }
        Ok(())
    }
}
