//! Slices applied to the contents of a file: steps, blocks, box.

use crate::file;
use crate::format;
use crate::outcome::Failure;
use crate::slice::{Pick, Picked, Slice};
use crate::terminal::plain;
use thalweg_choice::region::StridedBox;
use thalweg_reader::{Kind, Reader, Variable};
use thalweg_report::text::{self, count};
use thalweg_types::BoundingBox;

/// A slice and its text: the text may be a name with brackets in it.
pub struct NamedSlice {
    text: String,
    slice: Option<Slice>,
    mistake: String,
}

impl NamedSlice {
    /// Whether it is a name alone.
    pub fn is_name(&self) -> bool {
        self.slice.as_ref().is_none_or(|slice| slice.picks.is_empty())
    }

    /// The name of the attribute that is meant, if no variable is.
    pub fn attribute<'a>(&self, reader: &'a Reader) -> Option<&'a str> {
        let name = self.slice.as_ref().map_or(&self.text, |slice| &slice.name);
        let is_variable = [&self.text, name].iter().any(|name| file::known(reader.variables(), name).is_some());
        if is_variable { None } else { file::known(reader.attributes(), &self.text) }
    }
}

/// Reads a slice.
///
/// # Errors
/// As [`parse_all`].
pub fn parse(text: &str) -> Result<NamedSlice, Failure> {
    let mut one = parse_all(&[text.to_string()])?;
    one.pop().ok_or_else(|| Failure::Usage("an empty name".into()))
}

/// Reads all slices.
///
/// # Errors
/// `Usage` for a text that is no slice and, except if only the closing bracket is missing, cannot be a name either.
pub fn parse_all(texts: &[String]) -> Result<Vec<NamedSlice>, Failure> {
    texts
        .iter()
        .map(|text| match Slice::parse(text) {
            Ok(slice) => Ok(NamedSlice { text: text.clone(), slice: Some(slice), mistake: String::new() }),
            // A name may end in brackets that are no slice; the file decides.
            Err(mistake) if text.ends_with(']') => Ok(NamedSlice { text: text.clone(), slice: None, mistake }),
            Err(mistake) => Err(Failure::Usage(mistake)),
        })
        .collect()
}

/// The part of a variable to print.
pub struct ResolvedSlice {
    /// The variable.
    pub variable: Variable,
    /// The selected steps in which it was written.
    pub steps: Vec<u64>,
    /// Whether the slice has a range of steps, not one.
    pub keeps_steps: bool,
    /// Whether values that no block covers are printed, however many they are.
    fill: bool,
    /// Which blocks, for local arrays.
    block: Pick,
    /// The indices of each dimension; missing dimensions are whole.
    dimensions: Vec<Pick>,
}

/// One box of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepBox {
    /// The step.
    pub step: u64,
    /// The block, for local arrays.
    pub block: Option<u64>,
    /// Shape of the array, or of the block.
    pub shape: Vec<u64>,
    /// The elements in it.
    pub area: StridedBox,
    /// Which dimensions stay.
    pub keeps: Vec<bool>,
}

impl StepBox {
    /// Extents of the dimensions that stay.
    pub fn remaining_extents(&self) -> Vec<u64> {
        self.area.count.iter().zip(&self.keeps).filter(|(_, k)| **k).map(|(c, _)| *c).collect()
    }
}

impl ResolvedSlice {
    /// Resolves a slice.
    ///
    /// - `fill`: also where it is nearly all of elements that no block covers.
    ///
    /// # Errors
    /// `Absent` for a missing variable, step or index; `Usage` for an invalid slice of this variable.
    pub fn find(reader: &Reader, wanted: &NamedSlice, fill: bool) -> Result<ResolvedSlice, Failure> {
        let heads = reader.variables();
        let whole = Slice { name: wanted.text.clone(), picks: Vec::new() };
        let (name, slice) = match (heads.iter().find(|h| h.name == wanted.text), &wanted.slice) {
            (Some(head), _) => (head.name.as_str(), &whole),
            (None, Some(slice)) => {
                (file::known(heads, &slice.name).ok_or_else(|| file::absent("variable", heads, &slice.name))?, slice)
            }
            (None, None) => return Err(Failure::Usage(wanted.mistake.clone())),
        };
        let variable = reader.variable(name)?;
        let mut picks = slice.picks.iter().copied();
        let step_pick = picks.next().unwrap_or(Pick::ALL);
        let all = reader.status().steps;
        let shown = plain(name);
        let Some(picked) = step_pick.of(all) else {
            return Err(Failure::Absent(format!(
                "'{shown}': no step {step_pick}; the file has {}",
                count(all, "step")
            )));
        };
        let steps: Vec<u64> = variable.steps.iter().copied().filter(|s| picked.contains(*s)).collect();
        if steps.is_empty() {
            let there = text::steps(&variable.steps);
            return Err(Failure::Absent(format!("'{shown}' is not in step {step_pick}; it is in {there}")));
        }
        if variable.kind == Kind::Scalar && slice.picks.len() > 1 {
            let given = slice.picks.len();
            return Err(Failure::Absent(format!(
                "'{shown}' is a scalar: it has steps alone; the slice has {given} indices"
            )));
        }
        let block = if variable.kind == Kind::Local { picks.next().unwrap_or(Pick::ALL) } else { Pick::ALL };
        Ok(ResolvedSlice { steps, keeps_steps: picked.keeps, fill, block, dimensions: picks.collect(), variable })
    }

    /// One value each step.
    pub fn is_scalar(&self) -> bool {
        self.variable.kind == Kind::Scalar
    }

    /// Whether the slice has a range of blocks; only local arrays have blocks of their own.
    pub fn keeps_blocks(&self) -> bool {
        self.variable.kind == Kind::Local && matches!(self.block, Pick::Range(..))
    }

    /// The boxes of one step; several for local arrays.
    ///
    /// # Errors
    /// `Absent` where a single index is not there in this step, or where nearly nothing of a large box is in the file.
    pub fn pieces(&self, reader: &Reader, step: u64) -> Result<Vec<StepBox>, Failure> {
        let name = &self.variable.name;
        if self.variable.kind != Kind::Local {
            let shape = reader.shape(name, step)?;
            let piece = self.piece(step, None, shape)?;
            if !self.fill {
                self.check_covered(reader, &piece)?;
            }
            return Ok(vec![piece]);
        }
        let blocks = reader.blocks(name, step)?;
        let Some(picked) = self.block.of(blocks.len() as u64) else {
            let there = count(blocks.len() as u64, "block");
            let what = format!("'{}' has {there} in step {step}, no block {}", plain(name), self.block);
            return Err(Failure::Absent(what));
        };
        blocks
            .iter()
            .enumerate()
            .filter(|(number, _)| picked.contains(*number as u64))
            .map(|(_, b)| self.piece(step, Some(b.number), b.count.clone()))
            .collect()
    }

    /// A shape may be any number: the printed elements are limited to those that blocks cover.
    fn check_covered(&self, reader: &Reader, piece: &StepBox) -> Result<(), Failure> {
        /// Elements that are printed even if no block covers them.
        const FEW: u64 = 1 << 20;
        /// How many elements are printed for each that a block covers.
        const MOST: u64 = 16;
        let wanted = piece.area.elements().unwrap_or(u64::MAX);
        if self.variable.kind != Kind::Global || wanted <= FEW {
            return Ok(());
        }
        let mut covered = 0u64;
        reader.for_each_block(&self.variable.name, piece.step..piece.step + 1, &mut |block| {
            let area = BoundingBox::new(block.offset, block.count);
            let is_of_rank = area.rank() == piece.shape.len();
            let inside = if is_of_rank { piece.area.within(&area) } else { None };
            covered = covered.saturating_add(inside.and_then(|b| b.elements()).unwrap_or(0));
            Ok(())
        })?;
        if covered.saturating_mul(MOST) >= wanted {
            return Ok(());
        }
        let (name, step) = (plain(&self.variable.name), piece.step);
        let what = format::lattice(&piece.area);
        Err(Failure::Absent(format!(
            "'{name}', step {step}: blocks cover {covered} of the {wanted} elements of {what}; ask for the part that they \
             cover (`thalweg ls -v` lists blocks), or for all with --fill"
        )))
    }

    fn piece(&self, step: u64, block: Option<u64>, shape: Vec<u64>) -> Result<StepBox, Failure> {
        let name = plain(&self.variable.name);
        if self.dimensions.len() > shape.len() {
            let have = match shape.len() {
                n if block.is_some() => format!("has steps, blocks and {}", count(n as u64, "dimension")),
                n => format!("has steps and {}", count(n as u64, "dimension")),
            };
            let given = self.dimensions.len() + 1 + usize::from(block.is_some());
            return Err(Failure::Absent(format!("'{name}' {have}; the slice has {given} indices")));
        }
        let area = StridedBox { start: Vec::new(), stride: Vec::new(), count: Vec::new() };
        let mut piece = StepBox { step, block, area, keeps: Vec::new(), shape };
        for (d, extent) in piece.shape.iter().enumerate() {
            let pick = self.dimensions.get(d).copied().unwrap_or(Pick::ALL);
            let Some(Picked { start, stride, count, keeps }) = pick.of(*extent) else {
                let shape = format::shape(&piece.shape);
                return Err(Failure::Absent(format!(
                    "'{name}': no index {pick} in dimension {d}; the shape in step {step} is {shape}"
                )));
            };
            piece.area.start.push(start);
            piece.area.stride.push(stride);
            piece.area.count.push(count);
            piece.keeps.push(keeps);
        }
        Ok(piece)
    }
}
