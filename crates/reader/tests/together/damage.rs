//! A byte that changes is found by `verify`, or no reader uses it; and nothing panics, whatever the bytes.

use crate::writer::{Ending, File, Subfiles, check_steps, groups, holding};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use thalweg_layout::Layout;
use thalweg_reader::{FindingKind, Reader, RecoverOptions, index_only, live_extents, recover, verify};
use thalweg_store::StoreExt;
use thalweg_types::{BoundingBox, Selection};

/// Everything a reader can be asked; outcomes don't matter, panics do.
fn ask_everything(layout: &Arc<dyn Layout>, path: &str) {
    let Ok(reader) = Reader::open(layout.clone(), path) else { return };
    let _ = (reader.process_groups(), index_only(&**layout, path));
    for head in reader.attributes() {
        let _ = reader.attribute(&head.name);
    }
    for head in reader.variables() {
        let Ok(v) = reader.variable(&head.name) else { continue };
        let _ = reader.summary(&head.name, 0..u64::MAX);
        for step in v.steps.iter().copied().take(3) {
            let shape = reader.shape(&head.name, step).unwrap_or_default();
            let _ = (reader.value(&head.name, step), reader.read_to_vec(&head.name, step, &Selection::All));
            let corner = BoundingBox::new(vec![0; shape.len()], vec![1; shape.len()]);
            let _ = reader.read_to_vec(&head.name, step, &Selection::Box(corner));
            let _ = reader.read_to_vec(&head.name, step, &Selection::Points(vec![vec![0; shape.len()]]));
            for block in reader.blocks(&head.name, step).unwrap_or_default().iter().take(3) {
                let _ = reader.writer(block);
                let _ = reader.read_to_vec(&head.name, step, &Selection::Block(block.number));
            }
        }
    }
}

/// Changes bytes of every object in turn. Returns how many changes hit bytes that are used, and how many did not.
fn change_bytes(objects: &[(String, Vec<u8>)], path: &str, every: usize, steps: u32, ranks: u32) -> (u32, u32) {
    let hold = |changed: Option<(usize, &[u8])>| {
        let all: Vec<(&str, &[u8])> = objects
            .iter()
            .enumerate()
            .map(|(i, (n, b))| (n.as_str(), changed.filter(|(c, _)| *c == i).map_or(b.as_slice(), |(_, b)| b)))
            .collect();
        holding(&all)
    };
    let (_, layout) = hold(None);
    assert_eq!(verify(&*layout, path).unwrap().findings, []);
    let live = live_extents(&*layout, path).unwrap();
    let (mut used, mut unused) = (0, 0);
    for (i, (name, bytes)) in objects.iter().enumerate() {
        let extents = &live.iter().find(|(n, _)| n == name).unwrap().1;
        for at in (0..bytes.len()).step_by(every) {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << ((at / every) % 8);
            let (memory, layout) = hold(Some((i, &bad)));
            let found = verify(&*layout, path).map(|r| r.findings);
            if extents.iter().any(|e| e.offset <= at as u64 && (at as u64) < e.end().unwrap()) {
                assert!(!found.is_ok_and(|f| f.is_empty()), "{name}: a change of byte {at} is not found");
                used += 1;
            } else {
                assert_eq!(found.unwrap(), [], "{name}: a change of byte {at}, which nobody uses");
                check_steps(&Reader::open(layout.clone(), path).unwrap(), steps, ranks);
                unused += 1;
            }
            if at % (5 * every) == 0 {
                ask_everything(&layout, path);
                let _ = recover(
                    &*layout,
                    path,
                    RecoverOptions { keep_partial: at % 2 == 0, dry_run: false, ..RecoverOptions::default() },
                );
                ask_everything(&layout, path);
                drop(memory);
            }
        }
    }
    (used, unused)
}

#[test]
fn every_changed_byte_of_a_single_file_is_found_or_unused() {
    use Ending::*;
    for endings in [&[Full, Record, Full, Finished][..], &[Full, Full, Record, Record]] {
        let mut file = File::default();
        endings.iter().enumerate().for_each(|(step, e)| file.step(&groups(step as u32, 2), *e));
        let (used, unused) = change_bytes(&[("a.bp".into(), file.bytes)], "a.bp", 5, 4, 2);
        assert!(used > 1000 && unused > 100, "{used}, {unused}");
    }
}

#[test]
fn every_changed_byte_of_subfiles_is_found_or_unused() {
    use Ending::*;
    let mut files = Subfiles::default();
    [Full, Record, Finished].iter().enumerate().for_each(|(step, e)| files.step(&groups(step as u32, 2), *e));
    let (used, unused) = change_bytes(&files.objects("a.bp"), "a.bp", 5, 3, 2);
    assert!(used > 1000 && unused > 100, "{used}, {unused}");
}

#[test]
fn a_changed_payload_is_named_by_variable_step_and_byte() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    file.step(&groups(1, 2), Ending::Finished);
    let (memory, layout) = holding(&[("a.bp", &file.bytes)]);
    let reader = Reader::open(layout.clone(), "a.bp").unwrap();
    let payload = reader.blocks("wave", 1).unwrap()[1].payload;
    file.bytes[payload.offset as usize + 5] ^= 4;
    memory.write_all("a.bp", &file.bytes).unwrap();
    let findings = verify(&*layout, "a.bp").unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    let f = &findings[0];
    assert_eq!((f.kind, f.byte, f.step), (FindingKind::Checksum, Some(payload.offset), Some(1)));
    assert_eq!((f.variable.as_deref(), &*f.object), (Some("wave"), "a.bp"));
}

#[test]
fn blocks_that_do_not_fit_together_are_found() {
    use thalweg_bp::shape::Shape;
    use thalweg_types::ElementType;
    let block = |shape: Shape| crate::writer::Variable::array("a", ElementType::U8, shape, &[0u8; 4]);
    let cases = [
        (Shape::global([4], [8], [0]), Shape::global([4], [8], [4]), vec![]),
        (Shape::global([4], [8], [0]), Shape::global([4], [8], [3]), vec![FindingKind::Overlap]),
        (Shape::global([4], [9], [0]), Shape::global([4], [9], [5]), vec![FindingKind::Gap]),
        (Shape::global([4], [8], [0]), Shape::global([4], [9], [4]), vec![FindingKind::Shape]),
        (
            Shape::global([4], [8], [4]),
            Shape::global([4], [8], [5]),
            vec![FindingKind::OutOfBounds, FindingKind::Overlap],
        ),
    ];
    for (first, second, wanted) in cases {
        let group = |rank, shape| crate::writer::Group {
            header: crate::writer::header("g", 0),
            variables: vec![block(shape)],
            rank,
            ranks: 2,
            ..Default::default()
        };
        let mut file = File::default();
        file.step(&[group(0, first), group(1, second)], Ending::Finished);
        let (_, layout) = holding(&[("a.bp", &file.bytes)]);
        let kinds: Vec<_> = verify(&*layout, "a.bp").unwrap().findings.iter().map(|f| f.kind).collect();
        assert_eq!(kinds, wanted);
    }
}

#[test]
fn an_index_that_says_other_than_the_data_is_found() {
    let mut file = File::default();
    let all = groups(0, 2);
    file.step(&all, Ending::Open);
    // The index of the same groups as if rank 1 had written another value.
    let mut lie = all.clone();
    lie[1].variables[1] = crate::writer::Variable::scalar("step", &thalweg_types::Value::I32(99));
    let mut at = 0;
    for g in &lie {
        let (bytes, fragment) = g.encode(at, u32::MAX);
        file.index.append_fragment(&fragment.to_fragment()).unwrap();
        at += bytes.len() as u64;
    }
    let index = file.index.encode(at, false, true).unwrap().to_bytes();
    file.bytes.extend(index);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let findings = verify(&*layout, "a.bp").unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].kind, findings[0].variable.as_deref()), (FindingKind::IndexDiffers, Some("step")));
}

fn fixtures() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    [
        "adios1-ranks.bp",
        "adios1-transforms.bp",
        "encoded-big-01.bp",
        "adios2-blocks.bp",
        "adios1-xml.bp",
        "adios1-compressed.bp",
    ]
    .iter()
    .map(|n| std::fs::read(folder.join(n)).unwrap())
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_change_to_a_foreign_file_makes_anything_panic(
        which in 0usize..6,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        near_the_end in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = fixtures().swap_remove(which);
        let length = bytes.len();
        for (at, value) in changes {
            let at = at.index(length);
            bytes[if near_the_end { length - 1 - at % (length / 4) } else { at }] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(length));
        }
        let (_, layout) = holding(&[("a.bp", &bytes)]);
        ask_everything(&layout, "a.bp");
        let _ = (verify(&*layout, "a.bp"), live_extents(&*layout, "a.bp"));
        let _ = recover(&*layout, "a.bp", RecoverOptions::default());
        ask_everything(&layout, "a.bp");
    }
}
