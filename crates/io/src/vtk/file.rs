//! The files of a step: one for each grid, in VTK's XML with the values as raw bytes behind it. Pure.
//!
//! | of the step | in the files |
//! |---|---|
//! | arrays on a mesh | a file of its grid, as [`thalweg_views::mesh`] has it: `.vti`, `.vtr` or `.vts` |
//! | arrays without a mesh | a file for all of the same shape: `.vti` |
//! | scalars, texts | `FieldData` of each file, and the time as `TimeValue` |
//! | attribute `units` | `UNITS_LABEL` of its array |
//!
//! Source: Kitware, VTK file formats, "XML File Formats".

use crate::whole_arrays::Part;
use crate::whole_arrays::content::{Content, Single};
use crate::whole_arrays::places::Places;
use std::fmt::Write as _;
use thalweg_schema::escape::{escaped, is_allowed};
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::hdf5::{Attribute, Kind, Values};
use thalweg_views::mesh::{Array, Centering, Facts, Geometry, Grid, MOST, Points, grid, is_number, named};

/// Values begin at multiples of it.
const ALIGNMENT: u64 = 64;
/// Bytes of the length in front of values.
const LENGTH: u64 = 8;
/// Behind the values.
const TAIL: &str = "\n  </AppendedData>\n</VTKFile>\n";

/// The file of a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct GridFile {
    /// Mesh or shape, for its name.
    pub name: String,
    /// `vti`, `vtr` or `vts`.
    pub ending: &'static str,
    /// Bytes at positions that are known before any array is written: the XML, lengths, values of scalars.
    pub known: Vec<(u64, Vec<u8>)>,
    /// The arrays.
    pub(crate) parts: Vec<Part>,
}

/// What a step becomes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Files {
    /// One for each grid.
    pub files: Vec<GridFile>,
    /// What no file has, with the reason.
    pub left_out: Vec<(String, String)>,
}

fn refused(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, what.into())
}

/// The value of a scalar of the step, by its name as a mesh gives it.
pub fn scalar(content: &Content, name: &str) -> Option<f64> {
    let at = named(content.values.iter().map(|one| one.name.as_str()), name)?;
    content.values[at].value.number_of(content.values[at].kind)
}

/// The files of a step.
///
/// - `time`: when it is.
///
/// # Errors
/// `Unsupported` for a mesh that VTK cannot have or that lacks its variables, and for a step without any array on a grid.
pub fn files(content: &Content, facts: &Facts, time: f64) -> Result<Files> {
    let mut made = Files::default();
    let arrays: Vec<Array<'_>> = content
        .arrays
        .iter()
        .map(|one| {
            let fits = one.has_steps && is_number(one.kind) && (1..=3).contains(&one.shape.len());
            let is_field = fits && one.shape.iter().all(|extent| (1..=MOST).contains(extent));
            Array { name: &one.name, kind: one.kind, space: &one.shape, is_field }
        })
        .collect();
    let number = |name: &str| scalar(content, name);
    let mut grids: Vec<(String, Grid)> = Vec::new();
    for array in &arrays {
        if let Some(mesh) = facts.mesh_of(array.name).filter(|mesh| !grids.iter().any(|(name, _)| name == mesh)) {
            let own = grid(&arrays, facts, &number, Some(mesh)).map_err(|e| e.in_variable(array.name))?;
            grids.push((mesh.to_string(), own));
        }
    }
    // Of the others, those of one shape are on one grid.
    let is_of_a_mesh =
        |at: usize| facts.mesh_of(arrays[at].name).is_some() || grids.iter().any(|(_, grid)| grid.geometry.has(at));
    let mut shapes: Vec<(&[u64], Vec<usize>)> = Vec::new();
    for at in (0..arrays.len()).filter(|at| !is_of_a_mesh(*at)) {
        let space = arrays[at].space;
        match shapes.iter_mut().find(|(known, _)| *known == space) {
            _ if !arrays[at].is_field => made.left_out.push(unfit(content, at)),
            Some((_, alike)) => alike.push(at),
            None => shapes.push((space, vec![at])),
        }
    }
    for (space, alike) in shapes {
        let mut own = arrays.clone();
        own.iter_mut().enumerate().for_each(|(at, array)| array.is_field = alike.contains(&at));
        let name = space.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        grids.push((name, grid(&own, facts, &number, None)?));
    }
    for (name, grid) in grids {
        made.left_out.extend(grid.left_out.iter().map(|one| (one.name.clone(), one.why.clone())));
        if !grid.fields.is_empty() {
            made.files.push(file(content, name, &grid, time)?);
        }
    }
    if made.files.is_empty() {
        let why = made.left_out.first().map(|(name, why)| format!(": {name}: {why}")).unwrap_or_default();
        return Err(refused(format!("VTK shows arrays on grids, and the step has none{why}")));
    }
    Ok(made)
}

/// The name of an array that no grid has, and why.
fn unfit(content: &Content, at: usize) -> (String, String) {
    let one = &content.arrays[at];
    if !one.has_steps {
        let name = one.name.rsplit_once("/step_").map_or(&*one.name, |(name, _)| name);
        return (name.into(), "several blocks without a global shape are no array on a grid".into());
    }
    let why = match one.shape.len() {
        _ if !is_number(one.kind) => "VTK has no such type".to_string(),
        1..=3 if one.shape.contains(&0) => "it has no elements".to_string(),
        1..=3 => format!("VTK counts at most {MOST} points along an axis"),
        axes => format!("a grid of VTK has one to three axes, not {axes}"),
    };
    (one.name.clone(), why)
}

/// A file while its values get their places.
struct Laid {
    known: Vec<(u64, Vec<u8>)>,
    parts: Vec<Part>,
    /// Bytes behind the begin of the appended data.
    end: u64,
}

impl Laid {
    /// Room for values: the offset that the XML tells.
    fn room(&mut self, bytes: u64) -> Result<u64> {
        let too_large = || refused("a file of more than 2^63 bytes");
        let first = (self.end + LENGTH).next_multiple_of(ALIGNMENT);
        let end = first.checked_add(bytes).filter(|end| *end < 1 << 63).ok_or_else(too_large)?;
        self.end = end;
        self.known.push((first - LENGTH, bytes.to_ne_bytes().to_vec()));
        Ok(first - LENGTH)
    }

    fn values(&mut self, bytes: Vec<u8>) -> Result<u64> {
        let offset = self.room(bytes.len() as u64)?;
        self.known.push((offset + LENGTH, bytes));
        Ok(offset)
    }

    /// Arrays of the step, as components if they are several.
    fn arrays(&mut self, content: &Content, arrays: Vec<Option<usize>>) -> Result<(Kind, u64)> {
        let mut own = arrays.iter().flatten().map(|at| &content.arrays[*at]);
        let first = own.next().ok_or_else(|| refused("a grid without points"))?;
        if let Some(other) = own.find(|other| other.kind != first.kind) {
            let what = format!("the variables '{}' and '{}' of a mesh have different types", first.name, other.name);
            return Err(refused(what));
        }
        let mut shape = first.shape.clone();
        if arrays.len() > 1 {
            shape.push(arrays.len() as u64);
        }
        let bytes = shape.iter().try_fold(first.kind.size(), |all, extent| all.checked_mul(*extent));
        let offset = self.room(bytes.ok_or_else(|| refused("an array of more than 2^64 bytes"))?)?;
        let places = Places { rows: shape[0], chunks: vec![offset + LENGTH], skipped: Vec::new() };
        let (name, kind) = (first.name.clone(), first.kind);
        self.parts.push(Part { name, file: 0, arrays, kind, shape, places });
        Ok((kind, offset))
    }
}

fn file(content: &Content, name: String, grid: &Grid, time: f64) -> Result<GridFile> {
    if !is_allowed(&name) {
        return Err(refused(format!("the name of the mesh {name:?} has characters that no XML has")));
    }
    let mut laid = Laid { known: Vec::new(), parts: Vec::new(), end: 0 };
    let (kind, ending) = match grid.geometry {
        Geometry::Uniform { .. } => ("ImageData", "vti"),
        Geometry::Rectilinear { .. } => ("RectilinearGrid", "vtr"),
        Geometry::Structured { .. } => ("StructuredGrid", "vts"),
        Geometry::Unstructured { .. } => {
            let what = "the method writes no unstructured meshes; `thalweg view vtk` shows those of BP files";
            return Err(refused(what));
        }
    };
    let [x, y, z] = grid.extents().map(|extent| extent - 1);
    let whole = format!("0 {x} 0 {y} 0 {z}");
    let order = if cfg!(target_endian = "big") { "BigEndian" } else { "LittleEndian" };
    let mut xml = format!(
        "<?xml version=\"1.0\"?>\n<VTKFile type=\"{kind}\" version=\"1.0\" byte_order=\"{order}\" header_type=\"UInt64\">\n  \
         <{kind} WholeExtent=\"{whole}\""
    );
    if let Geometry::Uniform { origin: [ox, oy, oz], spacing: [sx, sy, sz] } = grid.geometry {
        let _ = write!(xml, " Origin=\"{ox} {oy} {oz}\" Spacing=\"{sx} {sy} {sz}\"");
    }
    xml.push_str(">\n    <FieldData>\n");
    let offset = laid.values(time.to_ne_bytes().to_vec())?;
    let _ = writeln!(
        xml,
        "      <DataArray type=\"Float64\" Name=\"TimeValue\" NumberOfTuples=\"1\" format=\"appended\" offset=\"{offset}\"/>"
    );
    for one in content.values.iter().filter(|one| one.name != "TimeValue") {
        field_value(&mut xml, &mut laid, one)?;
    }
    let _ = write!(xml, "    </FieldData>\n    <Piece Extent=\"{whole}\">\n");
    for at in [Centering::Points, Centering::Cells] {
        let group = at.group();
        let _ = writeln!(xml, "      <{group}>");
        for field in grid.fields.iter().filter(|field| field.at == at) {
            let (kind, offset) = laid.arrays(content, vec![Some(field.array)])?;
            let units = units(&content.arrays[field.array].attributes);
            array(&mut xml, kind, &field.name, 1, offset, units.as_deref());
        }
        let _ = writeln!(xml, "      </{group}>");
    }
    match &grid.geometry {
        Geometry::Uniform { .. } | Geometry::Unstructured { .. } => {}
        Geometry::Rectilinear { coordinates } => {
            xml.push_str("      <Coordinates>\n");
            for axis in 0..3 {
                let name = ["x", "y", "z"][axis];
                match coordinates.get(axis) {
                    Some(own) => {
                        let (kind, offset) = laid.arrays(content, vec![Some(*own)])?;
                        array(&mut xml, kind, name, 1, offset, None);
                    }
                    None => {
                        let offset = laid.values(0f64.to_ne_bytes().to_vec())?;
                        array(&mut xml, Kind::Real(8, false), name, 1, offset, None);
                    }
                }
            }
            xml.push_str("      </Coordinates>\n");
        }
        Geometry::Structured { points } => {
            let arrays = match points {
                Points::Together(one) => vec![Some(*one)],
                Points::Apart(several) => (0..3).map(|axis| several.get(axis).copied()).collect(),
            };
            let (kind, offset) = laid.arrays(content, arrays)?;
            xml.push_str("      <Points>\n");
            array(&mut xml, kind, "Points", 3, offset, None);
            xml.push_str("      </Points>\n");
        }
    }
    let _ = write!(xml, "    </Piece>\n  </{kind}>\n  <AppendedData encoding=\"raw\">\n");
    // The values begin behind an underscore, where it makes their positions multiples of the alignment.
    let begin = (xml.len() as u64 + 1).next_multiple_of(ALIGNMENT);
    xml.extend(std::iter::repeat_n(' ', (begin - 1) as usize - xml.len()));
    xml.push('_');
    let Laid { mut known, mut parts, end } = laid;
    known.iter_mut().for_each(|(at, _)| *at += begin);
    parts.iter_mut().flat_map(|part| &mut part.places.chunks).for_each(|at| *at += begin);
    known.insert(0, (0, xml.into_bytes()));
    known.push((begin + end, TAIL.as_bytes().to_vec()));
    Ok(GridFile { name, ending, known, parts })
}

/// The name of a type.
fn type_of(kind: Kind) -> String {
    match kind {
        Kind::Integer(bytes, true, _) => format!("Int{}", 8 * bytes),
        Kind::Integer(bytes, false, _) => format!("UInt{}", 8 * bytes),
        kind => format!("Float{}", 8 * kind.size()),
    }
}

fn array(xml: &mut String, kind: Kind, name: &str, components: u64, offset: u64, units: Option<&str>) {
    let (kind, name) = (type_of(kind), escaped(name));
    let _ = write!(xml, "        <DataArray type=\"{kind}\" Name=\"{name}\"");
    if components > 1 {
        let _ = write!(xml, " NumberOfComponents=\"{components}\"");
    }
    let _ = write!(xml, " format=\"appended\" offset=\"{offset}\"");
    match units {
        Some(units) => {
            let units = escaped(units).replace('>', "&gt;");
            let _ = writeln!(
                xml,
                ">\n          <InformationKey name=\"UNITS_LABEL\" location=\"vtkDataArray\">{units}</InformationKey>\n        \
                 </DataArray>"
            );
        }
        None => xml.push_str("/>\n"),
    }
}

fn units(attributes: &[Attribute]) -> Option<String> {
    let one = attributes.iter().find(|one| one.key == "units")?;
    match &one.values {
        Values::Texts(texts) => texts.first().filter(|text| is_allowed(text)).cloned(),
        Values::Bytes(_) => None,
    }
}

/// A scalar or text.
fn field_value(xml: &mut String, laid: &mut Laid, one: &Single) -> Result<()> {
    let name = escaped(&one.name);
    match &one.value {
        Values::Texts(texts) => {
            // Codes of the bytes, each text with a 0 behind it.
            let codes: Vec<String> =
                texts.iter().flat_map(|text| text.bytes().chain([0])).map(|byte| byte.to_string()).collect();
            let (number, codes) = (texts.len(), codes.join(" "));
            let _ = writeln!(
                xml,
                "      <Array type=\"String\" Name=\"{name}\" NumberOfTuples=\"{number}\" format=\"ascii\">{codes}</Array>"
            );
        }
        values if is_number(one.kind) => {
            let bytes = values.bytes().ok_or_else(|| refused("the value of a scalar is lost"))?;
            let offset = laid.values(bytes)?;
            let _ = writeln!(
                xml,
                "      <DataArray type=\"{}\" Name=\"{name}\" NumberOfTuples=\"1\" format=\"appended\" offset=\"{offset}\"/>",
                type_of(one.kind)
            );
        }
        // Complex numbers, letters.
        values => {
            let bytes = values.bytes().unwrap_or_default();
            let components = if matches!(one.kind, Kind::Complex(..)) { 2 } else { 1 };
            let kind = match one.kind {
                Kind::Complex(bytes, order) => Kind::Real(bytes, order),
                _ => Kind::Integer(1, true, false),
            };
            let offset = laid.values(bytes)?;
            let _ = writeln!(
                xml,
                "      <DataArray type=\"{}\" Name=\"{name}\" NumberOfComponents=\"{components}\" NumberOfTuples=\"1\" format=\"appended\" offset=\"{offset}\"/>",
                type_of(kind)
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whole_arrays::content;
    use proptest::prelude::*;
    use thalweg_types::{ElementType, Value};

    fn array(name: &str, shape: &[u64]) -> content::Array {
        let (kind, shape) = (Kind::Real(8, false), shape.to_vec());
        content::Array { name: name.into(), kind, shape, has_steps: true, axes: None, attributes: Vec::new() }
    }

    fn facts(all: &[(&str, &str)]) -> Facts {
        let texts = all.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        Facts { texts, is_fortran: false }
    }

    /// The ranges of a file that are written, sorted.
    fn ranges(file: &GridFile) -> Vec<std::ops::Range<u64>> {
        let of = |part: &Part| {
            let bytes: u64 = part.shape.iter().product::<u64>() * part.kind.size();
            part.places.chunks[0]..part.places.chunks[0] + bytes
        };
        let known = file.known.iter().map(|(at, bytes)| *at..*at + bytes.len() as u64);
        let mut all: Vec<_> = known.chain(file.parts.iter().map(of)).collect();
        all.sort_by_key(|range| range.start);
        all
    }

    proptest! {
        #[test]
        fn values_lie_behind_their_lengths_and_on_nothing_else(
            shapes in prop::collection::vec(prop::collection::vec(1u64..9, 1..4), 1..6),
            scalars in 0usize..5,
        ) {
            let arrays = shapes.iter().enumerate().map(|(n, shape)| array(&format!("v{n}"), shape)).collect();
            let values = (0..scalars).map(|n| Single {
                name: format!("s{n}"),
                kind: Kind::Integer(4, true, false),
                value: Values::of(ElementType::I32, &[Value::I32(n as i32)]).unwrap(),
                attributes: Vec::new(),
            });
            let content = Content { arrays, values: values.collect(), ..Content::default() };
            let made = files(&content, &Facts::default(), 0.5).unwrap();
            let parts: usize = made.files.iter().map(|file| file.parts.len()).sum();
            prop_assert_eq!(parts, shapes.len());
            for file in &made.files {
                let all = ranges(file);
                for (one, next) in all.iter().zip(&all[1..]) {
                    prop_assert!(one.end <= next.start, "{one:?} {next:?}");
                }
                let text = String::from_utf8(file.known[0].1.clone()).unwrap();
                prop_assert!(text.ends_with('_'));
                // The offsets that the XML tells lead to lengths, and the values behind them.
                let lengths: Vec<(u64, u64)> = file.known[1..]
                    .iter()
                    .filter(|(_, bytes)| bytes.len() == 8)
                    .map(|(at, bytes)| (*at, u64::from_ne_bytes(bytes[..].try_into().unwrap())))
                    .collect();
                for told in text.split("offset=\"").skip(1) {
                    let offset: u64 = told.split('"').next().unwrap().parse().unwrap();
                    let at = text.len() as u64 + offset;
                    let length = lengths.iter().find(|(own, _)| *own == at).map(|(_, length)| *length);
                    prop_assert!(all.iter().any(|range| range.start == at + 8 && Some(range.end - range.start) == length));
                }
            }
        }
    }

    #[test]
    fn arrays_of_a_mesh_have_a_file_others_one_for_each_shape_and_coordinates_none() {
        let arrays = ["T", "x", "a", "b", "c"].map(String::from);
        let shapes: [&[u64]; 5] = [&[3], &[3], &[3], &[2, 2], &[3]];
        let arrays = arrays.iter().zip(shapes).map(|(name, shape)| array(name, shape)).collect();
        let content = Content { arrays, ..Content::default() };
        let facts = facts(&[
            ("T/adios_schema", "m"),
            ("adios_schema/m/type", "rectilinear"),
            ("adios_schema/m/dimensions0", "3"),
            ("adios_schema/m/coords-single-var", "x"),
        ]);
        let made = files(&content, &facts, 0.0).unwrap();
        let found: Vec<_> = made
            .files
            .iter()
            .map(|file| {
                (&*file.name, file.ending, file.parts.iter().map(|part| part.arrays[0].unwrap()).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(found, [("m", "vtr", vec![0, 1]), ("3", "vti", vec![2, 4]), ("2x2", "vti", vec![3])]);
    }

    #[test]
    fn components_of_points_have_one_type() {
        let mut y = array("y", &[3]);
        y.kind = Kind::Real(4, false);
        let content = Content { arrays: vec![array("T", &[3]), array("x", &[3]), y], ..Content::default() };
        let facts = facts(&[
            ("T/adios_schema", "m"),
            ("adios_schema/m/type", "structured"),
            ("adios_schema/m/points-multi-var0", "x"),
            ("adios_schema/m/points-multi-var1", "y"),
        ]);
        let e = files(&content, &facts, 0.0).unwrap_err();
        assert!(e.kind() == ErrorKind::Unsupported && e.what().contains("different types"), "{e}");
    }
}
