//! What a file gets of the blocks that all ranks have written in one step. Pure.
//!
//! | written | in the file |
//! |---|---|
//! | global array | an array of its name, in HDF5 with the axis of steps first |
//! | local array of one block | likewise |
//! | local array of several blocks | `NAME/step_S/block_N`, one for each block, by rank |
//! | scalar, text | a value of its name, that of the first rank that wrote it |
//! | attribute | an attribute of the array, or of the file |
//!
//! These are the names that `thalweg convert` gives. What a file cannot hold is refused.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use thalweg_bp::shape::Shape;
use thalweg_movement::pack::BlockSpec;
use thalweg_reader::variable;
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, ElementType, Error, ErrorKind, Result, Value};
use thalweg_views::arrays::{AXES, names_of_axes, unnamed};
use thalweg_views::boxes;
use thalweg_views::hdf5::{Attribute, Kind, Values};

/// A step as the file gets it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Its number, from 0.
    pub step: u64,
    /// Attributes of the file.
    pub attributes: Vec<Attribute>,
    /// The arrays, whose values the ranks write.
    pub arrays: Vec<Array>,
    /// Single values, one for each step.
    pub values: Vec<Single>,
}

/// An array of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// Full name, without a slash at its begin.
    pub name: String,
    /// Type of the elements.
    pub kind: Kind,
    /// Extents, slowest axis first, without the axis of steps.
    pub shape: Vec<u64>,
    /// Whether it has an axis of steps; else it is of this step alone.
    pub has_steps: bool,
    /// Names of its axes; `None`: they have none.
    pub axes: Option<Vec<String>>,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// A single value of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Single {
    /// Full name, without a slash at its begin.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// The value.
    pub value: Values,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// What files of a format cannot have.
#[derive(Debug)]
pub struct Rules {
    /// Its name in errors.
    pub format: &'static str,
    /// Whether it has no such name of a variable or a part of a path.
    pub is_no_name: fn(&str) -> bool,
    /// The largest number of axes, with that of steps.
    pub axes: usize,
    /// Parts of names are groups: no variable lies below another one.
    pub has_groups: bool,
    /// The attributes that it has, by the last part of their names; `None`: all.
    pub attributes: Option<&'static [&'static str]>,
}

/// A block as rank 0 needs to know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Full name, without a slash at its begin.
    pub name: String,
    /// [`ElementType::code`].
    pub element: u8,
    /// Extents of the block, slowest axis first.
    pub count: Vec<u64>,
    /// Extents of the global array; `None`: it is local, or a single value.
    pub shape: Option<Vec<u64>>,
    /// First element in the global array.
    pub offset: Vec<u64>,
    /// The value of a scalar or text.
    pub value: Option<Values>,
    /// Others use it as a dimension: ranks may have different values.
    pub is_dimension: bool,
}

impl Block {
    /// Describes a block.
    ///
    /// - `fortran`: shapes list the fastest axis first.
    ///
    /// # Errors
    /// `Unsupported` for a text with a byte 0.
    pub fn of(spec: &BlockSpec, fortran: bool, rules: &Rules) -> Result<Block> {
        let turned = |extents: &[u64]| match fortran {
            true => extents.iter().rev().copied().collect(),
            false => extents.to_vec(),
        };
        let name = full_name(&spec.path, &spec.name);
        let value = match &spec.value {
            Some(value) => {
                let lost = || refused(format!("texts of {} contain no byte 0", rules.format)).in_variable(&*name);
                Some(Values::of(spec.element, std::slice::from_ref(value)).ok_or_else(lost)?)
            }
            None => None,
        };
        let (count, shape, offset) = match &spec.shape {
            None => (Vec::new(), None, Vec::new()),
            Some(shape) => {
                let Shape { local, global, offset } = shape;
                (turned(local), shape.is_global().then(|| turned(global)), turned(offset))
            }
        };
        let (element, is_dimension) = (spec.element.code(), spec.is_dimension);
        Ok(Block { name, element, count, shape, offset, value, is_dimension })
    }

    fn is_single(&self) -> bool {
        self.value.is_some() || self.count.is_empty()
    }
}

/// A path and a name, without slashes at the ends.
fn full_name(path: &str, name: &str) -> String {
    variable::full_name(path, name).trim_matches('/').to_string()
}

/// Attributes by their full names.
pub type Attributes = Vec<(String, AttributeValue)>;

/// A step, and what of it ranks need to know.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Planned {
    /// The step.
    pub content: Content,
    /// For each rank and each of its blocks the array that it is a part of; `None` for single values.
    pub arrays: Vec<Vec<Option<usize>>>,
    /// Whether elements of an array are in no block, for each array.
    pub have_holes: Vec<bool>,
    /// Bytes of all blocks.
    pub bytes: u64,
    /// What is not kept, with the reason.
    pub left_out: Vec<(String, String)>,
}

fn refused(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, what.into())
}

/// The step that all ranks have written.
///
/// - `ranks`: the blocks of each; `attributes`: those of the group by their full names; `step`: from 0.
///
/// # Errors
/// `Unsupported` for what no file of the format can hold, `InvalidArgument` for blocks that contradict each other; both name the variable.
pub fn planned(
    ranks: &[Vec<Block>],
    attributes: &[(String, AttributeValue)],
    step: u64,
    rules: &Rules,
) -> Result<Planned> {
    let mut order: Vec<&str> = Vec::new();
    let mut written: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
    for (rank, blocks) in ranks.iter().enumerate() {
        for (number, block) in blocks.iter().enumerate() {
            let all = written.entry(&block.name).or_default();
            if all.is_empty() {
                order.push(&block.name);
            }
            all.push((rank, number));
        }
    }
    let mut made =
        Planned { arrays: ranks.iter().map(|blocks| vec![None; blocks.len()]).collect(), ..Planned::default() };
    made.content.step = step;
    let mut of_variables: HashMap<&str, Vec<(&str, &AttributeValue)>> = HashMap::new();
    let is_had = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        rules.attributes.is_none_or(|all| all.contains(&last))
    };
    for (name, value) in attributes.iter().filter(|(name, _)| is_had(name)) {
        match name.rsplit_once('/').filter(|(variable, _)| written.contains_key(variable)) {
            Some((variable, key)) => of_variables.entry(variable).or_default().push((key, value)),
            None => {
                let own = made.attributes_of(name, [(name.as_str(), value)], None);
                made.content.attributes.extend(own);
            }
        }
    }
    for name in order {
        let own = of_variables.remove(name).unwrap_or_default();
        made.add(rules, ranks, name, &written[name], own).map_err(|e| e.in_variable(name))?;
        let mut above = name.match_indices('/').map(|(at, _)| &name[..at]);
        if let Some(above) = above.find(|above| rules.has_groups && written.contains_key(above)) {
            return Err(refused(format!("its name lies below that of the variable {above}")).in_variable(name));
        }
    }
    Ok(made)
}

impl Planned {
    /// The attributes that a file can have.
    fn attributes_of<'a>(
        &mut self,
        of: &str,
        all: impl IntoIterator<Item = (&'a str, &'a AttributeValue)>,
        element: Option<ElementType>,
    ) -> Vec<Attribute> {
        let mut made = Vec::new();
        for (key, value) in all {
            match Attribute::of(key, value, element) {
                Ok(attribute) => made.push(attribute),
                Err(why) => self.left_out.push((format!("{of}/{key}"), why.to_string())),
            }
        }
        made
    }

    /// Adds a variable, which these blocks are of.
    fn add(
        &mut self,
        rules: &Rules,
        ranks: &[Vec<Block>],
        name: &str,
        blocks: &[(usize, usize)],
        attributes: Vec<(&str, &AttributeValue)>,
    ) -> Result<()> {
        let block = |(rank, number): (usize, usize)| &ranks[rank][number];
        let Some(first) = blocks.first().map(|place| block(*place)) else { return Ok(()) };
        let element = ElementType::from_code(first.element)
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a type that is not known"))?;
        let kind = Kind::of(element, ByteOrder::NATIVE)
            .ok_or_else(|| refused(format!("programs of {} have no type for {}", rules.format, element.name())))?;
        if name.split('/').any(rules.is_no_name) {
            return Err(refused(format!("{} has no such name", rules.format)));
        }
        if let Some(other) = blocks.iter().find(|place| block(**place).element != first.element) {
            let what = format!("ranks {} and {} write it as different types", blocks[0].0, other.0);
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let wanted = attributes.iter().find(|(key, _)| *key == AXES).and_then(|(_, value)| names_of_axes(value));
        let own = attributes.into_iter().filter(|(key, _)| *key != AXES);
        let attributes = self.attributes_of(name, own, Some(element));
        if first.is_single() {
            return self.single(name, kind, blocks.iter().map(|place| block(*place)), attributes);
        }
        if kind == Kind::Text {
            return Err(refused("arrays of texts"));
        }
        let axes = |shape: &[u64]| {
            let named = wanted.clone().filter(|names| names.len() == shape.len());
            Some(named.unwrap_or_else(|| unnamed(shape.len())))
        };
        for place in blocks {
            let elements = block(*place).count.iter().try_fold(kind.size(), |all, extent| all.checked_mul(*extent));
            let bytes = elements.and_then(|bytes| self.bytes.checked_add(bytes));
            self.bytes = bytes.ok_or_else(|| refused("it has more bytes than 64 bits count"))?;
        }
        if let Some(shape) = &first.shape {
            if let Some(other) = blocks.iter().find(|place| block(**place).shape != first.shape) {
                let (a, b) = (shape, &block(*other).shape);
                let b = b.as_ref().map_or("no global shape".into(), |b| format!("shape {b:?}"));
                let what = format!("rank {} writes it with shape {a:?}, rank {} with {b}", blocks[0].0, other.0);
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            let inside = |block: &Block| {
                let ends = block.offset.iter().zip(&block.count).map(|(offset, count)| offset.checked_add(*count));
                block.count.len() == shape.len()
                    && ends.zip(shape).all(|(end, extent)| end.is_some_and(|end| end <= *extent))
            };
            if let Some(place) = blocks.iter().find(|place| !inside(block(**place))) {
                let Block { offset, count, .. } = block(*place);
                let what = format!(
                    "the block of rank {} at {offset:?} with extents {count:?} does not lie in the array of shape {shape:?}",
                    place.0
                );
                return Err(Error::new(ErrorKind::OutOfBounds, what));
            }
            let volume = |extents: &[u64]| extents.iter().map(|extent| u128::from(*extent)).product::<u128>();
            let covered: u128 = blocks.iter().map(|place| volume(&block(*place).count)).sum();
            let bounds = |place: &(usize, usize)| {
                let Block { offset, count, .. } = block(*place);
                BoundingBox { offset: offset.clone(), count: count.clone() }
            };
            let all: Vec<BoundingBox> = blocks.iter().map(bounds).filter(|one| !one.count.contains(&0)).collect();
            // Blocks that meet may leave holes whatever their extents are.
            let has_holes = covered < volume(shape) || boxes::meets_another(&all).is_some();
            let array =
                Array { name: name.into(), kind, shape: shape.clone(), has_steps: true, axes: axes(shape), attributes };
            return self.array(rules, array, blocks, has_holes);
        }
        if let [one] = blocks {
            let shape = first.count.clone();
            let array = Array { name: name.into(), kind, has_steps: true, axes: axes(&shape), shape, attributes };
            return self.array(rules, array, &[*one], false);
        }
        for (number, place) in blocks.iter().enumerate() {
            let shape = block(*place).count.clone();
            if block(*place).shape.is_some() {
                return Err(Error::new(ErrorKind::InvalidArgument, "blocks of it are local and global"));
            }
            let name = format!("{name}/step_{}/block_{number}", self.content.step);
            let attributes = attributes.clone();
            let array = Array { name, kind, shape, has_steps: false, axes: None, attributes };
            self.array(rules, array, &[*place], false)?;
        }
        Ok(())
    }

    fn array(&mut self, rules: &Rules, array: Array, blocks: &[(usize, usize)], has_holes: bool) -> Result<()> {
        if array.shape.len() + usize::from(array.has_steps) > rules.axes {
            return Err(refused(format!("{} has at most {} axes", rules.format, rules.axes)));
        }
        if array.shape.iter().any(|extent| *extent > i64::MAX as u64) {
            return Err(refused(format!("one of its extents is larger than any of {}", rules.format)));
        }
        for (rank, block) in blocks {
            self.arrays[*rank][*block] = Some(self.content.arrays.len());
        }
        self.content.arrays.push(array);
        self.have_holes.push(has_holes);
        Ok(())
    }

    /// A variable with one value for each step: the first rank's.
    fn single<'b>(
        &mut self,
        name: &str,
        kind: Kind,
        mut blocks: impl Iterator<Item = &'b Block>,
        attributes: Vec<Attribute>,
    ) -> Result<()> {
        let lost = || Error::new(ErrorKind::InvalidArgument, "a single value is missing");
        let value = blocks.next().and_then(|block| block.value.clone()).ok_or_else(lost)?;
        self.bytes += kind.size();
        if blocks.any(|block| !block.is_dimension && block.value.as_ref() != Some(&value)) {
            let why = "each rank has its own value: that of the first rank is kept".to_string();
            self.left_out.push((name.into(), why));
        }
        self.content.values.push(Single { name: name.into(), kind, value, attributes });
        Ok(())
    }
}

/// The attributes of a group by their full names; those that name a variable have its value.
pub fn attributes(all: &[thalweg_movement::pack::AttributeSpec], values: &[(u32, Value)]) -> Attributes {
    let own = all.iter().filter(|one| !full_name(&one.path, &one.name).starts_with("__adios__"));
    own.filter_map(|one| {
        let value = match &one.value {
            AttributeValue::Variable(id) => {
                AttributeValue::One(values.iter().find(|(own, _)| own == id).map(|(_, value)| value.clone())?)
            }
            value => value.clone(),
        };
        Some((full_name(&one.path, &one.name), value))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_views::hdf5::is_no_name;

    const RULES: Rules = Rules { format: "HDF5", is_no_name, axes: 32, has_groups: true, attributes: None };

    fn block(name: &str, count: &[u64], of: Option<(&[u64], &[u64])>) -> Block {
        Block {
            name: name.into(),
            element: ElementType::F64.code(),
            count: count.to_vec(),
            shape: of.map(|(shape, _)| shape.to_vec()),
            offset: of.map_or(vec![0; count.len()], |(_, offset)| offset.to_vec()),
            value: None,
            is_dimension: false,
        }
    }

    fn scalar(name: &str, value: f64) -> Block {
        let value = Values::of(ElementType::F64, &[Value::F64(value)]);
        Block { value, ..block(name, &[], None) }
    }

    fn text(text: &str) -> AttributeValue {
        AttributeValue::One(Value::String(text.into()))
    }

    #[test]
    fn arrays_of_all_ranks_are_one_and_blocks_know_it() {
        let ranks = [
            vec![scalar("t", 1.5), block("g/T", &[2, 3], Some((&[4, 3], &[0, 0])))],
            vec![block("g/T", &[1, 3], Some((&[4, 3], &[2, 0]))), scalar("t", 1.5)],
        ];
        let attributes =
            [("g/T/units".to_string(), text("K")), ("made".into(), text("here")), (format!("g/T/{AXES}"), text("y x"))];
        let made = planned(&ranks, &attributes, 7, &RULES).unwrap();
        assert_eq!(made.arrays, [vec![None, Some(0)], vec![Some(0), None]]);
        assert_eq!((&made.have_holes[..], made.bytes, made.left_out.len()), (&[true][..], 8 * (6 + 3) + 8, 0));
        let [array] = &made.content.arrays[..] else { panic!("one array") };
        assert_eq!((&*array.name, &array.shape[..], array.has_steps), ("g/T", &[4, 3][..], true));
        assert_eq!(array.axes.as_deref(), Some(&["y".to_string(), "x".to_string()][..]));
        assert_eq!(array.attributes.iter().map(|a| &*a.key).collect::<Vec<_>>(), ["units"]);
        assert_eq!(made.content.attributes.iter().map(|a| &*a.key).collect::<Vec<_>>(), ["made"]);
        assert_eq!(made.content.values.len(), 1);
    }

    #[test]
    fn blocks_that_meet_may_leave_holes() {
        let of = |first: u64, count: u64| block("a", &[count], Some((&[10], &[first])));
        let has_holes = |ranks: &[Vec<Block>]| planned(ranks, &[], 0, &RULES).unwrap().have_holes;
        assert_eq!(has_holes(&[vec![of(0, 6)], vec![of(2, 4)]]), [true]);
        assert_eq!(has_holes(&[vec![of(0, 6)], vec![of(6, 4)], vec![of(3, 0)]]), [false]);
        assert_eq!(has_holes(&[vec![of(0, 6)], vec![of(7, 3)]]), [true]);
    }

    #[test]
    fn local_blocks_are_arrays_of_their_own_where_there_are_several() {
        let ranks = [vec![block("a", &[2], None)], vec![block("a", &[0], None), block("b", &[5], None)]];
        let made = planned(&ranks, &[], 3, &RULES).unwrap();
        let names: Vec<_> = made.content.arrays.iter().map(|a| (&*a.name, a.has_steps)).collect();
        assert_eq!(names, [("a/step_3/block_0", false), ("a/step_3/block_1", false), ("b", true)]);
        assert_eq!(made.arrays, [vec![Some(0)], vec![Some(1), Some(2)]]);
    }

    #[test]
    fn what_a_file_cannot_hold_is_refused_with_its_name_and_what_it_keeps_in_part_is_told() {
        let kind = |ranks: &[Vec<Block>]| planned(ranks, &[], 0, &RULES).unwrap_err();
        let other = Block { element: ElementType::LongDouble.code(), ..block("l", &[1], None) };
        let cases = [
            (vec![vec![other]], ErrorKind::Unsupported),
            (vec![vec![block("a", &[1], None), block("a/b", &[1], None)]], ErrorKind::Unsupported),
            (vec![vec![block("a//b", &[1], None)]], ErrorKind::Unsupported),
            (vec![vec![block("a", &[1], Some((&[4], &[4])))]], ErrorKind::OutOfBounds),
            (
                vec![vec![block("a", &[1], Some((&[4], &[0]))), block("a", &[1], Some((&[5], &[0])))]],
                ErrorKind::InvalidArgument,
            ),
            (
                vec![vec![block("a", &[1], None)], vec![block("a", &[1], Some((&[5], &[0])))]],
                ErrorKind::InvalidArgument,
            ),
        ];
        for (ranks, wanted) in cases {
            let e = kind(&ranks);
            assert_eq!((e.kind(), e.place().variable.is_some()), (wanted, true), "{e}");
        }
        let made = planned(&[vec![scalar("t", 1.0)], vec![scalar("t", 2.0)]], &[], 0, &RULES).unwrap();
        assert_eq!(made.left_out.len(), 1);
    }
}
