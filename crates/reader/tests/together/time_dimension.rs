//! Arrays of ADIOS 1.x with a time dimension, as its own library stores them: a block has one element of it, and the step is
//! what tells which.

use crate::writer::{Ending, File, Group, Variable, header, holding, open};
use thalweg_bp::shape::Shape;
use thalweg_reader::Kind;
use thalweg_types::{BoundingBox, ElementType, Selection};

/// Two ranks, three steps; field is 4 x 3, cut by rows.
fn file(fortran: bool) -> File {
    let mut file = File::default();
    for step in 0..3u32 {
        let groups: Vec<Group> = (0..2u32)
            .map(|rank| {
                let first = 2 * u64::from(rank);
                let values: Vec<f64> = (0..6).map(|i| f64::from(100 * step + 6 * rank + i)).collect();
                let shape = if fortran {
                    Shape::global([3, 2, 1], [3, 4, 0], [0, first, 0])
                } else {
                    Shape::global([1, 2, 3], [4, 3, 0], [first, 0, 0])
                };
                let mut header = header("g", step);
                header.fortran = fortran;
                let variables = vec![Variable::array("field", ElementType::F64, shape, &values)];
                Group { header, variables, rank, ranks: 2, run: 7, ..Group::default() }
            })
            .collect();
        file.step(&groups, if step == 2 { Ending::Finished } else { Ending::Record });
    }
    file
}

#[test]
fn a_time_dimension_is_no_dimension_of_the_array() {
    for fortran in [false, true] {
        let (_, layout) = holding(&[("a.bp", &file(fortran).bytes)]);
        let reader = open(&layout, "a.bp").unwrap();
        let field = reader.variable("field").unwrap();
        assert_eq!((field.kind, &field.shape[..], field.shape_changes), (Kind::Global, &[4, 3][..], false));
        for step in 0..3u32 {
            let at = u64::from(step);
            assert_eq!(reader.shape("field", at).unwrap(), [4, 3]);
            let block = &reader.blocks("field", at).unwrap()[1];
            assert_eq!((&block.offset[..], &block.count[..]), (&[2, 0][..], &[2, 3][..]));
            let all: Vec<f64> = reader.read_as("field", at, &Selection::All).unwrap();
            assert_eq!(all, (0..12).map(|i| f64::from(100 * step + i)).collect::<Vec<_>>());
            let part = Selection::Box(BoundingBox { offset: vec![1, 1], count: vec![2, 1] });
            let part: Vec<f64> = reader.read_as("field", at, &part).unwrap();
            assert_eq!(part, [4.0, 7.0].map(|v| v + f64::from(100 * step)));
        }
    }
}
