//! The plan of an HDF5 view names each element that was written, once and at its byte, and that of a conversion each one that is chosen:
//! any decomposition, with holes, steps, subfiles, and dimensions in Fortran's order.

use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_choice::{Choice, Pattern, Region, Steps};
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::Posix;
use thalweg_views::Chosen;
use thalweg_views::hdf5::{self, Conversion, Dataset, Elements, Kind, Plan};

/// An array of up to four axes, cut along each of them; a rank for each block.
#[derive(Debug, Clone)]
struct Cut {
    /// Lengths of parts, for each axis.
    parts: Vec<Vec<u64>>,
    /// Blocks that no rank writes, by number.
    holes: Vec<bool>,
    steps: u64,
    method: &'static str,
    is_fortran: bool,
    /// Text in front of the blocks, so that they begin at any byte.
    before: usize,
}

impl Cut {
    fn shape(&self) -> Vec<u64> {
        self.parts.iter().map(|parts| parts.iter().sum()).collect()
    }

    /// Offset and count of each block.
    fn blocks(&self) -> Vec<(Vec<u64>, Vec<u64>)> {
        let mut all = vec![(Vec::new(), Vec::new())];
        for parts in &self.parts {
            let mut longer = Vec::new();
            for (offset, count) in &all {
                let mut begin = 0;
                for length in parts {
                    let (mut offset, mut count): (Vec<u64>, Vec<u64>) = (offset.clone(), count.clone());
                    offset.push(begin);
                    count.push(*length);
                    begin += length;
                    longer.push((offset, count));
                }
            }
            all = longer;
        }
        all
    }

    fn xml(&self) -> String {
        let axes = self.parts.len();
        let list = |letter: &str| {
            let mut names: Vec<String> = (0..axes).map(|axis| format!("{letter}{axis}")).collect();
            if self.is_fortran {
                names.reverse();
            }
            names.join(",")
        };
        let scalars: String = (0..axes)
            .flat_map(|axis| ["g", "o", "n"].map(|letter| format!("<var name=\"{letter}{axis}\" type=\"integer\"/>")))
            .collect();
        let language = if self.is_fortran { "Fortran" } else { "C" };
        let (whole, first, count) = (list("g"), list("o"), list("n"));
        format!(
            "<adios-config host-language=\"{language}\"><adios-group name=\"g\">{scalars}<var name=\"text\" type=\"string\"/>\
             <global-bounds dimensions=\"{whole}\" offsets=\"{first}\"><var name=\"v\" type=\"double\" dimensions=\"{count}\"/>\
             <var name=\"k\" type=\"integer\" dimensions=\"{count}\"/></global-bounds></adios-group>\
             <method group=\"g\" method=\"{}\"/></adios-config>",
            self.method
        )
    }
}

fn cut() -> impl Strategy<Value = Cut> {
    let parts = prop::collection::vec(prop::collection::vec(1u64..4, 1..3), 1..5);
    (
        parts,
        prop::collection::vec(prop::bool::weighted(0.2), 16),
        1u64..4,
        prop::sample::select(vec!["MPI", "POSIX"]),
        any::<bool>(),
        0usize..8,
    )
        .prop_map(|(parts, holes, steps, method, is_fortran, before)| Cut {
            parts,
            holes,
            steps,
            method,
            is_fortran,
            before,
        })
}

/// Indexes of a box's elements, slowest axis first.
fn elements(offset: &[u64], count: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for (begin, length) in offset.iter().zip(count) {
        all = all
            .iter()
            .flat_map(|one: &Vec<u64>| (*begin..begin + length).map(move |at| [&one[..], &[at]].concat()))
            .collect();
    }
    all
}

/// The value of an element.
fn value(step: u64, index: &[u64]) -> i32 {
    index.iter().fold(step as i32 + 1, |sum, at| sum * 16 + *at as i32)
}

fn written(cut: &Cut, folder: &Scratch) -> Reader {
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Posix::at(folder.path()).unwrap())).unwrap());
    let schema = thalweg_schema::xml::parse(&cut.xml(), "g.xml").unwrap();
    let blocks = cut.blocks();
    threads::run(blocks.len() as u32, |comm| {
        let rank = comm.rank() as usize;
        let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
        for step in 0..cut.steps {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            let (offset, count) = &blocks[rank];
            for (axis, whole) in cut.shape().iter().enumerate() {
                for (letter, number) in [("g", *whole), ("o", offset[axis]), ("n", count[axis])] {
                    output.write_values(&format!("{letter}{axis}"), &[number as i32]).unwrap();
                }
            }
            output.write("text", &vec![b'x'; cut.before + 1]).unwrap();
            if !cut.holes[rank] {
                let values: Vec<i32> = elements(offset, count).iter().map(|index| value(step, index)).collect();
                output.write_values("v", &values.iter().map(|one| f64::from(*one)).collect::<Vec<f64>>()).unwrap();
                output.write_values("k", &values).unwrap();
            }
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
    Reader::open(layout, "x.bp").unwrap()
}

/// The elements that the plan has for a dataset, read from the files as HDF5 would.
fn read(plan: &Plan, dataset: &Dataset) -> Vec<(Vec<u64>, f64)> {
    let files: Vec<Vec<u8>> = plan.files.iter().map(|name| std::fs::read(name).unwrap()).collect();
    let size = dataset.kind.size() as usize;
    let number = |file: usize, at: u64| {
        let bytes = &files[file][at as usize..at as usize + size];
        match dataset.kind {
            Kind::Real(8, false) => f64::from_le_bytes(bytes.try_into().unwrap()),
            Kind::Integer(4, true, false) => f64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
            other => panic!("{other:?}"),
        }
    };
    let mut all = Vec::new();
    match &dataset.content {
        Elements::Missing => {}
        Elements::Block(place) => {
            for (n, index) in (0..).zip(elements(&vec![0; dataset.shape.len()], &dataset.shape)) {
                all.push((index, number(place.file, place.offset + n * size as u64)));
            }
        }
        Elements::Boxes(runs) => {
            for run in runs {
                let source = &plan.sources[run.source];
                assert_eq!(source.kind, dataset.kind);
                for time in 0..run.times {
                    let mut offset = run.offset.clone();
                    if time > 0 {
                        offset[0] += time * run.every;
                    }
                    for (n, index) in (0..).zip(elements(&offset, &run.count)) {
                        let element = run.first + time * run.stride + n;
                        assert!(element < source.elements, "{run:?} ends behind {source:?}");
                        all.push((index, number(source.file, source.phase + element * size as u64)));
                    }
                }
            }
        }
        Elements::Values(_) | Elements::Rows(_) => panic!("{:?}", dataset.content),
        Elements::Read { .. } => panic!("a view reads nothing"),
    }
    all
}

/// The elements that a plan of a conversion has for a dataset, read from the file.
fn converted(reader: &Reader, dataset: &Dataset) -> Vec<(Vec<u64>, f64)> {
    let Elements::Read { variable, parts, .. } = &dataset.content else { return Vec::new() };
    let number = |bytes: &[u8]| match dataset.kind {
        Kind::Real(..) => f64::from_ne_bytes(bytes.try_into().unwrap()),
        _ => f64::from(i32::from_ne_bytes(bytes.try_into().unwrap())),
    };
    let part = |part: &thalweg_views::chosen::Read| {
        let bytes = reader.read_to_vec(variable, part.step, &part.from).unwrap();
        let values: Vec<f64> = bytes.chunks(dataset.kind.size() as usize).map(number).collect();
        let indexes = elements(&part.bounds.offset, &part.bounds.count);
        assert_eq!(indexes.len(), values.len());
        indexes.into_iter().zip(values)
    };
    parts.iter().flat_map(part).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_plan_has_each_element_once_and_with_its_value(cut in cut()) {
        let folder = Scratch::new();
        let reader = written(&cut, &folder);
        let view = hdf5::view(&reader).unwrap();
        prop_assert_eq!(&view.left_out.iter().filter(|left| left.why != "it has no blocks").collect::<Vec<_>>(), &Vec::<&thalweg_views::LeftOut>::new());
        let mut wanted: HashMap<Vec<u64>, f64> = HashMap::new();
        let blocks: Vec<_> = cut.blocks().into_iter().zip(&cut.holes).filter(|(_, is_hole)| !**is_hole).collect();
        for step in 0..cut.steps {
            for ((offset, count), _) in &blocks {
                for index in elements(offset, count) {
                    wanted.insert([&[step], &index[..]].concat(), f64::from(value(step, &index)));
                }
            }
        }
        for name in ["v", "k"] {
            let Some(dataset) = view.plan.datasets.iter().find(|dataset| dataset.name == name) else {
                prop_assert!(blocks.is_empty(), "{} is missing", name);
                continue;
            };
            prop_assert_eq!(&dataset.shape, &[&[cut.steps], &cut.shape()[..]].concat());
            let found = read(&view.plan, dataset);
            prop_assert_eq!(found.len(), wanted.len());
            prop_assert_eq!(&found.into_iter().collect::<HashMap<_, _>>(), &wanted);
        }
    }

    #[test]
    fn a_conversion_has_each_chosen_element_once_and_with_its_value(
        cut in cut(), ranges in prop::collection::vec((0u64..4, 1u64..8, 1u64..4), 4), first in 0u64..3, stride in 1u64..3, most in 8u64..200,
    ) {
        let folder = Scratch::new();
        let reader = written(&cut, &folder);
        let shape = cut.shape();
        let text: Vec<String> =
            ranges[..shape.len()].iter().map(|(from, length, s)| format!("{from}:{}:{s}", from + length)).collect();
        let region = Region::parse(&text.join(",")).unwrap();
        let lattice = region.of(&shape).unwrap();
        let steps = Steps { first, end: u64::MAX, stride };
        let choice = Choice { steps, regions: vec![(Pattern::parse("v").unwrap(), region)], ..Choice::default() };
        let view = hdf5::converted(&reader, Conversion { chosen: Chosen { choice: &choice, most }, chunks: &[] }).unwrap();
        let chosen: Vec<u64> = (0..cut.steps).filter(|step| steps.contain(*step)).collect();
        let blocks: Vec<_> = cut.blocks().into_iter().zip(&cut.holes).filter(|(_, is_hole)| !**is_hole).collect();
        for (name, has_region) in [("v", true), ("k", false)] {
            let Some(dataset) = view.plan.datasets.iter().find(|dataset| dataset.name == name) else {
                prop_assert!(blocks.is_empty() || chosen.is_empty(), "{} is missing", name);
                continue;
            };
            let mut wanted: HashMap<Vec<u64>, f64> = HashMap::new();
            for (position, step) in (0..).zip(&chosen) {
                for index in blocks.iter().flat_map(|((offset, count), _)| elements(offset, count)) {
                    let along = |axis: usize| match has_region {
                        false => Some(index[axis]),
                        true => {
                            let from = index[axis].checked_sub(lattice.start[axis])?;
                            let at = from / lattice.stride[axis];
                            (from % lattice.stride[axis] == 0 && at < lattice.count[axis]).then_some(at)
                        }
                    };
                    if let Some(at) = (0..shape.len()).map(along).collect::<Option<Vec<u64>>>() {
                        wanted.insert([&[position], &at[..]].concat(), f64::from(value(*step, &index)));
                    }
                }
            }
            let extents = if has_region { &lattice.count } else { &shape };
            // Of one step among several that were written, no axis is left.
            let wanted: HashMap<Vec<u64>, f64> = match dataset.is_unlimited {
                true => wanted,
                false => wanted.into_iter().map(|(index, value)| (index[1..].to_vec(), value)).collect(),
            };
            prop_assert_eq!(&dataset.shape[usize::from(dataset.is_unlimited)..], &extents[..]);
            let found = converted(&reader, dataset);
            prop_assert_eq!(found.len(), wanted.len());
            prop_assert_eq!(&found.into_iter().collect::<HashMap<_, _>>(), &wanted);
        }
    }
}
