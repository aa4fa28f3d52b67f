//! Differences of files are found where they are, and nowhere else.

use std::sync::Arc;
use thalweg_comm::alone::Alone;
use thalweg_conformance::round_trip::{self, WriteSetup, everything, in_memory};
use thalweg_diff::{Difference, Options, Side, Summary, Tolerance, diff};
use thalweg_io::{BlockBox, Mode, Session, WriteRequest};
use thalweg_layout::Layout;
use thalweg_reader::Reader;
use thalweg_schema::HostLanguage;
use thalweg_types::Value;

fn open(layout: &Arc<dyn Layout>, path: &str) -> Reader {
    Reader::open(layout.clone(), path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn differences(a: &Reader, b: &Reader, tolerance: Tolerance, memory: u64) -> (Summary, Vec<Difference>) {
    let mut found = Vec::new();
    let options = Options { names: &|_| true, tolerance, attributes: true, memory };
    let summary = diff(a, b, &options, &mut |difference| {
        found.push(difference);
        Ok(())
    });
    (summary.unwrap(), found)
}

#[test]
fn a_file_of_everything_equals_itself_written_by_another_method_with_another_division() {
    let layout = in_memory();
    let scenario = everything::scenario(3, 3, HostLanguage::C);
    for (path, method) in [("a.bp", "MPI"), ("b.bp", "POSIX")] {
        round_trip::write(&layout, path, &scenario, &WriteSetup::of(method), &|_| ());
    }
    for memory in [600, 1 << 20] {
        let (summary, found) =
            differences(&open(&layout, "a.bp"), &open(&layout, "b.bp"), Tolerance::default(), memory);
        assert_eq!(found, []);
        assert!(summary.is_equal() && summary.variables > 20 && summary.attributes > 5, "{summary:?}");
    }
}

/// A 20 x 30 array in blocks of so many rows, with these changes; a scalar, a text, a local array and an attribute.
fn write(layout: &Arc<dyn Layout>, path: &str, rows: u64, changes: &[(u64, u64, f64)], others: &[&str]) {
    let unit = if others.contains(&"unit") { "C" } else { "K" };
    let xml = format!(
        r#"<adios-config host-language="C"><adios-group name="g"><var name="n" type="long"/><var name="word" type="string"/>
             <global-bounds dimensions="20,30" offsets="0,0"><var name="u" type="double" dimensions="1,30"/></global-bounds>
             <var name="local" type="integer" dimensions="n"/><attribute name="unit" value="{unit}"/>
           </adios-group><method group="g" method="MPI"/></adios-config>"#
    );
    let schema = thalweg_schema::xml::parse(&xml, "g.xml").unwrap();
    let session = Session::with_layout(schema, layout.clone(), Box::new(Alone::new())).unwrap();
    for step in 0..2u64 {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("g", path, mode, Box::new(Alone::new())).unwrap();
        output.write_values("n", &[if others.contains(&"local") { 4i64 } else { 3 }]).unwrap();
        output.write("word", if others.contains(&"word") { b"other" } else { b"water" }).unwrap();
        output.write_values("local", &[1, 2, 3, 4][..if others.contains(&"local") { 4 } else { 3 }]).unwrap();
        let end = if others.contains(&"hole") { 18 } else { 20 };
        let mut from = 0;
        while from < end {
            let count = rows.min(end - from);
            let mut values: Vec<f64> = (from * 30..(from + count) * 30).map(|i| i as f64).collect();
            for (_, at, value) in changes.iter().filter(|change| change.0 == step) {
                if (from * 30..(from + count) * 30).contains(at) {
                    values[(at - from * 30) as usize] = *value;
                }
            }
            let place = BlockBox { count: vec![count, 30], shape: Some(vec![20, 30]), offset: Some(vec![from, 0]) };
            output.put(WriteRequest::new("u", bytemuck::cast_slice(&values)).in_box(place)).unwrap();
            from += count;
        }
        output.close().unwrap();
    }
    session.finalize().unwrap();
}

#[test]
fn the_largest_difference_is_told_with_its_place_however_little_memory_there_is() {
    let layout = in_memory();
    write(&layout, "a.bp", 20, &[], &[]);
    write(&layout, "b.bp", 3, &[(1, 100, 100.5), (1, 599, 590.0), (1, 7, f64::NAN)], &[]);
    let (a, b) = (open(&layout, "a.bp"), open(&layout, "b.bp"));
    for memory in [1 << 20, 16 * 30 * 3, 16 * 7, 1] {
        let (summary, found) = differences(&a, &b, Tolerance::default(), memory);
        assert_eq!((summary.differing, found.len()), (1, 1), "{memory} bytes: {found:?}");
        let Difference::Values { name, step, differing, elements, largest, place } = &found[0] else {
            panic!("{found:?}")
        };
        assert_eq!((name.as_str(), step, differing, elements), ("u", &1, &3, &600));
        assert_eq!((*largest, place.index.as_slice()), (Some(f64::INFINITY), &[0, 7][..]));
    }
    write(&layout, "c.bp", 3, &[(1, 100, 100.5), (1, 599, 590.0)], &[]);
    for memory in [1 << 20, 16 * 30 * 3, 1] {
        let (_, found) = differences(&a, &open(&layout, "c.bp"), Tolerance { absolute: 0.5, relative: 0.0 }, memory);
        let Difference::Values { differing, largest, place, .. } = &found[0] else { panic!("{found:?}") };
        assert_eq!((*differing, *largest, place.index.as_slice()), (1, Some(9.0), &[19, 29][..]), "{memory} bytes");
        assert_eq!(place.values, (Value::F64(599.0), Value::F64(590.0)));
    }
}

#[test]
fn each_sort_of_difference_is_told() {
    let layout = in_memory();
    write(&layout, "a.bp", 20, &[], &[]);
    let of = |others: &[&str]| {
        write(&layout, "b.bp", 4, &[], others);
        differences(&open(&layout, "a.bp"), &open(&layout, "b.bp"), Tolerance::default(), 1 << 20)
    };
    let (summary, found) = of(&["word"]);
    assert_eq!((summary.differing, found.len()), (1, 2));
    assert!(matches!(&found[0], Difference::Values { name, largest: None, .. } if name == "word"), "{found:?}");
    let (summary, found) = of(&["unit"]);
    assert_eq!((summary.differing, summary.differing_attributes, found.len()), (0, 1, 1));
    let (_, found) = of(&["local"]);
    assert!(found.iter().any(|d| matches!(d, Difference::Shape { name, .. } if name == "local")), "{found:?}");
    assert!(found.iter().any(|d| matches!(d, Difference::Values { name, .. } if name == "n")), "{found:?}");
    let (_, found) = of(&["hole"]);
    assert!(found.iter().any(|d| matches!(d, Difference::Coverage { covered: (600, 540), .. })), "{found:?}");
    let (_, found) = differences(
        &open(&layout, "a.bp"),
        &{
            let scenario = everything::scenario(1, 1, HostLanguage::C);
            round_trip::write(&layout, "e.bp", &scenario, &WriteSetup::of("MPI"), &|_| ());
            open(&layout, "e.bp")
        },
        Tolerance::default(),
        1 << 20,
    );
    let only =
        |side| found.iter().filter(|d| matches!(d, Difference::Variable { only_in, .. } if *only_in == side)).count();
    assert!(only(Side::A) > 0 && only(Side::B) > 10, "{found:?}");
}
