//! Every flag of recovering over every state of a file: what was closed stays, no whole process group is cut off, and the flag
//! for partial steps indexes what ranks wrote of a step that was not closed, at once or in a second recovery.

use crate::writer::{Ending, File, Group, Subfiles, check_steps, field, groups, holding};
use std::sync::Arc;
use thalweg_bp::live::Live;
use thalweg_layout::Layout;
use thalweg_reader::{FindingKind, Reader, RecoverOptions, Recovery, recover, verify};
use thalweg_store::{Memory, StoreExt};
use thalweg_types::{ErrorKind, Selection};

const RANKS: u32 = 3;

/// A file as a crash leaves it.
struct State {
    what: &'static str,
    objects: Vec<(String, Vec<u8>)>,
    /// Steps that were closed, or that a scan without index finds whole in front of the first incomplete one.
    closed: u32,
    /// Steps behind these, by the ranks whose process groups are whole.
    open: Vec<(u32, Vec<u32>)>,
}

fn some(step: u32, ranks: &[u32]) -> Vec<Group> {
    groups(step, RANKS).into_iter().filter(|g| ranks.contains(&g.rank)).collect()
}

/// Closed steps, then process groups of these ranks of steps that were not closed, then bytes of a torn one.
fn single(closed: &[Ending], open: &[(u32, Vec<u32>)], torn: usize) -> Vec<(String, Vec<u8>)> {
    let mut file = File::default();
    for (step, ending) in closed.iter().enumerate() {
        file.step(&groups(step as u32, RANKS), *ending);
    }
    for (step, ranks) in open {
        file.step(&some(*step, ranks), Ending::Open);
    }
    if torn > 0 {
        let step = open.last().map_or(closed.len() as u32, |(step, _)| *step);
        let (bytes, _) = some(step, &[1])[0].encode(file.bytes.len() as u64, u32::MAX);
        file.bytes.extend(&bytes[..bytes.len().min(torn)]);
    }
    vec![("a.bp".into(), file.bytes)]
}

fn with_subfiles(closed: &[Ending], open: &[(u32, Vec<u32>)], torn: usize) -> Vec<(String, Vec<u8>)> {
    let mut files = Subfiles::default();
    for (step, ending) in closed.iter().enumerate() {
        files.step(&groups(step as u32, RANKS), *ending);
    }
    files.parts.resize(RANKS as usize, Vec::new());
    for (step, ranks) in open {
        for g in some(*step, ranks) {
            let part = &mut files.parts[g.rank as usize];
            let (bytes, _) = g.encode(part.len() as u64, g.rank);
            part.extend(bytes);
        }
    }
    if torn > 0 {
        let step = open.last().map_or(closed.len() as u32, |(step, _)| *step);
        let part = &mut files.parts[1];
        let (bytes, _) = some(step, &[1])[0].encode(part.len() as u64, 1);
        part.extend(&bytes[..bytes.len().min(torn)]);
    }
    files.objects("a.bp")
}

fn states() -> Vec<State> {
    use Ending::*;
    let mut all = Vec::new();
    for (what, make) in [
        ("one file", single as fn(&[Ending], &[(u32, Vec<u32>)], usize) -> Vec<(String, Vec<u8>)>),
        ("subfiles", with_subfiles),
    ] {
        for closed in [&[Finished][..], &[Full], &[Full, Record], &[Full, Record, Full], &[Full, Full, Finished]] {
            let n = closed.len() as u32;
            for open in [
                vec![],
                vec![(n, vec![0, 2])],
                vec![(n, vec![2])],
                vec![(n, vec![0, 1, 2])],
                vec![(n, vec![0, 2]), (n + 1, vec![0, 1, 2])],
                vec![(n, vec![0]), (n + 2, vec![0, 2])],
            ] {
                for torn in [0, 1, 300] {
                    all.push(State { what, objects: make(closed, &open, torn), closed: n, open: open.clone() });
                }
            }
        }
        // No index at all.
        for open in [vec![(1, vec![0, 2])], vec![(1, vec![1]), (2, vec![0, 1, 2])], vec![(2, vec![0, 1, 2])]] {
            for torn in [0, 300] {
                let whole: Vec<_> = [(0, vec![0, 1, 2])].into_iter().chain(open.clone()).collect();
                let mut objects = make(&[], &whole, torn);
                if what == "subfiles" {
                    objects.remove(0);
                }
                all.push(State { what: "no index", objects, closed: 1, open: open.clone() });
            }
        }
    }
    all
}

fn stored(objects: &[(String, Vec<u8>)]) -> (Memory, Arc<dyn Layout>) {
    holding(&objects.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect::<Vec<_>>())
}

fn bytes(memory: &Memory, objects: &[(String, Vec<u8>)]) -> Vec<Vec<u8>> {
    objects.iter().map(|(name, _)| memory.read_all(name).unwrap()).collect()
}

/// Where whole process groups lie that were there before: none is cut off, moved or written over.
fn no_group_is_lost(before: &[(String, Vec<u8>)], memory: &Memory, what: &str) {
    for (name, old) in before {
        let new = memory.read_all(name).unwrap();
        let scan = thalweg_bp::scan::scan(old, thalweg_types::ByteOrder::NATIVE).unwrap();
        for g in scan.groups {
            let (from, to) = (g.extent.offset as usize, (g.extent.offset + g.extent.length) as usize);
            assert!(
                new.get(from..to) == Some(&old[from..to]),
                "{what}: {name}: the process group at byte {from} is lost"
            );
        }
    }
}

/// What the ranks that are there wrote of the steps that were not closed is read, the others' parts are holes.
fn open_steps_read(reader: &Reader, open: &[(u32, Vec<u32>)], what: &str) {
    for (step, ranks) in open {
        let mut out = vec![-1.0f64; 10 * RANKS as usize];
        let bytes = zerocopy::IntoBytes::as_mut_bytes(out.as_mut_slice());
        reader.read("field", u64::from(*step), &Selection::All, bytes).unwrap();
        for rank in 0..RANKS {
            for i in 0..10u64 {
                let there = ranks.contains(&rank);
                let wanted = if there { field(*step, 2 * u64::from(rank) + i / 5, i % 5) } else { -1.0 };
                assert_eq!(out[(10 * u64::from(rank) + i) as usize], wanted, "{what}: step {step}, rank {rank}");
            }
        }
    }
}

fn missing(open: &[(u32, Vec<u32>)]) -> Vec<(u64, u32, ErrorKind)> {
    let lacking = |ranks: &[u32]| (0..RANKS).filter(|r| !ranks.contains(r)).collect::<Vec<_>>();
    open.iter()
        .flat_map(|(step, ranks)| lacking(ranks).into_iter().map(|r| (u64::from(*step), r, ErrorKind::Torn)))
        .collect()
}

/// Recovers, and compares with the dry run before it.
fn run(memory: &Memory, layout: &Arc<dyn Layout>, state: &State, keep_partial: bool, what: &str) -> Recovery {
    let before = bytes(memory, &state.objects);
    let trial = recover(&**layout, "a.bp", RecoverOptions { dry_run: true, keep_partial, ..RecoverOptions::default() });
    assert_eq!(bytes(memory, &state.objects), before, "{what}: a dry run changes nothing");
    let done = recover(&**layout, "a.bp", RecoverOptions { dry_run: false, keep_partial, ..RecoverOptions::default() });
    let done = done.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(trial.unwrap(), done, "{what}: a dry run says what is done");
    done
}

fn check(layout: &Arc<dyn Layout>, state: &State, kept: bool, what: &str) {
    let reader = crate::writer::open(layout, "a.bp").unwrap_or_else(|e| panic!("{what}: {e}"));
    let status = reader.status();
    assert!(status.finished && status.torn_bytes == 0, "{what}: {status:?}");
    check_steps(&reader, state.closed, RANKS);
    let partial: Vec<_> = status.partial.iter().map(|p| (p.step, p.rank, p.kind)).collect();
    let findings = verify(&**layout, "a.bp").unwrap().findings;
    if kept {
        let steps = state.open.last().map_or(state.closed, |(step, _)| step + 1);
        assert_eq!(status.steps, u64::from(steps), "{what}");
        assert_eq!(partial, missing(&state.open), "{what}");
        open_steps_read(&reader, &state.open, what);
        assert!(findings.iter().all(|f| f.kind == FindingKind::Partial), "{what}: {findings:?}");
    } else {
        assert_eq!((status.steps, partial), (u64::from(state.closed), vec![]), "{what}");
        assert_eq!(findings, [], "{what}");
    }
}

#[test]
fn no_flag_and_no_state_loses_a_process_group_and_the_flag_indexes_them_at_once_or_later() {
    for (i, state) in states().iter().enumerate() {
        let dropped: Vec<u64> = state.open.iter().map(|(step, _)| u64::from(*step)).collect();
        for first_partial in [false, true] {
            let what = format!(
                "state {i}, {}, {} closed, open {:?}, flag {first_partial}",
                state.what, state.closed, state.open
            );
            let (memory, layout) = stored(&state.objects);
            let done = run(&memory, &layout, state, first_partial, &what);
            no_group_is_lost(&state.objects, &memory, &what);
            check(&layout, state, first_partial, &what);
            if first_partial {
                assert!(done.dropped.is_empty(), "{what}: {:?}", done.dropped);
            } else {
                assert_eq!(
                    (done.steps, &done.dropped),
                    (u64::from(state.closed), &dropped),
                    "{what}: {:?}",
                    done.actions
                );
            }
            // The same again does nothing, and still lists what is not indexed.
            let again = run(&memory, &layout, state, first_partial, &what);
            assert!(!again.changed, "{what}: {:?}", again.actions);
            assert_eq!((again.steps, &again.dropped), (done.steps, &done.dropped), "{what}");
            // With the flag after all.
            let later = run(&memory, &layout, state, true, &what);
            assert_eq!(later.changed, !first_partial && !state.open.is_empty(), "{what}: {:?}", later.actions);
            assert!(later.dropped.is_empty(), "{what}: {:?}", later.dropped);
            no_group_is_lost(&state.objects, &memory, &what);
            check(&layout, state, true, &what);
            // And without it: what is indexed stays.
            assert!(!run(&memory, &layout, state, false, &what).changed, "{what}");
            check(&layout, state, true, &what);
        }
    }
}

/// The recovered file with one more step, as a writer that goes on behind it leaves it.
fn append(memory: &Memory, step: u32, run: u64) {
    let mut bytes = memory.read_all("a.bp").unwrap();
    let mut index = Live::find(&bytes).unwrap().load(&bytes).unwrap();
    for mut g in groups(step, RANKS) {
        g.run = run;
        let (more, fragment) = g.encode(bytes.len() as u64, u32::MAX);
        bytes.extend(more);
        index.append_fragment(&fragment.to_fragment()).unwrap();
    }
    bytes.extend(index.encode(bytes.len() as u64, false, true).unwrap().to_bytes());
    memory.write_all("a.bp", &bytes).unwrap();
}

#[test]
fn what_was_left_of_a_step_is_never_mixed_with_the_step_as_it_was_written_anew() {
    use Ending::*;
    for ranks in [vec![0, 2], vec![0, 1, 2]] {
        let mut file = File::default();
        file.step(&groups(0, RANKS), Full);
        let mut open = some(1, &ranks);
        for g in &mut open {
            g.run = 8;
            g.variables[0].bytes.fill(0xee);
        }
        file.step(&open, Open);
        let (memory, layout) = holding(&[("a.bp", &file.bytes)]);
        let done = recover(&*layout, "a.bp", RecoverOptions::default()).unwrap();
        assert_eq!((done.steps, &done.dropped[..]), (1, &[1][..]));
        append(&memory, 1, 9);
        let sound = |what: &str| {
            check_steps(&crate::writer::open(&layout, "a.bp").unwrap(), 2, RANKS);
            assert_eq!(crate::writer::open(&layout, "a.bp").unwrap().blocks("field", 1).unwrap().len(), 3, "{what}");
            assert_eq!(verify(&*layout, "a.bp").unwrap().findings, [], "{what}");
        };
        sound("appended");
        for keep_partial in [false, true] {
            let done =
                recover(&*layout, "a.bp", RecoverOptions { keep_partial, dry_run: false, ..RecoverOptions::default() })
                    .unwrap();
            assert!(!done.changed, "{:?}", done.actions);
            // The later one was not closed either.
            let whole = memory.read_all("a.bp").unwrap();
            memory.write_all("a.bp", &whole[..whole.len() - 20]).unwrap();
            let done =
                recover(&*layout, "a.bp", RecoverOptions { keep_partial, dry_run: false, ..RecoverOptions::default() })
                    .unwrap();
            assert_eq!(done.steps, if keep_partial { 2 } else { 1 });
            recover(
                &*layout,
                "a.bp",
                RecoverOptions { keep_partial: true, dry_run: false, ..RecoverOptions::default() },
            )
            .unwrap();
            sound("recovered");
            // The same from the data alone.
            let end = whole.len() - 28;
            let mut spoiled = whole.clone();
            spoiled[end..].fill(0xff);
            memory.write_all("a.bp", &spoiled).unwrap();
            recover(&*layout, "a.bp", RecoverOptions { keep_partial, dry_run: false, ..RecoverOptions::default() })
                .unwrap();
            sound("recovered from the data");
            memory.write_all("a.bp", &whole).unwrap();
        }
    }
}

#[test]
fn spill_files_of_processes_that_were_killed_are_removed() {
    for path in ["a.bp", "runs/a.bp"] {
        let file = single(&[Ending::Finished], &[], 0).remove(0).1;
        let names: Vec<String> =
            [".spill.0", ".spill.12", ".spill.x", ".spill.", "2.spill.0"].map(|s| format!("{path}{s}")).into();
        let mut all: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"spilled"[..])).collect();
        all.push((path, &file));
        let (memory, layout) = holding(&all);
        let trial =
            recover(&*layout, path, RecoverOptions { dry_run: true, keep_partial: false, ..RecoverOptions::default() })
                .unwrap();
        assert!(names.iter().all(|name| memory.read_all(name).is_ok()));
        let done = recover(&*layout, path, RecoverOptions::default()).unwrap();
        assert_eq!((done.actions.len(), &done), (2, &trial));
        let left: Vec<bool> = names.iter().map(|name| memory.read_all(name).is_ok()).collect();
        assert_eq!(left, [false, false, true, true, true]);
        assert_eq!(memory.read_all(path).unwrap(), file);
    }
}
