//! A file at every moment of its growth, and cut off at every byte: what was closed is there, and recovery keeps it.

use crate::writer::{Ending, File, check_steps, groups, holding, open};
use thalweg_reader::{FindingKind, RecoverOptions, recover, verify};
use thalweg_store::StoreExt;
use thalweg_types::{ErrorKind, Selection, Value};

fn grown(endings: &[Ending], ranks: u32) -> File {
    let mut file = File::default();
    for (step, ending) in endings.iter().enumerate() {
        file.step(&groups(step as u32, ranks), *ending);
    }
    file
}

#[test]
fn full_indexes_and_step_records_open_alike() {
    use Ending::*;
    for endings in [
        &[Finished][..],
        &[Full, Full, Finished],
        &[Full, Record, Record],
        &[Record, Record, Full, Record],
        &[Full, Record, Full, Finished],
    ] {
        let file = grown(endings, 3);
        let (_, layout) = holding(&[("a.bp", &file.bytes)]);
        let reader = open(&layout, "a.bp").unwrap();
        check_steps(&reader, endings.len() as u32, 3);
        let status = reader.status();
        assert_eq!(status.steps, endings.len() as u64);
        assert_eq!(status.finished, endings.last() == Some(&Finished));
        assert_eq!((status.torn_bytes, status.subfiles, status.process_groups), (0, false, 3 * status.steps));
        let report = verify(&*layout, "a.bp").unwrap();
        assert_eq!(report.findings, [], "{endings:?}");
        assert_eq!(report.process_groups, 3 * status.steps);
    }
}

#[test]
fn every_prefix_opens_with_the_steps_closed_in_it_and_recovers_to_them() {
    use Ending::*;
    let file = grown(&[Full, Record, Full, Record, Record, Finished], 2);
    let mut dropped = 0;
    for length in 0..file.bytes.len() {
        let closed = file.closed.iter().filter(|end| **end <= length as u64).count() as u32;
        let bytes = &file.bytes[..length];
        let (memory, layout) = holding(&[("a.bp", bytes)]);
        match open(&layout, "a.bp") {
            Ok(reader) => {
                check_steps(&reader, closed, 2);
                let torn = length as u64 - file.closed[closed as usize - 1];
                assert_eq!((reader.status().torn_bytes, reader.status().steps), (torn, u64::from(closed)));
            }
            Err(e) => {
                assert_eq!((e.kind(), closed), (ErrorKind::Torn, 0), "{length} bytes: {e}");
            }
        }
        let near = file.closed.iter().any(|end| end.abs_diff(length as u64) < 3);
        if !near && length % 3 != 0 {
            continue;
        }
        let trial = recover(&*layout, "a.bp", RecoverOptions { dry_run: true, ..Default::default() });
        assert_eq!(memory.read_all("a.bp").unwrap(), bytes, "a dry run changes nothing");
        match recover(&*layout, "a.bp", RecoverOptions::default()) {
            Ok(done) => {
                assert_eq!(trial.unwrap(), done);
                // A first step whose groups are whole is found even where its index was cut off.
                let steps = u64::from(closed.max(1));
                assert_eq!(done.steps, steps, "{length} bytes: {:?}", done.actions);
                let reader = open(&layout, "a.bp").unwrap();
                assert!(reader.status().finished && reader.status().torn_bytes == 0, "{length} bytes");
                if !near && length % 7 != 0 {
                    continue;
                }
                check_steps(&reader, steps as u32, 2);
                assert_eq!(verify(&*layout, "a.bp").unwrap().findings, [], "{length} bytes");
                let again = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
                assert!(!again.changed, "{:?}", again.actions);
                dropped += done.dropped.len();
            }
            Err(e) => {
                assert_eq!((e.kind(), closed), (ErrorKind::Torn, 0), "{length} bytes: {e}");
                assert_eq!(memory.read_all("a.bp").unwrap(), bytes);
            }
        }
    }
    assert!(dropped > 0, "whole process groups of steps that were not closed are listed");
}

#[test]
fn an_interrupted_recovery_can_be_repeated() {
    use Ending::*;
    let file = grown(&[Full, Record, Record, Open], 2);
    let (memory, layout) = holding(&[("a.bp", &file.bytes)]);
    recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
    let whole = memory.read_all("a.bp").unwrap();
    let end = file.end as usize;
    // After any part of its one write, the torn bytes behind not yet cut.
    for written in (0..whole.len() - end).step_by(3) {
        let mut bytes = file.bytes.clone();
        bytes.resize(bytes.len().max(end + written), 0);
        bytes[end..end + written].copy_from_slice(&whole[end..end + written]);
        let (memory, layout) = holding(&[("a.bp", &bytes)]);
        recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
        assert!(memory.read_all("a.bp").unwrap().len() >= end);
        check_steps(&open(&layout, "a.bp").unwrap(), 3, 2);
    }
}

#[test]
fn a_lost_index_is_rebuilt_from_the_groups() {
    use Ending::*;
    let file = grown(&[Full, Record, Finished], 3);
    let start = file.closed[1] as usize;
    let group_end = start + groups(2, 3).iter().fold(0, |n, g| n + g.encode((start + n) as u64, u32::MAX).0.len());
    // All indexes and step records wiped out, their bytes still there.
    let mut bytes = file.bytes[..group_end].to_vec();
    let mut at = 0;
    for step in 0..3u32 {
        for g in groups(step, 3) {
            at += g.encode(at as u64, u32::MAX).0.len();
        }
        let end = if step < 2 { file.closed[step as usize] as usize } else { group_end };
        bytes[at..end].fill(0x11);
        at = end;
    }
    let (_, layout) = holding(&[("a.bp", &bytes)]);
    assert_eq!(open(&layout, "a.bp").err().map(|e| e.kind()), Some(ErrorKind::Torn));
    let done = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
    assert_eq!((done.steps, done.dropped.len()), (3, 0), "{:?}", done.actions);
    let reader = open(&layout, "a.bp").unwrap();
    check_steps(&reader, 3, 3);
    assert_eq!(reader.status().writers, Some(3));
    assert_eq!(reader.attribute("now").unwrap().value, thalweg_types::AttributeValue::One(Value::I32(2)));
    assert_eq!(verify(&*layout, "a.bp").unwrap().findings, []);
}

#[test]
fn a_step_that_lacks_a_group_is_dropped_or_kept_as_partial() {
    let mut file = File::default();
    file.step(&groups(0, 3), Ending::Open);
    let mut lacking = groups(1, 3);
    lacking.remove(1);
    file.step(&lacking, Ending::Open);
    file.step(&groups(2, 3), Ending::Open);
    let (memory, layout) = holding(&[("a.bp", &file.bytes)]);
    let done = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
    assert_eq!((done.steps, &done.dropped[..]), (1, &[1, 2][..]));
    assert!(done.actions.iter().any(|a| a.contains("of step 1, 2 in the file, not indexed")), "{:?}", done.actions);
    assert!(memory.read_all("a.bp").unwrap().len() > file.bytes.len(), "whole steps stay in the file");
    check_steps(&open(&layout, "a.bp").unwrap(), 1, 3);

    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let done =
        recover(&*layout, "a.bp", RecoverOptions { keep_partial: true, dry_run: false, ..RecoverOptions::default() })
            .unwrap();
    assert_eq!((done.steps, done.dropped.len()), (3, 0));
    let reader = open(&layout, "a.bp").unwrap();
    let partial = &reader.status().partial;
    assert_eq!((partial.len(), partial[0].step, partial[0].rank), (1, 1, 1));
    let mut out = vec![-1.0f64; 30];
    let filled =
        reader.read("field", 1, &Selection::All, zerocopy::IntoBytes::as_mut_bytes(out.as_mut_slice())).unwrap();
    assert_eq!(filled, 20);
    assert_eq!((out[9], out[10], out[20]), (crate::writer::field(1, 1, 4), -1.0, crate::writer::field(1, 4, 0)));
    let findings = verify(&*layout, "a.bp").unwrap().findings;
    assert!(findings.len() == 1 && findings[0].kind == FindingKind::Partial, "{findings:?}");
}

#[test]
fn a_lost_step_leaves_an_empty_group_so_that_others_can_count() {
    let mut file = File::default();
    file.step(&groups(0, 1), Ending::Open);
    let start = file.bytes.len();
    file.step(&groups(1, 1), Ending::Open);
    let end = file.bytes.len();
    file.step(&groups(2, 1), Ending::Open);
    file.bytes[start..end].fill(0);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let done =
        recover(&*layout, "a.bp", RecoverOptions { keep_partial: true, dry_run: false, ..RecoverOptions::default() })
            .unwrap();
    assert_eq!(done.steps, 3);
    let reader = open(&layout, "a.bp").unwrap();
    assert_eq!(reader.process_groups().unwrap().len(), 3);
    assert_eq!(reader.variable("field").unwrap().steps, [0, 2]);
    assert_eq!(verify(&*layout, "a.bp").unwrap().findings, []);
}

#[test]
fn a_closed_step_behind_a_damaged_index_is_not_cut_off() {
    use Ending::*;
    let file = grown(&[Full, Full, Finished], 2);
    let first = file.closed[1] as usize;
    let mut survived = 0;
    // Any byte of the last index changed: the step before it is still there after recovery.
    for at in (0..file.bytes.len()).rev().take_while(|at| *at >= first) {
        let mut bytes = file.bytes.clone();
        bytes[at] ^= 0x20;
        let (_, layout) = holding(&[("a.bp", &bytes)]);
        if recover(&*layout, "a.bp", RecoverOptions::default()).is_ok() {
            let reader = open(&layout, "a.bp").unwrap();
            check_steps(&reader, 2, 2);
            survived += u32::from(reader.status().steps == 3);
        }
    }
    let length = file.bytes.len() - first;
    assert!(survived as usize > length / 2, "{survived} of {length}");
}

#[test]
fn a_foreign_file_without_its_index_is_recovered() {
    let mut file = File::default();
    for step in 0..3 {
        let mut all = groups(step, 2);
        all.iter_mut().for_each(|g| g.foreign = true);
        // Statistics of complex blocks are none of BP's index.
        file.step(&all, Ending::Open);
    }
    let length = file.bytes.len();
    for torn in [0, 1, 200] {
        let (_, layout) = holding(&[("a.bp", &file.bytes[..length - torn])]);
        let done = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
        let reader = open(&layout, "a.bp").unwrap();
        assert_eq!(done.steps, 3);
        check_steps(&reader, 2, 2);
        assert_eq!(reader.blocks("field", 2).unwrap().len(), if torn > 0 { 1 } else { 2 });
    }
}
